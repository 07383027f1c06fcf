//! The error response to a failed dial.

use std::io;

use lockgate_net::tls::handshake::HandshakeError;
use lockgate_upstream::DialError;

use super::HttpFault;

impl From<&DialError> for HttpFault {
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

fn unreachable(error: &io::Error) -> HttpFault {
    let handshake = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<HandshakeError>());
    match (handshake, error.kind()) {
        (Some(handshake), _) if handshake.is_certificate() => HttpFault::TlsCertificate,
        (Some(_), _) => HttpFault::TlsProtocol,
        (None, io::ErrorKind::TimedOut) => HttpFault::ConnectionTimeout,
        // The system has the same error for a missing Unix socket.
        (None, io::ErrorKind::NotFound) if error.raw_os_error().is_none() => HttpFault::Dns,
        _ => HttpFault::ConnectionRefused,
    }
}
