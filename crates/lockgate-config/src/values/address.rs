//! Addresses of listeners and endpoints.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::address::AddressError;
use crate::check::Checker;
use crate::codes::Code;
use crate::document::{Item, Node, Text};
use crate::model::{EndpointAddr, ListenAddr};
use crate::newcomers;
use crate::place::At;

use super::TextLanguage;

/// An IP address, IPv6 perhaps in brackets.
pub(crate) struct Ip;

/// An address to listen on.
pub(crate) struct Listener;

/// The address of an endpoint.
pub(crate) struct Endpoint;

/// An endpoint, or `pool:NAME`.
pub(crate) struct Target;

impl TextLanguage for Ip {
    type Value = IpAddr;

    const EXPECTED: &str = "an IP address";

    fn instead(&self, item: &Item) -> Option<String> {
        match item.node {
            Node::Integer(Some(port)) => {
                Some(format!("the port stands in the key: [site.\":{port}\"]"))
            }
            _ => None,
        }
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<IpAddr> {
        let inner = text
            .value
            .strip_prefix('[')
            .and_then(|value| value.strip_suffix(']'));
        let ip = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => text.value.parse().ok(),
        };
        if let Some(ip) = ip {
            return Some(ip);
        }
        let message = format!("{:?} is not an IP address", text.raw);
        let why = "a listener is bound to an address; the port stands in the key of the site";
        let cure = match text.value.parse::<SocketAddr>() {
            Ok(addr) if !text.is_secret() => {
                format!(
                    "write \"{}\"; the port stands in the key: [site.\":{}\"]",
                    addr.ip(),
                    addr.port()
                )
            }
            _ => "write \"127.0.0.1\" or \"[::1]\"".to_owned(),
        };
        checker.invalid(Code::BadAddress, at, message, why, cure)
    }
}

impl TextLanguage for Listener {
    type Value = ListenAddr;

    const EXPECTED: &str = "an address to listen on";
    const PATTERN: &str = "^(.*:[0-9]+|unix:.+)$";

    fn instead(&self, item: &Item) -> Option<String> {
        at_loopback(item)
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<ListenAddr> {
        listener(text, at, checker)
    }
}

impl TextLanguage for Endpoint {
    type Value = EndpointAddr;

    const EXPECTED: &str = "an address";
    const PATTERN: &str = "^(.+:[0-9]+|unix:.+|srv:.+)$";

    fn instead(&self, item: &Item) -> Option<String> {
        at_loopback(item)
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<EndpointAddr> {
        endpoint(text, at, checker)
    }
}

impl TextLanguage for Target {
    type Value = Upstream;

    const EXPECTED: &str = "an address or \"pool:NAME\"";
    const PATTERN: &str = "^(.+:[0-9]+|unix:.+|srv:.+|pool:.+)$";

    fn instead(&self, item: &Item) -> Option<String> {
        at_loopback(item)
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<Upstream> {
        match text.value.strip_prefix("pool:") {
            Some(name) if !text.is_secret() => Some(Upstream::Pool(name.to_owned())),
            _ => endpoint(text, at, checker).map(Upstream::Endpoint),
        }
    }
}

/// Where requests or bytes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// The pool of this name.
    Pool(String),
    Endpoint(EndpointAddr),
}

/// Reads the address of a listener.
pub(crate) fn listener(text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<ListenAddr> {
    let error = match ListenAddr::parse(&text.value) {
        Ok(ListenAddr::Unix(path)) => {
            return Some(ListenAddr::Unix(
                checker.rooted(&text.raw, &path, "unix:", at),
            ));
        }
        Ok(addr) => return Some(addr),
        Err(error) => error,
    };
    let value = &*text.value;
    let port = value
        .rsplit(':')
        .next()
        .filter(|port| port.parse::<u16>().is_ok());
    let cure = match (error, port) {
        _ if text.is_secret() => LISTENERS.to_owned(),
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
        _ => LISTENERS.to_owned(),
    };
    let message = format!("{:?} is not an address to listen on", text.raw);
    checker
        .report
        .push_at(Code::BadAddress, at, message, error.reason(), cure);
    None
}

fn endpoint(text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<EndpointAddr> {
    let error = match EndpointAddr::parse(&text.value) {
        Ok(EndpointAddr::Unix(path)) => {
            return Some(EndpointAddr::Unix(
                checker.rooted(&text.raw, &path, "unix:", at),
            ));
        }
        Ok(addr) => return Some(addr),
        Err(error) => error,
    };
    if let (Some((provider, cure)), false) =
        (newcomers::later_provider(&text.value), text.is_secret())
    {
        let message = format!("`{provider}:` is not in this version");
        return checker.invalid(
            Code::NotYet,
            at,
            message,
            "it will come later",
            cure.to_owned(),
        );
    }
    let message = format!("{:?} is not the address of an endpoint", text.raw);
    if let Some((why, cure)) = endpoint_with_more(&text.value).filter(|_| !text.is_secret()) {
        return checker.invalid(Code::BadAddress, at, message, why, cure);
    }
    let cure = endpoint_cure(
        error,
        if text.is_secret() {
            None
        } else {
            Some(&text.value)
        },
    );
    checker.invalid(Code::BadAddress, at, message, error.reason(), cure)
}

/// A port alone is one of this machine.
fn at_loopback(item: &Item) -> Option<String> {
    match item.node {
        Node::Integer(Some(port)) => Some(format!("write \"127.0.0.1:{port}\"")),
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
        "behind the address stands something else",
        format!("write {{ addr = {first:?}{weight}{backup} }}"),
    ))
}

/// What to write instead; `value` only when it may be shown.
fn endpoint_cure(error: AddressError, value: Option<&str>) -> String {
    let general = format!(
        "write {}: \"127.0.0.1:3000\" or \"unix:/run/app.sock\"",
        Endpoint.expected()
    );
    let Some(value) = value else { return general };
    match error {
        AddressError::Pool => "name it alone: proxy = \"pool:app\"".to_owned(),
        AddressError::Srv => "write \"srv:_app._tcp.example.internal\"".to_owned(),
        AddressError::Scheme => {
            let (scheme, rest) = value.split_once("://").unwrap_or_default();
            let host = rest.split('/').next().unwrap_or_default();
            match scheme {
                "https" | "tls" => {
                    format!("write {{ to = \"{}\", tls = {{}} }}", with_port(host, 443))
                }
                "h2c" | "grpc" => format!(
                    "write {{ to = \"{}\", protocol = \"h2c\" }}",
                    with_port(host, 80)
                ),
                "h2" | "grpcs" => {
                    format!(
                        "write {{ to = \"{}\", protocol = \"h2\", tls = {{}} }}",
                        with_port(host, 443)
                    )
                }
                "unix" => general,
                _ if !host.contains(['.', ':']) => {
                    format!("write \"{host}:80\"; of [pool.{host}] the address is \"pool:{host}\"")
                }
                _ => format!("write \"{}\"", with_port(host, 80)),
            }
        }
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
        _ => general,
    }
}

fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}
