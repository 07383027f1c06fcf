//! Why no connection to an endpoint of a pool could be had.

use std::io;
use std::sync::Arc;

use lockgate_net::tls::handshake::HandshakeError;

use crate::clock::Cut;
use crate::error_response::HttpFault;

/// No endpoint could be reached.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DialError {
    /// What the one that was tried last said.
    #[error("{endpoint}: {error}")]
    Failed {
        /// Which one.
        endpoint: String,
        /// What it said, to all who have waited for it; [`io::ErrorKind::TimedOut`] is nothing in
        /// time.
        error: Arc<io::Error>,
    },
    /// Checks have found every endpoint down.
    #[error("every endpoint is down")]
    Down,
    /// Those that answer are at their `max`, and as many requests wait as may.
    #[error("every endpoint is at its limit, and the queue is full")]
    QueueFull,
    /// Those that answer are at their `max`, and none became free in time.
    #[error("every endpoint that can be reached has as many connections as it may")]
    Full,
    /// We could not even try: nothing is left to connect with.
    #[error("cannot connect anywhere: {0}")]
    Exhausted(Arc<io::Error>),
    /// The connection was cut meanwhile.
    #[error("cut while connecting")]
    Cut(Cut),
    /// The client has left meanwhile.
    #[error("while it waited")]
    Left,
}

impl DialError {
    /// What a client is told of it.
    pub fn fault(&self) -> HttpFault {
        match self {
            Self::Failed { error, .. } => unreachable(error),
            Self::Down => HttpFault::NoEndpoint,
            Self::QueueFull => HttpFault::QueueFull,
            Self::Full => HttpFault::QueueTimeout,
            Self::Exhausted(_) => HttpFault::Exhausted,
            Self::Cut(_) | Self::Left => HttpFault::ConnectionTimeout,
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
        // The system says the same of a Unix socket that is not there.
        (None, io::ErrorKind::NotFound) if error.raw_os_error().is_none() => HttpFault::Dns,
        _ => HttpFault::ConnectionRefused,
    }
}
