//! Settings of dynamic DNS: names that are kept at the machine's address, and where that address is
//! learnt. Asks no source and writes no record.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::dns_provider::DnsProvider;

/// Names that are kept at the machine's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicDns {
    /// The names in lower case, each once; a wildcard begins with `*.`.
    pub names: Vec<String>,
    /// The provider that sets the records.
    pub dns: Arc<DnsProvider>,
    /// The sources of the IPv4 address, each asked where those before have none. Empty leaves A
    /// records alone.
    pub ipv4: Vec<AddressSource>,
    /// The same of IPv6 and AAAA records.
    pub ipv6: Vec<AddressSource>,
    /// The time between two looks at the sources.
    pub every: Duration,
    /// Whether addresses that are not reached from the Internet are published too.
    pub private: bool,
}

/// A source of the machine's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressSource {
    /// The network interface of this name, or all but the loopback.
    Interface(Option<String>),
    /// The home router, by NAT-PMP, PCP or UPnP; of IPv4 alone.
    Router,
    /// A server that answers with the address of its client.
    Url(SourceUrl),
}

/// The URL of a server that answers with the address of its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceUrl {
    /// Whether it is asked over TLS.
    pub secure: bool,
    /// The host: a name, or an IP address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The host as the request names it: with brackets, and with the port where that is not the
    /// scheme's own.
    pub authority: String,
    /// The path and query; begins with `/`.
    pub path: String,
}

/// The reason why a text is no URL of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SourceUrlError {
    /// Another scheme, or none.
    #[error("it does not begin with `https://` or `http://`")]
    Scheme,
    /// It holds a user or a password.
    #[error("it holds a user or a password")]
    User,
    /// The host is empty, or none.
    #[error("its host cannot be read")]
    Host,
    /// The port is no number from 1 to 65535.
    #[error("its port is no number from 1 to 65535")]
    Port,
    /// The path or query holds a byte that no URL has as it is (RFC 3986 §2).
    #[error("it holds what must be percent-encoded, or a `#`")]
    Path,
}

impl fmt::Display for AddressSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(None) => f.write_str("interface"),
            Self::Interface(Some(name)) => write!(f, "interface:{name}"),
            Self::Router => f.write_str("router"),
            Self::Url(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for SourceUrl {
    /// Without the query, which may hold a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority)
    }
}

impl FromStr for SourceUrl {
    type Err = SourceUrlError;

    fn from_str(text: &str) -> Result<Self, SourceUrlError> {
        let (secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(SourceUrlError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(SourceUrlError::User);
        }
        let is_sendable = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if !path.bytes().all(is_sendable) {
            return Err(SourceUrlError::Path);
        }
        let (host, port) = split_port(authority)?;
        let usual = if secure { 443 } else { 80 };
        let port = port.unwrap_or(usual);
        let host = host.to_ascii_lowercase();
        let written = match host.parse::<Ipv6Addr>() {
            Ok(_) => format!("[{host}]"),
            Err(_) if is_host(&host) => host.clone(),
            Err(_) => return Err(SourceUrlError::Host),
        };
        Ok(Self {
            secure,
            authority: match port == usual {
                true => written,
                false => format!("{written}:{port}"),
            },
            host,
            port,
            path: match path.starts_with('/') {
                true => path.to_owned(),
                false => format!("/{path}"),
            },
        })
    }
}

/// The host without brackets, and the port if there is one (RFC 3986 §3.2).
fn split_port(authority: &str) -> Result<(&str, Option<u16>), SourceUrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(SourceUrlError::Host)?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(SourceUrlError::Host);
            }
            match after {
                "" => (host, None),
                after => (
                    host,
                    Some(after.strip_prefix(':').ok_or(SourceUrlError::Host)?),
                ),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port: u16 = port.parse().map_err(|_| SourceUrlError::Port)?;
            Some(port).filter(|port| *port != 0)
        }
        Some(_) => None,
        None => return Ok((host, None)),
    };
    Ok((host, Some(port.ok_or(SourceUrlError::Port)?)))
}

/// Whether a text is an IPv4 address or a name of labels with letters, digits, `-` and `_`.
fn is_host(host: &str) -> bool {
    let in_label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(in_label);
    host.len() <= 253 && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_sources_have_host_port_and_path() {
        for (text, shown) in [
            (
                "https://ip.example.com",
                "ip.example.com 443 ip.example.com /",
            ),
            (
                "https://IP.example.com/v4?a=b",
                "ip.example.com 443 ip.example.com /v4?a=b",
            ),
            (
                "http://192.168.1.1:8080",
                "192.168.1.1 8080 192.168.1.1:8080 /",
            ),
            (
                "https://[2001:DB8::1]/x",
                "2001:db8::1 443 [2001:db8::1] /x",
            ),
            ("http://[::1]:81?q", "::1 81 [::1]:81 /?q"),
            ("http://a:80/", "a 80 a /"),
            ("https://a:80/", "a 80 a:80 /"),
        ] {
            let url: SourceUrl = text.parse().unwrap();
            let found = format!("{} {} {} {}", url.host, url.port, url.authority, url.path);
            assert_eq!(found, shown, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_urls_of_sources_are_refused() {
        use SourceUrlError::{Host, Path, Port, Scheme, User};
        for (text, why) in [
            ("", Scheme),
            ("ftp://a", Scheme),
            ("ip.example.com", Scheme),
            ("https://", Host),
            ("https:///x", Host),
            ("https://a..b", Host),
            ("https://a b", Host),
            ("https://[::1", Host),
            ("https://[1.2.3.4]", Host),
            ("https://[::1]x", Host),
            ("https://me:pw@a/", User),
            ("https://a:0", Port),
            ("https://a:", Port),
            ("https://a:65536", Port),
            ("https://a:+80", Port),
            ("https://::1", Port),
            ("https://a/#x", Path),
            ("https://a/ü", Path),
            ("https://a/ b", Path),
        ] {
            assert_eq!(text.parse::<SourceUrl>(), Err(why), "{text}");
        }
    }

    #[test]
    fn the_query_of_a_source_is_not_shown() {
        let url: SourceUrl = "https://a:8443/b?token=s3cret".parse().unwrap();
        assert_eq!(AddressSource::Url(url).to_string(), "https://a:8443/b");
        assert_eq!(
            AddressSource::Interface(Some("eth0".to_owned())).to_string(),
            "interface:eth0"
        );
    }
}
