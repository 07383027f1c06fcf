//! The keys of `[pool.NAME]` tables.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockgate_rules::{HashKey, ProxyVersion};

use crate::model::{EndpointAddr, Protocol};
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{AT_LEAST_1MS, Defaulted, Key, PROXY_VERSIONS, Row, tcp, tls};

pub(super) const PROTOCOL_KEY: Defaulted<Protocol> = Key::defaulted(
    "protocol",
    &Words(&[
        ("http1", Protocol::Http1),
        ("h2", Protocol::H2),
        ("h2c", Protocol::H2c),
    ]),
    r#""http1""#,
    r#""h2c""#,
    "What is spoken to the endpoints of a site: `\"http1\"`, `\"h2\"` (HTTP/2 over TLS, so `tls` is needed) or `\"h2c\"` \
     (HTTP/2 without TLS, by prior knowledge, as most gRPC servers have it). Over HTTP/2 requests share connections: up \
     to 100 at once on each, or fewer where the endpoint says so. One that leaves a request without any sign for 10 s \
     is sent a PING, and closed when that is not answered within 20 s; quiet streams get none. Up to 1 MB of each answer is held for a client that \
     takes nothing. WebSockets need an endpoint that takes extended CONNECT (RFC 8441). A `[tcp]` table relays bytes as \
     they are and takes no pool that speaks HTTP/2.",
);

pub(super) const PROXY_PROTOCOL_KEY: Key<ProxyVersion> = Key::new(
    "proxy_protocol",
    &PROXY_VERSIONS,
    Absent("none is sent"),
    r#""v2""#,
    "The PROXY header that tells the endpoint the client's address. A connection then belongs to one client \
     connection and is never shared, so not for HTTP/2, which sends `X-Forwarded-For`.",
);

/// How endpoints are chosen for clients that belong to none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    P2c,
    Least,
    RoundRobin,
}

const ORDERS: Words<Order> = Words(&[
    ("p2c", Order::P2c),
    ("least", Order::Least),
    ("round-robin", Order::RoundRobin),
]);

const TCP: Words<()> = Words(&[("tcp", ())]);

/// What must come of a check.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    Text(String),
    Statuses(Items<RangeInclusive<u16>>),
}

const STATUSES: List<StatusRanges> = List {
    of: StatusRanges { from: 100 },
    least: 1,
};

