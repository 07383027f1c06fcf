//! Limits of an exchange, and the one place that enforces its time.

use std::time::Duration;

use tokio::time::timeout;

use crate::error::ClientError;

/// Limits of one exchange, which hold against any server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// Time of a connect, of each step on a connection, and of everything in
    /// [`bound`](Self::bound).
    pub time: Duration,
    /// Bytes of the heads of a response over HTTP/1, interim ones included; over HTTP/2 of the interim
    /// ones, as they come. Each head has the limits that the proxy has for one:
    /// `HeadLimits::default()`.
    pub head_bytes: usize,
    /// Bytes of a body that are read; the rest is left.
    pub body_bytes: usize,
}

impl ExchangeLimits {
    /// Runs `work`, a whole exchange from the dial to the last byte, within the time.
    ///
    /// # Errors
    /// Those of `work`, and [`ClientError::Late`].
    pub async fn bound<T, E: From<ClientError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let late = Err(ClientError::Late(self.time).into());
        timeout(self.time, work).await.unwrap_or(late)
    }
}
