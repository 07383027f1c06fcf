//! Rates of bytes.

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::place::At;
use crate::units;

use super::TextLanguage;

/// Bytes a second: `10KB/s`.
pub(crate) struct Rate;

impl TextLanguage for Rate {
    type Value = u64;

    const EXPECTED: &str = "a rate such as \"10KB/s\"";
    const PATTERN: &str = "^[0-9]+([KMGT]i?)?B/s$";
    const UNIT: Option<&'static str> = Some("the units of sizes, with `/s`");

    fn bare(&self, number: u64) -> Option<String> {
        Some(format!("write \"{number}KB/s\" or \"{number}B/s\""))
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<u64> {
        match units::rate(&text.value) {
            Ok(0) => checker.zero(text, at),
            Ok(rate) => Some(rate),
            Err(_) if units::size(&text.value).is_ok() => {
                let cure = if text.is_secret() {
                    "10KB/s".to_owned()
                } else {
                    format!("{}/s", text.value)
                };
                let message = format!("{:?} is not a rate", text.raw);
                checker.invalid(
                    Code::Unit,
                    at,
                    message,
                    "the time is missing",
                    format!("write \"{cure}\""),
                )
            }
            Err(error) => checker.unit(
                error,
                text,
                at,
                "a rate",
                ("KB/s", "\"1KB/s\" or \"10MB/s\""),
            ),
        }
    }
}
