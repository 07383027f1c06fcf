//! The ServerHello: the chosen version, and the id of the session. Without IO.
//!
//! For an observer of TLS that takes no part in it: it checks only what it needs, and leaves errors
//! to the client.

use thiserror::Error;

use crate::client_hello::HelloVersion;
use crate::client_hello::message::{RANDOM, SESSION_ID_MAX, SUPPORTED_VERSIONS};
use crate::client_hello::peek::{HANDSHAKE, MESSAGE_HEADER, RECORD_MAX};
use crate::client_hello::vector_reader::VectorReader;

/// The most bytes, records' headers included, that are examined. A ServerHello of TLS 1.2 has a
/// hundred, and a few hundred more with certificate timestamps (RFC 6962 §3.3.1).
pub const SERVER_HELLO_MAX: usize = 4_096;

const SERVER_HELLO: u8 = 2;
/// The beginning of a record: its type, and the major version that all have (RFC 8446 §5.1).
const RECORD: [u8; 2] = [HANDSHAKE, 3];

/// The server's choice (RFC 5246 §7.4.1.3, RFC 8446 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHello {
    /// The version that the server has chosen.
    pub version: HelloVersion,
    /// The session id, at most 32 bytes; empty if it cannot be resumed. In TLS 1.3 it echoes the
    /// client's and means nothing.
    pub session_id: Box<[u8]>,
}

/// The server sends another message first, or more than [`SERVER_HELLO_MAX`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the server does not begin with a ServerHello")]
pub struct NoServerHello;

/// Parses a ServerHello at the beginning of the server's bytes, which are all in `bytes`; `None` if
/// it is incomplete. The way the bytes arrive does not change the result.
///
/// # Errors
/// When the bytes are no ServerHello.
pub fn peek(bytes: &[u8]) -> Result<Option<ServerHello>, NoServerHello> {
    let (mut rest, mut message) = (bytes.get(..SERVER_HELLO_MAX).unwrap_or(bytes), Vec::new());
    let complete = bytes.len() >= SERVER_HELLO_MAX;
    loop {
        let [kind, major, _, high, low, content @ ..] = rest else {
            let begins = rest
                .iter()
                .zip(&RECORD)
                .all(|(byte, expected)| byte == expected);
            return if begins && !complete {
                Ok(None)
            } else {
                Err(NoServerHello)
            };
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if [*kind, *major] != RECORD || length == 0 || length > RECORD_MAX {
            return Err(NoServerHello);
        }
        let here = content.get(..length);
        message.extend_from_slice(here.unwrap_or(content));
        match (parse(&message)?, here) {
            (Some(hello), _) => return Ok(Some(hello)),
            (None, None) => {
                return if complete {
                    Err(NoServerHello)
                } else {
                    Ok(None)
                };
            }
            (None, Some(_)) => rest = content.get(length..).unwrap_or_default(),
        }
    }
}

/// Parses the first message of a handshake, which others may follow; `None` if it is incomplete.
fn parse(message: &[u8]) -> Result<Option<ServerHello>, NoServerHello> {
    if message.first().is_some_and(|kind| *kind != SERVER_HELLO) {
        return Err(NoServerHello);
    }
    let Some(([_, a, b, c], body)) = message.split_first_chunk::<MESSAGE_HEADER>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if length > SERVER_HELLO_MAX {
        return Err(NoServerHello);
    }
    let Some(body) = body.get(..length) else {
        return Ok(None);
    };
    read(VectorReader(body)).map(Some).ok_or(NoServerHello)
}

fn read(mut body: VectorReader<'_>) -> Option<ServerHello> {
    let mut version = body.u16()?;
    body.take(RANDOM)?;
    let session_id = body.vec8().filter(|id| id.len() <= SESSION_ID_MAX)?;
    let _suite = body.u16()?;
    let _compression = body.u8()?;
    if !body.is_empty() {
        let mut extensions = VectorReader(body.vec16().filter(|_| body.is_empty())?);
        while !extensions.is_empty() {
            let (kind, content) = (extensions.u16()?, extensions.vec16()?);
            if kind == SUPPORTED_VERSIONS {
                // RFC 8446 §4.2.1: for 1.3 the version above is 1.2.
                version = u16::from_be_bytes(content.try_into().ok()?);
            }
        }
    }
    Some(ServerHello {
        version: HelloVersion::newest_of([version])?,
        session_id: session_id.into(),
    })
}

#[cfg(test)]
mod tests;
