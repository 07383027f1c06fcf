//! Waiting for much data of a fast sender, rather than for each of its packets: a wake-up costs more
//! than the data of one TLS record.
//!
//! For no longer than some milliseconds, after which any data wakes the reader. When that is worth it,
//! and for how much, is for the reader to say.

use std::task::Context;

use crate::nanos::Nanos;
use crate::socket::{Socket, SocketFamily};
use crate::traffic_shaping::{QueuedWait, ShapingQueue};

/// The time within which the bytes of a burst come.
const BURST: Nanos = Nanos::from_millis(4);

/// How fast the data of a source comes. A reader that keeps up with its source is woken for each
/// packet, and finds little each time, however fast the source is.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    /// The bytes that were read since `began`.
    bytes: usize,
    began: Nanos,
    /// Whether the next bytes have come over a longer time.
    late: bool,
}

impl Burst {
    /// Notes what a reader has read before it waits; returns the bytes of the burst.
    pub(crate) fn note(&mut self, bytes: usize, now: Nanos) -> usize {
        if now - self.began > BURST {
            self.bytes = 0;
            self.began = now;
        }
        if bytes > 0 && std::mem::take(&mut self.late) {
            return self.bytes;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes
    }

    /// Begins anew after a wait that has ended without a full read: what has come meanwhile was no
    /// burst.
    pub(crate) fn end(&mut self) {
        self.bytes = 0;
        self.late = true;
    }
}

/// The wait of one reader for its source.
#[derive(Debug, Default)]
pub(crate) struct FullReads(Option<Box<FullReadWait>>);

#[derive(Debug)]
struct FullReadWait {
    /// The number of bytes from which the socket is readable.
    mark: usize,
    /// The deadline for any data, and whether any was read since it was set.
    due: Option<QueuedWait>,
    has_read: bool,
}

impl FullReads {
    /// Makes the socket readable from `mark` bytes on, after it was read.
    pub(crate) fn wait_for(&mut self, socket: &Socket, mark: usize) {
        // Other sockets know no such mark.
        if socket.family() != SocketFamily::Tcp {
            return;
        }
        let wait = self.0.get_or_insert_with(|| {
            Box::new(FullReadWait {
                mark: 1,
                due: None,
                has_read: true,
            })
        });
        wait.has_read = true;
        if wait.mark != mark {
            wait.mark = mark;
            socket.wait_for(mark);
        }
    }

    /// Waits for the source, and stops waiting for full reads if nothing was read for a whole grain
    /// of the queue's time, four to eight milliseconds; whether it stopped.
    pub(crate) fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket,
        queue: &ShapingQueue,
    ) -> bool {
        let Some(wait) = &mut self.0 else {
            return false;
        };
        match wait.due {
            Some(due) if !queue.is_due(due) => queue.set_waker(due, cx.waker()),
            Some(_) if !wait.has_read => {
                self.stop(socket);
                return true;
            }
            due => {
                // The first grain has begun before it.
                wait.has_read = due.is_none();
                wait.due = Some(queue.wait_until(queue.now() + Nanos::new(1), cx.waker()));
            }
        }
        false
    }

    /// Makes the socket readable from one byte on again.
    pub(crate) fn stop(&mut self, socket: &Socket) {
        if self.0.take().is_some() {
            socket.wait_for(1);
        }
    }

    /// The number of bytes that the reader waits for, if more than one.
    pub(crate) fn mark(&self) -> Option<usize> {
        self.0.as_ref().map(|wait| wait.mark)
    }
}
