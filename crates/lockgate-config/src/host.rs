//! The keys of sites as they are written: a host, a port, both, or a Unix socket.
//!
//! Does not resolve names. The errors hold no text of the input.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use lockgate_rules::HostPattern;

use crate::address::{ListenAddr, is_name};

/// The key of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SiteKey {
    /// `example.com`: on the implied ports.
    Implied(HostPattern),
    /// A port, perhaps after a host: `:8080`, `example.com:8443`.
    Port(HostPattern, u16),
    /// A Unix socket, for any host: `unix:/run/lockgate.sock`.
    Unix(PathBuf),
}

/// Why a text is no key of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostError {
    Empty,
    Scheme,
    Path,
    NotAscii,
    BadPort,
    /// A port where only hosts stand.
    Port,
    /// A `*` for every host.
    Star,
    /// A `*` elsewhere than in front of the first dot.
    InnerStar,
    Brackets,
    BadName,
    BadSocket,
}

impl HostError {
    /// The mistake in a few words, without the text.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            HostError::Empty => "it is empty",
            HostError::Scheme => "this is a URL; a host has no scheme",
            HostError::Path => "a host has no path",
            HostError::NotAscii => "clients send this name in its ASCII form",
            HostError::BadPort => "the port is not a number from 0 to 65535",
            HostError::Port => "a port has no place here",
            HostError::Star => "a port alone stands for every host",
            HostError::InnerStar => {
                "a `*` stands for what is before the first dot, and nowhere else"
            }
            HostError::Brackets => "an IPv6 address stands in brackets",
            HostError::BadName => "this is neither a host name nor an IP address",
            HostError::BadSocket => "the path of the socket is missing or longer than 107 bytes",
        }
    }
}

impl SiteKey {
    /// The host, where there is one.
    pub(crate) fn host(&self) -> Option<&HostPattern> {
        match self {
            SiteKey::Implied(host) | SiteKey::Port(host, _) => Some(host),
            SiteKey::Unix(_) => None,
        }
    }

    /// Parses `"HOST"`, `":PORT"`, `"HOST:PORT"` or `"unix:PATH"`.
    pub(crate) fn parse(text: &str) -> Result<SiteKey, HostError> {
        if text.starts_with("unix:") {
            return match ListenAddr::parse(text) {
                Ok(ListenAddr::Unix(path)) => Ok(SiteKey::Unix(path)),
                _ => Err(HostError::BadSocket),
            };
        }
        let (host, port) = split(text)?;
        let port = port.map(number).transpose()?;
        match (host, port) {
            ("", Some(port)) => Ok(SiteKey::Port(HostPattern::Any, port)),
            (host, Some(port)) => Ok(SiteKey::Port(one(host)?, port)),
            (host, None) => Ok(SiteKey::Implied(one(host)?)),
        }
    }
}

/// Parses a host without a port: a name, `*.` and a name, an IPv4 address, an IPv6 address in
/// brackets.
pub(crate) fn parse_host(text: &str) -> Result<HostPattern, HostError> {
    match split(text)? {
        (_, Some(_)) => Err(HostError::Port),
        (host, None) => one(host),
    }
}

fn one(host: &str) -> Result<HostPattern, HostError> {
    if host.is_empty() {
        return Err(HostError::Empty);
    }
    if !host.is_ascii() {
        return Err(HostError::NotAscii);
    }
    if let Some(inner) = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        let ip = inner.parse::<Ipv6Addr>().map_err(|_| HostError::BadName)?;
        return Ok(HostPattern::Exact(format!("[{ip}]")));
    }
    if host.parse::<Ipv4Addr>().is_ok() {
        return Ok(HostPattern::Exact(host.to_owned()));
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    match host.strip_prefix("*.") {
        _ if host == "*" => Err(HostError::Star),
        Some(name) if name.contains('*') => Err(HostError::InnerStar),
        None if host.contains('*') => Err(HostError::InnerStar),
        Some(name) if plain(name) => Ok(HostPattern::Under(name.to_owned())),
        None if plain(&host) => Ok(HostPattern::Exact(host)),
        _ => Err(HostError::BadName),
    }
}