table! {
    const ENDPOINTS: Key<Items<Form<EndpointAddr>>> = Key::new(
        "endpoints",
        &tcp::ENDPOINTS,
        Required,
        r#"["10.0.0.1:8080", { addr = "10.0.0.2:8080", weight = 2, max = 200 }]"#,
        "The addresses: `\"10.0.0.1:8080\"`, `\"[::1]:8080\"`, `\"app.internal:8080\"`, `\"unix:/run/app.sock\"` or a table. \
         `\"srv:_app._tcp.example.internal\"` stands for up to 32 endpoints that come and go as the SRV records of that name \
         (RFC 2782) do, which are looked for again after their TTL, at the latest after 30 s: by their weights, those of the best \
         priority, and of the others, as backups, when none of these is up. In logs and metrics they are called by a number behind the \
         name, which is taken as a whole, without search domains. Where it does not resolve, the last ones stay.",
    );

    const PROTOCOL: Defaulted<Protocol> = PROTOCOL_KEY;

    const BALANCE: Key<Form<Order>> = Key::new(
        "balance",
        &Short { short: ORDERS, long: TableOf(balance::ALL) },
        Absent("`\"p2c\"` for sites, `\"least\"` for `[tcp]`"),
        r#""round-robin""#,
        "How an endpoint is chosen: `\"p2c\"` takes the better of two at random, by latency and what is in flight, \
         `\"least\"` the one with the least in flight, `\"round-robin\"` one after the other; all by `weight`. A connection \
         that is relayed is in flight from beginning to end.",
    );

    const HEALTH: Defaulted<Form<Option<Option<String>>>> = Key::defaulted(
        "health",
        &Short { short: Unless(False, Unless(TCP, UrlPath)), long: TableOf(health::ALL) },
        "false",
        r#"{ path = "/health", every = "5s" }"#,
        "Active checks. The short form is the path of a GET request, over the pool's `protocol`, or `\"tcp\"`: whether a \
         connection comes about.",
    );

    const EJECT: Key<Form<()>> = Key::new(
        "eject",
        &Short { short: False, long: TableOf(eject::ALL) },
        Within,
        r#"{ errors = 3, for = "30s" }"#,
        "An endpoint that keeps failing is left alone for a while (ejected), checks or none. What counts is that it cannot be \
         reached, breaks off before it answers, answers what cannot be read or nothing in time; any answer is one, unless its status is \
         in `statuses`. Over HTTP/2 a reset of one request's stream is an answer to that request as well: see there. A request that cannot be \
         put into the words of HTTP/2 is the client's fault, and is refused before an endpoint is chosen. For relays it is that it cannot be reached. Half of the pool's endpoints always \
         stay: where all fail, none is at fault. Requests that come while none is left are still tried. Also before that, an \
         endpoint that could not be reached or broke off is tried last for a second, after further failures for up to ten; \
         what fails meanwhile counts as one failure. That, and no ejections, is what `false` leaves.",
    );

    const SLOW_START: Defaulted<Duration> = Key::defaulted(
        "slow_start",
        &Time { min: 0 },
        r#""0s""#,
        r#""30s""#,
        "In which time the share of an endpoint that comes up by its checks, or back after an ejection, grows from a tenth \
         to its whole `weight`. Not at the start.",
    );

    const QUEUE: Key<Table> = Key::new(
        "queue",
        &TableOf(queue::ALL),
        Within,
        r#"{ max = 100, wait = "500ms" }"#,
        "What happens to a request, or a connection that is to be relayed, when every endpoint is at its `max`. `wait` holds \
         as well where the process or the client has no socket left: see `limits.connections`.",
    );

    const IDLE: Key<Table> = Key::new(
        "idle",
        &TableOf(idle::ALL),
        Within,
        r#"{ max = 32, for = "30s" }"#,
        "Connections that are kept for the next request, until others need their sockets: see `limits.connections`.",
    );

    const RETRY: Key<Form<()>> = Key::new(
        "retry",
        &Short { short: False, long: TableOf(retry::ALL) },
        Within,
        r#"{ times = 2, budget = "10%" }"#,
        "Requests are sent again, to another endpoint, when the first one gave no answer, or falls by its checks before \
         it does: idempotent ones, and others only when nothing of them was sent, or when over HTTP/2 the endpoint says \
         that it did not look at them. `false` never does.",
    );

    const TLS: Key<Table> = tcp::TLS_TO;
    const PROXY_PROTOCOL: Key<ProxyVersion> = PROXY_PROTOCOL_KEY;

    const MAINTENANCE: Key<Table> = Key::new(
        "maintenance",
        &TableOf(maintenance::ALL),
        Absent("a page that says so, with 503"),
        r#"{ body = "back soon\n" }"#,
        "What is answered when no endpoint is up. A `[tcp]` table answers so too where its client speaks HTTP/1.1, in plain or \
         over the TLS that it takes off; every other connection is closed.",
    );
}

