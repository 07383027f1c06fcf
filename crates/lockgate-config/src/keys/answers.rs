//! The keys about what clients may do with answers: keep them, take them encoded, show them to
//! other sites.

use super::Kind::{
    Bool, CachePolicy, Duration, Either, False, Integer, List, Map, MediaRange, Method, Origin,
    Size, Table, Token, Word,
};
use super::Unset::{Absent, Is, Required, Within};
use super::{FALSE, Key, Kind, Names};

pub(super) const CACHE: Key = Key::new(
    "cache",
    Either(&[
        False,
        CachePolicy,
        Map(Names::Cached, &Either(&[False, CachePolicy]), &[]),
    ]),
    Absent(
        "files are `\"no-cache\"`, those whose name holds a hash of their content (`app.3f2a9c1b.js`, \
         `index-BX7d8sQk.css`) `\"1y immutable public\"`; all else is as the application says",
    ),
    r#"{ "*" = "no-cache", "/assets/*" = "1y immutable", "text/css" = "1d" }"#,
    "How long answers may be kept, as their `Cache-Control`; what an application says itself stays. A policy is \
     `\"no-store\"`, `\"no-cache\"` (kept, but asked about each time) or a time such as `\"1h\"`, after which may stand `private` or \
     `public`, `immutable`, `must-revalidate`, `no-transform`, `s-maxage=1d`, `stale-while-revalidate=1d` and \
     `stale-if-error=1d`. In a table it stands by the path of the request (`\"/x\"`, `\"/x/*\"`), by media type \
     (`\"text/css\"`, `\"image/*\"`) or for all (`\"*\"`); paths win over types, types over what is known of files with a \
     hash, and that over what holds for files without a word; `\"*\"` takes the place of the last two. The short form is \
     that of `\"*\"`. `false` adds nothing to those answers. Errors keep what they say.",
);

pub(super) const COMPRESS: Key = Key::new(
    "compress",
    Either(&[Bool, Table(COMPRESSION)]),
    Absent("`true` for files, `false` for what comes from an application"),
    r#"{ codings = ["gzip"], min = "4KB" }"#,
    "Whether answers are encoded for clients that take it (`Accept-Encoding`), but for those that are already. Where an \
     application's pages hold both a secret and what a request said, their length tells about the secret (BREACH): then \
     leave it off.",
);

const COMPRESSION: &[Key] = &[
    Key::new(
        "codings",
        List {
            of: &Word(&["zstd", "br", "gzip"]),
            least: 1,
        },
        Is(r#"["zstd", "br", "gzip"]"#),
        r#"["br", "gzip"]"#,
        "Those that are offered; of those that a client likes alike, the first is taken.",
    ),
    Key::new(
        "types",
        List {
            of: &MediaRange,
            least: 1,
        },
        Is(
            r#"["text/*", "application/javascript", "application/json", "application/ld+json", "application/manifest+json", "application/xml", "application/atom+xml", "application/rss+xml", "application/xhtml+xml", "application/wasm", "application/vnd.ms-fontobject", "font/otf", "font/ttf", "image/bmp", "image/svg+xml", "image/x-icon"]"#,
        ),
        r#"["text/*", "application/json"]"#,
        "The media types that are encoded.",
    ),
    Key::new(
        "min",
        Size {
            min: 0,
            max: 1 << 30,
        },
        Is(r#""1KB""#),
        r#""4KB""#,
        "Shorter answers are sent as they are. Those whose length is not known beforehand are encoded.",
    ),
    Key::new(
        "level",
        Table(LEVELS),
        Within,
        "{ zstd = 6 }",
        "How much time is spent for fewer bytes. What is encoded once and kept for many, such as small files, is encoded \
         better without a word.",
    ),
];

const LEVELS: &[Key] = &[
    Key::new(
        "zstd",
        Integer { min: 1, max: 19 },
        Absent("3, and 6 for what is kept"),
        "6",
        "That of zstd.",
    ),
    Key::new(
        "br",
        Integer { min: 0, max: 11 },
        Absent("4, and 5 for what is kept"),
        "5",
        "That of br.",
    ),
    Key::new(
        "gzip",
        Integer { min: 1, max: 9 },
        Absent("4, and 6 for what is kept"),
        "5",
        "That of gzip.",
    ),
];

pub(super) const CORS: Key = Key::new(
    "cors",
    Either(&[Bool, Origin, List { of: &Origin, least: 1 }, Table(SHARING)]),
    FALSE,
    r#"["https://app.example.com", "https://*.example.org"]"#,
    "Which other origins may read the answers in a browser. `true` is every one, without cookies; a text or a list names \
     them. Requests by which browsers ask first (OPTIONS with `Access-Control-Request-Method`) are answered here, and what \
     an application says about it itself is replaced.",
)
.inside(r#"origins = "https://app.example.com""#);

const SHARING: &[Key] = &[
    Key::new(
        "origins",
        Either(&[
            Origin,
            List {
                of: &Origin,
                least: 1,
            },
        ]),
        Required,
        r#""https://app.example.com""#,
        "`\"SCHEME://HOST[:PORT]\"`, in which `*.` may stand for any subdomain, or `\"*\"` for every origin.",
    ),
    Key::new(
        "methods",
        List {
            of: &Method,
            least: 1,
        },
        Is(r#"["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]"#),
        r#"["GET", "POST"]"#,
        "The methods that they may use.",
    ),
    Key::new(
        "headers",
        Either(&[
            Bool,
            List {
                of: &Token,
                least: 1,
            },
        ]),
        Is("true"),
        r#"["content-type", "authorization"]"#,
        "The fields that they may send: `true` is those that they ask for, `false` those that need no asking.",
    ),
    Key::new(
        "expose",
        List {
            of: &Token,
            least: 0,
        },
        Is("[]"),
        r#"["x-total"]"#,
        "The fields of answers that they may read, besides those that they always may.",
    ),
    Key::new(
        "credentials",
        Bool,
        FALSE,
        "true",
        "Whether their requests carry cookies and passwords; never for every origin.",
    ),
    Key::new(
        "max_age",
        Duration { min: 0 },
        Is(r#""1h""#),
        r#""10m""#,
        "How long browsers may remember what they have asked for.",
    ),
];

pub(super) const SECURE: Key = Key::new(
    "secure",
    Either(&[Bool, Table(SECURITY)]),
    FALSE,
    "true",
    "Fields that make browsers more careful: `Strict-Transport-Security` over TLS, `X-Content-Type-Options: nosniff`, \
     `Referrer-Policy: strict-origin-when-cross-origin`, `X-Frame-Options: SAMEORIGIN` and `Permissions-Policy: camera=(), \
     geolocation=(), microphone=()`. Each gives way to what the application says itself, and to an entry of its own in \
     `headers`.",
);

const OVER_TLS: &str = r#"tls = "/etc/tls/app.pem""#;

const SECURITY: &[Key] = &[
    Key::new(
        "hsts",
        Either(&[False, Kind::Age]),
        Is(r#""1y""#),
        r#""30d""#,
        "How long browsers ask for this host over TLS only (RFC 6797); `false` says nothing about it. It is sent over TLS \
         only.",
    )
    .site(OVER_TLS),
    Key::new(
        "subdomains",
        Bool,
        FALSE,
        "true",
        "Whether `hsts` holds for all hosts below this one too, whoever serves them.",
    )
    .site(OVER_TLS),
];
