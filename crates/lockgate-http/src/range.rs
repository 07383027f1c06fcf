//! Range requests (RFC 9110 §14): the bytes that a request asks for, and the fields that describe
//! them in a response.
//!
//! Knows neither content nor If-Range: see
//! [`conditional::range_applies`](crate::conditional::range_applies).

use crate::fields::{Fields, Known};
use crate::head::Method;

mod multipart;

pub use multipart::{Boundary, Multipart};

/// The most ranges of one request. A request with more gets the whole, as with Apache's `MaxRanges`
/// and nginx's `max_ranges`: players ask for one, document readers for a few.
pub const MAX_RANGES: usize = 32;

/// One part of a representation: at least one byte, all within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The number of bytes before it.
    pub offset: u64,
    /// The number of bytes in it.
    pub length: u64,
}

/// The part of a representation to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All of it, with 200: there is no Range, or it is ignored.
    Whole,
    /// 206, with the [`content_range`] of the part.
    Single(ByteRange),
    /// 206, as a [`Multipart`]: two to [`MAX_RANGES`] parts in the requested order, together no
    /// longer than the whole.
    Several(Vec<ByteRange>),
    /// 416, with [`unsatisfied_range`]: no range overlaps the representation.
    Unsatisfiable,
}

/// The selection of a request's Range from a representation of `size` bytes (RFC 9110 §14.2).
///
/// Ignored, as the RFC allows or demands, is a Range with another method than GET, in another unit
/// than bytes, on several lines, or malformed anywhere; with more than [`MAX_RANGES`]; with ranges
/// that are together longer than the whole, which only overlapping ones can be (CVE-2011-3192;
/// nginx and Go do the same); and any Range of an empty representation, which neither 206 nor 416
/// can describe.
pub fn select(method: Method, fields: &Fields, size: u64) -> Selection {
    if !fields.may_have(&[Known::Range]) || method != Method::Get || size == 0 {
        return Selection::Whole;
    }
    fields
        .only(Known::Range)
        .and_then(|value| of(value, size))
        .unwrap_or(Selection::Whole)
}

/// `None` if the value is ignored.
fn of(value: &[u8], size: u64) -> Option<Selection> {
    let (unit, set) = value.split_at_checked(memchr::memchr(b'=', value)?)?;
    // RFC 9110 §14.1: unit names are case-insensitive.
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut selection = Selection::Unsatisfiable;
    let (mut listed, mut left) = (0, size);
    for spec in set[1..].split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if spec.is_empty() {
            continue;
        }
        listed += 1;
        if listed > MAX_RANGES {
            return None;
        }
        let Some(part) = part(spec, size)? else {
            continue;
        };
        left = left.checked_sub(part.length)?;
        selection = match selection {
            Selection::Single(first) => Selection::Several(vec![first, part]),
            Selection::Several(mut parts) => {
                parts.push(part);
                Selection::Several(parts)
            }
            // RFC 9110 §15.3.7.2: a single remaining part needs no multipart.
            Selection::Whole | Selection::Unsatisfiable => Selection::Single(part),
        };
    }
    (listed > 0).then_some(selection)
}

/// The part that one range selects, if any (RFC 9110 §14.1.2); the outer `None` if it is no range.
fn part(spec: &[u8], size: u64) -> Option<Option<ByteRange>> {
    let (first, last) = spec.split_at_checked(memchr::memchr(b'-', spec)?)?;
    let last = &last[1..];
    if first.is_empty() {
        let length = number(last)?.min(size);
        return Some((length > 0).then_some(ByteRange {
            offset: size - length,
            length,
        }));
    }
    let offset = number(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        number(last)?
    };
    if last < offset {
        // §14.1.1: invalid, however long the representation is.
        return None;
    }
    Some((offset < size).then(|| ByteRange {
        offset,
        length: (last - offset).min(size - offset - 1) + 1,
    }))
}

/// A number that exceeds 64 bits becomes the largest one, which is behind any end.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// Appends the value of Content-Range for a part of `size` bytes (RFC 9110 §14.4).
pub fn content_range(out: &mut Vec<u8>, part: ByteRange, size: u64) {
    for piece in spelled(part, size, &mut Default::default()) {
        out.extend_from_slice(piece);
    }
}

