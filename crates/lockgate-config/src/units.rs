//! Durations, sizes, rates and percentages: a number and a unit.
//!
//! It does not know the keys nor their limits. The errors hold no text of the input.

use std::time::Duration;

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitError {
    /// The unit is missing and cannot be guessed.
    NoUnit,
    /// The number is missing.
    NoNumber,
    /// The unit does not exist; `meant` is the one that it probably stands for.
    Unknown { meant: Option<&'static str> },
    /// The number has a fraction or a sign.
    NotWhole,
    /// More than ten years, or more bytes than 64 bits count.
    TooLarge,
}

/// The longest duration: added to a clock it cannot overflow.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// The units of time, with their milliseconds.
pub(crate) const TIME: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// The units of size, with their bytes: K, M, G, T count by 1,000, and Ki, Mi, Gi, Ti by 1,024.
pub(crate) const SIZE: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Names of units in other programs, with ours.
const OTHER_NAMES: [(&str, &str); 34] = [
    ("r/s", "/s"),
    ("r/m", "/m"),
    ("/sec", "/s"),
    ("/second", "/s"),
    ("/min", "/m"),
    ("/minute", "/m"),
    ("/hour", "/h"),
    ("percent", "%"),
    ("msec", "ms"),
    ("millis", "ms"),
    ("milliseconds", "ms"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("min", "m"),
    ("mins", "m"),
    ("minute", "m"),
    ("minutes", "m"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("year", "y"),
    ("years", "y"),
    ("k", "KB"),
    ("m", "MB"),
    ("g", "GB"),
    ("t", "TB"),
    ("ki", "KiB"),
    ("mi", "MiB"),
    ("gi", "GiB"),
    ("byte", "B"),
    ("bytes", "B"),
];

/// Parses `"500ms"`, `"10s"`, `"2m"`, `"1h"`, `"1d"`.
pub(crate) fn duration(text: &str) -> Result<Duration, UnitError> {
    let millis = quantity(text, &TIME)?;
    let duration = Duration::from_millis(millis);
    if duration > LONGEST {
        Err(UnitError::TooLarge)
    } else {
        Ok(duration)
    }
}

/// Parses a time to keep responses: a duration, or years (`"1y"`).
pub(crate) fn age(text: &str) -> Result<Duration, UnitError> {
    const AGE: [(&str, u64); 6] = [
        ("ms", 1),
        ("s", 1_000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
        ("y", 365 * 86_400_000),
    ];
    let age = Duration::from_millis(quantity(text, &AGE)?);
    if age > LONGEST {
        Err(UnitError::TooLarge)
    } else {
        Ok(age)
    }
}

/// Parses `"512B"`, `"64KB"`, `"100MB"`, `"1GiB"` into bytes.
pub(crate) fn size(text: &str) -> Result<u64, UnitError> {
    quantity(text, &SIZE)
}

/// Parses `"10KB/s"` into bytes a second, at least 1.
pub(crate) fn rate(text: &str) -> Result<u64, UnitError> {
    let Some(bytes) = text.strip_suffix("/s") else {
        return Err(match size(text) {
            Ok(_) => UnitError::Unknown { meant: None },
            Err(error) => error,
        });
    };
    size(bytes)
}

/// Parses a share: `"20%"`.
pub(crate) fn percent(text: &str) -> Result<u64, UnitError> {
    quantity(text, &[("%", 1)])
}

/// Parses a count and its time: `"20/s"`, `"100/m"`, `"1000/h"`.
pub(crate) fn frequency(text: &str) -> Result<(u32, Duration), UnitError> {
    const EVERY: [(&str, u64); 3] = [("/s", 1), ("/m", 60), ("/h", 3_600)];
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let every = EVERY
        .iter()
        .find(|(unit, _)| *unit == text.get(unit_at..).unwrap_or_default());
    // The scale is not multiplied in: 1,000 an hour are not 17 a minute.
    let number = quantity(text, &[("/s", 1), ("/m", 1), ("/h", 1)])?;
    let count = u32::try_from(number).map_err(|_| UnitError::TooLarge)?;
    let seconds = every.map_or(1, |(_, seconds)| *seconds);
    Ok((count, Duration::from_secs(seconds)))
}

/// The duration in its largest unit without a fraction: `1ms`, `1m`.
pub(crate) fn shortest(millis: u64) -> String {
    let scale = TIME
        .iter()
        .rev()
        .find(|(_, scale)| millis >= *scale && millis.is_multiple_of(*scale));
    scale.map_or_else(
        || format!("{millis}ms"),
        |(unit, scale)| format!("{}{unit}", millis / scale),
    )
}

/// The size in its largest unit without a fraction, by 1,000 if it can be: `1KB`, `64KiB`, `500B`.
pub(crate) fn smallest(bytes: u64) -> String {
    let (by_1000, by_1024) = SIZE.split_at(5);
    let (bytes_alone, by_1000) = by_1000.split_at(1);
    let mut units = by_1000
        .iter()
        .rev()
        .chain(by_1024.iter().rev())
        .chain(bytes_alone);
    let scale = units.find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale));
    scale.map_or_else(
        || format!("{bytes}B"),
        |(unit, scale)| format!("{}{unit}", bytes / scale),
    )
}

/// The durations that a number without a unit may mean, the likeliest first.
pub(crate) fn duration_readings(number: u64) -> String {
    match number {
        number if number >= 1_000 && number.is_multiple_of(1_000) => {
            format!(
                "write \"{}\" for {number} milliseconds, or \"{number}s\" for seconds",
                shortest(number)
            )
        }
        number => format!(
            "write \"{number}s\" for seconds, \"{number}ms\" for milliseconds or \"{number}m\" for minutes"
        ),
    }
}

/// The sizes that a number without a unit may mean, the likeliest first.
pub(crate) fn size_readings(number: u64) -> String {
    match smallest(number) {
        bytes if number >= 10_000 => format!("write \"{bytes}\", which is {number} bytes"),
        _ => format!("write \"{number}KB\" (times 1,000 bytes), \"{number}MB\" or \"{number}B\""),
    }
}

/// The whole number and unit for a quantity with a fraction, several units or bits: `1h30m`,
/// `1.5GB`, `100Mbit/s`. `unit` is a unit of its kind.
pub(crate) fn whole(text: &str, unit: &str) -> Option<String> {
    match unit {
        "s" => Some(shortest(sum(text, &TIME)?)),
        "MB" => Some(smallest(sum(text, &SIZE)?)),
        "KB/s" => {
            let bytes = text.strip_suffix("/s").and_then(|text| sum(text, &SIZE));
            Some(format!("{}/s", smallest(bytes.or_else(|| bits(text))?)))
        }
        _ => None,
    }
}

/// Numbers with units, one behind the other, as the smallest unit.
fn sum(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let (_, scale) = units
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let parts = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let fraction = if fraction.is_empty() {
            0
        } else {
            fraction.parse().ok()?
        };
        let part = scale.checked_mul(fraction)?;
        let whole = scale
            .checked_mul(whole.parse().ok()?)?
            .checked_add(part / parts)?;
        total = total
            .checked_add(whole)
            .filter(|_| part.is_multiple_of(parts))?;
        rest = next.trim_start();
    }
    Some(total).filter(|total| *total > 0)
}

/// Bits a second as bytes a second: `100Mbit/s`, `10mbps`.
fn bits(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = lower.split_at(digits);
    let scale = match unit
        .trim()
        .trim_end_matches("it/s")
        .trim_end_matches("ps")
        .trim_end_matches("it")
    {
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    let bits: u64 = number.parse::<u64>().ok()?.checked_mul(scale)?;
    Some(bits / 8)
}

fn quantity(text: &str, units: &'static [(&str, u64)]) -> Result<u64, UnitError> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    if number.is_empty() {
        return Err(if text.starts_with(['-', '+', '.']) {
            UnitError::NotWhole
        } else {
            UnitError::NoNumber
        });
    }
    if unit.is_empty() {
        return Err(UnitError::NoUnit);
    }
    if unit.starts_with(['.', ',', '_']) {
        return Err(UnitError::NotWhole);
    }
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(UnitError::Unknown {
            meant: meant_unit(unit.trim(), units),
        });
    };
    let number: u64 = number.parse().map_err(|_| UnitError::TooLarge)?;
    number.checked_mul(*scale).ok_or(UnitError::TooLarge)
}

