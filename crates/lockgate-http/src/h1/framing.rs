//! The length of a body (RFC 9112 §6.3), as two functions: the whole defence against request
//! smuggling on one page.
//!
//! Where the RFC lets a recipient choose between refusing and repairing, this refuses: the next
//! server may repair otherwise, and one reads as a body what the other reads as the next request
//! (CVE-2019-18277, CVE-2021-40346, "HTTP Desync Attacks", Kettle 2019).

use crate::fields::{Fields, Known};
use crate::head::{BodyLength, HttpVersion, Method, RequestHead, ResponseHead};

/// The reason why a message's framing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A Content-Length that is no number, or above 2⁶³ − 1 (RFC 9110 §8.6).
    #[error("Content-Length is not a number")]
    Length,
    /// More than one Content-Length, or a list: even of equal ones (RFC 9112 §6.3 item 5 lets us
    /// refuse that).
    #[error("Content-Length is given more than once")]
    Lengths,
    /// Both Content-Length and Transfer-Encoding (RFC 9112 §6.1: "ought to be handled as an
    /// error").
    #[error("both Content-Length and Transfer-Encoding are given")]
    Both,
    /// Transfer-Encoding in HTTP/1.0, which has none (RFC 9112 §6.1: "faulty").
    #[error("Transfer-Encoding is given in HTTP/1.0")]
    Old,
    /// A coding other than `chunked`, or `chunked` more than once or not last.
    #[error("Transfer-Encoding is not just \"chunked\"")]
    Coding,
}

impl FramingError {
    /// The status for the client; RFC 9112 §6.1: 501 for an unknown coding.
    pub fn status(self) -> u16 {
        if self == Self::Coding { 501 } else { 400 }
    }
}

/// The length of a request's body.
///
/// # Errors
/// When it is ambiguous.
pub fn request(head: &RequestHead) -> Result<BodyLength, FramingError> {
    match stated(&head.fields, head.version)? {
        // RFC 9112 §6.3 item 7.
        None | Some(BodyLength::Known(0)) => Ok(BodyLength::Empty),
        Some(length) => Ok(length),
    }
}

/// The length of a response's body, for a request with this method. Not for a 2xx to CONNECT nor
/// for a 101, which have no body.
///
/// # Errors
/// When it is ambiguous.
pub fn response(method: Method, head: &ResponseHead) -> Result<BodyLength, FramingError> {
    // RFC 9112 §6.3 item 1: no body, even with fields that state one. They must be valid all the
    // same, for a cache may keep them.
    let stated = stated(&head.fields, head.version)?;
    if method == Method::Head || matches!(head.status, 100..=199 | 204 | 304) {
        return Ok(BodyLength::Empty);
    }
    Ok(match stated {
        None => BodyLength::UntilClose,
        Some(BodyLength::Known(0)) => BodyLength::Empty,
        Some(length) => length,
    })
}

/// The length that the fields state, if any.
fn stated(fields: &Fields, version: HttpVersion) -> Result<Option<BodyLength>, FramingError> {
    let mut lengths = fields.values(Known::ContentLength);
    let mut codings = fields.values(Known::TransferEncoding);
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(FramingError::Both),
        (Some(_), None) if lengths.next().is_some() => Err(FramingError::Lengths),
        (Some(length), None) => length_of(length).map(|length| Some(BodyLength::Known(length))),
        (None, Some(_)) if version == HttpVersion::Http10 => Err(FramingError::Old),
        (None, Some(_)) if codings.next().is_some() => Err(FramingError::Coding),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Some(BodyLength::Chunked))
        }
        (None, Some(_)) => Err(FramingError::Coding),
    }
}

