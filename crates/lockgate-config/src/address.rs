//! Addresses as they are written: of listeners, of endpoints.
//!
//! Does not resolve names and does not open sockets. The errors hold no text of the input, because
//! that may come from `${env:…}` and must not be printed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddr {
    /// `":8443"`: that port on every address, IPv4 and IPv6.
    All(u16),
    /// `"127.0.0.1:8443"`, `"[::1]:8443"`; port 0 lets the kernel choose.
    Ip(SocketAddr),
    /// A Unix socket: `"unix:/run/lockgate.sock"`.
    Unix(PathBuf),
}

/// An address to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EndpointAddr {
    /// An IP address: `"10.0.0.1:8080"`, `"[::1]:8080"`.
    Ip(SocketAddr),
    /// A Unix socket: `"unix:/run/app.sock"`.
    Unix(PathBuf),
    /// A name that is resolved while running: `"app.internal:8080"`.
    Name {
        /// A host name of letters, digits, `-`, `_` and dots, at most 253 long.
        host: String,
        /// The port, which is never 0.
        port: u16,
    },
    /// `"srv:_app._tcp.example.internal"`: wherever its SRV records say, looked for while running.
    Srv(String),
}

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressError {
    Empty,
    /// `pool:…`
    Pool,
    /// `srv:…`
    Srv,
    /// `http://…`
    Scheme,
    /// `10.0.0.1:80/path`
    Path,
    /// `/run/app.sock`
    BarePath,
    NoUnixPath,
    UnixTooLong,
    NoPort,
    BadPort,
    /// An IPv6 address without brackets around it.
    Brackets,
    BadHost,
    /// A listener is bound to an address, not to a name.
    NameNotAddress,
    /// An endpoint needs a host before its port.
    NoHost,
}

/// The longest path of a Unix socket on Linux: `sun_path` is 108 bytes with its NUL (unix(7)).
const UNIX_PATH_MAX: usize = 107;

impl AddressError {
    /// The mistake in a few words, without the text.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            AddressError::Empty => "it is empty",
            AddressError::Pool => "a pool stands for all of its endpoints",
            AddressError::Srv => "the records of a service stand under its name, without a port",
            AddressError::Scheme => "this is a URL; an address has no scheme",
            AddressError::Path => "an address has no path",
            AddressError::BarePath => "this is a path",
            AddressError::NoUnixPath => "the path of the socket is missing",
            AddressError::UnixTooLong => "the path of a Unix socket has at most 107 bytes",
            AddressError::NoPort => "the port is missing",
            AddressError::BadPort => "the port is not a number from 0 to 65535 that fits here",
            AddressError::Brackets => "an IPv6 address stands in brackets",
            AddressError::BadHost => "this is neither an IP address nor a host name",
            AddressError::NameNotAddress => "a listener is bound to an IP address, not to a name",
            AddressError::NoHost => "the host before the port is missing",
        }
    }
}

impl ListenAddr {
    /// Parses `":PORT"`, `"ADDR:PORT"`, `"[ADDR]:PORT"` or `"unix:PATH"`.
    pub(crate) fn parse(text: &str) -> Result<ListenAddr, AddressError> {
        match split(text)? {
            Split::Unix(path) => Ok(ListenAddr::Unix(path)),
            Split::HostPort { host: "", port } => Ok(ListenAddr::All(port)),
            Split::HostPort { host, port } => match ip(host)? {
                Some(ip) => Ok(ListenAddr::Ip(SocketAddr::new(ip, port))),
                None => Err(AddressError::NameNotAddress),
            },
        }
    }

    /// Whether both cannot be bound at once.
    pub(crate) fn conflicts(&self, other: &ListenAddr) -> bool {
        match (self, other) {
            (ListenAddr::All(port), ListenAddr::Ip(addr))
            | (ListenAddr::Ip(addr), ListenAddr::All(port)) => {
                *port != 0 && *port == addr.port() && addr.ip().is_unspecified()
            }
            (ListenAddr::All(a), ListenAddr::All(b)) => a == b && *a != 0,
            (ListenAddr::Ip(a), ListenAddr::Ip(b)) => a == b && a.port() != 0,
            (a, b) => a == b,
        }
    }
}

