//! Addresses of listeners and endpoints.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::address::AddressError;
use crate::codes::Code;
use crate::document::{TomlItem, TomlString, TomlValue};
use crate::foreign_names::later_provider;
use crate::language::TreeChecker;
use crate::model::{EndpointAddr, ListenAddr};
use crate::source::SourceSpan;

use super::{InvalidText, TextLanguage};

/// An IP address, IPv6 perhaps in brackets.
pub(crate) struct Ip;

/// An address to listen on.
pub(crate) struct BindAddress;

/// The path of a Unix socket to listen on, after `unix:`.
pub(crate) struct SocketPath;

/// The address of an endpoint.
pub(crate) struct UpstreamAddress;

/// The address of an endpoint, or `pool:NAME`.
pub(crate) struct PoolOrAddress;

impl TextLanguage for Ip {
    type Value = IpAddr;

    const EXPECTED: &str = "an IP address";

    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        match item.node {
            TomlValue::Integer(Some(port)) => {
                Some(format!("the port stands in the key: [site.\":{port}\"]"))
            }
            _ => None,
        }
    }

    fn parse(&self, text: &TomlString) -> Result<IpAddr, InvalidText> {
        let inner = text
            .value
            .strip_prefix('[')
            .and_then(|value| value.strip_suffix(']'));
        let ip = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => text.value.parse().ok(),
        };
        ip.ok_or_else(|| {
            let why = "a listener is bound to an address; the port stands in the key of the site";
            let cure = "write \"127.0.0.1\" or \"[::1]\"";
            let meant = text.value.parse::<SocketAddr>().ok().map(|addr| {
                let (ip, port) = (addr.ip(), addr.port());
                format!("write \"{ip}\"; the port stands in the key: [site.\":{port}\"]")
            });
            text.invalid(Code::BadAddress, "is not an IP address", why, cure)
                .or_meant(meant)
        })
    }
}

impl TextLanguage for BindAddress {
    type Value = ListenAddr;

    const EXPECTED: &str = "an address to listen on";
    const PATTERN: &str = "^(.*:[0-9]+|unix:.+)$";

    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        at_loopback(item)
    }

    fn parse(&self, text: &TomlString) -> Result<ListenAddr, InvalidText> {
        ListenAddr::parse(&text.value).map_err(|error| {
            let message = "is not an address to listen on";
            text.invalid(Code::BadAddress, message, error.reason(), LISTENERS)
                .or_meant(listener_cure(error, &text.value))
        })
    }

    fn rooted(
        &self,
        addr: ListenAddr,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> ListenAddr {
        match addr {
            ListenAddr::Unix(path) => {
                ListenAddr::Unix(checker.rooted(&text.raw, &path, "unix:", at))
            }
            addr => addr,
        }
    }
}

impl TextLanguage for SocketPath {
    type Value = PathBuf;

    const EXPECTED: &str = "\"unix:PATH\"";
    const PATTERN: &str = "^unix:.+$";

    fn parse(&self, text: &TomlString) -> Result<PathBuf, InvalidText> {
        let message = "is not the address of a Unix socket";
        let cure = "write \"unix:/run/lockgate/admin.sock\"";
        match ListenAddr::parse(&text.value) {
            Ok(ListenAddr::Unix(path)) => Ok(path),
            Ok(_) => {
                let why = "the kernel tells which user is at the other end of a Unix socket only";
                Err(text.invalid(Code::BadAddress, message, why, cure))
            }
            Err(error) => {
                let meant = text
                    .value
                    .starts_with('/')
                    .then(|| format!("write \"unix:{}\"", text.value));
                Err(text
                    .invalid(Code::BadAddress, message, error.reason(), cure)
                    .or_meant(meant))
            }
        }
    }

    fn rooted(
        &self,
        path: PathBuf,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> PathBuf {
        checker.rooted(&text.raw, &path, "unix:", at)
    }
}

impl TextLanguage for UpstreamAddress {
    type Value = EndpointAddr;

    const EXPECTED: &str = "an address";
    const PATTERN: &str = "^(.+:[0-9]+|unix:.+|srv:.+)$";

    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        at_loopback(item)
    }

    fn parse(&self, text: &TomlString) -> Result<EndpointAddr, InvalidText> {
        EndpointAddr::parse(&text.value).map_err(|error| not_an_endpoint(text, error))
    }

    fn rooted(
        &self,
        addr: EndpointAddr,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> EndpointAddr {
        match addr {
            EndpointAddr::Unix(path) => {
                EndpointAddr::Unix(checker.rooted(&text.raw, &path, "unix:", at))
            }
            addr => addr,
        }
    }
}

impl TextLanguage for PoolOrAddress {
    type Value = PoolOrEndpoint;

    const EXPECTED: &str = "an address or \"pool:NAME\"";
    const PATTERN: &str = "^(.+:[0-9]+|unix:.+|srv:.+|pool:.+)$";

    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        at_loopback(item)
    }

    fn parse(&self, text: &TomlString) -> Result<PoolOrEndpoint, InvalidText> {
        match text.value.strip_prefix("pool:") {
            Some(name) if !text.is_secret() => Ok(PoolOrEndpoint::Pool(name.to_owned())),
            _ => UpstreamAddress.parse(text).map(PoolOrEndpoint::Endpoint),
        }
    }

    fn rooted(
        &self,
        to: PoolOrEndpoint,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> PoolOrEndpoint {
        match to {
            PoolOrEndpoint::Endpoint(addr) => {
                PoolOrEndpoint::Endpoint(UpstreamAddress.rooted(addr, text, at, checker))
            }
            to => to,
        }
    }
}

/// The destination of requests or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PoolOrEndpoint {
    /// The pool of this name.
    Pool(String),
    Endpoint(EndpointAddr),
}

