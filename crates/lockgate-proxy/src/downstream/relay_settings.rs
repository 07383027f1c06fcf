//! What relays of one kind are: their endpoints, their deadlines and their rates.

use std::sync::Arc;
use std::time::Duration;

use lockgate_limits::RelayIndex;
use lockgate_rules::SentHeader;
use lockgate_upstream::Pool;

use crate::shaping::Shape;

/// The settings of a relay.
#[derive(Debug)]
pub struct RelaySettings {
    /// Its index for counters.
    pub index: RelayIndex,
    /// The pool of its endpoints.
    pub pool: Arc<Pool>,
    /// The PROXY header that endpoints are sent, if any.
    pub proxy_protocol: Option<SentHeader>,
    /// For each attempt to connect to an endpoint, and for its TLS.
    pub connect: Duration,
    /// For a relay on which nothing moves.
    pub idle: Duration,
    /// When to probe a silent peer, if at all.
    pub keepalive: Option<Duration>,
    /// For a connection in all, if that is limited.
    pub max_lifetime: Option<Duration>,
    /// The rates that bytes are held to, if they are.
    pub shape: Option<Arc<Shape>>,
}

impl RelaySettings {
    /// Whether it needs the client's PROXY header.
    pub(super) fn passes_header(&self) -> bool {
        self.proxy_protocol == Some(SentHeader::Pass)
    }
}
