//! Responses between HTTP/1 and HTTP/2: the fields that pass (RFC 9113 §8.2.2), and a response of
//! HTTP/2 as a head.

use super::SectionError;
use super::section::{self, SectionBudget};
use crate::fields::{Field, Known};
use crate::h1::{HeadLimits, framing};
use crate::head::{BodyLength, HttpVersion, Method, ResponseHead};

/// Whether a field of a response is allowed in HTTP/2.
/// [`EndToEndFields`](crate::forwarding::EndToEndFields) removes those that Connection names. The
/// caller lowers the case of names.
pub fn passes(field: &Field<'_>) -> bool {
    field.known != Some(Known::Te) && !section::is_of_connections(field.known, field.name)
}

/// Builds a head from a response's status and fields, as [`request`](super::request::request) does
/// from a request's. The origin is to blame for an error: the client gets 502.
///
/// # Errors
/// When it is malformed or exceeds `limits`.
pub fn response<'a>(
    status: u16,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    limits: &HeadLimits,
    head: &mut ResponseHead,
) -> Result<(), SectionError> {
    // RFC 9113 §8.6: HTTP/2 has no 101.
    if !matches!(status, 100 | 102..=999) {
        return Err(SectionError::Status);
    }
    let mut room = SectionBudget::of(limits);
    room.take(b":status", b"200")?;
    head.begin(HttpVersion::Http2, status);
    section::fill(fields, room, limits, &mut head.fields)?;
    // With HEAD, so that only the fields are checked.
    framing::response(Method::Head, head)?;
    Ok(())
}

