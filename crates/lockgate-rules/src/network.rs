//! IP networks in CIDR notation.
//!
//! The errors hold no text of the input.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: an address and a prefix length in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    addr: IpAddr,
    prefix: u8,
}

/// Why a text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CidrError {
    /// The address is no IP address.
    BadAddress,
    /// The prefix length is no number from 0 to `max`.
    BadPrefix {
        /// The longest prefix.
        max: u8,
    },
    /// The address has bits beyond the prefix.
    HostBits {
        /// The network that it lies in.
        network: Cidr,
    },
}

impl Cidr {
    /// Parses `10.0.0.0/8`, `2001:db8::/32` or a single address.
    ///
    /// # Errors
    /// When the text is none of these, or has bits beyond the prefix.
    pub fn parse(text: &str) -> Result<Cidr, CidrError> {
        let (addr, prefix) = match text.split_once('/') {
            Some((addr, prefix)) => (addr, Some(prefix)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| CidrError::BadAddress)?;
        let max = width(addr);
        let prefix = match prefix {
            None => max,
            Some(digits)
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                return Err(CidrError::BadPrefix { max });
            }
            Some(digits) => match digits.parse() {
                Ok(prefix) if prefix <= max => prefix,
                _ => return Err(CidrError::BadPrefix { max }),
            },
        };
        let network = Cidr {
            addr: masked(addr, prefix),
            prefix,
        };
        if network.addr == addr {
            Ok(network.mapped_as_v4())
        } else {
            Err(CidrError::HostBits { network })
        }
    }

    /// The network of an address with this prefix length; a prefix longer than the address stands
    /// for the single address.
    pub fn of(addr: IpAddr, prefix: u8) -> Cidr {
        let prefix = prefix.min(width(addr));
        let addr = masked(addr, prefix);
        Cidr { addr, prefix }.mapped_as_v4()
    }

    /// The first address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The prefix length in bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether the address lies in this network. An IPv4-mapped IPv6 address (`::ffff:a.b.c.d`, as
    /// dual-stack listeners report it) counts as the IPv4 address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        width(ip) == width(self.addr) && masked(ip, self.prefix) == self.addr
    }

    fn mapped_as_v4(self) -> Cidr {
        match (self.addr.to_canonical(), self.addr) {
            (addr @ IpAddr::V4(_), IpAddr::V6(_)) if self.prefix >= 96 => Cidr {
                addr,
                prefix: self.prefix - 96,
            },
            _ => self,
        }
    }
}

fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

fn masked(addr: IpAddr, prefix: u8) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(addr.to_bits() & mask))
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(addr.to_bits() & mask))
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4632 §3.1 and RFC 4291 §2.3: prefix notation.
    #[test]
    fn networks_are_addresses_with_a_prefix() {
        let bits = |text: &str| {
            Err(CidrError::HostBits {
                network: Cidr::parse(text).unwrap(),
            })
        };
        for (text, expected) in [
            ("10.0.0.0/8", Ok("10.0.0.0/8")),
            ("10.1.2.3", Ok("10.1.2.3/32")),
            ("0.0.0.0/0", Ok("0.0.0.0/0")),
            ("::/0", Ok("::/0")),
            ("2001:db8::/32", Ok("2001:db8::/32")),
            ("::1", Ok("::1/128")),
            ("::ffff:10.0.0.0/104", Ok("10.0.0.0/8")),
            ("10.0.0.1/8", bits("10.0.0.0/8")),
            ("10.0.0.0/33", Err(CidrError::BadPrefix { max: 32 })),
            ("::/129", Err(CidrError::BadPrefix { max: 128 })),
            ("10.0.0.0/", Err(CidrError::BadPrefix { max: 32 })),
            ("10.0.0.0/+8", Err(CidrError::BadPrefix { max: 32 })),
            ("10.0.0", Err(CidrError::BadAddress)),
            ("example.com", Err(CidrError::BadAddress)),
            ("", Err(CidrError::BadAddress)),
        ] {
            let parsed = Cidr::parse(text).map(|cidr| cidr.to_string());
            assert_eq!(parsed, expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_network_contains_mapped_addresses_too() {
        let contains =
            |cidr: &str, ip: &str| Cidr::parse(cidr).unwrap().contains(ip.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.255.0.1"));
        assert!(contains("0.0.0.0/0", "1.2.3.4"));
        assert!(contains("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(contains("::1", "::1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(!contains("::/0", "1.2.3.4"));
        assert!(!contains("2001:db8::/32", "2001:db9::"));
    }
}
