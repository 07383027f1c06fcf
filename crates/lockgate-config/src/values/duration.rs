//! Durations, and ages in whole seconds.

use std::time::Duration;

use crate::codes::Code;
use crate::document::TomlString;
use crate::units;

use super::quantity::not_a_quantity;
use super::{InvalidText, TextLanguage};

/// A duration, of at least so many milliseconds.
pub(crate) struct Time {
    pub(crate) min: u64,
}

/// A time in whole seconds, which may be counted in years.
pub(crate) struct Age;

impl TextLanguage for Time {
    type Value = Duration;

    const EXPECTED: &str = "a duration such as \"10s\"";
    const PATTERN: &str = "^[0-9]+(ms|s|m|h|d)$";
    const UNIT: Option<&'static str> = Some("`ms`, `s`, `m`, `h`, `d`");

    fn reference(&self) -> String {
        match self.min {
            0 => self.expected(),
            min => format!("{}, at least {}", self.expected(), units::shortest(min)),
        }
    }

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(units::duration_readings(number))
    }

    fn parse(&self, text: &TomlString) -> Result<Duration, InvalidText> {
        match units::duration(&text.value) {
            Ok(duration) if duration.as_millis() < u128::from(self.min) => {
                let cure = format!("write at least \"{}\"", units::shortest(self.min));
                Err(text.invalid(Code::OutOfRange, "is too short", "", cure))
            }
            Ok(duration) => Ok(duration),
            Err(error) => {
                let forms = ("s", "\"10s\", \"500ms\", \"2m\", \"1h\" or \"1d\"");
                Err(not_a_quantity(text, error, "a duration", forms))
            }
        }
    }
}

impl TextLanguage for Age {
    type Value = Duration;

    const EXPECTED: &str = "a time such as \"30d\" or \"1y\"";
    const PATTERN: &str = "^[0-9]+[smhdy]$";
    const UNIT: Option<&'static str> = Some("`s`, `m`, `h`, `d`, `y` (365 days)");

    fn parse(&self, text: &TomlString) -> Result<Duration, InvalidText> {
        match units::age(&text.value) {
            Ok(age) if age.subsec_nanos() == 0 => Ok(age),
            Ok(_) => {
                let message = "is no whole number of seconds";
                Err(text.invalid(Code::OutOfRange, message, "", "write \"30d\" or \"1y\""))
            }
            Err(error) => {
                let forms = ("d", "\"1h\", \"30d\" or \"1y\"");
                Err(not_a_quantity(text, error, "a time", forms))
            }
        }
    }
}
