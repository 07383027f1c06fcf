//! The keys about what clients may do with responses: keep them, take them encoded, show them to
//! other sites.

use std::time::Duration;

use lockgate_rules::{Coding, MediaRange, Origin};

use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{ConfigKey, Defaulted, KeyRow, MapKeys};

/// The values of `cache`. An empty policy adds no field.
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
    names: MapKeys::Cached,
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

pub(crate) const CACHE: ConfigKey<CacheRules> = ConfigKey::new(
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
    "The `Cache-Control` of responses. A `Cache-Control` that the application sets is kept.\n\n\
     A policy is `\"no-store\"`, `\"no-cache\"` (stored, but revalidated each time) or a time such \
     as `\"1h\"`. After a time may follow `private` or `public`, `immutable`, `must-revalidate`, \
     `no-transform`, `s-maxage=1d`, `stale-while-revalidate=1d` and `stale-if-error=1d`.\n\n\
     In a table, policies are chosen by request path (`\"/x\"`, `\"/x/*\"`), by media type \
     (`\"text/css\"`, `\"image/*\"`) or for all (`\"*\"`). A path wins over a media type; a media \
     type wins over the default for files with a hash in their name; that wins over the default for \
     other files. `\"*\"` replaces both defaults. The short form is the policy of `\"*\"`. `false` \
     adds no `Cache-Control`. Error responses keep their own.",
);

pub(crate) const COMPRESS: ConfigKey<ShortOrLong<bool>> = ConfigKey::new(
    "compress",
    &Short {
        short: Flag,
        long: TableOf(compress::ALL),
    },
    Absent("`true` for files, `false` for responses of an application"),
    r#"{ codings = ["gzip"], min = "4KB" }"#,
    "Whether responses are compressed for clients that accept it (`Accept-Encoding`). Responses \
     that are already encoded are not. Leave it off where an application's pages contain both a \
     secret and text from the request: the length of a compressed page then reveals the secret \
     (BREACH).",
);

