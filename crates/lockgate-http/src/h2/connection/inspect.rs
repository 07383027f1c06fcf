//! What a user may ask a connection.

use super::super::frame_header::PREFACE;
use super::super::streams::MessageState;
use super::super::{ConnectionError, Key, LocalSettings, PeerSettings};
use super::{Connection, DrainState};

impl<S> Connection<S> {
    /// What we allow the peer now.
    pub fn local_settings(&self) -> &LocalSettings {
        &self.local
    }

    /// What the peer allows; `None` before its first SETTINGS.
    pub fn peer_settings(&self) -> Option<&PeerSettings> {
        self.has_settings.then_some(&self.peer)
    }

    /// Whether the peer has acknowledged all SETTINGS that we have sent.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The DATA frames so far that were empty and did not end their message: they cost no window, and
    /// no event tells of them.
    pub fn empty_frames(&self) -> u32 {
        self.empty_frames
    }

    /// The number of slots in use.
    pub fn active(&self) -> usize {
        self.streams.len()
    }

    /// The keys of all slots in use, in no order.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.streams.iter().map(|(key, _)| key)
    }

    /// The key of a stream with a slot, by its ID.
    pub fn key(&self, stream: u32) -> Option<Key> {
        self.streams.find(stream)
    }

    /// The size of the head and the trailers that a stream has received, as RFC 9113 §6.5.2 counts it:
    /// 32 bytes for each field beside its own. Each is at most
    /// [`head_list`](LocalSettings::head_list).
    pub fn head_size(&self, key: Key) -> usize {
        self.streams
            .get(key)
            .map_or(0, |stream| stream.head as usize)
    }

    /// The sum of these sizes over all slots. A user that keeps heads while their streams have slots
    /// bounds its memory by refusing requests beyond some sum: [`close`](Self::close) with
    /// `REFUSED_STREAM`, so that they may be sent again (§8.7).
    pub fn held_heads(&self) -> usize {
        self.held_heads
    }

    /// The bytes of data that the connection's window allows.
    pub fn connection_window(&self) -> usize {
        self.send_window.left()
    }

    /// The bytes of data that a stream's window allows; 0 without a slot.
    pub fn stream_window(&self, key: Key) -> usize {
        self.streams
            .get(key)
            .map_or(0, |stream| stream.send_window.left())
    }

    /// The bytes of data that come, at the least, before one of the messages with a known length ends
    /// or has used up its window; 0 if there is no such message.
    pub fn awaited_data(&self) -> usize {
        let streams = self.streams.iter();
        let of_streams = streams
            .map(|(_, stream)| stream.awaited_data())
            .filter(|bytes| *bytes > 0);
        of_streams
            .min()
            .unwrap_or(0)
            .min(self.receive_window.left())
    }

    /// Whether a stream has a head that was sent, and may send data behind it.
    pub fn takes_data(&self, key: Key) -> bool {
        let stream = self.streams.get(key);
        !self.is_over && stream.is_some_and(|stream| stream.sent == MessageState::Body)
    }

    /// Whether received bytes end within the preface or a DATA frame, or between the frames of a field
    /// section. A part of another frame is left over by [`receive`](Self::receive).
    pub fn is_within_message(&self) -> bool {
        let is_within_preface = (1..PREFACE.len()).contains(&self.preface);
        is_within_preface || self.data.is_some() || self.section.is_some()
    }

    /// Whether the connection is [drained](Self::drain).
    pub fn is_draining(&self) -> bool {
        self.drain != DrainState::None
    }

    /// Whether both steps of a drain are done and no slot is in use: when all is sent, the connection
    /// may be closed.
    pub fn is_drained(&self) -> bool {
        matches!(self.drain, DrainState::Last(_)) && self.streams.len() == 0
    }

    /// Whether our last GOAWAY was written, for a violation or by [`abort`](Self::abort).
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The violation that has ended the connection.
    pub fn error(&self) -> Option<ConnectionError> {
        self.error
    }
}
