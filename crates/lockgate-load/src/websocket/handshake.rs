//! Opening handshake of a WebSocket (RFC 6455 §4.1): the fields of the request, and the check of
//! the response.
//!
//! The caller writes the request line, Host and all other fields.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64ct::{Base64, Encoding};
use lockgate_http::fields::Known;
use lockgate_http::h1::encode;
use lockgate_http::head::ResponseHead;

/// The GUID that a server appends to the key (§1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Error of a response that does not open a WebSocket (§4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// The status is not 101.
    #[error("the status is {0} where 101 was expected")]
    Status(u16),
    /// The Upgrade field is not `websocket`.
    #[error("Upgrade is not `websocket`")]
    Upgrade,
    /// The Connection field has no `Upgrade`.
    #[error("Connection does not have `Upgrade`")]
    Connection,
    /// The accept value is missing or belongs to another key: the server has not read the request.
    #[error("Sec-WebSocket-Accept does not belong to the key that was sent")]
    Accept,
    /// The response has an extension, and none was offered.
    #[error("Sec-WebSocket-Extensions is there, and none was offered")]
    Extension,
    /// The response has a subprotocol, and none was offered.
    #[error("Sec-WebSocket-Protocol is there, and none was offered")]
    Protocol,
}

/// One handshake with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// Sec-WebSocket-Key: 16 bytes as base64.
    key: [u8; 24],
    /// The Sec-WebSocket-Accept that belongs to it.
    accept: [u8; 28],
}

impl Handshake {
    /// A handshake with a random key.
    ///
    /// The key is no secret: it proves that the server has read this request (§1.3).
    pub fn random() -> Self {
        Self::with(fastrand::u128(..).to_ne_bytes())
    }

    fn with(nonce: [u8; 16]) -> Self {
        let key = base64(&nonce);
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[&key, GUID].concat());
        Self {
            key,
            accept: base64(hash.as_ref()),
        }
    }

    /// Appends the fields of the upgrade.
    pub fn write(&self, out: &mut Vec<u8>) {
        encode::field(out, b"Upgrade", b"websocket");
        encode::field(out, b"Connection", b"Upgrade");
        encode::field(out, b"Sec-WebSocket-Key", &self.key);
        encode::field(out, b"Sec-WebSocket-Version", b"13");
    }

    /// Checks the response; behind its head come frames.
    ///
    /// # Errors
    /// The response does not open a WebSocket.
    pub fn check(&self, head: &ResponseHead) -> Result<(), UpgradeError> {
        let fields = &head.fields;
        if head.status != 101 {
            return Err(UpgradeError::Status(head.status));
        }
        let mut upgrade = fields.values(Known::Upgrade);
        let to = upgrade.next().unwrap_or_default();
        if !to.eq_ignore_ascii_case(b"websocket") || upgrade.next().is_some() {
            return Err(UpgradeError::Upgrade);
        }
        if !fields
            .tokens(Known::Connection)
            .any(|token| token.eq_ignore_ascii_case(b"upgrade"))
        {
            return Err(UpgradeError::Connection);
        }
        let mut accept = fields.named(b"Sec-WebSocket-Accept");
        // §11.3.3: it must not be there twice.
        if accept.next() != Some(&self.accept) || accept.next().is_some() {
            return Err(UpgradeError::Accept);
        }
        if fields.named(b"Sec-WebSocket-Extensions").next().is_some() {
            return Err(UpgradeError::Extension);
        }
        if fields.named(b"Sec-WebSocket-Protocol").next().is_some() {
            return Err(UpgradeError::Protocol);
        }
        Ok(())
    }
}

/// Base64 with padding, of `LENGTH` characters.
fn base64<const LENGTH: usize>(bytes: &[u8]) -> [u8; LENGTH] {
    let mut text = [0; LENGTH];
    Base64::encode(bytes, &mut text).expect("there is room for it");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_http::h1::HeadLimits;
    use lockgate_http::h1::parse::{self, HeadProgress};

    /// The handshake of §1.3.
    fn handshake() -> Handshake {
        Handshake::with(*b"the sample nonce")
    }

    fn check(answer: &str) -> Result<(), UpgradeError> {
        let (mut progress, mut head) = (HeadProgress::default(), ResponseHead::default());
        let taken = parse::response(
            answer.as_bytes(),
            &mut progress,
            &HeadLimits::default(),
            &mut head,
        );
        assert_eq!(taken, Ok(Some(answer.len())));
        handshake().check(&head)
    }

    #[test]
    fn it_is_asked_for_by_four_fields() {
        let mut out = Vec::new();
        handshake().write(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Version: 13\r\n"
        );
        assert_ne!(Handshake::random(), Handshake::random());
    }

    #[test]
    fn an_answer_grants_it_or_is_told_why_not() {
        use UpgradeError::*;
        let (upgrade, connection) = ("Upgrade: websocket\r\n", "Connection: Upgrade\r\n");
        let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        for (status, fields, expected) in [
            (101, [upgrade, connection, accept, ""], Ok(())),
            (
                101,
                [
                    accept,
                    "upgrade: WebSocket\r\n",
                    "CONNECTION: keep-alive, upgrade\r\n",
                    "Server: x\r\n",
                ],
                Ok(()),
            ),
            (
                101,
                [
                    upgrade,
                    "Connection: a\r\nConnection: UPGRADE\r\n",
                    accept,
                    "",
                ],
                Ok(()),
            ),
            // §4.1: the checks of a client, in their order.
            (200, [upgrade, connection, accept, ""], Err(Status(200))),
            (401, ["", "", "", ""], Err(Status(401))),
            (101, ["", connection, accept, ""], Err(Upgrade)),
            (
                101,
                ["Upgrade: h2c\r\n", connection, accept, ""],
                Err(Upgrade),
            ),
            (
                101,
                ["Upgrade: websocket, h2c\r\n", connection, accept, ""],
                Err(Upgrade),
            ),
            (101, [upgrade, connection, accept, upgrade], Err(Upgrade)),
            (101, [upgrade, "", accept, ""], Err(Connection)),
            (
                101,
                [upgrade, "Connection: Upgraded, keep-alive\r\n", accept, ""],
                Err(Connection),
            ),
            (101, [upgrade, connection, "", ""], Err(Accept)),
            (
                101,
                [upgrade, connection, "Sec-WebSocket-Accept: \r\n", ""],
                Err(Accept),
            ),
            // The key itself, and a hash in small letters.
            (
                101,
                [
                    upgrade,
                    connection,
                    "Sec-WebSocket-Accept: dGhlIHNhbXBsZSBub25jZQ==\r\n",
                    "",
                ],
                Err(Accept),
            ),
            (
                101,
                [
                    upgrade,
                    connection,
                    "Sec-WebSocket-Accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n",
                    "",
                ],
                Err(Accept),
            ),
            (101, [upgrade, connection, accept, accept], Err(Accept)),
            (
                101,
                [
                    upgrade,
                    connection,
                    accept,
                    "Sec-WebSocket-Extensions: permessage-deflate\r\n",
                ],
                Err(Extension),
            ),
            (
                101,
                [
                    upgrade,
                    connection,
                    accept,
                    "sec-websocket-protocol: chat\r\n",
                ],
                Err(Protocol),
            ),
        ] {
            let answer = format!("HTTP/1.1 {status} x\r\n{}\r\n", fields.concat());
            assert_eq!(check(&answer), expected, "{answer}");
        }
    }
}
