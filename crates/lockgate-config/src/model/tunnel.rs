//! Tunnels: the clients that may have them, and the targets that they may lead to.

use std::time::Duration;

use lockgate_rules::{AcceptProxy, Cidr, ProxyVersion, RateLimit, ShapeRates, TargetRule};

use crate::source::SourceSpan;

use super::{BasicAuth, DownstreamTls, ListenAddr, Protocol, SharedSetting, Timeouts};

/// One `[tunnel."ADDR"]` table: a listener for clients that name a target (CONNECT).
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelListener {
    /// The key of the table as it was written.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// The address that it listens on.
    pub listen: ListenAddr,
    /// TLS towards clients, with `[tls]` merged in; `None` is plain HTTP.
    pub tls: Option<DownstreamTls>,
    /// What is spoken with clients, never empty, each once: with TLS `H2` and `Http1`, best first;
    /// without `Http1` and `H2c`, in this order.
    pub protocols: Vec<Protocol>,
    /// Whether a PROXY header is expected from the client.
    pub accept_proxy: AcceptProxy,
    /// The clients that may ask for tunnels; empty is every client.
    pub clients: Vec<Cidr>,
    /// Where tunnels may lead; never empty.
    pub allow: Vec<TargetRule>,
    /// Targets that tunnels may not lead to, also where `allow` has them.
    pub deny: Vec<TargetRule>,
    /// Whether they may lead to addresses that are not public.
    pub private: bool,
    /// A password that clients must bring.
    pub auth: Option<BasicAuth>,
    /// How often tunnels may be asked for.
    pub limit: Option<SharedSetting<RateLimit>>,
    /// Tunnels at once of one client; `None` is no limit.
    pub max_per_client: Option<usize>,
    /// Tunnels at once of one user; `None` is no limit.
    pub max_per_user: Option<usize>,
    /// After how long a tunnel ends; `None` is never.
    pub max_lifetime: Option<Duration>,
    /// After how many bytes a tunnel ends, both ways together; `None` is never.
    pub max_bytes: Option<u64>,
    /// The rates that bytes are held to; `None` is as they come.
    pub shape: Option<SharedSetting<ShapeRates>>,
    /// The PROXY header that is sent to the target.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Whether requests for `http:` are forwarded too.
    pub forward: bool,
    /// How old the addresses of a name may be.
    pub dns_ttl: Duration,
    /// Deadlines, with the global ones merged in.
    pub timeouts: Timeouts,
}
