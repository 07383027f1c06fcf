//! Which way a connection goes by what its ClientHello asks for: a protocol of ALPN, then the
//! server name. Without IO.

use std::sync::Arc;

use lockgate_net::client_hello::ClientHello;
use lockgate_net::tls::{Acceptor, Acceptors};
use lockgate_rules::HostPattern;

use super::Relaying;
use crate::route::hosts::Hosts;
use crate::site::Sites;

/// The ways of one address.
#[derive(Debug)]
pub struct ByHello {
    alpn: Vec<(Box<[u8]>, usize)>,
    /// The place behind the last of `ways` is that of the sites.
    hosts: Hosts,
    ways: Vec<Way>,
    sites: Option<SecureSites>,
}

/// A relay that a ClientHello leads to.
#[derive(Debug)]
pub struct Way {
    /// TLS with clients; `None`: it is the endpoint's, and passed through.
    pub tls: Option<Acceptors>,
    /// What then happens to the bytes.
    pub relaying: Relaying,
}

/// Sites and their TLS.
#[derive(Debug)]
pub struct SecureSites {
    /// Which certificates and rules clients get.
    pub tls: Acceptors,
    /// The sites.
    pub sites: Sites,
}

/// Where a ClientHello leads.
pub(super) enum Chosen<'h> {
    Relay(&'h Way),
    Sites(&'h SecureSites),
}

impl ByHello {
    /// Each way has the protocols and names that lead to it; of a name that is given twice the last
    /// counts, and what the sites have comes after all others.
    pub fn new(
        ways: Vec<(Vec<Asked>, Way)>,
        sites: Option<(Vec<HostPattern>, SecureSites)>,
    ) -> Self {
        let (mut alpn, mut hosts) = (Vec::new(), Hosts::default());
        let mut all = Vec::new();
        let (of_sites, sites) = sites.unzip();
        // A clash leaves what was inserted last.
        let mut lead = |host: &HostPattern, place| drop(hosts.insert(host, place));
        for (asked, way) in ways {
            for one in asked {
                match one {
                    Asked::Protocol(name) => alpn.push((name.into_boxed_slice(), all.len())),
                    Asked::Name(host) => lead(&host, all.len()),
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

    /// Where this one leads; `None` calls for the alert unrecognized_name (RFC 6066 §3).
    pub(super) fn choose(&self, hello: &ClientHello<'_>) -> Option<Chosen<'_>> {
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
            Some(way) => Some(Chosen::Relay(way)),
            None => self.sites.as_ref().map(Chosen::Sites),
        }
    }

    /// Whether one of the relays needs the PROXY header that has come.
    pub(super) fn passes_header(&self) -> bool {
        self.ways.iter().any(|way| way.relaying.passes_header())
    }

    /// Every relay.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// The sites on the same address, if there are any.
    pub fn sites(&self) -> Option<&SecureSites> {
        self.sites.as_ref()
    }

    /// The same, while nobody serves them yet.
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

/// What a ClientHello may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// One of the protocols that it offers by ALPN (RFC 7301): it goes before every name.
    Protocol(Vec<u8>),
    /// The server name (RFC 6066 §3); `Any` is every other one, and none.
    Name(HostPattern),
}
