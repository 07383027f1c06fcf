//! The keys of `[pool.NAME]` tables.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockgate_rules::{HashKey, ProxyVersion};

use crate::model::{EndpointAddr, Protocol};
use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{AT_LEAST_1MS, ConfigKey, Defaulted, KeyRow, OFF, PROXY_VERSIONS, tcp, tls};

pub(super) const PROTOCOL_KEY: Defaulted<Protocol> = ConfigKey::defaulted(
    "protocol",
    &Words(&[
        ("http1", Protocol::Http1),
        ("h2", Protocol::H2),
        ("h2c", Protocol::H2c),
    ]),
    r#""http1""#,
    r#""h2c""#,
    "The protocol that sites speak to the endpoints: `\"http1\"`, `\"h2\"` (HTTP/2 over TLS; needs \
     `tls`) or `\"h2c\"` (HTTP/2 without TLS by prior knowledge, as most gRPC servers speak it). A \
     `[tcp]` table relays bytes and cannot use a pool that speaks HTTP/2.\n\n\
     Over HTTP/2, requests share connections: up to 100 at once on each, or fewer if the endpoint \
     says so. If no frame arrives for 10 s after Lockgate has sent something of a request, it sends \
     a PING, and closes the connection when no answer arrives within 20 s. A stream that is only \
     quiet causes no PING. Up to 1 MB of each response is buffered for a client that reads nothing. \
     WebSockets need an endpoint that supports extended CONNECT (RFC 8441).",
);

pub(super) const PROXY_PROTOCOL_KEY: ConfigKey<ProxyVersion> = ConfigKey::new(
    "proxy_protocol",
    &PROXY_VERSIONS,
    Absent("none is sent"),
    r#""v2""#,
    "Sends a PROXY header of this version, so that the endpoint learns the client's address. Each \
     connection to an endpoint then serves only one client connection. Not for HTTP/2, which sends \
     `X-Forwarded-For`.",
);

/// The choice of an endpoint for clients without one of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BalanceMethod {
    P2c,
    Least,
    RoundRobin,
}

const ORDERS: Words<BalanceMethod> = Words(&[
    ("p2c", BalanceMethod::P2c),
    ("least", BalanceMethod::Least),
    ("round-robin", BalanceMethod::RoundRobin),
]);

const TCP: Words<()> = Words(&[("tcp", ())]);

