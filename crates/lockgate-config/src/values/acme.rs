//! Languages of ACME: directories of authorities, the address of an account, its MAC key.

use base64ct::{Base64UrlUnpadded, Encoding};
use lockgate_rules::acme::KNOWN_DIRECTORIES;
use lockgate_rules::{AcmeDirectory, SecretBytes};
use serde_json::{Value as Json, json};

use crate::address::is_name;
use crate::codes::Code;
use crate::document::TomlString;
use crate::language::{names, quoted};
use crate::model::EndpointAddr;
use crate::spelling::nearest;

use super::{InvalidText, TextLanguage};

/// The directory of an authority: a known name, or a URL of HTTPS.
pub(crate) struct DirectoryName;

/// One address of electronic mail.
pub(crate) struct MailAddress;

/// A MAC key in base64url without padding (RFC 4648 §5), as RFC 8555 §7.3.4 writes it.
pub(crate) struct MacKey;

/// What people call the known directories otherwise.
const OTHER_NAMES: [(&str, &str); 11] = [
    ("le", "letsencrypt"),
    ("lets-encrypt", "letsencrypt"),
    ("lets_encrypt", "letsencrypt"),
    ("let's encrypt", "letsencrypt"),
    ("isrg", "letsencrypt"),
    ("production", "letsencrypt"),
    ("staging", "letsencrypt-staging"),
    ("le-staging", "letsencrypt-staging"),
    ("gts", "google"),
    ("ssl.com", "sslcom"),
    ("ssl_com", "sslcom"),
];

impl TextLanguage for DirectoryName {
    type Value = AcmeDirectory;

    const EXPECTED: &str = "the name or URL of a directory";

    fn reference(&self) -> String {
        let known = names("", KNOWN_DIRECTORIES.iter().map(|(name, _)| name));
        format!("{known}, or a URL that begins with `https://`")
    }

    fn schema(&self) -> Json {
        let known: Vec<_> = KNOWN_DIRECTORIES.iter().map(|(name, _)| *name).collect();
        json!({ "anyOf": [
            { "enum": known },
            { "type": "string", "pattern": "^https://.+" },
            { "$ref": "#/definitions/reference" },
        ] })
    }

    fn parse(&self, text: &TomlString) -> Result<AcmeDirectory, InvalidText> {
        let value = &*text.value;
        let message = "is not the directory of an authority";
        if value.contains("://") {
            return directory_at(value).map_err(|why| {
                let cure = "write \"https://ca.example.com/acme/directory\"";
                text.invalid(Code::BadAddress, message, why, cure)
            });
        }
        AcmeDirectory::known(value).ok_or_else(|| {
            let known = KNOWN_DIRECTORIES.map(|(name, _)| name);
            let cure = format!("write {}, or a URL of https", quoted(&known));
            let meant = other_name(value).or_else(|| nearest(value, known));
            text.invalid(
                Code::UnknownWord,
                message,
                "no directory has this name",
                cure,
            )
            .or_meant(meant.map(|meant| format!("write \"{meant}\"")))
        })
    }
}

fn other_name(name: &str) -> Option<&'static str> {
    let mut others = OTHER_NAMES.iter();
    let found = others.find(|(other, _)| other.eq_ignore_ascii_case(name));
    found.map(|(_, ours)| *ours)
}

/// The directory at a URL, by the name that it has.
fn directory_at(url: &str) -> Result<AcmeDirectory, &'static str> {
    let by_url = KNOWN_DIRECTORIES.iter().find(|(_, known)| *known == url);
    if let Some(known) = by_url.and_then(|(name, _)| AcmeDirectory::known(name)) {
        return Ok(known);
    }
    let rest = url
        .strip_prefix("https://")
        .ok_or("ACME runs over HTTPS only (RFC 8555 §6.1)")?;
    let (host, path) = rest
        .find(['/', '?', '#'])
        .map_or((rest, ""), |at| rest.split_at(at));
    if host.contains('@') {
        return Err("it holds a user or a password");
    }
    if !path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err("it holds what must be percent-encoded, or a `#`");
    }
    let has_port = !host.ends_with(']') && host.contains(':');
    let whole = match has_port {
        true => host.to_owned(),
        false => format!("{host}:443"),
    };
    match EndpointAddr::parse(&whole) {
        Ok(EndpointAddr::Ip(_) | EndpointAddr::Name { .. }) => Ok(AcmeDirectory {
            name: host.to_ascii_lowercase(),
            url: url.to_owned(),
        }),
        _ => Err("its host cannot be read"),
    }
}

