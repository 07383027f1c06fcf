//! A client's stream of HTTP/2: its request, and the response to it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use lockgate_http::fields::{Field, Fields};
use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{self as words, SectionError};
use lockgate_http::head::{BodyLength, RequestHead, ResponseHead};
use lockgate_http::priority::Priority;
use lockgate_net::listen;

use super::outgoing::Outgoing;
use super::send_scheduler::ScheduledStream;
use super::{FrameIo, Incoming, SendScheduler, heads};
use crate::body::{BodyReader, BodyWriter, ReadError, Reset, Tunnel, WriteError};
use crate::message::{ClientExchange, Persistence};

/// A client's stream. Dropped before the response is complete, it is reset.
#[derive(Debug)]
pub struct DownstreamStream {
    incoming: Incoming,
    outgoing: Outgoing,
    respond: SendResponse<Bytes>,
    /// Whether the response has begun.
    responded: bool,
    frame_io: Rc<RefCell<FrameIo>>,
    scheduler: Rc<SendScheduler>,
    id: u32,
}

impl DownstreamStream {
    /// A stream that the client has opened, with the body behind its head.
    pub fn new(
        body: RecvStream,
        respond: SendResponse<Bytes>,
        limits: HeadLimits,
        frame_io: &Rc<RefCell<FrameIo>>,
        scheduler: &Rc<SendScheduler>,
    ) -> Self {
        Self {
            id: respond.stream_id().as_u32(),
            scheduler: Rc::clone(scheduler),
            incoming: Incoming::new(body, limits),
            outgoing: Outgoing::default(),
            respond,
            responded: false,
            frame_io: Rc::clone(frame_io),
        }
    }

    /// Decodes the request's head to that of HTTP/1.
    ///
    /// # Errors
    /// When it is malformed, or longer than `limits` say.
    pub fn read(
        parts: &http::request::Parts,
        limits: &HeadLimits,
        head: &mut RequestHead,
    ) -> Result<(), SectionError> {
        heads::decode_request(parts, limits, head)
    }

    /// Resets the stream: the client must not take the sent part for the whole.
    pub fn reset(&mut self, reason: Reason) {
        if self.responded {
            self.outgoing.reset(reason);
        } else {
            self.respond.send_reset(reason);
        }
    }
}

impl Drop for DownstreamStream {
    fn drop(&mut self) {
        if !self.outgoing.is_finished() {
            self.reset(Reason::INTERNAL_ERROR);
        }
        self.scheduler.forget(self.id);
        if let Ok(mut frame_io) = self.frame_io.try_borrow_mut()
            && let Some(abuse_limits) = frame_io.abuse_limits()
        {
            abuse_limits.end_stream(self.id, self.incoming.is_ended());
        }
    }
}

/// The priority of a response: the client's, as the origin corrects it (RFC 9218 §8). Where neither
/// says anything, by its media type: documents and styles before images.
fn priority(request: &RequestHead, head: &ResponseHead) -> Priority {
    let asked = Priority::of(&request.fields);
    if asked.is_none() && Priority::of(&head.fields).is_none() {
        let kind = head
            .fields
            .named(b"content-type")
            .next()
            .unwrap_or_default();
        return by_type(kind);
    }
    asked.unwrap_or_default().revised(&head.fields)
}

fn by_type(kind: &[u8]) -> Priority {
    let is = |prefix: &[u8]| {
        kind.get(..prefix.len())
            .is_some_and(|front| front.eq_ignore_ascii_case(prefix))
    };
    let (urgency, incremental) = match () {
        () if is(b"text/html") => (0, true),
        // An imported style sheet is requested after scripts, and the page is not shown without it.
        () if is(b"text/css") => (1, false),
        () if is(b"text/javascript") || is(b"application/javascript") => (2, false),
        // Few bytes for which a person waits.
        () if is(b"text/event-stream") => (1, true),
        // The first pixels of many images are worth more than all of one.
        () if is(b"image/") || is(b"audio/") || is(b"video/") => (5, true),
        // Clients that say nothing are programs, and proxies with many users on one connection:
        // none waits for another's download (RFC 9218 §13.1).
        () => (3, true),
    };
    Priority {
        urgency,
        incremental,
    }
}

