//! The route of a connection by its ClientHello: a protocol of ALPN, then the server name.
//! Without IO.

use std::sync::Arc;

use lockgate_net::client_hello::ClientHello;
use lockgate_net::tls::{Acceptor, Acceptors};
use lockgate_rules::HostPattern;

use super::RelaySettings;
use crate::route::hosts::HostTable;
use crate::site::ListenerSites;

/// The routes of one address.
#[derive(Debug)]
pub struct SniRouter {
    alpn: Vec<(Box<[u8]>, usize)>,
    /// The index behind the last of `routes` stands for the sites.
    hosts: HostTable<usize>,
    routes: Vec<RelayRoute>,
    sites: Option<SecureSites>,
}

/// A relay that a ClientHello leads to.
#[derive(Debug)]
pub struct RelayRoute {
    /// TLS with clients; `None`: it is the endpoint's, and passed through.
    pub tls: Option<Acceptors>,
    /// The settings of its relay.
    pub relaying: RelaySettings,
}

/// Sites and their TLS.
#[derive(Debug)]
pub struct SecureSites {
    /// The acceptors for their clients.
    pub tls: Acceptors,
    /// The sites.
    pub sites: ListenerSites,
}

/// The route of a ClientHello.
#[derive(Debug, Clone, Copy)]
pub enum HelloRoute<'h> {
    /// A relay.
    Relay(&'h RelayRoute),
    /// The sites.
    Sites(&'h SecureSites),
}

impl SniRouter {
    /// Each relay has the protocols and names that lead to it; of a name that is given twice the
    /// last counts, and the hosts of the sites are looked up after all others.
    pub fn new(
        routes: Vec<(Vec<HelloMatch>, RelayRoute)>,
        sites: Option<(Vec<HostPattern>, SecureSites)>,
    ) -> Self {
        let (mut alpn, mut hosts) = (Vec::new(), HostTable::default());
        let mut relays = Vec::new();
        let (of_sites, sites) = sites.unzip();
        // A clash leaves what was inserted last.
        let mut lead = |host: &HostPattern, index| drop(hosts.insert(host, index));
        for (asked, route) in routes {
            for one in asked {
                match one {
                    HelloMatch::Protocol(name) => {
                        alpn.push((name.into_boxed_slice(), relays.len()))
                    }
                    HelloMatch::Name(host) => lead(&host, relays.len()),
                }
            }
            relays.push(route);
        }
        for host in of_sites.iter().flatten() {
            lead(host, relays.len());
        }
        Self {
            alpn,
            hosts,
            routes: relays,
            sites,
        }
    }

    /// The route of a ClientHello; `None` calls for the alert unrecognized_name (RFC 6066 §3).
    pub(super) fn choose(&self, hello: &ClientHello<'_>) -> Option<HelloRoute<'_>> {
        self.find(hello.server_name.as_deref(), hello.alpn())
    }

    /// The route of a ClientHello with this server name in lower case, and with these protocols.
    pub fn find<'o>(
        &self,
        server_name: Option<&str>,
        mut offered: impl Iterator<Item = &'o [u8]>,
    ) -> Option<HelloRoute<'_>> {
        let of = |offered: &[u8]| self.alpn.iter().find(|(name, _)| **name == *offered);
        let by_alpn = if self.alpn.is_empty() {
            None
        } else {
            offered.find_map(of)
        };
        let index = match by_alpn {
            Some((_, index)) => *index,
            None => self.hosts.find(server_name)?,
        };
        match self.routes.get(index) {
            Some(route) => Some(HelloRoute::Relay(route)),
            None => self.sites.as_ref().map(HelloRoute::Sites),
        }
    }

    /// Whether one of the relays needs the client's PROXY header.
    pub(super) fn passes_header(&self) -> bool {
        self.routes
            .iter()
            .any(|route| route.relaying.passes_header())
    }

    /// Every relay.
    pub fn routes(&self) -> &[RelayRoute] {
        &self.routes
    }

    /// The sites on the same address, if there are any.
    pub fn sites(&self) -> Option<&SecureSites> {
        self.sites.as_ref()
    }

    /// The same, before the workers have them.
    pub fn sites_mut(&mut self) -> Option<&mut SecureSites> {
        self.sites.as_mut()
    }

    /// All that shakes hands here.
    pub fn acceptors(&self) -> impl Iterator<Item = &Arc<Acceptor>> {
        let routes = self.routes.iter().filter_map(|route| route.tls.as_ref());
        routes
            .chain(self.sites.iter().map(|sites| &sites.tls))
            .flat_map(Acceptors::all)
    }
}

/// A part of a ClientHello that a route is chosen by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelloMatch {
    /// One of the protocols that it offers by ALPN (RFC 7301): it goes before every name.
    Protocol(Vec<u8>),
    /// The server name (RFC 6066 §3); `Any` is every other one, and none.
    Name(HostPattern),
}
