//! Pipes through which the kernel moves bytes from socket to socket without a copy to us.
//!
//! Pays on plain TCP in bulk only: a fifth of the CPU of the peers, which copy; see `docs/perf.md`.
//! Does not decide when to splice: that is the relay's.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::memory::{self, Kind, Level};

/// How much one pipe is asked to hold at the least. A Linux pipe has 64 KB by default; for data
/// that comes as it likes 256 KB measured as well as 1 MB.
const LEAST: usize = 256 * 1024;

/// And at the most: what an unprivileged user may have (`/proc/sys/fs/pipe-max-size`).
const MOST: usize = 1024 * 1024;

/// Empty pipes kept by a worker for the next transfer.
const KEPT: usize = 32;

/// The pipes of one worker: made when first needed, reused, bounded.
#[derive(Debug)]
pub struct Pipes {
    idle: RefCell<Vec<Ends>>,
    open: Cell<usize>,
    limit: usize,
}

#[derive(Debug)]
struct Ends {
    read: OwnedFd,
    write: OwnedFd,
    /// How much it was asked to hold.
    capacity: usize,
}

impl Pipes {
    /// Keeps at most `limit` pipes open at once, each worth two descriptors.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            idle: RefCell::default(),
            open: Cell::new(0),
            limit,
        })
    }

    /// A pipe to splice `room` bytes at a time through, which 256 KB and 1 MB bound, or `None` when
    /// there are too many or descriptors or memory have run out: the transfer then goes on by
    /// copying.
    pub fn take(self: &Rc<Self>, room: usize) -> Option<Pipe> {
        if memory::level() > Level::Easy {
            return None;
        }
        let room = room.clamp(LEAST, MOST);
        let mut ends = match self.idle.borrow_mut().pop() {
            Some(ends) => ends,
            None if self.open.get() >= self.limit => return None,
            None => {
                let (read, write) =
                    rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
                self.open.set(self.open.get() + 1);
                Ends {
                    read,
                    write,
                    capacity: 0,
                }
            }
        };
        if ends.capacity < room {
            // Where the user's share of pipe memory is used up the pipe stays small, which only
            // costs calls.
            let _ = rustix::pipe::fcntl_setpipe_size(&ends.write, room);
            ends.capacity = room;
        }
        Some(Pipe {
            ends: Some(ends),
            room,
            holds: 0,
            pipes: Rc::clone(self),
        })
    }
}

/// One pipe, lent by [`Pipes`]; given back when dropped empty, closed when dropped with bytes in
/// it.
#[derive(Debug)]
pub struct Pipe {
    ends: Option<Ends>,
    /// The most that one fill asks for.
    room: usize,
    holds: usize,
    pipes: Rc<Pipes>,
}

impl Pipe {
    /// Bytes that were taken from the source and not yet handed on.
    pub fn holds(&self) -> usize {
        self.holds
    }

    /// Moves what the source has into the pipe, at most `most` bytes; 0 is the end of the source.
    ///
    /// # Errors
    /// EAGAIN when the source has nothing now; EINVAL when it cannot be spliced.
    pub fn fill(&mut self, source: impl AsFd, most: usize) -> Result<usize, Errno> {
        let most = most.min(self.room);
        let moved = rustix::pipe::splice(source, None, &self.ends().write, None, most, flags())?;
        self.holds += moved;
        memory::charge(Kind::Kernel, moved.cast_signed());
        Ok(moved)
    }

    /// Moves what the pipe holds to the sink.
    ///
    /// # Errors
    /// EAGAIN when the sink takes nothing now, else what send(2) would say.
    pub fn drain(&mut self, sink: impl AsFd) -> Result<usize, Errno> {
        let moved = rustix::pipe::splice(&self.ends().read, None, sink, None, self.holds, flags())?;
        self.holds -= moved;
        memory::charge(Kind::Kernel, -moved.cast_signed());
        Ok(moved)
    }

    fn ends(&self) -> &Ends {
        self.ends.as_ref().expect("taken in drop only")
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        memory::charge(Kind::Kernel, -self.holds.cast_signed());
        let mut idle = self.pipes.idle.borrow_mut();
        if self.holds == 0 && idle.len() < KEPT {
            idle.extend(self.ends.take());
        } else {
            self.pipes.open.set(self.pipes.open.get() - 1);
        }
    }
}

fn flags() -> SpliceFlags {
    SpliceFlags::NONBLOCK | SpliceFlags::MOVE
}

/// Whether an error of [`Pipe::fill`] means that these sockets cannot be spliced at all.
pub fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

#[cfg(test)]
mod tests;
