//! Waiting for full reads of a bulk source, rather than for each of its records: each wake-up costs
//! more than the data of one record.
//!
//! Only after so much data that the source is not waiting for a response within milliseconds, and
//! for no longer than that.

use std::task::Context;

use crate::nanos::Nanos;
use crate::socket::{Socket, SocketFamily};
use crate::traffic_shaping::{QueuedWait, ShapingQueue};

/// The data after which a direction is bulk, if nothing moved the other way. A sender of ten
/// gigabits a second takes 6 ms for it.
const BULK: u64 = 8 * 1024 * 1024;

/// The waiting of one direction for its source.
#[derive(Debug, Default)]
pub(super) struct BulkReads {
    /// The bytes since the other way moved, and the bytes that had moved there by then.
    came: u64,
    answered: u64,
    wait: Option<Box<FullReadWait>>,
}

/// A wait for a source until it has sent much.
#[derive(Debug)]
struct FullReadWait {
    /// The number of bytes from which its socket is readable.
    mark: usize,
    /// The deadline for any data, and whether data has come.
    due: Option<QueuedWait>,
    moves: bool,
}

impl BulkReads {
    /// Notes a read of `len` bytes before a read of `size` bytes.
    pub(super) fn note(&mut self, socket: &Socket, len: usize, size: usize, answered: u64) {
        if socket.family() != SocketFamily::Tcp {
            return;
        }
        if std::mem::replace(&mut self.answered, answered) != answered {
            self.stop(socket);
        }
        self.came += len as u64;
        if self.came < BULK {
            return;
        }
        let wait = self.wait.get_or_insert_with(|| {
            Box::new(FullReadWait {
                mark: 1,
                due: None,
                moves: true,
            })
        });
        wait.moves = true;
        if wait.mark != size {
            wait.mark = size;
            socket.wait_for(size);
        }
    }

    /// Waits for the source, and stops waiting for a full read if nothing was read for a whole
    /// grain of the queue's time, four to eight milliseconds: then any data wakes us.
    pub(super) fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket,
        queue: &ShapingQueue,
    ) {
        let Some(wait) = &mut self.wait else { return };
        match wait.due {
            Some(wait) if !queue.is_due(wait) => queue.set_waker(wait, cx.waker()),
            Some(_) if !wait.moves => self.stop(socket),
            _ => {
                wait.moves = false;
                wait.due = Some(queue.wait_until(queue.now() + Nanos::new(1), cx.waker()));
            }
        }
    }

    fn stop(&mut self, socket: &Socket) {
        self.came = 0;
        if self.wait.take().is_some() {
            socket.wait_for(1);
        }
    }

    /// The number of bytes that it waits for, if more than one.
    #[cfg(test)]
    pub(super) fn mark(&self) -> Option<usize> {
        self.wait.as_ref().map(|wait| wait.mark)
    }
}
