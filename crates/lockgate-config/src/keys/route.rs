//! The keys that sites and their paths share: what answers, and what requests are held to.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::{Cidr, LimitScope, ProxyVersion};

use crate::model::Protocol;
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::answers::SECURE;
use super::tcp::{DESTINATION, Destination};
use super::{Defaulted, Key, Names, OFF, Row, answers, content, files, pool, shape, tcp, timeouts};

/// The keys that a site and each of its paths can have, in the order of the reference.
pub(crate) const ALL: &[Row] = &[
    PROXY.row(),
    files::ROOT.row(),
    REDIRECT.row(),
    RESPOND.row(),
    files::INDEX.row(),
    files::CLEAN_URLS.row(),
    files::TRY.row(),
    files::SPA.row(),
    files::NOT_FOUND.row(),
    files::LISTING.row(),
    files::HIDDEN.row(),
    files::SYMLINKS.row(),
    files::TYPES.row(),
    files::CHARSET.row(),
    files::PRECOMPRESSED.row(),
    answers::CACHE.row(),
    answers::COMPRESS.row(),
    answers::CORS.row(),
    content::REWRITE_BODY.row(),
    STRIP_PREFIX.row(),
    REWRITE.row(),
    HEADERS.row(),
    REQUEST_HEADERS.row(),
    BODY.row(),
    LIMIT.row(),
    shape::SHAPE.row(),
    AUTH.row(),
    ALLOW.row(),
    DENY.row(),
    TIMEOUTS.row(),
    REWRITE_LOCATION.row(),
    TRACE.row(),
    ERROR_PAGES.row(),
    REDIRECTS.row(),
    PATHS.row(),
];

/// A change to the fields of one name: nothing removes them, lines replace them, a table adds.
pub(crate) type FieldChange = Form<Option<Items<String>>>;

const LINES: OneOrMore<FieldValue> = OneOrMore(List {
    of: FieldValue,
    least: 1,
});

const FIELD: Short<Unless<False, OneOrMore<FieldValue>>> = Short {
    short: Unless(False, LINES),
    long: TableOf(add::ALL),
};

const STATUS: Number<u16> = Number::new(200, 599);

/// A short form of `respond`.
#[derive(Debug, Clone)]
pub(crate) enum ShortResponse {
    Status(u16),
    Body(String),
}

const RESPONSE_SHORT: Either<ShortResponse> = Either(&[
    &As(STATUS, ShortResponse::Status),
    &As(Body, ShortResponse::Body),
]);

/// What becomes of paths that an origin could read otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawPaths {
    Refused,
    Sent,
}

