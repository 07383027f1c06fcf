//! HTTP/2 in the words of HTTP/1 (RFC 9113): `request` and `response` make heads of what HPACK has
//! decoded, `section` is what holds for all fields, `frames` follows a stream of frames without
//! reading them.
//!
//! Streams, windows and HPACK are not here. What is: the one check between a field section and a
//! head. A value with a line feed in it is one value to HPACK and two lines to an origin that is
//! told of it in HTTP/1 ("HTTP/2: The Sequel is Always Worse", Kettle 2021), so nothing becomes a
//! head that HTTP/1 could not have said.

use crate::h1::framing::FramingError;

pub mod frames;
pub mod request;
pub mod response;
pub mod section;

/// Why a field section is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// One that must be there is not, or one is there that has no place in such a head, or in
    /// trailers (RFC 9113 §8.1, §8.3, §8.5; RFC 8441 §4).
    #[error("the pseudo-header fields are not those that belong there")]
    PseudoFields,
    /// No token (RFC 9110 §9.1).
    #[error(":method is malformed")]
    Method,
    /// Neither http nor https.
    #[error(":scheme is neither http nor https")]
    Scheme,
    /// Empty, without its first slash, with a fragment, or with what no request-target has (RFC
    /// 9113 §8.3.1).
    #[error(":path is malformed")]
    Path,
    /// No host and port, or with userinfo (RFC 9113 §8.3.1).
    #[error("the authority is malformed")]
    Authority,
    /// Neither `:authority` nor Host: HTTP/1.1 cannot do without (RFC 9112 §3.2).
    #[error("the authority is missing")]
    NoAuthority,
    /// Host is not what `:authority` is, or is there more than once (RFC 9113 §8.3.1).
    #[error("there is more than one authority")]
    Authorities,
    /// No token (RFC 8441 §4).
    #[error(":protocol is malformed")]
    Protocol,
    /// Extended CONNECT for another protocol than WebSocket (RFC 9220 §3 asks for 501).
    #[error(":protocol is not supported")]
    UnknownProtocol,
    /// 101, which HTTP/2 has not (RFC 9113 §8.6), or none of three digits.
    #[error(":status is malformed")]
    Status,
    /// No token, or one with capitals (RFC 9113 §8.2.1).
    #[error("a field's name is malformed")]
    FieldName,
    /// With a control character, or whitespace at one of its ends (RFC 9113 §8.2.1).
    #[error("a field's value is malformed")]
    FieldValue,
    /// A field of HTTP/1's connections, or a TE other than `trailers` (RFC 9113 §8.2.2).
    #[error("a field is specific to connections")]
    ConnectionField,
    /// What is said of the body's length.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// Content-Length promises a body, and there is none (RFC 9113 §8.1.1).
    #[error("Content-Length is not the length of the body")]
    NoBody,
    /// [`Limits::head`](crate::h1::Limits::head), by all fields together.
    #[error("the head is too long")]
    TooLong,
    /// The same, by the pseudo-header fields alone.
    #[error("the request-target is too long")]
    TargetTooLong,
    /// [`Limits::fields`](crate::h1::Limits::fields).
    #[error("there are too many fields")]
    TooManyFields,
}

impl HeadError {
    /// What a client is answered. 400 stands for what RFC 9113 §8.1.1 calls malformed: a stream
    /// error of type PROTOCOL_ERROR, before which it may be answered.
    pub fn status(self) -> u16 {
        match self {
            Self::UnknownProtocol => 501,
            Self::TargetTooLong => 414,
            Self::TooLong | Self::TooManyFields => 431,
            Self::Framing(error) => error.status(),
            _ => 400,
        }
    }
}
