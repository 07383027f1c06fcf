//! Quantities that cannot be read: what to write instead.

use crate::codes::Code;
use crate::document::TomlString;
use crate::units::{self, UnitError};

use super::InvalidText;

/// A quantity without a unit, or with a wrong one. `what` it should be, `unit` and `forms` are for
/// the cure.
pub(super) fn not_a_quantity(
    text: &TomlString,
    error: UnitError,
    what: &str,
    (unit, forms): (&str, &str),
) -> InvalidText {
    let value = &*text.value;
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    let whole = || units::whole(value, unit).map(|whole| format!("write \"{whole}\""));
    let (code, why, cure) = match error {
        UnitError::NoUnit => (
            Code::Unit,
            "the unit is missing",
            Some(readings(&digits, unit)),
        ),
        UnitError::NoNumber => (Code::Unit, "the number is missing", None),
        UnitError::Unknown { meant } => {
            let every = if unit == "KB/s" { "/s" } else { "" };
            let meant = meant.map(|meant| format!("write \"{digits}{meant}{every}\""));
            (Code::Unit, "this unit is not known", meant.or_else(whole))
        }
        UnitError::NotWhole if value.starts_with('-') => (Code::OutOfRange, "it is negative", None),
        UnitError::NotWhole => (Code::Unit, "only whole numbers are read", whole()),
        UnitError::TooLarge => (Code::OutOfRange, "it is too large", None),
    };
    let general = format!("write a whole number and a unit: {forms}");
    let message = format!("is not {what}");
    text.invalid(code, &message, why, general).or_meant(cure)
}

/// The mistake of a rate that lets nothing through.
pub(super) fn zero(text: &TomlString) -> InvalidText {
    let why = "a rate of 0 allows nothing";
    text.invalid(Code::OutOfRange, "is too small", why, "")
}

/// The quantities that a number without its unit may mean, the likeliest first.
fn readings(digits: &str, unit: &str) -> String {
    match (unit, digits.parse()) {
        ("s", Ok(number)) => units::duration_readings(number),
        ("MB", Ok(number)) => units::size_readings(number),
        ("KB/s", _) => format!("write \"{digits}KB/s\""),
        ("/s", _) => frequency_readings(digits),
        _ => format!("write \"{digits}{unit}\""),
    }
}

/// The frequencies that a number of requests may mean.
pub(super) fn frequency_readings(number: impl std::fmt::Display) -> String {
    format!("write \"{number}/s\", \"{number}/m\" or \"{number}/h\"")
}
