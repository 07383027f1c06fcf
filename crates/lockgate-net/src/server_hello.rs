//! What a server answers to a ClientHello: the version that it chose, and what it calls the
//! session. Without IO.
//!
//! For who hears TLS pass by and takes no part in it: nothing is judged that is not needed, and
//! what is wrong is for the client to refuse.

use thiserror::Error;

use crate::client_hello::Version;
use crate::client_hello::message::{RANDOM, SESSION_ID_MAX, SUPPORTED_VERSIONS};
use crate::client_hello::peek::{HANDSHAKE, MESSAGE_HEADER, RECORD_MAX};
use crate::client_hello::reader::Reader;

/// The bytes, records' headers included, within which a ServerHello ends that is looked at. One of
/// TLS 1.2 has a hundred, and a few hundred more with what its certificate is logged by (RFC 6962
/// §3.3.1).
pub const SERVER_HELLO_MAX: usize = 4_096;

const SERVER_HELLO: u8 = 2;
/// What a record begins with: its type, and the major version that all have (RFC 8446 §5.1).
const RECORD: [u8; 2] = [HANDSHAKE, 3];

/// What a server has chosen (RFC 5246 §7.4.1.3, RFC 8446 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHello {
    /// The version.
    pub version: Version,
    /// The session, at most 32 bytes; empty where it cannot be resumed by this. Of TLS 1.3 it is
    /// what the client has sent, and means nothing.
    pub session_id: Box<[u8]>,
}

/// The server says something else first, or more than [`SERVER_HELLO_MAX`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the server does not begin with a ServerHello")]
pub struct NoServerHello;

/// Looks for a ServerHello at the beginning of what a server has said, of which `bytes` is all so
/// far; `None` is not yet. How the bytes arrive does not change the result.
///
/// # Errors
/// When there is none, and will be none.
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

/// The first message of a handshake, which others may follow; `None` where it is not whole.
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
    read(Reader(body)).map(Some).ok_or(NoServerHello)
}

fn read(mut body: Reader<'_>) -> Option<ServerHello> {
    let mut version = body.u16()?;
    body.take(RANDOM)?;
    let session_id = body.vec8().filter(|id| id.len() <= SESSION_ID_MAX)?;
    let _suite = body.u16()?;
    let _compression = body.u8()?;
    if !body.is_empty() {
        let mut extensions = Reader(body.vec16().filter(|_| body.is_empty())?);
        while !extensions.is_empty() {
            let (kind, content) = (extensions.u16()?, extensions.vec16()?);
            if kind == SUPPORTED_VERSIONS {
                // RFC 8446 §4.2.1: of 1.3 the version above is 1.2.
                version = u16::from_be_bytes(content.try_into().ok()?);
            }
        }
    }
    Some(ServerHello {
        version: Version::newest_of([version])?,
        session_id: session_id.into(),
    })
}

#[cfg(test)]
mod tests;
