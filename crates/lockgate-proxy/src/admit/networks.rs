//! `allow` and `deny`: whether an address may connect, by the networks of the configuration.
//!
//! The order of the rules never matters: the longest prefix decides, and of two equal ones `deny`
//! does. Where none matches, a client is let in unless something is allowed. The caller decides
//! which address is the client's: trust in PROXY headers and `X-Forwarded-For` comes before.

use std::net::IpAddr;

use lockgate_rules::Cidr;

/// The rule for a network. `Deny` comes last, so that it is the inner one of two equal networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NetworkVerdict {
    Allow,
    Deny,
}

/// The networks of one table of the configuration, sorted for a binary search.
#[derive(Debug, Clone, Default)]
pub struct Networks {
    v4: AddressRanges<u32>,
    v6: AddressRanges<u128>,
    /// Something is allowed, so what matches nothing is not.
    closed: bool,
}

/// The first address of each range and its rule; a range ends where the next one begins.
#[derive(Debug, Clone, Default)]
struct AddressRanges<T> {
    begins: Vec<T>,
    verdicts: Vec<Option<NetworkVerdict>>,
}

impl Networks {
    /// The rules of networks that are allowed and denied.
    pub fn new(allow: &[Cidr], deny: &[Cidr]) -> Self {
        let allowed = allow
            .iter()
            .map(|&network| (network, NetworkVerdict::Allow));
        let denied = deny.iter().map(|&network| (network, NetworkVerdict::Deny));
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (network, verdict) in allowed.chain(denied) {
            let prefix = network.prefix();
            match network.addr() {
                IpAddr::V4(ip) => {
                    let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                    v4.push((ip.to_bits() & !host, prefix, verdict, ip.to_bits() | host));
                }
                IpAddr::V6(ip) => {
                    let host = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
                    v6.push((ip.to_bits() & !host, prefix, verdict, ip.to_bits() | host));
                }
            }
        }
        let v4 = AddressRanges::new(v4, |last| last.checked_add(1));
        let v6 = AddressRanges::new(v6, |last| last.checked_add(1));
        Self {
            v4,
            v6,
            closed: !allow.is_empty(),
        }
    }

    /// Whether `ip` is admitted. An IPv4-mapped address is looked up as IPv4: a dual-stack socket
    /// shows those.
    pub fn admits(&self, ip: IpAddr) -> bool {
        let verdict = match ip.to_canonical() {
            IpAddr::V4(ip) => self.v4.find(ip.to_bits()),
            IpAddr::V6(ip) => self.v6.find(ip.to_bits()),
        };
        verdict.map_or(!self.closed, |verdict| verdict == NetworkVerdict::Allow)
    }
}

impl Networks {
    /// Whether a client without a known address is admitted: only where there is no rule. It may be
    /// one of the denied, and may not be one of the allowed.
    pub fn admits_unknown(&self) -> bool {
        !self.closed && self.v4.begins.is_empty() && self.v6.begins.is_empty()
    }
}

impl<T: Copy + Ord> AddressRanges<T> {
    /// Lays nested networks (first address, prefix, verdict, last address) side by side. Two
    /// networks are either apart or one is in the other, so a stack of those that are open at
    /// an address has the longest prefix on top.
    fn new(mut networks: Vec<(T, u8, NetworkVerdict, T)>, after: impl Fn(T) -> Option<T>) -> Self {
        networks.sort_unstable();
        let mut ranges = Self {
            begins: Vec::new(),
            verdicts: Vec::new(),
        };
        let mut open: Vec<(T, NetworkVerdict)> = Vec::new();
        for (first, _, verdict, last) in networks {
            while let Some((ended, _)) = open.pop_if(|(last, _)| *last < first) {
                ranges.close(ended, &open, &after);
            }
            open.push((last, verdict));
            ranges.begin(first, Some(verdict));
        }
        while let Some((ended, _)) = open.pop() {
            ranges.close(ended, &open, &after);
        }
        ranges
    }

    /// Behind a network's last address holds what surrounds it.
    fn close(&mut self, ended: T, open: &[(T, NetworkVerdict)], after: impl Fn(T) -> Option<T>) {
        if let Some(next) = after(ended) {
            self.begin(next, open.last().map(|(_, verdict)| *verdict));
        }
    }

    /// Begins a range. Where two begin at one address the later call decides: an inner network, or
    /// the surroundings of both.
    fn begin(&mut self, at: T, verdict: Option<NetworkVerdict>) {
        if self.begins.last() == Some(&at) {
            self.begins.pop();
            self.verdicts.pop();
        }
        self.begins.push(at);
        self.verdicts.push(verdict);
    }

