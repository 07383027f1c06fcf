//! IO of an HTTP/2 connection, and one exchange on a connection without others.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use lockgate_net::stream::BufferPool;

use super::{BodyUse, Http2Connection, ReceiveWindows, RequestOutcome};
use crate::client::buffers::ClientBuffers;
use crate::client::outcome::{ExchangeError, ExchangeStats};
use crate::client::transport::Transport;
use crate::expect::Expect;
use crate::result::FailureKind;
use crate::target::Http2Request;

/// Checks that a new connection speaks HTTP/2: with TLS by ALPN, without TLS by prior knowledge
/// (RFC 9113 §3).
///
/// # Errors
/// ALPN has chosen another protocol.
pub(crate) fn check(transport: &Transport) -> Result<(), ExchangeError> {
    match transport.tls.as_ref().map(|tls| tls.alpn.as_deref()) {
        None | Some(Some(b"h2")) => Ok(()),
        Some(_) => {
            let text =
                "the server does not offer HTTP/2 (h2 by ALPN); leave out --http2 for HTTP/1.1";
            Err(ExchangeError::new(FailureKind::Tls, text))
        }
    }
}

impl Http2Connection {
    /// Reads once and handles the frames.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
    ) -> Poll<Result<(), ExchangeError>> {
        // A server that does not read our answers to its pings gets no more of them.
        if self.layer.is_full() {
            return Poll::Pending;
        }
        // Bytes are counted by stream, not here.
        let mut read = ExchangeStats::default();
        let goes_on = ready!(transport.poll_read(cx, &mut read))?;
        self.read_at = Some(Instant::now());
        let used = self.receive(transport.inbox.bytes())?;
        transport.inbox.consume(used);
        if goes_on {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(ExchangeError::new(FailureKind::Closed, "closed")))
        }
    }

    /// Writes all unsent bytes, as far as the socket takes them. An error shows in reading: there
    /// may be a response all the same, or the reason.
    pub(crate) fn write(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        blocks: &BufferPool,
    ) {
        loop {
            self.fill_bodies();
            let unsent = self.unsent();
            if unsent.is_empty() {
                let _ = transport.stream.poll_flush(cx);
                return;
            }
            match transport.stream.poll_write(cx, blocks, &[unsent]) {
                Poll::Ready(Ok(sent)) => self.layer.note_sent(sent),
                Poll::Ready(Err(_)) => return self.close_write(),
                Poll::Pending => return,
            }
        }
    }
}

/// Makes one exchange on a connection without others.
///
/// # Errors
/// There is no whole response.
pub(in crate::client) async fn exchange(
    transport: &mut Transport,
    request: &Http2Request,
    expect: &Expect,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<(), ExchangeError> {
    let mut connection = Http2Connection::new(1, ReceiveWindows::LARGE);
    connection.begin(0, 0, request, BodyUse::of(expect), &mut buffers.rng);
    let finished = poll_fn(|cx| {
        loop {
            connection.write(cx, transport, &buffers.blocks);
            if let Err(error) = ready!(connection.poll_read(cx, transport)) {
                connection.end(&error);
            }
            if let Some(finished) = connection.take_finished() {
                return Poll::Ready(finished);
            }
        }
    })
    .await;
    *stats = finished.stats;
    transport.max_streams = connection.max_streams();
    match finished.outcome {
        RequestOutcome::Answered => Ok(()),
        RequestOutcome::Failed(error) | RequestOutcome::Unprocessed(error) => Err(error),
    }
}
