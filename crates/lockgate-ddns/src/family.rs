//! The two families of addresses.

use std::fmt;
use std::net::IpAddr;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressFamily {
    /// IPv4, of A records.
    Ipv4,
    /// IPv6, of AAAA records.
    Ipv6,
}

impl AddressFamily {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// Whether an address is of this family. One of IPv4 in the notation of IPv6 is of neither.
    pub fn has(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Ipv4, IpAddr::V4(_)) => true,
            (Self::Ipv6, IpAddr::V6(address)) => address.to_ipv4_mapped().is_none(),
            _ => false,
        }
    }
}

impl fmt::Display for AddressFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}
