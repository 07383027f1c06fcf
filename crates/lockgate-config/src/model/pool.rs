//! Groups of endpoints: who is in them, how one is chosen, checked, waited for and kept.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockgate_rules::{Eject, HashKey, IdleSettings, ProxyVersion, Queue, Retry};

use super::{Answer, EndpointAddr, Protocol, UpstreamTls};
use crate::place::At;

/// A group of endpoints: a `[pool.NAME]` table, or the addresses of one `proxy`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Its name; `None` for addresses that were written inline.
    pub name: Option<String>,
    /// Where it was written.
    pub at: At,
    /// The addresses; at least one.
    pub endpoints: Vec<Endpoint>,
    /// What is spoken to them by sites; `[tcp]` tables only have pools with `Http1`, and speak
    /// nothing. `H2` has `tls`, `H2c` has none, and neither has a `proxy_protocol`.
    pub protocol: Protocol,
    /// How one is chosen; `None`: by `P2c` for sites, by `Least` for `[tcp]`, whose pools tell
    /// clients apart by `Client`, `Sni` and `Session` only.
    pub balance: Option<EndpointChoice>,
    /// Active checks.
    pub health: Option<HealthSettings>,
    /// When an endpoint that keeps failing is left alone; `None` is never.
    pub eject: Option<Eject>,
    /// In which time the share of an endpoint that comes back grows to the whole; zero is at once.
    pub slow_start: Duration,
    /// What happens when every endpoint is at its `max`.
    pub queue: Queue,
    /// Connections kept for reuse.
    pub idle: IdleSettings,
    /// Repeated attempts.
    pub retry: Retry,
    /// TLS to the endpoints.
    pub tls: Option<UpstreamTls>,
    /// The PROXY header that is sent; a connection then belongs to one client connection.
    pub proxy_protocol: Option<ProxyVersion>,
    /// What is answered when no endpoint is up; `None` is our own page.
    pub maintenance: Option<Answer>,
}

/// One address of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// The address.
    pub addr: EndpointAddr,
    /// Its share beside the others, from 1 to 256.
    pub weight: u16,
    /// Connections or requests in flight to it, for the process; `None` is no limit.
    pub max: Option<usize>,
    /// Whether it is used only while no other is up.
    pub backup: bool,
    /// Where it was written.
    pub at: At,
}

/// How an endpoint is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointChoice {
    /// The better of two at random, by latency and what is in flight.
    P2c,
    /// The one with the least in flight.
    Least,
    /// One after the other.
    RoundRobin,
    /// The one that this leads to, always the same.
    Hash(HashKey),
    /// The one that a cookie of this name says, which clients are given; not for `[tcp]`.
    Sticky(String),
    /// The one that has made the client's TLS session, else the one that its address leads to; only
    /// for `[tcp]`, and only where TLS is passed through.
    Session,
}

/// Active checks of endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthSettings {
    /// What is asked.
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

/// What a check asks.
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
        /// Its target.
        path: String,
        /// Its method.
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
