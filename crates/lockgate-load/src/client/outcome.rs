//! What one exchange gives: its counts, and its error if it failed.

use lockgate_net::stream::StreamError;
use lockgate_net::tls::session::SessionError;

use crate::expect::ObservedResponse;
use crate::result::FailureKind;

/// Failure of an exchange: its kind, and a text for the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExchangeError {
    pub(crate) failure: FailureKind,
    pub(crate) text: String,
    /// Whether it may go better in a moment, for no reason of the peer's.
    pub(crate) retry: bool,
    /// Whether this side is the reason: it has run out of descriptors, ports or memory.
    pub(crate) exhausted: bool,
}

impl ExchangeError {
    pub(crate) fn new(failure: FailureKind, text: impl Into<String>) -> Self {
        Self {
            failure,
            text: text.into(),
            retry: false,
            exhausted: false,
        }
    }

    /// A connection that broke while a response was due.
    pub(super) fn broken(error: &StreamError) -> Self {
        match error {
            StreamError::Tls(SessionError::Alerted(_))
            | StreamError::Truncated
            | StreamError::Io(_) => Self::new(FailureKind::Closed, error.to_string()),
            StreamError::Tls(_) => Self::new(FailureKind::Tls, error.to_string()),
        }
    }
}

/// Counts of one exchange and its response, whether it failed or not.
#[derive(Debug, Default)]
pub(crate) struct ExchangeStats {
    /// The response, as far as it came.
    pub(crate) response: ObservedResponse,
    /// Bytes of messages sent.
    pub(crate) sent: u64,
    /// And received.
    pub(crate) received: u64,
    /// Whether there was a connection for it.
    pub(crate) connected: bool,
    /// Whether the connection can have another.
    pub(crate) reusable: bool,
}
