//! Pools: their endpoints, and how these are chosen, checked, waited for and kept.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockgate_rules::{Eject, HashKey, IdleSettings, ProxyVersion, Queue, Retry};

use crate::source::SourceSpan;

use super::{Answer, EndpointAddr, Protocol, UpstreamTls};

/// A group of endpoints: a `[pool.NAME]` table, or the addresses of one `proxy`.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointPool {
    /// Its name; `None` for addresses that were written inline.
    pub name: Option<String>,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
    /// The addresses; at least one.
    pub endpoints: Vec<WeightedEndpoint>,
    /// What is spoken to them by sites; `[tcp]` tables only have pools with `Http1`, and speak
    /// nothing. `H2` has `tls`, `H2c` has none, and neither has a `proxy_protocol`.
    pub protocol: Protocol,
    /// How one is chosen; `None`: by `P2c` for sites, by `Least` for `[tcp]`. Pools of `[tcp]` tell
    /// clients apart by `Client`, `Sni` and `Session` only.
    pub balance: Option<EndpointChoice>,
    /// Active checks of the endpoints; `None` has none.
    pub health: Option<HealthSettings>,
    /// When an endpoint that keeps failing is left alone; `None` is never.
    pub eject: Option<Eject>,
    /// In which time the share of an endpoint that comes back grows to the whole; zero is at once.
    pub slow_start: Duration,
    /// What happens when every endpoint is at its `max`.
    pub queue: Queue,
    /// Limits of the connections that are kept for reuse.
    pub idle: IdleSettings,
    /// Repeated attempts.
    pub retry: Retry,
    /// TLS to the endpoints; `None` is plain TCP.
    pub tls: Option<UpstreamTls>,
    /// The PROXY header that is sent; a connection then belongs to one client connection.
    pub proxy_protocol: Option<ProxyVersion>,
    /// What is answered when no endpoint is up; `None` is our own page.
    pub maintenance: Option<Answer>,
}

/// One address of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedEndpoint {
    /// The address that is connected to.
    pub addr: EndpointAddr,
    /// Its share beside the others, from 1 to 256.
    pub weight: u16,
    /// Connections or requests in flight to it, for the process; `None` is no limit.
    pub max: Option<usize>,
    /// Whether it is used only while no other is up.
    pub backup: bool,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
}

/// How an endpoint is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointChoice {
    /// The better of two at random, by latency and what is in flight.
    P2c,
    /// The one with the least in flight.
    Least,
    /// Every endpoint in turn, by weight.
    RoundRobin,
    /// The one that this leads to, always the same.
    Hash(HashKey),
    /// The one that a cookie of this name says, which clients are given; not for `[tcp]`.
    Sticky(String),
    /// The one that has made the client's TLS session, else the one that its address leads to; only
    /// for `[tcp]`, and only where TLS is passed through.
    Session,
}

/// Active checks of the endpoints of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthSettings {
    /// What each check sends and expects.
    pub probe: Probe,
    /// From the start of one check to that of the next.
    pub every: Duration,
    /// When a check has failed.
    pub timeout: Duration,
    /// Failures in a row after which an endpoint is down.
    pub fall: u32,
    /// Successes in a row after which it is up again.
    pub rise: u32,
    /// Another port than that of the endpoint.
    pub port: Option<u16>,
    /// TLS of the checks: that of the pool unless it has its own.
    pub tls: Option<UpstreamTls>,
}

/// What a check sends and expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// Whether a connection comes about, TLS included, and what is said on it.
    Tcp {
        /// What is sent; empty is nothing.
        send: String,
        /// What must come, within the first 64 KB; never empty, and `None` is nothing.
        expect: Option<String>,
    },
    /// A request, over the protocol of the pool; without TLS, or with a TLS of its own, HTTP/2
    /// stays HTTP/2.
    Http {
        /// The target of the request.
        path: String,
        /// The method of the request.
        method: String,
        /// The statuses that count as success; never empty.
        expect: Vec<RangeInclusive<u16>>,
        /// What the body must contain.
        body: Option<String>,
    },
    /// `grpc.health.v1.Health/Check` (the gRPC health checking protocol), which must say SERVING;
    /// only of pools that speak HTTP/2.
    Grpc {
        /// The service that is asked about; empty is the server as a whole.
        service: String,
    },
}
