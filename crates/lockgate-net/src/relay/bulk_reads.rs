//! Full reads of a source that sends in bulk: only after so much data that it is not waiting for a
//! response within milliseconds.

use std::task::Context;

use crate::full_reads::FullReads;
use crate::memory::{self, MemoryLevel};
use crate::socket::Socket;
use crate::traffic_shaping::ShapingQueue;

/// The data after which a direction is bulk, if nothing moved the other way. A sender of ten
/// gigabits a second takes 6 ms for it.
const BULK: u64 = 8 * 1024 * 1024;

/// The waiting of one direction for its source.
#[derive(Debug, Default)]
pub(super) struct BulkReads {
    /// The bytes since the other way moved, and the bytes that had moved there by then.
    came: u64,
    answered: u64,
    full: FullReads,
}

impl BulkReads {
    /// Notes a read of `len` bytes before a read of `size` bytes.
    pub(super) fn note(&mut self, socket: &Socket, len: usize, size: usize, answered: u64) {
        if std::mem::replace(&mut self.answered, answered) != answered {
            self.stop(socket);
        }
        // The kernel makes room for as much as is awaited.
        if memory::level() > MemoryLevel::Easy {
            self.stop(socket);
        }
        self.came += len as u64;
        if self.came >= BULK {
            self.full.wait_for(socket, size);
        }
    }

    /// Waits for the source. After a pause any data wakes it, until it is bulk again.
    pub(super) fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket,
        queue: &ShapingQueue,
    ) {
        if self.full.poll_pending(cx, socket, queue) {
            self.came = 0;
        }
    }

    /// Waits for any data.
    pub(super) fn stop(&mut self, socket: &Socket) {
        self.came = 0;
        self.full.stop(socket);
    }

    /// The number of bytes that it waits for, if more than one.
    #[cfg(test)]
    pub(super) fn mark(&self) -> Option<usize> {
        self.full.mark()
    }
}
