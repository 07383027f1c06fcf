//! The address of a request's client, with trusted proxies taken into account.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// The client's address for rules, limits, logs and templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// An IP address, never an IPv4-mapped one.
    Ip(IpAddr),
    /// A client of a Unix socket, which has no address.
    Unix,
    /// A client behind a trusted proxy that sent no readable address. The proxy's own address does
    /// not stand in for it: rules that allow proxies or private networks would let the client pass.
    Unknown,
}

impl ClientAddress {
    /// The key of this client in tables by address. All unknown clients share 255.255.255.255,
    /// which no client can have (RFC 919). Clients of Unix sockets have no key.
    pub fn key(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(ip),
            Self::Unix => None,
            Self::Unknown => Some(Ipv4Addr::BROADCAST.into()),
        }
    }

    /// The key of this client; 0.0.0.0 for clients of Unix sockets.
    pub fn key_or_unspecified(self) -> IpAddr {
        self.key().unwrap_or(Ipv4Addr::UNSPECIFIED.into())
    }
}

impl From<Option<IpAddr>> for ClientAddress {
    /// The client address for a socket's peer; a Unix socket has none.
    fn from(peer: Option<IpAddr>) -> Self {
        peer.map_or(Self::Unix, |ip| Self::Ip(ip.to_canonical()))
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
