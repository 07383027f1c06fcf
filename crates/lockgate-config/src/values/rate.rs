//! Rates of bytes: `10KB/s`.

use crate::codes::Code;
use crate::document::TomlString;
use crate::units;

use super::quantity::{not_a_quantity, zero};
use super::{InvalidText, TextLanguage};

/// A number of bytes each second.
pub(crate) struct ByteRate;

impl TextLanguage for ByteRate {
    type Value = u64;

    const EXPECTED: &str = "a rate such as \"10KB/s\"";
    const PATTERN: &str = "^[0-9]+([KMGT]i?)?B/s$";
    const UNIT: Option<&'static str> = Some("the units of sizes, with `/s`");

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(format!("write \"{number}KB/s\" or \"{number}B/s\""))
    }

    fn parse(&self, text: &TomlString) -> Result<u64, InvalidText> {
        match units::rate(&text.value) {
            Ok(0) => Err(zero(text)),
            Ok(rate) => Ok(rate),
            Err(_) if units::size(&text.value).is_ok() => {
                let why = "the time is missing";
                let cure = format!("write \"{}/s\"", text.value);
                let mistake = text.invalid(Code::Unit, "is not a rate", why, "write \"10KB/s\"");
                Err(mistake.or_meant(cure))
            }
            Err(error) => {
                let forms = ("KB/s", "\"1KB/s\" or \"10MB/s\"");
                Err(not_a_quantity(text, error, "a rate", forms))
            }
        }
    }
}
