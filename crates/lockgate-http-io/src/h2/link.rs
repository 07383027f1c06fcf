//! One HTTP/2 connection: the layer's state, the socket below it, and the streams above it.
//!
//! The connection's task alone reads and writes the socket, in turns: [`begin_turn`](Link::begin_turn),
//! behind a [`refill`](Link::refill) where the peer is a client, [`poll_event`](Link::poll_event) until
//! nothing more comes, [`poll_send`](Link::poll_send), [`end_turn`](Link::end_turn). A
//! stream's task borrows the link for the length of one call, reads what came for its stream, writes
//! into the bytes to send, and wakes the connection's task for them.
//!
//! Does not know what becomes of a request, and no deadline: see the proxy's `downstream`.

mod client;
mod endpoint;
mod receive;
mod refill;
mod send;
#[cfg(test)]
mod tests;
mod windows;

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{Connection, ConnectionError, Key, TurnBuffers, code};
use lockgate_net::acknowledge::ReadPauses;
use lockgate_net::memory;
use lockgate_net::stream::{BufferPool, ReadBuffer, Stream, StreamError};

use super::partial_message::PartialMessage;
use super::send_order::SendOrder;
use super::stream_slot::{StreamSlot, StreamWait};
use super::worker_buffers::WorkerBuffers;
use crate::body::Reset;
use client::ClientAllowance;
use windows::BodyWindows;

pub use client::{HeadRefusal, LinkLimits};
pub use refill::FrameRate;
pub(super) use send::SendWait;

/// A link that the connection's task and those of its streams share.
pub type SharedLink = Rc<RefCell<Link>>;

/// The most reads in a turn.
const READS: usize = 8;

/// What has come of the peer's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// A stream that the client has opened; its head is to be [read](Link::read_head) before the next
    /// event. `has_ended` where the head was the end.
    Request {
        /// The stream.
        key: Key,
        /// Whether no body follows.
        has_ended: bool,
    },
    /// A request with more fields than are decoded: it was answered with 431.
    HeadTooLong,
    /// The peer has ended its side of the connection; `is_cut` within its preface, a frame or a field
    /// section.
    Ended {
        /// Whether something is incomplete.
        is_cut: bool,
    },
}

/// Why a link is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection has broken.
    #[error(transparent)]
    Broken(#[from] StreamError),
    /// The peer has broken a rule of HTTP/2, or costs too much: our GOAWAY waits to be sent.
    #[error(transparent)]
    Violation(#[from] LinkViolation),
}

/// What a peer has done for which we end the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkViolation {
    /// It has violated the protocol, or used up its budget.
    #[error(transparent)]
    Rule(ConnectionError),
    /// It sends bodies in frames that are smaller than their headers.
    #[error("too many tiny DATA frames")]
    TinyFrames,
}

impl LinkViolation {
    /// The metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rule(error) => error.label(),
            Self::TinyFrames => "calm",
        }
    }

    /// The code of the GOAWAY that tells the peer.
    pub fn code(self) -> u32 {
        match self {
            Self::Rule(error) => error.code(),
            Self::TinyFrames => code::ENHANCE_YOUR_CALM,
        }
    }

    /// Whether a field section cannot be decoded, so that no later one can be.
    pub fn is_of_sections(self) -> bool {
        use ConnectionError::{FieldTooLong, Hpack, SelfDependency};
        matches!(self, Self::Rule(Hpack(_) | FieldTooLong | SelfDependency))
    }

    /// Whether the peer has cost too much, and not only broken a rule.
    pub fn is_abuse(self) -> bool {
        match self {
            Self::Rule(error) => error.is_abuse(),
            Self::TinyFrames => true,
        }
    }
}

/// The other side of a link.
#[derive(Debug)]
enum LinkPeer {
    Client(ClientAllowance),
    /// Its frames are not limited by the link: see [`empty_frames`](Link::empty_frames).
    Endpoint,
}

