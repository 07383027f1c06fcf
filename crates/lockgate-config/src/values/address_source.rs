//! The language of sources of this machine's address: interfaces, the router, and servers that tell it.

use lockgate_rules::{AddressSource, SourceUrl};
use serde_json::{Value as Json, json};

use crate::codes::Code;
use crate::document::TomlString;

use super::{InvalidText, TextLanguage};

/// A source of this machine's address.
pub(crate) struct AddressSourceName {
    /// Whether the router is one: it has no address of ours in IPv6.
    pub(crate) router: bool,
}

/// The longest name of an interface, in bytes (`IFNAMSIZ` without the end).
const LONGEST_INTERFACE: usize = 15;

impl TextLanguage for AddressSourceName {
    type Value = AddressSource;

    const EXPECTED: &str = "a source such as \"interface\"";

    fn reference(&self) -> String {
        let router = if self.router { "`router`, " } else { "" };
        format!(
            "`interface`, `interface:NAME`, {router}or a URL that begins with `https://` or `http://`"
        )
    }

    fn schema(&self) -> Json {
        let router = if self.router { "router|" } else { "" };
        let matched = format!("^({router}interface(:.+)?|https?://.+)$");
        json!({ "anyOf": [
            { "type": "string", "pattern": matched },
            { "$ref": "#/definitions/reference" },
        ] })
    }

    fn parse(&self, text: &TomlString) -> Result<AddressSource, InvalidText> {
        let value = &*text.value;
        let message = "is not a source of an address";
        if value.contains("://") {
            return match value.parse::<SourceUrl>() {
                Ok(url) => Ok(AddressSource::Url(url)),
                Err(error) => {
                    let cure = "write \"https://ip.example.com/\"";
                    Err(text.invalid(Code::BadAddress, message, error.to_string(), cure))
                }
            };
        }
        match value.split_once(':') {
            None if value == "interface" => return Ok(AddressSource::Interface(None)),
            None if value == "router" && self.router => return Ok(AddressSource::Router),
            None if value == "router" => {
                let why = "routers do not translate IPv6: the machine has the address itself";
                let cure = "write \"interface\"";
                return Err(text.invalid(Code::UnknownWord, message, why, cure));
            }
            Some(("interface", name)) if is_interface(name) => {
                return Ok(AddressSource::Interface(Some(name.to_owned())));
            }
            _ => {}
        }
        let cure = "write \"interface\", \"interface:eth0\" or a URL";
        let invalid = text.invalid(Code::UnknownWord, message, "no source has this name", cure);
        let meant = match value {
            "auto" | "interfaces" | "if" => Some("interface".to_owned()),
            "upnp" | "nat-pmp" | "natpmp" | "pcp" | "gateway" if self.router => {
                Some("router".to_owned())
            }
            "web" | "http" | "https" => Some("https://ip.example.com/".to_owned()),
            _ if value.contains('.') => Some(format!("https://{value}")),
            _ if is_interface(value) => Some(format!("interface:{value}")),
            _ => None,
        };
        Err(invalid.or_meant(meant.map(|meant| format!("write {meant:?}"))))
    }
}

/// Whether the kernel lets an interface have this name.
fn is_interface(name: &str) -> bool {
    let is_bad =
        |char: char| char.is_whitespace() || char.is_control() || matches!(char, '/' | ':');
    (1..=LONGEST_INTERFACE).contains(&name.len()) && !name.contains(is_bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_addresses_are_interfaces_and_urls() {
        let read = |text: &str| AddressSourceName { router: true }.parse(&TomlString::plain(text));
        for text in [
            "interface",
            "router",
            "interface:eth0",
            "interface:br-lan.7",
            "https://ip.example.com/",
            "http://192.168.1.1:81/ip",
        ] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        for (text, cure) in [
            ("eth0", "write \"interface:eth0\""),
            ("auto", "write \"interface\""),
            ("upnp", "write \"router\""),
            ("ip.example.com", "write \"https://ip.example.com\""),
            ("ftp://a", "write \"https://ip.example.com/\""),
            (
                "interface:",
                "write \"interface\", \"interface:eth0\" or a URL",
            ),
            (
                "interface:a-name-too-long-x",
                "write \"interface\", \"interface:eth0\" or a URL",
            ),
            ("", "write \"interface\", \"interface:eth0\" or a URL"),
        ] {
            let (_, _, found) = read(text).unwrap_err().into_texts();
            assert_eq!(found, cure, "{text}");
        }
        let of_ipv6 = AddressSourceName { router: false };
        let invalid = of_ipv6.parse(&TomlString::plain("router")).unwrap_err();
        assert_eq!(invalid.into_texts().2, "write \"interface\"");
    }
}
