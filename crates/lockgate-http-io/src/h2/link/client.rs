//! A link to a client: the requests that it opens, and what they and its other frames may cost.

use std::rc::Rc;

use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{
    Budget, Connection, Key, LocalSettings, Role, SectionError, StreamReset, code,
};
use lockgate_http::head::{Method, RequestHead};
use lockgate_http::hpack::Indexing;
use lockgate_net::millis::Millis;
use lockgate_net::stream::{BufferPool, ReadBuffer, Stream};

use super::super::stream_slot::StreamSlot;
use super::super::worker_buffers::WorkerBuffers;
use super::refill::{BudgetRefill, FrameRate, TinyFrames};
use super::windows::BodyWindows;
use super::{Link, LinkEvent, LinkPeer, SharedLink};

/// WINDOW_UPDATE frames that a client may send before it has received data.
const UPDATES: u32 = 256;
/// The most bytes of heads of open streams together, for each stream that the connection may have:
/// 8 KB, which other servers allow for one head. A stream beyond that is refused, and may be
/// retried.
const HEADS_EACH: usize = 8 * 1024;
/// The least value of that sum, so that a few streams may have large heads.
const HEADS: usize = 1024 * 1024;

/// What a client may do on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkLimits {
    /// Streams at once.
    pub streams: u32,
    /// Bytes of one body that were not taken, once the window has grown.
    pub window: u32,
    /// Bytes of all bodies of the connection that were not taken.
    pub connection_window: u32,
    /// Bytes of a field section, as RFC 9113 §6.5.2 counts them.
    pub head_list: usize,
    /// Streams that are reset or malformed.
    pub resets: FrameRate,
    /// Frames that carry nothing for a request.
    pub control: FrameRate,
}

/// Why a request cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadRefusal {
    /// Its head is malformed or too long; the method may be known.
    Malformed(SectionError, Method),
    /// The heads of all open streams take too much room together. It was not looked at.
    NoRoom,
}

/// What a client may still cost, beside the layer's budget.
#[derive(Debug)]
pub(super) struct ClientAllowance {
    /// The refills of the layer's budget.
    refills: BudgetRefill,
    pub(super) tiny_frames: TinyFrames,
    /// The most bytes of all heads that are held.
    most_heads: usize,
}

impl Link {
    /// The connection of a client from which `received` was read already.
    pub fn of_client(
        transport: Stream,
        blocks: &Rc<BufferPool>,
        buffers: &Rc<WorkerBuffers>,
        received: &[u8],
        limits: &LinkLimits,
        now: Millis,
    ) -> SharedLink {
        let mut inbox = ReadBuffer::new(blocks);
        inbox.extend(received);
        let windows = BodyWindows::new(limits.window, limits.connection_window);
        let settings = LocalSettings {
            streams: limits.streams,
            window: windows.stream(),
            connection_window: windows.connection(),
            head_list: u32::try_from(limits.head_list).unwrap_or(u32::MAX),
            connect_protocol: true,
        };
        let budget = Budget {
            resets: limits.resets.burst,
            control: limits.control.burst,
            updates: UPDATES,
        };
        let allowance = ClientAllowance {
            refills: BudgetRefill::new(limits.resets, limits.control, now),
            tiny_frames: TinyFrames::new(now),
            most_heads: HEADS.max(limits.streams as usize * HEADS_EACH),
        };
        Self::new(
            Connection::new(Role::Server, settings, budget),
            LinkPeer::Client(allowance),
            (transport, inbox),
            (blocks, buffers),
            windows,
        )
    }

    /// Lets the client send more for the time that has passed: before each turn.
    pub fn refill(&mut self, now: Millis) {
        if let LinkPeer::Client(allowance) = &mut self.peer {
            if let Some(more) = allowance.refills.due(now) {
                self.connection.refill(more);
            }
            allowance.tiny_frames.refill(now);
        }
    }

    /// Tells the client in two steps to send no more requests (RFC 9113 §6.8).
    pub fn drain(&mut self) {
        self.connection.drain();
    }

    /// Whether the client knows which requests were its last, and all of them are answered.
    pub fn is_drained(&self) -> bool {
        self.connection.is_drained()
    }

    /// The code of the client's GOAWAY (RFC 9113 §6.8), once it has sent one and all of its requests are
    /// answered: it sends no more.
    pub fn goaway(&self) -> Option<u32> {
        self.goaway.filter(|_| self.connection.active() == 0)
    }

    /// Refuses a request that was not looked at: it may be sent again, with any method (RFC 9113
    /// §8.7).
    pub fn refuse(&mut self, key: Key) {
        self.close(key, code::REFUSED_STREAM);
    }

    /// Makes the head of the request that [`poll_event`](Self::poll_event) has told of.
    ///
    /// # Errors
    /// When it is malformed, or there is no room for it.
    pub fn read_head(
        &mut self,
        key: Key,
        limits: &HeadLimits,
        head: &mut RequestHead,
    ) -> Result<(), HeadRefusal> {
        self.limits = *limits;
        let (held, own) = (self.connection.held_heads(), self.connection.head_size(key));
        if held > self.most_heads() && held > own {
            return Err(HeadRefusal::NoRoom);
        }
        let section = self.buffers.section();
        let read = section.fields.request(limits, head);
        read.map_err(|error| HeadRefusal::Malformed(error, section.method))
    }

    /// The most bytes of all heads that are held; of an endpoint each stream has its own limits.
    pub(super) fn most_heads(&self) -> usize {
        match &self.peer {
            LinkPeer::Client(allowance) => allowance.most_heads,
            LinkPeer::Endpoint => usize::MAX,
        }
    }

    /// Accepts the stream of a request, of which the head has come.
    pub(super) fn accept_stream(&mut self, key: Key, has_ended: bool) -> LinkEvent {
        self.connection.attach(key, StreamSlot::new(has_ended));
        self.begin_message(key, has_ended);
        LinkEvent::Request { key, has_ended }
    }

    /// Answers a request with more fields than are decoded, and than any head may have: at the least
    /// cost.
    pub(super) fn refuse_long(&mut self, key: Key) -> LinkEvent {
        self.connection.respond_with(key, true, |block| {
            block.status(431);
            block.field(b"content-length", b"0", Indexing::Plain);
        });
        // Such a head costs us as much as one that is reset.
        self.connection.penalize();
        // RFC 9113 §8.1: the rest of the request is superfluous.
        self.connection.close(key, code::NO_ERROR);
        LinkEvent::HeadTooLong
    }

    /// Closes at once a stream that was reset, since frames behind its reset are a violation (RFC 9113
    /// §5.1). The stream's task finds the reset later.
    pub(super) fn close_reset(&mut self, key: Key, reset: StreamReset) {
        if let Some(mut slot) = self.forget(key, reset.code) {
            self.resets.push((key, reset.into()));
            slot.wake_for_loss();
        }
    }
}