/// Appends the value of Content-Range for 416: the representation's length (RFC 9110 §15.5.17).
pub fn unsatisfied_range(out: &mut Vec<u8>, size: u64) {
    out.extend_from_slice(b"bytes */");
    out.extend_from_slice(itoa::Buffer::new().format(size).as_bytes());
}

/// The pieces of Content-Range's value; `digits` holds its numbers.
fn spelled(part: ByteRange, size: u64, digits: &mut [itoa::Buffer; 3]) -> [&[u8]; 6] {
    let [first, last, whole] = digits;
    let last = last.format(part.offset + (part.length - 1));
    let (first, whole) = (first.format(part.offset), whole.format(size));
    [
        b"bytes ",
        first.as_bytes(),
        b"-",
        last.as_bytes(),
        b"/",
        whole.as_bytes(),
    ]
}

#[cfg(test)]
mod tests {
    use super::Selection::{Several, Single, Unsatisfiable, Whole};
    use super::*;
    use crate::fields::tests::fields;

    fn of(value: &str, size: u64) -> Selection {
        select(Method::Get, &fields(&[("Range", value)]), size)
    }

    fn part(offset: u64, length: u64) -> ByteRange {
        ByteRange { offset, length }
    }

    /// The examples of RFC 9110 §14.1.2, of 10,000 bytes.
    #[test]
    fn range_examples_of_the_rfc_are_selected() {
        for (value, selection) in [
            ("bytes=0-499", Single(part(0, 500))),
            ("bytes=500-999", Single(part(500, 500))),
            ("bytes=-500", Single(part(9_500, 500))),
            ("bytes=9500-", Single(part(9_500, 500))),
            ("bytes=0-0,-1", Several(vec![part(0, 1), part(9_999, 1)])),
            (
                "bytes= 0-999, 4500-5499, -1000",
                Several(vec![part(0, 1_000), part(4_500, 1_000), part(9_000, 1_000)]),
            ),
            // "Other valid (but not canonical) specifications of the second 500 bytes".
            (
                "bytes=500-600,601-999",
                Several(vec![part(500, 101), part(601, 399)]),
            ),
            (
                "bytes=500-700,601-999",
                Several(vec![part(500, 201), part(601, 399)]),
            ),
        ] {
            assert_eq!(of(value, 10_000), selection, "{value}");
        }
    }

