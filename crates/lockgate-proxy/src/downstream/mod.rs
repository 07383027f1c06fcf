//! The client's side: accepting connections, and what comes first on them.

mod accept;
mod connection;
mod http;
mod http2;
mod opening;
mod own;
mod seen;
mod serve;
mod tunnel;

pub use accept::accept;
pub use opening::AcceptProxy;

use std::sync::Arc;
use std::time::Duration;

use lockgate_net::proxy_protocol::Version as ProxyVersion;
use lockgate_net::tls::Acceptors;

use crate::shaping::Shape;
use crate::site::Sites;
use crate::upstream::Pool;

/// What is done with the connections of one listener.
#[derive(Debug)]
pub struct Listener {
    /// As it was written, for logs and metrics.
    pub name: String,
    /// TLS with clients; `None`: bytes as they are.
    pub tls: Option<Acceptors>,
    /// Whether clients come through a proxy that says so.
    pub accept_proxy: AcceptProxy,
    /// For the PROXY header and the TLS handshake together.
    pub handshake: Duration,
    /// What they are for.
    pub service: Service,
}

/// What the connections of a listener are for.
#[derive(Debug)]
pub enum Service {
    /// Their bytes are relayed unread.
    Relay(Relaying),
    /// They speak HTTP.
    Http(Box<Sites>),
}

/// How bytes are relayed.
#[derive(Debug)]
pub struct Relaying {
    /// Where to.
    pub pool: Arc<Pool>,
    /// The PROXY header that endpoints are sent, if any.
    pub proxy_protocol: Option<ProxyVersion>,
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
