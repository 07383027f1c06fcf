//! The targets of tunnels: `allow` and `deny` of host names, networks and ports, and the addresses
//! that are not public.
//!
//! Names are asked about before they are looked up, and each address that they stand for again:
//! what was asked about is what is dialled, so that a name cannot change its mind in between (DNS
//! rebinding). Does not look names up.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use lockgate_rules::{HostPattern, TargetName, TargetRule};

/// The rules of one listener.
#[derive(Debug)]
pub struct TunnelTargets {
    allow: TargetRules,
    deny: TargetRules,
    private: bool,
}

/// Why a target is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetRefusal {
    /// `deny` has it.
    #[error("`deny` matches it")]
    Denied,
    /// `allow` lacks it.
    #[error("`allow` does not match it")]
    NotAllowed,
    /// The target's address is not public.
    #[error("{0}, and `private` is false")]
    Private(&'static str),
    /// The target's address is the unspecified one (RFC 1122 §3.2.1.3, RFC 4291 §2.5.2), by which
    /// systems mean themselves: it would get past every rule about the loopback.
    #[error("no host has this address")]
    Nobody,
}

impl TunnelTargets {
    /// `deny` wins. With `private`, addresses that are not public are as good as others; without,
    /// only those of networks in `allow` that have no public address.
    pub fn new(allow: &[TargetRule], deny: &[TargetRule], private: bool) -> Self {
        Self {
            allow: TargetRules::new(allow),
            deny: TargetRules::new(deny),
            private,
        }
    }

    /// Whether it is worth looking up `host`, a name in lower case without a final dot.
    ///
    /// # Errors
    /// When the target is refused independently of its addresses.
    pub fn may_look_up(&self, host: &str, port: u16) -> Result<(), TargetRefusal> {
        if self.deny.has_host(host, port) {
            return Err(TargetRefusal::Denied);
        }
        if self.allow.has_host(host, port) || self.allow.has_network_with(port) {
            return Ok(());
        }
        Err(TargetRefusal::NotAllowed)
    }

    /// What [`admit`](Self::admit) asks of the addresses of a name that
    /// [may be looked up](Self::may_look_up).
    pub fn asked_of_addresses(&self, host: &str, port: u16) -> AskedOfAddresses {
        let shown = |rules: &TargetRules| {
            let networks = rules.networks.iter();
            let networks = networks.filter(|network| has(&network.ports, port));
            networks
                .map(|network| format!("{}/{}", network.first, network.prefix))
                .collect()
        };
        AskedOfAddresses {
            is_allowed_by_name: self.allow.has_host(host, port),
            allow: shown(&self.allow),
            deny: shown(&self.deny),
            private: self.private,
        }
    }

    /// Whether a tunnel may lead to `address`, which `host` was found to have or to be.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, host: &str, address: SocketAddr) -> Result<(), TargetRefusal> {
        let (ip, port) = (reached(address.ip()), address.port());
        if ip.is_unspecified() {
            return Err(TargetRefusal::Nobody);
        }
        // In its clothes and without.
        let denied = |ip| self.deny.networks(ip, port).next().is_some();
        if self.deny.has_host(host, port) || denied(ip) || denied(address.ip()) {
            return Err(TargetRefusal::Denied);
        }
        if !self.allow.has_host(host, port) && self.allow.networks(ip, port).next().is_none() {
            return Err(TargetRefusal::NotAllowed);
        }
        match special(ip) {
            Some(SpecialNetwork { prefix, name }) if !self.private => {
                // "0.0.0.0/0" means the Internet, and not the loopback too.
                let told = self
                    .allow
                    .networks(ip, port)
                    .any(|network| network.prefix >= prefix);
                if told {
                    Ok(())
                } else {
                    Err(TargetRefusal::Private(name))
                }
            }
            _ => Ok(()),
        }
    }
}

/// The rules for the addresses of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedOfAddresses {
    /// Whether `allow` has the name: else an address must be in a network there.
    pub is_allowed_by_name: bool,
    /// The networks in `allow` that have the port.
    pub allow: Vec<String>,
    /// The networks in `deny` that have the port.
    pub deny: Vec<String>,
    /// Whether addresses that are not public are as good as others. Else they must be in one of the
    /// networks in `allow` that are as narrow.
    pub private: bool,
}

/// Rules, found by what they are about.
#[derive(Debug, Default)]
struct TargetRules {
    any: Vec<RangeInclusive<u16>>,
    exact: HashMap<String, Vec<RangeInclusive<u16>>>,
    under: HashMap<String, Vec<RangeInclusive<u16>>>,
    networks: Vec<NetworkRule>,
}

