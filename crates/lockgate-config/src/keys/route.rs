//! The keys that sites and their paths share: actions and settings of routes.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::{Cidr, LimitScope, ProxyVersion};

use crate::model::Protocol;
use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::answers::SECURE;
use super::tcp::{DESTINATION, Destination};
use super::{
    ConfigKey, Defaulted, KeyRow, MapKeys, OFF, answers, content, files, pool, shape, tcp, timeouts,
};

/// The keys that a site and each of its paths can have, in the order of the reference.
pub(crate) const ALL: &[KeyRow] = &[
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
    REWRITE_LOCATION.row(),
    PATHS.row(),
    REDIRECTS.row(),
    HEADERS.row(),
    REQUEST_HEADERS.row(),
    TRACE.row(),
    ERROR_PAGES.row(),
    AUTH.row(),
    ALLOW.row(),
    DENY.row(),
    LIMIT.row(),
    BODY.row(),
    TIMEOUTS.row(),
    shape::SHAPE.row(),
];

/// A change to the fields of one name: nothing removes them, lines replace them, a table adds.
pub(crate) type FieldChange = ShortOrLong<Option<Items<String>>>;

const LINES: OneOrMore<FieldValue> = OneOrMore(List {
    of: FieldValue,
    least: 1,
});

const FIELD: Short<Unless<False, OneOrMore<FieldValue>>> = Short {
    short: Unless(False, LINES),
    long: TableOf(add::ALL),
};

const STATUS: WholeNumber<u16> = WholeNumber::new(200, 599);

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

/// The treatment of paths that an origin could read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawPaths {
    Refused,
    Sent,
}

