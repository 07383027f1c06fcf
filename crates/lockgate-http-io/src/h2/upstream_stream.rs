//! A stream to an endpoint on a shared connection: one request and its response.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lockgate_http::fields::{Field, Fields};
use lockgate_http::h2::{self as layer, Key, code};
use lockgate_http::head::{BodyLength, Method, ResponseHead};
use lockgate_net::memory;

use super::SharedConnection;
use super::received_body::ReceivedBody;
use super::request_fields::{self, EndpointPseudoFields};
use crate::body::{BodyReader, BodyWriter, ReadError, Reset, Tunnel, WriteError};
use crate::h1;
use crate::message::OutgoingRequest;

/// A stream to an endpoint. Dropped before both messages have ended, it is reset: before a response when
/// the endpoint has read earlier resets (`CancelledRequests`), otherwise at once.
#[derive(Debug)]
pub struct UpstreamStream {
    connection: Rc<SharedConnection>,
    state: StreamState,
    /// The body of the response.
    body: ReceivedBody,
    /// Whether the whole request was taken.
    is_finished: bool,
    is_blocked: bool,
    bytes_written: u64,
    /// The Sec-WebSocket-Accept for the client of a WebSocket's handshake.
    accept: Option<String>,
    /// The place of the request among the bytes of the connection.
    begins_at: Option<u64>,
    /// Whether the endpoint has certainly not processed the request.
    is_unprocessed: bool,
    /// Whether the connection has broken, or is ending.
    is_lost: bool,
}

#[derive(Debug, Clone, Copy)]
enum StreamState {
    New,
    /// The connection takes no more requests.
    Refused,
    Sent(Key),
    /// The response's head was received.
    Responding(Key),
    /// Nothing more is to be read; the code is for a stream that is still open.
    Failed(Key, u32),
}

/// What a request that was not sent ends with.
const REFUSED: Reset = Reset {
    code: Some(code::REFUSED_STREAM),
    by_peer: false,
    unprocessed: true,
    fault: None,
};

impl UpstreamStream {
    /// A stream on `connection`, if it has room for one.
    pub fn open(connection: &Rc<SharedConnection>) -> Option<Self> {
        connection.reserve().then(|| Self {
            connection: Rc::clone(connection),
            state: StreamState::New,
            body: ReceivedBody::default(),
            is_finished: false,
            is_blocked: false,
            bytes_written: 0,
            accept: None,
            begins_at: None,
            is_unprocessed: false,
            is_lost: false,
        })
    }

