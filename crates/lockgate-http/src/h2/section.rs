//! Rules for every field section of HTTP/2 (RFC 9113 §8.2), trailers included.

use super::SectionError;
use crate::fields::{Fields, Known};
use crate::h1::{HeadLimits, parse};

/// Builds a trailer section from the fields behind a body (RFC 9113 §8.1), checked like those of a
/// head. [`passes_in_trailers`](crate::forwarding::passes_in_trailers) decides which are forwarded.
///
/// # Errors
/// When it is malformed, has pseudo-header fields, or exceeds `limits`.
pub fn trailers<'a>(
    lines: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    limits: &HeadLimits,
    trailers: &mut Fields,
) -> Result<(), SectionError> {
    trailers.clear();
    fill(lines, SectionBudget::of(limits), limits, trailers)
}

/// Adds the fields of a section other than a request's head.
pub(super) fn fill<'a>(
    lines: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    mut room: SectionBudget,
    limits: &HeadLimits,
    fields: &mut Fields,
) -> Result<(), SectionError> {
    for (name, value) in lines {
        room.take(name, value)?;
        match check(name, value)? {
            // RFC 9113 §8.2.2: in requests only.
            Some(Known::Te) => return Err(SectionError::ConnectionField),
            known => add(fields, name, value, known, limits)?,
        }
    }
    Ok(())
}

/// The unused part of [`HeadLimits::head`]. A field counts as in HPACK's tables (RFC 9113 §6.5.2):
/// 32 bytes more than its own, however short it was on the wire.
pub(super) struct SectionBudget(usize);

impl SectionBudget {
    pub(super) fn of(limits: &HeadLimits) -> Self {
        Self(limits.head)
    }

    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), SectionError> {
        self.0 = self
            .0
            .checked_sub(name.len() + value.len() + 32)
            .ok_or(SectionError::TooLong)?;
        Ok(())
    }
}

/// Adds a checked field, unless the limit of fields is reached.
pub(super) fn add(
    fields: &mut Fields,
    name: &[u8],
    value: &[u8],
    known: Option<Known>,
    limits: &HeadLimits,
) -> Result<(), SectionError> {
    if fields.len() >= limits.fields {
        return Err(SectionError::TooManyFields);
    }
    fields.place(name, value, known);
    Ok(())
}

/// Checks the rules for every field of HTTP/2 (RFC 9113 §8.2.1, RFC 9110 §5.5); returns its known
/// name, if it has one.
///
/// A name with a colon is no token: pseudo-header fields fail.
pub(super) fn check(name: &[u8], value: &[u8]) -> Result<Option<Known>, SectionError> {
    if name.is_empty() || !name.iter().all(|&byte| NAME[usize::from(byte)]) {
        return Err(SectionError::FieldName);
    }
    let padded = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if !parse::is_text(value) || padded(value.first()) || padded(value.last()) {
        return Err(SectionError::FieldValue);
    }
    let known = Known::of(name);
    if is_of_connections(known, name) {
        Err(SectionError::ConnectionField)
    } else {
        Ok(known)
    }
}

/// Whether a field is connection-specific and forbidden in HTTP/2 (RFC 9113 §8.2.2). TE is not
/// among them: requests may have it.
pub(super) fn is_of_connections(known: Option<Known>, name: &[u8]) -> bool {
    match known {
        Some(
            Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::Upgrade,
        ) => true,
        Some(_) => false,
        None => name.eq_ignore_ascii_case(b"http2-settings"),
    }
}

/// The bytes of tokens, without capitals.
const NAME: [bool; 256] = {
    let mut table = parse::TOKEN;
    let mut capital = b'A';
    while capital <= b'Z' {
        table[capital as usize] = false;
        capital += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        head: 256,
        fields: 4,
    };

    #[test]
    fn h2_trailers_are_validated_like_head_fields() {
        let mut fields = Fields::default();
        fields.append(b"before", b"1");
        let sent: [(&[u8], &[u8]); 2] = [(b"grpc-status", b"0"), (b"grpc-message", b"")];
        trailers(sent, &LIMITS, &mut fields).unwrap();
        let mut out = Vec::new();
        fields.write(&mut out, |_| true);
        assert_eq!(out, b"grpc-status: 0\r\ngrpc-message: \r\n");
        for (name, value, error) in [
            // RFC 9113 §8.1: "Trailers MUST NOT include pseudo-header fields".
            (&b":status"[..], &b"200"[..], SectionError::FieldName),
            (b"X", b"", SectionError::FieldName),
            (b"x: y\r\nz", b"", SectionError::FieldName),
            (b"x", b"a\r\n\r\nGET / HTTP/1.1", SectionError::FieldValue),
            (b"connection", b"x", SectionError::ConnectionField),
            (b"te", b"trailers", SectionError::ConnectionField),
            (b"x", &[b'y'; 256], SectionError::TooLong),
        ] {
            let refused = trailers([(name, value)], &LIMITS, &mut fields);
            assert_eq!(refused, Err(error), "{}", name.escape_ascii());
        }
        let many: [(&[u8], &[u8]); 5] = [(b"x", b"y"); 5];
        assert_eq!(
            trailers(many, &LIMITS, &mut fields),
            Err(SectionError::TooManyFields)
        );
    }
}
