//! What streams send: heads, data in the order of priorities, ends; and the write of it all.

use std::task::{Context, Poll, ready};

use lockgate_http::fields::{Field, Fields};
use lockgate_http::h2::{self as layer, FieldBlock, Key};
use lockgate_net::stream::StreamError;

use super::super::send_order::WaitingStream;
use super::super::stream_slot::StreamWait;
use super::{Link, LinkPeer};

/// What a stream waits for before it may send data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum SendWait {
    /// Its turn: the peer is not to blame.
    Turn,
    /// The peer's window of the stream.
    StreamWindow,
    /// The peer's window of the connection.
    ConnectionWindow,
}

impl SendWait {
    /// Whether the peer is waited for.
    pub(in super::super) fn is_for_peer(self) -> bool {
        self != Self::Turn
    }
}

impl Link {
    /// Writes the head of an interim response (RFC 9110 §15.2).
    pub(in super::super) fn interim(&mut self, key: Key, fill: impl FnOnce(&mut FieldBlock<'_>)) {
        self.lend();
        self.connection.interim_with(key, fill);
        self.wake_driver();
    }

    /// Writes the head of a response; `ended` where no body follows.
    pub(in super::super) fn respond(
        &mut self,
        key: Key,
        ended: bool,
        fill: impl FnOnce(&mut FieldBlock<'_>),
    ) {
        self.lend();
        self.connection.respond_with(key, ended, fill);
        self.wake_driver();
    }

    /// Sets the priority of a stream's data.
    pub(in super::super) fn schedule(
        &mut self,
        key: Key,
        priority: lockgate_http::priority::Priority,
    ) {
        if let Some(slot) = self.connection.get_mut(key) {
            slot.priority = priority;
        }
    }

    /// Takes data of a stream, and returns how many bytes: as many as its turn and the peer's
    /// windows allow; `last` when none follows.
    ///
    /// # Errors
    /// What it must wait for, where nothing can be taken now.
    pub(in super::super) fn write(
        &mut self,
        key: Key,
        data: &[u8],
        last: bool,
    ) -> Result<usize, SendWait> {
        let room = self.order.room();
        if room == 0 && !data.is_empty() {
            return Err(SendWait::Turn);
        }
        self.lend();
        let piece = &data[..data.len().min(room)];
        let last = last && piece.len() == data.len();
        let mut taken = 0;
        loop {
            let count = self.connection.data(key, &piece[taken..], last);
            taken += count;
            if count == 0 || taken == piece.len() {
                break;
            }
        }
        // Also where nothing was taken: the buffers are lent.
        self.wake_driver();
        if taken == 0 && !data.is_empty() {
            return Err(self.blocker(key));
        }
        if let LinkPeer::Client(allowance) = &mut self.peer {
            allowance.tiny_frames.note_sent();
        }
        let send = self.order.send(taken);
        let writes = self.order.writes();
        if let Some(slot) = self.connection.get_mut(key) {
            (slot.last_send, slot.writes_before) = (send, writes);
        }
        Ok(taken)
    }

    /// What a stream must wait for before data is taken, if anything.
    pub(in super::super) fn send_wait(&mut self, key: Key) -> Option<SendWait> {
        if self.order.room() == 0 {
            return Some(SendWait::Turn);
        }
        if self.connection.stream_window(key) == 0 {
            self.connection.want_window(key);
            return Some(SendWait::StreamWindow);
        }
        (self.connection.data_room() == 0).then(|| self.blocker(key))
    }

    fn blocker(&self, key: Key) -> SendWait {
        if self.connection.stream_window(key) == 0 {
            SendWait::StreamWindow
        } else if self.connection.connection_window() == 0 {
            SendWait::ConnectionWindow
        } else {
            SendWait::Turn
        }
    }

    /// Has the task of `cx` woken when a stream may send again.
    pub(in super::super) fn wait_to_send(&mut self, key: Key, wait: SendWait, cx: &Context<'_>) {
        let Some(slot) = self.connection.get_mut(key) else {
            return;
        };
        slot.wait(StreamWait::Loss, cx);
        if wait == SendWait::StreamWindow {
            slot.wait(StreamWait::Window, cx);
            return;
        }
        let is_listed = slot.waits_for(StreamWait::Turn);
        slot.wait(StreamWait::Turn, cx);
        let stream = WaitingStream {
            key,
            for_window: wait == SendWait::ConnectionWindow,
        };
        if is_listed {
            self.order.wait_again(stream);
        } else {
            self.order.wait(stream);
        }
        // Where nothing waits to be sent no turn would come.
        if wait == SendWait::Turn {
            self.wake_driver();
        }
    }

    /// Ends the message on a stream, with the trailers that `passes` accepts.
    pub(in super::super) fn finish(
        &mut self,
        key: Key,
        trailers: Option<&Fields>,
        mut passes: impl FnMut(&Field<'_>) -> bool,
    ) {
        self.lend();
        let mut passed = Fields::default();
        for field in trailers.into_iter().flat_map(Fields::iter) {
            if passes(&field) && layer::response::passes(&field) {
                passed.append(field.name, field.value);
            }
        }
        if passed.is_empty() {
            self.connection.data(key, b"", true);
        } else {
            self.connection.trailers(key, &passed);
        }
        self.wake_driver();
    }

    /// Completes when all data that a stream has sent has left the connection.
    pub(in super::super) fn poll_all_sent(&mut self, key: Key, cx: &Context<'_>) -> Poll<()> {
        let writes = self.order.writes();
        if self.loss(key).is_some() {
            return Poll::Ready(());
        }
        let Some(slot) = self.connection.get_mut(key) else {
            return Poll::Ready(());
        };
        if slot.last_send == 0 || writes > slot.writes_before {
            return Poll::Ready(());
        }
        if !slot.waits_for(StreamWait::Leaving) {
            self.order.leave(key);
        }
        slot.wait(StreamWait::Leaving, cx);
        Poll::Pending
    }

    /// Sends all that was written; then the next streams have their turns.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        let sent = self.poll_unsent(cx);
        self.is_blocked = sent.is_pending();
        ready!(sent)?;
        if std::mem::take(&mut self.is_read_due) {
            cx.waker().wake_by_ref();
        }
        self.next_turn();
        Poll::Ready(Ok(()))
    }

    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        while !self.connection.unsent().is_empty() {
            let unsent = [self.connection.unsent()];
            let sent = ready!(self.transport.poll_write(cx, &self.blocks, &unsent))?;
            self.connection.note_sent(sent);
            self.moved.0 += sent as u64;
        }
        self.transport.poll_flush(cx)
    }

    /// Wakes the streams that wait, in their order: tasks run in the order of their wake-ups.
    fn next_turn(&mut self) {
        for key in self.order.note_write() {
            if let Some(slot) = self.connection.get_mut(key) {
                slot.wake(StreamWait::Leaving);
            }
        }
        let is_open = self.connection.connection_window() > 0;
        let Self {
            connection, order, ..
        } = self;
        let next = order.next_turn(is_open, |key| {
            let slot = connection.get_mut(key)?;
            Some((slot.priority, slot.last_send))
        });
        for (_, stream) in next {
            if let Some(slot) = connection.get_mut(stream.key) {
                slot.wake(StreamWait::Turn);
            }
        }
        if order.has_more(is_open) {
            // The next turn comes behind the woken streams, whether they write or not.
            self.wake_driver();
        }
    }
}
