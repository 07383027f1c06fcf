//! Days of the calendar, and the date as HTTP writes it.
//!
//! Knows no clock: seconds since 1970 come in, leap seconds do not exist, years go to 9999.

/// Length of [`imf_fixdate`].
pub const LENGTH: usize = 29;

const WEEKDAYS: &[u8; 21] = b"SunMonTueWedThuFriSat";
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// The last second of the year 9999: what is later is shown as that.
const LAST: u64 = 253_402_300_799;

/// A moment of the Gregorian calendar in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    /// 1970 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// Since Sunday, 0 to 6.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Calendar {
    /// The moment so many seconds after 1970-01-01 00:00 UTC.
    ///
    /// Days to date by Howard Hinnant's `civil_from_days`: years start in March, so that the leap day is a year's last.
    pub const fn of_unix(seconds: u64) -> Self {
        let seconds = if seconds < LAST { seconds } else { LAST };
        let (since_1970, of_day) = (seconds / 86_400, seconds % 86_400);
        let days = since_1970 + 719_468; // since 0000-03-01
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + (month <= 2) as u64;
        Self {
            year: year as u16,
            month: month as u8,
            day: day as u8,
            weekday: ((since_1970 + 4) % 7) as u8, // 1970 began on a Thursday
            hour: (of_day / 3_600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
        }
    }

    /// `Sun`
    pub fn weekday_name(&self) -> &'static [u8] {
        third(WEEKDAYS, usize::from(self.weekday))
    }

    /// `Nov`
    pub fn month_name(&self) -> &'static [u8] {
        third(MONTHS, usize::from(self.month).saturating_sub(1))
    }
}

fn third(names: &'static [u8], place: usize) -> &'static [u8] {
    names.get(3 * place..3 * place + 3).unwrap_or(b"???")
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7), from seconds since 1970.
pub fn imf_fixdate(unix_seconds: u64) -> [u8; LENGTH] {
    let at = Calendar::of_unix(unix_seconds);
    let mut out = *b"Sun, 00 Jan 0000 00:00:00 GMT";
    out[0..3].copy_from_slice(at.weekday_name());
    out[5..7].copy_from_slice(&two(at.day));
    out[8..11].copy_from_slice(at.month_name());
    out[12..14].copy_from_slice(&two((at.year / 100) as u8));
    out[14..16].copy_from_slice(&two((at.year % 100) as u8));
    out[17..19].copy_from_slice(&two(at.hour));
    out[20..22].copy_from_slice(&two(at.minute));
    out[23..25].copy_from_slice(&two(at.second));
    out
}

const fn two(n: u8) -> [u8; 2] {
    [b'0' + n / 10, b'0' + n % 10]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), // the example of RFC 9110 §5.6.7
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), // divisible by 400: a leap year
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
            (1_740_787_200, "Sat, 01 Mar 2025 00:00:00 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
            (1_798_761_600, "Fri, 01 Jan 2027 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"), // divisible by 100: none
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&imf_fixdate(seconds)), Ok(expected));
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = Calendar::of_unix(0);
        for day in 1..60_000 {
            let now = Calendar::of_unix(day * 86_400);
            assert_eq!(now.weekday, (before.weekday + 1) % 7);
            let tomorrow = (now.year, now.month, now.day) == (before.year, before.month, before.day + 1);
            let next_month = (now.year, now.month, now.day) == (before.year, before.month + 1, 1);
            let next_year = (now.year, now.month, now.day) == (before.year + 1, 1, 1) && before.month == 12;
            assert!((tomorrow && now.day <= 31) || next_month && before.day >= 28 || next_year, "{now:?}");
            before = now;
        }
    }
}
