//! Durations, sizes and counts in the notation of the configuration.

use std::time::Duration;

/// `1h`, `90s`, `250ms`: in the largest unit that leaves no rest.
pub(crate) fn duration(duration: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
        (1, "ms"),
    ];
    let millis = duration.as_millis();
    match UNITS
        .into_iter()
        .find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit))
    {
        Some((unit, name)) if duration.subsec_nanos().is_multiple_of(1_000_000) => {
            format!("{}{name}", millis / unit)
        }
        _ if duration.is_zero() => "0s".to_owned(),
        _ => format!("{duration:?}"),
    }
}

/// `10GB`, `64KiB`, `1500B`: in the largest unit that leaves no rest.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 7] = [
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "KB"),
        (1, "B"),
    ];
    let fitting = UNITS
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    let (unit, name) = fitting.unwrap_or((1, "B"));
    format!("{}{name}", bytes / unit)
}

/// `1 listener`, `2 listeners`.
pub(crate) fn counted(count: usize, word: &str) -> String {
    if count == 1 {
        format!("1 {word}")
    } else {
        format!("{count} {word}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_largest_unit_without_a_rest() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (28_800_000, "8h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(duration(Duration::from_micros(1_500)), "1.5ms");
    }

    #[test]
    fn sizes_have_the_largest_unit_without_a_rest() {
        for (bytes, text) in [
            (0, "0B"),
            (1_500, "1500B"),
            (10_000_000_000, "10GB"),
            (65_536, "64KiB"),
            (2_000, "2KB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
