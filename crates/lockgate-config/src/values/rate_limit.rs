//! Rate limits.

use std::time::Duration;

use lockgate_http::h1::parse::is_token;
use lockgate_rules::{Allowance, LimitScope};

use crate::codes::Code;
use crate::document::TomlString;
use crate::units;

use super::quantity::{frequency_readings, not_a_quantity, zero};
use super::{InvalidText, TextLanguage};

/// Requests in a time: `20/s`.
pub(crate) struct Frequency;

/// A frequency with a burst: `20/s burst 200`.
pub(crate) struct Burst;

/// A frequency and what belongs to it: `20/s per client burst 40`.
pub(crate) struct LimitText;

/// The property that a limit counts by: `client`, `route`, `header:NAME`.
pub(crate) struct LimitBy;

impl TextLanguage for Frequency {
    type Value = (u32, Duration);

    const EXPECTED: &str = "a rate such as \"20/s\"";
    const PATTERN: &str = "^[0-9]+/[smh]$";
    const UNIT: Option<&'static str> = Some("`/s`, `/m`, `/h`");

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(frequency_readings(number))
    }

    fn parse(&self, text: &TomlString) -> Result<(u32, Duration), InvalidText> {
        match units::frequency(&text.value) {
            Ok((0, _)) => Err(zero(text)),
            Ok(frequency) => Ok(frequency),
            Err(error) => {
                let forms = ("/s", "\"20/s\", \"100/m\" or \"1000/h\"");
                Err(not_a_quantity(text, error, "a rate", forms))
            }
        }
    }
}

impl TextLanguage for Burst {
    type Value = Allowance;

    const EXPECTED: &str = "a rate such as \"20/s burst 200\"";
    const PATTERN: &str = "^[0-9]+/[smh]( +burst +[0-9]+)?$";
    const UNIT: Option<&'static str> = Some("`/s`, `/m`, `/h`");

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(frequency_readings(number))
    }

    fn parse(&self, text: &TomlString) -> Result<Allowance, InvalidText> {
        let limit = WrittenLimit::parse(&text.value);
        let why = match limit {
            Ok(limit) if limit.frequency.0 == 0 => return Err(zero(text)),
            Ok(WrittenLimit {
                frequency: (count, every),
                per: None,
                burst,
            }) => {
                return Ok(Allowance {
                    count,
                    every,
                    burst: burst.unwrap_or(count),
                });
            }
            Ok(_) => "each connection is counted apart",
            Err(why) => why,
        };
        let cure = "write \"20/s burst 200\"";
        Err(text.invalid(Code::BadLimit, "is not a rate", why, cure))
    }
}

impl TextLanguage for LimitText {
    type Value = WrittenLimit;

    const EXPECTED: &str = "a limit such as \"20/s per client burst 40\"";
    const PATTERN: &str = "^[0-9]+/[smh]";

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(frequency_readings(number))
    }

    fn parse(&self, text: &TomlString) -> Result<WrittenLimit, InvalidText> {
        match WrittenLimit::parse(&text.value) {
            Ok(limit) if limit.frequency.0 == 0 => Err(zero(text)),
            Ok(limit) => Ok(limit),
            Err(why) => {
                let cure = "write \"20/s per client burst 40\"; or per route, or per header:x-key";
                let meant = limit_meant(&text.value).map(|meant| format!("write {meant:?}"));
                let mistake = text.invalid(Code::BadLimit, "is not a limit", why, cure);
                Err(mistake.or_meant(meant))
            }
        }
    }
}

impl TextLanguage for LimitBy {
    type Value = LimitScope;

    const EXPECTED: &str = "\"client\", \"route\" or \"header:NAME\"";
    const PATTERN: &str = "^(client|route|header:.+)$";

    fn parse(&self, text: &TomlString) -> Result<LimitScope, InvalidText> {
        limit_key(&text.value).ok_or_else(|| {
            let cure = "write \"client\", \"route\" or \"header:x-key\"";
            text.invalid(
                Code::BadLimit,
                "cannot be counted by",
                "it is not known",
                cure,
            )
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WrittenLimit {
    pub(crate) frequency: (u32, Duration),
    pub(crate) per: Option<LimitScope>,
    pub(crate) burst: Option<u32>,
}

impl WrittenLimit {
    /// Parses a limit.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut words = text.split_ascii_whitespace();
        let frequency = units::frequency(words.next().unwrap_or_default());
        let frequency = frequency.map_err(|_| "it does not begin with a rate such as \"20/s\"")?;
        let mut limit = WrittenLimit {
            frequency,
            per: None,
            burst: None,
        };
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            match word {
                "per" if limit.per.is_none() => {
                    limit.per = Some(limit_key(value).ok_or("the word after `per` is not known")?);
                }
                "burst" if limit.burst.is_none() => match value.parse() {
                    Ok(count @ 1..=1_000_000) => limit.burst = Some(count),
                    _ => return Err("the word after `burst` is not a number from 1 to 1000000"),
                },
                _ => return Err("after the rate only `per KEY` and `burst N` may follow"),
            }
        }
        Ok(limit)
    }
}

fn limit_key(text: &str) -> Option<LimitScope> {
    match text.split_once(':') {
        None if text == "client" => Some(LimitScope::Client),
        None if text == "route" => Some(LimitScope::Route),
        Some(("header", name)) if is_token(name.as_bytes()) => {
            Some(LimitScope::Header(name.to_ascii_lowercase()))
        }
        _ => None,
    }
}

/// `20 per second`, `20r/s burst=40`, `100rpm`: as it is written here.
fn limit_meant(text: &str) -> Option<String> {
    const UNITS: [(&str, &[&str]); 3] = [
        ("/s", &["second", "sec", "r/s", "req/s", "rps", "/s"]),
        ("/m", &["minute", "min", "r/m", "req/m", "rpm", "/m"]),
        ("/h", &["hour", "r/h", "req/h", "rph", "/h"]),
    ];
    let lower = text.to_ascii_lowercase();
    let digits = |text: &str| {
        text.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    let (rate, rest) = lower.split_once("burst").unwrap_or((&lower, ""));
    let number = digits(rate);
    let (unit, _) = UNITS
        .iter()
        .find(|(_, names)| names.iter().any(|name| rate.contains(name)))?;
    let per = if rate.contains("ip") || rate.contains("client") {
        " per client"
    } else {
        ""
    };
    let burst = match &*digits(rest.trim_start_matches(|c: char| !c.is_ascii_digit())) {
        "" => String::new(),
        burst => format!(" burst {burst}"),
    };
    (!number.is_empty()).then(|| format!("{number}{unit}{per}{burst}"))
}
