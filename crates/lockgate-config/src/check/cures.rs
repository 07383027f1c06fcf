//! What to write instead of a host or a path that cannot be read.

use crate::host::{Host, HostError};
use crate::pattern::PatternError;

/// Why a host is none, where every one is meant.
pub(super) fn means_every(host: &Host) -> Option<&'static str> {
    let Host::Exact(host) = host else { return None };
    match &**host {
        "0.0.0.0" | "[::]" => {
            Some("no client asks for this host: every one is meant by a port alone")
        }
        "_" | "_default_" | "default" | "default_server" => {
            Some("every host is meant by a port alone")
        }
        _ => None,
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

pub(super) fn path_cure(error: PatternError, name: &str) -> String {
    match error {
        PatternError::NoSlash if !name.contains([' ', '*', '^', '~']) => {
            format!("write \"/{name}\"")
        }
        _ if name.starts_with(['^', '~']) || name.contains(['\\', '(', '$']) => {
            let plain = name.trim_start_matches(['^', '~', '*', ' ']);
            let end =
                plain.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '/' | '-' | '_'));
            let prefix = plain
                .get(..end.unwrap_or(plain.len()))
                .unwrap_or_default()
                .trim_end_matches('/');
            if !prefix.starts_with('/') && name.contains("\\.") {
                return "regular expressions are not read, and a path is matched from its beginning, not by its ending: write the folder, \"/images/*\""
                    .to_owned();
            }
            let prefix = if prefix.starts_with('/') {
                prefix
            } else {
                "/x"
            };
            format!("regular expressions are not read: write \"{prefix}/*\" for all that is below")
        }
        PatternError::NoSlash if name.starts_with('*') => {
            "a path is matched from its beginning, not by its ending: write \"/x/*\"".to_owned()
        }
        _ if name.ends_with("/**") => format!("write {:?}", name.replace("/**", "/*")),
        PatternError::LowerMethod => {
            let (method, path) = name.split_once(' ').unwrap_or_default();
            format!(
                "write \"{} {}\"",
                method.to_ascii_uppercase(),
                path.trim_start()
            )
        }
        PatternError::Percent => "write the character itself".to_owned(),
        PatternError::Query => {
            format!(
                "write \"{}\"",
                name.split(['?', '#']).next().unwrap_or_default()
            )
        }
        PatternError::Reserved | PatternError::SameParam => {
            "give the parameter another name".to_owned()
        }
        _ => "write \"/x\", \"/x/*\", \"/x/{id}/y\" or \"POST /x\"".to_owned(),
    }
}
