//! Detection of the version, from the first byte on.

use super::prefix::PrefixMatch;
use super::{ParsedHeader, ProxyError, v1, v2};

/// Parses a header of either version from the first bytes of a connection.
///
/// `Ok(None)` means that the header is not complete yet; call again with more bytes, all from the
/// beginning. The way the bytes arrive does not change the result. A wrong byte is reported as
/// early as possible; a version 2 header that announces more than [`HEADER_MAX`](super::HEADER_MAX)
/// bytes is refused before they come.
///
/// # Errors
/// [`ProxyError`]: close the connection.
pub fn parse(bytes: &[u8]) -> Result<Option<ParsedHeader>, ProxyError> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => v1::parse(bytes),
        Some(b'\r') => v2::parse(bytes),
        Some(_) => Err(ProxyError::NotProxy),
    }
}

/// Whether the first bytes of a connection begin an optional PROXY header.
///
/// Decided after 6 bytes of version 1 (`PROXY `) or the 12 of version 2's signature, earlier for
/// most other protocols. Only for connections from trusted proxies: any client can send these bytes
/// (§5).
pub fn may_begin(bytes: &[u8]) -> PrefixMatch {
    match PrefixMatch::of(bytes, v1::GREETING) {
        PrefixMatch::No => PrefixMatch::of(bytes, v2::SIGNATURE),
        decided => decided,
    }
}
