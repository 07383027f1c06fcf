//! The key of a WebSocket's handshake (RFC 6455 §4.1, §4.2.2) for a client over HTTP/2, which needs
//! none (RFC 8441 §5), while its endpoint over HTTP/1 does.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use base64ct::{Base64, Encoding};

/// The text that an accepting endpoint appends to the key.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The key of the request with this id. It is derived from the id, so that it need not be kept.
pub(super) fn key(id: &[u8]) -> String {
    Base64::encode_string(&digest(&SHA256, id).as_ref()[..16])
}

/// Whether `accept` proves that the endpoint has read the handshake of that request.
pub(super) fn is_accepted(id: &[u8], accept: &[u8]) -> bool {
    self::accept(key(id)).as_bytes() == accept
}

/// The Sec-WebSocket-Accept for a key.
pub(super) fn accept(mut key: String) -> String {
    key.push_str(GUID);
    Base64::encode_string(digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455 §1.3
    #[test]
    fn sec_websocket_accept_matches_the_rfc_example() {
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ==".to_owned()),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn only_the_matching_sec_websocket_accept_is_valid() {
        let accept = accept(key(b"one"));
        assert_eq!(key(b"one").len(), 24);
        assert!(is_accepted(b"one", accept.as_bytes()));
        assert!(!is_accepted(b"two", accept.as_bytes()));
    }
}
