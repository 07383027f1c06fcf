//! What holds for all endpoints of a pool that serves requests.

use std::time::Duration;

use lockgate_net::proxy_protocol::Version;

use super::affinity::Affinity;
use super::avoidance::Eject;
use super::sessions::Sessions;
use super::sticky::Sticky;
use crate::error_response::ErrorPage;

/// The settings of a pool.
#[derive(Debug, Default)]
pub struct Settings {
    /// What it is called, in logs and metrics.
    pub name: String,
    /// Whether HTTP/2 is spoken to its endpoints, and requests share connections.
    pub http2: bool,
    /// How connections are kept.
    pub keeping: Keeping,
    /// How requests that were not answered are tried again.
    pub retry: Retry,
    /// How clients come to belong to an endpoint, if they do.
    pub affinity: Option<Affinity>,
    /// When an endpoint that keeps failing is left alone, if ever.
    pub eject: Option<Eject>,
    /// Milliseconds in which the share of an endpoint that comes back grows to the whole; 0 is at
    /// once.
    pub slow_start: u64,
    /// How requests wait for endpoints that are at their `max`.
    pub queue: Queue,
    /// The PROXY header that endpoints are sent; a connection then belongs to one client's
    /// connection.
    pub proxy_protocol: Option<Version>,
    /// What is answered, by which status, while no endpoint is up.
    pub maintenance: Option<(u16, ErrorPage)>,
}

impl Settings {
    /// The cookie that clients get, if they do.
    pub fn sticky(&self) -> Option<&Sticky> {
        if let Some(Affinity::Sticky(sticky)) = &self.affinity {
            Some(sticky)
        } else {
            None
        }
    }

    /// Where TLS sessions were made, if that is who clients belong to.
    pub fn sessions(&self) -> Option<&Sessions> {
        if let Some(Affinity::Session(sessions)) = &self.affinity {
            Some(sessions)
        } else {
            None
        }
    }
}

/// How long connections are kept, and how many.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    /// Idle ones to each endpoint, in each worker; more are closed when they have been idle for a
    /// second.
    pub max: usize,
    /// Milliseconds without a request after which one is closed.
    pub lifetime: u64,
    /// Requests after which one is closed.
    pub requests: u64,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            max: 256,
            lifetime: 60_000,
            requests: 10_000,
        }
    }
}

/// How often a request may be tried again.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Attempts beyond the first; 0 is none.
    pub times: u32,
    /// Of a hundred requests to the pool so many may be tried again: where all fail, more attempts
    /// only add load.
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

/// How many requests may wait, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    /// At once, for the process.
    pub max: usize,
    /// Each.
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
