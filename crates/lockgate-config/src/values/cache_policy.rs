//! Cache policies, and the keys that they are listed by.

use lockgate_rules::{Pattern, PatternError};

use crate::cache_control;
use crate::codes::Code;
use crate::document::TomlString;
use crate::units;

use super::media::media_range;
use super::{InvalidText, TextLanguage};

/// A time to keep responses: `1h private`. The value is that of Cache-Control.
pub(crate) struct CachePolicy;

impl TextLanguage for CachePolicy {
    type Value = String;

    const EXPECTED: &str = "a time such as \"1h\", \"no-cache\" or \"no-store\"";
    const PATTERN: &str = "^(no-store|no-cache|[0-9]+[smhdy])( .+)?$";
    const UNIT: Option<&'static str> = Some("`s`, `m`, `h`, `d`, `y` (365 days)");

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        cache_control::policy(&text.value).map_err(|why| {
            let meant = cache_meant(&text.value).map(|age| format!("write {age:?}"));
            let cure = "write \"no-cache\", \"no-store\", \"1h\", \"1y immutable\" or \"10m private stale-while-revalidate=1d\"";
            text.invalid(Code::BadText, "is not a cache policy", why, cure)
                .or_meant(meant)
        })
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
pub(super) fn cached_key(name: &TomlString) -> Result<(), InvalidText> {
    let value = &*name.value;
    let why = match Pattern::parse(value) {
        Ok(pattern) if pattern.params().next().is_none() => return Ok(()),
        _ if value == "*" || media_range(value).is_some() => return Ok(()),
        Ok(_) => "it has a parameter",
        Err(PatternError::NoSlash | PatternError::Empty) => "it is neither a path nor a media type",
        Err(error) => error.reason(),
    };
    let cure = match value.trim_start_matches(['*', '.']) {
        "css" => "responses are matched by media type: write \"text/css\"",
        "js" | "mjs" => "responses are matched by media type: write \"text/javascript\"",
        "html" | "htm" => "responses are matched by media type: write \"text/html\"",
        "png" | "jpg" | "jpeg" | "gif" | "webp" | "svg" | "ico" | "avif" => {
            "responses are matched by media type: write \"image/*\""
        }
        "woff" | "woff2" | "ttf" | "otf" => "responses are matched by media type: write \"font/*\"",
        _ => "write \"*\", \"/assets/*\", \"text/css\" or \"image/*\"",
    };
    let message = "is not a key of `cache`";
    Err(name.invalid(Code::BadPath, message, why, cure))
}
