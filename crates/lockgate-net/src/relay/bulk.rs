//! A source that sends in bulk is heard when it has filled a read, not for each of its records:
//! every time we are woken costs more than what came.
//!
//! Only after so much that nobody waits for an answer to the last of it within milliseconds, and
//! for no longer than that.

use std::task::Context;

use crate::shape::{Line, Place};
use crate::socket::{Family, Socket};

/// What must have come without a word the other way. A sender of ten gigabits a second takes 6 ms
/// for it.
const BULK: u64 = 8 * 1024 * 1024;

/// How one direction waits for its source.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// What has come since the other way moved, and what had moved there by then.
    came: u64,
    answered: u64,
    wait: Option<Box<Wait>>,
}

/// A source that is waited for until it has sent much.
#[derive(Debug)]
struct Wait {
    /// What its socket is not readable below.
    mark: usize,
    /// By when something must have come, and whether it has.
    due: Option<Place>,
    moves: bool,
}

impl Bulk {
    /// Notes a read of `len` bytes, of which the next would ask for `size`.
    pub(super) fn note(&mut self, socket: &Socket, len: usize, size: usize, answered: u64) {
        if socket.family() != Family::Tcp {
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
            Box::new(Wait {
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

    /// Waits for the source, and gives up waiting for much of it where for a whole grain of the
    /// line's time, four to eight milliseconds, nothing was read: then what is there wakes us
    /// at once.
    pub(super) fn poll_pending(&mut self, cx: &mut Context<'_>, socket: &Socket, line: &Line) {
        let Some(wait) = &mut self.wait else { return };
        match wait.due {
            Some(place) if !line.is_due(place) => line.stay(place, cx.waker()),
            Some(_) if !wait.moves => self.stop(socket),
            _ => {
                wait.moves = false;
                wait.due = Some(line.enter(line.now() + 1, cx.waker()));
            }
        }
    }

    fn stop(&mut self, socket: &Socket) {
        self.came = 0;
        if self.wait.take().is_some() {
            socket.wait_for(1);
        }
    }

    /// What it waits for, if that is more than anything at all.
    #[cfg(test)]
    pub(super) fn mark(&self) -> Option<usize> {
        self.wait.as_ref().map(|wait| wait.mark)
    }
}
