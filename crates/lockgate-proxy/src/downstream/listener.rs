//! A listener: what is done with its connections.

use std::sync::Arc;
use std::time::Duration;

use lockgate_net::tls::{Acceptor, Acceptors};
use lockgate_rules::AcceptProxy;

use super::{RelaySettings, SniRouter};
use crate::site::ListenerSites;

/// The settings of one listener: TLS, PROXY headers, and the service behind it.
#[derive(Debug)]
pub struct ListenerSettings {
    /// The address as configured, for logs and metrics.
    pub name: String,
    /// TLS with clients; `None`: bytes as they are, or each way has its own.
    pub tls: Option<Acceptors>,
    /// Whether clients come through a proxy that sends a PROXY header.
    pub accept_proxy: AcceptProxy,
    /// For the PROXY header and the TLS handshake together.
    pub handshake: Duration,
    /// The service behind it.
    pub service: ListenerService,
}

/// The service of a listener's connections.
#[derive(Debug)]
pub enum ListenerService {
    /// Their bytes are relayed unread.
    Relay(RelaySettings),
    /// They speak HTTP.
    Http(Box<ListenerSites>),
    /// The ClientHello decides.
    Sni(Box<SniRouter>),
}

impl ListenerSettings {
    /// The sites that are served here, if any are.
    pub fn sites(&self) -> Option<&ListenerSites> {
        match &self.service {
            ListenerService::Http(sites) => Some(sites),
            ListenerService::Sni(sni) => sni.sites().map(|secure| &secure.sites),
            ListenerService::Relay(_) => None,
        }
    }

    /// The TLS that clients of its sites get, if they do.
    pub fn tls_of_sites(&self) -> Option<&Acceptors> {
        match &self.service {
            ListenerService::Http(_) => self.tls.as_ref(),
            ListenerService::Sni(sni) => sni.sites().map(|secure| &secure.tls),
            ListenerService::Relay(_) => None,
        }
    }

    /// Whether the header that a client has sent may be passed on.
    pub(super) fn passes_header(&self) -> bool {
        match &self.service {
            ListenerService::Relay(relaying) => relaying.passes_header(),
            ListenerService::Http(_) => false,
            ListenerService::Sni(sni) => sni.passes_header(),
        }
    }

    /// All that shakes hands with its clients.
    pub fn acceptors(&self) -> Vec<&Arc<Acceptor>> {
        let own = self.tls.iter().flat_map(Acceptors::all);
        match &self.service {
            ListenerService::Sni(sni) => own.chain(sni.acceptors()).collect(),
            ListenerService::Relay(_) | ListenerService::Http(_) => own.collect(),
        }
    }
}
