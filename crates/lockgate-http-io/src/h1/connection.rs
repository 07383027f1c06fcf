//! A connection that speaks HTTP/1: its socket, the message being read and the one being written.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockgate_http::fields::{Field, Fields};
use lockgate_http::h1::{framing, parse};
use lockgate_http::head::{BodyLength, RequestHead, ResponseHead};
use lockgate_net::listen;
use lockgate_net::stream::{BufferPool, Stream};

use super::{MessageReader, MessageWriter, heads};
use crate::body::{BodyReader, BodyWriter, ReadError, Tunnel, WriteError};
use crate::message::{ClientExchange, OutgoingRequest, Persistence};

/// An HTTP/1 connection, to a client or an endpoint.
#[derive(Debug)]
pub struct H1Connection {
    /// The socket with its TLS.
    pub stream: Stream,
    /// The message from the peer.
    pub reader: MessageReader,
    /// The message to the peer.
    pub writer: MessageWriter,
}

impl H1Connection {
    /// A connection without a message yet; `received` was read already.
    pub fn new(stream: Stream, blocks: &Rc<BufferPool>, received: &[u8]) -> Self {
        Self {
            stream,
            reader: MessageReader::new(blocks, received),
            writer: MessageWriter::new(blocks),
        }
    }

    /// Begins a request, which leaves with the first data or by a flush.
    pub fn send_request(&mut self, request: &OutgoingRequest<'_>) {
        heads::request(request, self.writer.buffer());
        self.writer.begin_body(request.length);
    }

    /// Reads until the head of a response is complete; `false` when the connection ended before the
    /// head began.
    ///
    /// # Errors
    /// When the head is refused, or the connection ends within it.
    pub fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut ResponseHead,
    ) -> Poll<Result<bool, ReadError>> {
        self.reader
            .poll_head(cx, &mut self.stream, |input, progress, limits| {
                parse::response(input, progress, limits, response)
            })
    }

    /// Begins the body of a response, behind its head.
    ///
    /// # Errors
    /// When the received bytes are no such body.
    pub fn begin_response(&mut self, length: BodyLength) -> Result<(), ReadError> {
        self.reader.begin_body(length)
    }

    /// Whether any byte of the request has left, or may have.
    pub fn has_sent(&self) -> bool {
        self.writer.has_sent()
    }

    /// Whether the whole request has left.
    pub fn is_flushed(&self) -> bool {
        self.writer.has_ended() && !self.writer.holds_bytes()
    }

    /// Whether the exchange is complete, and the peer has sent nothing behind it.
    pub fn is_spent(&self) -> bool {
        self.is_flushed() && !self.reader.holds_bytes()
    }
}

impl BodyReader for H1Connection {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        self.reader.poll_data(cx, &mut self.stream)
    }

    fn data(&self) -> &[u8] {
        self.reader.data()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }

    fn is_last(&self) -> bool {
        self.reader.is_last()
    }

    fn is_complete(&self) -> bool {
        self.reader.has_ended()
    }

    fn bytes_read(&self) -> u64 {
        self.reader.bytes_read()
    }

    fn trailers(&self) -> Option<&Fields> {
        self.reader.trailers()
    }

    fn release_memory(&mut self, _cx: &mut Context<'_>) {
        self.reader.release_memory();
    }
}

impl BodyWriter for H1Connection {
    #[inline]
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        self.writer
            .poll_write(cx, &mut self.stream, data, last)
            .map_err(WriteError::from)
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.writer
            .poll_sent(cx, &mut self.stream)
            .map_err(WriteError::from)
    }

    fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool) {
        self.writer.finish(trailers, passes);
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.writer
            .poll_flush(cx, &mut self.stream)
            .map_err(WriteError::from)
    }

    fn is_finished(&self) -> bool {
        self.writer.has_ended()
    }

    fn is_blocked(&self) -> bool {
        self.writer.is_blocked()
    }

    fn bytes_written(&self) -> u64 {
        self.writer.bytes_written()
    }

    fn poll_broken(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Tunnel for H1Connection {
    fn begin_tunnel(&mut self) -> Result<(), ReadError> {
        self.writer.begin_body(BodyLength::UntilClose);
        self.reader.begin_tunnel()
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.stream.poll_finish(cx).map_err(WriteError::from)
    }
}

impl ClientExchange for H1Connection {
    #[inline]
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_gone(cx)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        listen::local_address(self.stream.socket()).ok()
    }

    fn begin_request(&mut self, head: &RequestHead) -> Result<BodyLength, ReadError> {
        let length = framing::request(head)?;
        self.reader.begin_body(length)?;
        Ok(length)
    }

    fn limit_body(&mut self, most: u64) {
        self.reader.limit_body(most);
    }

    fn interim(&mut self, request: &RequestHead, response: &ResponseHead) {
        heads::interim(request, response, self.writer.buffer());
    }

    fn respond(
        &mut self,
        request: &RequestHead,
        response: &ResponseHead,
        length: BodyLength,
        persistence: Persistence,
    ) {
        heads::response(request, response, length, persistence, self.writer.buffer());
        self.writer.begin_body(length);
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.writer
            .poll_room(cx, &mut self.stream)
            .map_err(WriteError::from)
    }

    fn supports_sendfile(&self) -> bool {
        !self.stream.is_secure()
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        part: (BorrowedFd<'_>, u64, usize),
        last: bool,
    ) -> Poll<Result<Option<usize>, WriteError>> {
        if self.stream.is_secure() {
            return Poll::Ready(Ok(None));
        }
        self.writer
            .poll_send_file(cx, &mut self.stream, part, last)
            .map_ok(Some)
            .map_err(WriteError::from)
    }

    fn switch(&mut self, _request: &RequestHead, response: &ResponseHead) {
        heads::switched(response, self.writer.buffer());
    }

    fn discard(&mut self) {
        self.writer.discard();
    }

    fn poll_all_sent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A failure does not matter: the response is being aborted.
        self.writer.poll_flush(cx, &mut self.stream).map(|_| ())
    }

    fn abort(&mut self) {
        self.stream.socket().reset_on_close();
    }
}