#[derive(Debug)]
struct NetworkRule {
    first: IpAddr,
    prefix: u8,
    ports: Vec<RangeInclusive<u16>>,
}

impl TargetRules {
    fn new(written: &[TargetRule]) -> Self {
        let mut rules = Self::default();
        for TargetRule { named, ports } in written {
            let all = match named {
                TargetName::Host(HostPattern::Any) => &mut rules.any,
                TargetName::Host(HostPattern::Exact(host)) => {
                    rules.exact.entry(host.clone()).or_default()
                }
                TargetName::Host(HostPattern::Under(host)) => {
                    rules.under.entry(host.clone()).or_default()
                }
                TargetName::Network(network) => {
                    rules.networks.push(NetworkRule {
                        first: network.addr(),
                        prefix: network.prefix(),
                        ports: ports.clone(),
                    });
                    continue;
                }
            };
            all.extend(ports.iter().cloned());
        }
        rules
    }

    fn has_host(&self, host: &str, port: u16) -> bool {
        has(&self.any, port)
            || self.exact.get(host).is_some_and(|ports| has(ports, port))
            || !self.under.is_empty()
                && above(host)
                    .any(|above| self.under.get(above).is_some_and(|ports| has(ports, port)))
    }

    fn has_network_with(&self, port: u16) -> bool {
        self.networks
            .iter()
            .any(|network| has(&network.ports, port))
    }

    /// The networks that `ip` is in.
    fn networks(&self, ip: IpAddr, port: u16) -> impl Iterator<Item = &NetworkRule> {
        let about = move |network: &&NetworkRule| {
            within(ip, network.first, network.prefix) && has(&network.ports, port)
        };
        self.networks.iter().filter(about)
    }
}

fn has(ports: &[RangeInclusive<u16>], port: u16) -> bool {
    ports.iter().any(|range| range.contains(&port))
}

/// The names that a name is below, the longest first.
fn above(host: &str) -> impl Iterator<Item = &str> {
    host.match_indices('.').map(|(at, _)| &host[at + 1..])
}

fn within(ip: IpAddr, first: IpAddr, prefix: u8) -> bool {
    match (ip, first) {
        (IpAddr::V4(ip), IpAddr::V4(first)) => {
            (ip.to_bits() ^ first.to_bits()).leading_zeros() >= u32::from(prefix)
        }
        (IpAddr::V6(ip), IpAddr::V6(first)) => {
            (ip.to_bits() ^ first.to_bits()).leading_zeros() >= u32::from(prefix)
        }
        _ => false,
    }
}

/// Which address is meant: an IPv4 address in the clothes of IPv6 is that one, be it mapped (RFC
/// 4291 §2.5.5.2) or behind NAT64 (RFC 6052 §2.1).
fn reached(ip: IpAddr) -> IpAddr {
    const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
    match ip.to_canonical() {
        IpAddr::V6(ip) if within(ip.into(), NAT64.into(), 96) => {
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() as u32))
        }
        ip => ip,
    }
}

/// A network of addresses that are not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SpecialNetwork {
    prefix: u8,
    name: &'static str,
}

