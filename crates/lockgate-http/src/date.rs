//! The calendar, and the date as HTTP writes and reads it.
//!
//! Knows no clock: times are seconds since 1970 without leap seconds, up to the year 9999.
//!
//! Own code, because the `httpdate` crate (1.0.3) refuses a leap second and a date with another
//! weekday, takes spaces around a date, and gives a two-digit year a fixed century.

/// The length of an [`imf_fixdate`] in bytes.
pub const LENGTH: usize = 29;

const WEEKDAYS: &[u8; 21] = b"SunMonTueWedThuFriSat";
/// The rest of a weekday's name behind its first three letters.
const WEEKDAY_ENDS: [&[u8]; 7] = [
    b"day", b"day", b"sday", b"nesday", b"rsday", b"day", b"urday",
];
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// The last second of the year 9999: later times are shown as this one.
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
    /// Days since Sunday, 0 to 6.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Calendar {
    /// The moment `seconds` after 1970-01-01 00:00 UTC.
    ///
    /// Days to date by Howard Hinnant's `civil_from_days`: years start in March, so that the leap
    /// day is a year's last.
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
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
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

    /// The first three letters, as in `Sun`.
    pub fn weekday_name(&self) -> &'static [u8] {
        third(WEEKDAYS, usize::from(self.weekday))
    }

    /// The first three letters, as in `Nov`.
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

/// Parses a date in any of the three forms that a recipient must accept (RFC 9110 §5.6.7), to
/// seconds since 1970.
///
/// `now`, in the same unit, decides the century of a two-digit year. `None` if it is no date, or
/// one before 1970. The weekday need not be the right one; a leap second is the second after it.
pub fn parse(value: &[u8], now: u64) -> Option<u64> {
    let mut text = DateReader(value);
    let weekday = text.name(WEEKDAYS)?;
    let (year, month, day, time);
    if text.takes(b", ") {
        // Sun, 06 Nov 1994 08:49:37 GMT
        day = text.number(2)?;
        month = text.between(b" ", |text| text.name(MONTHS), b" ")? as u64 + 1;
        year = text.number(4)?;
        time = text.between(b" ", DateReader::time, b" GMT")?;
    } else if text.takes(b" ") {
        // Sun Nov  6 08:49:37 1994
        month = text.name(MONTHS)? as u64 + 1;
        day = if text.takes(b"  ") {
            text.number(1)?
        } else {
            text.between(b" ", |text| text.number(2), b"")?
        };
        time = text.between(b" ", DateReader::time, b" ")?;
        year = text.number(4)?;
    } else {
        // Sunday, 06-Nov-94 08:49:37 GMT
        text.takes(WEEKDAY_ENDS[weekday]).then_some(())?;
        day = text.between(b", ", |text| text.number(2), b"-")?;
        month = text.name(MONTHS)? as u64 + 1;
        let of_century = text.between(b"-", |text| text.number(2), b" ")?;
        time = text.time()?;
        text.takes(b" GMT").then_some(())?;
        year = full_year(of_century, (month, day, time), now);
    }
    let fits = text.0.is_empty() && year >= 1970 && (1..=days_of(year, month)).contains(&day);
    fits.then(|| days_since_1970(year, month, day) * 86_400 + time)
}

/// RFC 9110 §5.6.7: a date that appears to be more than 50 years in the future is in the latest
/// past year with the same last two digits.
fn full_year(of_century: u64, of_year: (u64, u64, u64), now: u64) -> u64 {
    let at = Calendar::of_unix(now);
    let farthest = u64::from(at.year) + 50;
    let year = farthest - (farthest - of_century) % 100;
    let now_of_year = (u64::from(at.month), u64::from(at.day), now % 86_400);
    if year == farthest && of_year > now_of_year {
        year - 100
    } else {
        year
    }
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Howard Hinnant's `days_from_civil`, the inverse of [`Calendar::of_unix`]; not for years before
/// 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The unread part of a date.
struct DateReader<'a>(&'a [u8]);

impl DateReader<'_> {
    /// Dates are case-sensitive.
    fn takes(&mut self, literal: &[u8]) -> bool {
        let rest = self.0.strip_prefix(literal);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn between<T>(
        &mut self,
        before: &[u8],
        read: impl FnOnce(&mut Self) -> Option<T>,
        behind: &[u8],
    ) -> Option<T> {
        if !self.takes(before) {
            return None;
        }
        read(self).filter(|_| self.takes(behind))
    }

    fn number(&mut self, digits: usize) -> Option<u64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + u64::from(digit - b'0'))
        })
    }

    /// The index in `names`, which have three letters each.
    fn name(&mut self, names: &[u8]) -> Option<usize> {
        let (name, rest) = self.0.split_at_checked(3)?;
        self.0 = rest;
        names.chunks_exact(3).position(|other| other == name)
    }

    /// The time of day, in seconds since midnight.
    fn time(&mut self) -> Option<u64> {
        let hour = self.number(2)?;
        let minute = self.between(b":", |text| text.number(2), b":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3_600 + minute * 60 + second)
    }
}

