//! Integers (RFC 7541 §5.1): a prefix of a few bits, and more bytes for larger ones.

use super::HpackError;

/// The limit: no sender needs a larger number; five bytes hold every smaller one.
const MOST: usize = 1 << 28;

/// Reads a number with a prefix of `bits` bits from the front of `rest`.
#[inline]
pub(super) fn decode(rest: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let full = (1 << bits) - 1;
    let first = usize::from(take(rest)?) & full;
    if first < full {
        Ok(first)
    } else {
        decode_large(rest, full)
    }
}

/// The same for a number with a full prefix, behind it.
fn decode_large(rest: &mut &[u8], full: usize) -> Result<usize, HpackError> {
    let mut number = full;
    for shift in [0, 7, 14, 21, 28] {
        let byte = usize::from(take(rest)?);
        number += (byte & 0x7f) << shift;
        if number > MOST {
            return Err(HpackError::Number);
        }
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(HpackError::Number)
}

/// Writes a number; its first byte has a prefix of `bits` bits beside `marks`.
#[inline]
pub(super) fn encode(out: &mut Vec<u8>, marks: u8, bits: u32, number: usize) {
    let full = (1 << bits) - 1;
    if number < full {
        out.push(marks | number as u8);
    } else {
        out.push(marks | full as u8);
        encode_large(out, number - full);
    }
}

/// The same behind a full prefix.
fn encode_large(out: &mut Vec<u8>, mut left: usize) {
    while left >= 0x80 {
        out.push(0x80 | (left & 0x7f) as u8);
        left >>= 7;
    }
    out.push(left as u8);
}

#[inline]
pub(super) fn take(rest: &mut &[u8]) -> Result<u8, HpackError> {
    let (first, behind) = rest.split_first().ok_or(HpackError::Cut)?;
    *rest = behind;
    Ok(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 §C.1, and boundary values.
    #[test]
    fn hpack_integers_are_encoded_as_in_the_rfc() {
        for (number, bits, bytes) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 0b1001_1010, 0b0000_1010]),
            (42, 8, &[42]),
            (30, 5, &[30]),
            (31, 5, &[31, 0]),
            (MOST, 7, &[127, 0x81, 0xff, 0xff, 0x7f]),
        ] {
            let mut out = Vec::new();
            encode(&mut out, 0, bits, number);
            assert_eq!(out, bytes, "{number}");
            let mut rest = &out[..];
            assert_eq!((decode(&mut rest, bits), rest), (Ok(number), &[][..]));
            for cut in 0..bytes.len() {
                assert_eq!(decode(&mut &bytes[..cut], bits), Err(HpackError::Cut));
            }
        }
    }

    #[test]
    fn overlong_hpack_integers_are_refused() {
        for bytes in [
            &[31, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
            &[31, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
            &[31, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[31, 0x80, 0x80, 0x80, 0x80, 0x01],
        ] {
            assert_eq!(
                decode(&mut &bytes[..], 5),
                Err(HpackError::Number),
                "{bytes:?}"
            );
        }
    }
}