/// The IANA IPv4 Special-Purpose Address Registry (RFC 6890), and what is no unicast.
const SPECIAL_V4: [([u8; 4], u8, &str); 16] = [
    ([0, 0, 0, 0], 8, "this host's own network"),
    ([10, 0, 0, 0], 8, "a private address"),
    ([100, 64, 0, 0], 10, "a carrier's shared address"),
    ([127, 0, 0, 0], 8, "a loopback address"),
    ([169, 254, 0, 0], 16, "a link-local address"),
    ([172, 16, 0, 0], 12, "a private address"),
    ([192, 0, 0, 0], 24, "a reserved address"),
    ([192, 0, 2, 0], 24, "an address for documentation"),
    ([192, 88, 99, 0], 24, "a 6to4 relay"),
    ([192, 168, 0, 0], 16, "a private address"),
    ([198, 18, 0, 0], 15, "an address for benchmarks"),
    ([198, 51, 100, 0], 24, "an address for documentation"),
    ([203, 0, 113, 0], 24, "an address for documentation"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([240, 0, 0, 0], 4, "a reserved address"),
    ([168, 63, 129, 16], 32, "a cloud's metadata address"),
];

/// The parts of 2000::/3 that are not public (IANA IPv6 Special-Purpose Address Registry): Teredo,
/// ORCHID and others of the IETF, documentation, 6to4, which leads to an IPv4 address of its own.
const SPECIAL_V6: [([u16; 2], u8, &str); 4] = [
    ([0x2001, 0], 23, "a reserved address"),
    ([0x2001, 0xdb8], 32, "an address for documentation"),
    ([0x2002, 0], 16, "a 6to4 address"),
    ([0x3fff, 0], 20, "an address for documentation"),
];

/// The special network of an address that is not public. Nothing outside of 2000::/3 is public: the
/// loopback, unique local and link-local addresses, multicast, NAT64 within a site.
fn special(ip: IpAddr) -> Option<SpecialNetwork> {
    match ip {
        IpAddr::V4(_) => {
            let found = SPECIAL_V4
                .iter()
                .find(|(first, prefix, _)| within(ip, Ipv4Addr::from(*first).into(), *prefix));
            found.map(|&(_, prefix, name)| SpecialNetwork { prefix, name })
        }
        IpAddr::V6(v6) => {
            if v6.segments()[0] >> 13 != 1 {
                let name = match v6.segments()[0] {
                    _ if v6.is_loopback() => "a loopback address",
                    0xfc00..=0xfdff => "a private address",
                    0xfe80..=0xfebf => "a link-local address",
                    0xff00..=0xffff => "a multicast address",
                    _ => "a reserved address",
                };
                return Some(SpecialNetwork { prefix: 3, name });
            }
            let found = SPECIAL_V6.iter().find(|([first, second], prefix, _)| {
                within(
                    ip,
                    Ipv6Addr::new(*first, *second, 0, 0, 0, 0, 0, 0).into(),
                    *prefix,
                )
            });
            found.map(|&(_, prefix, name)| SpecialNetwork { prefix, name })
        }
    }
}

#[cfg(test)]
mod tests {
    use lockgate_rules::Cidr;

    use super::*;

    fn rule(text: &str) -> TargetRule {
        let (host, ports) = text.rsplit_once(' ').unwrap();
        let range = match ports.split_once('-') {
            Some((first, last)) => first.parse().unwrap()..=last.parse().unwrap(),
            None => ports.parse().unwrap()..=ports.parse().unwrap(),
        };
        let named = match (host.split_once('/'), host.strip_prefix("*.")) {
            (Some((first, prefix)), _) => {
                let (first, prefix) = (first.parse().unwrap(), prefix.parse().unwrap());
                TargetName::Network(Cidr::of(first, prefix))
            }
            (None, Some(host)) => TargetName::Host(HostPattern::Under(host.to_owned())),
            (None, None) if host == "*" => TargetName::Host(HostPattern::Any),
            (None, None) => TargetName::Host(HostPattern::Exact(host.to_owned())),
        };
        TargetRule {
            named,
            ports: vec![range],
        }
    }

    fn targets(allow: &[&str], deny: &[&str], private: bool) -> TunnelTargets {
        let rules = |list: &[&str]| list.iter().map(|text| rule(text)).collect::<Vec<_>>();
        TunnelTargets::new(&rules(allow), &rules(deny), private)
    }

    #[test]
    fn connect_targets_match_hosts_networks_and_ports() {
        let targets = targets(
            &[
                "*.example.org 443",
                "example.com 80-90",
                "8.0.0.0/8 22",
                "2600::/12 22",
            ],
            &[
                "bad.example.org 1-65535",
                "8.8.8.0/24 1-65535",
                "1.1.1.1/32 1-65535",
            ],
            false,
        );
        for (host, address, expected) in [
            ("a.example.org", "9.9.9.9:443", Ok(())),
            ("a.b.example.org", "9.9.9.9:443", Ok(())),
            ("example.org", "9.9.9.9:443", Err(TargetRefusal::NotAllowed)),
            (
                "aexample.org",
                "9.9.9.9:443",
                Err(TargetRefusal::NotAllowed),
            ),
            (
                "a.example.org",
                "9.9.9.9:444",
                Err(TargetRefusal::NotAllowed),
            ),
            ("bad.example.org", "9.9.9.9:443", Err(TargetRefusal::Denied)),
            ("not.bad.example.org", "9.9.9.9:443", Ok(())),
            ("a.example.org", "1.1.1.1:443", Err(TargetRefusal::Denied)),
            ("example.com", "9.9.9.9:80", Ok(())),
            ("example.com", "[2600::1]:90", Ok(())),
            ("example.com", "9.9.9.9:91", Err(TargetRefusal::NotAllowed)),
            (
                "www.example.com",
                "9.9.9.9:80",
                Err(TargetRefusal::NotAllowed),
            ),
            ("8.1.1.1", "8.1.1.1:22", Ok(())),
            ("any.test", "8.1.1.1:22", Ok(())),
            ("any.test", "[::ffff:8.1.1.1]:22", Ok(())),
            ("any.test", "[2600::1]:22", Ok(())),
            ("any.test", "8.8.8.8:22", Err(TargetRefusal::Denied)),
            (
                "any.test",
                "[64:ff9b::8.8.8.8]:22",
                Err(TargetRefusal::Denied),
            ),
            ("any.test", "9.1.1.1:22", Err(TargetRefusal::NotAllowed)),
        ] {
            assert_eq!(
                targets.admit(host, address.parse().unwrap()),
                expected,
                "{host} {address}"
            );
        }
    }

    #[test]
    fn a_connect_target_that_cannot_be_allowed_is_not_resolved() {
        let targets = targets(
            &["*.example.org 443", "8.0.0.0/8 22"],
            &["bad.example.org 1-65535"],
            false,
        );
        assert_eq!(targets.may_look_up("a.example.org", 443), Ok(()));
        assert_eq!(targets.may_look_up("any.test", 22), Ok(()));
        assert_eq!(
            targets.may_look_up("any.test", 443),
            Err(TargetRefusal::NotAllowed)
        );
        assert_eq!(
            targets.may_look_up("bad.example.org", 443),
            Err(TargetRefusal::Denied)
        );
    }

    /// RFC 6890 §2.2.2, §2.2.3; RFC 6052 §2.1; RFC 7050.
    #[test]
    fn non_public_connect_targets_are_refused_in_every_encoding() {
        let any = targets(&["* 443", "0.0.0.0/0 443", "::/0 443"], &[], false);
        let all = targets(&["* 443"], &[], true);
        for ip in [
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "3fff::1",
            "4000::1",
        ] {
            let address = SocketAddr::new(ip.parse().unwrap(), 443);
            let refused = any.admit("a.test", address);
            assert!(
                matches!(refused, Err(TargetRefusal::Private(_))),
                "{ip}: {refused:?}"
            );
            assert_eq!(all.admit("a.test", address), Ok(()), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "3ffe::1",
        ] {
            assert_eq!(
                any.admit("a.test", SocketAddr::new(ip.parse().unwrap(), 443)),
                Ok(()),
                "{ip}"
            );
        }
    }

    #[test]
    fn deny_matches_ipv4_embedded_in_ipv6() {
        let targets = targets(&["* 443"], &["64:ff9b::/96 1-65535"], true);
        assert_eq!(
            targets.admit("a.test", "[64:ff9b::1.1.1.1]:443".parse().unwrap()),
            Err(TargetRefusal::Denied)
        );
        assert_eq!(
            targets.admit("a.test", "1.1.1.1:443".parse().unwrap()),
            Ok(())
        );
    }

    /// To the system they are its own, and `deny` of the loopback would not know.
    #[test]
    fn the_unspecified_address_is_refused_as_a_connect_target() {
        let targets = targets(
            &["* 443", "0.0.0.0/32 443", "::/128 443"],
            &["127.0.0.0/8 1-65535"],
            true,
        );
        for ip in ["0.0.0.0", "::", "::ffff:0.0.0.0", "64:ff9b::"] {
            let address = SocketAddr::new(ip.parse().unwrap(), 443);
            assert_eq!(
                targets.admit("a.test", address),
                Err(TargetRefusal::Nobody),
                "{ip}"
            );
        }
    }

    #[test]
    fn an_allowed_private_network_opens_only_itself() {
        let targets = targets(
            &[
                "* 443",
                "10.1.0.0/16 22-443",
                "fd00:1::/32 443",
                "0.0.0.0/7 443",
            ],
            &[],
            false,
        );
        for (address, expected) in [
            ("10.1.2.3:22", Ok(())),
            ("10.1.2.3:443", Ok(())),
            ("[::ffff:10.1.2.3]:443", Ok(())),
            ("[64:ff9b::10.1.2.3]:443", Ok(())),
            (
                "10.2.0.1:443",
                Err(TargetRefusal::Private("a private address")),
            ),
            ("10.1.2.3:444", Err(TargetRefusal::NotAllowed)),
            ("[fd00:1::1]:443", Ok(())),
            (
                "[fd00:2::1]:443",
                Err(TargetRefusal::Private("a private address")),
            ),
            (
                "0.0.0.1:443",
                Err(TargetRefusal::Private("this host's own network")),
            ),
        ] {
            assert_eq!(
                targets.admit("a.test", address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
    }
}
