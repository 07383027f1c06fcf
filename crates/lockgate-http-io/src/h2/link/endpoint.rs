//! A link to an endpoint: requests that it sends, and responses until their streams' tasks fetch them.

use std::rc::Rc;
use std::task::{Context, Poll};

use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{
    Budget, Connection, FieldBlock, FieldSection, Key, LocalSettings, Role, StreamFault,
    StreamReset,
};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_http::priority::Priority;
use lockgate_net::stream::{BufferPool, ReadBuffer, Stream};

use super::super::stream_slot::{StreamSlot, StreamWait};
use super::super::worker_buffers::WorkerBuffers;
use super::windows::BodyWindows;
use super::{Link, LinkPeer, SharedLink};
use crate::body::{ReadError, Reset};

/// The receive window of one response: 10 MB/s over 100 ms.
const WINDOW: u32 = 1024 * 1024;
/// The data of our PING.
const PING: [u8; 8] = *b"alive???";
/// The order of requests' bodies: they share the connection.
const SHARED: Priority = Priority {
    urgency: 3,
    incremental: true,
};

impl Link {
    /// A new connection to an endpoint that gets at most `streams` requests at once.
    ///
    /// Its frames without a use are not limited here: see [`empty_frames`](Self::empty_frames). Each of
    /// our streams has all of its window, so that clients that take nothing never block the others.
    pub(in super::super) fn to_endpoint(
        transport: Stream,
        (blocks, buffers): (&Rc<BufferPool>, &Rc<WorkerBuffers>),
        streams: u32,
    ) -> SharedLink {
        let windows = BodyWindows::fixed(WINDOW, streams.saturating_mul(WINDOW));
        let head = HeadLimits::default().head;
        let settings = LocalSettings {
            streams: 0,
            window: windows.stream(),
            connection_window: windows.connection(),
            head_list: u32::try_from(head).unwrap_or(u32::MAX),
            connect_protocol: false,
        };
        Self::new(
            Connection::new(Role::Client, settings, Budget::UNLIMITED),
            LinkPeer::Endpoint,
            (transport, ReadBuffer::new(blocks)),
            (blocks, buffers),
            windows,
        )
    }

    /// The most requests at once that the endpoint allows; 0 before its SETTINGS.
    pub(in super::super) fn allowed_streams(&self) -> usize {
        let settings = self.connection.peer_settings();
        settings.map_or(0, |settings| settings.streams as usize)
    }

    /// Whether the endpoint takes extended CONNECT (RFC 8441 §3).
    pub(in super::super) fn takes_tunnels(&self) -> bool {
        let settings = self.connection.peer_settings();
        settings.is_some_and(|settings| settings.connect_protocol)
    }

    /// Whether the endpoint may take further requests: it has not sent GOAWAY, and nothing has failed.
    pub(in super::super) fn takes_requests(&self) -> bool {
        self.lost.is_none() && self.connection.takes_streams()
    }

    /// The code of the endpoint's GOAWAY, if it has sent one.
    pub(in super::super) fn goaway_code(&self) -> Option<u32> {
        self.goaway
    }

