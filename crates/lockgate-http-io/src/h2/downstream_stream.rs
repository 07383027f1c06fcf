//! A client's stream of HTTP/2: its request, and the response to it.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lockgate_http::fields::{Field, Fields};
use lockgate_http::h2::{self as layer, Key, code};
use lockgate_http::head::{BodyLength, RequestHead, ResponseHead};
use lockgate_http::priority::Priority;
use lockgate_net::listen;

use super::link::{SendWait, SharedLink};
use super::received_body::ReceivedBody;
use super::response_fields;
use super::stream_slot::StreamWait;
use crate::body::{BodyReader, BodyWriter, ReadError, Reset, Tunnel, WriteError};
use crate::message::{ClientExchange, Persistence};

/// A client's stream. Dropped before the response is complete, it is reset.
#[derive(Debug)]
pub struct DownstreamStream {
    link: SharedLink,
    key: Key,
    /// The body of the request.
    body: ReceivedBody,
    /// The most bytes of data that the body may have.
    max_length: u64,
    /// Whether the request is malformed: it is answered, and the stream is reset instead of ended.
    is_malformed: bool,
    /// Whether the whole response was taken.
    is_finished: bool,
    /// Why a part of the response could not be written.
    lost: Option<Reset>,
    is_blocked: bool,
    bytes_written: u64,
}

impl DownstreamStream {
    /// A stream that the client has opened; `has_ended` where its request has no body.
    pub fn new(link: &SharedLink, key: Key, has_ended: bool) -> Self {
        Self {
            link: Rc::clone(link),
            key,
            body: ReceivedBody::new(has_ended),
            max_length: u64::MAX,
            is_malformed: false,
            is_finished: false,
            lost: None,
            is_blocked: false,
            bytes_written: 0,
        }
    }

    /// Notes that the request is malformed: RFC 9113 §8.1.1 has a stream error for that, with a
    /// response before it if we like.
    pub fn mark_malformed(&mut self) {
        self.is_malformed = true;
    }

    /// Resets the stream: the client must not take the sent part for the whole.
    pub fn reset(&mut self, code: u32) {
        self.link.borrow_mut().close(self.key, code);
    }

    /// Fetches what has come behind the data that was used.
    fn poll_fetch(&mut self, cx: &Context<'_>) -> Poll<Result<(), ReadError>> {
        let mut link = self.link.borrow_mut();
        if let Some(reset) = link.loss(self.key) {
            return Poll::Ready(Err(reset.into()));
        }
        let Some(slot) = link.slot(self.key) else {
            return Poll::Ready(Err(Reset::CANCELLED.into()));
        };
        if !slot.has_data() && !slot.has_ended {
            slot.wait(StreamWait::Data, cx);
            slot.wait(StreamWait::Loss, cx);
            return Poll::Pending;
        }
        if let Err(error) = self.body.fetch(slot) {
            self.is_malformed |= error.is_malformed();
            return Poll::Ready(Err(error.into()));
        }
        Poll::Ready(Ok(()))
    }

    /// Waits before data is sent.
    fn wait_to_send(&mut self, wait: SendWait, cx: &Context<'_>) {
        // A stream that waits behind others does not wait for the client: whether the client takes
        // anything, the connection knows.
        self.is_blocked = wait.is_for_peer();
        self.link.borrow_mut().wait_to_send(self.key, wait, cx);
    }

    fn begin_response(&mut self, has_ended: bool, priority: Priority) {
        self.is_finished = has_ended;
        self.link.borrow_mut().schedule(self.key, priority);
    }
}

impl Drop for DownstreamStream {
    fn drop(&mut self) {
        // RFC 9113 §8.1: a whole response makes the rest of the request superfluous.
        let code = match self.is_finished {
            _ if self.is_malformed => code::PROTOCOL_ERROR,
            true => code::NO_ERROR,
            false => code::INTERNAL_ERROR,
        };
        if let Ok(mut link) = self.link.try_borrow_mut() {
            link.close(self.key, code);
        }
    }
}

impl BodyReader for DownstreamStream {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        if self.body.needs_data() {
            ready!(self.poll_fetch(cx))?;
        }
        if self.data().len() as u64 > self.max_length.saturating_sub(self.bytes_read()) {
            return Poll::Ready(Err(ReadError::TooLong));
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.body.data()
    }

