//! Shares of a hundred.

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::place::At;
use crate::units;

use super::TextLanguage;

/// Of a hundred, from 1 on.
pub(crate) struct Percent;

impl TextLanguage for Percent {
    type Value = u8;

    const EXPECTED: &str = "a share such as \"20%\"";
    const PATTERN: &str = "^[0-9]+%$";

    fn bare(&self, number: u64) -> Option<String> {
        Some(format!("write \"{number}%\""))
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<u8> {
        match units::percent(&text.value) {
            Ok(percent @ 1..=100) => u8::try_from(percent).ok(),
            Ok(_) => {
                let message = format!("{:?} is out of range", text.raw);
                let cure = "write a share from \"1%\" to \"100%\"";
                checker.invalid(Code::OutOfRange, at, message, "", cure)
            }
            Err(error) => checker.unit(error, text, at, "a share", ("%", "\"1%\" to \"100%\"")),
        }
    }
}
