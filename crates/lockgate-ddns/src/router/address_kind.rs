//! Kinds of IPv4 addresses: those of the internet, those behind a NAT, and those of no machine
//! (RFC 6890).

use std::net::Ipv4Addr;

/// What an address says of the machine that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// It may be reached from everywhere. Those of documentation (RFC 5737) count as such: no line
    /// has one, and they stand for public ones in tests.
    Public,
    /// It is one of a network behind a NAT, or of a link.
    Private,
    /// No single machine on a network has it.
    Unusable,
}

impl AddressKind {
    /// The kind of an address.
    pub fn of(address: Ipv4Addr) -> Self {
        let is_in = |(network, bits): &([u8; 4], u32)| {
            let mask = u32::MAX << (32 - bits);
            (u32::from(address) ^ u32::from(Ipv4Addr::from(*network))) & mask == 0
        };
        if PRIVATE.iter().any(is_in) {
            Self::Private
        } else if UNUSABLE.iter().any(is_in) {
            Self::Unusable
        } else {
            Self::Public
        }
    }
}

/// Networks behind a NAT: address and bits of the prefix.
const PRIVATE: [([u8; 4], u32); 7] = [
    ([10, 0, 0, 0], 8),     // RFC 1918
    ([100, 64, 0, 0], 10),  // carriers' NAT (RFC 6598)
    ([169, 254, 0, 0], 16), // link-local (RFC 3927)
    ([172, 16, 0, 0], 12),  // RFC 1918
    ([192, 0, 0, 0], 29),   // DS-Lite (RFC 7335)
    ([192, 168, 0, 0], 16), // RFC 1918
    ([198, 18, 0, 0], 15),  // networks for measurements (RFC 2544); tunnels use them
];

/// Networks without machines: address and bits of the prefix.
const UNUSABLE: [([u8; 4], u32); 3] = [
    ([0, 0, 0, 0], 8),   // RFC 1122 §3.2.1.3: "this host"
    ([127, 0, 0, 0], 8), // loopback (RFC 1122 §3.2.1.3)
    ([224, 0, 0, 0], 3), // multicast (RFC 5771), reserved and broadcast (RFC 1112 §4)
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_addresses_of_special_networks_are_known() {
        let table = [
            ("0.0.0.0", AddressKind::Unusable),
            ("0.255.255.255", AddressKind::Unusable),
            ("1.0.0.0", AddressKind::Public),
            ("9.255.255.255", AddressKind::Public),
            ("10.0.0.0", AddressKind::Private),
            ("10.255.255.255", AddressKind::Private),
            ("11.0.0.0", AddressKind::Public),
            ("100.63.255.255", AddressKind::Public),
            ("100.64.0.0", AddressKind::Private),
            ("100.127.255.255", AddressKind::Private),
            ("100.128.0.0", AddressKind::Public),
            ("127.0.0.1", AddressKind::Unusable),
            ("128.0.0.0", AddressKind::Public),
            ("169.254.1.1", AddressKind::Private),
            ("172.15.255.255", AddressKind::Public),
            ("172.16.0.0", AddressKind::Private),
            ("172.31.255.255", AddressKind::Private),
            ("172.32.0.0", AddressKind::Public),
            ("192.0.0.2", AddressKind::Private),
            ("192.0.0.8", AddressKind::Public),
            ("192.168.1.1", AddressKind::Private),
            ("192.169.0.0", AddressKind::Public),
            ("198.17.255.255", AddressKind::Public),
            ("198.19.255.255", AddressKind::Private),
            ("203.0.113.5", AddressKind::Public),
            ("223.255.255.255", AddressKind::Public),
            ("224.0.0.0", AddressKind::Unusable),
            ("255.255.255.255", AddressKind::Unusable),
        ];
        for (address, kind) in table {
            let address = address.parse().unwrap();
            assert_eq!(AddressKind::of(address), kind, "{address}");
        }
    }
}
