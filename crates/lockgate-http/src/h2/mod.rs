//! HTTP/2 (RFC 9113): a [`Connection`] of either side without IO, and its messages in the form of
//! HTTP/1.
//!
//! `request` and `response` build heads from decoded fields, `section` has the rules for all fields,
//! `frames` has the numbers of frames.
//!
//! A value with a line feed in it is one value to HPACK and two lines to an origin that gets it
//! in HTTP/1 ("HTTP/2: The Sequel is Always Worse", Kettle 2021), so nothing becomes a head that
//! HTTP/1 could not express.

use crate::h1::framing::FramingError;

mod budget;
pub mod code;
mod coded_date;
mod connection;
mod events;
mod fault;
mod field_block;
mod field_section;
mod frame_header;
pub mod frames;
pub mod request;
pub mod response;
mod role;
pub mod section;
mod settings;
mod streams;
mod windows;

pub use budget::Budget;
pub use connection::{Connection, TurnBuffers};
pub use events::{Event, StreamReset};
pub use fault::{ConnectionError, StreamFault};
pub use field_block::FieldBlock;
pub use field_section::{FieldSection, FieldSink};
pub use role::Role;
pub use settings::{LocalSettings, PeerSettings};
pub use streams::Key;

/// The reason why a field section is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SectionError {
    /// A required pseudo-header field is missing, or one is there that such a head, or trailers,
    /// must not have (RFC 9113 §8.1, §8.3, §8.5; RFC 8441 §4).
    #[error("a pseudo-header field is missing or not allowed")]
    PseudoFields,
    /// A method that is no token (RFC 9110 §9.1).
    #[error(":method is malformed")]
    Method,
    /// A scheme other than http and https.
    #[error(":scheme is neither http nor https")]
    Scheme,
    /// A path that is empty, without its first slash, with a fragment, or with characters that no
    /// request-target has (RFC 9113 §8.3.1).
    #[error(":path is malformed")]
    Path,
    /// An authority that is no host and port, or has userinfo (RFC 9113 §8.3.1).
    #[error("the authority is malformed")]
    Authority,
    /// Neither `:authority` nor Host: HTTP/1.1 requires one (RFC 9112 §3.2).
    #[error("the authority is missing")]
    NoAuthority,
    /// A Host that differs from `:authority`, or several (RFC 9113 §8.3.1).
    #[error("there is more than one authority")]
    Authorities,
    /// A protocol that is no token (RFC 8441 §4).
    #[error(":protocol is malformed")]
    Protocol,
    /// Extended CONNECT for another protocol than WebSocket (RFC 9220 §3 asks for 501).
    #[error(":protocol is not supported")]
    UnknownProtocol,
    /// A status of 101, which HTTP/2 does not have (RFC 9113 §8.6), or not of three digits.
    #[error(":status is malformed")]
    Status,
    /// A name that is no token, or has capitals (RFC 9113 §8.2.1).
    #[error("a field's name is malformed")]
    FieldName,
    /// A value with a control character, or whitespace at one of its ends (RFC 9113 §8.2.1).
    #[error("a field's value is malformed")]
    FieldValue,
    /// A connection-specific field, or a TE other than `trailers` (RFC 9113 §8.2.2).
    #[error("a connection-specific field is not allowed")]
    ConnectionField,
    /// Content-Length is no length, or several differ.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// Content-Length promises a body, and there is none (RFC 9113 §8.1.1).
    #[error("Content-Length is not the length of the body")]
    NoBody,
    /// More bytes of fields than [`HeadLimits::head`](crate::h1::HeadLimits::head).
    #[error("the head is too long")]
    TooLong,
    /// The same, by the pseudo-header fields alone.
    #[error("the request-target is too long")]
    TargetTooLong,
    /// More field lines than [`HeadLimits::fields`](crate::h1::HeadLimits::fields) allows.
    #[error("there are too many fields")]
    TooManyFields,
}

impl SectionError {
    /// Whether RFC 9113 §8.1.1 calls such a message malformed, which is a stream error of type
    /// PROTOCOL_ERROR. Others are well-formed, and exceed our limits or what HTTP/1 can express.
    pub fn is_malformed(self) -> bool {
        self.status() == 400 && !matches!(self, Self::NoAuthority | Self::Scheme)
    }

    /// The status for the client. 400 is for requests that RFC 9113 §8.1.1 calls malformed: a
    /// stream error of type PROTOCOL_ERROR, before which a response is allowed.
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
