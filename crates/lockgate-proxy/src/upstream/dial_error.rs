//! Why no connection to an endpoint of a pool could be had.

use std::io;
use std::sync::Arc;

use lockgate_net::tls::handshake::HandshakeError;

use crate::answer::Fault;
use crate::clock::Cut;

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
    #[error("every reachable endpoint is at its limit of connections")]
    Full,
    /// We could not even try: nothing is left to connect with.
    #[error("cannot open a connection: {0}")]
    Exhausted(Arc<io::Error>),
    /// The connection was cut meanwhile.
    #[error("cut while connecting")]
    Cut(Cut),
    /// The client has left meanwhile.
    #[error("while waiting")]
    Left,
}

impl DialError {
    /// What a client is told of it.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Failed { error, .. } => unreachable(error),
            Self::Down => Fault::NoEndpoint,
            Self::QueueFull => Fault::QueueFull,
            Self::Full => Fault::QueueTimeout,
            Self::Exhausted(_) => Fault::Exhausted,
            Self::Cut(_) | Self::Left => Fault::ConnectionTimeout,
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
        // The system says the same of a Unix socket that is not there.
        (None, io::ErrorKind::NotFound) if error.raw_os_error().is_none() => Fault::Dns,
        _ => Fault::ConnectionRefused,
    }
}
