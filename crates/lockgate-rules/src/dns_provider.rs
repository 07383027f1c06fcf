//! Settings of the TXT records that prove names (RFC 8555 §8.4): who writes them, and how it is seen
//! that they are there. Asks no server.

mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub use table::{DNS_PROVIDERS, DnsProviderKind, DnsProviderParam};

/// The longest time that records may be waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The time that records are waited for where nothing else is said.
const WAIT: Duration = Duration::from_secs(120);
/// The port of name servers.
const PORT: u16 = 53;

/// The parameters that every provider has, with what they mean.
pub const DNS_COMMON_PARAMS: [DnsProviderParam; 5] = [
    DnsProviderParam::optional("ttl", "seconds that resolvers may keep the record"),
    DnsProviderParam::optional(
        "zone",
        "the zone of the record, where its SOA record cannot be asked for",
    ),
    DnsProviderParam::optional(
        "propagation_timeout",
        "how long all servers may take to show the record, as 2m; 120s if it is left out",
    ),
    DnsProviderParam::optional(
        "propagation_check",
        "the servers that must show the record: authoritative, resolvers, or none",
    ),
    DnsProviderParam::optional(
        "resolvers",
        "name servers to ask, instead of those of the system",
    ),
];

/// Who writes the records, and how.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DnsProvider {
    /// The provider, one of [`DNS_PROVIDERS`].
    pub kind: &'static DnsProviderKind,
    /// The TTL of records, in seconds.
    pub ttl: u32,
    /// The zone, in lower case and without a final dot; `None` finds it by its SOA record.
    pub zone: Option<String>,
    /// How long records are waited for.
    pub propagation_timeout: Duration,
    /// The servers that must show a record.
    pub propagation_check: PropagationCheck,
    /// The name servers that are asked; empty for those of the system.
    pub resolvers: Vec<SocketAddr>,
    params: BTreeMap<&'static str, DnsParam>,
}

/// The servers that must show a record before the authority is told to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PropagationCheck {
    /// All authoritative servers of the zone.
    Authoritative,
    /// All resolvers: where the authoritative servers cannot be reached.
    Resolvers,
    /// None: where no name server can be asked.
    None,
}

/// The value of a parameter. `Debug` does not show it: it may be a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum DnsParam {
    /// A text.
    Text(String),
    /// Texts: a command with its arguments, or name servers.
    List(Vec<String>),
}

/// A mistake in the settings of a provider. No text holds the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsProviderError {
    /// No provider has this name; with the most similar one.
    #[error("no DNS provider is called {name:?}{}", meant(suggestion.as_deref()))]
    UnknownProvider {
        /// The name that was written.
        name: String,
        /// The name that may have been meant.
        suggestion: Option<String>,
    },
    /// The provider has no such parameter; with the most similar one.
    #[error(
        "{provider} has no parameter {param:?}{}; it has {}",
        meant(suggestion.as_deref()),
        known.join(", ")
    )]
    UnknownParam {
        /// The provider.
        provider: &'static str,
        /// The name that was written.
        param: String,
        /// The name that may have been meant.
        suggestion: Option<String>,
        /// The provider's own parameters.
        known: Vec<&'static str>,
    },
    /// Required parameters are missing.
    #[error("{provider} needs {}", described(missing))]
    Missing {
        /// The provider.
        provider: &'static str,
        /// The parameters.
        missing: Vec<DnsProviderParam>,
    },
    /// One of several parameters is required.
    #[error("{provider} needs one of {}", alternatives.join(", "))]
    MissingOneOf {
        /// The provider.
        provider: &'static str,
        /// The parameters.
        alternatives: &'static [&'static str],
    },
    /// A value cannot be what the parameter is for.
    #[error("{param}: {expected}")]
    Invalid {
        /// The parameter.
        param: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

impl DnsProvider {
    /// The settings that were written: the provider's name, and all other keys beside it.
    ///
    /// # Errors
    /// Unknown names, missing parameters, and values that cannot be.
    pub fn parse(
        provider: &str,
        mut params: BTreeMap<String, DnsParam>,
    ) -> Result<Self, DnsProviderError> {
        let Some(kind) = DNS_PROVIDERS.iter().find(|kind| kind.is_called(provider)) else {
            return Err(DnsProviderError::UnknownProvider {
                name: provider.to_owned(),
                suggestion: table::similar_provider(provider).map(str::to_owned),
            });
        };
        let ttl = take_text(&mut params, "ttl")?;
        let zone = take_text(&mut params, "zone")?;
        let timeout = take_text(&mut params, "propagation_timeout")?;
        let check = take_text(&mut params, "propagation_check")?;
        let resolvers = params.remove("resolvers");
        let own = kind.own_params(params)?;
        let provider = Self {
            kind,
            ttl: ttl.map_or(Ok(kind.ttl), |text| parse_ttl(&text))?,
            zone: zone.map(|text| parse_zone(&text)).transpose()?,
            propagation_timeout: timeout.map_or(Ok(WAIT), |text| parse_wait(&text))?,
            propagation_check: check.map_or(Ok(PropagationCheck::Authoritative), |text| {
                parse_check(&text)
            })?,
            resolvers: resolvers.map_or(Ok(Vec::new()), |servers| parse_servers(&servers))?,
            params: own,
        };
        Ok(provider)
    }

    /// The text of a parameter; of a list, its first item.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.params.get(name)? {
            DnsParam::Text(text) => Some(text),
            DnsParam::List(texts) => texts.first().map(String::as_str),
        }
    }

    /// The texts of a parameter; a single text is a list of one, and what is missing an empty one.
    pub fn list(&self, name: &str) -> &[String] {
        match self.params.get(name) {
            None => &[],
            Some(DnsParam::Text(text)) => std::slice::from_ref(text),
            Some(DnsParam::List(texts)) => texts,
        }
    }
}

