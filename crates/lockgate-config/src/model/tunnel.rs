//! Tunnels: the clients that may open them, and the targets that they may lead to.

use std::time::Duration;

use lockgate_rules::{AcceptProxy, Cidr, ProxyVersion, RateLimit, ShapeRates, TargetRule};

use crate::source::SourceSpan;

use super::{BasicAuth, DownstreamTls, ListenAddr, Protocol, SharedSetting, Timeouts};

/// One `[tunnel."ADDR"]` table: a listener for clients that name a target (CONNECT).
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelListener {
    /// The key of the table.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// The address of the listener.
    pub listen: ListenAddr,
    /// TLS towards clients, with `[tls]` merged in; `None` is plain HTTP.
    pub tls: Option<DownstreamTls>,
    /// The protocols for clients, never empty, each once: over TLS `H2` and `Http1`, in order of
    /// preference; without TLS `Http1` and `H2c`, in this order.
    pub protocols: Vec<Protocol>,
    /// Whether a PROXY header is expected from the client.
    pub accept_proxy: AcceptProxy,
    /// The clients that may open tunnels; empty is every client.
    pub clients: Vec<Cidr>,
    /// The allowed targets; never empty.
    pub allow: Vec<TargetRule>,
    /// Denied targets, even if `allow` has them.
    pub deny: Vec<TargetRule>,
    /// Whether targets may have addresses that are not public.
    pub private: bool,
    /// The password that clients need.
    pub auth: Option<BasicAuth>,
    /// The rate limit of requests for tunnels.
    pub limit: Option<SharedSetting<RateLimit>>,
    /// Concurrent tunnels of one client; `None` is no limit.
    pub max_per_client: Option<usize>,
    /// Concurrent tunnels of one user; `None` is no limit.
    pub max_per_user: Option<usize>,
    /// The time after which a tunnel is closed; `None` is never.
    pub max_lifetime: Option<Duration>,
    /// The bytes after which a tunnel is closed, both directions together; `None` is never.
    pub max_bytes: Option<u64>,
    /// The bandwidth limits; `None` is none.
    pub shape: Option<SharedSetting<ShapeRates>>,
    /// The PROXY header that is sent to the target.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Whether requests for `http:` are forwarded too.
    pub forward: bool,
    /// The time for which the addresses of a name are used.
    pub dns_ttl: Duration,
    /// Deadlines, with the global ones merged in.
    pub timeouts: Timeouts,
}
