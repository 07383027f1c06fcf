//! The HTTP/1 codec (RFC 9112): `parse` reads heads, `framing` determines the length of a body,
//! `body` decodes bodies, `encode` writes messages.

pub mod body;
pub mod encode;
pub mod framing;
pub mod parse;

/// The limits of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of a head, from its first line to the empty one.
    pub head: usize,
    /// Field lines; the same for a trailer section.
    pub fields: usize,
}

impl Default for HeadLimits {
    /// Four times the largest heads of browsers, and 128 lines.
    fn default() -> Self {
        Self {
            head: 64 * 1024,
            fields: 128,
        }
    }
}

/// The reason why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// A first line that is not HTTP/1 (RFC 9112 §3, §4).
    #[error("the first line is malformed")]
    FirstLine,
    /// A version other than 1.0 and 1.1 (RFC 9110 §2.5).
    #[error("the version of HTTP is not supported")]
    Version,
    /// A line that ends by LF alone, or has a CR within (RFC 9112 §2.2).
    #[error("a line does not end with CR LF")]
    LineEnd,
    /// A line that begins with whitespace: a continuation (RFC 9112 §5.2), or one before the first
    /// field (§2.2).
    #[error("a field is folded")]
    Folded,
    /// A name that is empty, has invalid characters, or whitespace before its colon (RFC 9112
    /// §5.1).
    #[error("a field's name is malformed")]
    FieldName,
    /// A value with a control character (RFC 9110 §5.5).
    #[error("a field's value is malformed")]
    FieldValue,
    /// A head longer than [`HeadLimits::head`].
    #[error("the head is too long")]
    TooLong,
    /// A request's first line longer than that (RFC 9112 §3).
    #[error("the request-target is too long")]
    TargetTooLong,
    /// More field lines than [`HeadLimits::fields`] allows.
    #[error("there are too many fields")]
    TooManyFields,
    /// More than [`NOMINATED`] elements in Connection.
    #[error("Connection names too many fields")]
    TooManyNominated,
}

/// The most elements of Connection, empty ones included: an intermediary compares each with every
/// field (RFC 9110 §7.6.1). Honest senders have a handful.
pub const NOMINATED: usize = 32;

impl HeadError {
    /// The status for the client (RFC 9110 §15.5, §15.6; RFC 6585 §5).
    pub fn status(self) -> u16 {
        match self {
            Self::Version => 505,
            Self::TargetTooLong => 414,
            Self::TooLong | Self::TooManyFields => 431,
            _ => 400,
        }
    }
}
