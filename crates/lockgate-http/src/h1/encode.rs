//! An encoder of messages (RFC 9112 §3, §4, §7.1): appends to the caller's buffer, which is sent in
//! one write.

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes a request line, always of HTTP/1.1: our own version, not the client's (RFC 9110 §2.5).
pub fn request_line(out: &mut Vec<u8>, method: &[u8], path: &[u8], query: Option<&[u8]>) {
    for part in [method, b" ", path] {
        out.extend_from_slice(part);
    }
    if let Some(query) = query {
        out.extend_from_slice(b"?");
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Writes a status line. The reason may be empty; its space is required (RFC 9112 §4).
pub fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    let digit = |place: u16| b'0' + (status / place % 10) as u8;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(100), digit(10), digit(1), b' ']);
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Writes one line. The value must be valid: [`parse`](super::parse) ensures that, and callers
/// check values from elsewhere.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Writes one line with a value in several parts.
pub fn field_of(out: &mut Vec<u8>, name: &[u8], parts: &[&[u8]]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    for part in parts {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the end of a head.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Writes the field line of Content-Length.
pub fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes the beginning of a chunk of `length` bytes, at least one: an empty chunk ends the body.
/// CR LF follows the chunk.
pub fn chunk(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk is the last");
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    out.extend(
        (0..digits)
            .rev()
            .map(|place| b"0123456789abcdef"[length >> (4 * place) & 15]),
    );
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::HeadLimits;
    use crate::h1::parse::{self, HeadProgress};
    use crate::head::{RequestHead, ResponseHead};

    #[test]
    fn an_encoded_head_is_parsed_back_unchanged() {
        let mut out = Vec::new();
        request_line(&mut out, b"PUT", b"/a", Some(b"b"));
        field(&mut out, b"Host", b"a.example");
        field(&mut out, b"X", b"");
        content_length(&mut out, 1_234);
        end(&mut out);
        assert_eq!(
            out,
            b"PUT /a?b HTTP/1.1\r\nHost: a.example\r\nX: \r\nContent-Length: 1234\r\n\r\n"
        );
        let mut head = RequestHead::default();
        let taken = parse::request(
            &out,
            &mut HeadProgress::default(),
            &HeadLimits::default(),
            &mut head,
        );
        assert_eq!(taken, Ok(Some(out.len())));
        let mut again = Vec::new();
        request_line(&mut again, head.method_name(), head.target(), None);
        head.fields.write(&mut again, |_| true);
        end(&mut again);
        assert_eq!(again, out);
        for (status, reason) in [(100, "Continue"), (200, ""), (999, "\u{e4}")] {
            let (mut out, mut head) = (Vec::new(), ResponseHead::default());
            status_line(&mut out, status, reason.as_bytes());
            end(&mut out);
            parse::response(
                &out,
                &mut HeadProgress::default(),
                &HeadLimits::default(),
                &mut head,
            )
            .unwrap()
            .unwrap();
            assert_eq!((head.status, head.reason()), (status, reason.as_bytes()));
        }
    }

    #[test]
    fn a_chunk_size_has_no_leading_zeros() {
        for (length, text) in [
            (1, "1"),
            (15, "f"),
            (16, "10"),
            (255, "ff"),
            (4_096, "1000"),
            (0xabc_def0, "abcdef0"),
        ] {
            let mut out = Vec::new();
            chunk(&mut out, length);
            assert_eq!(out, format!("{text}\r\n").as_bytes());
        }
    }
}
