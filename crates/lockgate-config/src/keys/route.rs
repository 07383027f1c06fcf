//! The keys that sites and their paths share: what answers, and what requests are held to.

mod shape;

use super::Kind::{
    Body, Bool, Either, False, FieldValue, Frequency, Integer, Limit, LimitKey, Line, List, Map,
    Network, OneOf, Path, Percent, Rate, RequestField, Size, Table, Target, Template, UrlPath,
    Word,
};
use super::Unset::{Absent, Is, Required, Within};
use super::answers::SECURE;
use super::pool::{PROTOCOL, PROXY_PROTOCOL, TYPE};
use super::tcp::{ENDPOINTS, TLS_TO, TO};
use super::{CONNECT, FALSE, Key, Kind, Names, OFF, RESPONSE, TUNNEL_IDLE};

pub(super) use shape::{SHAPE, TUNNEL_SHAPE};

pub(super) const PROXY: Key = Key::new(
    "proxy",
    Either(&[Target, ENDPOINTS, Table(TO_ENDPOINTS)]),
    Absent("`root`, `redirect`, `respond`, or what the site says"),
    r#""unix:/run/app.sock""#,
    "Requests go to an application: `\"pool:NAME\"`, an address, a list of addresses or a table. An address is \
     `\"127.0.0.1:3000\"`, `\"[::1]:3000\"`, `\"app.internal:3000\"` or `\"unix:/run/app.sock\"`, never a URL.",
)
.inside(r#"to = "10.0.0.1:443""#);

const TO_ENDPOINTS: &[Key] = &[TO, TLS_TO, PROTOCOL, PROXY_PROTOCOL];

pub(super) const REDIRECT: Key = Key::new(
    "redirect",
    Either(&[Template, Table(REDIRECTION)]),
    Absent("`proxy`, `root`, `respond`, or what the site says"),
    r#""https://www.example.org{path}""#,
    "Requests are sent elsewhere, with 308. `{host}`, `{path}` and `{query}` stand for those of the request, `{*}` for \
     what the `*` of the path matched (in a site itself: the path without its first `/`), `{id}` for a parameter.",
)
.inside(r#"to = "https://www.example.org{path}""#);

const REDIRECTION: &[Key] = &[
    Key::new(
        "to",
        Template,
        Required,
        r#""https://www.example.org{path}""#,
        "The target, as in the short form.",
    ),
    Key::new(
        "status",
        OneOf(&[301, 302, 303, 307, 308]),
        Is("308"),
        "302",
        "The status.",
    ),
];

pub(super) const RESPOND: Key = Key::new(
    "respond",
    Either(&[STATUS, Body, Table(RESPONSE_KEYS)]),
    Absent("`proxy`, `root`, `redirect`, or what the site says"),
    r#"{ status = 200, body = "hello {client}\n", type = "text/plain" }"#,
    "Requests are answered here. The short forms are a body and a status.",
)
.inside(r#"body = "hello\n""#);

const STATUS: Kind = Integer { min: 200, max: 599 };

const RESPONSE_KEYS: &[Key] = &[
    Key::new("status", STATUS, Is("200"), "404", "The status."),
    Key::new(
        "body",
        Body,
        Is(r#""""#),
        r#""hello {client}\n""#,
        "The body. The placeholders of `redirect` are replaced, and `{client}`, `{scheme}`, `{method}` and `{id}`, the request's; other braces are text.",
    ),
    TYPE,
];

pub(super) const STRIP_PREFIX: Key = Key::new(
    "strip_prefix",
    Bool,
    FALSE,
    "true",
    "Whether the path is sent on, or looked for in `root`, without what stands before `/*`.",
);

pub(super) const REWRITE: Key = Key::new(
    "rewrite",
    Either(&[False, Template]),
    FALSE,
    r#""/v1/{*}""#,
    "The path that the application sees, with the placeholders of `redirect`; without a `?` in it the query is kept.",
);

const FIELD: Kind = Either(&[
    False,
    FieldValue,
    List {
        of: &FieldValue,
        least: 1,
    },
    Table(ADD),
]);

const ADD: &[Key] = &[Key::new(
    "add",
    Either(&[
        FieldValue,
        List {
            of: &FieldValue,
            least: 1,
        },
    ]),
    Required,
    r#""accept""#,
    "A line, or several, beside what is there.",
)];

pub(super) const HEADERS: Key = Key::new(
    "headers",
    Map(Names::AnswerFields, &FIELD, &[SECURE]),
    Is("{}"),
    r#"{ x-frame-options = "DENY", server = false, vary = { add = "accept" } }"#,
    "Changes to the fields of every answer, by name: a text sets the field, a list sets it on several lines, \
     `{ add = \"…\" }` adds a line beside what is there, `false` removes it. What is set or removed comes neither in a \
     trailer nor with `_` for `-`. Placeholders as in `respond`. Answers of our own to what goes wrong keep their \
     `Cache-Control: no-store`, their `Content-Type`, and what belongs to their status, such as `WWW-Authenticate` and `Allow`.",
);

pub(super) const REQUEST_HEADERS: Key = Key::new(
    "request_headers",
    Map(Names::RequestFields, &FIELD, &[]),
    Is("{}"),
    r#"{ host = "app.internal", x-debug = false }"#,
    "The same for the fields of every request that is sent to an endpoint. Nothing else sees the change: access log, `X-Forwarded-Host`, `Location`, compression, CORS, limits and error pages go by what the client has sent, and so does `balance`, but for fields that `auth.copy` sets.",
);

pub(super) const BODY: Key = Key::new(
    "body",
    Table(BODY_KEYS),
    Within,
    r#"{ max = "10MB" }"#,
    "Request bodies.",
);

const BODY_KEYS: &[Key] = &[
    Key::new(
        "max",
        Either(&[
            OFF,
            Size {
                min: 0,
                max: u64::MAX,
            },
        ]),
        Is(r#""off""#),
        r#""10MB""#,
        "The longest one. Longer ones are answered with 413.",
    ),
    Key::new(
        "min_rate",
        Either(&[OFF, Rate]),
        Absent("`rates.min_in`"),
        r#""10KB/s""#,
        "The least that must come while the body is due and read.",
    ),
];

pub(super) const LIMIT: Key = Key::new(
    "limit",
    Either(&[False, Limit, Table(LIMIT_KEYS)]),
    FALSE,
    r#""20/s per client burst 40""#,
    "How often requests may come; more are answered with 429. The short form is `\"RATE\"`, `\"RATE per WHO\"` or \
     `\"RATE per WHO burst N\"`. A limit that a path inherits is counted together with its site's.",
)
.inside(r#"rate = "20/s""#);

const LIMIT_KEYS: &[Key] = &[
    Key::new(
        "rate",
        Frequency,
        Required,
        r#""20/s""#,
        "So many requests in a second, minute or hour.",
    ),
    Key::new(
        "per",
        LimitKey,
        Is(r#""client""#),
        r#""header:x-key""#,
        "Who is counted apart: `\"client\"` addresses (IPv6: each /64), the values of a field of the request, or \
         nobody: the `\"route\"` as a whole.",
    ),
    Key::new(
        "burst",
        Integer {
            min: 1,
            max: 1_000_000,
        },
        Absent("the number in `rate`"),
        "40",
        "How many may come at once.",
    ),
    Key::new(
        "status",
        Integer { min: 400, max: 599 },
        Is("429"),
        "503",
        "The status of a refusal.",
    ),
];

pub(super) const AUTH: Key = Key::new(
    "auth",
    Either(&[False, Table(AUTH_KEYS)]),
    FALSE,
    r#"{ basic = "/etc/lockgate/htpasswd", realm = "api" }"#,
    "Who may come: whoever knows a password (`basic`), or whom a service lets in that is asked about every request \
     (`forward`). A path has its own or that of its site, never a part of each. Requests by which browsers ask first \
     (`cors`) come without either.",
);

const BASIC: &str = r#"basic = "/etc/lockgate/htpasswd""#;
const FORWARD: &str = r#"forward = "127.0.0.1:4181""#;

pub(super) const REALM: Key = Key::new(
    "realm",
    Line,
    Is(r#""restricted""#),
    r#""api""#,
    "What the browser shows when it asks.",
)
.with(BASIC);

const AUTH_KEYS: &[Key] = &[
    Key::new(
        "basic",
        Path,
        Absent("`forward`"),
        r#""/etc/lockgate/htpasswd""#,
        "A file of users and hashed passwords (bcrypt, SHA-256 and SHA-512 crypt, argon2), as `htpasswd -B` writes it; without `-B` that \
         writes MD5, which is refused. `Authorization` goes on to the application, password included: \
         `request_headers = { authorization = false }` removes it.",
    ),
    REALM,
    Key::new(
        "forward",
        Either(&[Target, ENDPOINTS]),
        Absent("`basic`"),
        r#""127.0.0.1:4181""#,
        "A service that says of every request whether it may: `\"pool:NAME\"`, an address or a list of addresses, never a \
         URL. It is asked by a GET without a body that has the fields of the request, `Host` too, and \
         `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`, in which what a client says counts for nothing, but \
         for `-Proto`, `-Host` and `-For` of who is `trusted`. Where it answers with 2xx the request goes on; any other \
         answer goes to the client, with a body of at most 64 KB, and the request no further. Without an answer within \
         `timeouts` the client gets 502, 503 or 504. Over TLS or HTTP/2 it is asked as its pool says.",
    ),
    Key::new(
        "path",
        UrlPath,
        Is(r#""/""#),
        r#""/verify?role=admin""#,
        "The path, and perhaps query, that the service is asked for.",
    )
    .with(FORWARD),
    Key::new(
        "copy",
        List { of: &RequestField, least: 1 },
        Absent("none"),
        r#"["remote-user", "remote-groups"]"#,
        "Fields that the request gets from the service's answer. What a client sends by these names is taken out first, \
         also behind the body and with `_` for `-`, and the service sees of it only `authorization` and `cookie`.",
    )
    .with(FORWARD),
];

pub(super) const ALLOW: Key = Key::new(
    "allow",
    Either(&[
        False,
        List {
            of: &Network,
            least: 1,
        },
    ]),
    FALSE,
    r#"["10.0.0.0/8"]"#,
    "The only clients that are served; others are answered with 403.",
);

pub(super) const DENY: Key = Key::new(
    "deny",
    Either(&[
        False,
        List {
            of: &Network,
            least: 1,
        },
    ]),
    FALSE,
    r#"["203.0.113.0/24"]"#,
    "Clients that are answered with 403, also when `allow` has them.",
);

pub(super) const ROUTE_TIMEOUTS: Key = Key::new(
    "timeouts",
    Table(&[CONNECT, RESPONSE, TUNNEL_IDLE]),
    Absent("the global `timeouts`"),
    r#"{ response = "5m" }"#,
    "Deadlines, merged over the global ones key by key.",
);

pub(super) const REWRITE_LOCATION: Key = Key::new(
    "rewrite_location",
    Bool,
    Is("true"),
    "false",
    "Whether `Location` and the paths of cookies are put back to what the client sees, after `strip_prefix` and where \
     they name the endpoint.",
);

pub(super) const TRACE: Key = Key::new(
    "trace",
    Either(&[Bool, Percent]),
    FALSE,
    r#""10%""#,
    "Whether a request that is of no trace begins one (W3C Trace Context), as `traceparent`. A share is how many of a hundred \
     applications are asked to record; `true` is all of them. What clients send goes on as it came where it is valid, \
     else it is taken out with its `tracestate`. The access log has the trace as `trace_id`.",
);

pub(super) const ERROR_PAGES: Key = Key::new(
    "error_pages",
    Map(Names::Errors, &Either(&[False, Path]), &[]),
    Is("{}"),
    r#"{ 502 = "/etc/lockgate/502.html" }"#,
    "Files that are sent instead of our own pages of errors, by status; they are read when it starts.",
);

pub(super) const REDIRECTS: Key = Key::new(
    "redirects",
    Either(&[False, Path]),
    FALSE,
    r#""/etc/lockgate/redirects""#,
    "A file of redirects, which are looked at before anything else answers: `FROM TO [STATUS]` on each line, such as \
     `/old/* /new/{*} 301`. FROM is the whole path of a request, or ends in `/*`; the exact one is taken, else the longest. TO \
     is a path or a URL with the placeholders of `redirect`; without a STATUS it is 308. `#` begins a comment. It may have \
     100,000 lines and more, up to 16 MiB. What would lead to \
     itself is not redirected. A request that has no route is answered with 404 as ever. The file is read when it starts.",
);

pub(super) const PATHS: Key = Key::new(
    "paths",
    Word(&["strict", "as-is"]),
    Is(r#""strict""#),
    r#""as-is""#,
    "`\"strict\"` answers paths that an application could read otherwise (`%2f`, `%5c`, `%00`, dot segments) with 400; \
     `\"as-is\"` sends them on as they came, where every reading \
     of them leads to the same route.",
);
