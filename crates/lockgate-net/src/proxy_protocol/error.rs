//! Errors of a PROXY header.
//!
//! Each has the same consequence: close the connection without a response (§2).

use thiserror::Error;

/// The reason why bytes are no acceptable PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProxyError {
    /// The first bytes are neither `PROXY ` nor the version 2 signature.
    #[error("the connection does not begin with a PROXY header")]
    NotProxy,
    /// Version 1: the word after `PROXY` is none of TCP4, TCP6, UNKNOWN (§2.1).
    #[error("the PROXY line names an unknown protocol (known are TCP4, TCP6 and UNKNOWN)")]
    Keyword,
    /// Version 1: no CRLF within [`LINE_MAX`](super::LINE_MAX) bytes (§2.1).
    #[error("the PROXY line does not end within 107 bytes")]
    LineTooLong,
    /// Version 1: a CR or LF alone (§2.1).
    #[error("the PROXY line does not end with CR LF")]
    LineEnd,
    /// Version 1: not exactly two addresses and two ports, a single space between (§2.1).
    #[error("the PROXY line does not have two addresses and two ports")]
    Fields,
    /// Version 1: an address that is not of the family announced, or not in canonical form (§2.1).
    #[error("the PROXY line has a malformed address")]
    Address,
    /// Version 1: a port that is not a decimal from 0 to 65535 without leading zeros (§2.1).
    #[error("the PROXY line has a malformed port")]
    Port,
    /// Version 2: the version is not 2 (§2.2).
    #[error("the binary PROXY header is not of version 2")]
    Version,
    /// Version 2: the command is neither LOCAL nor PROXY (§2.2).
    #[error("the PROXY header has an unknown command")]
    Command,
    /// Version 2: an address family or transport that the specification does not list (§2.2).
    #[error("the PROXY header has an unknown address family or transport")]
    Family,
    /// Version 2: a datagram transport on a stream connection.
    #[error("the PROXY header announces a datagram on a stream connection")]
    Datagram,
    /// Version 2: the header is longer than [`HEADER_MAX`](super::HEADER_MAX).
    #[error("the PROXY header is longer than 4096 bytes")]
    TooLong,
    /// Version 2: the header is too short for the addresses of its family (§2.2).
    #[error("the PROXY header is too short for its addresses")]
    AddressBlock,
    /// Version 2: a TLV is truncated, or exceeds its container (§2.2).
    #[error("a field of the PROXY header runs over its end")]
    TlvLength,
    /// Version 2: a field that must be unique is repeated.
    #[error("a field of the PROXY header comes twice")]
    TlvTwice,
    /// Version 2: a value is longer than its type allows (ALPN and authority 255 bytes, unique ID
    /// 128).
    #[error("a field of the PROXY header is longer than allowed")]
    TlvTooLong,
    /// Version 2: a text is not UTF-8 or has control characters (§2.2.2, §2.2.6).
    #[error("a text in the PROXY header is not clean UTF-8")]
    TlvText,
    /// Version 2: the CRC32c does not match (§2.2.3).
    #[error("the checksum of the PROXY header does not match")]
    Checksum,
}
