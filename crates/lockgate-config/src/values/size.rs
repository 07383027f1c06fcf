//! Sizes in bytes.

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::place::At;
use crate::units;

use super::TextLanguage;

/// A size in bytes, of a range.
pub(crate) struct Size {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl TextLanguage for Size {
    type Value = u64;

    const EXPECTED: &str = "a size such as \"100MB\"";
    const PATTERN: &str = "^[0-9]+([KMGT]i?)?B$";
    const UNIT: Option<&'static str> =
        Some("`B`, `KB`, `MB`, `GB`, `TB` (by 1,000), `KiB`, `MiB`, `GiB`, `TiB` (by 1,024)");

    fn reference(&self) -> String {
        let (least, most) = (units::smallest(self.min), units::smallest(self.max));
        match (self.min, self.max) {
            (0, u64::MAX) => self.expected(),
            (_, u64::MAX) => format!("{}, at least {least}", self.expected()),
            _ => format!("{}, from {least} to {most}", self.expected()),
        }
    }

    fn bare(&self, number: u64) -> Option<String> {
        Some(units::size_readings(number))
    }

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<u64> {
        match units::size(&text.value) {
            Ok(size) if size < self.min => {
                let message = format!("{:?} is too small", text.raw);
                checker.invalid(
                    Code::OutOfRange,
                    at,
                    message,
                    "",
                    format!("write at least \"{}\"", units::smallest(self.min)),
                )
            }
            Ok(size) if size > self.max => {
                let message = format!("{:?} is too large", text.raw);
                let cure = format!("write at most \"{}\"", units::smallest(self.max));
                checker.invalid(Code::OutOfRange, at, message, "", cure)
            }
            Ok(size) => Some(size),
            Err(error) => checker.unit(
                error,
                text,
                at,
                "a size",
                ("MB", "\"64KB\", \"100MB\", \"1GB\" or \"64KiB\""),
            ),
        }
    }
}
