//! What holds for all endpoints of a pool that serves requests.

use lockgate_rules::{Eject, IdleSettings, ProxyVersion, Queue, Retry};

use super::affinity::Affinity;
use super::sessions::Sessions;
use super::sticky::Sticky;
use crate::answer::Page;

/// The settings of a pool.
#[derive(Debug, Default)]
pub struct Settings {
    /// What it is called, in logs and metrics.
    pub name: String,
    /// Whether HTTP/2 is spoken to its endpoints, and requests share connections.
    pub http2: bool,
    /// The limits of connections that are kept for reuse.
    pub idle_settings: IdleSettings,
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
    pub proxy_protocol: Option<ProxyVersion>,
    /// What is answered, by which status, while no endpoint is up.
    pub maintenance: Option<(u16, Page)>,
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
