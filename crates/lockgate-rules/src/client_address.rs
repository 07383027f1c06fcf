//! The address of a request's client, after the rules of trust.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// The address that rules, limits, logs and templates take a client by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// An IP address, never an IPv4-mapped one.
    Ip(IpAddr),
    /// A Unix socket: its clients have no address.
    Unix,
    /// A trusted proxy has named none that can be read. It is not the proxy's own address: that
    /// would pass rules that are meant for proxies or private networks.
    Unknown,
}

impl ClientAddress {
    /// The address for tables that tell clients apart. All unknown clients share one of their own,
    /// which no client can have (RFC 919); those of Unix sockets are told apart by nothing.
    pub fn key(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(ip),
            Self::Unix => None,
            Self::Unknown => Some(Ipv4Addr::BROADCAST.into()),
        }
    }

    /// The same where there must be one.
    pub fn key_or_nobody(self) -> IpAddr {
        self.key().unwrap_or(Ipv4Addr::UNSPECIFIED.into())
    }
}

impl From<Option<IpAddr>> for ClientAddress {
    /// The address of a socket's peer; a Unix socket has none.
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