pub(crate) const PROXY: ConfigKey<ShortOrLong<Destination>> = ConfigKey::new(
    "proxy",
    &Short {
        short: DESTINATION,
        long: TableOf(proxy::ALL),
    },
    Absent("`root`, `redirect`, `respond`, or the action of the site"),
    r#""unix:/run/app.sock""#,
    "Forwards requests to an application: `\"pool:NAME\"`, an address, a list of addresses or a \
     table. An address is `\"127.0.0.1:3000\"`, `\"[::1]:3000\"`, `\"app.internal:3000\"` or \
     `\"unix:/run/app.sock\"`, never a URL.",
)
.inside(r#"to = "10.0.0.1:443""#);

pub(crate) const REDIRECT: ConfigKey<ShortOrLong<String>> = ConfigKey::new(
    "redirect",
    &Short {
        short: UrlTemplate,
        long: TableOf(redirect::ALL),
    },
    Absent("`proxy`, `root`, `respond`, or the action of the site"),
    r#""https://www.example.org{path}""#,
    "Redirects requests, with status 308. `{host}`, `{path}` and `{query}` are those of the \
     request, `{*}` is the part that the `*` of the path matched (in a site itself: the path \
     without its first `/`), `{id}` is a parameter.",
)
.inside(r#"to = "https://www.example.org{path}""#);

pub(crate) const RESPOND: ConfigKey<ShortOrLong<ShortResponse>> = ConfigKey::new(
    "respond",
    &Short {
        short: RESPONSE_SHORT,
        long: TableOf(respond::ALL),
    },
    Absent("`proxy`, `root`, `redirect`, or the action of the site"),
    r#"{ status = 200, body = "hello {client}\n", type = "text/plain" }"#,
    "A fixed response. The short forms are a body or a status.",
)
.inside(r#"body = "hello\n""#);

pub(crate) const STRIP_PREFIX: Defaulted<bool> = ConfigKey::defaulted(
    "strip_prefix",
    &Flag,
    "false",
    "true",
    "Whether the part of the path before `/*` is removed before the path is forwarded or looked up \
     in `root`.",
);

pub(crate) const REWRITE: Defaulted<Option<String>> = ConfigKey::defaulted(
    "rewrite",
    &Unless(False, UrlTemplate),
    "false",
    r#""/v1/{*}""#,
    "The path that the application sees, with the placeholders of `redirect` but `{host}`. If it has \
     no `?`, the query is kept.",
);

pub(crate) const HEADERS: Defaulted<MapOf<FieldChange>> = ConfigKey::defaulted(
    "headers",
    &Map {
        names: MapKeys::AnswerFields,
        of: FIELD,
        beside: &[SECURE.row()],
    },
    "{}",
    r#"{ x-frame-options = "DENY", server = false, vary = { add = "accept" } }"#,
    "Changes to the fields of every response, by name. A text sets the field, a list sets it on \
     several lines, `{ add = \"…\" }` adds a line, `false` removes the field. A field that is set \
     or removed does not appear in trailers either, nor spelled with `_` for `-`. The placeholders \
     of `respond` may be used. Lockgate's own error responses keep `Cache-Control: no-store`, their \
     `Content-Type`, and fields that belong to the status, such as `WWW-Authenticate` and `Allow`.",
);

pub(crate) const REQUEST_HEADERS: Defaulted<MapOf<FieldChange>> = ConfigKey::defaulted(
    "request_headers",
    &Map {
        names: MapKeys::RequestFields,
        of: FIELD,
        beside: &[],
    },
    "{}",
    r#"{ host = "app.internal", x-debug = false }"#,
    "The same changes to the fields of every request that is sent to an endpoint. Nothing else sees \
     these changes: the access log, `X-Forwarded-Host`, `Location`, compression, CORS, limits, \
     error pages and `balance` use the client's own fields (`balance` also those that `auth.copy` \
     sets).",
);

pub(crate) const BODY: ConfigKey<CheckedTable> = ConfigKey::new(
    "body",
    &TableOf(body::ALL),
    Within,
    r#"{ max = "10MB" }"#,
    "Limits of request bodies.",
);

pub(crate) const LIMIT: Defaulted<ShortOrLong<Option<WrittenLimit>>> = ConfigKey::defaulted(
    "limit",
    &Short {
        short: Unless(False, LimitText),
        long: TableOf(limit::ALL),
    },
    "false",
    r#""20/s per client burst 40""#,
    "A rate limit. Requests above it get 429. The short form is `\"RATE\"`, `\"RATE per KEY\"` or \
     `\"RATE per KEY burst N\"`, where KEY is a value of `per`. A limit that a path inherits is \
     counted together with its site's.",
)
.inside(r#"rate = "20/s""#);

pub(crate) const AUTH: Defaulted<ShortOrLong<()>> = ConfigKey::defaulted(
    "auth",
    &Short {
        short: False,
        long: TableOf(auth::ALL),
    },
    "false",
    r#"{ basic = "/etc/lockgate/htpasswd", realm = "api" }"#,
    "Access control: by password (`basic`), or by a service that is asked about every request \
     (`forward`). A path has its own `auth` or that of its site; the two are not merged. Preflight \
     requests of `cors` need neither.",
);

pub(crate) const ALLOW: Defaulted<Option<Items<Cidr>>> = ConfigKey::defaulted(
    "allow",
    &Unless(
        False,
        List {
            of: CidrNetwork,
            least: 1,
        },
    ),
    "false",
    r#"["10.0.0.0/8"]"#,
    "The only clients that are served. Others get 403.",
);

pub(crate) const DENY: Defaulted<Option<Items<Cidr>>> = ConfigKey::defaulted(
    "deny",
    &Unless(
        False,
        List {
            of: CidrNetwork,
            least: 1,
        },
    ),
    "false",
    r#"["203.0.113.0/24"]"#,
    "Clients that get 403, even if `allow` has them.",
);

pub(crate) const TIMEOUTS: ConfigKey<CheckedTable> = ConfigKey::new(
    "timeouts",
    &TableOf(timeouts::route::ALL),
    Absent("the global `timeouts`"),
    r#"{ response = "5m" }"#,
    "Deadlines, merged over the global `[timeouts]` key by key.",
);

pub(crate) const REWRITE_LOCATION: Defaulted<bool> = ConfigKey::defaulted(
    "rewrite_location",
    &Flag,
    "true",
    "false",
    "Whether `Location` and cookie paths are changed back to what the client sees: after \
     `strip_prefix`, and where they name the endpoint.",
);

pub(crate) const TRACE: Defaulted<Switch<u8>> = ConfigKey::defaulted(
    "trace",
    &OrFlag(Percent),
    "false",
    r#""10%""#,
    "Whether a request without a valid `traceparent` starts a trace (W3C Trace Context). A \
     percentage is the share of traces that applications are asked to record; `true` is all. A \
     valid `traceparent` from the client is forwarded unchanged, or with the span that `otlp` of \
     `[export]` gets; an invalid one is removed with its `tracestate`. The access log has the trace \
     as `trace_id`.",
);

pub(crate) const ERROR_PAGES: Defaulted<MapOf<Option<PathBuf>>> = ConfigKey::defaulted(
    "error_pages",
    &Map {
        names: MapKeys::Errors,
        of: Unless(False, FilePath),
        beside: &[],
    },
    "{}",
    r#"{ 502 = "/etc/lockgate/502.html" }"#,
    "Files that replace Lockgate's own error pages, by status. They are read at the start.",
);

pub(crate) const REDIRECTS: Defaulted<Option<PathBuf>> = ConfigKey::defaulted(
    "redirects",
    &Unless(False, FilePath),
    "false",
    r#""/etc/lockgate/redirects""#,
    "A file of redirects, which are applied before the action, after `allow`, `deny`, `limit` \
     and `auth`. Each line is `FROM TO [STATUS]`, such as `/old/* /new/{*} 301`. FROM is a whole \
     request path, or ends in `/*`; an exact path wins, then the longest. TO is a path or a URL \
     with the placeholders of `redirect`. The status is 308 unless given. `#` begins a comment. The \
     file may have 100,000 lines and more, up to 16 MiB, and is read at the start. A redirect that \
     would lead to itself is skipped. A request without a route still gets 404.",
);

pub(crate) const PATHS: Defaulted<RawPaths> = ConfigKey::defaulted(
    "paths",
    &Words(&[("strict", RawPaths::Refused), ("as-is", RawPaths::Sent)]),
    r#""strict""#,
    r#""as-is""#,
    "`\"strict\"` responds with 400 to paths that an application could read differently (`%2f`, \
     `%5c`, `%00`, dot segments). `\"as-is\"` forwards them unchanged, if every reading of them \
     leads to the same route.",
);

pub(super) const REALM: Defaulted<String> = ConfigKey::defaulted(
    "realm",
    &SingleLine,
    r#""restricted""#,
    r#""api""#,
    "The text that the browser shows when it asks for the password.",
)
.with(BESIDE_BASIC);

const BESIDE_BASIC: &str = r#"basic = "/etc/lockgate/htpasswd""#;
const BESIDE_FORWARD: &str = r#"forward = "127.0.0.1:4181""#;

table! {
    mod proxy;

    const TO: ConfigKey<Destination> = tcp::TO;
    const TLS: ConfigKey<CheckedTable> = tcp::TLS_TO;

    const PROTOCOL: Defaulted<Protocol> = pool::PROTOCOL_KEY;
    const PROXY_PROTOCOL: ConfigKey<ProxyVersion> = pool::PROXY_PROTOCOL_KEY;
}

table! {
    mod redirect;

    const TO: ConfigKey<String> = ConfigKey::new(
        "to",
        &UrlTemplate,
        Required,
        r#""https://www.example.org{path}""#,
        "The target, as in the short form.",
    );

    const STATUS: Defaulted<u16> = ConfigKey::defaulted(
        "status",
        &OneOf(&[301, 302, 303, 307, 308]),
        "308",
        "302",
        "The status.",
    );
}

table! {
    mod respond;

    const STATUS: Defaulted<u16> = ConfigKey::defaulted(
        "status",
        &super::STATUS,
        "200",
        "404",
        "The status.",
    );

    const BODY: Defaulted<String> = ConfigKey::defaulted(
        "body",
        &Body,
        r#""""#,
        r#""hello {client}\n""#,
        "The body. It may use the placeholders of `redirect`, and `{client}`, `{scheme}`, \
         `{method}` and `{id}` (the request's). Other braces are text.",
    );

    const TYPE: Defaulted<String> = pool::TYPE;
}

table! {
    /// A change that adds lines.
    mod add;

    const ADD: ConfigKey<Items<String>> = ConfigKey::new(
        "add",
        &LINES,
        Required,
        r#""accept""#,
        "One or more lines to add to the field.",
    );
}

table! {
    mod body;

    const MAX: Defaulted<Option<u64>> = ConfigKey::defaulted(
        "max",
        &Unless(OFF, Size { min: 0, max: u64::MAX }),
        r#""off""#,
        r#""10MB""#,
        "The longest request body. A longer one gets 413.",
    );

    const MIN_RATE: ConfigKey<Option<u64>> = ConfigKey::new(
        "min_rate",
        &Unless(OFF, ByteRate),
        Absent("`rates.min_in`"),
        r#""10KB/s""#,
        "The minimum rate of a request body, while it is expected and Lockgate reads it.",
    );
}

table! {
    mod limit;

    const RATE: ConfigKey<(u32, Duration)> = ConfigKey::new(
        "rate",
        &Frequency,
        Required,
        r#""20/s""#,
        "The number of requests per second, minute or hour.",
    );

    const PER: Defaulted<LimitScope> = ConfigKey::defaulted(
        "per",
        &LimitBy,
        r#""client""#,
        r#""header:x-key""#,
        "The key that requests are counted by: `\"client\"` (the client's address; of IPv6 the \
         /64), a field of the request, or `\"route\"` for all requests of the route together.",
    );

    const BURST: ConfigKey<u32> = ConfigKey::new(
        "burst",
        &WholeNumber::new(1, 1_000_000),
        Absent("the number in `rate`"),
        "40",
        "How many requests may arrive at once.",
    );

    const STATUS: Defaulted<u16> = ConfigKey::defaulted(
        "status",
        &WholeNumber::new(400, 599),
        "429",
        "503",
        "The status of a refused request.",
    );
}

table! {
    mod auth;

    const BASIC: ConfigKey<PathBuf> = ConfigKey::new(
        "basic",
        &FilePath,
        Absent("`forward`"),
        r#""/etc/lockgate/htpasswd""#,
        "A file of users and hashed passwords (bcrypt, SHA-256 and SHA-512 crypt, argon2), as \
         `htpasswd -B` writes it. Without `-B`, `htpasswd` writes MD5, which is refused. The \
         `Authorization` field is forwarded to the application, password included; `request_headers \
         = { authorization = false }` removes it.",
    );

    const REALM: Defaulted<String> = super::REALM;

    const FORWARD: ConfigKey<Destination> = ConfigKey::new(
        "forward",
        &DESTINATION,
        Absent("`basic`"),
        r#""127.0.0.1:4181""#,
        "A service that decides about every request: `\"pool:NAME\"`, an address or a list of \
         addresses, never a URL. Lockgate sends it a GET without a body that has the request's \
         fields, including `Host`, and `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`. \
         The client's own values of these are ignored, except `-Proto`, `-Host` and `-For` from \
         `trusted` addresses. On a 2xx the request continues. Any other response goes to the \
         client, with at most 64 KB of body. If there is no response within `timeouts`, the client \
         gets 502, 503 or 504. TLS and HTTP/2 are settings of its pool.",
    );

    const PATH: Defaulted<String> = ConfigKey::defaulted(
        "path",
        &UrlPath,
        r#""/""#,
        r#""/verify?role=admin""#,
        "The path, optionally with a query, that the service is asked for.",
    )
    .with(BESIDE_FORWARD);

    const COPY: ConfigKey<Items<String>> = ConfigKey::new(
        "copy",
        &List { of: RequestField, least: 1 },
        Absent("none"),
        r#"["remote-user", "remote-groups"]"#,
        "Fields that are copied from the service's response to the request. The client's own fields \
         of these names are removed first, also in trailers and spelled with `_` for `-`; the \
         service sees only `authorization` and `cookie` of them.",
    )
    .with(BESIDE_FORWARD);
}
