//! Times as logs write them: a second is put down once, however many lines it has.

use lockgate_http::date::Calendar;

/// `2026-11-21T20:56:01.`
const ISO: usize = 20;
/// `21/Nov/2026:20:56:01 +0000`
const COMMON: usize = 26;

/// The second that was written last.
#[derive(Debug)]
pub(super) struct Timestamps {
    second: u64,
    iso: [u8; ISO],
    common: [u8; COMMON],
}

impl Default for Timestamps {
    fn default() -> Self {
        let (iso, common) = put_down(0);
        Self {
            second: 0,
            iso,
            common,
        }
    }
}

impl Timestamps {
    /// `2026-11-21T20:56:01.234Z` from milliseconds since 1970.
    pub(super) fn write_iso(&mut self, out: &mut Vec<u8>, unix_ms: u64) {
        self.turn_to(unix_ms / 1_000);
        let [high, low] = two(unix_ms / 10 % 100);
        out.extend_from_slice(&self.iso);
        out.extend_from_slice(&[high, low, b'0' + (unix_ms % 10) as u8, b'Z']);
    }

    /// `21/Nov/2026:20:56:01 +0000` from milliseconds since 1970.
    pub(super) fn write_common(&mut self, out: &mut Vec<u8>, unix_ms: u64) {
        self.turn_to(unix_ms / 1_000);
        out.extend_from_slice(&self.common);
    }

    fn turn_to(&mut self, second: u64) {
        if second != self.second {
            let (iso, common) = put_down(second);
            *self = Self {
                second,
                iso,
                common,
            };
        }
    }
}

fn put_down(second: u64) -> ([u8; ISO], [u8; COMMON]) {
    let at = Calendar::of_unix(second);
    let (mut iso, mut common) = (*b"0000-00-00T00:00:00.", *b"00/Jan/0000:00:00:00 +0000");
    common[3..6].copy_from_slice(at.month_name());
    let [century, year] = [at.year / 100, at.year % 100].map(|n| two(n.into()));
    for (n, in_iso, in_common) in [
        (century, 0, 7),
        (year, 2, 9),
        (two(at.month.into()), 5, 0),
        // After the month, which has its name there.
        (two(at.day.into()), 8, 0),
        (two(at.hour.into()), 11, 12),
        (two(at.minute.into()), 14, 15),
        (two(at.second.into()), 17, 18),
    ] {
        iso[in_iso..in_iso + 2].copy_from_slice(&n);
        common[in_common..in_common + 2].copy_from_slice(&n);
    }
    (iso, common)
}

fn two(n: u64) -> [u8; 2] {
    [b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_timestamps_follow_the_calendar_in_any_order() {
        let mut stamps = Timestamps::default();
        for (unix_ms, iso, common) in [
            (0, "1970-01-01T00:00:00.000Z", "01/Jan/1970:00:00:00 +0000"),
            (
                951_782_399_999,
                "2000-02-28T23:59:59.999Z",
                "28/Feb/2000:23:59:59 +0000",
            ),
            (
                951_782_400_000,
                "2000-02-29T00:00:00.000Z",
                "29/Feb/2000:00:00:00 +0000",
            ),
            (
                1_795_294_561_234,
                "2026-11-21T20:56:01.234Z",
                "21/Nov/2026:20:56:01 +0000",
            ),
            (
                1_795_294_561_007,
                "2026-11-21T20:56:01.007Z",
                "21/Nov/2026:20:56:01 +0000",
            ),
            (
                1_709_164_800_000,
                "2024-02-29T00:00:00.000Z",
                "29/Feb/2024:00:00:00 +0000",
            ),
            (
                1_798_761_599_007,
                "2026-12-31T23:59:59.007Z",
                "31/Dec/2026:23:59:59 +0000",
            ),
            (
                4_107_542_400_000,
                "2100-03-01T00:00:00.000Z",
                "01/Mar/2100:00:00:00 +0000",
            ),
        ] {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            stamps.write_iso(&mut a, unix_ms);
            stamps.write_common(&mut b, unix_ms);
            assert_eq!(String::from_utf8(a).unwrap(), iso);
            assert_eq!(String::from_utf8(b).unwrap(), common);
        }
        stamps.write_iso(&mut Vec::new(), u64::MAX);
    }
}
