//! A connection of HTTP/2 (RFC 9113) of either side, as a value: bytes in, events and bytes out.
//!
//! It contains no networking, no clock and no configuration. Received bytes go to
//! [`receive`](Connection::receive), which leaves events; requests, responses and data become bytes to
//! send, which [`unsent`](Connection::unsent) lends. Each stream has a slot with a value of the
//! user, which the user closes.
//!
//! # Memory
//! What is only needed within a turn is [lent](Connection::lend) by the user for it. A connection
//! holds at most, for any peer:
//! - a slot for each stream: at a server up to twice [`LocalSettings::streams`], at a client as many
//!   as the user opens. Data is lent, not held; what the user holds of it is at most the windows, and
//!   what it keeps [beside the connection's](Connection::release_connection_window);
//! - the front of a field section, of four times [`LocalSettings::head_list`], or of 16 KB more where
//!   that is more;
//! - the tables of HPACK, 17 KB in both directions, and two buffers for decoded strings, each of 1.6
//!   times that front at most;
//! - bytes to send: 256 KB, heads that the user adds, and three times what the user has read already
//!   when the connection [`is_full`](Connection::is_full): it reads nothing more while it is;
//! - one event, or as many as there are streams, and as many ranges of IDs, at least 128.

mod buffers;
mod control;
mod data;
mod inspect;
mod receive;
mod sections;
mod send;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::budget::PeerBudget;
use super::coded_date::CodedDate;
use super::frame_header::{self, PREFACE};
use super::frames::{GOAWAY, RST_STREAM, WINDOW_UPDATE};
use super::streams::{IdRanges, MessageState, Streams};
use super::windows::{DEFAULT_WINDOW, ReceiveWindow, SendWindow};
use super::{
    Budget, ConnectionError, Event, Key, LocalSettings, PeerSettings, Role, StreamFault,
    StreamReset,
};
use crate::hpack::{HpackDecoder, HpackEncoder, TABLE_SIZE};
pub use buffers::TurnBuffers;
use data::PartialData;
use sections::PartialSection;

/// Unsent bytes beyond which nothing more is received.
const MAX_UNSENT: usize = 256 * 1024;
/// The least number of ranges of streams that we have reset, and that of streams passed over.
const REMEMBERED: usize = 128;
const SKIPPED: usize = 16;

/// Our GOAWAY (RFC 9113 §6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainState {
    None,
    /// The peer has been told to stop; streams that it opens meanwhile are served. The next step is
    /// taken when it has acknowledged a PING.
    Announced,
    /// Streams above this ID are ignored: they were not processed.
    Last(u32),
}

/// An HTTP/2 connection; `S` is the user's part of each stream.
#[derive(Debug)]
pub struct Connection<S> {
    role: Role,
    local: LocalSettings,
    /// Whether the peer has acknowledged our first SETTINGS.
    has_acknowledged: bool,
    /// Whether it has acknowledged all.
    is_settled: bool,
    peer: PeerSettings,
    /// Whether the peer's first SETTINGS have come.
    has_settings: bool,
    /// Bytes of the client's preface that have come.
    preface: usize,
    /// Bytes to send, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    encoder: HpackEncoder,
    date: Option<Box<CodedDate>>,
    decoder: HpackDecoder,
    streams: Streams<S>,
    /// The sums of the heads of all slots, and of received data that the user keeps.
    held_heads: usize,
    kept: usize,
    /// Streams that we have reset lately: frames of these may still be on their way (§5.1, closed).
    reset_streams: IdRanges,
    /// Streams that the client has passed over lately.
    skipped_streams: IdRanges,
    /// The ID of our next stream.
    next_id: u32,
    /// The highest ID of a stream that the peer has opened, and of those that the user was told of.
    last_id: u32,
    accepted_id: u32,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// A field section without its last CONTINUATION.
    section: Option<PartialSection>,
    /// A DATA frame that has come in part.
    data: Option<PartialData>,
    events: VecDeque<Event>,
    budget: PeerBudget,
    /// Whether the peer has sent GOAWAY, and the last stream that the latest one names.
    is_leaving: bool,
    goaway_last: u32,
    /// The DATA frames that were empty and no end.
    empty_frames: u32,
    drain: DrainState,
    /// The data of the user's PING that is not acknowledged.
    ping: Option<[u8; 8]>,
    /// Whether our last GOAWAY was written: nothing more is, and what comes is of no use.
    is_over: bool,
    /// The peer's violation for which it is.
    error: Option<ConnectionError>,
}

