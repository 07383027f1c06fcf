//! Errors of a ClientHello, and the alert for each.

use thiserror::Error;

const UNEXPECTED_MESSAGE: u8 = 10;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;

/// The reason why bytes are no acceptable ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HelloError {
    /// The connection does not begin with a TLS handshake record.
    #[error("the connection does not begin with a TLS handshake")]
    NotTls,
    /// A ClientHello in the form of SSL 2.0, forbidden by RFC 8446 appendix D.5.
    #[error("the client speaks SSL 2.0")]
    Ssl2,
    /// A legacy_version of SSL 3.0 or below, forbidden by RFC 8446 appendix D.5.
    #[error("the client speaks SSL 3.0")]
    Ssl3,
    /// A record of another major version than 3.
    #[error("a TLS record has an unknown version")]
    RecordVersion,
    /// Another record between the fragments of the hello (RFC 8446 §5.1).
    #[error("another TLS record interrupts the ClientHello")]
    Interrupted,
    /// A handshake record without content (RFC 8446 §5.1).
    #[error("a TLS handshake record is empty")]
    EmptyRecord,
    /// A record of more than 2^14 bytes (RFC 8446 §5.1).
    #[error("a TLS record is longer than 16384 bytes")]
    RecordOverflow,
    /// The first handshake message is another one.
    #[error("the first TLS handshake message is not a ClientHello")]
    NotClientHello,
    /// The hello has more than [`HELLO_MAX`](super::HELLO_MAX) bytes.
    #[error("the ClientHello is longer than 65536 bytes")]
    TooLong,
    /// Data behind the hello in its last record; a client must wait.
    #[error("more follows the ClientHello in its record")]
    Trailing,
    /// A length or a list that does not fit; the field is named.
    #[error("the ClientHello is malformed: {0}")]
    Malformed(&'static str),
    /// RFC 8446 §4.2: one extension of each type.
    #[error("the ClientHello has an extension twice")]
    ExtensionTwice,
    /// The server name is not a DNS name (RFC 6066 §3).
    #[error("the server name in the ClientHello is not a DNS name")]
    BadName,
}

impl HelloError {
    /// The description of the alert to send (RFC 8446 §6).
    pub fn alert(self) -> u8 {
        match self {
            Self::NotTls
            | Self::Interrupted
            | Self::EmptyRecord
            | Self::NotClientHello
            | Self::Trailing => UNEXPECTED_MESSAGE,
            Self::Ssl2 | Self::Ssl3 | Self::RecordVersion => PROTOCOL_VERSION,
            Self::RecordOverflow => RECORD_OVERFLOW,
            Self::TooLong | Self::Malformed(_) => DECODE_ERROR,
            Self::ExtensionTwice | Self::BadName => ILLEGAL_PARAMETER,
        }
    }
}

/// The record of a fatal alert, to send before closing a connection that was not decrypted.
pub fn fatal_alert(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}
