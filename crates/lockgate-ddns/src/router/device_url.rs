//! URLs of a device: of its description, and of the control of its services.
//!
//! They are another machine's words, and this machine follows them. So the host must be the address
//! of the device itself, as a number: a name, or the address of another machine, would have this one
//! send requests for others.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A URL of HTTP with one known IPv4 address as its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceUrl {
    address: SocketAddrV4,
    /// Path and query: begins with a slash, visible ASCII.
    path: String,
}

/// Why a URL is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It is longer than [`LONGEST_URL`].
    #[error("it is longer than {LONGEST_URL} bytes")]
    TooLong,
    /// It is empty, or has characters that no URL has.
    #[error("it is not a URL")]
    NotUrl,
    /// Its scheme is not http.
    #[error("its scheme is not http")]
    Scheme,
    /// Its host is another one than the device.
    #[error("its host is not the router {0}")]
    OtherHost(Ipv4Addr),
    /// Its port is not a number from 1 to 65535.
    #[error("its port is not a number from 1 to 65535")]
    Port,
}

/// The longest URL that is used, in bytes.
pub const LONGEST_URL: usize = 1024;

const HTTP_PORT: u16 = 80;

impl DeviceUrl {
    /// Reads a URL (RFC 3986 §3) with `device` as its host.
    ///
    /// # Errors
    /// When it is none of HTTP, or its host is another one.
    pub fn parse(url: &str, device: Ipv4Addr) -> Result<Self, UrlFault> {
        check_text(url)?;
        let (scheme, rest) = url.split_once(':').ok_or(UrlFault::NotUrl)?;
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(UrlFault::Scheme);
        }
        let rest = rest.strip_prefix("//").ok_or(UrlFault::NotUrl)?;
        Self::after_scheme(rest, device)
    }

    /// Resolves a reference of the device against this URL (RFC 3986 §5.2), and must keep its host. Dot
    /// segments stay: they are the device's own to read.
    ///
    /// # Errors
    /// When it is no reference of HTTP, or its host is another one.
    pub fn join(&self, reference: &str) -> Result<Self, UrlFault> {
        check_text(reference)?;
        let device = *self.address.ip();
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::after_scheme(rest, device);
        }
        if has_scheme(reference) {
            return Self::parse(reference, device);
        }
        let reference = without_fragment(reference);
        let own = self.path.split('?').next().unwrap_or_default();
        let path = match reference.as_bytes().first() {
            None => self.path.clone(),
            Some(b'/') => reference.to_owned(),
            Some(b'?') => format!("{own}{reference}"),
            Some(_) => {
                let folder = own.rfind('/').and_then(|at| own.get(..=at));
                format!("{}{reference}", folder.unwrap_or("/"))
            }
        };
        if path.len() > LONGEST_URL {
            return Err(UrlFault::TooLong);
        }
        Ok(Self { path, ..*self })
    }

    /// The address and port that it leads to.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// The value of the field Host (RFC 9110 §7.2): the address, with its port where that is not 80.
    pub fn authority(&self) -> String {
        match self.address.port() {
            HTTP_PORT => self.address.ip().to_string(),
            _ => self.address.to_string(),
        }
    }

    /// The path and query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What follows the scheme and two slashes.
    fn after_scheme(rest: &str, device: Ipv4Addr) -> Result<Self, UrlFault> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.split_once(':') {
            // RFC 3986 §3.2.3: an empty port is the scheme's own.
            Some((host, "")) => (host, Ok(HTTP_PORT)),
            Some((host, port)) => (host, parse_port(port)),
            None => (authority, Ok(HTTP_PORT)),
        };
        // Also refuses user information: it is no part of an address.
        if host.parse::<Ipv4Addr>() != Ok(device) {
            return Err(UrlFault::OtherHost(device));
        }
        let path = without_fragment(path);
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            address: SocketAddrV4::new(device, port?),
            path: format!("{slash}{path}"),
        })
    }
}

impl fmt::Display for DeviceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

fn check_text(text: &str) -> Result<(), UrlFault> {
    if text.len() > LONGEST_URL {
        return Err(UrlFault::TooLong);
    }
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(UrlFault::NotUrl),
    }
}

fn parse_port(text: &str) -> Result<u16, UrlFault> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_number && port != 0 => Ok(port),
        _ => Err(UrlFault::Port),
    }
}

/// Whether a reference begins with a scheme (RFC 3986 §3.1, §4.2).
fn has_scheme(reference: &str) -> bool {
    let end = reference.find([':', '/', '?', '#']);
    end.is_some_and(|at| reference.as_bytes().get(at) == Some(&b':'))
}