/// The expected response of a check.
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
    const ENDPOINTS: ConfigKey<Items<ShortOrLong<EndpointAddr>>> = ConfigKey::new(
        "endpoints",
        &tcp::ENDPOINTS,
        Required,
        r#"["10.0.0.1:8080", { addr = "10.0.0.2:8080", weight = 2, max = 200 }]"#,
        "The addresses: `\"10.0.0.1:8080\"`, `\"[::1]:8080\"`, `\"app.internal:8080\"`, \
         `\"unix:/run/app.sock\"` or a table.\n\n\
         `\"srv:_app._tcp.example.internal\"` stands for up to 32 endpoints from the SRV records of \
         that name (RFC 2782), used by their weights. Records of the best priority are endpoints, \
         the others are backups. The records are looked up again after their TTL, at the latest \
         after 30 s; if the lookup fails, the last endpoints stay. The name is used as it is, \
         without search domains. Logs and metrics show such an endpoint as the name and a number.",
    );

    const PROTOCOL: Defaulted<Protocol> = PROTOCOL_KEY;

    const BALANCE: ConfigKey<ShortOrLong<BalanceMethod>> = ConfigKey::new(
        "balance",
        &Short { short: ORDERS, long: TableOf(balance::ALL) },
        Absent("`\"p2c\"` for sites, `\"least\"` for `[tcp]`"),
        r#""round-robin""#,
        "How an endpoint is chosen. `\"p2c\"` compares two random endpoints by latency and requests \
         in flight and takes the better one. `\"least\"` takes the one with the fewest requests in \
         flight. `\"round-robin\"` takes them in turn. All respect `weight`. A relayed connection \
         counts as in flight until it ends.",
    );

    const HEALTH: Defaulted<ShortOrLong<Option<Option<String>>>> = ConfigKey::defaulted(
        "health",
        &Short { short: Unless(False, Unless(TCP, UrlPath)), long: TableOf(health::ALL) },
        "false",
        r#"{ path = "/health", every = "5s" }"#,
        "Active health checks. The short form is the path of a GET request, sent in the pool's \
         `protocol`, or `\"tcp\"`: whether a connection succeeds.",
    );

    const EJECT: ConfigKey<ShortOrLong<()>> = ConfigKey::new(
        "eject",
        &Short { short: False, long: TableOf(eject::ALL) },
        Within,
        r#"{ errors = 3, for = "30s" }"#,
        "An endpoint that keeps failing is not used for a while (ejected), with or without health \
         checks.\n\n\
         - A failure is: the connection fails, the endpoint closes it before it responds, the \
         response is malformed, or none arrives in time. Any response counts as a success, unless \
         its status is in `statuses`. For relays only a failed connection counts.\n\
         - Over HTTP/2, the reset of a single stream counts as a response; see `statuses`.\n\
         - A request that HTTP/2 cannot express is the client's fault. It is refused before an \
         endpoint is chosen.\n\
         - An endpoint is ejected only while at least half of the pool is left, up and reachable: \
         if all fail, none is at fault. If none is left, requests are still tried.\n\
         - Besides ejection, an endpoint that could not be reached or closed the connection is \
         tried last for one second, after more failures for up to ten. Failures in that time count \
         as one.\n\n\
         `false` turns ejection off; only the short pause of the last rule stays.",
    );

    const SLOW_START: Defaulted<Duration> = ConfigKey::defaulted(
        "slow_start",
        &Time { min: 0 },
        r#""0s""#,
        r#""30s""#,
        "How long the share of an endpoint takes to grow from a tenth to its full `weight`, after \
         its health checks succeed again or its ejection ends. It does not apply at the start of \
         Lockgate.",
    );

    const QUEUE: ConfigKey<CheckedTable> = ConfigKey::new(
        "queue",
        &TableOf(queue::ALL),
        Within,
        r#"{ max = 100, wait = "500ms" }"#,
        "The queue of requests, and of connections to relay, while every endpoint is at its `max`. \
         `wait` also limits waiting for a socket when the process or the client has none left: see \
         `limits.connections`.",
    );

    const IDLE: ConfigKey<CheckedTable> = ConfigKey::new(
        "idle",
        &TableOf(idle::ALL),
        Within,
        r#"{ max = 32, for = "30s" }"#,
        "Connections to endpoints that stay open for the next request, until others need their \
         sockets: see `limits.connections`.",
    );

    const RETRY: ConfigKey<ShortOrLong<()>> = ConfigKey::new(
        "retry",
        &Short { short: False, long: TableOf(retry::ALL) },
        Within,
        r#"{ times = 2, budget = "10%" }"#,
        "A request is sent again, to another endpoint, if the first endpoint gave no response or \
         its health check failed while the request waited. Idempotent requests are retried. Other \
         requests are retried only if nothing of them was sent, or if an HTTP/2 endpoint says that \
         it did not process them. `false` never retries.",
    );

    const TLS: ConfigKey<CheckedTable> = tcp::TLS_TO;
    const PROXY_PROTOCOL: ConfigKey<ProxyVersion> = PROXY_PROTOCOL_KEY;

    const MAINTENANCE: ConfigKey<CheckedTable> = ConfigKey::new(
        "maintenance",
        &TableOf(maintenance::ALL),
        Absent("a page with 503"),
        r#"{ body = "back soon\n" }"#,
        "The response while no endpoint is up. A `[tcp]` table sends it to clients that speak \
         HTTP/1.1, in plain or over TLS that it terminates; it closes every other connection.",
    );
}