const fn two(n: u8) -> [u8; 2] {
    [b'0' + n / 10, b'0' + n % 10]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imf_fixdate_follows_the_calendar() {
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
    fn every_day_follows_the_day_before() {
        let mut before = Calendar::of_unix(0);
        for day in 1..60_000 {
            let now = Calendar::of_unix(day * 86_400);
            assert_eq!(now.weekday, (before.weekday + 1) % 7);
            let tomorrow =
                (now.year, now.month, now.day) == (before.year, before.month, before.day + 1);
            let next_month = (now.year, now.month, now.day) == (before.year, before.month + 1, 1);
            let next_year =
                (now.year, now.month, now.day) == (before.year + 1, 1, 1) && before.month == 12;
            assert!(
                (tomorrow && now.day <= 31) || next_month && before.day >= 28 || next_year,
                "{now:?}"
            );
            before = now;
        }
    }

    /// 2026-11-22 00:00:00.
    const NOW: u64 = 1_795_305_600;

    /// RFC 9110 §5.6.7.
    #[test]
    fn an_http_date_has_three_forms() {
        for value in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(value.as_bytes(), NOW), Some(784_111_777), "{value}");
        }
        for (value, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu Jan  1 00:00:00 1970", 0),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Wed Nov 16 08:49:37 1994", 784_975_777),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
            // "60" is in the grammar; this is the leap second before 2017.
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
            // It was a Sunday: clients with another weekday mean the same moment.
            ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ] {
            assert_eq!(parse(value.as_bytes(), NOW), Some(seconds), "{value}");
        }
    }

    #[test]
    fn malformed_dates_and_dates_before_1970_are_refused() {
        for value in [
            "",
            "0",
            "784111777",
            "Sun",
            "Sun,",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            " Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "sun, 06 nov 1994 08:49:37 gmt",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Tue, 29 Feb 2100 00:00:00 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 08:49:3\u{660} GMT",
            "Sun, 06 Nov -994 08:49:37 GMT",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Thu, 01 Jan 0000 00:00:00 GMT",
            "Mon, 01 Jan 0001 00:00:00 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Monnesday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov   6 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(value.as_bytes(), NOW), None, "{value:?}");
        }
    }

    /// RFC 9110 §5.6.7: "Recipients of a timestamp value in rfc850-date format, which uses a
    /// two-digit year, MUST interpret a timestamp that appears to be more than 50 years in the
    /// future as representing the most recent year in the past that had the same last two
    /// digits."
    #[test]
    fn rfc850_years_are_at_most_fifty_years_ahead() {
        let year =
            |value: &str, now| parse(value.as_bytes(), now).map(|at| Calendar::of_unix(at).year);
        assert_eq!(year("Friday, 01-Jan-76 00:00:00 GMT", NOW), Some(2076));
        assert_eq!(year("Sunday, 22-Nov-76 00:00:00 GMT", NOW), Some(2076));
        assert_eq!(year("Sunday, 22-Nov-76 00:00:01 GMT", NOW), Some(1976));
        assert_eq!(year("Saturday, 01-Jan-77 00:00:00 GMT", NOW), Some(1977));
        assert_eq!(year("Sunday, 22-Nov-26 00:00:00 GMT", NOW), Some(2026));
        // 1969 is farther off than 2069.
        assert_eq!(year("Tuesday, 01-Jan-69 00:00:00 GMT", NOW), Some(2069));
        assert_eq!(year("Tuesday, 01-Jan-69 00:00:00 GMT", 0), None);
        assert_eq!(
            year("Tuesday, 01-Jan-69 00:00:00 GMT", u64::MAX),
            Some(9969)
        );
    }

    #[test]
    fn every_written_http_date_is_read_back() {
        for day in 0..60_000 {
            let seconds = day * 86_400 + day % 86_400;
            assert_eq!(parse(&imf_fixdate(seconds), NOW), Some(seconds));
        }
        assert_eq!(parse(&imf_fixdate(LAST), NOW), Some(LAST));
    }
}
