//! Rules of tunnels as they are written: a host or a network, and ports.
//!
//! Does not know what holds where no port is written. The errors hold no text of the input.

use std::ops::RangeInclusive;

use lockgate_rules::network::{Cidr, CidrError};
use lockgate_rules::{HostPattern, TargetName};

use crate::host::{HostError, parse_host};

/// `*.example.com:443`, `10.1.0.0/16:22,8000-8999`, `[2001:db8::/32]:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TunnelRule {
    pub(crate) named: TargetName,
    /// The ports; `None` if the rule has none.
    pub(crate) ports: Option<Vec<RangeInclusive<u16>>>,
}

/// Why a text is no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunnelRuleError {
    Host(HostError),
    Network(CidrError),
    Port,
    /// A `*` without a port.
    Everything,
}

impl TunnelRuleError {
    /// The mistake in a few words, without the text.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            TunnelRuleError::Host(HostError::BadPort) | TunnelRuleError::Port => {
                "ports go from 1 to 65535"
            }
            TunnelRuleError::Host(error) => error.reason(),
            TunnelRuleError::Network(CidrError::HostBits { .. }) => "it has bits beyond its prefix",
            TunnelRuleError::Network(CidrError::BadPrefix { max: 32 }) => {
                "the prefix of IPv4 goes from 0 to 32"
            }
            TunnelRuleError::Network(CidrError::BadPrefix { .. }) => {
                "the prefix of IPv6 goes from 0 to 128"
            }
            TunnelRuleError::Network(CidrError::BadAddress) => "this is no network",
            TunnelRuleError::Everything => "every host: at which ports?",
        }
    }
}

impl TunnelRule {
    /// Parses `HOST[:PORTS]` and `NETWORK[:PORTS]`. An IPv6 network has brackets where ports
    /// follow.
    pub(crate) fn parse(text: &str) -> Result<TunnelRule, TunnelRuleError> {
        if text == "*" {
            return Err(TunnelRuleError::Everything);
        }
        if text.contains("://") {
            return Err(TunnelRuleError::Host(HostError::Scheme));
        }
        // IPv6 without ports needs no brackets.
        if text.parse::<std::net::Ipv6Addr>().is_ok()
            || text.contains("::") && !text.starts_with('[')
        {
            let network = Cidr::parse(text).map_err(TunnelRuleError::Network)?;
            return Ok(TunnelRule {
                named: TargetName::Network(network),
                ports: None,
            });
        }
        let (name, ports) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inner, rest)) => {
                let rest = if rest.is_empty() {
                    None
                } else {
                    Some(rest.strip_prefix(':'))
                };
                match rest {
                    Some(None) => return Err(TunnelRuleError::Host(HostError::BadName)),
                    rest => (inner, rest.flatten()),
                }
            }
            None => match text.split_once(':') {
                Some((_, rest)) if rest.contains(':') => {
                    return Err(TunnelRuleError::Host(HostError::Brackets));
                }
                Some((name, ports)) => (name, Some(ports)),
                None => (text, None),
            },
        };
        let named = named(name, text.starts_with('['))?;
        let ports = ports
            .map(|ports| self::ports(ports).ok_or(TunnelRuleError::Port))
            .transpose()?;
        Ok(TunnelRule { named, ports })
    }
}

fn named(text: &str, bracketed: bool) -> Result<TargetName, TunnelRuleError> {
    if text == "*" {
        return Ok(TargetName::Host(HostPattern::Any));
    }
    let address = text.split('/').next().unwrap_or_default();
    if bracketed || address.parse::<std::net::Ipv4Addr>().is_ok() {
        return Cidr::parse(text)
            .map(TargetName::Network)
            .map_err(TunnelRuleError::Network);
    }
    match parse_host(text) {
        Ok(host) => Ok(TargetName::Host(host)),
        Err(HostError::BadPort | HostError::Port) => Err(TunnelRuleError::Port),
        Err(error) => Err(TunnelRuleError::Host(error)),
    }
}

/// `443`, `80,443`, `8000-8999`, `*`.
fn ports(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    if text == "*" {
        return Some(vec![1..=u16::MAX]);
    }
    let port = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|port| plain && *port > 0)
    };
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (port(first)?, port(last)?);
        (first <= last).then_some(first..=last)
    };
    text.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> TargetName {
        TargetName::Network(Cidr::parse(text).unwrap())
    }

    #[test]
    fn a_rule_is_a_host_or_a_network_and_perhaps_ports() {
        let exact = |host: &str| TargetName::Host(HostPattern::Exact(host.to_owned()));
        let under = |host: &str| TargetName::Host(HostPattern::Under(host.to_owned()));
        for (text, named, ports) in [
            ("example.com", exact("example.com"), None),
            (
                "Example.COM.:443",
                exact("example.com"),
                Some(vec![443..=443]),
            ),
            (
                "*.example.org:443",
                under("example.org"),
                Some(vec![443..=443]),
            ),
            (
                "a:80,443,8000-8999",
                exact("a"),
                Some(vec![80..=80, 443..=443, 8000..=8999]),
            ),
            (
                "*:443",
                TargetName::Host(HostPattern::Any),
                Some(vec![443..=443]),
            ),
            (
                "*:*",
                TargetName::Host(HostPattern::Any),
                Some(vec![1..=65535]),
            ),
            (
                "10.1.0.0/16:22",
                network("10.1.0.0/16"),
                Some(vec![22..=22]),
            ),
            ("10.1.0.0/16", network("10.1.0.0/16"), None),
            ("10.1.2.3:22", network("10.1.2.3"), Some(vec![22..=22])),
            ("2001:db8::/32", network("2001:db8::/32"), None),
            ("2001:db8:0:0:0:0:0:1", network("2001:db8::1"), None),
            (
                "[2001:db8::/32]:443",
                network("2001:db8::/32"),
                Some(vec![443..=443]),
            ),
            ("[::1]:*", network("::1"), Some(vec![1..=65535])),
            ("[::1]", network("::1"), None),
        ] {
            assert_eq!(
                TunnelRule::parse(text),
                Ok(TunnelRule { named, ports }),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_none_says_why() {
        let host = TunnelRuleError::Host;
        for (text, error) in [
            ("", host(HostError::Empty)),
            ("*", TunnelRuleError::Everything),
            (":443", host(HostError::Empty)),
            ("a:", TunnelRuleError::Port),
            ("a:0", TunnelRuleError::Port),
            ("a:65536", TunnelRuleError::Port),
            ("a:+1", TunnelRuleError::Port),
            ("a:9-8", TunnelRuleError::Port),
            ("a:1,", TunnelRuleError::Port),
            ("a:https", TunnelRuleError::Port),
            ("*a:1", host(HostError::InnerStar)),
            ("a.*.b:1", host(HostError::InnerStar)),
            ("https://a", host(HostError::Scheme)),
            ("a/b:1", host(HostError::Path)),
            ("a b", host(HostError::BadName)),
            ("b\u{fc}cher.example", host(HostError::NotAscii)),
            ("2001:db8:1:2:3:4:5:6:443", host(HostError::Brackets)),
            ("[::1]443", host(HostError::BadName)),
            ("[a]:1", TunnelRuleError::Network(CidrError::BadAddress)),
            (
                "10.0.0.0/33:1",
                TunnelRuleError::Network(CidrError::BadPrefix { max: 32 }),
            ),
        ] {
            assert_eq!(TunnelRule::parse(text), Err(error), "{text:?}");
        }
        assert!(matches!(
            TunnelRule::parse("10.0.0.1/8:1"),
            Err(TunnelRuleError::Network(CidrError::HostBits { .. }))
        ));
    }
}