fn meant_unit(unit: &str, units: &'static [(&str, u64)]) -> Option<&'static str> {
    let known = |wanted: &str| {
        units
            .iter()
            .map(|(name, _)| *name)
            .find(|name| name.eq_ignore_ascii_case(wanted))
    };
    let lower = unit.to_ascii_lowercase();
    known(unit).or_else(|| {
        OTHER_NAMES
            .iter()
            .filter(|(other, _)| *other == lower)
            .find_map(|(_, ours)| known(ours))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        let unknown = |meant| Err(UnitError::Unknown { meant });
        for (text, expected) in [
            ("500ms", Ok(500)),
            ("10s", Ok(10_000)),
            ("2m", Ok(120_000)),
            ("1h", Ok(3_600_000)),
            ("1d", Ok(86_400_000)),
            ("0s", Ok(0)),
            ("3650d", Ok(315_360_000_000)),
            ("", Err(UnitError::NoNumber)),
            ("s", Err(UnitError::NoNumber)),
            ("10", Err(UnitError::NoUnit)),
            ("10 s", unknown(Some("s"))),
            ("10S", unknown(Some("s"))),
            ("10sec", unknown(Some("s"))),
            ("5min", unknown(Some("m"))),
            ("10parsec", unknown(None)),
            ("1h30m", unknown(None)),
            ("1.5s", Err(UnitError::NotWhole)),
            ("-1s", Err(UnitError::NotWhole)),
            ("1_000s", Err(UnitError::NotWhole)),
            ("3651d", Err(UnitError::TooLarge)),
            ("99999999999999999999s", Err(UnitError::TooLarge)),
            ("18446744073709551615d", Err(UnitError::TooLarge)),
        ] {
            assert_eq!(duration(text).map(|d| d.as_millis()), expected, "{text}");
        }
    }

    #[test]
    fn sizes_count_by_1000_and_with_an_i_by_1024() {
        let unknown = |meant| Err(UnitError::Unknown { meant });
        for (text, expected) in [
            ("512B", Ok(512)),
            ("4KB", Ok(4_000)),
            ("4KiB", Ok(4_096)),
            ("100MB", Ok(100_000_000)),
            ("1MiB", Ok(1_048_576)),
            ("10GB", Ok(10_000_000_000)),
            ("1TiB", Ok(1_099_511_627_776)),
            ("4K", unknown(Some("KB"))),
            ("4kb", unknown(Some("KB"))),
            ("4M", unknown(Some("MB"))),
            ("4s", unknown(None)),
            ("100", Err(UnitError::NoUnit)),
            ("18446744073709551615TB", Err(UnitError::TooLarge)),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }
}