    fn consume(&mut self, count: usize) {
        self.body.consume(count);
        self.link.borrow_mut().note_used(self.key, count);
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

    fn release_memory(&mut self, _cx: &mut Context<'_>) {}
}

impl BodyWriter for DownstreamStream {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        let mut link = self.link.borrow_mut();
        if let Some(reset) = link.write_loss(self.key) {
            return Poll::Ready(Err(reset.into()));
        }
        let written = link.write(self.key, data, last && !self.is_malformed);
        drop(link);
        match written {
            Ok(taken) => {
                self.is_blocked = false;
                self.is_finished = last && taken == data.len();
                self.bytes_written += taken as u64;
                Poll::Ready(Ok(taken))
            }
            Err(wait) => {
                self.wait_to_send(wait, cx);
                Poll::Pending
            }
        }
    }

    fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let mut link = self.link.borrow_mut();
        self.lost = self.lost.or_else(|| link.loss(self.key));
        if !self.is_malformed {
            link.finish(self.key, trailers, passes);
        }
    }

    /// Taken data belongs to the connection, so nothing is flushed here; reports a known error.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.is_blocked = false;
        let lost = match self.lost {
            None if !self.is_finished => self.link.borrow_mut().loss(self.key),
            lost => lost,
        };
        Poll::Ready(lost.map_or(Ok(()), |reset| Err(reset.into())))
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
        self.link.borrow_mut().poll_loss(self.key, cx)
    }
}

impl Tunnel for DownstreamStream {
    /// Done by [`ClientExchange::switch`] already.
    fn begin_tunnel(&mut self) -> Result<(), ReadError> {
        Ok(())
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.poll_flush(cx)
    }
}

impl ClientExchange for DownstreamStream {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_broken(cx)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        listen::local_address(self.link.borrow().transport().socket()).ok()
    }

    fn begin_request(&mut self, head: &RequestHead) -> Result<BodyLength, ReadError> {
        let length = layer::request::length(head, self.body.has_ended())
            .inspect_err(|error| self.is_malformed |= error.is_malformed())?;
        if length == BodyLength::Empty {
            self.body.hold();
        }
        Ok(length)
    }

    fn limit_body(&mut self, most: u64) {
        self.max_length = most;
    }

    fn interim(&mut self, _request: &RequestHead, head: &ResponseHead) {
        self.link
            .borrow_mut()
            .interim(self.key, |block| response_fields::interim(head, block));
    }

    fn respond(
        &mut self,
        request: &RequestHead,
        head: &ResponseHead,
        length: BodyLength,
        _persistence: Persistence,
    ) {
        let has_ended = length == BodyLength::Empty;
        let ends_stream = has_ended && !self.is_malformed;
        let mut link = self.link.borrow_mut();
        self.lost = link.loss(self.key);
        link.respond(self.key, ends_stream, |block| {
            response_fields::response(request, head, length, block);
        });
        drop(link);
        self.begin_response(has_ended, priority(request, head));
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let mut link = self.link.borrow_mut();
        if let Some(reset) = link.loss(self.key) {
            return Poll::Ready(Err(reset.into()));
        }
        let wait = link.send_wait(self.key);
        drop(link);
        match wait {
            None => {
                self.is_blocked = false;
                Poll::Ready(Ok(()))
            }
            Some(wait) => {
                self.wait_to_send(wait, cx);
                Poll::Pending
            }
        }
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
        self.body.release();
        self.link.borrow_mut().respond(self.key, false, |block| {
            response_fields::switched(head, block);
        });
        // Messages of people and programs: few bytes, which must leave at once.
        let priority = Priority::of(&request.fields).unwrap_or(Priority {
            urgency: 1,
            incremental: true,
        });
        self.begin_response(false, priority);
    }

    fn discard(&mut self) {}

    fn poll_all_sent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.link.borrow_mut().poll_all_sent(self.key, cx)
    }

    fn abort(&mut self) {
        self.reset(code::INTERNAL_ERROR);
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

impl Reset {
    /// The reset of a stream that is gone for no known reason.
    pub(super) const CANCELLED: Self = Self {
        code: Some(code::CANCEL),
        fault: None,
        by_peer: false,
        unprocessed: false,
    };
}