impl<S> Connection<S> {
    /// A new connection, with its preface to send.
    pub fn new(role: Role, local: LocalSettings, budget: Budget) -> Self {
        let local = local.within_limits();
        let mut out = Vec::new();
        if role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        local.write(role, &mut out);
        let more = local.connection_window - DEFAULT_WINDOW;
        if more > 0 {
            frame_header::number(&mut out, WINDOW_UPDATE, 0, more);
        }
        Self {
            role,
            local,
            has_acknowledged: false,
            is_settled: false,
            peer: PeerSettings::default(),
            has_settings: false,
            preface: if role == Role::Client {
                PREFACE.len()
            } else {
                0
            },
            out,
            sent: 0,
            encoder: HpackEncoder::new(),
            date: None,
            decoder: HpackDecoder::new(TABLE_SIZE),
            streams: Streams::new(),
            held_heads: 0,
            kept: 0,
            reset_streams: IdRanges::new(REMEMBERED.max(local.streams as usize)),
            skipped_streams: IdRanges::new(SKIPPED),
            next_id: 1,
            last_id: 0,
            accepted_id: 0,
            send_window: SendWindow::new(DEFAULT_WINDOW),
            receive_window: ReceiveWindow::new(local.connection_window),
            section: None,
            data: None,
            events: VecDeque::new(),
            budget: PeerBudget::new(budget),
            is_leaving: false,
            goaway_last: u32::MAX,
            empty_frames: 0,
            drain: DrainState::None,
            ping: None,
            is_over: false,
            error: None,
        }
    }

    /// The next event of the latest call of [`receive`](Self::receive).
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Bytes to send.
    pub fn unsent(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// Drops bytes that were sent from the front of [`unsent`](Self::unsent).
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent = self.out.len().min(self.sent.saturating_add(bytes));
        // A peer that always leaves something to send must not make the buffer grow for ever: what
        // was sent is dropped when it is more than what is moved for it.
        if self.sent > self.out.len() - self.sent {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Whether so much waits to be sent that nothing more may be received: a peer that does not read
    /// our acknowledgements gets no more of them.
    pub fn is_full(&self) -> bool {
        self.unsent().len() > MAX_UNSENT
    }

    /// Gives a stream that the peer has opened the user's part.
    pub fn attach(&mut self, key: Key, user: S) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.user = Some(user);
        }
    }

    /// The user's part of a stream; `None` when it is closed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.streams.get_mut(key)?.user.as_mut()
    }

    /// Adds to what the peer may cost, up to the budget of the beginning: for the time that has
    /// passed.
    pub fn refill(&mut self, by: Budget) {
        self.budget.refill(by);
    }

    /// Ends the connection after a violation: tells the peer, and refuses all that it sends.
    fn fail(&mut self, error: ConnectionError) {
        self.error = Some(error);
        self.abort(error.code());
    }

    /// Resets a stream for a violation.
    fn fault(&mut self, key: Key, fault: StreamFault) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(key).filter(|stream| !stream.is_reset) else {
            return Ok(());
        };
        let was_over = stream.is_over();
        (stream.received, stream.sent) = (MessageState::Ended, MessageState::Ended);
        stream.is_reset = true;
        let reset = StreamReset {
            code: fault.code(),
            fault: Some(fault),
            unprocessed: false,
        };
        self.events.push_back(Event::Reset { key, reset });
        if was_over {
            self.reset_streams.insert(key.stream(), key.stream());
            return Ok(());
        }
        self.write_reset(key.stream(), fault.code());
        self.budget.reset()
    }

    /// Sends RST_STREAM, and remembers the stream.
    fn write_reset(&mut self, id: u32, code: u32) {
        frame_header::number(&mut self.out, RST_STREAM, id, code);
        self.reset_streams.insert(id, id);
    }

    /// Gives back the connection's window for used data.
    fn give(&mut self, bytes: u32) {
        // Behind the last GOAWAY nothing is said any more.
        if !self.is_over
            && let Some(told) = self
                .receive_window
                .give_shared(bytes, self.local.connection_window)
        {
            frame_header::number(&mut self.out, WINDOW_UPDATE, 0, told);
        }
    }

    fn write_goaway(&mut self, last: u32, code: u32) {
        frame_header::begin(&mut self.out, 8, GOAWAY, 0, 0);
        self.out.extend_from_slice(&last.to_be_bytes());
        self.out.extend_from_slice(&code.to_be_bytes());
    }

    /// Whether the peer has not used this ID, nor we: frames of idle streams are violations (§5.1).
    fn is_idle(&self, id: u32) -> bool {
        match (self.role, id % 2) {
            (Role::Client, 1) => id >= self.next_id,
            (Role::Server, 1) => id > self.last_id,
            // No side pushes.
            _ => true,
        }
    }

    /// Whether frames of a stream without a slot are no offence: they may have been on their way when
    /// we reset it, or come after the last step of a drain. A server's may always be late: it answers
    /// what we had asked for.
    fn is_late(&self, id: u32) -> bool {
        self.role == Role::Client
            || matches!(self.drain, DrainState::Last(last) if id > last)
            || self.reset_streams.contains(id)
    }

    /// Whether one more stream keeps to a limit of streams. Streams that are over do not count (§5.1.2),
    /// unless the user leaves so many of their slots.
    fn has_room(&self, limit: u32) -> bool {
        let (slots, limit) = (self.streams.len(), limit as usize);
        slots < limit || slots / 2 < limit && self.streams.open() < limit
    }

    /// The window of a stream that begins now. Before the peer knows a smaller one, that of the
    /// protocol holds (§6.5.3).
    fn initial_receive_window(&self) -> u32 {
        if self.has_acknowledged {
            self.local.window
        } else {
            self.local.window.max(DEFAULT_WINDOW)
        }
    }
}
