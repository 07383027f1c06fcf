//! What the user says: requests, responses, data, and ends.

use super::super::field_block::{self, FieldBlock};
use super::super::frame_header::{self, HEADER_LEN, MAX_PAYLOAD};
use super::super::frames::{DATA, END_STREAM, PING, WINDOW_UPDATE};
use super::super::settings::{self, INITIAL_WINDOW_SIZE};
use super::super::streams::{MessageState, Stream};
use super::super::windows::{MAX_WINDOW, ReceiveWindow, SendWindow};
use super::super::{Key, Role, code};
use super::control::DRAIN_PING;
use super::{Connection, DrainState};
use crate::fields::Fields;
use crate::head::Method;

/// Unsent bytes beyond which no data is taken: what one write takes.
const WRITE_BATCH: usize = 64 * 1024;
/// The highest ID of a stream (RFC 9113 §4.1).
const MAX_ID: u32 = u32::MAX >> 1;

impl<S> Connection<S> {
    /// Whether a client can ever begin another request: the server has not sent GOAWAY, nothing has
    /// failed, and IDs are left.
    pub fn takes_streams(&self) -> bool {
        self.role == Role::Client && !self.is_leaving && !self.is_over && self.next_id <= MAX_ID
    }

    /// Begins a request and writes its head: `fill` adds the fields. `None` where none can begin now,
    /// because the server allows no more streams that are not over, or [takes no streams](Self::takes_streams).
    pub fn open(
        &mut self,
        method: Method,
        user: S,
        ended: bool,
        fill: impl FnOnce(&mut FieldBlock<'_>),
    ) -> Option<Key> {
        if !self.takes_streams() || !self.has_room(self.peer.streams) {
            return None;
        }
        let id = self.next_id;
        self.next_id += 2;
        self.write_block(id, ended, fill);
        Some(self.streams.insert(Stream {
            id,
            received: MessageState::Head,
            sent: if ended {
                MessageState::Ended
            } else {
                MessageState::Body
            },
            is_reset: false,
            wants_window: false,
            method,
            send_window: SendWindow::new(self.peer.window),
            receive_window: ReceiveWindow::new(self.initial_receive_window()),
            unused: 0,
            kept: 0,
            head: 0,
            due: None,
            user: Some(user),
        }))
    }

    /// Writes an interim response (RFC 9110 §15.2): `fill` adds its [status](FieldBlock::status) first,
    /// and then its fields, without those of a connection. Nothing happens on a stream that was reset or
    /// has its response.
    pub fn interim_with(&mut self, key: Key, fill: impl FnOnce(&mut FieldBlock<'_>)) {
        if self.stream_to_send(key, MessageState::Head).is_some() {
            self.write_block(key.stream(), false, fill);
        }
    }

    /// Writes the head of a response: `fill` adds its [status](FieldBlock::status) first, and then its
    /// fields, without those of a connection; `ended` where no body follows. Nothing happens on a stream
    /// that was reset or has its response.
    pub fn respond_with(&mut self, key: Key, ended: bool, fill: impl FnOnce(&mut FieldBlock<'_>)) {
        if let Some(stream) = self.stream_to_send(key, MessageState::Head) {
            stream.sent = if ended {
                MessageState::Ended
            } else {
                MessageState::Body
            };
            self.write_block(key.stream(), ended, fill);
        }
    }

    /// Writes one frame of data, and returns how many bytes are in it: as many as the windows of
    /// stream and connection, a frame and one write allow; `last` where none follow. Where the
    /// stream's window is too small, an [`Event::WindowOpened`](super::super::Event::WindowOpened) tells when it is
    /// not; where [`data_room`](Self::data_room) is 0, none does.
    pub fn data(&mut self, key: Key, data: &[u8], last: bool) -> usize {
        let (room, of_connection) = (self.data_room(), self.send_window.left());
        let Some(stream) = self.stream_to_send(key, MessageState::Body) else {
            return 0;
        };
        let of_stream = stream.send_window.left();
        stream.wants_window = of_stream < data.len();
        let windows = of_stream.min(of_connection);
        let is_cut = windows < data.len().min(MAX_PAYLOAD);
        let length = data.len().min(windows).min(room).min(MAX_PAYLOAD);
        let ends = last && length == data.len();
        // The end of a message needs no window (§6.9.1).
        if length == 0 && !ends {
            return 0;
        }
        stream.send_window.take(length);
        if ends {
            stream.sent = MessageState::Ended;
        }
        let flags = if ends { END_STREAM } else { 0 };
        // The peer decides how often its windows cut our data: such a frame pays for no others.
        let header = if is_cut { 0 } else { HEADER_LEN };
        self.send_window.take(length);
        self.budget.note_sent(header + length);
        frame_header::begin(&mut self.out, length, DATA, flags, key.stream());
        self.out.extend_from_slice(&data[..length]);
        length
    }

    /// Writes trailers (RFC 9113 §8.1), which end a message: end-to-end fields only.
    pub fn trailers(&mut self, key: Key, fields: &Fields) {
        if let Some(stream) = self.stream_to_send(key, MessageState::Body) {
            stream.sent = MessageState::Ended;
            let role = self.role;
            self.write_block(key.stream(), true, |block| block.trailers(fields, role));
        }
    }

    fn write_block(&mut self, id: u32, ended: bool, fill: impl FnOnce(&mut FieldBlock<'_>)) {
        let before = self.out.len();
        let coder = (&mut self.encoder, &mut self.date);
        field_block::write(&mut self.out, coder, id, ended, fill);
        self.budget.note_sent(self.out.len() - before);
    }

    /// The bytes of data of all streams that may be written now: what the connection's window leaves,
    /// and what 64 KB to send do.
    pub fn data_room(&self) -> usize {
        let unsent = self.unsent().len();
        self.send_window
            .left()
            .min(WRITE_BATCH.saturating_sub(unsent))
    }

    /// Asks for an [`Event::WindowOpened`](super::super::Event::WindowOpened) when a stream's window, which is used up,
    /// is open again.
    pub fn want_window(&mut self, key: Key) {
        if let Some(stream) = self.stream_to_send(key, MessageState::Body) {
            stream.wants_window |= stream.send_window.left() == 0;
        }
    }

    /// Gives the windows back for data that was used: first for what is kept beside the connection's.
    pub fn used(&mut self, key: Key, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(key) {
            let used = stream.unused.min(u32::try_from(bytes).unwrap_or(u32::MAX));
            let of_kept = stream.kept.min(used);
            stream.unused -= used;
            stream.kept -= of_kept;
            self.kept -= of_kept as usize;
            self.give_stream(key, used);
            self.give(used - of_kept);
        }
    }

    /// Gives the connection's window back for data that the user keeps and has not used, so that a stream
    /// with such data does not stop others; its own window stays as it is. The memory for it is the
    /// user's to bound: see [`kept_bytes`](Self::kept_bytes).
    pub fn release_connection_window(&mut self, key: Key, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(key) {
            let more = stream.unused - stream.kept;
            let more = more.min(u32::try_from(bytes).unwrap_or(u32::MAX));
            stream.kept += more;
            self.kept += more as usize;
            self.give(more);
        }
    }

    /// The bytes of data of all slots that are kept beside the connection's
    /// [window](Self::release_connection_window): not [used](Self::used) since.
    pub fn kept_bytes(&self) -> usize {
        self.kept
    }

    /// Gives back the window of a stream.
    pub(super) fn give_stream(&mut self, key: Key, bytes: u32) {
        if !self.is_over
            && let Some(stream) = self.streams.get_mut(key)
            && stream.received != MessageState::Ended
            && let Some(told) = stream.receive_window.give(bytes, self.local.window)
        {
            frame_header::number(&mut self.out, WINDOW_UPDATE, key.stream(), told);
        }
    }

    /// Closes a stream, and frees its slot: returns the user's part of it. Where it has not ended in
    /// both directions, the peer is told by RST_STREAM with this code; `NO_ERROR` asks a client not to
    /// send the rest of its request (RFC 9113 §8.1). Data that was not used is given back to the
    /// connection's window.
    ///
    /// A code for a violation counts against the peer's [`Budget`](super::super::Budget).
    pub fn close(&mut self, key: Key, code: u32) -> Option<S> {
        let stream = self.streams.remove(key)?;
        self.held_heads -= stream.head as usize;
        self.kept -= stream.kept as usize;
        self.give(stream.unused - stream.kept);
        if !stream.is_over() && !self.is_over {
            self.write_reset(stream.id, code);
            let is_violation = matches!(
                code,
                code::PROTOCOL_ERROR
                    | code::FLOW_CONTROL_ERROR
                    | code::STREAM_CLOSED
                    | code::FRAME_SIZE_ERROR
            );
            if is_violation {
                self.penalize();
            } else if stream.received == MessageState::Body {
                self.budget.note_reset(stream.receive_window.left());
            }
        }
        stream.user
    }

    /// Counts a request that is malformed, and answered instead of reset, as a reset against the peer's
    /// [`Budget`](super::super::Budget). Where that is used up, the connection ends:
    /// [`error`](Self::error) tells.
    pub fn penalize(&mut self) {
        if !self.is_over
            && let Err(error) = self.budget.reset()
        {
            self.fail(error);
        }
    }

    /// Tells a client in two steps to send no more requests (RFC 9113 §6.8): first without a limit,
    /// and after a round trip with the last stream that it has opened. Later ones are ignored.
    pub fn drain(&mut self) {
        if self.drain == DrainState::None && !self.is_over {
            self.drain = DrainState::Announced;
            self.write_goaway(MAX_ID, code::NO_ERROR);
            self.write_ping(DRAIN_PING);
        }
    }

    /// Makes the windows for received data larger: of all streams, open and later ones, by
    /// SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.9.2), and of the connection, by WINDOW_UPDATE, which is
    /// the only way (§6.9.3). They hold at once, since the peer may use them as soon as it reads this.
    ///
    /// `false`, and nothing happens, where neither is larger than now, at most 2³¹ − 1, or the peer has
    /// not acknowledged earlier SETTINGS: it would be told again before it has used what it has.
    pub fn grow_windows(&mut self, stream: u32, connection: u32) -> bool {
        let stream = stream.clamp(self.local.window, MAX_WINDOW);
        let connection = connection.clamp(self.local.connection_window, MAX_WINDOW);
        let of_stream = stream - self.local.window;
        let of_connection = connection - self.local.connection_window;
        if self.is_over || !self.is_settled || (of_stream, of_connection) == (0, 0) {
            return false;
        }
        (self.local.window, self.local.connection_window) = (stream, connection);
        if of_stream > 0 {
            for (_, stream) in self.streams.iter_mut() {
                stream.receive_window.shift(of_stream.into());
            }
            self.write_settings(&[(INITIAL_WINDOW_SIZE, stream)]);
        }
        if of_connection > 0 {
            let told = self.receive_window.grow(of_connection);
            frame_header::number(&mut self.out, WINDOW_UPDATE, 0, told);
        }
        true
    }

    /// Sends SETTINGS that change nothing: when the peer [has acknowledged](Self::is_settled) them, it
    /// has read all that was sent before (RFC 9113 §6.5.3). Unlike PING, servers do not count a few of
    /// them as abuse. `false`, and nothing is sent, where it has not acknowledged earlier ones.
    pub fn probe_settings(&mut self) -> bool {
        let may_ask = self.is_settled && !self.is_over;
        if may_ask {
            self.write_settings(&[]);
        }
        may_ask
    }

    fn write_settings(&mut self, settings: &[(u16, u32)]) {
        settings::write(&mut self.out, settings);
        self.is_settled = false;
    }

    /// Sends a PING with this data (RFC 9113 §6.7); an
    /// [`Event::Pong`](super::super::Event::Pong) tells its acknowledgement. `false`, and nothing is
    /// sent, where an earlier one is not acknowledged.
    pub fn ping(&mut self, data: [u8; 8]) -> bool {
        let may_ask = self.ping.is_none() && !self.is_over;
        if may_ask {
            self.ping = Some(data);
            self.write_ping(data);
        }
        may_ask
    }

    fn write_ping(&mut self, data: [u8; 8]) {
        frame_header::begin(&mut self.out, data.len(), PING, 0, 0);
        self.out.extend_from_slice(&data);
    }

    /// Ends the connection for a reason of our own: writes GOAWAY with this code and the last stream
    /// that the user was told of (RFC 9113 §6.8), so that the peer may send later requests again.
    /// Nothing is written behind it, and what comes is dropped. Slots stay until they are closed.
    pub fn abort(&mut self, code: u32) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.write_goaway(self.accepted_id, code);
        }
    }

    /// A stream on which we are in this state.
    fn stream_to_send(&mut self, key: Key, state: MessageState) -> Option<&mut Stream<S>> {
        if self.is_over {
            return None;
        }
        let stream = self.streams.get_mut(key)?;
        Some(stream).filter(|stream| stream.sent == state)
    }
}
