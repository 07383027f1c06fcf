//! Host patterns of sites, relays and tunnels.

use std::fmt;

use lockgate_http::target::Authority;

/// A pattern of hosts, matched against the Host field, SNI or the target of CONNECT.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// Every host that no other pattern matches, and requests without a host (HTTP/1.0).
    Any,
    /// One host without port: a name in lower case without a final dot, an IPv4 address, or an IPv6
    /// address in brackets. The comparison ignores case.
    Exact(String),
    /// `*.example.com`, held as `example.com`: every name below it at any depth, but not
    /// `example.com` itself. This is the wildcard of DNS (RFC 4592), not that of certificates,
    /// where `*` is one label (RFC 6125 §6.4.3).
    Under(String),
}

impl HostPattern {
    /// Whether any request can name a host that matches.
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
