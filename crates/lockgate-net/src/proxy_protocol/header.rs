//! The contents of a PROXY header, of either version.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::Tlvs;

/// A complete header and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedHeader {
    /// The fields of the header.
    pub header: ProxyHeader,
    /// The length of the header in bytes; the client's data begins right after. Never more than was
    /// parsed.
    pub len: usize,
}

/// The proxy's information about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The format of the header.
    pub version: HeaderVersion,
    /// The two ends of the connection that the proxy accepted.
    pub addresses: ProxiedAddresses,
    /// Further fields; always empty in version 1 and for [`ProxiedAddresses::Local`].
    pub tlvs: Tlvs<'static>,
}

/// The format of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderVersion {
    /// One line of text (§2.1).
    V1,
    /// Bytes behind a signature (§2.2).
    V2,
}

/// The two ends of the connection that a proxy forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxiedAddresses {
    /// The proxy's own connection, such as a health check: the socket's own addresses hold.
    Local,
    /// A client with an unknown address: the socket's own addresses hold.
    Unknown,
    /// TCP. IPv4-mapped IPv6 addresses are given as IPv4 by `parse`, so that one client has one
    /// address; the two families may therefore differ.
    Inet {
        /// The address of the client.
        source: SocketAddr,
        /// The address that the client connected to.
        destination: SocketAddr,
    },
    /// A Unix stream socket. The names are paths without the trailing zero bytes; abstract names
    /// begin with a zero byte; an unnamed socket is empty. At most 108 bytes each: longer ones are
    /// not written.
    Unix {
        /// The name of the client's socket.
        source: Box<[u8]>,
        /// The address that the client connected to.
        destination: Box<[u8]>,
    },
}

impl ProxiedAddresses {
    /// The ends of a connection by its sockets' addresses; a `None`, which is no IP socket, makes
    /// the whole [`ProxiedAddresses::Unknown`].
    pub fn of(source: Option<SocketAddr>, destination: Option<SocketAddr>) -> Self {
        match (source, destination) {
            (Some(source), Some(destination)) => Self::inet(source, destination),
            _ => Self::Unknown,
        }
    }

    /// Both ends of a TCP connection, IPv4-mapped addresses converted to IPv4.
    pub(super) fn inet(source: SocketAddr, destination: SocketAddr) -> Self {
        Self::Inet {
            source: canonical(source),
            destination: canonical(destination),
        }
    }
}

/// Two addresses of one family, as both formats require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressPair {
    V4(SocketAddrV4, SocketAddrV4),
    V6(SocketAddrV6, SocketAddrV6),
}

impl AddressPair {
    /// IPv4 where both are (IPv4-mapped counts), else both as IPv6.
    pub(super) fn of(source: SocketAddr, destination: SocketAddr) -> Self {
        match (canonical(source), canonical(destination)) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => Self::V4(source, destination),
            (source, destination) => Self::V6(as_v6(source), as_v6(destination)),
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(_), ip @ IpAddr::V4(_)) => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

fn as_v6(address: SocketAddr) -> SocketAddrV6 {
    match address {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
        SocketAddr::V6(v6) => v6,
    }
}
