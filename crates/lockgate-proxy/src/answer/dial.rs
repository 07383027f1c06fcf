//! The error response to a failed dial.

use std::io;

use lockgate_net::tls::handshake::HandshakeError;

use super::Fault;
use crate::upstream::DialError;

impl From<&DialError> for Fault {
    fn from(error: &DialError) -> Self {
        match error {
            DialError::Failed { error, .. } => unreachable(error),
            DialError::Down => Self::NoEndpoint,
            DialError::QueueFull => Self::QueueFull,
            DialError::Full => Self::QueueTimeout,
            DialError::Exhausted(_) => Self::Exhausted,
            DialError::Cut(_) | DialError::Left => Self::ConnectionTimeout,
        }
    }
}

fn unreachable(error: &io::Error) -> Fault {
    let handshake = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<HandshakeError>());
    match (handshake, error.kind()) {
        (Some(handshake), _) if handshake.is_certificate() => Fault::TlsCertificate,
        (Some(_), _) => Fault::TlsProtocol,
        (None, io::ErrorKind::TimedOut) => Fault::ConnectionTimeout,
        // The system has the same error for a missing Unix socket.
        (None, io::ErrorKind::NotFound) if error.raw_os_error().is_none() => Fault::Dns,
        _ => Fault::ConnectionRefused,
    }
}
