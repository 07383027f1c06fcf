//! Sizes in bytes: `100MB`, `64KiB`.

use crate::codes::Code;
use crate::document::TomlString;
use crate::units;

use super::quantity::not_a_quantity;
use super::{InvalidText, TextLanguage};

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

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(units::size_readings(number))
    }

    fn parse(&self, text: &TomlString) -> Result<u64, InvalidText> {
        let outside = |message, cure| Err(text.invalid(Code::OutOfRange, message, "", cure));
        match units::size(&text.value) {
            Ok(size) if size < self.min => {
                let least = units::smallest(self.min);
                outside("is too small", format!("write at least \"{least}\""))
            }
            Ok(size) if size > self.max => {
                let most = units::smallest(self.max);
                outside("is too large", format!("write at most \"{most}\""))
            }
            Ok(size) => Ok(size),
            Err(error) => {
                let forms = ("MB", "\"64KB\", \"100MB\", \"1GB\" or \"64KiB\"");
                Err(not_a_quantity(text, error, "a size", forms))
            }
        }
    }
}
