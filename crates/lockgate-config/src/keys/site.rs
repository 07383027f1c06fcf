//! The keys of `[site."HOST"]` and `[site."HOST".path."PATH"]` tables, and the globals that are for
//! sites only.

use super::Kind::{
    Allowance, Duration, Either, False, Integer, Ip, List, Path, Rate, SiteHost, Size, Table,
    Tables, Word,
};
use super::Unset::{Absent, Is, Within};
use super::answers::{CACHE, COMPRESS, CORS};
use super::content::REWRITE_BODY;
use super::files::{
    CHARSET, CLEAN_URLS, HIDDEN, INDEX, LISTING, NOT_FOUND, PRECOMPRESSED, ROOT, SPA, SYMLINKS,
    TRY, TYPES,
};
use super::route::{
    ALLOW, AUTH, BODY, DENY, ERROR_PAGES, HEADERS, LIMIT, PATHS, PROXY, REDIRECT, REDIRECTS,
    REQUEST_HEADERS, RESPOND, REWRITE, REWRITE_LOCATION, ROUTE_TIMEOUTS, SHAPE, STRIP_PREFIX,
    TRACE,
};
use super::tls::SITE_TLS;
use super::{By, FALSE, Key, LOG_KIND, OFF};

pub(super) const PORTS: &[Key] = &[
    Key::new(
        "http",
        Integer {
            min: 0,
            max: 65_535,
        },
        Is("80"),
        "8080",
        "Where sites without a port redirect to `https`, or are served where they have `tls = false`.",
    ),
    Key::new(
        "https",
        Integer {
            min: 0,
            max: 65_535,
        },
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

/// RFC 9113 §6.9.2: so large is that of a connection before anything is said, and it cannot be made
/// smaller.
const DEFAULT_WINDOW: u64 = 64 << 10;

/// The protocol ends at 2^31 - 1 (RFC 9113 §6.9.1).
const LARGEST_WINDOW: u64 = 2_000_000_000;

pub(super) const HTTP2: &[Key] = &[
    Key::new(
        "streams",
        Integer {
            min: 1,
            max: 10_000,
        },
        Is("128"),
        "64",
        "Requests at once on one connection; clients hold back the next ones. Their heads take up to 8 KB for each of them together, and 1 MB at the \
         least; a request that finds no room there is refused (REFUSED_STREAM), and the client may send it again.",
    ),
    Key::new(
        "window",
        Size {
            min: DEFAULT_WINDOW,
            max: LARGEST_WINDOW,
        },
        Is(r#""1MB""#),
        r#""256KB""#,
        "How many bytes of one request body may come before the application has taken them: the memory that one request \
         may cost, and the most that one upload moves in a round trip.",
    ),
    Key::new(
        "connection_window",
        Size {
            min: DEFAULT_WINDOW,
            max: LARGEST_WINDOW,
        },
        Is(r#""8MB""#),
        r#""16MB""#,
        "The same for all requests of one connection together; at least `window`.",
    ),
    Key::new(
        "resets",
        Allowance,
        Is(r#""20/s burst 200""#),
        r#""100/s burst 1000""#,
        "How many requests of one connection may be taken back (RST_STREAM) or broken off for a mistake in them, each of \
         which costs us work that nobody waits for (CVE-2023-44487, CVE-2025-8671). Up to 1,024 streams that are refused \
         before the client has seen our SETTINGS do not count.",
    ),
    Key::new(
        "control",
        Allowance,
        Is(r#""100/s burst 1000""#),
        r#""20/s burst 200""#,
        "How many frames of one connection may carry nothing for a request: SETTINGS, PRIORITY, DATA without bytes, \
         HEADERS for streams that are over, and PING, WINDOW_UPDATE and CONTINUATION beyond what the bytes that were \
         moved explain (CVE-2019-9511 to 9518, CVE-2024-27316).",
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

pub(super) const SITE: &[Key] =
    &joined::<{ REACHED.len() + ROUTE.len() + WHOLE.len() }>(&[REACHED, ROUTE, WHOLE]);

/// Several lists as one.
const fn joined<const N: usize>(lists: &[&[Key]]) -> [Key; N] {
    let mut all = [TLS_KEY; N];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let len = lists[list].len();
        all.split_at_mut(at)
            .1
            .split_at_mut(len)
            .0
            .copy_from_slice(lists[list]);
        at += len;
        list += 1;
    }
    all
}

/// How its clients reach it.
const REACHED: &[Key] = &[
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
        "protocols",
        List { of: &Word(&["h2", "http1", "h2c"]), least: 1 },
        Absent("`[\"h2\", \"http1\"]` over TLS, `[\"http1\"]` without"),
        r#"["http1", "h2c"]"#,
        "What is spoken with clients. Over TLS `\"h2\"` and `\"http1\"`, best first, of which they choose by ALPN; sites on \
         one address may differ. Without TLS `\"http1\"`, and `\"h2c\"` for clients that begin with HTTP/2 (prior \
         knowledge), as gRPC clients inside a network do; all sites on one address must say the same. It is not about the \
         redirect from `ports.http`.",
    ),
    Key::new(
        "accept_proxy",
        Either(&[False, Word(&["require", "optional"])]),
        FALSE,
        r#""require""#,
        "Whether clients send a PROXY header first, as in a `[tcp]` table; all sites on one address must say the same.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#),
];

/// What only the whole of it can have.
const WHOLE: &[Key] = &[
    Key::new(
        "access_log",
        LOG_KIND,
        Absent("the global `access_log`"),
        r#""combined:/var/log/lockgate/app.log""#,
        "One line for each request of this site, in a log of its own with a form of its own, or `false` for none. \
         Connections that end without a request are in the global one. Sites that say the same share a log; two \
         that differ cannot write one file.",
    ),
    Key::new(
        "path",
        Tables(By::Path, ROUTE),
        Within,
        "",
        "What holds for some paths only. PATH is `\"/x\"` (that path), `\"/x/*\"` (what is below), `\"/x/{id}/y\"` (one \
         segment is a parameter), each also after a method: `\"POST /x\"`. The most specific one is taken; a path that none \
         matches is answered by the site's own verb, else with 404. A table without `proxy`, `root`, `redirect` or `respond` keeps \
         that of its site; everything else is merged over what the site says, by key, and `false` removes.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#),
];

/// What a site and each of its paths can have.
const ROUTE: &[Key] = &[
    PROXY,
    ROOT,
    REDIRECT,
    RESPOND,
    INDEX,
    CLEAN_URLS,
    TRY,
    SPA,
    NOT_FOUND,
    LISTING,
    HIDDEN,
    SYMLINKS,
    TYPES,
    CHARSET,
    PRECOMPRESSED,
    CACHE,
    COMPRESS,
    CORS,
    REWRITE_BODY,
    STRIP_PREFIX,
    REWRITE,
    HEADERS,
    REQUEST_HEADERS,
    BODY,
    LIMIT,
    SHAPE,
    AUTH,
    ALLOW,
    DENY,
    ROUTE_TIMEOUTS,
    REWRITE_LOCATION,
    TRACE,
    ERROR_PAGES,
    REDIRECTS,
    PATHS,
];
