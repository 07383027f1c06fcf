//! Relays: listeners with one destination, or with several by ClientHello.

use std::time::Duration;

use lockgate_rules::{AcceptProxy, HostPattern, SentHeader, ShapeRates};

use crate::source::SourceSpan;

use super::{DownstreamTls, ListenAddr, SharedSetting, Timeouts};

/// One `[tcp."ADDR"]` table: a listener that relays bytes unread.
#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    /// The key of the table.
    pub name: String,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
    /// The address of the listener.
    pub listen: ListenAddr,
    /// The destination of connections.
    pub way: RelaySelection,
    /// Whether a PROXY header is expected from the client.
    pub accept_proxy: AcceptProxy,
    /// Deadlines, with the global ones merged in.
    pub timeouts: Timeouts,
    /// The time after which a connection is closed in any case; `None` is never.
    pub max_lifetime: Option<Duration>,
    /// The bandwidth limits of its bytes; `None` is none.
    pub shape: Option<SharedSetting<ShapeRates>>,
}

/// The choice of a connection's relay.
#[derive(Debug, Clone, PartialEq)]
pub enum RelaySelection {
    /// One relay for all connections.
    Proxy(RelayDestination),
    /// A relay by ClientHello.
    Hello(RelaysByHello),
}

/// Relays by ClientHello. Sites with TLS may share the address: of all matching names the most
/// specific one applies, and no name appears twice.
#[derive(Debug, Clone, PartialEq)]
pub struct RelaysByHello {
    /// By an offered ALPN protocol, for any server name.
    pub alpn: Vec<(String, RelayDestination)>,
    /// By the server name; never `Host::Any`.
    pub sni: Vec<(HostPattern, RelayDestination)>,
    /// For all other names, and for clients without a name; `None` refuses them.
    pub default: Option<RelayDestination>,
}

/// The destination of relayed bytes, and the TLS and PROXY header on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct RelayDestination {
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
    /// TLS towards clients, with `[tls]` merged in; `None` passes the bytes through.
    pub tls: Option<DownstreamTls>,
    /// The pool, by its index in `Config::pools`.
    pub pool: usize,
    /// The PROXY header to the endpoint: that of the entry, else of the table, else of the pool.
    pub proxy_protocol: Option<SentHeader>,
}

impl Tcp {
    /// Every relay that a connection may have.
    pub fn relays(&self) -> Vec<&RelayDestination> {
        match &self.way {
            RelaySelection::Proxy(relay) => vec![relay],
            RelaySelection::Hello(RelaysByHello { alpn, sni, default }) => {
                let alpn = alpn.iter().map(|(_, relay)| relay);
                alpn.chain(sni.iter().map(|(_, relay)| relay))
                    .chain(default)
                    .collect()
            }
        }
    }

    /// The relays by ClientHello.
    pub fn by_hello(&self) -> Option<&RelaysByHello> {
        if let RelaySelection::Hello(by_hello) = &self.way {
            Some(by_hello)
        } else {
            None
        }
    }
}
