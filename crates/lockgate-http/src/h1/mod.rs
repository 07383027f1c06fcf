//! The HTTP/1 codec (RFC 9112): `parse` makes heads of bytes, `framing` says how long a body is,
//! `body` takes bodies apart, `encode` makes bytes.

pub mod body;
pub mod encode;
pub mod framing;
pub mod parse;

/// What a head may be at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, from its first line to the empty one.
    pub head: usize,
    /// Field lines; those of a trailer section likewise.
    pub fields: usize,
}

impl Default for Limits {
    /// Four times what browsers are known to send, and 128 lines.
    fn default() -> Self {
        Self {
            head: 64 * 1024,
            fields: 128,
        }
    }
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The first line is none of HTTP/1 (RFC 9112 §3, §4).
    #[error("the first line is malformed")]
    FirstLine,
    /// HTTP, but neither 1.0 nor 1.1 (RFC 9110 §2.5).
    #[error("the version of HTTP is not supported")]
    Version,
    /// A line ends by LF alone, or has a CR within (RFC 9112 §2.2).
    #[error("a line does not end with CR LF")]
    LineEnd,
    /// A line begins with whitespace: a continuation (RFC 9112 §5.2), or one before the first field
    /// (§2.2).
    #[error("a field is folded")]
    Folded,
    /// A name is empty, has characters that names have not, or whitespace before its colon (RFC
    /// 9112 §5.1).
    #[error("a field's name is malformed")]
    FieldName,
    /// A value has a control character (RFC 9110 §5.5).
    #[error("a field's value is malformed")]
    FieldValue,
    /// [`Limits::head`].
    #[error("the head is too long")]
    TooLong,
    /// The same, by a request's first line alone (RFC 9112 §3).
    #[error("the request-target is too long")]
    TargetTooLong,
    /// [`Limits::fields`].
    #[error("there are too many fields")]
    TooManyFields,
    /// Connection has more than [`NOMINATED`] elements.
    #[error("Connection names too many fields")]
    TooManyNominated,
}

/// Elements that Connection may have, empty ones too: an intermediary compares each with every
/// field (RFC 9110 §7.6.1). What is sent by others than attackers has a handful.
pub const NOMINATED: usize = 32;

impl HeadError {
    /// What a client is answered (RFC 9110 §15.5, §15.6; RFC 6585 §5).
    pub fn status(self) -> u16 {
        match self {
            Self::Version => 505,
            Self::TargetTooLong => 414,
            Self::TooLong | Self::TooManyFields => 431,
            _ => 400,
        }
    }
}
