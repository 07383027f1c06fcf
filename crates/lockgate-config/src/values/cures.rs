//! Cures for hosts and paths that cannot be read.

use lockgate_rules::{HostPattern, PatternError};

/// Why a host is invalid in a place for every host.
pub(crate) fn means_every(host: &HostPattern) -> Option<&'static str> {
    let HostPattern::Exact(host) = host else {
        return None;
    };
    match &**host {
        "0.0.0.0" | "[::]" => {
            Some("no client asks for this host: a port alone stands for every host")
        }
        "_" | "_default_" | "default" | "default_server" => {
            Some("a port alone stands for every host")
        }
        _ => None,
    }
}

pub(crate) fn path_cure(error: PatternError, name: &str) -> String {
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