table! {
    mod health;

    const PATH: ConfigKey<String> = ConfigKey::new(
        "path",
        &UrlPath,
        Absent("only whether a connection succeeds, as with `\"tcp\"`"),
        r#""/health""#,
        "The request's path, optionally with a query.",
    );

    const GRPC: Defaulted<Switch<String>> = ConfigKey::defaulted(
        "grpc",
        &OrFlag(Identifier),
        "false",
        r#""package.Service""#,
        "Uses the gRPC health protocol (`grpc.health.v1.Health/Check`), for the whole server \
         (`true`) or for one of its services. `SERVING` is a success. Needs `protocol = \"h2\"` or \
         `\"h2c\"`. Cannot be combined with `path`, `method`, `expect` or `body`.",
    )
    .around(r#"protocol = "h2c""#);

    const TCP: ConfigKey<bool> = ConfigKey::new(
        "tcp",
        &Flag,
        Absent("`true` without `path` and `grpc`"),
        "true",
        "Checks only whether a connection succeeds, including TLS, and optionally a dialogue by \
         `send` and `expect`. Cannot be combined with `path`, `grpc`, `method` or `body`.",
    )
    .with(r#"expect = "PONG""#);

    const SEND: ConfigKey<String> = ConfigKey::new(
        "send",
        &Body,
        Absent("nothing"),
        r#""PING\r\n""#,
        "The bytes that a `tcp` check sends. `\\r\\n` and `\\u0000` are escapes of TOML.",
    )
    .with("tcp = true");

    const METHOD: Defaulted<String> = ConfigKey::defaulted(
        "method",
        &MethodName,
        r#""GET""#,
        r#""HEAD""#,
        "The request's method.",
    )
    .with(r#"path = "/health""#);

    const EVERY: Defaulted<Duration> = ConfigKey::defaulted(
        "every",
        &Time { min: 10 },
        r#""2s""#,
        r#""5s""#,
        "The time from one check to the next.",
    );

    const TIMEOUT: Defaulted<Duration> = ConfigKey::defaulted(
        "timeout",
        &AT_LEAST_1MS,
        r#""1s""#,
        r#""3s""#,
        "The time after which a check has failed.",
    );

    const FALL: Defaulted<u32> = ConfigKey::defaulted(
        "fall",
        &WholeNumber::new(1, 1_000),
        "3",
        "2",
        "The number of failures in a row after which an endpoint is down.",
    );

    const RISE: Defaulted<u32> = ConfigKey::defaulted(
        "rise",
        &WholeNumber::new(1, 1_000),
        "2",
        "1",
        "The number of successes in a row after which it is up again.",
    );

    const EXPECT: ConfigKey<Expected> = ConfigKey::new(
        "expect",
        &Either(&[
            &As(Body, Expected::Text),
            &As(STATUSES, Expected::Statuses),
        ]),
        Absent("`\"200-399\"`; for a `tcp` check nothing"),
        r#"["200-299", "401"]"#,
        "The statuses that count as success. For a `tcp` check, a text that must arrive within the \
         first 64 KB, such as `\"PONG\"`; without `send` the endpoint speaks first.",
    )
    .with(r#"path = "/health""#);

    const BODY: ConfigKey<String> = ConfigKey::new(
        "body",
        &SingleLine,
        Absent("any"),
        r#""ready""#,
        "A text that the body must contain within its first 64 KB.",
    )
    .with(r#"path = "/health""#);

    const PORT: ConfigKey<u16> = ConfigKey::new(
        "port",
        &WholeNumber::new(1, 65_535),
        Absent("the port of each endpoint"),
        "8081",
        "Another port for the checks.",
    );

    const TLS: ConfigKey<ShortOrLong<()>> = ConfigKey::new(
        "tls",
        &Short { short: False, long: TableOf(tls::upstream::ALL) },
        Absent("the `tls` of the pool"),
        r#"{ name = "app.internal" }"#,
        "TLS of the checks. `false` checks without TLS.",
    );
}

table! {
    mod balance;

    const HASH: ConfigKey<HashKey> = ConfigKey::new(
        "hash",
        &HashBy,
        Absent("`sticky`"),
        r#""client""#,
        "Requests with the same key go to the same endpoint. The key is the client's address \
         (`\"client\"`; of IPv6 the first 64 bits, because the rest changes), SNI (`\"sni\"`), or a \
         field or cookie of the request (`\"header:x-user\"`, `\"cookie:id\"`). A request without a \
         key, or with an empty one, uses the client's address. For `[tcp]`: `\"client\"` and \
         `\"sni\"`.\n\n\
         Every Lockgate with the same endpoints chooses the same one, by `weight`. If an endpoint \
         goes down, only its own clients move, and they return when it is back. An endpoint at its \
         `max` is passed over.",
    );

    const STICKY: ConfigKey<StickyKey> = ConfigKey::new(
        "sticky",
        &StickyBy,
        Absent("`hash`"),
        r#""cookie:lg""#,
        "A client stays with its endpoint, by a cookie of this name. A response sets the cookie \
         when it is new or has changed: `Path=/; HttpOnly; SameSite=Lax`, and `Secure` over TLS; \
         the response is then `Cache-Control: private`, so that shared caches do not store it. The \
         cookie is a hash of the endpoint's address and the pool's name, so every Lockgate with the \
         same ones accepts it. Endpoints do not see the cookie. A client without a cookie, or whose \
         endpoint is down, ejected or cannot be reached, gets an endpoint by `\"p2c\"` and a new \
         cookie. If the endpoint is at its `max`, the request waits for it. A client of a backup \
         stays there. Not for `[tcp]`.\n\n\
         `\"tls-session\"` is for `[tcp]` with TLS passthrough: a client that resumes a TLS session \
         goes to the endpoint that issued it, so that no full handshake is needed. It works for \
         sessions of TLS 1.2 and older that have an identifier: the last 65,536 sessions, each for \
         at most a day. All other clients go by address, as with `hash = \"client\"`: those that \
         resume with TLS 1.3 or with a ticket that is named differently each time, that do not use \
         TLS, or whose endpoint is down, ejected, unreachable or at its `max`. The client must \
         speak first: if it is silent, an endpoint is chosen after `timeouts.handshake`.",
    );
}

table! {
    mod eject;

    const ERRORS: Defaulted<u8> = ConfigKey::defaulted(
        "errors",
        &WholeNumber::new(1, 100),
        "5",
        "3",
        "The number of failures in a row before ejection.",
    );

    const FOR: Defaulted<Duration> = ConfigKey::defaulted(
        "for",
        &AT_LEAST_1MS,
        r#""10s""#,
        r#""30s""#,
        "How long an ejection lasts.",
    );

    const STATUSES: ConfigKey<Items<RangeInclusive<u16>>> = ConfigKey::new(
        "statuses",
        &List { of: StatusRanges { from: 500 }, least: 1 },
        Absent("none"),
        r#"["502-504"]"#,
        "Statuses of responses that count as failures too. Any client that knows a URL with such a \
         status can cause an ejection by requesting it repeatedly, so name only statuses that the \
         application never sends while it is healthy. Over HTTP/2, a stream that the endpoint \
         resets before its response counts as 502, which is what the client gets; a stream that it \
         refuses (REFUSED_STREAM) never counts. Without this key, responses never cause an ejection \
         by their status; a URL that makes the application time out or break off still can. Use \
         `health` to detect an endpoint that responds with errors or resets every stream: clients \
         cannot influence its checks.",
    );
}

table! {
    mod queue;

    const MAX: Defaulted<usize> = ConfigKey::defaulted(
        "max",
        &WholeNumber::new(0, 1_000_000),
        "1000",
        "100",
        "How many requests may wait, per process. 0 refuses at once.",
    );

    const WAIT: Defaulted<Duration> = ConfigKey::defaulted(
        "wait",
        &AT_LEAST_1MS,
        r#""2s""#,
        r#""500ms""#,
        "How long each may wait in all: for its client's share of sockets, for an endpoint and for \
         a socket, retries included. The time to make a connection is limited by \
         `timeouts.connect`.",
    );
}

table! {
    mod idle;

    const MAX: Defaulted<usize> = ConfigKey::defaulted(
        "max",
        &WholeNumber::new(0, 100_000),
        "256",
        "32",
        "How many idle connections to one endpoint each worker keeps. 0 keeps none.",
    );

    const FOR: Defaulted<Duration> = ConfigKey::defaulted(
        "for",
        &AT_LEAST_1MS,
        r#""60s""#,
        r#""30s""#,
        "How long a connection may stay idle.",
    );

    const REQUESTS: Defaulted<u64> = ConfigKey::defaulted(
        "requests",
        &WholeNumber::count(),
        "10000",
        "1000",
        "How many requests one connection may carry, over HTTP/2 too.",
    );

    const LIFETIME: Defaulted<Option<Duration>> = ConfigKey::defaulted(
        "lifetime",
        &Unless(OFF, AT_LEAST_1MS),
        r#""1h""#,
        r#""10m""#,
        "The age at which a connection gets no further request, over HTTP/2 too. It is closed when \
         it carries none: no request is cut short. With `proxy_protocol` the client stays connected, \
         and its next request makes a new connection to the endpoint.",
    );
}

table! {
    mod retry;

    const TIMES: Defaulted<u32> = ConfigKey::defaulted(
        "times",
        &WholeNumber::new(1, 10),
        "1",
        "2",
        "How many times one request may be retried.",
    );

    const BUDGET: Defaulted<u8> = ConfigKey::defaulted(
        "budget",
        &Percent,
        r#""20%""#,
        r#""10%""#,
        "The most retries per hundred requests, so that retries cannot overload a failing pool.",
    );
}

table! {
    mod maintenance;

    const STATUS: Defaulted<u16> = ConfigKey::defaulted(
        "status",
        &WholeNumber::new(200, 599),
        "503",
        "200",
        "The status.",
    );

    const BODY: Defaulted<String> = ConfigKey::defaulted(
        "body",
        &Body,
        r#""""#,
        r#""back soon\n""#,
        "The body.",
    );

    const TYPE: Defaulted<String> = super::TYPE.with(r#"body = "<p>back soon""#);
}

pub(crate) const TYPE: Defaulted<String> = ConfigKey::defaulted(
    "type",
    &FieldValue,
    r#""text/plain; charset=utf-8""#,
    r#""text/html; charset=utf-8""#,
    "The media type of the body.",
);