/// Only digits: no sign, no list, no space between.
pub(crate) fn length_of(value: &[u8]) -> Result<u64, FramingError> {
    if value.contains(&b',') {
        return Err(FramingError::Lengths);
    }
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(FramingError::Length);
    }
    value
        .iter()
        .try_fold(0_u64, |length, digit| {
            let length = length
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            (length <= i64::MAX as u64).then_some(length)
        })
        .ok_or(FramingError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::HeadLimits;
    use crate::h1::parse::{self, HeadProgress};

    fn of_request(version: &str, fields: &str) -> Result<BodyLength, FramingError> {
        let (mut head, input) = (
            RequestHead::default(),
            format!("POST / {version}\r\n{fields}\r\n"),
        );
        parse::request(
            input.as_bytes(),
            &mut HeadProgress::default(),
            &HeadLimits::default(),
            &mut head,
        )
        .unwrap()
        .unwrap();
        request(&head)
    }

    fn of_response(method: Method, status: u16, fields: &str) -> Result<BodyLength, FramingError> {
        let (mut head, input) = (
            ResponseHead::default(),
            format!("HTTP/1.1 {status} X\r\n{fields}\r\n"),
        );
        parse::response(
            input.as_bytes(),
            &mut HeadProgress::default(),
            &HeadLimits::default(),
            &mut head,
        )
        .unwrap()
        .unwrap();
        response(method, &head)
    }

    #[test]
    fn a_request_body_length_comes_from_content_length_or_chunked() {
        for (fields, length) in [
            ("", BodyLength::Empty),
            ("Content-Length: 0\r\n", BodyLength::Empty),
            ("Content-Length: 10\r\n", BodyLength::Known(10)),
            ("content-length:  007 \r\n", BodyLength::Known(7)),
            (
                "Content-Length: 9223372036854775807\r\n",
                BodyLength::Known(i64::MAX as u64),
            ),
            ("Transfer-Encoding: chunked\r\n", BodyLength::Chunked),
            ("transfer-encoding: CHUNKED\r\n", BodyLength::Chunked),
        ] {
            assert_eq!(of_request("HTTP/1.1", fields), Ok(length), "{fields}");
        }
    }

    #[test]
    fn ambiguous_content_length_and_transfer_encoding_are_refused() {
        use FramingError::*;
        for (version, fields, error) in [
            // RFC 9112 §6.3 item 3; CL.TE and TE.CL.
            (
                "HTTP/1.1",
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                Both,
            ),
            (
                "HTTP/1.1",
                "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                Both,
            ),
            (
                "HTTP/1.1",
                "Content-Length: 0\r\nTransfer-Encoding: x\r\n",
                Both,
            ),
            // Item 5.
            (
                "HTTP/1.1",
                "Content-Length: 4\r\nContent-Length: 5\r\n",
                Lengths,
            ),
            (
                "HTTP/1.1",
                "Content-Length: 4\r\nContent-Length: 4\r\n",
                Lengths,
            ),
            ("HTTP/1.1", "Content-Length: 4, 4\r\n", Lengths),
            ("HTTP/1.1", "Content-Length: +4\r\n", Length),
            ("HTTP/1.1", "Content-Length: -4\r\n", Length),
            ("HTTP/1.1", "Content-Length: 0x4\r\n", Length),
            ("HTTP/1.1", "Content-Length: 4 4\r\n", Length),
            ("HTTP/1.1", "Content-Length: 4.0\r\n", Length),
            ("HTTP/1.1", "Content-Length:\r\n", Length),
            ("HTTP/1.1", "Content-Length: \u{b2}\r\n", Length),
            (
                "HTTP/1.1",
                "Content-Length: 9223372036854775808\r\n",
                Length,
            ),
            (
                "HTTP/1.1",
                "Content-Length: 18446744073709551620\r\n",
                Length,
            ),
            // Item 4; TE.TE by obfuscation.
            ("HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n", Coding),
            ("HTTP/1.1", "Transfer-Encoding: chunked, gzip\r\n", Coding),
            (
                "HTTP/1.1",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                Coding,
            ),
            ("HTTP/1.1", "Transfer-Encoding: xchunked\r\n", Coding),
            ("HTTP/1.1", "Transfer-Encoding: chunked;q=1\r\n", Coding),
            ("HTTP/1.1", "Transfer-Encoding: \"chunked\"\r\n", Coding),
            ("HTTP/1.1", "Transfer-Encoding: identity\r\n", Coding),
            ("HTTP/1.1", "Transfer-Encoding:\r\n", Coding),
            // §6.1: HTTP/1.0 has none.
            ("HTTP/1.0", "Transfer-Encoding: chunked\r\n", Old),
        ] {
            assert_eq!(of_request(version, fields), Err(error), "{fields}");
        }
        assert_eq!((Coding.status(), Both.status()), (501, 400));
    }

    /// RFC 9112 §6.3 items 1 and 8.
    #[test]
    fn a_response_body_length_follows_method_status_and_fields() {
        use BodyLength::*;
        for (method, status, fields, length) in [
            (Method::Get, 200, "", UntilClose),
            (Method::Get, 200, "Content-Length: 5\r\n", Known(5)),
            (Method::Get, 200, "Transfer-Encoding: chunked\r\n", Chunked),
            (Method::Get, 200, "Content-Length: 0\r\n", Empty),
            (Method::Head, 200, "Content-Length: 5\r\n", Empty),
            (Method::Head, 200, "Transfer-Encoding: chunked\r\n", Empty),
            (Method::Get, 204, "Content-Length: 5\r\n", Empty),
            (Method::Get, 304, "Content-Length: 5\r\n", Empty),
            (Method::Get, 103, "", Empty),
        ] {
            assert_eq!(
                of_response(method, status, fields),
                Ok(length),
                "{method:?} {status} {fields}"
            );
        }
        for status in [200, 204, 304] {
            let both = of_response(
                Method::Head,
                status,
                "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            );
            assert_eq!(both, Err(FramingError::Both), "{status}");
        }
    }
}
