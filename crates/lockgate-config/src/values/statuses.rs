//! Statuses and ranges of statuses: `200`, `200-399`.

use std::ops::RangeInclusive;

use serde_json::Value as Json;

use crate::codes::Code;
use crate::document::TomlString;
use crate::language::pattern;

use super::{InvalidText, TextLanguage};

/// Statuses from this one to 599: `200`, `200-399`.
pub(crate) struct StatusRanges {
    pub(crate) from: u16,
}

impl TextLanguage for StatusRanges {
    type Value = RangeInclusive<u16>;

    const EXPECTED: &str = "";

    fn expected(&self) -> String {
        format!("statuses such as {}", such_as(self.from))
    }

    fn schema(&self) -> Json {
        let status = format!("[{}-5][0-9][0-9]", self.from / 100);
        pattern(&format!("^{status}(-{status})?$"))
    }

    fn parse(&self, text: &TomlString) -> Result<RangeInclusive<u16>, InvalidText> {
        let range = statuses(&text.value).filter(|range| *range.start() >= self.from);
        range.ok_or_else(|| {
            let message = "is not a status that can stand here";
            let why = format!("statuses go from {} to 599", self.from);
            let cure = format!("write {}", such_as(self.from));
            text.invalid(Code::BadText, message, why, cure)
        })
    }
}

/// An example for statuses that begin with `from`.
fn such_as(from: u16) -> &'static str {
    if from < 500 {
        "\"200\" or \"200-399\""
    } else {
        "\"503\" or \"502-504\""
    }
}

/// One status or a range of them.
pub(crate) fn statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let status = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>()
            .ok()
            .filter(|status| digits && (100..600).contains(status))
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (status(from)?, status(to)?);
    (from <= to).then_some(from..=to)
}
