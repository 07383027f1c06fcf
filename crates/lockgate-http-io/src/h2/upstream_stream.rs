//! A stream to an endpoint on a shared connection: one request and its response.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::Reason;
use h2::client::ResponseFuture;
use lockgate_http::fields::{Field, Fields};
use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{self as words, SectionError};
use lockgate_http::head::{BodyLength, Method, ResponseHead};

use super::heads::{self, RequestPseudoFields};
use super::outgoing::Outgoing;
use super::{Incoming, SharedConnection};
use crate::body::{BodyReader, BodyWriter, ReadError, Reset, Tunnel, WriteError};
use crate::h1;
use crate::message::OutgoingRequest;

/// RFC 9113 §7.
const REFUSED_STREAM: u32 = 7;

/// A stream to an endpoint. Dropped before both messages have ended, it is reset.
#[derive(Debug)]
pub struct UpstreamStream {
    connection: Rc<SharedConnection>,
    state: State,
    outgoing: Outgoing,
    /// Its number, once the request was sent.
    stream: Option<u32>,
    /// The Sec-WebSocket-Accept for the client of a WebSocket's handshake.
    accept: Option<String>,
    /// Bytes that the connection had sent before the request.
    sent_before: u64,
    /// Whether the endpoint has certainly not processed the request.
    unprocessed: bool,
    /// Whether the connection has broken, or is ending.
    lost: bool,
}

#[derive(Debug)]
enum State {
    New,
    Refused(Reset),
    Sent(ResponseFuture),
    /// The response's head was received.
    Responding(Incoming),
    Closed,
}

impl UpstreamStream {
    /// A stream on `connection`, if it has room for one.
    pub fn open(connection: &Rc<SharedConnection>) -> Option<Self> {
        if !connection.reserve() {
            return None;
        }
        let (outgoing, sent_before) = (Outgoing::default(), connection.sent());
        Some(Self {
            connection: Rc::clone(connection),
            state: State::New,
            outgoing,
            stream: None,
            accept: None,
            sent_before,
            unprocessed: false,
            lost: false,
        })
    }

    /// Whether the endpoint supports such a request: not every one supports a WebSocket.
    pub fn supports(&self, request: &OutgoingRequest<'_>) -> bool {
        !is_websocket(request) || self.connection.takes_tunnels()
    }

    /// Sends the head of a request.
    pub fn send_request(&mut self, request: &OutgoingRequest<'_>, target: RequestPseudoFields) {
        let websocket = is_websocket(request);
        self.accept = websocket.then(|| h1::websocket_accept(request));
        // Bytes behind a handshake are no part of it: nothing is sent before it is accepted.
        let whole = request.length == BodyLength::Empty;
        let ended = whole && !websocket;
        self.sent_before = self.connection.sent();
        let head = heads::upstream_request(request, target, self.connection.is_secure(), websocket);
        match self.connection.send_request(head, ended) {
            Ok((response, body)) => {
                self.stream = Some(response.stream_id().as_u32());
                self.outgoing.begin(Ok(body), whole);
                self.state = State::Sent(response);
            }
            Err(reset) => {
                (self.unprocessed, self.lost) = (true, true);
                self.state = State::Refused(reset);
            }
        }
    }