impl EndpointAddr {
    /// Parses `"HOST:PORT"`, `"ADDR:PORT"`, `"[ADDR]:PORT"`, `"unix:PATH"` or `"srv:NAME"`.
    pub(crate) fn parse(text: &str) -> Result<EndpointAddr, AddressError> {
        if let Some(name) = text.strip_prefix("srv:").filter(|name| is_name(name)) {
            return Ok(EndpointAddr::Srv(name.to_owned()));
        }
        match split(text)? {
            Split::Unix(path) => Ok(EndpointAddr::Unix(path)),
            Split::HostPort { host: "", .. } => Err(AddressError::NoHost),
            Split::HostPort { port: 0, .. } => Err(AddressError::BadPort),
            Split::HostPort { host, port } => match ip(host)? {
                Some(ip) => Ok(EndpointAddr::Ip(SocketAddr::new(ip, port))),
                None => Ok(EndpointAddr::Name {
                    host: host.to_owned(),
                    port,
                }),
            },
        }
    }

    /// Why TLS finds no name to verify in it, if it has none.
    pub(crate) fn has_no_name(&self) -> Option<&'static str> {
        match self {
            EndpointAddr::Unix(_) => Some("a Unix socket has no name"),
            // RFC 6186 §6 and its like: the server of the records may name any host.
            EndpointAddr::Srv(_) => Some("the SRV records of a service may name any host"),
            EndpointAddr::Ip(_) | EndpointAddr::Name { .. } => None,
        }
    }
}

enum Split<'a> {
    Unix(PathBuf),
    HostPort { host: &'a str, port: u16 },
}

fn split(text: &str) -> Result<Split<'_>, AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path).map(Split::Unix);
    }
    if text.starts_with("pool:") {
        return Err(AddressError::Pool);
    }
    if text.starts_with("srv:") {
        return Err(AddressError::Srv);
    }
    if text.contains("://") {
        return Err(AddressError::Scheme);
    }
    if text.starts_with(['/', '.', '~']) {
        return Err(AddressError::BarePath);
    }
    if text.contains('/') {
        return Err(AddressError::Path);
    }
    host_and_port(text)
}

fn unix(path: &str) -> Result<PathBuf, AddressError> {
    let path = path.strip_prefix("//").unwrap_or(path);
    match path {
        "" => Err(AddressError::NoUnixPath),
        path if path.contains('\0') => Err(AddressError::BadHost),
        path if path.len() > UNIX_PATH_MAX => Err(AddressError::UnixTooLong),
        path => Ok(PathBuf::from(path)),
    }
}

fn host_and_port(text: &str) -> Result<Split<'_>, AddressError> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(AddressError::Brackets);
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(AddressError::NoPort);
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(AddressError::Brackets);
    }
    if host.starts_with('[') && !host.ends_with(']') {
        return Err(AddressError::NoPort);
    }
    if port.is_empty() {
        return Err(AddressError::NoPort);
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError::BadPort);
    }
    let port = port.parse().map_err(|_| AddressError::BadPort)?;
    Ok(Split::HostPort { host, port })
}

/// `Some` for an address, `None` for a well-formed name.
fn ip(host: &str) -> Result<Option<IpAddr>, AddressError> {
    if let Some(inner) = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        return inner
            .parse::<Ipv6Addr>()
            .map(|ip| Some(IpAddr::V6(ip)))
            .map_err(|_| AddressError::BadHost);
    }
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Ok(Some(IpAddr::V4(ip)));
    }
    if is_name(host) {
        Ok(None)
    } else {
        Err(AddressError::BadHost)
    }
}

/// RFC 1123 §2.1, with `_` as service names in containers use it. A name of digits and dots only
/// would be a mistyped address.
pub(crate) fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let digits = host
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    host.len() <= 253 && !digits && host.split('.').all(label)
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddr::All(port) => write!(f, ":{port}"),
            ListenAddr::Ip(addr) => addr.fmt(f),
            ListenAddr::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for EndpointAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointAddr::Ip(addr) => addr.fmt(f),
            EndpointAddr::Unix(path) => write!(f, "unix:{}", path.display()),
            EndpointAddr::Name { host, port } => write!(f, "{host}:{port}"),
            EndpointAddr::Srv(name) => write!(f, "srv:{name}"),
        }
    }
}

#[cfg(test)]
mod tests;