/// An HTTP/2 connection.
#[derive(Debug)]
pub struct Link {
    peer: LinkPeer,
    connection: Connection<StreamSlot>,
    transport: Stream,
    inbox: ReadBuffer,
    blocks: Rc<BufferPool>,
    buffers: Rc<WorkerBuffers>,
    /// Whether the layer has buffers of the worker.
    is_lent: bool,
    order: SendOrder,
    windows: BodyWindows,
    /// The task of the connection, and whether it was woken since its last turn.
    driver: Option<Waker>,
    is_driver_woken: bool,
    /// Reads left in this turn, and whether one was left out because too much waits to be sent.
    reads: usize,
    is_read_due: bool,
    /// Bytes sent, and bytes received.
    moved: (u64, u64),
    /// Whether the peer takes nothing now.
    is_blocked: bool,
    has_ended: bool,
    /// Frames of the peer's messages so far: of heads, data and trailers.
    message_frames: u64,
    partial_message: PartialMessage,
    /// The data that comes before any message of known length ends or stops, and whether this has
    /// changed.
    awaited: usize,
    is_awaited_stale: bool,
    pauses: ReadPauses,
    /// The limits of trailers, and of an endpoint's heads.
    limits: HeadLimits,
    /// Whether some data still counts against the connection's window, because too much is kept beside
    /// it.
    is_release_due: bool,
    /// The code of the peer's GOAWAY.
    goaway: Option<u32>,
    /// Streams that were reset and have a task; those of a client have no slot any more.
    resets: Vec<(Key, Reset)>,
    /// Why no stream goes on.
    lost: Option<Reset>,
}

impl Link {
    fn new(
        connection: Connection<StreamSlot>,
        peer: LinkPeer,
        (transport, inbox): (Stream, ReadBuffer),
        (blocks, buffers): (&Rc<BufferPool>, &Rc<WorkerBuffers>),
        windows: BodyWindows,
    ) -> SharedLink {
        Rc::new(RefCell::new(Self {
            peer,
            connection,
            transport,
            inbox,
            blocks: Rc::clone(blocks),
            buffers: Rc::clone(buffers),
            is_lent: false,
            order: SendOrder::new(),
            windows,
            driver: None,
            is_driver_woken: false,
            reads: READS,
            is_read_due: false,
            moved: (0, 0),
            is_blocked: false,
            has_ended: false,
            message_frames: 0,
            partial_message: PartialMessage::default(),
            awaited: 0,
            is_awaited_stale: false,
            pauses: ReadPauses::default(),
            limits: HeadLimits::default(),
            is_release_due: false,
            goaway: None,
            resets: Vec::new(),
            lost: None,
        }))
    }

    /// The TCP or TLS connection below.
    pub fn transport(&self) -> &Stream {
        &self.transport
    }

    /// Whether the peer is waited for: it takes no bytes now.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Bytes of frames sent, and received.
    pub fn bytes_moved(&self) -> (u64, u64) {
        self.moved
    }

    /// Whether the peer's preface has come, with its first SETTINGS.
    pub fn has_begun(&self) -> bool {
        self.connection.peer_settings().is_some()
    }

    /// Begins a turn of the connection's task: with a limited number of reads, since then the
    /// worker's other connections are served.
    pub fn begin_turn(&mut self, cx: &Context<'_>) {
        self.reads = READS;
        self.is_driver_woken = false;
        if !self
            .driver
            .as_ref()
            .is_some_and(|driver| driver.will_wake(cx.waker()))
        {
            self.driver = Some(cx.waker().clone());
        }
        self.lend();
        self.windows.grow(&mut self.connection);
    }

    /// Ends a turn: gives memory back. Received bytes are acknowledged at once where the rest of a
    /// message is waited for, unless bytes sent in this turn carry the acknowledgement.
    pub fn end_turn(&mut self) {
        if (self.is_within_frame() || self.partial_message.is_awaited())
            && self.transport.await_rest()
        {
            self.partial_message.acknowledged();
        }
        if std::mem::take(&mut self.is_lent) {
            let mut buffers = TurnBuffers::default();
            self.connection.give_back(&mut buffers);
            self.buffers.give(buffers);
        }
        if self.connection.active() == 0 {
            self.order.shrink();
            self.resets.shrink_to_fit();
        }
    }

