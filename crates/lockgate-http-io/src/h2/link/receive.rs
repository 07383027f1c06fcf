//! What comes from the peer: bytes, their events, and what streams get of them.

use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockgate_http::fields::Fields;
use lockgate_http::forwarding;
use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{Event, FieldSection, Key, SectionError, code};
use lockgate_net::stream::StreamError;

use super::super::stream_slot::{StreamSlot, StreamWait};
use super::super::worker_buffers::ReceivedSection;
use super::{Link, LinkError, LinkEvent, LinkPeer, LinkViolation};

/// The outcome of the next frames among the received bytes.
enum Received {
    /// A request.
    Event(LinkEvent),
    /// Frames that were handled; more may be there.
    Frames,
    /// No whole frame is left.
    Nothing,
}

impl Link {
    /// Completes with what has come. While it is pending, all frames that have come were handled, or the
    /// reads of the turn are used up; then the connection's task is woken for the next turn.
    ///
    /// # Errors
    /// When the connection has broken, or the peer has violated the protocol.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<LinkEvent, LinkError>> {
        loop {
            // Streams that are closed may use up the client's budget, too.
            if let Some(error) = self.connection.error() {
                return Poll::Ready(Err(LinkViolation::Rule(error).into()));
            }
            if let LinkPeer::Client(allowance) = &self.peer
                && allowance.tiny_frames.are_too_many()
            {
                self.connection.abort(code::ENHANCE_YOUR_CALM);
                return Poll::Ready(Err(LinkViolation::TinyFrames.into()));
            }
            match self.receive()? {
                Received::Event(event) => return Poll::Ready(Ok(event)),
                Received::Frames => continue,
                Received::Nothing => {}
            }
            if self.has_ended {
                let is_cut = !self.has_begun() || self.is_within_frame();
                return Poll::Ready(Ok(LinkEvent::Ended { is_cut }));
            }
            if self.connection.is_full() {
                self.is_read_due = true;
                return Poll::Pending;
            }
            if self.reads == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.reads -= 1;
            let before = self.inbox.bytes().len();
            match self.poll_read(cx) {
                Poll::Ready(Ok(true)) => {
                    self.pauses.note(self.transport.socket(), None);
                    self.moved.1 += (self.inbox.bytes().len() - before) as u64;
                }
                Poll::Ready(Ok(false)) => self.has_ended = true,
                Poll::Ready(Err(error)) => {
                    self.transport.alert(cx, &error);
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Pending => {
                    self.inbox.release_block();
                    return Poll::Pending;
                }
            }
        }
    }

    /// Reads once. Data of messages with a known length, sent fast, is waited for in large pieces: see
    /// [`poll_read_body`](lockgate_net::stream::Stream::poll_read_body).
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, StreamError>> {
        if std::mem::take(&mut self.is_awaited_stale) {
            self.awaited = self.connection.awaited_data();
        }
        match self.awaited {
            0 => self.transport.poll_read(cx, &mut self.inbox),
            left => self
                .transport
                .poll_read_body(cx, &mut self.inbox, left as u64),
        }
    }