/// Whether a text is a host name without a final dot.
fn plain(name: &str) -> bool {
    is_name(name) && !name.ends_with('.')
}

/// The host and the port after it.
fn split(text: &str) -> Result<(&str, Option<&str>), HostError> {
    if text.is_empty() {
        return Err(HostError::Empty);
    }
    if text.contains("://") {
        return Err(HostError::Scheme);
    }
    if text.contains('/') {
        return Err(HostError::Path);
    }
    if let Some(end) = text.strip_prefix('[').and(text.find(']')) {
        let (host, rest) = text.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(HostError::BadName),
        };
    }
    match text.rsplit_once(':') {
        Some((host, _)) if host.contains(':') => Err(HostError::Brackets),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

fn number(port: &str) -> Result<u16, HostError> {
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HostError::BadPort);
    }
    port.parse().map_err(|_| HostError::BadPort)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(host: &str) -> HostPattern {
        HostPattern::Exact(host.to_owned())
    }

    #[test]
    fn a_key_is_a_host_a_port_both_or_a_socket() {
        for (text, expected) in [
            ("example.com", Ok(SiteKey::Implied(exact("example.com")))),
            ("Example.COM.", Ok(SiteKey::Implied(exact("example.com")))),
            (
                "xn--bcher-kva.example",
                Ok(SiteKey::Implied(exact("xn--bcher-kva.example"))),
            ),
            (
                "*.Example.com",
                Ok(SiteKey::Implied(HostPattern::Under("example.com".into()))),
            ),
            (
                "*.example.com.:8443",
                Ok(SiteKey::Port(
                    HostPattern::Under("example.com".into()),
                    8443,
                )),
            ),
            (":8080", Ok(SiteKey::Port(HostPattern::Any, 8080))),
            ("localhost:0", Ok(SiteKey::Port(exact("localhost"), 0))),
            ("10.0.0.1", Ok(SiteKey::Implied(exact("10.0.0.1")))),
            ("10.0.0.1:81", Ok(SiteKey::Port(exact("10.0.0.1"), 81))),
            (
                "[2001:DB8::0:1]",
                Ok(SiteKey::Implied(exact("[2001:db8::1]"))),
            ),
            ("[::1]:81", Ok(SiteKey::Port(exact("[::1]"), 81))),
            ("unix:/run/a.sock", Ok(SiteKey::Unix("/run/a.sock".into()))),
            ("unix:", Err(HostError::BadSocket)),
            ("", Err(HostError::Empty)),
            ("https://example.com", Err(HostError::Scheme)),
            ("example.com/x", Err(HostError::Path)),
            ("bücher.example", Err(HostError::NotAscii)),
            ("example.com:", Err(HostError::BadPort)),
            ("example.com:65536", Err(HostError::BadPort)),
            ("example.com:+1", Err(HostError::BadPort)),
            ("*", Err(HostError::Star)),
            ("*:80", Err(HostError::Star)),
            ("a.*.com", Err(HostError::InnerStar)),
            ("*.*.com", Err(HostError::InnerStar)),
            ("*a.com", Err(HostError::InnerStar)),
            ("*.", Err(HostError::Star)),
            ("::1", Err(HostError::Brackets)),
            ("[::1", Err(HostError::Brackets)),
            ("[::1]x", Err(HostError::BadName)),
            ("[example.com]", Err(HostError::BadName)),
            ("10.0.0.256", Err(HostError::BadName)),
            ("user@example.com", Err(HostError::BadName)),
            ("a..b", Err(HostError::BadName)),
            ("a.b..", Err(HostError::BadName)),
            ("-a.b", Err(HostError::BadName)),
            ("a b", Err(HostError::BadName)),
        ] {
            assert_eq!(SiteKey::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn an_alias_has_no_port() {
        assert_eq!(
            parse_host("*.example.org"),
            Ok(HostPattern::Under("example.org".into()))
        );
        for text in ["example.org:80", ":80", "[::1]:80"] {
            assert_eq!(parse_host(text), Err(HostError::Port), "{text}");
        }
    }
}