    /// Reads until the head of a response is complete.
    ///
    /// # Errors
    /// When the head is refused, or the stream or its connection breaks.
    pub fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<bool, ReadError>> {
        let limits = HeadLimits::default();
        let coming = match &mut self.state {
            State::Sent(coming) => coming,
            State::Refused(reset) => return Poll::Ready(Err((*reset).into())),
            State::New | State::Responding(_) | State::Closed => return Poll::Ready(Ok(false)),
        };
        if let Some(wrong) = self.stream.and_then(|stream| self.connection.wrong(stream)) {
            return Poll::Ready(Err(self.malformed(wrong)));
        }
        match coming.poll_informational(cx) {
            Poll::Ready(Some(Ok(interim))) => {
                heads::decode_response(&interim, &limits, head)?;
                return Poll::Ready(Ok(true));
            }
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(self.broken(&error))),
            Poll::Ready(None) | Poll::Pending => {}
        }
        match ready!(Pin::new(coming).poll(cx)) {
            Ok(response) => {
                heads::decode_response(&response, &limits, head)?;
                if let Some(accept) = self
                    .accept
                    .take()
                    .filter(|_| (200..300).contains(&head.status))
                {
                    // RFC 8441 §5: the equivalent of 101 in HTTP/1.
                    head.status = 101;
                    head.fields.append(b"Upgrade", b"websocket");
                    head.fields.append(b"Connection", b"Upgrade");
                    head.fields
                        .append(b"Sec-WebSocket-Accept", accept.as_bytes());
                }
                self.state = State::Responding(Incoming::new(response.into_body(), limits));
                Poll::Ready(Ok(true))
            }
            Err(error) => Poll::Ready(Err(self.broken(&error))),
        }
    }

    /// Resets the stream for a malformed response (RFC 9113 §8.1.1).
    fn malformed(&mut self, wrong: SectionError) -> ReadError {
        self.outgoing.reset(Reason::PROTOCOL_ERROR);
        self.state = State::Closed;
        wrong.into()
    }

    fn broken(&mut self, error: &h2::Error) -> ReadError {
        self.state = State::Closed;
        let reset = Reset::from(error);
        self.unprocessed |= reset.unprocessed;
        // Also where we have ended the connection, since the cause may be another request.
        self.lost |= reset.code.is_none()
            || (error.is_go_away() && !error.is_remote())
            || (reset.unprocessed && reset.code != Some(REFUSED_STREAM));
        self.connection.explain(reset)
    }

    /// Begins the body of a response, behind its head, and returns its length.
    ///
    /// # Errors
    /// When the received data is no such body.
    pub fn begin_response(
        &mut self,
        method: Method,
        head: &ResponseHead,
    ) -> Result<BodyLength, ReadError> {
        let State::Responding(incoming) = &mut self.state else {
            return Err(ReadError::Cut);
        };
        let length = words::response::length(method, head, incoming.is_ended())?;
        if length == BodyLength::Empty {
            incoming.hold();
        }
        Ok(length)
    }

    /// Whether the endpoint may have seen any byte of the request.
    pub fn has_sent(&self) -> bool {
        !self.unprocessed && self.connection.sent() > self.sent_before
    }

    /// Whether the connection has the whole request.
    pub fn is_flushed(&self) -> bool {
        self.outgoing.is_finished()
    }

    /// Whether the endpoint has said that it did not process the request.
    pub fn is_unprocessed(&self) -> bool {
        self.unprocessed
    }

    /// Whether the response failed with the connection, and not because of the request.
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

impl Drop for UpstreamStream {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Closed);
        // The stream is dropped first: then its reservation is free.
        self.outgoing = Outgoing::default();
        if let State::Sent(response) = state {
            self.connection.cancel(response);
        } else {
            drop(state);
            self.connection.release(self.stream);
        }
    }
}

impl BodyReader for UpstreamStream {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        if let Some(wrong) = self.stream.and_then(|stream| self.connection.wrong(stream)) {
            return Poll::Ready(Err(self.malformed(wrong)));
        }
        let State::Responding(incoming) = &mut self.state else {
            return Poll::Ready(Err(ReadError::Cut));
        };
        incoming.poll_data(cx).map_err(|error| match error {
            ReadError::Reset(reset) => self.connection.explain(reset),
            error => error,
        })
    }

    fn data(&self) -> &[u8] {
        match &self.state {
            State::Responding(incoming) => incoming.data(),
            _ => &[],
        }
    }

    fn consume(&mut self, count: usize) {
        if let State::Responding(incoming) = &mut self.state {
            incoming.consume(count);
        }
    }

    fn is_last(&self) -> bool {
        matches!(&self.state, State::Responding(incoming) if incoming.is_last())
    }

    fn is_complete(&self) -> bool {
        matches!(&self.state, State::Responding(incoming) if incoming.is_complete())
    }

    fn bytes_read(&self) -> u64 {
        match &self.state {
            State::Responding(incoming) => incoming.bytes_read(),
            _ => 0,
        }
    }

    fn trailers(&self) -> Option<&Fields> {
        match &self.state {
            State::Responding(incoming) => incoming.trailers(),
            _ => None,
        }
    }

    fn release_memory(&mut self, cx: &mut Context<'_>) {
        if let State::Responding(incoming) = &mut self.state {
            incoming.gather(cx);
        }
    }
}

impl BodyWriter for UpstreamStream {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        let taken = self.outgoing.poll_write(cx, data, last);
        if taken.is_ready() {
            self.connection.note_request();
        }
        taken
    }

    fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool) {
        self.outgoing.finish(trailers, passes);
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.outgoing.poll_flush()
    }

    fn is_finished(&self) -> bool {
        self.outgoing.is_finished()
    }

    fn is_blocked(&self) -> bool {
        self.outgoing.is_blocked()
    }

    fn bytes_written(&self) -> u64 {
        self.outgoing.bytes_written()
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outgoing.poll_reset(cx)
    }
}

impl Tunnel for UpstreamStream {
    fn begin_tunnel(&mut self) -> Result<(), ReadError> {
        self.outgoing.reopen();
        Ok(())
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.outgoing.poll_flush()
    }
}

fn is_websocket(request: &OutgoingRequest<'_>) -> bool {
    request
        .upgrade()
        .is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}
