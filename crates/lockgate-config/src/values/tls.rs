//! Versions, cipher suites and key exchange groups of TLS.

use serde_json::Value as Json;

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::model::{Group, Suite, TlsVersion};
use crate::newcomers;
use crate::place::At;
use crate::reference::names;

use super::{TextLanguage, one_of};

/// A version of TLS.
pub(crate) struct Version;

/// A cipher suite, by its IANA name.
pub(crate) struct SuiteName;

/// A key exchange group.
pub(crate) struct GroupName;

impl TextLanguage for Version {
    type Value = TlsVersion;

    const EXPECTED: &str = "\"1.2\" or \"1.3\"";

    fn schema(&self) -> Json {
        one_of(&TlsVersion::ALL.map(TlsVersion::name))
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<TlsVersion> {
        if let Some(version) = TlsVersion::ALL
            .into_iter()
            .find(|version| version.name() == text.value)
        {
            return Some(version);
        }
        let old = matches!(
            &*text.value.to_ascii_lowercase(),
            "1.0" | "1.1" | "tlsv1" | "tlsv1.0" | "tlsv1.1" | "sslv3"
        );
        let why = if old && !text.is_secret() {
            "it is broken and not offered"
        } else {
            "it is not known"
        };
        let message = format!("{:?} is not a version of TLS", text.raw);
        checker.invalid(
            Code::UnknownWord,
            at,
            message,
            why,
            "write \"1.2\" or \"1.3\"",
        )
    }
}

impl TextLanguage for SuiteName {
    type Value = Suite;

    const EXPECTED: &str = "a cipher suite";

    fn schema(&self) -> Json {
        let iana = Suite::ALL.map(|suite| suite.name().replacen("TLS13_", "TLS_", 1));
        let ours = Suite::ALL.map(Suite::name);
        let others = iana.iter().map(String::as_str);
        let names = ours
            .into_iter()
            .chain(others.filter(|name| !ours.contains(name)));
        one_of(&names.collect::<Vec<_>>())
    }

    fn reference(&self) -> String {
        names("", Suite::ALL.map(Suite::name))
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<Suite> {
        if let Some(suite) = Suite::parse(&text.value) {
            return Some(suite);
        }
        let names = Suite::ALL.map(Suite::name);
        let meant = Suite::from_openssl(&text.value).map(Suite::name);
        let meant = meant.or_else(|| newcomers::nearest(&text.value, names));
        let message = format!("{:?} is not a cipher suite", text.raw);
        let cure = match meant {
            Some(meant) if !text.is_secret() => format!("write \"{meant}\""),
            _ => format!("the suites are {}", names.join(", ")),
        };
        checker.invalid(
            Code::UnknownWord,
            at,
            message,
            "no suite has this name",
            cure,
        )
    }
}

impl TextLanguage for GroupName {
    type Value = Group;

    const EXPECTED: &str = "a key exchange group";

    fn schema(&self) -> Json {
        one_of(&Group::ALL.map(Group::name))
    }

    fn reference(&self) -> String {
        names("", Group::ALL.map(Group::name))
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<Group> {
        if let Some(group) = Group::ALL
            .into_iter()
            .find(|group| group.name() == text.value)
        {
            return Some(group);
        }
        let names = Group::ALL.map(Group::name);
        let meant = Group::from_other(&text.value).map(Group::name);
        let meant = meant.or_else(|| newcomers::nearest(&text.value, names));
        let message = format!("{:?} is not a key exchange group", text.raw);
        let cure = match meant {
            Some(meant) if !text.is_secret() => format!("write \"{meant}\""),
            _ => format!("the groups are {}", names.join(", ")),
        };
        checker.invalid(
            Code::UnknownWord,
            at,
            message,
            "no group has this name",
            cure,
        )
    }
}
