//! Headers of frames (RFC 9113 §4.1), read and written whole.

use super::frames::{PADDED, PRIORITISED};

/// The client's connection preface (§3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame header.
pub(super) const HEADER_LEN: usize = 9;
/// The default limit of a payload (§4.2), which is never raised: a TLS record is not longer.
pub(super) const MAX_PAYLOAD: usize = 16 * 1024;

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

/// The payload of a HEADERS frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadersPayload<'a> {
    pub(super) block: &'a [u8],
    /// Whether the stream depends on itself (RFC 7540 §5.3.1).
    pub(super) depends_on_itself: bool,
}

impl FrameHeader {
    /// Parses a header at the front of `bytes`; `None`: it is not whole.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: stream_id(stream),
        })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload of HEADERS without padding and priority (§6.2); `None`: they are longer than it.
    pub(super) fn headers(self, mut payload: &[u8]) -> Option<HeadersPayload<'_>> {
        let (mut padding, mut depends_on_itself) = (0, false);
        if self.has(PADDED) {
            let (length, rest) = payload.split_first()?;
            (padding, payload) = (usize::from(*length), rest);
        }
        if self.has(PRIORITISED) {
            let (priority, rest) = payload.split_first_chunk::<5>()?;
            depends_on_itself = self.depends_on_itself(priority);
            payload = rest;
        }
        Some(HeadersPayload {
            block: payload.get(..payload.len().checked_sub(padding)?)?,
            depends_on_itself,
        })
    }

    /// Whether a priority (§6.3) makes the frame's stream depend on itself.
    pub(super) fn depends_on_itself(self, priority: &[u8; 5]) -> bool {
        let [a, b, c, d, _] = *priority;
        stream_id([a, b, c, d]) == self.stream
    }
}

/// A stream's ID; the highest bit is reserved (§4.1).
pub(super) fn stream_id(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// Writes a frame header.
pub(super) fn begin(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Writes a frame with one number: RST_STREAM, WINDOW_UPDATE.
pub(super) fn number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    begin(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::frames::HEADERS;

    /// RFC 9113 §4.1, §6.2.
    #[test]
    fn padding_and_priority_are_taken_off_headers_frames() {
        let headers = |flags, payload| {
            let mut bytes = Vec::new();
            begin(&mut bytes, 3, HEADERS, flags, 0x8000_0005);
            let header = FrameHeader::read(&bytes).unwrap();
            assert_eq!((header.length, header.stream), (3, 5));
            header
                .headers(payload)
                .map(|got| (got.block, got.depends_on_itself))
        };
        assert_eq!(headers(0, b"abc"), Some((&b"abc"[..], false)));
        assert_eq!(headers(PADDED, b"\x02abc\0"), Some((&b"ab"[..], false)));
        assert_eq!(headers(PADDED, b"\x03abc"), Some((&b""[..], false)));
        assert_eq!(headers(PADDED, b"\x04abc"), None);
        assert_eq!(headers(PADDED, b""), None);
        assert_eq!(
            headers(PRIORITISED, b"\x80\0\0\x05\x10a"),
            Some((&b"a"[..], true))
        );
        assert_eq!(
            headers(PRIORITISED | PADDED, b"\x01\0\0\0\x03\x10a\0"),
            Some((&b"a"[..], false))
        );
        assert_eq!(headers(PRIORITISED, b"\0\0\0\x03"), None);
        assert_eq!(FrameHeader::read(&[0; 8]), None);
    }
}
