//! The settings of a pool.

use lockgate_net::millis::Millis;
use lockgate_rules::{Eject, IdleSettings, ProxyVersion, Queue, Retry};

use super::affinity::Affinity;
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
    /// The time in which the share of a returning endpoint grows to the whole; 0 is at once.
    pub slow_start: Millis,
    /// Limits of the queue for endpoints that are at their `max`.
    pub queue: Queue,
    /// The PROXY header that endpoints are sent; a connection then belongs to one client's
    /// connection.
    pub proxy_protocol: Option<ProxyVersion>,
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
