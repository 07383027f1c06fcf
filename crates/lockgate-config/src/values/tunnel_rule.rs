//! Rules of tunnels: a host or a network, and ports.

use lockgate_rules::network::CidrError;

use crate::codes::Code;
use crate::document::TomlString;
use crate::host::HostError;
use crate::tunnel_rule::{TunnelRule, TunnelRuleError};

use super::{InvalidText, TextLanguage};

/// A host or a network, and ports: `*.example.com:443`.
pub(crate) struct TunnelTarget;

impl TextLanguage for TunnelTarget {
    type Value = TunnelRule;

    const EXPECTED: &str = "a target such as \"*.example.com:443\" or \"10.1.0.0/16:22\"";

    fn parse(&self, text: &TomlString) -> Result<TunnelRule, InvalidText> {
        TunnelRule::parse(&text.value).map_err(|error| {
            let cure = "write \"example.com:443\", \"*.example.com:80,443\", \"10.1.0.0/16:22\" or \"*:443\"";
            text.invalid(Code::BadTunnelRule, "is not a target", error.reason(), cure)
                .or_meant(target_cure(error, &text.value))
        })
    }
}

fn target_cure(error: TunnelRuleError, value: &str) -> Option<String> {
    Some(match error {
        TunnelRuleError::Everything => "write \"*:443\", or \"*:*\" for every port".to_owned(),
        TunnelRuleError::Host(HostError::Empty) if value.starts_with(':') => {
            format!("write \"*{value}\"")
        }
        TunnelRuleError::Host(HostError::Scheme) => {
            let (scheme, rest) = value.split_once("://").unwrap_or_default();
            let host = rest.split(['/', ':']).next().unwrap_or_default();
            let port = if scheme == "http" { 80 } else { 443 };
            format!("write \"{host}:{port}\"")
        }
        TunnelRuleError::Host(HostError::NotAscii) => {
            "write its xn-- form (Punycode), such as \"xn--bcher-kva.example:443\"".to_owned()
        }
        TunnelRuleError::Host(HostError::Brackets) => "write \"[2001:db8::/32]:443\"".to_owned(),
        TunnelRuleError::Host(HostError::Path) => {
            let host = value.split('/').next().unwrap_or_default();
            format!("write \"{host}:443\": a tunnel leads to a host")
        }
        TunnelRuleError::Network(CidrError::HostBits { network }) => {
            format!("write \"{network}\" for the network")
        }
        _ => return None,
    })
}
