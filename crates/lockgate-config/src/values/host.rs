//! Host names, and what to write instead of a host that cannot be read.

use std::net::IpAddr;

use lockgate_rules::HostPattern;

use crate::address::is_name;
use crate::codes::Code;
use crate::document::TomlString;
use crate::host::{HostError, parse_host};

use super::{InvalidText, TextLanguage};

/// A DNS name or an IP address.
pub(crate) struct HostName;

/// The host of a site, without a port.
pub(crate) struct SiteHost;

impl TextLanguage for HostName {
    type Value = String;

    const EXPECTED: &str = "a host name";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        if is_name(&text.value) || text.value.parse::<IpAddr>().is_ok() {
            return Ok(text.value.clone());
        }
        let why = "a name has letters, digits, `-` and dots, and no port";
        let cure = "for example \"app.internal\"";
        Err(text.invalid(Code::BadText, "is not a host name", why, cure))
    }
}

impl TextLanguage for SiteHost {
    type Value = HostPattern;

    const EXPECTED: &str = "a host";

    fn parse(&self, text: &TomlString) -> Result<HostPattern, InvalidText> {
        parse_host(&text.value).map_err(|error| not_a_host(text, error, "is not a host"))
    }
}

/// A host that cannot be read.
pub(super) fn not_a_host(text: &TomlString, error: HostError, message: &str) -> InvalidText {
    let cure = "write \"example.com\", \"*.example.com\", \"example.com:8443\" or \":8080\"";
    text.invalid(Code::BadHost, message, error.reason(), cure)
        .or_meant(host_cure(error, &text.value))
}

fn host_cure(error: HostError, value: &str) -> Option<String> {
    if let (Some((first, rest)), HostError::BadName) = (value.split_once([',', ' ']), error) {
        let rest = rest.trim_matches([',', ' ']);
        return Some(format!(
            "write {first:?}, and alias = [{rest:?}] in the table"
        ));
    }
    if value.parse::<u16>().is_ok() {
        return Some(format!("write \":{value}\""));
    }
    let port = || {
        value
            .rsplit(':')
            .next()
            .filter(|port| port.parse::<u16>().is_ok())
    };
    Some(match error {
        HostError::Scheme => {
            let (scheme, rest) = value.split_once("://").unwrap_or_default();
            let host = rest.split('/').next().unwrap_or_default();
            match scheme {
                "http" if !host.contains(':') => {
                    format!("write \"{host}\" with tls = false, or \"{host}:80\"")
                }
                _ => format!("write \"{host}\""),
            }
        }
        HostError::Path => {
            let (host, path) = value.split_once('/').unwrap_or_default();
            format!("write [site.\"{host}\".path.\"/{path}\"]")
        }
        HostError::NotAscii => {
            "write its xn-- form (Punycode), such as \"xn--bcher-kva.example\"".to_owned()
        }
        HostError::Star => match port() {
            Some(port) => format!("write \":{port}\""),
            None => "write \":443\" with tls, or \":80\"".to_owned(),
        },
        HostError::Brackets => "write \"[2001:db8::1]\" or \"[2001:db8::1]:8080\"".to_owned(),
        HostError::Port => {
            let host = value.rsplit_once(':').map_or(value, |(host, _)| host);
            format!("write \"{host}\", or a site of its own with that port")
        }
        HostError::InnerStar => "write \"*.example.com\", or each name".to_owned(),
        _ => return None,
    })
}
