//! Shares of a hundred: `20%`.

use crate::codes::Code;
use crate::document::TomlString;
use crate::units;

use super::quantity::not_a_quantity;
use super::{InvalidText, TextLanguage};

/// A percentage, at least 1.
pub(crate) struct Percent;

impl TextLanguage for Percent {
    type Value = u8;

    const EXPECTED: &str = "a share such as \"20%\"";
    const PATTERN: &str = "^[0-9]+%$";

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(format!("write \"{number}%\""))
    }

    fn parse(&self, text: &TomlString) -> Result<u8, InvalidText> {
        let forms = ("%", "\"1%\" to \"100%\"");
        let share = units::percent(&text.value)
            .map_err(|error| not_a_quantity(text, error, "a share", forms))?;
        let share = u8::try_from(share)
            .ok()
            .filter(|share| (1..=100).contains(share));
        share.ok_or_else(|| {
            let cure = "write a share from \"1%\" to \"100%\"";
            text.invalid(Code::OutOfRange, "is out of range", "", cure)
        })
    }
}