table! {
    /// `health`.
    mod health;

    const PATH: Key<String> = Key::new(
        "path",
        &UrlPath,
        Absent("only whether a connection comes about, as `\"tcp\"`"),
        r#""/health""#,
        "The path, and perhaps query, of the request.",
    );

    const GRPC: Defaulted<Switch<String>> = Key::defaulted(
        "grpc",
        &OrFlag(Name),
        "false",
        r#""package.Service""#,
        "Asks by the gRPC health protocol (`grpc.health.v1.Health/Check`) instead, about the server (`true`) or one of \
         its services; well is `SERVING`. Only with `protocol = \"h2\"` or `\"h2c\"`, and without `path`.",
    )
    .around(r#"protocol = "h2c""#);

    const TCP: Key<bool> = Key::new(
        "tcp",
        &Flag,
        Absent("`true` without `path` and `grpc`"),
        "true",
        "Asks whether a connection comes about, TLS included, and by `send` and `expect` what is said on it. Without `path`.",
    )
    .with(r#"expect = "PONG""#);

    const SEND: Key<String> = Key::new(
        "send",
        &Body,
        Absent("nothing"),
        r#""PING\r\n""#,
        "What is sent on a connection of `tcp`, byte for byte; `\\r\\n` and `\\u0000` are those of TOML.",
    )
    .with("tcp = true");

    const METHOD: Defaulted<String> = Key::defaulted(
        "method",
        &Method,
        r#""GET""#,
        r#""HEAD""#,
        "The method of the request.",
    )
    .with(r#"path = "/health""#);

    const EVERY: Defaulted<Duration> = Key::defaulted(
        "every",
        &Time { min: 10 },
        r#""2s""#,
        r#""5s""#,
        "From one check to the next.",
    );

    const TIMEOUT: Defaulted<Duration> = Key::defaulted(
        "timeout",
        &AT_LEAST_1MS,
        r#""1s""#,
        r#""3s""#,
        "When a check has failed.",
    );

    const FALL: Defaulted<u32> = Key::defaulted(
        "fall",
        &Number::new(1, 1_000),
        "3",
        "2",
        "Failures in a row after which an endpoint is down.",
    );

    const RISE: Defaulted<u32> = Key::defaulted(
        "rise",
        &Number::new(1, 1_000),
        "2",
        "1",
        "Successes in a row after which it is up again.",
    );

    const EXPECT: Key<Expected> = Key::new(
        "expect",
        &Either(&[
            &As(Body, Expected::Text),
            &As(STATUSES, Expected::Statuses),
        ]),
        Absent("`\"200-399\"`, of `tcp` nothing"),
        r#"["200-299", "401"]"#,
        "The statuses that count as success; of `tcp` a text that must come within the first 64 KB, such as `\"PONG\"`. \
         Without `send` the endpoint speaks first.",
    )
    .with(r#"path = "/health""#);

    const BODY: Key<String> = Key::new(
        "body",
        &Line,
        Absent("any"),
        r#""ready""#,
        "What the body must contain, within its first 64 KB.",
    )
    .with(r#"path = "/health""#);

    const PORT: Key<u16> = Key::new(
        "port",
        &Number::new(1, 65_535),
        Absent("that of each endpoint"),
        "8081",
        "Another port to ask.",
    );

    const TLS: Key<Form<()>> = Key::new(
        "tls",
        &Short { short: False, long: TableOf(tls::upstream::ALL) },
        Absent("that of the pool"),
        r#"{ name = "app.internal" }"#,
        "TLS of the checks; `false` asks without.",
    );
}

table! {
    /// `balance`.
    mod balance;

    const HASH: Key<HashKey> = Key::new(
        "hash",
        &HashBy,
        Absent("`sticky`"),
        r#""client""#,
        "The same endpoint for the same client address (`\"client\"`; of IPv6 the first 64 bits, as the rest changes), SNI \
         (`\"sni\"`), field or cookie of the request (`\"header:x-user\"`, `\"cookie:id\"`). Who has none of it, or an empty \
         one, is told apart by address. In every Lockgate with the same endpoints it leads to the same one, by `weight`; \
         when one falls, only those who belonged to it go elsewhere, and return when it is back. One at its `max` is \
         passed over. For `[tcp]`: `\"client\"` and `\"sni\"`.",
    );

    const STICKY: Key<StickyKey> = Key::new(
        "sticky",
        &StickyBy,
        Absent("`hash`"),
        r#""cookie:lg""#,
        "The endpoint that the client was with before, by a cookie of this name, which answers set where it is new or has \
         changed: `Path=/; HttpOnly; SameSite=Lax`, over TLS `Secure`. Such an answer is `Cache-Control: private`, so that no \
         shared cache keeps it. The cookie is a hash of the endpoint's address and the pool's name, the same in every \
         Lockgate where these are; endpoints do not see it. Who comes without, or with one of an endpoint that is down, \
         ejected or cannot be reached, gets the better of two at random, and a new cookie; one at its `max` is waited for. \
         Who was with a backup stays there. Not for `[tcp]`.\n\n\
         `\"tls-session\"` is for `[tcp]` where TLS is passed through: the endpoint that has made the session which the client \
         resumes, so that it need not make another one. It knows sessions of TLS 1.2 and before by their identifier, the \
         65,536 that were made or resumed last, each for a day at most. Who resumes none that is known, by TLS 1.3 or with a \
         ticket that is called otherwise each time, who does not speak TLS, and whose endpoint is down, ejected, cannot be \
         reached or is at its `max`, goes by address as with `hash = \"client\"`. The client must speak first: where it says \
         nothing, an endpoint is chosen after `timeouts.handshake`.",
    );
}

table! {
    /// `eject`.
    mod eject;

    const ERRORS: Defaulted<u8> = Key::defaulted(
        "errors",
        &Number::new(1, 100),
        "5",
        "3",
        "After how many failures in a row.",
    );

    const FOR: Defaulted<Duration> = Key::defaulted(
        "for",
        &AT_LEAST_1MS,
        r#""10s""#,
        r#""30s""#,
        "For how long.",
    );

    const STATUSES: Key<Items<RangeInclusive<u16>>> = Key::new(
        "statuses",
        &List { of: StatusRanges { from: 500 }, least: 1 },
        Absent("none"),
        r#"["502-504"]"#,
        "Which statuses of its answers are failures too. Whoever knows a URL that answers one of them can bring about an \
         ejection by asking for it again and again: only for applications that answer them to nobody while they are well. \
         Over HTTP/2 a stream that the endpoint resets before its answer counts as 502, which is what the client is told; one that it \
         refuses (REFUSED_STREAM) never counts. Without them, `health` finds an endpoint that answers but cannot serve, or resets \
         every stream, and no client has a say in it.",
    );
}

table! {
    /// `queue`.
    mod queue;

    const MAX: Defaulted<usize> = Key::defaulted(
        "max",
        &Number::new(0, 1_000_000),
        "1000",
        "100",
        "How many may wait, for the process; 0 refuses at once.",
    );

    const WAIT: Defaulted<Duration> = Key::defaulted(
        "wait",
        &AT_LEAST_1MS,
        r#""2s""#,
        r#""500ms""#,
        "How long each may wait, for its client's share, an endpoint and a socket together, also where it is tried again. The time for \
         connections that are made meanwhile is that of `timeouts.connect`.",
    );
}

table! {
    /// `idle`.
    mod idle;

    const MAX: Defaulted<usize> = Key::defaulted(
        "max",
        &Number::new(0, 100_000),
        "256",
        "32",
        "How many to one endpoint are kept, for each worker; 0 keeps none.",
    );

    const FOR: Defaulted<Duration> = Key::defaulted(
        "for",
        &AT_LEAST_1MS,
        r#""60s""#,
        r#""30s""#,
        "How long one may lie idle.",
    );

    const REQUESTS: Defaulted<u64> = Key::defaulted(
        "requests",
        &Number::count(),
        "10000",
        "1000",
        "How many requests one may carry, over HTTP/2 too.",
    );
}

table! {
    /// `retry`.
    mod retry;

    const TIMES: Defaulted<u32> = Key::defaulted(
        "times",
        &Number::new(1, 10),
        "1",
        "2",
        "How often one request may be sent again.",
    );

    const BUDGET: Defaulted<u8> = Key::defaulted(
        "budget",
        &Percent,
        r#""20%""#,
        r#""10%""#,
        "How many requests of a hundred may be sent again, so that a pool in trouble is not buried.",
    );
}

table! {
    /// `maintenance`.
    mod maintenance;

    const STATUS: Defaulted<u16> = Key::defaulted(
        "status",
        &Number::new(200, 599),
        "503",
        "200",
        "The status.",
    );

    const BODY: Defaulted<String> = Key::defaulted(
        "body",
        &Body,
        r#""""#,
        r#""back soon\n""#,
        "The body.",
    );

    const TYPE: Defaulted<String> = super::TYPE.with(r#"body = "<p>back soon""#);
}

pub(crate) const TYPE: Defaulted<String> = Key::defaulted(
    "type",
    &FieldValue,
    r#""text/plain; charset=utf-8""#,
    r#""text/html; charset=utf-8""#,
    "The media type of the body.",
);
