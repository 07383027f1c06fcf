//! Numbers as people read them: three digits and the unit that fits.

use std::time::Duration;

/// Text in place of a figure that does not exist.
pub(crate) const NONE: &str = "–";

/// Nanoseconds: `870 ns`, `12.3 µs`, `1.05 ms`, `2.50 s`, `3,600 s`.
pub(crate) fn duration(nanoseconds: f64) -> String {
    scaled(nanoseconds, 1000.0, &["ns", "µs", "ms", "s"])
}

/// A span of time, in the same way.
pub(crate) fn span(time: Duration) -> String {
    duration(time.as_secs_f64() * 1e9)
}

/// Bytes by thousands, or with their sign where there are fewer than before: `170 B`, `1.05 MB`.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, 1000.0, &["B", "KB", "MB", "GB", "TB", "PB"])
}

/// How many, with commas: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How many with the word for it: `1 failure`, `2 failures`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// So many a second: `0.50/s`, `99.5/s`, `12,345/s`.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", number(per_second))
}

/// A share of one in per cent; only 0 itself is shown as `0`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.01 {
        "< 0.01 %".to_owned()
    } else {
        format!("{} %", number(percent))
    }
}

/// Three digits, or all digits before the point, with commas.
pub(crate) fn number(number: f64) -> String {
    if !number.is_finite() {
        return NONE.to_owned();
    }
    let size = number.abs();
    if size < f64::EPSILON {
        "0".to_owned()
    } else if size < 9.995 {
        format!("{number:.2}")
    } else if size < 99.95 {
        format!("{number:.1}")
    } else {
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(size.round() as u64))
    }
}

/// Without zeros at the end of a fraction, for figures that are round: `50.0 ms` is `50 ms`.
pub(crate) fn short(figure: &str) -> String {
    let (number, unit) = figure
        .split_once(' ')
        .map_or((figure, ""), |(number, unit)| (number, unit));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}").trim_end().to_owned()
}

fn scaled(mut amount: f64, step: f64, units: &[&str]) -> String {
    // Rounding first: 999.96 µs is 1.00 ms, not 1,000 µs.
    let mut unit = 0;
    while amount.abs() >= step - 0.5 && unit + 1 < units.len() {
        amount /= step;
        unit += 1;
    }
    let text = if unit == 0 && amount.fract() == 0.0 {
        format!("{amount:.0}")
    } else {
        number(amount)
    };
    format!("{text} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_three_digits_and_the_unit_that_fits() {
        let durations = [
            (0.0, "0 ns"),
            (7.0, "7 ns"),
            (870.4, "870 ns"),
            (12_345.0, "12.3 µs"),
            (999_960.0, "1.00 ms"),
            (1_049_000.0, "1.05 ms"),
            (2.5e9, "2.50 s"),
            (3.6e12, "3,600 s"),
        ];
        for (nanoseconds, text) in durations {
            assert_eq!(duration(nanoseconds), text);
        }
        assert_eq!(bytes(170.0), "170 B");
        assert_eq!(bytes(-20_480.0), "-20.5 KB");
        assert_eq!(bytes(u64::MAX as f64), "18,447 PB");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(rate(12_345.4), "12,345/s");
        assert_eq!(rate(0.5), "0.50/s");
        assert_eq!(rate(f64::INFINITY), "–/s");
        assert_eq!(short("50.0 ms"), "50 ms");
        assert_eq!(
            (short("1.50"), short("100 s")),
            ("1.5".to_owned(), "100 s".to_owned())
        );
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(1e-7), "< 0.01 %");
        assert_eq!(percent(0.0), "0 %");
    }
}
