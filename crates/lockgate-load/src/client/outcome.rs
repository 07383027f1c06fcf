//! Outcome of one exchange: its counts, and its error if it failed.

use std::time::Instant;

use lockgate_net::stream::StreamError;
use lockgate_net::tls::session::SessionError;

use crate::expect::ObservedResponse;
use crate::result::FailureKind;

/// Error of an exchange: its kind, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExchangeError {
    pub(crate) failure: FailureKind,
    pub(crate) text: String,
    /// Whether a retry may succeed in a moment, for no reason of the server's.
    pub(crate) retry: bool,
    /// Whether this side is the reason: it has no descriptors, ports or memory left.
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

    /// The error of a connection that broke while a response was due.
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
    /// The response, as far as it was received.
    pub(crate) response: ObservedResponse,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Whether a byte of the response has come.
    pub(crate) has_begun: bool,
    /// When the first byte of the response came; none where the first read brought all of it, so
    /// that its end is the same time.
    pub(crate) first_byte: Option<Instant>,
    /// Whether a connection was there or could be opened.
    pub(crate) connected: bool,
    /// Whether the connection can have another exchange.
    pub(crate) reusable: bool,
}
