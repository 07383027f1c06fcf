//! Messages of Protocol Buffers: their fields one after the other, and the reading of them.
//!
//! <https://protobuf.dev/programming-guides/encoding/>. A field that has the default of its type need
//! not be written; where that matters, the caller leaves it out.

/// How the value of a field is written: "Message Structure".
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// Appends a number in groups of seven bits, the low ones first: "Base 128 Varints".
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a field of integers or of an enum.
pub(crate) fn put_integer(out: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(out, field << 3 | VARINT);
    put_varint(out, number);
}

/// Appends a field of type `fixed64`, `sfixed64` or `double`, by its bits.
pub(crate) fn put_fixed64(out: &mut Vec<u8>, field: u64, bits: u64) {
    put_varint(out, field << 3 | FIXED64);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// Appends a field of type `fixed32`.
pub(crate) fn put_fixed32(out: &mut Vec<u8>, field: u64, bits: u32) {
    put_varint(out, field << 3 | FIXED32);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// Appends a field of bytes, a string, or a message that is encoded already.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | LENGTH);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field that is a message, or a packed list of numbers, which `write` appends.
pub(crate) fn put_message(out: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let begun = begin_message(out, field);
    write(out);
    end_message(out, begun);
}

/// Begins a field that is a message: its fields are appended until [`end_message`] gets the place.
#[must_use]
pub(crate) fn begin_message(out: &mut Vec<u8>, field: u64) -> usize {
    put_varint(out, field << 3 | LENGTH);
    out.len()
}

/// Ends a message that has its first field at `begun`: its length goes before it.
pub(crate) fn end_message(out: &mut Vec<u8>, begun: usize) {
    let length = out.len() - begun;
    put_varint(out, length as u64);
    let written = out.len() - begun - length;
    if let Some(message) = out.get_mut(begun..) {
        message.rotate_right(written);
    }
}

/// The value of a field that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValue<'a> {
    /// A number of any type.
    Number(u64),
    /// Bytes, a string, or a message.
    Bytes(&'a [u8]),
}

/// Takes the first field of a message from `bytes`: its number and its value. `None` at the end, and
/// where the rest is no field.
pub(crate) fn take_field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, FieldValue<'a>)> {
    let tag = take_varint(bytes)?;
    let value = match tag & 7 {
        VARINT => FieldValue::Number(take_varint(bytes)?),
        FIXED64 => {
            let (number, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            FieldValue::Number(u64::from_le_bytes(*number))
        }
        FIXED32 => {
            let (number, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            FieldValue::Number(u32::from_le_bytes(*number).into())
        }
        LENGTH => {
            let length = usize::try_from(take_varint(bytes)?).ok()?;
            let (value, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            FieldValue::Bytes(value)
        }
        // Groups, which no message here has, and what is no kind.
        _ => return None,
    };
    Some((tag >> 3, value))
}

/// Takes a number; `None` where it does not end, or is longer than 64 bits can be.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// "Base 128 Varints", "Message Structure", "Length-Delimited Records", "Non-varint Numbers": the
    /// examples of the page, and the borders.
    #[test]
    fn fields_are_written_as_protocol_buffers_have_them() {
        for (found, expected) in [
            (written(|out| put_varint(out, 0)), &b"\x00"[..]),
            (written(|out| put_varint(out, 127)), b"\x7f"),
            (written(|out| put_varint(out, 150)), b"\x96\x01"),
            (
                written(|out| put_varint(out, u64::MAX)),
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            ),
            (written(|out| put_integer(out, 1, 150)), b"\x08\x96\x01"),
            (
                written(|out| put_bytes(out, 2, b"testing")),
                b"\x12\x07testing",
            ),
            (
                written(|out| put_message(out, 3, |out| put_integer(out, 1, 150))),
                b"\x1a\x03\x08\x96\x01",
            ),
            (written(|out| put_message(out, 3, |_| {})), b"\x1a\x00"),
            (
                written(|out| put_fixed64(out, 16, 1.0_f64.to_bits())),
                b"\x81\x01\x00\x00\x00\x00\x00\x00\xf0\x3f",
            ),
            (
                written(|out| put_fixed32(out, 1, 258)),
                b"\x0d\x02\x01\x00\x00",
            ),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn long_messages_within_messages_have_their_lengths() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 300_000] {
            let inner = vec![7; length];
            let message = written(|out| {
                put_message(out, 1, |out| {
                    put_message(out, 2, |out| put_bytes(out, 3, &inner));
                    put_integer(out, 4, 5);
                });
            });
            let mut rest = &message[..];
            let Some((1, FieldValue::Bytes(mut outer))) = take_field(&mut rest) else {
                panic!("no message");
            };
            let Some((2, FieldValue::Bytes(mut middle))) = take_field(&mut outer) else {
                panic!("no message within");
            };
            let found = take_field(&mut middle);
            assert_eq!(found, Some((3, FieldValue::Bytes(&inner))));
            assert_eq!(take_field(&mut outer), Some((4, FieldValue::Number(5))));
            assert_eq!((rest, outer, middle), (&b""[..], &b""[..], &b""[..]));
        }
    }

    #[test]
    fn what_is_no_field_ends_a_message() {
        for bytes in [
            &b""[..],
            b"\x08",
            b"\x08\x96",
            b"\x12\x07testin",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x09\x00\x00",
            b"\x0d\x00",
            // A group, and the two kinds that there are not.
            b"\x0b\x08\x01\x0c",
            b"\x0e\x00",
            b"\x0f\x00",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            let mut rest = bytes;
            assert_eq!(take_field(&mut rest), None, "{bytes:?}");
        }
    }
}