    /// RFC 9110 §14.1.2, §14.2.
    #[test]
    fn ranges_are_clamped_to_the_representation() {
        for (value, selection) in [
            ("bytes=0-", Single(part(0, 10))),
            ("bytes=0-9", Single(part(0, 10))),
            ("bytes=0-10", Single(part(0, 10))),
            ("bytes=9-9", Single(part(9, 1))),
            ("bytes=9-99", Single(part(9, 1))),
            ("bytes=-10", Single(part(0, 10))),
            ("bytes=-11", Single(part(0, 10))),
            ("bytes=-1", Single(part(9, 1))),
            ("bytes=0-18446744073709551615", Single(part(0, 10))),
            ("bytes=1-99999999999999999999999999", Single(part(1, 9))),
            ("bytes=-99999999999999999999999999", Single(part(0, 10))),
            ("bytes=10-", Unsatisfiable),
            ("bytes=10-10", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=99999999999999999999999999-", Unsatisfiable),
            ("bytes=10-,20-30,-0", Unsatisfiable),
            // One satisfiable range is enough.
            ("bytes=10-20, 2-3", Single(part(2, 2))),
            (
                "bytes=-0, 2-3, 10-, 5-",
                Several(vec![part(2, 2), part(5, 5)]),
            ),
        ] {
            assert_eq!(of(value, 10), selection, "{value}");
        }
        assert_eq!(of("bytes=0-", u64::MAX), Single(part(0, u64::MAX)));
        assert_eq!(
            of("bytes=-18446744073709551615", u64::MAX),
            Single(part(0, u64::MAX))
        );
        assert_eq!(
            of("bytes=18446744073709551614-", u64::MAX),
            Single(part(u64::MAX - 1, 1))
        );
        assert_eq!(of("bytes=18446744073709551615-", u64::MAX), Unsatisfiable);
    }

    /// RFC 9110 §14.1, §14.2, and the list of §5.6.1.
    #[test]
    fn malformed_range_fields_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= , ,",
            "=0-1",
            "bytes =0-1",
            " bytes:0-1",
            "bytes 0-1",
            "items=0-1",
            "byte=0-1",
            "bytess=0-1",
            "bytes=0",
            "bytes=-",
            "bytes=--1",
            "bytes=1--1",
            "bytes=0-1-2",
            "bytes=2-1",
            "bytes=20-11",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=0 - 1",
            "bytes=0x1-2",
            "bytes=0-1;2-3",
            "bytes=0-1,x",
            "bytes=0-1,3-2",
            "bytes=0-\u{663}",
            "bytes=0-1 2-3",
            "bytes==0-1",
            "bytes=*",
            "none",
        ] {
            assert_eq!(of(value, 10), Whole, "{value:?}");
        }
        for value in ["BYTES=0-1", "Bytes=,0-1,", "bytes=\t0-1 ,"] {
            assert_eq!(of(value, 10), Single(part(0, 2)), "{value:?}");
        }
        let twice = fields(&[("Range", "bytes=0-1"), ("range", "bytes=0-1")]);
        assert_eq!(select(Method::Get, &twice, 10), Whole);
        assert_eq!(
            select(Method::Get, &fields(&[("X", "bytes=0-1")]), 10),
            Whole
        );
    }

    /// RFC 9110 §14.2: "A server MUST ignore a Range header field received with a request method
    /// that is unrecognized or for which range handling is not defined. For this specification,
    /// GET is the only method for which range handling is defined."
    #[test]
    fn only_get_has_ranges() {
        for method in [Method::Head, Method::Post, Method::Options, Method::Other] {
            assert_eq!(
                select(method, &fields(&[("Range", "bytes=0-1")]), 10),
                Whole,
                "{method:?}"
            );
        }
    }

    /// Clients that send a range with every request get no error.
    #[test]
    fn a_range_of_an_empty_representation_sends_it_whole() {
        for value in [
            "bytes=0-",
            "bytes=0-499",
            "bytes=-5",
            "bytes=-0",
            "bytes=5-",
        ] {
            assert_eq!(of(value, 0), Whole, "{value}");
        }
    }

    /// RFC 9110 §14.2, §17.15; CVE-2011-3192.
    #[test]
    fn overlapping_or_too_many_ranges_send_the_whole() {
        assert_eq!(of("bytes=0-9,0-9", 10), Whole);
        assert_eq!(of("bytes=0-4,4-9", 10), Whole);
        assert_eq!(
            of("bytes=0-4,5-9", 10),
            Several(vec![part(0, 5), part(5, 5)])
        );
        let list = |count: usize| {
            let specs: Vec<_> = (0..count).map(|at| format!("{at}-{at}")).collect();
            format!("bytes={}", specs.join(","))
        };
        assert!(
            matches!(of(&list(MAX_RANGES), 1_000), Several(parts) if parts.len() == MAX_RANGES)
        );
        assert_eq!(of(&list(MAX_RANGES + 1), 1_000), Whole);
        assert_eq!(of(&list(10_000), 1 << 40), Whole);
        // Ranges that select nothing count.
        assert_eq!(
            of(&format!("bytes=0-0{}", ",9-".repeat(MAX_RANGES)), 5),
            Whole
        );
        assert_eq!(of(&format!("bytes={}", "0-,".repeat(1 << 18)), 10), Whole);
        assert_eq!(
            of(&format!("bytes={}1-2", ",".repeat(1 << 20)), 10),
            Single(part(1, 2))
        );
        assert_eq!(
            of(&format!("bytes={}-", "0".repeat(1 << 20)), 10),
            Single(part(0, 10))
        );
    }

    /// RFC 9110 §14.4.
    #[test]
    fn content_range_names_the_position_of_a_part() {
        let mut out = Vec::new();
        content_range(&mut out, part(0, 500), 1_234);
        assert_eq!(out.as_slice(), b"bytes 0-499/1234");
        out.clear();
        content_range(&mut out, part(0, u64::MAX), u64::MAX);
        assert_eq!(
            out.as_slice(),
            b"bytes 0-18446744073709551614/18446744073709551615"
        );
        out.clear();
        unsatisfied_range(&mut out, 1_234);
        assert_eq!(out.as_slice(), b"bytes */1234");
    }
}