pub(crate) const PROXY: Key<Form<Destination>> = Key::new(
    "proxy",
    &Short { short: DESTINATION, long: TableOf(proxy::ALL) },
    Absent("`root`, `redirect`, `respond`, or what the site says"),
    r#""unix:/run/app.sock""#,
    "Requests go to an application: `\"pool:NAME\"`, an address, a list of addresses or a table. An address is \
     `\"127.0.0.1:3000\"`, `\"[::1]:3000\"`, `\"app.internal:3000\"` or `\"unix:/run/app.sock\"`, never a URL.",
)
.inside(r#"to = "10.0.0.1:443""#);

pub(crate) const REDIRECT: Key<Form<String>> = Key::new(
    "redirect",
    &Short { short: Template, long: TableOf(redirect::ALL) },
    Absent("`proxy`, `root`, `respond`, or what the site says"),
    r#""https://www.example.org{path}""#,
    "Requests are sent elsewhere, with 308. `{host}`, `{path}` and `{query}` stand for those of the request, `{*}` for \
     what the `*` of the path matched (in a site itself: the path without its first `/`), `{id}` for a parameter.",
)
.inside(r#"to = "https://www.example.org{path}""#);

pub(crate) const RESPOND: Key<Form<ShortResponse>> = Key::new(
    "respond",
    &Short {
        short: RESPONSE_SHORT,
        long: TableOf(respond::ALL),
    },
    Absent("`proxy`, `root`, `redirect`, or what the site says"),
    r#"{ status = 200, body = "hello {client}\n", type = "text/plain" }"#,
    "Requests are answered here. The short forms are a body and a status.",
)
.inside(r#"body = "hello\n""#);

pub(crate) const STRIP_PREFIX: Defaulted<bool> = Key::defaulted(
    "strip_prefix",
    &Flag,
    "false",
    "true",
    "Whether the path is sent on, or looked for in `root`, without what stands before `/*`.",
);

pub(crate) const REWRITE: Defaulted<Option<String>> = Key::defaulted(
    "rewrite",
    &Unless(False, Template),
    "false",
    r#""/v1/{*}""#,
    "The path that the application sees, with the placeholders of `redirect`; without a `?` in it the query is kept.",
);

pub(crate) const HEADERS: Defaulted<MapOf<FieldChange>> = Key::defaulted(
    "headers",
    &Map {
        names: Names::AnswerFields,
        of: FIELD,
        beside: &[SECURE.row()],
    },
    "{}",
    r#"{ x-frame-options = "DENY", server = false, vary = { add = "accept" } }"#,
    "Changes to the fields of every answer, by name: a text sets the field, a list sets it on several lines, \
     `{ add = \"…\" }` adds a line beside what is there, `false` removes it. What is set or removed comes neither in a \
     trailer nor with `_` for `-`. Placeholders as in `respond`. Answers of our own to what goes wrong keep their \
     `Cache-Control: no-store`, their `Content-Type`, and what belongs to their status, such as `WWW-Authenticate` and `Allow`.",
);

pub(crate) const REQUEST_HEADERS: Defaulted<MapOf<FieldChange>> = Key::defaulted(
    "request_headers",
    &Map {
        names: Names::RequestFields,
        of: FIELD,
        beside: &[],
    },
    "{}",
    r#"{ host = "app.internal", x-debug = false }"#,
    "The same for the fields of every request that is sent to an endpoint. Nothing else sees the change: access log, `X-Forwarded-Host`, `Location`, compression, CORS, limits and error pages go by what the client has sent, and so does `balance`, but for fields that `auth.copy` sets.",
);

pub(crate) const BODY: Key<Table> = Key::new(
    "body",
    &TableOf(body::ALL),
    Within,
    r#"{ max = "10MB" }"#,
    "Request bodies.",
);

pub(crate) const LIMIT: Defaulted<Form<Option<WrittenLimit>>> = Key::defaulted(
    "limit",
    &Short { short: Unless(False, Limit), long: TableOf(limit::ALL) },
    "false",
    r#""20/s per client burst 40""#,
    "How often requests may come; more are answered with 429. The short form is `\"RATE\"`, `\"RATE per WHO\"` or \
     `\"RATE per WHO burst N\"`. A limit that a path inherits is counted together with its site's.",
)
.inside(r#"rate = "20/s""#);

pub(crate) const AUTH: Defaulted<Form<()>> = Key::defaulted(
    "auth",
    &Short {
        short: False,
        long: TableOf(auth::ALL),
    },
    "false",
    r#"{ basic = "/etc/lockgate/htpasswd", realm = "api" }"#,
    "Who may come: whoever knows a password (`basic`), or whom a service lets in that is asked about every request \
     (`forward`). A path has its own or that of its site, never a part of each. Requests by which browsers ask first \
     (`cors`) come without either.",
);

pub(crate) const ALLOW: Defaulted<Option<Items<Cidr>>> = Key::defaulted(
    "allow",
    &Unless(
        False,
        List {
            of: Network,
            least: 1,
        },
    ),
    "false",
    r#"["10.0.0.0/8"]"#,
    "The only clients that are served; others are answered with 403.",
);

pub(crate) const DENY: Defaulted<Option<Items<Cidr>>> = Key::defaulted(
    "deny",
    &Unless(
        False,
        List {
            of: Network,
            least: 1,
        },
    ),
    "false",
    r#"["203.0.113.0/24"]"#,
    "Clients that are answered with 403, also when `allow` has them.",
);

pub(crate) const TIMEOUTS: Key<Table> = Key::new(
    "timeouts",
    &TableOf(timeouts::route::ALL),
    Absent("the global `timeouts`"),
    r#"{ response = "5m" }"#,
    "Deadlines, merged over the global ones key by key.",
);

pub(crate) const REWRITE_LOCATION: Defaulted<bool> = Key::defaulted(
    "rewrite_location",
    &Flag,
    "true",
    "false",
    "Whether `Location` and the paths of cookies are put back to what the client sees, after `strip_prefix` and where \
     they name the endpoint.",
);

pub(crate) const TRACE: Defaulted<Switch<u8>> = Key::defaulted(
    "trace",
    &OrFlag(Percent),
    "false",
    r#""10%""#,
    "Whether a request that is of no trace begins one (W3C Trace Context), as `traceparent`. A share is how many of a hundred \
     applications are asked to record; `true` is all of them. What clients send goes on as it came where it is valid, \
     else it is taken out with its `tracestate`. The access log has the trace as `trace_id`.",
);

pub(crate) const ERROR_PAGES: Defaulted<MapOf<Option<PathBuf>>> = Key::defaulted(
    "error_pages",
    &Map {
        names: Names::Errors,
        of: Unless(False, FilePath),
        beside: &[],
    },
    "{}",
    r#"{ 502 = "/etc/lockgate/502.html" }"#,
    "Files that are sent instead of our own pages of errors, by status; they are read when it starts.",
);

pub(crate) const REDIRECTS: Defaulted<Option<PathBuf>> = Key::defaulted(
    "redirects",
    &Unless(False, FilePath),
    "false",
    r#""/etc/lockgate/redirects""#,
    "A file of redirects, which are looked at before anything else answers: `FROM TO [STATUS]` on each line, such as \
     `/old/* /new/{*} 301`. FROM is the whole path of a request, or ends in `/*`; the exact one is taken, else the longest. TO \
     is a path or a URL with the placeholders of `redirect`; without a STATUS it is 308. `#` begins a comment. It may have \
     100,000 lines and more, up to 16 MiB. What would lead to \
     itself is not redirected. A request that has no route is answered with 404 as ever. The file is read when it starts.",
);

pub(crate) const PATHS: Defaulted<RawPaths> = Key::defaulted(
    "paths",
    &Words(&[("strict", RawPaths::Refused), ("as-is", RawPaths::Sent)]),
    r#""strict""#,
    r#""as-is""#,
    "`\"strict\"` answers paths that an application could read otherwise (`%2f`, `%5c`, `%00`, dot segments) with 400; \
     `\"as-is\"` sends them on as they came, where every reading \
     of them leads to the same route.",
);

pub(super) const REALM: Defaulted<String> = Key::defaulted(
    "realm",
    &Line,
    r#""restricted""#,
    r#""api""#,
    "What the browser shows when it asks.",
)
.with(BESIDE_BASIC);

const BESIDE_BASIC: &str = r#"basic = "/etc/lockgate/htpasswd""#;
const BESIDE_FORWARD: &str = r#"forward = "127.0.0.1:4181""#;

table! {
    /// `proxy`, as a table.
    mod proxy;

    const TO: Key<Destination> = tcp::TO;
    const TLS: Key<Table> = tcp::TLS_TO;

    const PROTOCOL: Defaulted<Protocol> = pool::PROTOCOL_KEY;
    const PROXY_PROTOCOL: Key<ProxyVersion> = pool::PROXY_PROTOCOL_KEY;
}

table! {
    /// `redirect`, as a table.
    mod redirect;

    const TO: Key<String> = Key::new(
        "to",
        &Template,
        Required,
        r#""https://www.example.org{path}""#,
        "The target, as in the short form.",
    );

    const STATUS: Defaulted<u16> = Key::defaulted(
        "status",
        &OneOf(&[301, 302, 303, 307, 308]),
        "308",
        "302",
        "The status.",
    );
}

table! {
    /// `respond`, as a table.
    mod respond;

    const STATUS: Defaulted<u16> = Key::defaulted(
        "status",
        &super::STATUS,
        "200",
        "404",
        "The status.",
    );

    const BODY: Defaulted<String> = Key::defaulted(
        "body",
        &Body,
        r#""""#,
        r#""hello {client}\n""#,
        "The body. The placeholders of `redirect` are replaced, and `{client}`, `{scheme}`, `{method}` and `{id}`, the request's; other braces are text.",
    );

    const TYPE: Defaulted<String> = pool::TYPE;
}

table! {
    /// A change that adds lines.
    mod add;

    const ADD: Key<Items<String>> = Key::new(
        "add",
        &LINES,
        Required,
        r#""accept""#,
        "A line, or several, beside what is there.",
    );
}

table! {
    /// `body`.
    mod body;

    const MAX: Defaulted<Option<u64>> = Key::defaulted(
        "max",
        &Unless(OFF, Size { min: 0, max: u64::MAX }),
        r#""off""#,
        r#""10MB""#,
        "The longest one. Longer ones are answered with 413.",
    );

    const MIN_RATE: Key<Option<u64>> = Key::new(
        "min_rate",
        &Unless(OFF, Rate),
        Absent("`rates.min_in`"),
        r#""10KB/s""#,
        "The least that must come while the body is due and read.",
    );
}

table! {
    /// `limit`, as a table.
    mod limit;

    const RATE: Key<(u32, Duration)> = Key::new(
        "rate",
        &Frequency,
        Required,
        r#""20/s""#,
        "So many requests in a second, minute or hour.",
    );

    const PER: Defaulted<LimitScope> = Key::defaulted(
        "per",
        &LimitBy,
        r#""client""#,
        r#""header:x-key""#,
        "Who is counted apart: `\"client\"` addresses (IPv6: each /64), the values of a field of the request, or \
         nobody: the `\"route\"` as a whole.",
    );

    const BURST: Key<u32> = Key::new(
        "burst",
        &Number::new(1, 1_000_000),
        Absent("the number in `rate`"),
        "40",
        "How many may come at once.",
    );

    const STATUS: Defaulted<u16> = Key::defaulted(
        "status",
        &Number::new(400, 599),
        "429",
        "503",
        "The status of a refusal.",
    );
}

table! {
    /// `auth`.
    mod auth;

    const BASIC: Key<PathBuf> = Key::new(
        "basic",
        &FilePath,
        Absent("`forward`"),
        r#""/etc/lockgate/htpasswd""#,
        "A file of users and hashed passwords (bcrypt, SHA-256 and SHA-512 crypt, argon2), as `htpasswd -B` writes it; without `-B` that \
         writes MD5, which is refused. `Authorization` goes on to the application, password included: \
         `request_headers = { authorization = false }` removes it.",
    );

    const REALM: Defaulted<String> = super::REALM;

    const FORWARD: Key<Destination> = Key::new(
        "forward",
        &DESTINATION,
        Absent("`basic`"),
        r#""127.0.0.1:4181""#,
        "A service that says of every request whether it may: `\"pool:NAME\"`, an address or a list of addresses, never a \
         URL. It is asked by a GET without a body that has the fields of the request, `Host` too, and \
         `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`, in which what a client says counts for nothing, but \
         for `-Proto`, `-Host` and `-For` of who is `trusted`. Where it answers with 2xx the request goes on; any other \
         answer goes to the client, with a body of at most 64 KB, and the request no further. Without an answer within \
         `timeouts` the client gets 502, 503 or 504. Over TLS or HTTP/2 it is asked as its pool says.",
    );

    const PATH: Defaulted<String> = Key::defaulted(
        "path",
        &UrlPath,
        r#""/""#,
        r#""/verify?role=admin""#,
        "The path, and perhaps query, that the service is asked for.",
    )
    .with(BESIDE_FORWARD);

    const COPY: Key<Items<String>> = Key::new(
        "copy",
        &List { of: RequestField, least: 1 },
        Absent("none"),
        r#"["remote-user", "remote-groups"]"#,
        "Fields that the request gets from the service's answer. What a client sends by these names is taken out first, \
         also behind the body and with `_` for `-`, and the service sees of it only `authorization` and `cookie`.",
    )
    .with(BESIDE_FORWARD);
}
