//! What tells clients apart, and what ties them to an endpoint.

use lockgate_http::h1::parse::is_token;
use lockgate_rules::HashKey;

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::place::At;

use super::TextLanguage;

/// By what clients are told apart: `client`, `sni`, `header:NAME`, `cookie:NAME`.
pub(crate) struct HashBy;

/// What ties a client to its endpoint: `cookie:NAME`, `tls-session`.
pub(crate) struct StickyBy;

impl TextLanguage for HashBy {
    type Value = HashKey;

    const EXPECTED: &str = "\"client\", \"sni\", \"header:NAME\" or \"cookie:NAME\"";
    const PATTERN: &str = "^(client|sni|header:.+|cookie:.+)$";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<HashKey> {
        match hash_key(&text.value) {
            Some(key) => Some(key),
            None => {
                let message = format!("{:?} does not tell clients apart", text.raw);
                let cure = "write \"client\", \"sni\", \"header:x-user\" or \"cookie:id\"";
                checker.invalid(Code::UnknownWord, at, message, "it is not known", cure)
            }
        }
    }
}

impl TextLanguage for StickyBy {
    type Value = StickyKey;

    const EXPECTED: &str = "\"cookie:NAME\" or \"tls-session\"";
    const PATTERN: &str = "^(cookie:.+|tls-session)$";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<StickyKey> {
        let cure = match hash_key(&text.value) {
            Some(HashKey::Cookie(name)) => return Some(StickyKey::Cookie(name)),
            None if text.value == TLS_SESSION => return Some(StickyKey::TlsSession),
            Some(_) if !text.is_secret() => {
                format!(
                    "write hash = {:?}: it leads each to the same one",
                    text.value
                )
            }
            _ => format!("write \"cookie:lg\", or in a pool of [tcp] {TLS_SESSION:?}"),
        };
        let message = format!(
            "{:?} is not something that clients could be given",
            text.raw
        );
        checker.invalid(
            Code::UnknownWord,
            at,
            message,
            "a cookie is, or a TLS session",
            cure,
        )
    }
}

/// What ties a client to its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StickyKey {
    /// A cookie of this name.
    Cookie(String),
    TlsSession,
}

/// The session of TLS, where no cookie can be set.
const TLS_SESSION: &str = "tls-session";

fn hash_key(text: &str) -> Option<HashKey> {
    match text.split_once(':') {
        None if text == "client" => Some(HashKey::Client),
        None if text == "sni" => Some(HashKey::Sni),
        Some(("header", name)) if is_token(name.as_bytes()) => {
            Some(HashKey::Header(name.to_ascii_lowercase()))
        }
        Some(("cookie", name)) if is_token(name.as_bytes()) => Some(HashKey::Cookie(name.to_owned())),
        _ => None,
    }
}
