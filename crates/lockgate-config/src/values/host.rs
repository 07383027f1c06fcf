//! Names of hosts.

use std::net::IpAddr;

use lockgate_rules::HostPattern;

use crate::address::is_name;
use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::host::{HostError, parse_host};
use crate::place::At;

use super::TextLanguage;

/// A DNS name or an IP address.
pub(crate) struct HostName;

/// The host of a site, without a port.
pub(crate) struct SiteHost;

impl TextLanguage for HostName {
    type Value = String;

    const EXPECTED: &str = "a host name";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        if is_name(&text.value) || text.value.parse::<IpAddr>().is_ok() {
            return Some(text.value.clone());
        }
        let message = format!("{:?} is not a host name", text.raw);
        let why = "a name has letters, digits, `-` and dots, and no port";
        checker.invalid(
            Code::BadText,
            at,
            message,
            why,
            "for example \"app.internal\"",
        )
    }
}

impl TextLanguage for SiteHost {
    type Value = HostPattern;

    const EXPECTED: &str = "a host";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<HostPattern> {
        let error = match parse_host(&text.value) {
            Ok(host) => return Some(host),
            Err(error) => error,
        };
        let message = format!("{:?} is not a host", text.raw);
        let cure = host_cure(
            error,
            if text.is_secret() {
                None
            } else {
                Some(&text.value)
            },
        );
        checker
            .report
            .push_at(Code::BadHost, at, message, error.reason(), cure);
        None
    }
}

/// What to write instead; `value` only when it may be shown.
pub(super) fn host_cure(error: HostError, value: Option<&str>) -> String {
    let general =
        "write \"example.com\", \"*.example.com\", \"example.com:8443\" or \":8080\"".to_owned();
    let Some(value) = value else { return general };
    if let (Some((first, rest)), HostError::BadName) = (value.split_once([',', ' ']), error) {
        return format!(
            "write {first:?}, and alias = [{:?}] in the table",
            rest.trim_matches([',', ' '])
        );
    }
    if value.parse::<u16>().is_ok() {
        return format!("write \":{value}\"");
    }
    let port = || {
        value
            .rsplit(':')
            .next()
            .filter(|port| port.parse::<u16>().is_ok())
    };
    match error {
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
        _ => general,
    }
}