impl TextLanguage for MailAddress {
    type Value = String;

    const EXPECTED: &str = "an address of electronic mail";
    const PATTERN: &str = "^[^@]+@[^@]+$";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let value = &*text.value;
        let why = match value.split_once('@') {
            _ if value.is_empty() => "it is empty",
            _ if value.len() > LONGEST_MAIL => "it is longer than 254 bytes",
            _ if value.contains("mailto:") => "an address has no scheme",
            _ if value.contains([',', ';', ' ']) => "an account has one address here",
            _ if !value.bytes().all(|byte| byte.is_ascii_graphic()) => {
                "authorities take addresses in ASCII only"
            }
            Some((user, host)) if !user.is_empty() && is_name(host) => return Ok(value.to_owned()),
            _ => "it is not a name, an `@` and a host",
        };
        let cure = "write email = \"me@example.com\"";
        let message = "is not an address of electronic mail";
        Err(text.invalid(Code::BadText, message, why, cure))
    }
}

/// The longest address in bytes (RFC 5321 §4.5.3.1.3, less the angle brackets).
const LONGEST_MAIL: usize = 254;

impl TextLanguage for MacKey {
    type Value = SecretBytes;

    const EXPECTED: &str = "a key in base64url";
    const PATTERN: &str = "^[A-Za-z0-9_-]+$";

    fn parse(&self, text: &TomlString) -> Result<SecretBytes, InvalidText> {
        let value = &*text.value;
        let decoded = Base64UrlUnpadded::decode_vec(value).map(SecretBytes);
        let (why, cure) = match decoded {
            Ok(key) if !key.0.is_empty() => return Ok(key),
            Ok(_) => ("it is empty", "write the key that the authority gave"),
            Err(_) if value.contains(['+', '/', '=']) => (
                "this is base64 of the other alphabet, or with padding",
                "write `-` for `+` and `_` for `/`, and leave out the `=` at the end",
            ),
            Err(_) => (
                "it is not base64url",
                "write the key as the authority gave it, as mac_key = \"${file:/etc/lockgate/eab.key}\"",
            ),
        };
        // The key is a secret: the message does not repeat it.
        let message = "this is not a MAC key".to_owned();
        Err(InvalidText::new(Code::BadText, message, why, cure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(text: &str) -> Result<AcmeDirectory, (String, String, String)> {
        let parsed = DirectoryName.parse(&TomlString::plain(text));
        parsed.map_err(InvalidText::into_texts)
    }

    #[test]
    fn a_directory_is_a_known_name_or_an_https_url() {
        for (text, name) in [
            ("letsencrypt", "letsencrypt"),
            (
                "https://acme-v02.api.letsencrypt.org/directory",
                "letsencrypt",
            ),
            ("https://CA.internal/acme/acme/directory", "ca.internal"),
            ("https://127.0.0.1:14000/dir", "127.0.0.1:14000"),
            ("https://[::1]:14000/dir", "[::1]:14000"),
            ("https://[::1]/dir", "[::1]"),
        ] {
            assert_eq!(directory(text).unwrap().name, name, "{text}");
        }
        for (text, why) in [
            ("http://ca.internal/directory", "HTTPS only"),
            ("https://u:p@ca.internal/directory", "a user"),
            ("https:///directory", "host"),
            ("https://ca.internal:0/directory", "host"),
            ("https://ca.internal/a b", "percent-encoded"),
            ("https://ca.internal/#a", "percent-encoded"),
            ("letsencript", "no directory"),
            ("", "no directory"),
        ] {
            let (_, found, _) = directory(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn a_mac_key_is_unpadded_base64url_and_never_shown() {
        let parse = |text: &str| MacKey.parse(&TomlString::plain(text));
        assert_eq!(parse("aGVsbG8_LV8").unwrap().0, b"hello?-_");
        for text in ["", "aGVsbG8=", "a+b/", "a", "a b"] {
            let (message, why, cure) = parse(text).unwrap_err().into_texts();
            assert_eq!(message, "this is not a MAC key", "{text}");
            assert!(text.len() < 3 || !format!("{why}{cure}").contains(text));
        }
    }
}
