//! The keys of `[site."HOST"]` and `[site."HOST".path."PATH"]` tables, and the globals that are for sites only.

use super::Kind::{Duration, Either, False, Integer, Ip, List, Path, Rate, SiteHost, Table, Tables, Word};
use super::Unset::{Absent, Is, Within};
use super::route::{
    ALLOW, AUTH, BODY, DENY, ERROR_PAGES, HEADERS, LIMIT, PATHS, PROXY, REDIRECT, REQUEST_HEADERS, RESPOND,
    REWRITE, REWRITE_LOCATION, ROUTE_TIMEOUTS, STRIP_PREFIX,
};
use super::tls::SITE_TLS;
use super::{By, FALSE, Key, OFF};

pub(super) const PORTS: &[Key] = &[
    Key::new(
        "http",
        Integer { min: 0, max: 65_535 },
        Is("80"),
        "8080",
        "Where sites without a port redirect to `https`, or are served where they have `tls = false`.",
    ),
    Key::new(
        "https",
        Integer { min: 0, max: 65_535 },
        Is("443"),
        "8443",
        "Where sites without a port are served; 0 is any port that is free, which the redirect then names.",
    ),
];

pub(super) const RATES: &[Key] = &[
    Key::new(
        "min_in",
        Either(&[OFF, Rate]),
        Is(r#""1KB/s""#),
        r#""10KB/s""#,
        "The least of a request body that must come while it is due and read.",
    ),
    Key::new(
        "min_out",
        Either(&[OFF, Rate]),
        Is(r#""1KB/s""#),
        r#""10KB/s""#,
        "The least that a client must take while bytes are held for it.",
    ),
    Key::new(
        "grace",
        Duration { min: 1_000 },
        Is(r#""10s""#),
        r#""30s""#,
        "How long a peer may stay below before it is cut.",
    ),
];

const TLS_KEY: Key = Key::new(
    "tls",
    Either(&[False, Path, Table(SITE_TLS)]),
    Absent("`[tls]` as it is where the key has no port; else plain HTTP"),
    r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
    "Takes TLS off. The short form is the path of `cert`; `{}` uses `[tls]` as it is; `false` is plain HTTP, on \
     `ports.http` where the key has no port.",
)
.inside(r#"cert = "/etc/tls/app.pem""#);

pub(super) const SITE: &[Key] = &[
    Key::new(
        "alias",
        List { of: &SiteHost, least: 0 },
        Is("[]"),
        r#"["example.org", "*.example.org"]"#,
        "More hosts that are served alike, without ports.",
    ),
    Key::new(
        "listen",
        List { of: &Ip, least: 1 },
        Is(r#"["0.0.0.0", "[::]"]"#),
        r#"["127.0.0.1", "[::1]"]"#,
        "The addresses that are bound, without ports.",
    ),
    TLS_KEY,
    Key::new(
        "accept_proxy",
        Either(&[False, Word(&["require", "optional"])]),
        FALSE,
        r#""require""#,
        "Whether clients send a PROXY header first, as in a `[tcp]` table; all sites on one address must say the same.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#),
    PROXY,
    REDIRECT,
    RESPOND,
    STRIP_PREFIX,
    REWRITE,
    HEADERS,
    REQUEST_HEADERS,
    BODY,
    LIMIT,
    AUTH,
    ALLOW,
    DENY,
    ROUTE_TIMEOUTS,
    REWRITE_LOCATION,
    ERROR_PAGES,
    PATHS,
    Key::new(
        "path",
        Tables(By::Path, ROUTE),
        Within,
        "",
        "What holds for some paths only. PATH is `\"/x\"` (that path), `\"/x/*\"` (what is below), `\"/x/{id}/y\"` (one \
         segment is a parameter), each also after a method: `\"POST /x\"`. The most specific one is taken; a path that none \
         matches is answered by the site's own verb, else with 404. A table without `proxy`, `redirect` or `respond` keeps \
         that of its site; everything else is merged over what the site says, by key, and `false` removes.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#),
];

const ROUTE: &[Key] = &[
    PROXY,
    REDIRECT,
    RESPOND,
    STRIP_PREFIX,
    REWRITE,
    HEADERS,
    REQUEST_HEADERS,
    BODY,
    LIMIT,
    AUTH,
    ALLOW,
    DENY,
    ROUTE_TIMEOUTS,
    REWRITE_LOCATION,
    ERROR_PAGES,
    PATHS,
];