pub(crate) const CORS: Defaulted<ShortOrLong<Switch<Items<Option<Origin>>>>> =
    ConfigKey::defaulted(
        "cors",
        &Short {
            short: OrFlag(EACH_ORIGIN),
            long: TableOf(cors::ALL),
        },
        "false",
        r#"["https://app.example.com", "https://*.example.org"]"#,
        "Which other origins may read responses in a browser (CORS). `true` allows every origin, \
     without cookies; a text or a list names origins. Lockgate answers preflight requests (OPTIONS \
     with `Access-Control-Request-Method`) and replaces the application's own CORS fields.",
    )
    .inside(r#"origins = "https://app.example.com""#);

pub(crate) const SECURE: Defaulted<ShortOrLong<bool>> = ConfigKey::defaulted(
    "secure",
    &Short {
        short: Flag,
        long: TableOf(secure::ALL),
    },
    "false",
    "true",
    "Fields that make browsers stricter: `Strict-Transport-Security` over TLS, \
     `X-Content-Type-Options: nosniff`, `Referrer-Policy: strict-origin-when-cross-origin`, \
     `X-Frame-Options: SAMEORIGIN` and `Permissions-Policy: camera=(), geolocation=(), \
     microphone=()`. A field that the application sets, or that has its own entry in `headers`, \
     takes precedence.",
);

table! {
    mod compress;

    const CODINGS: Defaulted<Items<Coding>> = ConfigKey::defaulted(
        "codings",
        &List { of: CODING, least: 1 },
        r#"["zstd", "br", "gzip"]"#,
        r#"["br", "gzip"]"#,
        "The content codings that are offered. If a client prefers several equally, the first one \
         is used.",
    );

    const TYPES: Defaulted<Items<MediaRange>> = ConfigKey::defaulted(
        "types",
        &List { of: Media, least: 1 },
        r#"["text/*", "application/javascript", "application/json", "application/ld+json", "application/manifest+json", "application/xml", "application/atom+xml", "application/rss+xml", "application/xhtml+xml", "application/wasm", "application/vnd.ms-fontobject", "font/otf", "font/ttf", "image/bmp", "image/svg+xml", "image/x-icon"]"#,
        r#"["text/*", "application/json"]"#,
        "The media types that are compressed.",
    );

    const MIN: Defaulted<u64> = ConfigKey::defaulted(
        "min",
        &Size { min: 0, max: 1 << 30 },
        r#""1KB""#,
        r#""4KB""#,
        "Shorter responses are not compressed. Responses of unknown length are.",
    );

    const LEVEL: ConfigKey<CheckedTable> = ConfigKey::new(
        "level",
        &TableOf(level::ALL),
        Within,
        "{ zstd = 6 }",
        "The compression level: a higher one costs more CPU time and saves more bytes. Small files \
         are compressed once and cached, so they use a higher level by default.",
    );
}

table! {
    mod level;

    const ZSTD: ConfigKey<u8> = ConfigKey::new(
        "zstd",
        &WholeNumber::new(1, 19),
        Absent("3, and 6 for cached files"),
        "6",
        "The level of zstd.",
    );

    const BR: ConfigKey<u8> = ConfigKey::new(
        "br",
        &WholeNumber::new(0, 11),
        Absent("4, and 5 for cached files"),
        "5",
        "The level of Brotli.",
    );

    const GZIP: ConfigKey<u8> = ConfigKey::new(
        "gzip",
        &WholeNumber::new(1, 9),
        Absent("4, and 6 for cached files"),
        "5",
        "The level of gzip.",
    );
}

table! {
    mod cors;

    const ORIGINS: ConfigKey<Items<Option<Origin>>> = ConfigKey::new(
        "origins",
        &EACH_ORIGIN,
        Required,
        r#""https://app.example.com""#,
        "Origins that may read responses: `\"SCHEME://HOST[:PORT]\"`, with `*.` for any subdomain, \
         or `\"*\"` for every origin.",
    );

    const METHODS: Defaulted<Items<String>> = ConfigKey::defaulted(
        "methods",
        &List { of: MethodName, least: 1 },
        r#"["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]"#,
        r#"["GET", "POST"]"#,
        "The methods that these origins may use.",
    );

    const HEADERS: Defaulted<Switch<Items<String>>> = ConfigKey::defaulted(
        "headers",
        &OrFlag(List { of: Token, least: 1 }),
        "true",
        r#"["content-type", "authorization"]"#,
        "The request fields that these origins may send. `true` allows every field that a preflight \
         asks for, `false` only those that need no preflight.",
    );

    const EXPOSE: Defaulted<Items<String>> = ConfigKey::defaulted(
        "expose",
        &List { of: Token, least: 0 },
        "[]",
        r#"["x-total"]"#,
        "The response fields that scripts may read, besides those that browsers always allow.",
    );

    const CREDENTIALS: Defaulted<bool> = ConfigKey::defaulted(
        "credentials",
        &Flag,
        "false",
        "true",
        "Whether requests may carry cookies and passwords. Cannot be combined with every origin.",
    );

    const MAX_AGE: Defaulted<Duration> = ConfigKey::defaulted(
        "max_age",
        &Time { min: 0 },
        r#""1h""#,
        r#""10m""#,
        "How long browsers may cache the answer to a preflight request.",
    );
}

table! {
    mod secure;

    const HSTS: Defaulted<Option<Duration>> = ConfigKey::defaulted(
        "hsts",
        &Unless(False, Age),
        r#""1y""#,
        r#""30d""#,
        "How long browsers use only TLS for this host (RFC 6797). It is sent over TLS only. `false` \
         does not send it.",
    )
    .site(OVER_TLS);

    const SUBDOMAINS: Defaulted<bool> = ConfigKey::defaulted(
        "subdomains",
        &Flag,
        "false",
        "true",
        "Whether `hsts` also covers every subdomain of this host, whichever server has it.",
    )
    .site(OVER_TLS);
}
