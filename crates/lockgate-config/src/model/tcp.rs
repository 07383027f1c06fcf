//! Listeners that relay: all connections alike, or each as its ClientHello asks.

use std::time::Duration;

use lockgate_rules::{AcceptProxy, HostPattern, SentHeader, ShapeRates};

use crate::source::SourceSpan;

use super::{DownstreamTls, ListenAddr, SharedSetting, Timeouts};

/// One `[tcp."ADDR"]` table: a listener that relays bytes unread.
#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    /// The key of the table as it was written.
    pub name: String,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
    /// The address that it listens on.
    pub listen: ListenAddr,
    /// What is done with connections.
    pub way: RelaySelection,
    /// Whether a PROXY header is expected from the client.
    pub accept_proxy: AcceptProxy,
    /// Deadlines, with the global ones merged in.
    pub timeouts: Timeouts,
    /// After how long a connection ends in any case; `None` is never.
    pub max_lifetime: Option<Duration>,
    /// The rates that its bytes are held to; `None` is as they come.
    pub shape: Option<SharedSetting<ShapeRates>>,
}

/// Which relay a connection has.
#[derive(Debug, Clone, PartialEq)]
pub enum RelaySelection {
    /// Every connection has the same relay.
    Proxy(RelayDestination),
    /// The relay follows from what the ClientHello asks for.
    Hello(RelaysByHello),
}

/// Relays by what a ClientHello asks for. Sites with TLS may be on the same address: of all names
/// the most specific one counts, and no two are the same.
#[derive(Debug, Clone, PartialEq)]
pub struct RelaysByHello {
    /// By a protocol that is offered by ALPN, with any name.
    pub alpn: Vec<(String, RelayDestination)>,
    /// By the server name; never `Host::Any`.
    pub sni: Vec<(HostPattern, RelayDestination)>,
    /// For every other name, and for none; `None` refuses.
    pub default: Option<RelayDestination>,
}

/// Where bytes go, and what is done to them on their way.
#[derive(Debug, Clone, PartialEq)]
pub struct RelayDestination {
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
    /// TLS towards clients, with `[tls]` merged in; `None` relays the bytes as they are.
    pub tls: Option<DownstreamTls>,
    /// Where the bytes go: an index into `Config::pools`.
    pub pool: usize,
    /// The PROXY header that is sent to the endpoint: its own, else that of the table, else that
    /// of the pool.
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

    /// Those by what a ClientHello asks for.
    pub fn by_hello(&self) -> Option<&RelaysByHello> {
        if let RelaySelection::Hello(by_hello) = &self.way {
            Some(by_hello)
        } else {
            None
        }
    }
}