    /// Gives the layer buffers of the worker, until the end of the next turn, if there will be one.
    fn lend(&mut self) {
        if self.lost.is_none() && !std::mem::replace(&mut self.is_lent, true) {
            let before = memory::mark();
            let mut buffers = self.buffers.take();
            self.connection.lend(&mut buffers);
            self.buffers.give_rest(buffers);
            if let LinkPeer::Endpoint = self.peer {
                // A request may have asked for them, and the connection's task gives them back: its
                // client is not charged with them.
                memory::lend(before - memory::mark());
            }
        }
    }

    /// Has the connection's task take a turn, and send what was written.
    pub fn wake_driver(&mut self) {
        if !std::mem::replace(&mut self.is_driver_woken, true)
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }

    /// Whether a frame or a field section has begun that is not whole.
    pub fn is_within_frame(&self) -> bool {
        !self.inbox.is_empty() || self.connection.is_within_message()
    }

    /// Ends the connection for a reason of our own: GOAWAY tells the last stream that was looked at.
    pub fn abort(&mut self, code: u32) {
        self.connection.abort(code);
        self.end_streams(Some(code));
    }

    /// Ends all streams with the connection; `code` is that of our GOAWAY, if one could be written.
    pub fn end_streams(&mut self, code: Option<u32>) {
        if self.lost.is_some() {
            return;
        }
        self.lost = Some(Reset {
            code,
            fault: None,
            by_peer: false,
            unprocessed: false,
        });
        let keys: Vec<Key> = self.connection.keys().collect();
        for key in keys {
            if let Some(slot) = self.connection.get_mut(key) {
                // What an endpoint has sent before the end is still its response.
                if let LinkPeer::Client(_) = self.peer {
                    slot.drop_message();
                }
                slot.wake_for_loss();
            }
        }
    }

    /// Sends what is left, and ends our side of the connection.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        ready!(self.poll_send(cx))?;
        self.transport.poll_finish(cx)
    }

    /// Why a stream does not go on, if it does not.
    pub(super) fn loss(&mut self, key: Key) -> Option<Reset> {
        let is_closed = self.connection.get_mut(key).is_none();
        let ended = self.reset(key).or(self.lost);
        ended.or(is_closed.then_some(Reset::CANCELLED))
    }

    /// How a stream was reset, if it was.
    fn reset(&self, key: Key) -> Option<Reset> {
        let mut resets = self.resets.iter();
        let last = resets.rfind(|(reset, _)| *reset == key);
        last.map(|(_, reset)| *reset)
    }

    /// Why a stream takes no data, if it takes none: also where our message has ended.
    pub(super) fn write_loss(&mut self, key: Key) -> Option<Reset> {
        let is_ended = !self.connection.takes_data(key);
        self.loss(key).or(is_ended.then_some(Reset::CANCELLED))
    }

    /// Completes when a stream does not go on.
    pub(super) fn poll_loss(&mut self, key: Key, cx: &Context<'_>) -> Poll<()> {
        if self.loss(key).is_some() {
            return Poll::Ready(());
        }
        if let Some(slot) = self.connection.get_mut(key) {
            slot.wait(StreamWait::Loss, cx);
        }
        Poll::Pending
    }

    /// Closes a stream of which nothing more is wanted; where it has not ended in both directions, the
    /// peer is told by RST_STREAM.
    pub(super) fn close(&mut self, key: Key, code: u32) {
        let unsent = self.connection.unsent().len();
        self.resets.retain(|(reset, _)| *reset != key);
        let has_closed = self.forget(key, code).is_some();
        let has_written = self.connection.unsent().len() > unsent;
        if has_closed && (has_written || self.connection.is_drained()) {
            self.wake_driver();
        }
    }

    /// Frees the slot of a stream.
    fn forget(&mut self, key: Key, code: u32) -> Option<StreamSlot> {
        let slot = self.connection.close(key, code)?;
        self.release_more();
        self.order.forget(key, slot.waits_for(StreamWait::Turn));
        self.partial_message.end(key.stream());
        self.is_awaited_stale = true;
        Some(slot)
    }
}
