//! Languages of providers of DNS: their names, and what they know us by.

use lockgate_rules::dns_provider::DNS_PROVIDERS;
use lockgate_rules::{KnownDnsProvider, SecretText};
use serde_json::{Value as Json, json};

use crate::codes::Code;
use crate::document::TomlString;
use crate::language::names;
use crate::spelling::nearest;

use super::{InvalidText, TextLanguage};

/// The name of a provider.
pub(crate) struct DnsProviderName;

/// A parameter of a provider: a token, a password, a name.
pub(crate) struct Credential;

/// The longest parameter, in bytes: a service account in JSON has some 2400.
const LONGEST: usize = 16 << 10;

/// What people call the providers otherwise.
const OTHER_NAMES: [(&str, &str); 33] = [
    ("acmedns", "acme-dns"),
    ("acme_dns", "acme-dns"),
    ("aliyun", "alidns"),
    ("alibaba", "alidns"),
    ("amazon", "route53"),
    ("aws", "route53"),
    ("azuredns", "azure"),
    ("bind", "rfc2136"),
    ("bind9", "rfc2136"),
    ("bunnynet", "bunny"),
    ("cf", "cloudflare"),
    ("command", "exec"),
    ("cmd", "exec"),
    ("do", "digitalocean"),
    ("dnspod", "tencentcloud"),
    ("gandiv5", "gandi"),
    ("gandi-livedns", "gandi"),
    ("gcloud", "google"),
    ("googleclouddns", "google"),
    ("google-cloud-dns", "google"),
    ("hetznercloud", "hetzner"),
    ("hosting.de", "hostingde"),
    ("knot", "rfc2136"),
    ("name.com", "namedotcom"),
    ("nsupdate", "rfc2136"),
    ("pdns", "powerdns"),
    ("power-dns", "powerdns"),
    ("rfc-2136", "rfc2136"),
    ("script", "exec"),
    ("simply", "simplycom"),
    ("simply.com", "simplycom"),
    ("tsig", "rfc2136"),
    ("zone.eu", "zoneeu"),
];

impl TextLanguage for DnsProviderName {
    type Value = &'static KnownDnsProvider;

    const EXPECTED: &str = "the name of a provider";

    fn reference(&self) -> String {
        names("", DNS_PROVIDERS.iter().map(|known| known.name))
    }

    fn schema(&self) -> Json {
        let known: Vec<_> = DNS_PROVIDERS.iter().map(|known| known.name).collect();
        json!({ "anyOf": [{ "enum": known }, { "$ref": "#/definitions/reference" }] })
    }

    fn parse(&self, text: &TomlString) -> Result<&'static KnownDnsProvider, InvalidText> {
        let value = &*text.value;
        KnownDnsProvider::named(value).ok_or_else(|| {
            let mut others = OTHER_NAMES.iter();
            let other = others.find(|(other, _)| other.eq_ignore_ascii_case(value));
            let meant = other.map(|(_, ours)| *ours);
            let meant = meant.or_else(|| nearest(value, DNS_PROVIDERS.iter().map(|known| known.name)));
            let cure = "write \"exec\" and a command that writes the record, or one of the names in \
                        docs/config.md";
            text.invalid(
                Code::UnknownWord,
                "is not a provider of DNS",
                "no provider has this name",
                cure,
            )
            .or_meant(meant.map(|meant| format!("write \"{meant}\"")))
        })
    }
}

impl TextLanguage for Credential {
    type Value = SecretText;

    const EXPECTED: &str = "a text";

    fn parse(&self, text: &TomlString) -> Result<SecretText, InvalidText> {
        let value = text.value.trim();
        let is_bad = |char: char| char.is_control() && !matches!(char, '\n' | '\r' | '\t');
        let why = match value {
            "" => "it is empty",
            value if value.len() > LONGEST => "it is longer than 16 KiB",
            value if value.contains(is_bad) => "it holds a control character",
            value => return Ok(SecretText(value.to_owned())),
        };
        // It may be a secret: the message does not repeat it.
        let message = "this is no parameter of a provider".to_owned();
        Err(InvalidText::new(Code::BadText, message, why, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_of_dns_providers_lead_to_known_ones() {
        for (other, ours) in OTHER_NAMES {
            assert!(KnownDnsProvider::named(ours).is_some(), "{ours}");
            assert!(KnownDnsProvider::named(other).is_none(), "{other}");
        }
    }
}