    /// Whether the connection has broken or was ended with all its streams.
    pub(in super::super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// DATA frames so far that carried nothing.
    pub(in super::super) fn empty_frames(&self) -> u32 {
        self.connection.empty_frames()
    }

    /// Frames of responses so far.
    pub(in super::super) fn responses(&self) -> u64 {
        self.message_frames
    }

    /// Bytes of frames so far, those among them that are still to be sent.
    pub(in super::super) fn bytes_written(&self) -> u64 {
        self.moved.0 + self.connection.unsent().len() as u64
    }

    /// Begins a request, of which `fill` writes the head; `ended` where no body follows. `None` where the
    /// endpoint takes none now.
    pub(in super::super) fn open_request(
        &mut self,
        method: Method,
        ended: bool,
        fill: impl FnOnce(&mut FieldBlock<'_>),
    ) -> Option<Key> {
        if !self.takes_requests() {
            return None;
        }
        self.lend();
        self.wake_driver();
        let mut slot = StreamSlot::new(false);
        slot.priority = SHARED;
        self.connection.open(method, slot, ended, fill)
    }

    /// Sends a PING, unless one is under way.
    pub(in super::super) fn ping(&mut self) {
        self.connection.ping(PING);
    }

    /// Sends SETTINGS that change nothing, unless earlier ones are not acknowledged; whether it has.
    pub(in super::super) fn probe(&mut self) -> bool {
        self.connection.probe_settings()
    }

    /// Whether the endpoint has acknowledged all SETTINGS.
    pub(in super::super) fn is_settled(&self) -> bool {
        self.connection.is_settled()
    }

    /// Whether a request was handled: its response has begun, or its stream was reset.
    pub(in super::super) fn is_answered(&mut self, key: Key) -> bool {
        let slot = self.connection.get_mut(key);
        slot.is_none_or(|slot| slot.heads.has_last()) || self.reset(key).is_some()
    }

    pub(super) fn take_response(&mut self, key: Key, has_ended: bool, section: &FieldSection) {
        self.begin_message(key, has_ended);
        // Behind interim responses that are malformed or too many, it is of no use.
        if self.is_answered(key) {
            return;
        }
        let Some(slot) = self.connection.get_mut(key) else {
            return;
        };
        let mut head = self.buffers.take_head();
        let made = section.response(&self.limits, &mut head);
        slot.has_ended = has_ended;
        slot.heads.add_last(made.map(|()| head));
        slot.wake(StreamWait::Data);
    }

    pub(super) fn take_interim(&mut self, key: Key, section: &FieldSection) {
        if self.is_answered(key) {
            return;
        }
        let Some(slot) = self.connection.get_mut(key) else {
            return;
        };
        let mut head = self.buffers.take_head();
        let added = match section.response(&self.limits, &mut head) {
            Ok(()) => slot.heads.add_interim(head),
            Err(error) => {
                slot.heads.add_last(Err(error));
                Ok(())
            }
        };
        if added.is_ok() {
            return slot.wake(StreamWait::Data);
        }
        // The stream's task resets it.
        slot.drop_message();
        slot.wake_for_loss();
        let fault = StreamFault::TooManyInterim;
        let reset = StreamReset {
            code: fault.code(),
            fault: Some(fault),
            unprocessed: false,
        };
        self.resets.push((key, reset.into()));
    }

    /// Notes a reset, `with_head` where the same frame was the head of a response: one that ends its
    /// stream, and announces a body.
    ///
    /// What has come before the reset is still the response, and a whole response stays one (RFC 9113
    /// §8.1). But nothing is used where we reset it for a malformed head or malformed trailers (§8.1.1).
    pub(super) fn note_reset(&mut self, key: Key, reset: StreamReset, with_head: bool) {
        use StreamFault::{Interim, PseudoFields, Status, Trailers};
        self.partial_message.end(key.stream());
        self.is_awaited_stale = true;
        let Some(slot) = self.connection.get_mut(key) else {
            return;
        };
        let is_malformed = reset.fault.is_some_and(|fault| {
            with_head || matches!(fault, PseudoFields | Status | Interim | Trailers)
        });
        if is_malformed && !slot.has_ended {
            slot.drop_message();
        }
        slot.wake_for_loss();
        self.resets.push((key, reset.into()));
    }

    /// Completes with the next head of a response, interim ones first, in `head`.
    ///
    /// # Errors
    /// When it is malformed, or the stream or its connection ends before it.
    pub(in super::super) fn poll_head(
        &mut self,
        key: Key,
        cx: &Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<(), ReadError>> {
        let ended = self.reset(key).or(self.lost);
        let Some(slot) = self.connection.get_mut(key) else {
            return Poll::Ready(Err(Reset::CANCELLED.into()));
        };
        match (slot.heads.fetch(), ended) {
            (Some(Ok(mut received)), _) => {
                std::mem::swap(head, &mut received);
                self.buffers.give_head(received);
                Poll::Ready(Ok(()))
            }
            (Some(Err(error)), _) => Poll::Ready(Err(error.into())),
            (None, Some(reset)) => Poll::Ready(Err(reset.into())),
            (None, None) => {
                slot.wait(StreamWait::Data, cx);
                slot.wait(StreamWait::Loss, cx);
                Poll::Pending
            }
        }
    }

    /// Completes when data of a response is in its [`slot`](Self::slot), or its end has come.
    ///
    /// # Errors
    /// When the stream or its connection ends before it.
    pub(in super::super) fn poll_body(
        &mut self,
        key: Key,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Reset>> {
        let ended = self.reset(key).or(self.lost);
        let Some(slot) = self.connection.get_mut(key) else {
            return Poll::Ready(Err(Reset::CANCELLED));
        };
        match ended {
            _ if slot.has_data() || slot.has_ended => Poll::Ready(Ok(())),
            Some(reset) => Poll::Ready(Err(reset)),
            None => {
                slot.wait(StreamWait::Data, cx);
                slot.wait(StreamWait::Loss, cx);
                Poll::Pending
            }
        }
    }

    /// Whether a response has ended with its head.
    pub(in super::super) fn has_ended_with_head(&mut self, key: Key) -> bool {
        self.connection
            .get_mut(key)
            .is_some_and(|slot| slot.has_ended && !slot.has_data() && slot.trailers.is_none())
    }
}
