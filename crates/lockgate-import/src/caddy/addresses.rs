//! The addresses of sites.

use super::options::CaddyOptions;
use lockgate_rules::public_refusal;

/// An address of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CaddyAddress {
    /// The host; none for every host.
    pub(super) host: Option<String>,
    /// The port, if it is not the implied one.
    pub(super) port: Option<u16>,
    /// Whether it is served over TLS.
    pub(super) secure: bool,
    /// What differs.
    pub(super) differs: Option<String>,
}

/// Zones for which Caddy takes its own authority.
const OWN_ZONES: [&str; 4] = ["localhost", "local", "internal", "home.arpa"];

fn is_in(host: &str, zones: &[&str]) -> bool {
    zones.iter().any(|zone| {
        host.strip_suffix(zone)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

impl CaddyAddress {
    /// Whether no public authority certifies the host.
    pub(super) fn is_private(&self) -> bool {
        let host = self.host.as_deref();
        host.is_none_or(|host| public_refusal(host).is_some())
    }

    /// Whether Caddy's own authority certifies the host.
    pub(super) fn is_own(&self) -> bool {
        self.host.as_deref().is_some_and(|host| {
            let is_address = host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok();
            is_address || is_in(host, &OWN_ZONES)
        })
    }
}

/// Reads an address.
///
/// # Errors
/// Why it has no counterpart.
pub(super) fn parse(
    word: &str,
    has_tls: bool,
    options: &CaddyOptions,
) -> Result<CaddyAddress, String> {
    let mut differs = None;
    let mut text = String::new();
    let mut rest = word;
    // The names of sites are keys, and keys have no variables.
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        let variable = name
            .strip_prefix('$')
            .or_else(|| name.strip_prefix("env."))
            .ok_or_else(|| format!("`{{{name}}}` cannot stand in the name of a site"))?;
        rest = after;
        match variable.split_once(':') {
            Some((name, default)) => {
                text.push_str(default);
                differs = Some(format!(
                    "the name of a site cannot come from the environment: `{default}` stands for {name} here"
                ));
            }
            None => {
                let is_port = text.ends_with(':') && !text.ends_with("//:") || text == ":";
                let stand_in = match is_port {
                    true => "8080".to_owned(),
                    false if after.is_empty() || after.starts_with(':') => {
                        format!("{}.example.com", variable.to_lowercase().replace('_', "-"))
                    }
                    false => variable.to_lowercase().replace('_', "-"),
                };
                text.push_str(&stand_in);
                let because = format!("write the value of {variable} in place of `{stand_in}`");
                differs = Some(match differs {
                    Some(before) => format!("{before}; {because}"),
                    None => {
                        format!("the name of a site cannot come from the environment: {because}")
                    }
                });
            }
        }
    }
    text.push_str(rest);
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (Some(scheme == "https"), rest.to_owned()),
        Some((scheme, _)) => return Err(format!("`{scheme}` is no scheme of a site")),
        None => (None, text.clone()),
    };
    let rest = match rest.split_once('/') {
        Some((host, "")) => host.to_owned(),
        Some(_) => return Err("Caddy 2 takes no path in the address of a site".to_owned()),
        None => rest,
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let port = match port.parse::<u16>() {
                Ok(port) => port,
                Err(_) => return Err(format!("`{word}` has no port that is a number")),
            };
            (host, Some(port))
        }
        _ => (rest.as_str(), None),
    };
    let mut host = host.to_lowercase();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.*:[]".contains(c);
    if !host.chars().all(allowed) {
        if !host.is_ascii() {
            return Err(
                "clients send this name in its ASCII form (`xn--…`): write that".to_owned(),
            );
        }
        host.retain(allowed);
        differs = Some(format!(
            "`{word}` is no name of a host: write the real one in place of `{host}`"
        ));
    }
    if differs.is_some() && !host.is_empty() && !host.contains('.') && host != "localhost" {
        let was = host.clone();
        host.push_str(".example.com");
        differs = differs.map(|text| text.replace(&format!("of `{was}`"), &format!("of `{host}`")));
    }
    if host == "*" {
        host.clear();
    }
    let star = host.trim_start_matches("*.").contains('*');
    if star || host.starts_with('.') || host.contains("..") {
        return Err("a `*` stands for the first label of a name alone".to_owned());
    }
    let host = (!host.is_empty()).then_some(host);
    let secure = match (scheme, port) {
        (Some(secure), _) => secure,
        (None, Some(port)) if port == options.http_port => false,
        (None, Some(port)) if port == options.https_port => true,
        (None, Some(_)) => has_tls || (host.is_some() && !options.auto_https_off),
        (None, None) => host.is_some(),
    };
    let implied = if secure {
        options.https_port
    } else {
        options.http_port
    };
    let port = match (host.is_some(), secure, port) {
        (true, true, None) => None,
        (true, true, Some(port)) if port == implied => None,
        (_, _, port) => Some(port.unwrap_or(implied)),
    };
    if differs.is_none() && host.is_some() && secure && port.is_some() && !options.auto_https_off {
        differs = Some(
            "Lockgate redirects no other port to one that is named, and Caddy redirects port 80"
                .to_owned(),
        );
    }
    Ok(CaddyAddress {
        host,
        port,
        secure,
        differs,
    })
}
