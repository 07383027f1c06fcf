//! Rules of tunnels: a host or a network, and ports.

use lockgate_rules::network::CidrError;

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::host::HostError;
use crate::place::At;
use crate::tunnel_rule::{RuleError, TunnelRule};

use super::TextLanguage;

/// A host or a network, and ports: `*.example.com:443`.
pub(crate) struct TunnelTarget;

impl TextLanguage for TunnelTarget {
    type Value = TunnelRule;

    const EXPECTED: &str = "a target such as \"*.example.com:443\" or \"10.1.0.0/16:22\"";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<TunnelRule> {
        let error = match TunnelRule::parse(&text.value) {
            Ok(rule) => return Some(rule),
            Err(error) => error,
        };
        let general =
            "write \"example.com:443\", \"*.example.com:80,443\", \"10.1.0.0/16:22\" or \"*:443\""
                .to_owned();
        let value = text.value.as_str();
        let cure = match error {
            _ if text.is_secret() => general,
            RuleError::Everything => "write \"*:443\", or \"*:*\" for every port".to_owned(),
            RuleError::Host(HostError::Empty) if value.starts_with(':') => {
                format!("write \"*{value}\"")
            }
            RuleError::Host(HostError::Scheme) => {
                let (scheme, rest) = value.split_once("://").unwrap_or_default();
                let host = rest.split(['/', ':']).next().unwrap_or_default();
                let port = if scheme == "http" { 80 } else { 443 };
                format!("write \"{host}:{port}\"")
            }
            RuleError::Host(HostError::NotAscii) => {
                "write its xn-- form (Punycode), such as \"xn--bcher-kva.example:443\"".to_owned()
            }
            RuleError::Host(HostError::Brackets) => "write \"[2001:db8::/32]:443\"".to_owned(),
            RuleError::Host(HostError::Path) => {
                format!(
                    "write \"{}:443\": a tunnel leads to a host",
                    value.split('/').next().unwrap_or_default()
                )
            }
            RuleError::Network(CidrError::HostBits { network }) => {
                format!("write \"{network}\" for the network")
            }
            _ => general,
        };
        let message = format!("{:?} is not a target", text.raw);
        checker.invalid(Code::BadTunnelRule, at, message, error.reason(), cure)
    }
}
