//! Media types.

use lockgate_rules::MediaRange;
use lockgate_http::h1::parse::is_token;

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::place::At;

use super::TextLanguage;

/// `type/subtype`, perhaps with parameters (RFC 9110 §8.3.1).
pub(crate) struct MediaType;

/// `type/subtype` or `type/*`.
pub(crate) struct Media;

impl TextLanguage for MediaType {
    type Value = String;

    const EXPECTED: &str = "a media type such as \"text/html\"";
    const PATTERN: &str = "^.+/.+$";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        let value = &*text.value;
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        let whole = essence
            .trim_end()
            .split_once('/')
            .is_some_and(|(a, b)| is_token(a.as_bytes()) && is_token(b.as_bytes()));
        let clean = value.trim() == value
            && !parameters.contains(|c: char| c.is_control() || !c.is_ascii());
        if whole && clean && value.len() <= 255 {
            return Some(value.to_owned());
        }
        let message = format!("{:?} is not a media type", text.raw);
        let cure = "for example \"text/html\" or \"text/csv; charset=utf-8\"";
        checker.invalid(
            Code::BadText,
            at,
            message,
            "it has no form like `type/subtype`",
            cure,
        )
    }
}

impl TextLanguage for Media {
    type Value = MediaRange;

    const EXPECTED: &str = "a media type such as \"text/html\" or \"text/*\"";
    const PATTERN: &str = "^.+/.+$";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<MediaRange> {
        match media_range(&text.value) {
            Some(range) => Some(range),
            None => {
                let message = format!("{:?} is not a media type", text.raw);
                let cure = "write \"text/html\" or \"text/*\"";
                checker.invalid(
                    Code::BadText,
                    at,
                    message,
                    "it has no form like `type/subtype` or `type/*`",
                    cure,
                )
            }
        }
    }
}

/// `type/subtype` or `type/*`.
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
