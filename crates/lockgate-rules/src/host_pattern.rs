//! Hosts, as sites, relays and tunnels are configured with them.

use std::fmt;

use lockgate_http::target::Authority;

/// The hosts that something is for, as the Host field of a request, SNI or CONNECT names them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// Every host that nothing else is for, and requests that name none (HTTP/1.0).
    Any,
    /// This one, in any case, without port: a name in lower case without a final dot, an IPv4
    /// address, or an IPv6 address in brackets.
    Exact(String),
    /// For `*.example.com` given as `example.com`: every name below it, however many labels deeper,
    /// but not itself. As in DNS (RFC 4592), not as in certificates, where `*` is one label
    /// (RFC 6125 §6.4.3).
    Under(String),
}

impl HostPattern {
    /// Whether a request can name such a host at all.
    pub fn is_possible(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(host) | Self::Under(host) => {
                Authority::parse(host.as_bytes()).is_ok_and(|authority| authority.port.is_none())
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(host) => f.write_str(host),
            Self::Under(name) => write!(f, "*.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_pattern_that_no_request_can_match_is_reported() {
        let exact = |text: &str| HostPattern::Exact(text.to_owned());
        assert!(HostPattern::Any.is_possible());
        assert!(HostPattern::Under("a.example".to_owned()).is_possible());
        for (text, possible) in [
            ("a.example", true),
            ("192.0.2.1", true),
            ("a.example:80", false),
            ("b\u{fc}cher.example", false),
            ("a..example", false),
            ("", false),
        ] {
            assert_eq!(exact(text).is_possible(), possible, "{text}");
        }
    }
}