impl DnsProviderKind {
    /// The parameters of the provider itself: known, complete, and none of them empty.
    fn own_params(
        &self,
        written: BTreeMap<String, DnsParam>,
    ) -> Result<BTreeMap<&'static str, DnsParam>, DnsProviderError> {
        let mut own = BTreeMap::new();
        for (name, value) in written {
            let Some(param) = self.params.iter().find(|param| param.name == name) else {
                return Err(DnsProviderError::UnknownParam {
                    provider: self.name,
                    suggestion: table::similar_param(self, &name).map(str::to_owned),
                    param: name,
                    known: self.params.iter().map(|param| param.name).collect(),
                });
            };
            let texts = match &value {
                DnsParam::Text(text) => std::slice::from_ref(text),
                DnsParam::List(_) if !param.is_list => {
                    return Err(invalid(param.name, "this is one text"));
                }
                DnsParam::List(texts) => texts,
            };
            if texts.first().is_none_or(|text| text.trim().is_empty()) {
                return Err(invalid(param.name, "the value is empty"));
            }
            own.insert(param.name, value);
        }
        let missing = self.params.iter().filter(|param| param.is_required);
        let missing: Vec<_> = missing
            .filter(|param| !own.contains_key(param.name))
            .copied()
            .collect();
        if !missing.is_empty() {
            return Err(DnsProviderError::Missing {
                provider: self.name,
                missing,
            });
        }
        if !self.one_of.is_empty() && !self.one_of.iter().any(|name| own.contains_key(name)) {
            return Err(DnsProviderError::MissingOneOf {
                provider: self.name,
                alternatives: self.one_of,
            });
        }
        Ok(own)
    }
}

fn take_text(
    params: &mut BTreeMap<String, DnsParam>,
    name: &'static str,
) -> Result<Option<String>, DnsProviderError> {
    match params.remove(name) {
        None => Ok(None),
        Some(DnsParam::Text(text)) => Ok(Some(text)),
        Some(DnsParam::List(_)) => Err(invalid(name, "this is one text")),
    }
}

fn parse_ttl(text: &str) -> Result<u32, DnsProviderError> {
    let ttl = text.parse().ok().filter(|ttl| (1..=86_400).contains(ttl));
    ttl.ok_or(invalid("ttl", "a number of seconds from 1 to 86400"))
}

/// A domain name, as RFC 1035 §2.3.4 bounds it.
fn parse_zone(text: &str) -> Result<String, DnsProviderError> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return Err(invalid("zone", "a domain name, as example.com"));
    }
    Ok(name.to_ascii_lowercase())
}

fn parse_wait(text: &str) -> Result<Duration, DnsProviderError> {
    let error = invalid(
        "propagation_timeout",
        "a time of at most 1h, as 90s, 2m or 1h",
    );
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.strip_prefix(digits) {
        Some("ms") => 1,
        Some("s") => 1000,
        Some("m") => 60_000,
        Some("h") => 3_600_000,
        _ => return Err(error),
    };
    let number = digits.parse::<u32>().map_err(|_| error.clone())?;
    let wait = Duration::from_millis(u64::from(number) * unit);
    if wait.is_zero() || wait > LONGEST_WAIT {
        return Err(error);
    }
    Ok(wait)
}

fn parse_check(text: &str) -> Result<PropagationCheck, DnsProviderError> {
    match text {
        "authoritative" => Ok(PropagationCheck::Authoritative),
        "resolvers" => Ok(PropagationCheck::Resolvers),
        "none" => Ok(PropagationCheck::None),
        _ => Err(invalid(
            "propagation_check",
            "one of authoritative, resolvers, none",
        )),
    }
}

fn parse_servers(servers: &DnsParam) -> Result<Vec<SocketAddr>, DnsProviderError> {
    let texts = match servers {
        DnsParam::Text(text) => std::slice::from_ref(text),
        DnsParam::List(texts) => texts,
    };
    let parsed = texts.iter().map(|text| {
        let with_port = text.parse().ok();
        let plain = || Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, PORT));
        with_port.or_else(plain).ok_or(invalid(
            "resolvers",
            "addresses of name servers, as 10.0.0.53 or [fd00::53]:53",
        ))
    });
    parsed.collect()
}

fn invalid(param: &'static str, expected: &'static str) -> DnsProviderError {
    DnsProviderError::Invalid { param, expected }
}

fn meant(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(" (did you mean {name:?}?)"))
}

fn described(params: &[DnsProviderParam]) -> String {
    let each = params
        .iter()
        .map(|param| format!("{} ({})", param.name, param.meaning));
    each.collect::<Vec<_>>().join(", ")
}

impl From<&str> for DnsParam {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Debug for DnsParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DnsParam(…)")
    }
}

impl fmt::Debug for DnsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DnsProvider")
            .field("name", &self.kind.name)
            .field("ttl", &self.ttl)
            .field("zone", &self.zone)
            .field("propagation_timeout", &self.propagation_timeout)
            .field("propagation_check", &self.propagation_check)
            .field("resolvers", &self.resolvers)
            .field("params", &self.params)
            .finish()
    }
}

#[cfg(test)]
mod tests;
