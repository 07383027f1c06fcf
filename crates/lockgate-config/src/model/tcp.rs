//! Listeners that relay: all connections alike, or each as its ClientHello asks.

use std::time::Duration;

use lockgate_rules::{AcceptProxy, HostPattern, SentHeader, ShapeRates};

use super::{ListenAddr, SharedSetting, Timeouts, Tls};
use crate::place::At;

/// One `[tcp."ADDR"]` table: a listener whose bytes are relayed unread.
#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    /// The key as written.
    pub name: String,
    /// Where it was written.
    pub at: At,
    /// The address that it listens on.
    pub listen: ListenAddr,
    /// What is done with connections.
    pub way: Way,
    /// Whether a PROXY header is expected from the client.
    pub accept_proxy: AcceptProxy,
    /// Deadlines, with the global ones merged in.
    pub timeouts: Timeouts,
    /// After how long a connection ends whatever it does; `None` is never.
    pub max_lifetime: Option<Duration>,
    /// The rates that its bytes are held to; `None` is as they come.
    pub shape: Option<SharedSetting<ShapeRates>>,
}

/// Which relay a connection has.
#[derive(Debug, Clone, PartialEq)]
pub enum Way {
    /// All have the same.
    Proxy(Relay),
    /// That of what its ClientHello asks for.
    Hello(RelaysByHello),
}

/// Relays by what a ClientHello asks for. Sites with TLS may be on the same address: of all names
/// the most specific one counts, and no two are the same.
#[derive(Debug, Clone, PartialEq)]
pub struct RelaysByHello {
    /// By a protocol that is offered by ALPN, whatever the name.
    pub alpn: Vec<(String, Relay)>,
    /// By the server name; never `Host::Any`.
    pub sni: Vec<(HostPattern, Relay)>,
    /// For every other name, and for none; `None` refuses.
    pub default: Option<Relay>,
}

/// Where bytes go, and what is done to them on their way.
#[derive(Debug, Clone, PartialEq)]
pub struct Relay {
    /// Where it was written.
    pub at: At,
    /// TLS towards clients, with `[tls]` merged in; `None` relays the bytes as they are.
    pub tls: Option<Tls>,
    /// Where the bytes go: an index into `Config::pools`.
    pub pool: usize,
    /// The PROXY header that is sent to the endpoint: its own, else that of the table, else that
    /// of the pool.
    pub proxy_protocol: Option<SentHeader>,
}

impl Tcp {
    /// Every relay that a connection may have.
    pub fn relays(&self) -> Vec<&Relay> {
        match &self.way {
            Way::Proxy(relay) => vec![relay],
            Way::Hello(RelaysByHello { alpn, sni, default }) => {
                let alpn = alpn.iter().map(|(_, relay)| relay);
                alpn.chain(sni.iter().map(|(_, relay)| relay))
                    .chain(default)
                    .collect()
            }
        }
    }

    /// Those by what a ClientHello asks for.
    pub fn by_hello(&self) -> Option<&RelaysByHello> {
        if let Way::Hello(by_hello) = &self.way {
            Some(by_hello)
        } else {
            None
        }
    }
}