/// The length of a response's body, for a request with this method; `ended` is whether its stream
/// ended with its head. `Chunked` means until the end of the stream. Not for a 2xx to CONNECT,
/// which has no body.
///
/// # Errors
/// When a body is announced and the stream has ended (RFC 9113 §8.1.1). The response to a HEAD and
/// a 304 announce none, even with a Content-Length.
pub fn length(
    method: Method,
    head: &ResponseHead,
    ended: bool,
) -> Result<BodyLength, SectionError> {
    match (framing::response(method, head)?, ended) {
        (BodyLength::UntilClose, true) => Ok(BodyLength::Empty),
        (BodyLength::UntilClose, false) => Ok(BodyLength::Chunked),
        (BodyLength::Known(_), true) => Err(SectionError::NoBody),
        (length, _) => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;
    use crate::h1::encode;
    use crate::h1::framing::FramingError;
    use crate::h1::parse::{self, HeadProgress};

    const LIMITS: HeadLimits = HeadLimits {
        head: 512,
        fields: 4,
    };

    fn read(status: u16, fields: &[(&[u8], &[u8])]) -> Result<ResponseHead, SectionError> {
        let mut head = ResponseHead::default();
        response(status, fields.iter().copied(), &LIMITS, &mut head).map(|()| head)
    }

    #[test]
    fn an_h2_response_becomes_an_http_1_head() {
        let mut head = ResponseHead::default();
        let before = b"HTTP/1.0 404 Not Found\r\nContent-Length: 3\r\n\r\n";
        parse::response(before, &mut HeadProgress::default(), &LIMITS, &mut head)
            .unwrap()
            .unwrap();
        let sent: [(&[u8], &[u8]); 3] = [
            (b"set-cookie", b"a"),
            (b"x", b""),
            (b"set-cookie", b"\xff\tb"),
        ];
        response(200, sent, &LIMITS, &mut head).unwrap();
        assert_eq!(
            (head.status, head.version, head.reason()),
            (200, HttpVersion::Http2, &b""[..])
        );
        let mut out = Vec::new();
        encode::status_line(&mut out, head.status, head.reason());
        head.fields.write(&mut out, |_| true);
        assert_eq!(
            out,
            b"HTTP/1.1 200 \r\nset-cookie: a\r\nx: \r\nset-cookie: \xff\tb\r\n"
        );
        assert!(read(103, &[]).unwrap().is_interim());
    }

    #[test]
    fn malformed_h2_responses_are_refused() {
        use SectionError::*;
        // RFC 9113 §8.6, RFC 9110 §15.
        for status in [0, 99, 101, 1000] {
            assert_eq!(read(status, &[]).unwrap_err(), Status, "{status}");
        }
        for (name, value, error) in [
            // RFC 9113 §8.2.1.
            (&b"X"[..], &b""[..], FieldName),
            (b"", b"", FieldName),
            (b"x y", b"", FieldName),
            (b"x\r\ny", b"", FieldName),
            (b"x", b"a\r\nb: c", FieldValue),
            (b"x", b"a\nb", FieldValue),
            (b"x", b"a\0", FieldValue),
            (b"x", b"\x1b", FieldValue),
            (b"x", b" a", FieldValue),
            (b"x", b"a\t", FieldValue),
            // RFC 9113 §8.3.
            (b":status", b"200", FieldName),
            (b":path", b"/", FieldName),
            // RFC 9113 §8.2.2.
            (b"connection", b"close", ConnectionField),
            (b"keep-alive", b"timeout=5", ConnectionField),
            (b"proxy-connection", b"close", ConnectionField),
            (b"transfer-encoding", b"chunked", ConnectionField),
            (b"upgrade", b"websocket", ConnectionField),
            (b"te", b"trailers", ConnectionField),
            // RFC 9110 §8.6.
            (b"content-length", b"+1", Framing(FramingError::Length)),
            (b"content-length", b"1, 1", Framing(FramingError::Lengths)),
        ] {
            let refused = read(200, &[(name, value)]).unwrap_err();
            assert_eq!(
                refused,
                error,
                "{}: {}",
                name.escape_ascii(),
                value.escape_ascii()
            );
        }
        let twice: [(&[u8], &[u8]); 2] = [(b"content-length", b"1"); 2];
        assert_eq!(
            read(200, &twice).unwrap_err(),
            Framing(FramingError::Lengths)
        );
        let five: [(&[u8], &[u8]); 5] = [(b"x", b"y"); 5];
        assert_eq!(read(200, &five).unwrap_err(), TooManyFields);
        assert_eq!(read(200, &[(b"x", &[b'y'; 512])]).unwrap_err(), TooLong);
    }

    /// RFC 9113 §8.1.1: the announced length must come, "unless the message is defined as having no
    /// content".
    #[test]
    fn an_h2_response_body_length_follows_content_length_or_stream() {
        use BodyLength::*;
        let of = |method, status, value: Option<&'static [u8]>, ended| {
            let field = value.map(|value| (&b"content-length"[..], value));
            length(method, &read(status, field.as_slice()).unwrap(), ended)
        };
        for (method, status, value, ended, length) in [
            (Method::Get, 200, None, false, Ok(Chunked)),
            (Method::Get, 200, None, true, Ok(Empty)),
            (Method::Get, 200, Some(&b"3"[..]), false, Ok(Known(3))),
            (
                Method::Get,
                200,
                Some(b"3"),
                true,
                Err(SectionError::NoBody),
            ),
            (Method::Get, 200, Some(b"0"), true, Ok(Empty)),
            (Method::Get, 200, Some(b"0"), false, Ok(Empty)),
            (Method::Head, 200, Some(b"3"), true, Ok(Empty)),
            (Method::Head, 200, None, false, Ok(Empty)),
            (Method::Get, 304, Some(b"3"), true, Ok(Empty)),
            (Method::Get, 204, None, true, Ok(Empty)),
            (Method::Get, 103, None, false, Ok(Empty)),
        ] {
            assert_eq!(
                of(method, status, value, ended),
                length,
                "{method:?} {status} {value:?} {ended}"
            );
        }
    }

    /// RFC 9113 §8.2.2: an intermediary removes them when it converts from HTTP/1.
    #[test]
    fn connection_specific_fields_do_not_enter_h2_responses() {
        let sent = fields(&[
            ("Connection", "close"),
            ("Keep-Alive", "timeout=5"),
            ("Content-Length", "3"),
            ("Proxy-Connection", "close"),
            ("Transfer-Encoding", "chunked"),
            ("Server", "a"),
            ("Upgrade", "h2c"),
            ("TE", "trailers"),
            ("HTTP2-Settings", "AAMAAABk"),
        ]);
        let kept: Vec<_> = sent.iter().filter(passes).map(|field| field.name).collect();
        assert_eq!(kept, [&b"Content-Length"[..], b"Server"]);
    }
}
