//! What a link keeps of each stream: what came for it, and what its task waits for.

use std::task::{Context, Waker};

use lockgate_http::fields::Fields;
use lockgate_http::h2::SectionError;
use lockgate_http::priority::Priority;

use super::received_heads::ReceivedHeads;

/// Data of a frame from which on more of the same body comes soon.
const BULK: usize = 8 * 1024;
/// Room for data of such a body: what one read brings.
const BULK_ROOM: usize = 64 * 1024;

/// What the task of a stream waits for: one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamWait {
    /// Data, trailers or the end of the peer's message.
    Data = 1,
    /// The peer's window of the stream.
    Window = 2,
    /// Its turn, or the peer's window of the connection: it is listed in the order of sending.
    Turn = 4,
    /// Its data to leave.
    Leaving = 8,
    /// The end of the stream by the peer, or of the connection.
    Loss = 16,
}

/// The link's part of a stream.
#[derive(Debug)]
pub(super) struct StreamSlot {
    /// Received data that the stream's task has not fetched: one buffer, so that a peer's small
    /// frames cost no more than their data.
    received: Vec<u8>,
    /// The heads of an endpoint's response that were not fetched.
    pub(super) heads: ReceivedHeads,
    /// Whether the peer's message has ended.
    pub(super) has_ended: bool,
    /// Its trailers that are forwarded, or the reason why they are malformed.
    pub(super) trailers: Option<Box<Result<Fields, SectionError>>>,
    /// The priority of our message.
    pub(super) priority: Priority,
    /// The number of its last send, and writes of the connection before that.
    pub(super) last_send: u64,
    pub(super) writes_before: u64,
    waits: u8,
    waker: Option<Waker>,
}

impl StreamSlot {
    /// For a stream that has begun; `has_ended` where its head was the end.
    pub(super) fn new(has_ended: bool) -> Self {
        Self {
            received: Vec::new(),
            heads: ReceivedHeads::default(),
            has_ended,
            trailers: None,
            priority: Priority::default(),
            last_send: 0,
            writes_before: 0,
            waits: 0,
            waker: None,
        }
    }

    /// Adds received data; `is_last` where none follows.
    pub(super) fn receive(&mut self, data: &[u8], is_last: bool) {
        if self.received.capacity() == 0 && data.len() >= BULK && !is_last {
            // Grown step by step, the same bytes are copied several times.
            self.received.reserve_exact(BULK_ROOM);
        } else if self.received.capacity() - self.received.len() < data.len() {
            // By half, and not by as much again: it is waiting, and counts by its bytes.
            let more = data.len().max(self.received.len() / 2);
            self.received.reserve_exact(more);
        }
        self.received.extend_from_slice(data);
    }

    /// Whether data waits to be fetched.
    pub(super) fn has_data(&self) -> bool {
        !self.received.is_empty()
    }

    /// Fetches all received data.
    pub(super) fn take_data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Drops what no task will fetch any more.
    pub(super) fn drop_message(&mut self) {
        self.received = Vec::new();
        self.heads = ReceivedHeads::default();
    }

    /// Has the task of `cx` woken when this comes.
    pub(super) fn wait(&mut self, wait: StreamWait, cx: &Context<'_>) {
        self.waits |= wait as u8;
        if !self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            self.waker = Some(cx.waker().clone());
        }
    }

    /// Whether the task waits for this.
    pub(super) fn waits_for(&self, wait: StreamWait) -> bool {
        self.waits & wait as u8 != 0
    }

    /// Wakes the task if it waits for this.
    pub(super) fn wake(&mut self, wait: StreamWait) {
        if self.waits_for(wait) {
            self.waits &= !(wait as u8);
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Wakes the task in any wait: the stream is over.
    pub(super) fn wake_for_loss(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stream_is_woken_once_for_what_it_waits_for() {
        let count = Arc::new(Count::default());
        let waker = Arc::clone(&count).into();
        let cx = Context::from_waker(&waker);
        let woken = || count.0.load(Ordering::Relaxed);
        let mut slot = StreamSlot::new(false);
        slot.wait(StreamWait::Data, &cx);
        slot.wake(StreamWait::Window);
        assert_eq!(woken(), 0);
        slot.wake(StreamWait::Data);
        slot.wake(StreamWait::Data);
        assert_eq!(woken(), 1);
        slot.wait(StreamWait::Window, &cx);
        slot.wake_for_loss();
        slot.wake(StreamWait::Window);
        assert_eq!(woken(), 2);
    }

    #[test]
    fn small_frames_are_kept_in_one_buffer() {
        let mut slot = StreamSlot::new(false);
        for _ in 0..2_000 {
            slot.receive(b"23 bytes of a message\r\n", false);
        }
        assert_eq!(slot.received.len(), 46_000);
        assert!(slot.received.capacity() <= 2 * 46_000);
        assert_eq!(slot.take_data().len(), 46_000);
        assert!(!slot.has_data());
    }
}