    fn find(&self, ip: T) -> Option<NetworkVerdict> {
        let behind = self.begins.partition_point(|&begin| begin <= ip);
        self.verdicts.get(behind.checked_sub(1)?).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn networks(allow: &[&str], deny: &[&str]) -> Networks {
        let parse = |text: &&str| {
            let (address, prefix) = text.split_once('/').unwrap();
            Cidr::of(address.parse().unwrap(), prefix.parse().unwrap())
        };
        let parse = |list: &[&str]| list.iter().map(parse).collect::<Vec<_>>();
        Networks::new(&parse(allow), &parse(deny))
    }

    fn admitted<'a>(networks: &Networks, ips: &[&'a str]) -> Vec<&'a str> {
        ips.iter()
            .copied()
            .filter(|ip| networks.admits(ip.parse().unwrap()))
            .collect()
    }

    #[test]
    fn without_networks_every_client_is_admitted() {
        assert_eq!(
            admitted(&networks(&[], &[]), &["0.0.0.0", "::", "255.255.255.255"]).len(),
            3
        );
    }

    #[test]
    fn with_allow_only_listed_networks_are_admitted() {
        let home = networks(&["10.0.0.0/8"], &[]);
        let ips = [
            "9.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "11.0.0.0",
            "2001:db8::1",
        ];
        assert_eq!(admitted(&home, &ips), ["10.0.0.0", "10.255.255.255"]);
    }

    #[test]
    fn with_deny_only_listed_networks_are_refused() {
        let ips = ["9.255.255.255", "10.0.0.0", "2001:db8::1"];
        assert_eq!(
            admitted(&networks(&[], &["10.0.0.0/8"]), &ips),
            ["9.255.255.255", "2001:db8::1"]
        );
    }

    #[test]
    fn the_longest_prefix_decides_at_any_depth() {
        let nested = networks(
            &["10.0.0.0/8", "10.1.2.0/24", "10.1.3.255/32"],
            &["0.0.0.0/0", "10.1.0.0/16", "10.1.2.7/32"],
        );
        let ips = [
            "9.1.1.1",
            "10.0.255.255",
            "10.1.0.0",
            "10.1.2.6",
            "10.1.2.7",
            "10.1.2.8",
            "10.1.3.255",
            "10.2.0.0",
        ];
        assert_eq!(
            admitted(&nested, &ips),
            [
                "10.0.255.255",
                "10.1.2.6",
                "10.1.2.8",
                "10.1.3.255",
                "10.2.0.0"
            ]
        );
    }

    #[test]
    fn deny_wins_over_allow_for_the_same_network() {
        let both = networks(
            &["192.0.2.0/24", "192.0.2.9/32"],
            &["192.0.2.77/24", "192.0.2.9/32"],
        );
        assert!(admitted(&both, &["192.0.2.1", "192.0.2.9", "192.0.2.77"]).is_empty());
    }

    #[test]
    fn an_ipv4_mapped_address_matches_ipv4_networks() {
        let plain = networks(&["192.0.2.0/24"], &[]);
        assert_eq!(
            admitted(&plain, &["::ffff:192.0.2.1", "::ffff:192.0.3.1"]),
            ["::ffff:192.0.2.1"]
        );
        let mapped = networks(&["::ffff:192.0.2.0/120"], &[]);
        assert_eq!(
            admitted(&mapped, &["192.0.2.1", "192.0.3.1"]),
            ["192.0.2.1"]
        );
    }

    #[test]
    fn all_of_ipv6_is_not_all_of_ipv4() {
        assert_eq!(
            admitted(&networks(&["::/0"], &[]), &["::", "ffff::1", "192.0.2.1"]),
            ["::", "ffff::1"]
        );
        assert_eq!(
            admitted(&networks(&[], &["0.0.0.0/0"]), &["192.0.2.1", "2001:db8::"]),
            ["2001:db8::"]
        );
    }

    #[test]
    fn networks_at_the_ends_of_the_address_range_match() {
        let ends = networks(&["255.255.255.255/32", "0.0.0.0/32", "ffff::/16"], &[]);
        let ips = [
            "0.0.0.0",
            "0.0.0.1",
            "255.255.255.254",
            "255.255.255.255",
            "fffe::",
            "ffff:ffff::",
        ];
        assert_eq!(
            admitted(&ends, &ips),
            ["0.0.0.0", "255.255.255.255", "ffff:ffff::"]
        );
    }

    #[test]
    fn the_range_table_agrees_with_a_linear_search() {
        // Small prefixes over a few bits, so that they nest, touch and repeat.
        let mut state = 1u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..200 {
            let mut some = || -> Vec<Cidr> {
                let count = random(6);
                let one = |_| {
                    let address = Ipv4Addr::from_bits(random(16) << 28);
                    Cidr::of(address.into(), random(5) as u8)
                };
                (0..count).map(one).collect()
            };
            let (allow, deny) = (some(), some());
            let networks = Networks::new(&allow, &deny);
            for ip in (0..16u32).map(|top| (top << 28) | 5) {
                let longest = |list: &[Cidr]| {
                    let has = |network: &&Cidr| network.contains(Ipv4Addr::from_bits(ip).into());
                    list.iter().filter(has).map(Cidr::prefix).max()
                };
                let expected = match (longest(&allow), longest(&deny)) {
                    (None, None) => allow.is_empty(),
                    (allowed, denied) => allowed > denied,
                };
                assert_eq!(
                    networks.admits(Ipv4Addr::from_bits(ip).into()),
                    expected,
                    "{ip:x} {allow:?} {deny:?}"
                );
            }
        }
    }
}
