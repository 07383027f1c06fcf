//! Why a record was not written, set, seen or removed.

use std::time::Duration;

use hickory_proto::rr::Name;

/// The reason why a record was not written, seen or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// A setting of the provider is unusable.
    #[error("the settings of `{provider}`: {why}")]
    Settings {
        /// The provider.
        provider: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The name is none that a record can have.
    #[error("`{0}` is no name of DNS")]
    BadName(String),
    /// No name server answers a query.
    #[error("no name server answers for {question}: {why}")]
    Unanswered {
        /// The name and the kind of the record.
        question: String,
        /// Each server and what it said.
        why: String,
    },
    /// An alias leads back to itself.
    #[error("the alias {0} leads to itself")]
    AliasLoop(String),
    /// More aliases follow each other than are followed.
    #[error("more than {0} aliases follow each other")]
    TooManyAliases(usize),
    /// No zone holds the name.
    #[error("no zone holds {0}")]
    NoZone(String),
    /// The name is not an alias, but the provider writes only into a zone of its own.
    #[error("{0} has no CNAME: it must be an alias of the name that acme-dns has given")]
    NoAlias(String),
    /// The name is an alias, beside which a name has no addresses (RFC 1034 §3.6.2).
    #[error(
        "{name} is an alias (CNAME) of {target}: remove that record, or write the name {target} instead"
    )]
    Alias {
        /// The name.
        name: String,
        /// The name that it stands for.
        target: String,
    },
    /// The provider sets no addresses.
    #[error("`{0}` sets no addresses of names: take another provider, or `exec` with a command")]
    NoAddresses(&'static str),
    /// The name does not lie in the zone that is configured.
    #[error("{name} does not lie in the zone {zone}")]
    OtherZone {
        /// The name of the record.
        name: String,
        /// The zone.
        zone: String,
    },
    /// The server refuses an update (RFC 2136 §2.2, RFC 8945 §5.3), or its answer is not signed.
    #[error("{server} has not updated the zone {zone}: {why}")]
    Update {
        /// The server.
        server: String,
        /// The zone.
        zone: String,
        /// The reason.
        why: String,
    },
    /// The command has failed.
    #[error("{command}: {why}")]
    Command {
        /// The program.
        command: String,
        /// The reason, with what it wrote.
        why: String,
    },
    /// The provider refuses, or cannot be reached.
    #[error("{provider}: {why}")]
    Provider {
        /// The provider.
        provider: &'static str,
        /// The reason.
        why: String,
    },
    /// Servers of the zone do not show the record in time.
    #[error("after {} s these servers do not show the record of {name}: {servers}", .after.as_secs())]
    NotVisible {
        /// The name of the record.
        name: String,
        /// The servers, each with what it said.
        servers: String,
        /// The limit.
        after: Duration,
    },
}

impl DnsError {
    /// Whether the provider, or the way to it, is at fault, so that its other names will hardly fare
    /// better.
    pub fn is_of_provider(&self) -> bool {
        matches!(
            self,
            Self::Update { .. } | Self::Command { .. } | Self::Provider { .. }
        )
    }

    /// Whether the provider says that it is asked too often (RFC 6585 §4, or in words).
    pub fn is_rate_limit(&self) -> bool {
        let Self::Provider { why, .. } = self else {
            return false;
        };
        let why = why.to_ascii_lowercase();
        let words = [
            "http 429",
            "status 429",
            "rate limit",
            "ratelimit",
            "too many requests",
            "throttl",
        ];
        words.iter().any(|word| why.contains(word))
    }
}

/// A name without the dot at its end.
pub(crate) fn shown(name: &Name) -> String {
    let text = name.to_ascii();
    match text.strip_suffix('.') {
        Some("") | None => text,
        Some(rest) => rest.to_owned(),
    }
}

/// The longest text of others in an error, in bytes.
pub(crate) const LONGEST_TEXT: usize = 600;

/// A text of others on one line, cut to [`LONGEST_TEXT`].
pub(crate) fn bounded(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let mut text = words.join(" ");
    text.retain(|char| !char.is_control());
    if text.len() > LONGEST_TEXT {
        let cut = (0..=LONGEST_TEXT)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or_default());
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limits_of_providers_are_known_by_status_and_words() {
        let of = |why: &str| DnsError::Provider {
            provider: "desec",
            why: why.to_owned(),
        };
        for why in [
            "API error: HTTP 429: slow down",
            "status 429: ",
            "API error: Rate Limit exceeded",
            "API error: HTTP 400: Throttling.User",
        ] {
            assert!(of(why).is_rate_limit(), "{why}");
        }
        for error in [
            of("API error: HTTP 500: 429"),
            DnsError::NoZone("a".to_owned()),
        ] {
            assert!(!error.is_rate_limit(), "{error}");
        }
        assert!(of("x").is_of_provider());
        assert!(!DnsError::NoZone("a".to_owned()).is_of_provider());
    }
}
