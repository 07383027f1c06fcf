//! The keys about what clients may do with responses: keep them, take them encoded, show them to
//! other sites.

use std::time::Duration;

use lockgate_rules::{Coding, MediaRange, Origin};

use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{Defaulted, Key, Names, Row};

/// How long responses may be kept, as `cache` says it. A policy of nothing adds nothing.
#[derive(Debug, Clone)]
pub(crate) enum CacheRules {
    Every(Option<String>),
    Each(MapOf<Option<String>>),
}

impl CacheRules {
    fn nothing(_: ()) -> Self {
        CacheRules::Every(None)
    }

    fn every(policy: String) -> Self {
        CacheRules::Every(Some(policy))
    }
}

const CACHED: Map<Unless<False, CachePolicy>> = Map {
    names: Names::Cached,
    of: Unless(False, CachePolicy),
    beside: &[],
};

const CODING: Words<Coding> = Words(&[
    ("zstd", Coding::Zstd),
    ("br", Coding::Brotli),
    ("gzip", Coding::Gzip),
]);

const EACH_ORIGIN: OneOrMore<WebOrigin> = OneOrMore(List {
    of: WebOrigin,
    least: 1,
});

const OVER_TLS: &str = r#"tls = "/etc/tls/app.pem""#;

pub(crate) const CACHE: Key<CacheRules> = Key::new(
    "cache",
    &Either(&[
        &As(False, CacheRules::nothing),
        &As(CachePolicy, CacheRules::every),
        &As(CACHED, CacheRules::Each),
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

pub(crate) const COMPRESS: Key<Form<bool>> = Key::new(
    "compress",
    &Short {
        short: Flag,
        long: TableOf(compress::ALL),
    },
    Absent("`true` for files, `false` for what comes from an application"),
    r#"{ codings = ["gzip"], min = "4KB" }"#,
    "Whether answers are encoded for clients that take it (`Accept-Encoding`), but for those that are already. Where an \
     application's pages hold both a secret and what a request said, their length tells about the secret (BREACH): then \
     leave it off.",
);

pub(crate) const CORS: Defaulted<Form<Switch<Items<Option<Origin>>>>> = Key::defaulted(
    "cors",
    &Short { short: OrFlag(EACH_ORIGIN), long: TableOf(cors::ALL) },
    "false",
    r#"["https://app.example.com", "https://*.example.org"]"#,
    "Which other origins may read the answers in a browser. `true` is every one, without cookies; a text or a list names \
     them. Requests by which browsers ask first (OPTIONS with `Access-Control-Request-Method`) are answered here, and what \
     an application says about it itself is replaced.",
)
.inside(r#"origins = "https://app.example.com""#);

pub(crate) const SECURE: Defaulted<Form<bool>> = Key::defaulted(
    "secure",
    &Short {
        short: Flag,
        long: TableOf(secure::ALL),
    },
    "false",
    "true",
    "Fields that make browsers more careful: `Strict-Transport-Security` over TLS, `X-Content-Type-Options: nosniff`, \
     `Referrer-Policy: strict-origin-when-cross-origin`, `X-Frame-Options: SAMEORIGIN` and `Permissions-Policy: camera=(), \
     geolocation=(), microphone=()`. Each gives way to what the application says itself, and to an entry of its own in \
     `headers`.",
);

table! {
    /// `compress`.
    mod compress;

    const CODINGS: Defaulted<Items<Coding>> = Key::defaulted(
        "codings",
        &List { of: CODING, least: 1 },
        r#"["zstd", "br", "gzip"]"#,
        r#"["br", "gzip"]"#,
        "Those that are offered; of those that a client likes alike, the first is taken.",
    );

    const TYPES: Defaulted<Items<MediaRange>> = Key::defaulted(
        "types",
        &List { of: Media, least: 1 },
        r#"["text/*", "application/javascript", "application/json", "application/ld+json", "application/manifest+json", "application/xml", "application/atom+xml", "application/rss+xml", "application/xhtml+xml", "application/wasm", "application/vnd.ms-fontobject", "font/otf", "font/ttf", "image/bmp", "image/svg+xml", "image/x-icon"]"#,
        r#"["text/*", "application/json"]"#,
        "The media types that are encoded.",
    );

    const MIN: Defaulted<u64> = Key::defaulted(
        "min",
        &Size { min: 0, max: 1 << 30 },
        r#""1KB""#,
        r#""4KB""#,
        "Shorter answers are sent as they are. Those whose length is not known beforehand are encoded.",
    );

    const LEVEL: Key<Table> = Key::new(
        "level",
        &TableOf(level::ALL),
        Within,
        "{ zstd = 6 }",
        "How much time is spent for fewer bytes. What is encoded once and kept for many, such as small files, is encoded \
         better without a word.",
    );
}

table! {
    /// `compress.level`.
    mod level;

    const ZSTD: Key<u8> = Key::new(
        "zstd",
        &Number::new(1, 19),
        Absent("3, and 6 for what is kept"),
        "6",
        "That of zstd.",
    );

    const BR: Key<u8> = Key::new(
        "br",
        &Number::new(0, 11),
        Absent("4, and 5 for what is kept"),
        "5",
        "That of br.",
    );

    const GZIP: Key<u8> = Key::new(
        "gzip",
        &Number::new(1, 9),
        Absent("4, and 6 for what is kept"),
        "5",
        "That of gzip.",
    );
}

table! {
    /// `cors`.
    mod cors;

    const ORIGINS: Key<Items<Option<Origin>>> = Key::new(
        "origins",
        &EACH_ORIGIN,
        Required,
        r#""https://app.example.com""#,
        "`\"SCHEME://HOST[:PORT]\"`, in which `*.` may stand for any subdomain, or `\"*\"` for every origin.",
    );

    const METHODS: Defaulted<Items<String>> = Key::defaulted(
        "methods",
        &List { of: Method, least: 1 },
        r#"["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]"#,
        r#"["GET", "POST"]"#,
        "The methods that they may use.",
    );

    const HEADERS: Defaulted<Switch<Items<String>>> = Key::defaulted(
        "headers",
        &OrFlag(List { of: Token, least: 1 }),
        "true",
        r#"["content-type", "authorization"]"#,
        "The fields that they may send: `true` is those that they ask for, `false` those that need no asking.",
    );

    const EXPOSE: Defaulted<Items<String>> = Key::defaulted(
        "expose",
        &List { of: Token, least: 0 },
        "[]",
        r#"["x-total"]"#,
        "The fields of answers that they may read, besides those that they always may.",
    );

    const CREDENTIALS: Defaulted<bool> = Key::defaulted(
        "credentials",
        &Flag,
        "false",
        "true",
        "Whether their requests carry cookies and passwords; never for every origin.",
    );

    const MAX_AGE: Defaulted<Duration> = Key::defaulted(
        "max_age",
        &Time { min: 0 },
        r#""1h""#,
        r#""10m""#,
        "How long browsers may remember what they have asked for.",
    );
}

table! {
    /// `headers.secure`.
    mod secure;

    const HSTS: Defaulted<Option<Duration>> = Key::defaulted(
        "hsts",
        &Unless(False, Age),
        r#""1y""#,
        r#""30d""#,
        "How long browsers ask for this host over TLS only (RFC 6797); `false` says nothing about it. It is sent over TLS \
         only.",
    )
    .site(OVER_TLS);

    const SUBDOMAINS: Defaulted<bool> = Key::defaulted(
        "subdomains",
        &Flag,
        "false",
        "true",
        "Whether `hsts` holds for all hosts below this one too, whoever serves them.",
    )
    .site(OVER_TLS);
}