fn listener_cure(error: AddressError, value: &str) -> Option<String> {
    let port = value
        .rsplit(':')
        .next()
        .filter(|port| port.parse::<u16>().is_ok());
    Some(match (error, port) {
        (AddressError::NoPort, Some(port)) => format!("write \":{port}\""),
        (AddressError::NoPort, None) => {
            "add the port: \"127.0.0.1:8443\", \"[::1]:8443\"".to_owned()
        }
        (AddressError::BadHost, Some(port)) if value.starts_with("*:") => {
            format!("write \":{port}\" for every address")
        }
        (AddressError::NameNotAddress, Some(port)) if value.starts_with("localhost:") => {
            format!("write \"127.0.0.1:{port}\" or \"[::1]:{port}\"")
        }
        (AddressError::BarePath, _) => format!("write \"unix:{value}\""),
        _ => return None,
    })
}

fn not_an_endpoint(text: &TomlString, error: AddressError) -> InvalidText {
    let value = &*text.value;
    let is_shown = !text.is_secret();
    if let Some((provider, cure)) = later_provider(value).filter(|_| is_shown) {
        let why = "it will come later";
        let message = format!("`{provider}:` is not in this version");
        return InvalidText::new(Code::NotYet, message, why, cure);
    }
    let message = "is not the address of an endpoint";
    if let Some((why, cure)) = endpoint_with_more(value).filter(|_| is_shown) {
        return text.invalid(Code::BadAddress, message, why, cure);
    }
    let cure = format!(
        "write {}: \"127.0.0.1:3000\" or \"unix:/run/app.sock\"",
        UpstreamAddress.expected()
    );
    text.invalid(Code::BadAddress, message, error.reason(), cure)
        .or_meant(endpoint_cure(error, value))
}

/// A port alone is one of this machine.
fn at_loopback(item: &TomlItem) -> Option<String> {
    match item.node {
        TomlValue::Integer(Some(port)) => Some(format!("write \"127.0.0.1:{port}\"")),
        _ => None,
    }
}

const LISTENERS: &str =
    "write \":8443\", \"127.0.0.1:8443\", \"[::1]:8443\" or \"unix:/run/lockgate.sock\"";

/// Several addresses in one text, or one with the options of other servers behind it.
fn endpoint_with_more(value: &str) -> Option<(&'static str, String)> {
    let mut parts = value.split([',', ' ', ';']).filter(|part| !part.is_empty());
    let first = parts
        .next()
        .filter(|first| EndpointAddr::parse(first).is_ok())?;
    let others: Vec<&str> = parts.collect();
    if others.is_empty() {
        return None;
    }
    if others
        .iter()
        .all(|other| EndpointAddr::parse(other).is_ok())
    {
        let all = std::iter::once(first)
            .chain(others)
            .map(|one| format!("{one:?}"));
        let cure = format!(
            "write each in quotes of its own: [{}]",
            all.collect::<Vec<_>>().join(", ")
        );
        return Some(("these are several addresses", cure));
    }
    let weight = others
        .iter()
        .find_map(|other| other.strip_prefix("weight=")?.parse::<u16>().ok());
    let weight = weight.map_or_else(String::new, |weight| format!(", weight = {weight}"));
    let backup = if others.contains(&"backup") {
        ", backup = true"
    } else {
        ""
    };
    Some((
        "the address is followed by something else",
        format!("write {{ addr = {first:?}{weight}{backup} }}"),
    ))
}

fn endpoint_cure(error: AddressError, value: &str) -> Option<String> {
    Some(match error {
        AddressError::Pool => "name it alone: proxy = \"pool:app\"".to_owned(),
        AddressError::Srv => "write \"srv:_app._tcp.example.internal\"".to_owned(),
        AddressError::Scheme => return url_cure(value),
        AddressError::Path => {
            let host = value.split('/').next().unwrap_or_default();
            format!("write \"{host}\", without the path")
        }
        AddressError::BarePath => format!("for a Unix socket write \"unix:{value}\""),
        AddressError::NoHost => format!("write \"127.0.0.1{value}\""),
        AddressError::NoPort if value.parse::<u16>().is_ok() => {
            format!("write \"127.0.0.1:{value}\"")
        }
        AddressError::NoPort if value.starts_with("pool.") => {
            format!("write \"{}\"", value.replacen('.', ":", 1))
        }
        AddressError::NoPort if !value.contains('.') => {
            format!(
                "add the port: \"{value}:3000\"; of [pool.{value}] the address is \"pool:{value}\""
            )
        }
        AddressError::NoPort => format!("add the port: \"{value}:3000\""),
        _ => return None,
    })
}

/// The table or address for a URL.
fn url_cure(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    let to = |port| match host.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:{port}"),
    };
    Some(match scheme {
        "https" | "tls" => format!("write {{ to = \"{}\", tls = {{}} }}", to(443)),
        "h2c" | "grpc" => format!("write {{ to = \"{}\", protocol = \"h2c\" }}", to(80)),
        "h2" | "grpcs" => {
            format!(
                "write {{ to = \"{}\", protocol = \"h2\", tls = {{}} }}",
                to(443)
            )
        }
        "unix" => return None,
        _ if !host.contains(['.', ':']) => {
            format!("write \"{host}:80\"; of [pool.{host}] the address is \"pool:{host}\"")
        }
        _ => format!("write \"{}\"", to(80)),
    })
}