impl BodyReader for DownstreamStream {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        let wrong = self
            .frame_io
            .borrow_mut()
            .abuse_limits()
            .and_then(|abuse_limits| abuse_limits.wrong(self.id));
        if let Some(wrong) = wrong {
            // RFC 9113 §8.1.1: a stream error.
            self.reset(Reason::PROTOCOL_ERROR);
            return Poll::Ready(Err(wrong.into()));
        }
        self.incoming.poll_data(cx)
    }

    fn data(&self) -> &[u8] {
        self.incoming.data()
    }

    fn consume(&mut self, count: usize) {
        self.incoming.consume(count);
        self.scheduler.count_used(count);
    }

    fn is_last(&self) -> bool {
        self.incoming.is_last()
    }

    fn is_complete(&self) -> bool {
        self.incoming.is_complete()
    }

    fn bytes_read(&self) -> u64 {
        self.incoming.bytes_read()
    }

    fn trailers(&self) -> Option<&Fields> {
        self.incoming.trailers()
    }

    fn release_memory(&mut self, _cx: &mut Context<'_>) {}
}

impl BodyWriter for DownstreamStream {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        self.outgoing.poll_write(cx, data, last)
    }

    fn poll_write_shared(
        &mut self,
        cx: &mut Context<'_>,
        data: &Bytes,
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        self.outgoing.poll_write_shared(cx, data, last)
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
        if self.responded {
            self.outgoing.poll_reset(cx)
        } else {
            self.respond.poll_reset(cx).map(|_| ())
        }
    }
}

impl Tunnel for DownstreamStream {
    /// Done by [`ClientExchange::switch`] already.
    fn begin_tunnel(&mut self) -> Result<(), ReadError> {
        Ok(())
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.outgoing.poll_flush()
    }
}

impl ClientExchange for DownstreamStream {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_broken(cx)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        listen::local_address(self.frame_io.borrow().stream().socket()).ok()
    }

    fn begin_request(&mut self, head: &RequestHead) -> Result<BodyLength, ReadError> {
        let length = words::request::length(head, self.incoming.is_ended())?;
        if length == BodyLength::Empty {
            self.incoming.hold();
        }
        Ok(length)
    }

    fn limit_body(&mut self, most: u64) {
        self.incoming.limit_body(most);
    }

    fn interim(&mut self, _request: &RequestHead, head: &ResponseHead) {
        // It fails for a stream that is gone, which the response will report.
        let _ = self.respond.send_informational(heads::interim(head));
    }

    fn respond(
        &mut self,
        request: &RequestHead,
        head: &ResponseHead,
        length: BodyLength,
        _persistence: Persistence,
    ) {
        let ended = length == BodyLength::Empty;
        let stream = self
            .respond
            .send_response(heads::response(request, head, length), ended);
        self.outgoing.begin(stream, ended);
        if !ended {
            self.outgoing.schedule(ScheduledStream::new(
                &self.scheduler,
                self.id,
                priority(request, head),
            ));
        }
        self.responded = true;
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.outgoing.poll_room(cx)
    }

    fn supports_sendfile(&self) -> bool {
        false
    }

    fn poll_send_file(
        &mut self,
        _cx: &mut Context<'_>,
        _part: (BorrowedFd<'_>, u64, usize),
        _last: bool,
    ) -> Poll<Result<Option<usize>, WriteError>> {
        Poll::Ready(Ok(None))
    }

    /// RFC 8441 §5: the switch of an origin is a 200 on a stream that stays open.
    fn switch(&mut self, request: &RequestHead, head: &ResponseHead) {
        let mut response = heads::interim(head);
        *response.status_mut() = http::StatusCode::OK;
        // It belongs to a key between us and the endpoint (RFC 8441 §5).
        response
            .headers_mut()
            .remove(http::header::SEC_WEBSOCKET_ACCEPT);
        self.incoming.release();
        let stream = self.respond.send_response(response, false);
        self.outgoing.begin(stream, false);
        // Messages of people and programs: few bytes, which must leave at once.
        let priority = Priority::of(&request.fields).unwrap_or(Priority {
            urgency: 1,
            incremental: true,
        });
        self.outgoing
            .schedule(ScheduledStream::new(&self.scheduler, self.id, priority));
        self.responded = true;
    }

    fn discard(&mut self) {}

    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outgoing.poll_drained(cx)
    }

    fn abort(&mut self) {
        self.reset(Reason::INTERNAL_ERROR);
    }
}

impl Reset {
    /// The reset of a stream that is gone for no known reason.
    pub(super) const CANCELLED: Self = Self {
        code: Some(8),
        by_peer: false,
        unprocessed: false,
    };
}
