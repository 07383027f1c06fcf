//! Pools: their endpoints, and the choice, checks, queue and idle connections of these.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockgate_rules::{Eject, HashKey, IdleSettings, ProxyVersion, Queue, Retry};

use crate::source::SourceSpan;

use super::{Answer, EndpointAddr, Protocol, UpstreamTls};

/// A group of endpoints: a `[pool.NAME]` table, or the addresses of one `proxy`.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointPool {
    /// The name; `None` for inline addresses.
    pub name: Option<String>,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
    /// The addresses; at least one, unless operators have removed all.
    pub endpoints: Vec<WeightedEndpoint>,
    /// The protocol that sites use; pools of `[tcp]` tables have `Http1`, without effect. `H2` has
    /// `tls`, `H2c` has none, and neither has a `proxy_protocol`.
    pub protocol: Protocol,
    /// The choice of an endpoint; `None` stands for `P2c` in sites and `Least` in `[tcp]`. Of the
    /// choices by client, pools of `[tcp]` have only `Session` and hashes by `Client` or `Sni`.
    pub balance: Option<EndpointChoice>,
    /// Active health checks; `None` is none.
    pub health: Option<Box<HealthSettings>>,
    /// The ejection of failing endpoints; `None` is never.
    pub eject: Option<Eject>,
    /// The time in which the share of a recovered endpoint grows to its full weight; zero is at
    /// once.
    pub slow_start: Duration,
    /// The queue while every endpoint is at its `max`.
    pub queue: Queue,
    /// Limits of idle connections.
    pub idle: IdleSettings,
    /// Retries of requests.
    pub retry: Retry,
    /// TLS to the endpoints; `None` is plain TCP.
    pub tls: Option<UpstreamTls>,
    /// The PROXY header to endpoints; each connection then serves one client connection only.
    pub proxy_protocol: Option<ProxyVersion>,
    /// The response while no endpoint is up; `None` is Lockgate's own page.
    pub maintenance: Option<Box<Answer>>,
}

/// One address of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedEndpoint {
    /// The address of the endpoint.
    pub addr: EndpointAddr,
    /// The weight of its share, from 1 to 256.
    pub weight: u16,
    /// The maximum of connections or requests in flight to it, for the whole process; `None` is no
    /// limit.
    pub max: Option<usize>,
    /// Whether it is used only while no other endpoint is up.
    pub backup: bool,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
}

/// The choice of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointChoice {
    /// The better of two random ones, by latency and requests in flight.
    P2c,
    /// The one with the fewest requests or connections in flight.
    Least,
    /// Each in turn, by weight.
    RoundRobin,
    /// By a hash of this property; the same client gets the same endpoint.
    Hash(HashKey),
    /// By a cookie of this name, which Lockgate sets; not for `[tcp]`.
    Sticky(String),
    /// By the client's TLS session, else by a hash of its address; only for `[tcp]` with TLS
    /// passthrough.
    Session,
}

/// Active checks of the endpoints of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthSettings {
    /// The bytes or request of a check, and the expected response.
    pub probe: Probe,
    /// The time from the start of one check to that of the next.
    pub every: Duration,
    /// The time limit of a check.
    pub timeout: Duration,
    /// Consecutive failures after which an endpoint is down.
    pub fall: u32,
    /// Consecutive successes after which it is up again.
    pub rise: u32,
    /// The port of the checks, if it is not that of the endpoint.
    pub port: Option<u16>,
    /// TLS of the checks: their own, or that of the pool.
    pub tls: Option<UpstreamTls>,
}

/// The bytes or request of a check, and the expected response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// A TCP connection, with TLS if the pool has it, and optionally bytes in both directions.
    Tcp {
        /// The bytes to send; may be empty.
        send: String,
        /// The text that the endpoint must send within its first 64 KB; never empty, `None` expects
        /// nothing.
        expect: Option<String>,
    },
    /// An HTTP request over the protocol of the pool; HTTP/2 also without TLS or with the TLS of
    /// the checks.
    Http {
        /// The target of the request.
        path: String,
        /// The method of the request.
        method: String,
        /// The statuses that count as success; never empty.
        expect: Vec<RangeInclusive<u16>>,
        /// The text that the body must contain.
        body: Option<String>,
    },
    /// A call of `grpc.health.v1.Health/Check` (the gRPC health checking protocol), with SERVING as
    /// the expected status; only in pools with HTTP/2.
    Grpc {
        /// The service to ask about; empty stands for the whole server.
        service: String,
    },
}
