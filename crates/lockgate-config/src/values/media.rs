//! Media types, and ranges of them.

use lockgate_http::h1::parse::is_token;
use lockgate_rules::MediaRange;

use crate::codes::Code;
use crate::document::TomlString;

use super::{InvalidText, TextLanguage};

/// `type/subtype`, perhaps with parameters (RFC 9110 §8.3.1).
pub(crate) struct MediaType;

/// A media range: `type/subtype` or `type/*`.
pub(crate) struct Media;

impl TextLanguage for MediaType {
    type Value = String;

    const EXPECTED: &str = "a media type such as \"text/html\"";
    const PATTERN: &str = "^.+/.+$";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let value = &*text.value;
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        let whole = essence
            .trim_end()
            .split_once('/')
            .is_some_and(|(a, b)| is_token(a.as_bytes()) && is_token(b.as_bytes()));
        let clean = value.trim() == value
            && !parameters.contains(|c: char| c.is_control() || !c.is_ascii());
        if whole && clean && value.len() <= 255 {
            return Ok(value.to_owned());
        }
        let why = "it has no form like `type/subtype`";
        let cure = "for example \"text/html\" or \"text/csv; charset=utf-8\"";
        Err(text.invalid(Code::BadText, "is not a media type", why, cure))
    }
}

impl TextLanguage for Media {
    type Value = MediaRange;

    const EXPECTED: &str = "a media type such as \"text/html\" or \"text/*\"";
    const PATTERN: &str = "^.+/.+$";

    fn parse(&self, text: &TomlString) -> Result<MediaRange, InvalidText> {
        media_range(&text.value).ok_or_else(|| {
            let why = "it has no form like `type/subtype` or `type/*`";
            let cure = "write \"text/html\" or \"text/*\"";
            text.invalid(Code::BadText, "is not a media type", why, cure)
        })
    }
}

/// Reads a media range: `type/subtype` or `type/*`.
pub(crate) fn media_range(text: &str) -> Option<MediaRange> {
    let (first, second) = text.split_once('/')?;
    let name = |text: &str| is_token(text.as_bytes()) && !text.contains('*');
    let lower = text.to_ascii_lowercase();
    match second {
        "*" if name(first) => Some(MediaRange::Under(first.to_ascii_lowercase())),
        _ if name(first) && name(second) => Some(MediaRange::Exact(lower)),
        _ => None,
    }
}