fn without_fragment(text: &str) -> &str {
    text.split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);

    #[test]
    fn urls_of_the_device_are_read() {
        for (url, shown) in [
            (
                "http://192.168.1.1:5000/root.xml",
                "http://192.168.1.1:5000/root.xml",
            ),
            ("HTTP://192.168.1.1/a?b=c#d", "http://192.168.1.1/a?b=c"),
            ("http://192.168.1.1", "http://192.168.1.1/"),
            ("http://192.168.1.1:/", "http://192.168.1.1/"),
            ("http://192.168.1.1:80?a", "http://192.168.1.1/?a"),
            ("http://192.168.1.1#a", "http://192.168.1.1/"),
        ] {
            let read = DeviceUrl::parse(url, DEVICE).map(|url| url.to_string());
            assert_eq!(read.as_deref(), Ok(shown), "{url}");
        }
    }

    #[test]
    fn urls_to_other_hosts_or_of_other_schemes_are_refused() {
        let other = UrlFault::OtherHost(DEVICE);
        let long = format!("http://192.168.1.1/{}", "a".repeat(LONGEST_URL));
        for (url, fault) in [
            ("", UrlFault::NotUrl),
            ("/root.xml", UrlFault::NotUrl),
            ("http:/192.168.1.1/", UrlFault::NotUrl),
            ("http://192.168.1.1/a b", UrlFault::NotUrl),
            ("http://192.168.1.1/\r\nx: y", UrlFault::NotUrl),
            ("http://192.168.1.1/\u{e9}", UrlFault::NotUrl),
            ("https://192.168.1.1/", UrlFault::Scheme),
            ("file:///etc/passwd", UrlFault::Scheme),
            ("http://192.168.1.2/", other),
            ("http://127.0.0.1/", other),
            ("http://router.lan/", other),
            ("http://192.168.1.1.example.com/", other),
            ("http://192.168.1.1@example.com/", other),
            ("http://a@192.168.1.1/", other),
            ("http://192.168.257/", other),
            // The same address for resolvers that read numbers so.
            ("http://3232235777/", other),
            ("http://0300.0250.1.1/", other),
            ("http://192.168.001.001/", other),
            ("http://[::ffff:192.168.1.1]/", other),
            ("http:///root.xml", other),
            ("http://192.168.1.1:0/", UrlFault::Port),
            ("http://192.168.1.1:65536/", UrlFault::Port),
            ("http://192.168.1.1:+80/", UrlFault::Port),
            ("http://192.168.1.1:80:80/", UrlFault::Port),
            (long.as_str(), UrlFault::TooLong),
        ] {
            assert_eq!(DeviceUrl::parse(url, DEVICE), Err(fault), "{url}");
        }
    }

    #[test]
    fn references_are_resolved_as_rfc_3986_section_5_2_has_it() {
        let base = DeviceUrl::parse("http://192.168.1.1:5000/igd/root.xml?v=1", DEVICE).unwrap();
        for (reference, shown) in [
            ("/ctl", "http://192.168.1.1:5000/ctl"),
            ("ctl/IPConn", "http://192.168.1.1:5000/igd/ctl/IPConn"),
            ("?v=2", "http://192.168.1.1:5000/igd/root.xml?v=2"),
            ("#a", "http://192.168.1.1:5000/igd/root.xml?v=1"),
            ("//192.168.1.1:81/a", "http://192.168.1.1:81/a"),
            ("http://192.168.1.1:82/b", "http://192.168.1.1:82/b"),
            ("/a:b", "http://192.168.1.1:5000/a:b"),
            ("a/b:c", "http://192.168.1.1:5000/igd/a/b:c"),
        ] {
            let joined = base.join(reference).map(|url| url.to_string());
            assert_eq!(joined.as_deref(), Ok(shown), "{reference}");
        }
    }

    #[test]
    fn references_never_lead_to_another_host() {
        let base = DeviceUrl::parse("http://192.168.1.1/igd/root.xml", DEVICE).unwrap();
        let other = UrlFault::OtherHost(DEVICE);
        let long = "a".repeat(LONGEST_URL);
        for (reference, fault) in [
            ("", UrlFault::NotUrl),
            ("a\tb", UrlFault::NotUrl),
            ("//example.com/", other),
            ("http://10.0.0.1/", other),
            ("javascript:1", UrlFault::Scheme),
            (long.as_str(), UrlFault::TooLong),
        ] {
            assert_eq!(base.join(reference), Err(fault), "{reference}");
        }
    }
}
