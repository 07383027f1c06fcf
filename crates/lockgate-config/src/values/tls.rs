//! Versions, cipher suites and key exchange groups of TLS.

use serde_json::Value as Json;

use crate::codes::Code;
use crate::document::TomlString;
use crate::language::{names, one_of};
use crate::model::{Group, Suite, TlsVersion};
use crate::spelling::nearest;

use super::{InvalidText, TextLanguage};

/// A version of TLS, by its number.
pub(crate) struct VersionName;

/// A cipher suite, by its IANA name.
pub(crate) struct SuiteName;

/// A key exchange group, by its name.
pub(crate) struct GroupName;

impl TextLanguage for VersionName {
    type Value = TlsVersion;

    const EXPECTED: &str = "\"1.2\" or \"1.3\"";

    fn schema(&self) -> Json {
        one_of(&TlsVersion::ALL.map(TlsVersion::name))
    }

    fn parse(&self, text: &TomlString) -> Result<TlsVersion, InvalidText> {
        let mut versions = TlsVersion::ALL.into_iter();
        let found = versions.find(|version| version.name() == text.value);
        found.ok_or_else(|| {
            let old = matches!(
                &*text.value.to_ascii_lowercase(),
                "1.0" | "1.1" | "tlsv1" | "tlsv1.0" | "tlsv1.1" | "sslv3"
            );
            let why = match old && !text.is_secret() {
                true => "it is broken and not offered",
                false => "it is not known",
            };
            let cure = "write \"1.2\" or \"1.3\"";
            text.invalid(Code::UnknownWord, "is not a version of TLS", why, cure)
        })
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

    fn parse(&self, text: &TomlString) -> Result<Suite, InvalidText> {
        Suite::parse(&text.value).ok_or_else(|| {
            let names = Suite::ALL.map(Suite::name);
            let meant = Suite::from_openssl(&text.value).map(Suite::name);
            let meant = meant.or_else(|| nearest(&text.value, names));
            let cure = format!("the suites are {}", names.join(", "));
            let (message, why) = ("is not a cipher suite", "no suite has this name");
            text.invalid(Code::UnknownWord, message, why, cure)
                .or_meant(meant.map(|meant| format!("write \"{meant}\"")))
        })
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

    fn parse(&self, text: &TomlString) -> Result<Group, InvalidText> {
        let mut groups = Group::ALL.into_iter();
        let found = groups.find(|group| group.name() == text.value);
        found.ok_or_else(|| {
            let names = Group::ALL.map(Group::name);
            let meant = Group::from_other(&text.value).map(Group::name);
            let meant = meant.or_else(|| nearest(&text.value, names));
            let cure = format!("the groups are {}", names.join(", "));
            let (message, why) = ("is not a key exchange group", "no group has this name");
            text.invalid(Code::UnknownWord, message, why, cure)
                .or_meant(meant.map(|meant| format!("write \"{meant}\"")))
        })
    }
}
