//! The settings of a pool.

use std::time::Duration;

use lockgate_net::proxy_protocol::HeaderVersion;

use super::affinity::Affinity;
use super::outlier_detection::Eject;
use super::sessions::Sessions;
use super::sticky::Sticky;

/// The settings of a pool.
#[derive(Debug, Default)]
pub struct Settings {
    /// Its name in logs and metrics.
    pub name: String,
    /// Whether its endpoints speak HTTP/2, so that requests share connections.
    pub http2: bool,
    /// Limits of idle connections.
    pub idle_settings: IdleSettings,
    /// Limits of retries.
    pub retry: Retry,
    /// The affinity of clients, if any.
    pub affinity: Option<Affinity>,
    /// The ejection of failing endpoints, if any.
    pub eject: Option<Eject>,
    /// Milliseconds in which the share of a returning endpoint grows to the whole; 0 is at once.
    pub slow_start: u64,
    /// Limits of the queue for endpoints that are at their `max`.
    pub queue: Queue,
    /// The PROXY header that endpoints are sent; a connection then belongs to one client's
    /// connection.
    pub proxy_protocol: Option<HeaderVersion>,
    /// The status and body of the response while no endpoint is up.
    pub maintenance: Option<(u16, ErrorPage)>,
}

impl Settings {
    /// The cookie of affinity, if the pool has one.
    pub fn sticky(&self) -> Option<&Sticky> {
        if let Some(Affinity::Sticky(sticky)) = &self.affinity {
            Some(sticky)
        } else {
            None
        }
    }

    /// The members of TLS sessions, if the pool has affinity by session.
    pub fn sessions(&self) -> Option<&Sessions> {
        if let Some(Affinity::Session(sessions)) = &self.affinity {
            Some(sessions)
        } else {
            None
        }
    }
}

/// A response body of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// The bytes of the body.
    pub body: Vec<u8>,
    /// The value of Content-Type, which the configuration has checked.
    pub media_type: String,
}

/// Limits of idle connections.
#[derive(Debug, Clone, Copy)]
pub struct IdleSettings {
    /// The most idle connections to each endpoint, in each worker; more are closed after a second.
    pub max: usize,
    /// Milliseconds without a request after which a connection is closed.
    pub lifetime: u64,
    /// Requests after which a connection is closed.
    pub requests: u64,
}

impl Default for IdleSettings {
    fn default() -> Self {
        Self {
            max: 256,
            lifetime: 60_000,
            requests: 10_000,
        }
    }
}

/// Limits of retries.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Attempts beyond the first; 0 is none.
    pub times: u32,
    /// The share of requests to the pool that may be tried again, in percent: where all fail, more
    /// attempts only add load.
    pub budget: u8,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            times: 1,
            budget: 20,
        }
    }
}

/// Limits of the queue of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    /// The most waiting requests in the process.
    pub max: usize,
    /// The longest wait of each.
    pub wait: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            max: 1_000,
            wait: Duration::from_secs(2),
        }
    }
}
