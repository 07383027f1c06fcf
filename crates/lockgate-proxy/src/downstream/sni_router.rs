//! Which way a connection goes by what its ClientHello asks for: a protocol of ALPN, then the
//! server name. Without IO.

use std::sync::Arc;

use lockgate_net::client_hello::ClientHello;
use lockgate_net::tls::{Acceptor, Acceptors};
use lockgate_rules::HostPattern;

use super::RelaySettings;
use crate::route::hosts::HostTable;
use crate::site::ListenerSites;

/// The ways of one address.
#[derive(Debug)]
pub struct SniRouter {
    alpn: Vec<(Box<[u8]>, usize)>,
    /// The place behind the last of `ways` is that of the sites.
    hosts: HostTable<usize>,
    ways: Vec<RelayRoute>,
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
    /// Which certificates and rules clients get.
    pub tls: Acceptors,
    /// The sites.
    pub sites: ListenerSites,
}

/// The route of a ClientHello.
pub(super) enum HelloRoute<'h> {
    Relay(&'h RelayRoute),
    Sites(&'h SecureSites),
}

impl SniRouter {
    /// Each relay has the protocols and names that lead to it; of a name that is given twice the
    /// last counts, and the hosts of the sites are looked up after all others.
    pub fn new(
        ways: Vec<(Vec<HelloMatch>, RelayRoute)>,
        sites: Option<(Vec<HostPattern>, SecureSites)>,
    ) -> Self {
        let (mut alpn, mut hosts) = (Vec::new(), HostTable::default());
        let mut all = Vec::new();
        let (of_sites, sites) = sites.unzip();
        // A clash leaves what was inserted last.
        let mut lead = |host: &HostPattern, place| drop(hosts.insert(host, place));
        for (asked, way) in ways {
            for one in asked {
                match one {
                    HelloMatch::Protocol(name) => alpn.push((name.into_boxed_slice(), all.len())),
                    HelloMatch::Name(host) => lead(&host, all.len()),
                }
            }
            all.push(way);
        }
        for host in of_sites.iter().flatten() {
            lead(host, all.len());
        }
        Self {
            alpn,
            hosts,
            ways: all,
            sites,
        }
    }

    /// The route of a ClientHello; `None` calls for the alert unrecognized_name (RFC 6066 §3).
    pub(super) fn choose(&self, hello: &ClientHello<'_>) -> Option<HelloRoute<'_>> {
        let of = |offered: &[u8]| self.alpn.iter().find(|(name, _)| **name == *offered);
        let by_alpn = if self.alpn.is_empty() {
            None
        } else {
            hello.alpn().find_map(of)
        };
        let place = match by_alpn {
            Some((_, place)) => *place,
            None => self.hosts.find(hello.server_name.as_deref())?,
        };
        match self.ways.get(place) {
            Some(way) => Some(HelloRoute::Relay(way)),
            None => self.sites.as_ref().map(HelloRoute::Sites),
        }
    }

    /// Whether one of the relays needs the client's PROXY header.
    pub(super) fn passes_header(&self) -> bool {
        self.ways.iter().any(|way| way.relaying.passes_header())
    }

    /// Every relay.
    pub fn ways(&self) -> &[RelayRoute] {
        &self.ways
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
        let ways = self.ways.iter().filter_map(|way| way.tls.as_ref());
        ways.chain(self.sites.iter().map(|sites| &sites.tls))
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
