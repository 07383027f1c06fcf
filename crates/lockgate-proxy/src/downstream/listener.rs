//! A listener: what is done with its connections.

use std::sync::Arc;
use std::time::Duration;

use lockgate_net::tls::{Acceptor, Acceptors};
use lockgate_rules::AcceptProxy;

use super::{ByHello, Relaying};
use crate::site::Sites;

/// What is done with the connections of one listener.
#[derive(Debug)]
pub struct Listener {
    /// As it was written, for logs and metrics.
    pub name: String,
    /// TLS with clients; `None`: bytes as they are, or each way has its own.
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
    /// What their ClientHello asks for decides.
    ByHello(Box<ByHello>),
}

impl Listener {
    /// The sites that are served here, if any are.
    pub fn sites(&self) -> Option<&Sites> {
        match &self.service {
            Service::Http(sites) => Some(sites),
            Service::ByHello(by_hello) => by_hello.sites().map(|secure| &secure.sites),
            Service::Relay(_) => None,
        }
    }

    /// The TLS that clients of its sites get, if they do.
    pub fn tls_of_sites(&self) -> Option<&Acceptors> {
        match &self.service {
            Service::Http(_) => self.tls.as_ref(),
            Service::ByHello(by_hello) => by_hello.sites().map(|secure| &secure.tls),
            Service::Relay(_) => None,
        }
    }

    /// Whether the header that a client has sent may be passed on.
    pub(super) fn passes_header(&self) -> bool {
        match &self.service {
            Service::Relay(relaying) => relaying.passes_header(),
            Service::Http(_) => false,
            Service::ByHello(by_hello) => by_hello.passes_header(),
        }
    }

    /// All that shakes hands with its clients.
    pub fn acceptors(&self) -> Vec<&Arc<Acceptor>> {
        let own = self.tls.iter().flat_map(Acceptors::all);
        match &self.service {
            Service::ByHello(by_hello) => own.chain(by_hello.acceptors()).collect(),
            Service::Relay(_) | Service::Http(_) => own.collect(),
        }
    }
}