    /// Reads and drops bytes; `false` when the peer has ended.
    pub fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.inbox.consume(self.inbox.bytes().len());
        self.transport
            .poll_read(cx, &mut self.inbox)
            .map(|read| matches!(read, Ok(true)))
    }

    /// Handles the next frames among the received bytes.
    fn receive(&mut self) -> Result<Received, LinkError> {
        if self.inbox.is_empty() {
            return Ok(Received::Nothing);
        }
        let buffers = Rc::clone(&self.buffers);
        let mut section = buffers.section();
        let received = self.connection.receive(self.inbox.bytes(), &mut *section);
        let (mut outcome, mut headed) = (Received::Nothing, None);
        while let Some(event) = self.connection.next_event() {
            if let Event::Head { key, .. } = event {
                headed = Some(key);
            }
            match self.handle(event, &section, headed) {
                Some(request) => outcome = Received::Event(request),
                None if matches!(outcome, Received::Nothing) => outcome = Received::Frames,
                None => {}
            }
        }
        self.inbox.consume(received.map_err(LinkViolation::Rule)?);
        Ok(outcome)
    }

    /// Handles an event of a frame, which has brought the head of the stream `headed`; the request, if it
    /// is one.
    fn handle(
        &mut self,
        event: Event,
        section: &ReceivedSection,
        headed: Option<Key>,
    ) -> Option<LinkEvent> {
        let is_of_message = matches!(
            event,
            Event::Head { .. }
                | Event::Interim { .. }
                | Event::Data { .. }
                | Event::Trailers { .. }
        );
        self.message_frames += u64::from(is_of_message);
        match event {
            Event::Head { key, ended, wire } => {
                let most = self.connection.local_settings().head_list as usize;
                match self.peer {
                    LinkPeer::Endpoint => self.take_response(key, ended, &section.fields),
                    LinkPeer::Client(_) if section.is_cut || wire > most => {
                        return Some(self.refuse_long(key));
                    }
                    LinkPeer::Client(_) => return Some(self.accept_stream(key, ended)),
                }
            }
            Event::Interim { key, .. } => self.take_interim(key, &section.fields),
            Event::Data {
                key,
                at,
                ended,
                wire,
            } => self.take_data(key, at, ended, wire),
            Event::Trailers { key, .. } => {
                // They take room as heads do.
                let trailers = if self.connection.held_heads() > self.most_heads() {
                    Some(Box::new(Err(SectionError::TooLong)))
                } else {
                    trailers(&section.fields, &self.limits)
                };
                if let Some(slot) = self.end_message(key) {
                    slot.trailers = trailers;
                    slot.wake(StreamWait::Data);
                }
            }
            Event::Reset { key, reset } => match self.peer {
                LinkPeer::Client(_) => self.close_reset(key, reset),
                LinkPeer::Endpoint => self.note_reset(key, reset, headed == Some(key)),
            },
            Event::WindowOpened { key } => {
                if let Some(slot) = self.connection.get_mut(key) {
                    slot.wake(StreamWait::Window);
                }
            }
            Event::Priority { stream, priority } => self.order.update(stream, priority),
            Event::Goaway { code } => self.goaway = Some(code),
            // That bytes have come is what matters.
            Event::Pong { .. } => {}
        }
        None
    }

    /// Keeps data until the stream's task fetches it. As long as there is room for it beside the
    /// connection's window, it does not stop other bodies.
    fn take_data(&mut self, key: Key, at: Range<usize>, has_ended: bool, wire: usize) {
        let length = at.len();
        self.is_awaited_stale = true;
        // Of what comes behind the end of the connection nothing is kept, and no end is told.
        if self.lost.is_some() {
            return;
        }
        if has_ended {
            self.end_message(key);
        }
        let Some(slot) = self.connection.get_mut(key) else {
            return;
        };
        // A frame's first piece has its header. One that finds nothing waiting costs no more than it
        // must: it is used as fast as it comes.
        let is_counted = wire > length && !has_ended && slot.has_data();
        if let LinkPeer::Client(allowance) = &mut self.peer
            && is_counted
        {
            allowance.tiny_frames.note_received(length);
        }
        slot.receive(self.inbox.bytes().get(at).unwrap_or_default(), has_ended);
        slot.wake(StreamWait::Data);
        if self.connection.kept_bytes() + length <= self.windows.most_kept() {
            self.connection.release_connection_window(key, length);
        } else {
            self.is_release_due = true;
        }
    }

    /// Gives the connection's window back for data that there was no room for, where there is some now.
    pub(super) fn release_more(&mut self) {
        let most = self.windows.most_kept();
        if !self.is_release_due || self.connection.kept_bytes() > most / 2 {
            return;
        }
        self.is_release_due = false;
        let keys: Vec<Key> = self.connection.keys().collect();
        for key in keys {
            let room = most.saturating_sub(self.connection.kept_bytes());
            if room == 0 {
                self.is_release_due = true;
                break;
            }
            self.connection.release_connection_window(key, room);
        }
    }

    /// Notes the head of the peer's message, which may be its end.
    pub(super) fn begin_message(&mut self, key: Key, has_ended: bool) {
        if has_ended {
            self.partial_message.end(key.stream());
        } else {
            self.partial_message.begin(key.stream());
        }
    }

    /// Notes the end of the peer's message.
    fn end_message(&mut self, key: Key) -> Option<&mut StreamSlot> {
        self.partial_message.end(key.stream());
        self.is_awaited_stale = true;
        let slot = self.connection.get_mut(key)?;
        slot.has_ended = true;
        Some(slot)
    }

    /// Gives the peer's windows back for data that was used.
    pub(in super::super) fn note_used(&mut self, key: Key, bytes: usize) {
        let unsent = self.connection.unsent().len();
        self.windows.note_used(bytes);
        self.connection.used(key, bytes);
        self.release_more();
        if self.connection.unsent().len() > unsent {
            self.wake_driver();
        }
    }

    /// The slot of a stream.
    pub(in super::super) fn slot(&mut self, key: Key) -> Option<&mut StreamSlot> {
        self.connection.get_mut(key)
    }
}

/// The trailers that are forwarded, if there are any.
fn trailers(
    section: &FieldSection,
    limits: &HeadLimits,
) -> Option<Box<Result<Fields, SectionError>>> {
    let mut fields = Fields::default();
    let made = section.trailers(limits, &mut fields);
    fields.retain(|field| forwarding::passes_in_trailers(&field));
    if made.is_ok() && fields.is_empty() {
        return None;
    }
    Some(Box::new(made.map(|()| fields)))
}
