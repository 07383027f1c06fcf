//! Properties of clients, for hashes and sticky sessions.

use lockgate_http::h1::parse::is_token;
use lockgate_rules::HashKey;

use crate::codes::Code;
use crate::document::TomlString;

use super::{InvalidText, TextLanguage};

/// The property to hash: `client`, `sni`, `header:NAME`, `cookie:NAME`.
pub(crate) struct HashBy;

/// The kind of sticky session: `cookie:NAME`, `tls-session`.
pub(crate) struct StickyBy;

impl TextLanguage for HashBy {
    type Value = HashKey;

    const EXPECTED: &str = "\"client\", \"sni\", \"header:NAME\" or \"cookie:NAME\"";
    const PATTERN: &str = "^(client|sni|header:.+|cookie:.+)$";

    fn parse(&self, text: &TomlString) -> Result<HashKey, InvalidText> {
        hash_key(&text.value).ok_or_else(|| {
            let (message, why) = ("is not a property to hash", "it is not known");
            let cure = "write \"client\", \"sni\", \"header:x-user\" or \"cookie:id\"";
            text.invalid(Code::UnknownWord, message, why, cure)
        })
    }
}

impl TextLanguage for StickyBy {
    type Value = StickyKey;

    const EXPECTED: &str = "\"cookie:NAME\" or \"tls-session\"";
    const PATTERN: &str = "^(cookie:.+|tls-session)$";

    fn parse(&self, text: &TomlString) -> Result<StickyKey, InvalidText> {
        let value = &*text.value;
        let hash = match hash_key(value) {
            Some(HashKey::Cookie(name)) => return Ok(StickyKey::Cookie(name)),
            None if value == TLS_SESSION => return Ok(StickyKey::TlsSession),
            other => {
                other.map(|_| format!("write hash = {value:?}: it leads each to the same one"))
            }
        };
        let message = "is not a kind of sticky session";
        let why = "the kinds are a cookie and the TLS session";
        let cure = format!("write \"cookie:lg\", or in a pool of [tcp] {TLS_SESSION:?}");
        Err(text
            .invalid(Code::UnknownWord, message, why, cure)
            .or_meant(hash))
    }
}

/// The kind of sticky session.
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
        Some(("cookie", name)) if is_token(name.as_bytes()) => {
            Some(HashKey::Cookie(name.to_owned()))
        }
        _ => None,
    }
}
