//! The way to a program that figures are pushed to, whichever it is.

use std::time::Duration;

use lockgate_export::EncodedPoints;

use super::connection::{HttpSink, PushError, TcpSink, UdpSink};
use super::otlp::OtlpSink;
use super::status::SinkStatus;

/// The way to a program.
pub(super) enum SinkConnection {
    Tcp(TcpSink),
    Udp(UdpSink),
    Http(Box<HttpSink>),
    Otlp(Box<OtlpSink>),
}

impl SinkConnection {
    /// Sends what is left of the points, each step within `limit`.
    ///
    /// # Errors
    /// When not all were sent, or some were refused. Points that are left then may be sent again.
    pub(super) async fn send(
        &mut self,
        points: &mut EncodedPoints,
        status: &SinkStatus,
        limit: Duration,
    ) -> Result<(), PushError> {
        match self {
            Self::Tcp(sink) => sink.send(points, status, limit).await,
            Self::Udp(sink) => sink.send(points, status, limit).await,
            Self::Http(sink) => sink.send(points, status, limit).await,
            Self::Otlp(sink) => sink.send(points, status, limit).await,
        }
    }

    /// Closes a stream behind its last byte.
    pub(super) async fn close(self) {
        if let Self::Tcp(sink) = self {
            sink.close().await;
        }
    }
}
