//! Which addresses may stand in a zone: those that the Internet can reach (the special-purpose address
//! registries of IANA, RFC 6890). The one list of special networks, for all sources.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason why an address is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressRefusal {
    /// It is reached in networks of one's own alone. It may be published where that is wanted.
    Private(&'static str),
    /// It is none of a machine on the Internet, nor one that names are for. It is never published.
    Reserved(&'static str),
}

impl AddressRefusal {
    /// What the address is, for a message.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Private(what) | Self::Reserved(what) => what,
        }
    }
}

/// Why an address is not published; none of a public one.
pub(crate) fn refusal(address: IpAddr) -> Option<AddressRefusal> {
    match address {
        IpAddr::V4(address) => ipv4_refusal(address),
        IpAddr::V6(address) => ipv6_refusal(address),
    }
}

/// Whether an address is published; `private` permits those of one's own networks.
pub(crate) fn is_publishable(address: IpAddr, private: bool) -> bool {
    match refusal(address) {
        None => true,
        Some(AddressRefusal::Private(_)) => private,
        Some(AddressRefusal::Reserved(_)) => false,
    }
}

fn ipv4_refusal(address: Ipv4Addr) -> Option<AddressRefusal> {
    use AddressRefusal::{Private, Reserved};
    Some(match address.octets() {
        [0, ..] => Reserved("no address of a machine (RFC 1122)"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Private("a private address (RFC 1918)"),
        [100, 64..=127, ..] => {
            Private("an address that a provider shares among customers (RFC 6598)")
        }
        [127, ..] => Reserved("an address of the machine itself (RFC 1122)"),
        // Another machine of the link may have the same one tomorrow.
        [169, 254, ..] => Reserved("a link-local address (RFC 3927)"),
        [192, 0, 0, _] => Reserved("an address for protocols (RFC 6890)"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Reserved("an address for documentation (RFC 5737)")
        }
        [192, 88, 99, _] => Reserved("an address of 6to4 relays (RFC 7526)"),
        [198, 18 | 19, ..] => Reserved("an address for benchmarks (RFC 2544)"),
        [224..=239, ..] => Reserved("a multicast address (RFC 5771)"),
        [240..=255, ..] => Reserved("a reserved address (RFC 1112)"),
        _ => return None,
    })
}

fn ipv6_refusal(address: Ipv6Addr) -> Option<AddressRefusal> {
    use AddressRefusal::{Private, Reserved};
    if address.to_ipv4_mapped().is_some() {
        return Some(Reserved(
            "an address of IPv4 in the notation of IPv6 (RFC 4291)",
        ));
    }
    let segments = address.segments();
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Reserved("no address of a machine (RFC 4291)"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Reserved("an address of the machine itself (RFC 4291)"),
        [0xfc00..=0xfdff, ..] => Private("a unique local address (RFC 4193)"),
        // RFC 4472 §2.1: never in a zone, since it means nothing without the interface of the client.
        [0xfe80..=0xfebf, ..] => Reserved("a link-local address (RFC 4291)"),
        [0xff00..=0xffff, ..] => Reserved("a multicast address (RFC 4291)"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => {
            Reserved("an address for documentation (RFC 3849, RFC 9637)")
        }
        [0x2001, 0, ..] => Reserved("an address of Teredo (RFC 4380)"),
        [0x2001, 2, 0, ..] => Reserved("an address for benchmarks (RFC 5180)"),
        [0x2001, 0x10..=0x2f, ..] => Reserved("an identifier, and no address (RFC 7343)"),
        [0x2002, high, low, ..] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            return ipv4_refusal(Ipv4Addr::new(a, b, c, d))
                .map(|_| Reserved("an address of 6to4 that no public one is in (RFC 3056)"));
        }
        [0x2000..=0x3fff, ..] => return None,
        _ => Reserved("outside of what the Internet uses (RFC 4291)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> &'static str {
        match refusal(text.parse().unwrap()) {
            None => "public",
            Some(AddressRefusal::Private(_)) => "private",
            Some(AddressRefusal::Reserved(_)) => "reserved",
        }
    }

    /// RFC 6890 and the registries of IANA that it begins: both ends of each block.
    #[test]
    fn addresses_that_the_internet_does_not_reach_are_not_public() {
        for (expected, texts) in [
            (
                "private",
                &[
                    "10.0.0.0",
                    "10.255.255.255",
                    "172.16.0.0",
                    "172.31.255.255",
                    "192.168.0.1",
                    "100.64.0.0",
                    "100.127.255.255",
                    "fc00::1",
                    "fdff:ffff::1",
                ][..],
            ),
            (
                "reserved",
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "127.0.0.1",
                    "127.255.255.255",
                    "169.254.0.0",
                    "169.254.255.255",
                    "192.0.0.0",
                    "192.0.0.255",
                    "192.0.2.0",
                    "192.0.2.255",
                    "198.51.100.0",
                    "198.51.100.255",
                    "203.0.113.0",
                    "203.0.113.255",
                    "192.88.99.1",
                    "198.18.0.0",
                    "198.19.255.255",
                    "224.0.0.1",
                    "239.255.255.255",
                    "240.0.0.1",
                    "255.255.255.255",
                    "::",
                    "::1",
                    "::1.2.3.4",
                    "::ffff:8.8.8.8",
                    "64:ff9b::808:808",
                    "100::1",
                    "2001::1",
                    "2001:2::1",
                    "2001:10::1",
                    "2001:2f::1",
                    "2001:db8::1",
                    "2002:a00:1::1",
                    "2002:c0a8:101::1",
                    "2002:7f00:1::",
                    "3fff::1",
                    "3fff:fff::1",
                    "4000::1",
                    "fe80::1",
                    "febf::1",
                    "fec0::1",
                    "ff02::1",
                ],
            ),
            (
                "public",
                &[
                    "1.0.0.1",
                    "9.255.255.255",
                    "11.0.0.0",
                    "100.63.255.255",
                    "100.128.0.0",
                    "126.255.255.255",
                    "128.0.0.0",
                    "169.253.255.255",
                    "169.255.0.0",
                    "172.15.255.255",
                    "172.32.0.0",
                    "192.0.1.1",
                    "192.0.3.0",
                    "192.167.255.255",
                    "192.169.0.0",
                    "198.17.255.255",
                    "198.20.0.0",
                    "223.255.255.255",
                    "2000::1",
                    "2001:4::1",
                    "2001:470::1",
                    "2002:808:808::1",
                    "2606:4700::1111",
                    "3fff:1000::1",
                ],
            ),
        ] {
            for text in texts {
                assert_eq!(kind(text), expected, "{text}");
            }
        }
    }

    #[test]
    fn private_addresses_are_published_where_that_is_wanted() {
        for (text, publishable) in [
            ("192.168.1.9", true),
            ("100.64.0.1", true),
            ("fd00::1", true),
            ("fe80::1", false),
            ("169.254.0.1", false),
            ("1.1.1.1", true),
            ("127.0.0.1", false),
            ("203.0.113.1", false),
            ("::1", false),
        ] {
            assert_eq!(
                is_publishable(text.parse().unwrap(), true),
                publishable,
                "{text}"
            );
        }
        assert!(!is_publishable("192.168.1.9".parse().unwrap(), false));
        assert!(is_publishable("1.1.1.1".parse().unwrap(), false));
    }
}
