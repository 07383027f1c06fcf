//! Quantities that cannot be read: what to write instead.

use crate::codes::Code;
use crate::document::Text;
use crate::place::At;
use crate::units::{self, UnitError};

use super::Checker;

impl Checker<'_> {
    /// A quantity without a unit, or with a wrong one. `what` it should be, `unit` and `forms` are
    /// for the cure.
    pub(crate) fn unit<T>(
        &mut self,
        error: UnitError,
        text: &Text,
        at: &At,
        what: &str,
        (unit, forms): (&str, &str),
    ) -> Option<T> {
        let digits: String = text
            .value
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let message = format!("{:?} is not {what}", text.raw);
        let general = format!("write a whole number and a unit: {forms}");
        let shown = |cure: String| {
            if text.is_secret() {
                general.clone()
            } else {
                cure
            }
        };
        let whole = units::whole(&text.value, unit)
            .map_or_else(|| general.clone(), |whole| format!("write \"{whole}\""));
        let (code, why, cure) = match error {
            UnitError::NoUnit => (
                Code::Unit,
                "the unit is missing",
                shown(readings(&digits, unit)),
            ),
            UnitError::NoNumber => (Code::Unit, "the number is missing", general.clone()),
            UnitError::Unknown { meant: Some(meant) } => {
                let every = if unit == "KB/s" { "/s" } else { "" };
                (
                    Code::Unit,
                    "this unit is not known",
                    shown(format!("write \"{digits}{meant}{every}\"")),
                )
            }
            UnitError::Unknown { meant: None } => {
                (Code::Unit, "this unit is not known", shown(whole))
            }
            UnitError::NotWhole if text.value.starts_with('-') => {
                (Code::OutOfRange, "it is less than nothing", general.clone())
            }
            UnitError::NotWhole => (Code::Unit, "only whole numbers are read", shown(whole)),
            UnitError::TooLarge => (Code::OutOfRange, "it is too large", general.clone()),
        };
        self.invalid(code, at, message, why, cure)
    }

    /// A rate of nothing.
    pub(crate) fn zero<T>(&mut self, text: &Text, at: &At) -> Option<T> {
        let message = format!("{:?} is too small", text.raw);
        self.invalid(
            Code::OutOfRange,
            at,
            message,
            "it would let nothing through",
            String::new(),
        )
    }
}

fn readings(digits: &str, unit: &str) -> String {
    let number = digits.parse();
    match (unit, number) {
        ("s", Ok(number)) => units::duration_readings(number),
        ("MB", Ok(number)) => units::size_readings(number),
        ("KB/s", _) => format!("write \"{digits}KB/s\""),
        ("%", _) => format!("write \"{digits}%\""),
        ("/s", _) => format!("write \"{digits}/s\", \"{digits}/m\" or \"{digits}/h\""),
        _ => format!("write \"{digits}{unit}\""),
    }
}
