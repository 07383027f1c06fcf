//! Policies of caching, and what they are told apart by.

use lockgate_rules::{Pattern, PatternError};

use crate::cache_control;
use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::place::At;
use crate::units;

use super::TextLanguage;
use super::media::media_range;

/// How long to keep: `1h private`. The value is that of Cache-Control.
pub(crate) struct CachePolicy;

impl TextLanguage for CachePolicy {
    type Value = String;

    const EXPECTED: &str = "a time such as \"1h\", \"no-cache\" or \"no-store\"";
    const PATTERN: &str = "^(no-store|no-cache|[0-9]+[smhdy])( .+)?$";
    const UNIT: Option<&'static str> = Some("`s`, `m`, `h`, `d`, `y` (365 days)");

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        let why = match cache_control::policy(&text.value) {
            Ok(value) => return Some(value),
            Err(why) => why,
        };
        let age = cache_meant(&text.value);
        let cure = match age.filter(|_| !text.is_secret()) {
            Some(age) => format!("write {age:?}"),
            None => {
                "write \"no-cache\", \"no-store\", \"1h\", \"1y immutable\" or \"10m private stale-while-revalidate=1d\""
                    .to_owned()
            }
        };
        let message = format!("{:?} does not say how long to keep", text.raw);
        checker.invalid(Code::BadText, at, message, why, cure)
    }
}

/// `public, max-age=3600, immutable` and `3600`: as it is written here.
fn cache_meant(text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    let age = words.iter().find_map(|word| {
        word.strip_prefix("max-age=")
            .unwrap_or(word)
            .parse::<u64>()
            .ok()
    })?;
    let kept = words
        .iter()
        .filter(|word| matches!(**word, "private" | "immutable"));
    let kept: String = kept.map(|word| format!(" {word}")).collect();
    Some(format!(
        "{}{kept}",
        units::shortest(age.checked_mul(1_000)?)
    ))
}

/// The key of a policy: `"*"`, `"/x"`, `"/x/*"`, `"text/css"` or `"text/*"`.
pub(super) fn is_cached_key(name: &str, at: &At, checker: &mut Checker<'_>) -> bool {
    let why = match Pattern::parse(name) {
        Ok(pattern) if pattern.params().next().is_none() => return true,
        _ if name == "*" || media_range(name).is_some() => return true,
        Ok(_) => "it has a parameter",
        Err(PatternError::NoSlash | PatternError::Empty) => "it is neither a path nor a media type",
        Err(error) => error.reason(),
    };
    let message = format!("{name:?} says of no answer how long to keep it");
    let cure = match name.trim_start_matches(['*', '.']) {
        "css" => "answers are told apart by their type: write \"text/css\"",
        "js" | "mjs" => "answers are told apart by their type: write \"text/javascript\"",
        "html" | "htm" => "answers are told apart by their type: write \"text/html\"",
        "png" | "jpg" | "jpeg" | "gif" | "webp" | "svg" | "ico" | "avif" => {
            "answers are told apart by their type: write \"image/*\""
        }
        "woff" | "woff2" | "ttf" | "otf" => {
            "answers are told apart by their type: write \"font/*\""
        }
        _ => "write \"*\", \"/assets/*\", \"text/css\" or \"image/*\"",
    };
    checker
        .report
        .push_at(Code::BadPath, at, message, why, cure);
    false
}
