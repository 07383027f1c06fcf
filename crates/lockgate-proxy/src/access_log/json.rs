//! JSON values appended to a buffer: texts, numbers, addresses, times.
//!
//! Knows nothing of connections. Allocates only when the buffer must grow.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

/// The fields after the first: each starts with its comma.
pub(super) struct Fields<'a>(pub(super) &'a mut Vec<u8>);

impl Fields<'_> {
    pub(super) fn some<T>(&mut self, name: &str, value: Option<T>, write: fn(&mut Self, &str, T)) {
        if let Some(value) = value {
            write(self, name, value);
        }
    }

    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        write_text(self.0, text);
    }

    pub(super) fn number(&mut self, name: &str, n: u64) {
        self.name(name);
        write_number(self.0, n);
    }

    pub(super) fn yes_or_no(&mut self, name: &str, yes: bool) {
        self.name(name);
        self.0.extend_from_slice(if yes { b"true" } else { b"false" });
    }

    pub(super) fn seconds(&mut self, name: &str, duration: Duration) {
        self.name(name);
        write_number(self.0, duration.as_secs());
        self.0.push(b'.');
        write_padded::<6>(self.0, u64::from(duration.subsec_micros()));
    }

    pub(super) fn ip(&mut self, name: &str, ip: IpAddr) {
        self.name(name);
        self.0.push(b'"');
        write_ip(self.0, ip);
        self.0.push(b'"');
    }
}

fn write_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            for (i, octet) in ip.octets().into_iter().enumerate() {
                if i > 0 {
                    out.push(b'.');
                }
                write_number(out, u64::from(octet));
            }
        }
        IpAddr::V6(ip) => write!(out, "{ip}").expect("a Vec takes everything"),
    }
}

/// Most bytes of a text that are written.
const LONGEST: usize = 512;

/// A JSON string (RFC 8259 §7). Beyond what JSON asks for, everything that a terminal or an editor could act on is
/// escaped too: DEL, C1 controls, line and paragraph separators, bidirectional overrides.
fn write_text(out: &mut Vec<u8>, text: &str) {
    let (text, end) = match text.len() {
        0..=LONGEST => (text, "\""),
        _ => (text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default(), "…\""),
    };
    out.push(b'"');
    // Nearly every text is plain ASCII: one test of its bytes and one copy.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.extend_from_slice(text.as_bytes());
    } else {
        text.chars().for_each(|c| write_char(out, c));
    }
    out.extend_from_slice(end.as_bytes());
}

fn write_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => {
            write!(out, "\\u{:04x}", u32::from(c)).expect("a Vec takes everything");
        }
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn write_number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// The last `N` decimal digits of `n`, with zeros in front.
fn write_padded<const N: usize>(out: &mut Vec<u8>, n: u64) {
    let mut digits = [b'0'; N];
    let mut left = n;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    out.extend_from_slice(&digits);
}

pub(super) fn write_hex(out: &mut Vec<u8>, n: u64) {
    let digit = |nibble: u64| if nibble < 10 { b'0' + nibble as u8 } else { b'a' + (nibble - 10) as u8 };
    out.extend((0..16).rev().map(|place| digit(n >> (4 * place) & 0xf)));
}

/// `2026-11-21T20:56:01.234Z` from milliseconds since 1970.
///
/// Days to date by Howard Hinnant's `civil_from_days`: years start in March, so that the leap day is a year's last.
pub(super) fn write_time(out: &mut Vec<u8>, unix_ms: u64) {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let days = days + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);

    write_padded::<4>(out, year);
    for (before, n) in [
        (b'-', month),
        (b'-', day),
        (b'T', ms / 3_600_000),
        (b':', ms / 60_000 % 60),
        (b':', ms / 1_000 % 60),
    ] {
        out.push(before);
        write_padded::<2>(out, n);
    }
    out.push(b'.');
    write_padded::<3>(out, ms % 1_000);
    out.push(b'Z');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        let mut out = Vec::new();
        write_text(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_in_a_text_can_end_it_or_the_line() {
        // RFC 8259 §7
        for (raw, json) in [
            ("", r#""""#),
            ("app.example.com", r#""app.example.com""#),
            (r#"x","cause":"drain"#, r#""x\",\"cause\":\"drain""#),
            (r"\", r#""\\""#),
            ("a\nb\r\tc", r#""a\nb\r\tc""#),
            ("\0\u{1f}\u{1b}[31m", r#""\u0000\u001f\u001b[31m""#),
            ("\u{7f}\u{9b}", r#""\u007f\u009b""#),
            ("\u{2028}\u{202e}\u{2066}", r#""\u2028\u202e\u2066""#),
            ("bücher.example 本 🚢", r#""bücher.example 本 🚢""#),
        ] {
            assert_eq!(text(raw), json);
        }
    }

    #[test]
    fn every_character_below_the_surrogates_is_escaped_or_itself() {
        for c in (0..0xd800).filter_map(char::from_u32) {
            let written = text(&c.to_string());
            assert!(!written.chars().any(char::is_control), "{c:?}");
            let inside = written.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap();
            let escaped = inside.strip_prefix("\\u").map(|hex| u32::from_str_radix(hex, 16).unwrap());
            let back = match (escaped, inside) {
                (Some(code), _) => char::from_u32(code).unwrap(),
                (None, "\\n") => '\n',
                (None, "\\r") => '\r',
                (None, "\\t") => '\t',
                (None, other) => other.chars().last().unwrap(),
            };
            assert_eq!(back, c);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(text(&"a".repeat(LONGEST)).len(), LONGEST + 2);
        assert_eq!(text(&"a".repeat(LONGEST + 1)), format!("\"{}…\"", "a".repeat(LONGEST)));
        assert_eq!(text(&"本".repeat(LONGEST)), format!("\"{}…\"", "本".repeat(LONGEST / 3)));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_798_761_599_007, "2026-12-31T23:59:59.007Z"),
            (1_798_761_600_000, "2027-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let mut out = Vec::new();
            write_time(&mut out, unix_ms);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        write_time(&mut Vec::new(), u64::MAX);
    }
}
