//! Why no connection to an endpoint of a pool could be made.

use std::io;
use std::sync::Arc;

use lockgate_limits::clock::Cut;

/// No endpoint could be reached.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DialError {
    /// The last attempt failed.
    #[error("{endpoint}: {error}")]
    Failed {
        /// The endpoint's label.
        endpoint: String,
        /// Its error, shared by all requests that waited for the connection;
        /// [`io::ErrorKind::TimedOut`] where it did not answer in time.
        error: Arc<io::Error>,
    },
    /// Checks have found every endpoint down.
    #[error("every endpoint is down")]
    Down,
    /// The endpoints that answer are at their `max`, and the queue is full.
    #[error("every endpoint is at its limit, and the queue is full")]
    QueueFull,
    /// The endpoints that answer are at their `max`, and none had room in time.
    #[error("every reachable endpoint is at its limit of connections")]
    Full,
    /// No socket or descriptor was left to connect with.
    #[error("cannot open a connection: {0}")]
    Exhausted(Arc<io::Error>),
    /// The client's connection was cut meanwhile.
    #[error("cut while connecting")]
    Cut(Cut),
    /// The client has left meanwhile.
    #[error("while waiting")]
    Left,
}
