//! The connection of a request to its endpoint: an HTTP/1 connection of its own, or a stream on a
//! shared HTTP/2 connection.

use std::task::{Context, Poll};

use lockgate_http::fields::{Field, Fields};
use lockgate_http::h1::framing;
use lockgate_http::head::{BodyLength, Method, ResponseHead};
use lockgate_http_io::body::{BodyReader, BodyWriter, ReadError, Tunnel, WriteError};
use lockgate_http_io::h1::H1Connection;
use lockgate_http_io::h2::{EndpointPseudoFields, UpstreamStream};
use lockgate_http_io::message::OutgoingRequest;

/// The connection of a request to its endpoint.
#[derive(Debug)]
pub enum UpstreamConnection {
    /// An HTTP/1 connection.
    H1(Box<H1Connection>),
    /// A stream of HTTP/2.
    H2(Box<UpstreamStream>),
}

/// The same expression for both.
macro_rules! either {
    ($either:expr, $connection:ident => $what:expr) => {
        match $either {
            UpstreamConnection::H1($connection) => $what,
            UpstreamConnection::H2($connection) => $what,
        }
    };
}

impl UpstreamConnection {
    /// Begins a request, for which HTTP/2 needs `pseudo_fields`. Over HTTP/1 it leaves with the first data
    /// or by a flush, over HTTP/2 in the connection's next turn.
    #[inline]
    pub fn send_request(
        &mut self,
        request: &OutgoingRequest<'_>,
        pseudo_fields: Option<EndpointPseudoFields<'_>>,
    ) {
        match (self, pseudo_fields) {
            (Self::H1(connection), _) => connection.send_request(request),
            (Self::H2(stream), Some(pseudo_fields)) => stream.send_request(request, pseudo_fields),
            // Never reached, since a pool speaks one of them: without a request no response comes.
            (Self::H2(_), None) => {}
        }
    }

    /// Reads until the head of a response is complete; `false` when the connection ended before the
    /// head began.
    ///
    /// # Errors
    /// When the head is refused, or the connection ends within it.
    #[inline]
    pub fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut ResponseHead,
    ) -> Poll<Result<bool, ReadError>> {
        either!(self, connection => connection.poll_response(cx, response))
    }

    /// Whether a part of a response's head was received. Heads of HTTP/2 are complete or not there.
    pub fn has_begun_response(&self) -> bool {
        match self {
            Self::H1(connection) => connection.reader.has_begun(),
            Self::H2(_) => false,
        }
    }

    /// Begins the body of a response, behind its head, and returns its length.
    ///
    /// # Errors
    /// When the length is ambiguous, or the received bytes are no such body.
    #[inline]
    pub fn begin_response(
        &mut self,
        method: Method,
        response: &ResponseHead,
    ) -> Result<BodyLength, ReadError> {
        match self {
            Self::H1(connection) => {
                let length = framing::response(method, response)?;
                connection.begin_response(length)?;
                Ok(length)
            }
            Self::H2(stream) => stream.begin_response(method, response),
        }
    }

    /// Whether the endpoint may have seen any byte of the request.
    pub fn has_sent(&self) -> bool {
        either!(self, connection => connection.has_sent())
    }

    /// Whether the whole request has left.
    pub fn is_flushed(&self) -> bool {
        either!(self, connection => connection.is_flushed())
    }

    /// Whether the endpoint has said that it did not process the request.
    pub fn is_unprocessed(&self) -> bool {
        matches!(self, Self::H2(stream) if stream.is_unprocessed())
    }

    /// Why the endpoint cannot get such a request, if it cannot: over HTTP/2 not every endpoint
    /// supports a WebSocket.
    #[inline]
    pub fn refusal(&self, request: &OutgoingRequest<'_>) -> Option<&'static str> {
        match self {
            Self::H1(_) => None,
            Self::H2(stream) => stream.refusal(request),
        }
    }

    /// Whether a missing response may be the fault of the connection and not of the request.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::H1(_) => true,
            Self::H2(stream) => stream.is_lost(),
        }
    }
}

impl BodyReader for UpstreamConnection {
    #[inline]
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        either!(self, connection => connection.poll_data(cx))
    }

    #[inline]
    fn data(&self) -> &[u8] {
        either!(self, connection => connection.data())
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        either!(self, connection => connection.consume(count));
    }

    fn is_last(&self) -> bool {
        either!(self, connection => connection.is_last())
    }

    fn is_complete(&self) -> bool {
        either!(self, connection => connection.is_complete())
    }

    fn bytes_read(&self) -> u64 {
        either!(self, connection => connection.bytes_read())
    }

    fn trailers(&self) -> Option<&Fields> {
        either!(self, connection => connection.trailers())
    }

    fn release_memory(&mut self, cx: &mut Context<'_>) {
        either!(self, connection => connection.release_memory(cx));
    }
}

impl BodyWriter for UpstreamConnection {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        either!(self, connection => connection.poll_write(cx, data, last))
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        either!(self, connection => connection.poll_sent(cx))
    }

    fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool) {
        either!(self, connection => connection.finish(trailers, passes));
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        either!(self, connection => connection.poll_flush(cx))
    }

    fn is_finished(&self) -> bool {
        either!(self, connection => connection.is_finished())
    }

    fn is_blocked(&self) -> bool {
        either!(self, connection => connection.is_blocked())
    }

    fn bytes_written(&self) -> u64 {
        either!(self, connection => connection.bytes_written())
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        either!(self, connection => connection.poll_broken(cx))
    }
}

impl Tunnel for UpstreamConnection {
    fn begin_tunnel(&mut self) -> Result<(), ReadError> {
        either!(self, connection => connection.begin_tunnel())
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        either!(self, connection => connection.poll_end(cx))
    }
}