    /// Why the endpoint cannot get such a request, if it cannot: not every endpoint supports a
    /// WebSocket, and its handshake has no body (RFC 8441 §5), since data is the tunnel's.
    pub fn refusal(&self, request: &OutgoingRequest<'_>) -> Option<&'static str> {
        if !is_websocket(request) {
            None
        } else if request.length != BodyLength::Empty {
            Some("a WebSocket handshake with a body cannot be sent over HTTP/2")
        } else if !self.connection.link().takes_tunnels() {
            Some("the endpoint does not support WebSocket over HTTP/2")
        } else {
            None
        }
    }

    /// Sends the head of a request.
    pub fn send_request(
        &mut self,
        request: &OutgoingRequest<'_>,
        pseudo_fields: EndpointPseudoFields<'_>,
    ) {
        let websocket = is_websocket(request);
        self.accept = websocket.then(|| h1::websocket_accept(request));
        // Bytes behind a handshake are no part of it: nothing is sent before it is accepted.
        let whole = request.length == BodyLength::Empty;
        let method = request_fields::method(request, websocket);
        let secure = self.connection.is_secure();
        let mut link = self.connection.link();
        let begins_at = link.bytes_written();
        let opened = link.open_request(method, whole && !websocket, |block| {
            request_fields::request(request, pseudo_fields, (secure, websocket), block);
        });
        drop(link);
        match opened {
            Some(key) => {
                self.begins_at = Some(begins_at);
                self.is_finished = whole;
                self.state = StreamState::Sent(key);
                self.connection.note_request();
            }
            None => {
                (self.is_unprocessed, self.is_lost) = (true, true);
                self.state = StreamState::Refused;
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
        let key = match self.state {
            StreamState::Sent(key) => key,
            StreamState::Refused => return Poll::Ready(Err(REFUSED.into())),
            StreamState::New | StreamState::Responding(_) | StreamState::Failed(..) => {
                return Poll::Ready(Ok(false));
            }
        };
        let polled = self.connection.link().poll_head(key, cx, head);
        if let Err(error) = ready!(polled) {
            return Poll::Ready(Err(self.fail(key, error)));
        }
        if head.is_interim() {
            return Poll::Ready(Ok(true));
        }
        self.state = StreamState::Responding(key);
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
        Poll::Ready(Ok(true))
    }

    /// Notes that nothing more of the response can be read, and returns why.
    fn fail(&mut self, key: Key, error: ReadError) -> ReadError {
        // RFC 9113 §8.1.1: what is malformed is a stream error. Others exceed our limits.
        let code = match &error {
            ReadError::Section(error) if error.is_malformed() => code::PROTOCOL_ERROR,
            ReadError::Reset(Reset {
                code: Some(code), ..
            }) => *code,
            _ => code::CANCEL,
        };
        self.state = StreamState::Failed(key, code);
        let ReadError::Reset(reset) = error else {
            return error;
        };
        self.is_unprocessed |= reset.unprocessed;
        // Also where we have ended the connection, since the cause may be another request.
        self.is_lost |= self.connection.has_ended_with(reset)
            || (reset.unprocessed && reset.code != Some(code::REFUSED_STREAM));
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
        let StreamState::Responding(key) = self.state else {
            return Err(ReadError::Cut);
        };
        let has_ended = self.connection.link().has_ended_with_head(key);
        let length = layer::response::length(method, head, has_ended)?;
        if length == BodyLength::Empty {
            self.body.hold();
        }
        Ok(length)
    }

    /// Whether the endpoint may have seen any byte of the request.
    pub fn has_sent(&self) -> bool {
        let begun = self.begins_at.is_some_and(|at| self.connection.sent() > at);
        begun && !self.is_unprocessed
    }

    /// Whether the connection has the whole request.
    pub fn is_flushed(&self) -> bool {
        self.is_finished
    }

    /// Whether the endpoint has said that it did not process the request.
    pub fn is_unprocessed(&self) -> bool {
        self.is_unprocessed
    }

    /// Whether the response failed with the connection, and not because of the request.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Fetches what has come behind the data that was used.
    fn poll_fetch(&mut self, key: Key, cx: &Context<'_>) -> Poll<Result<(), ReadError>> {
        let mut link = self.connection.link();
        if let Err(reset) = ready!(link.poll_body(key, cx)) {
            drop(link);
            return Poll::Ready(Err(self.fail(key, reset.into())));
        }
        let fetched = link.slot(key).map_or(Ok(()), |slot| self.body.fetch(slot));
        drop(link);
        // The connection's task has allocated this memory. The client holds it from here on, and frees
        // it.
        memory::lend(self.body.memory().cast_signed());
        Poll::Ready(fetched.map_err(|error| self.fail(key, error.into())))
    }

    /// The open stream of the request, if it has one.
    fn key(&self) -> Option<Key> {
        match self.state {
            StreamState::New | StreamState::Refused => None,
            StreamState::Sent(key) | StreamState::Responding(key) | StreamState::Failed(key, _) => {
                Some(key)
            }
        }
    }
}

impl Drop for UpstreamStream {
    fn drop(&mut self) {
        match self.state {
            StreamState::New | StreamState::Refused => self.connection.release(),
            StreamState::Sent(key) => self.connection.cancel(key),
            StreamState::Responding(key) => self.connection.close(key, code::CANCEL),
            StreamState::Failed(key, code) => self.connection.close(key, code),
        }
    }
}

impl BodyReader for UpstreamStream {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        let StreamState::Responding(key) = self.state else {
            return Poll::Ready(Err(ReadError::Cut));
        };
        if self.body.needs_data() {
            return self.poll_fetch(key, cx);
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.body.data()
    }

    fn consume(&mut self, count: usize) {
        self.body.consume(count);
        if let Some(key) = self.key() {
            self.connection.link().note_used(key, count);
        }
    }

    fn is_last(&self) -> bool {
        self.body.is_last()
    }

    fn is_complete(&self) -> bool {
        self.body.is_complete()
    }

    fn bytes_read(&self) -> u64 {
        self.body.bytes_read()
    }

    fn trailers(&self) -> Option<&Fields> {
        self.body.trailers()
    }

    /// Received data is in one buffer already.
    fn release_memory(&mut self, _cx: &mut Context<'_>) {}
}

impl BodyWriter for UpstreamStream {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        let Some(key) = self.key() else {
            return Poll::Ready(Err(REFUSED.into()));
        };
        let mut link = self.connection.link();
        if let Some(reset) = link.write_loss(key) {
            return Poll::Ready(Err(reset.into()));
        }
        match link.write(key, data, last) {
            Ok(taken) => {
                drop(link);
                self.is_blocked = false;
                self.is_finished = last && taken == data.len();
                self.bytes_written += taken as u64;
                self.connection.note_request();
                Poll::Ready(Ok(taken))
            }
            Err(wait) => {
                // Also behind other requests: that is not the client's doing.
                self.is_blocked = true;
                link.wait_to_send(key, wait, cx);
                Poll::Pending
            }
        }
    }

    fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        if let Some(key) = self.key() {
            self.connection.link().finish(key, trailers, passes);
            self.connection.note_request();
        }
    }

    /// Taken data belongs to the connection, so nothing is flushed here.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.is_blocked = false;
        Poll::Ready(Ok(()))
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.key() {
            Some(key) => self.connection.link().poll_loss(key, cx),
            None => Poll::Pending,
        }
    }
}

impl Tunnel for UpstreamStream {
    fn begin_tunnel(&mut self) -> Result<(), ReadError> {
        self.is_finished = false;
        self.body.release();
        Ok(())
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.poll_flush(cx)
    }
}

fn is_websocket(request: &OutgoingRequest<'_>) -> bool {
    request
        .upgrade()
        .is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}
