//! Pipes through which the kernel moves bytes from socket to socket without a copy to us.
//!
//! Pays on plain TCP in bulk only: a fifth of the CPU of copying proxies; see `docs/perf.md`. Does
//! not decide when to splice: that is the relay's.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::memory::{self, MemoryKind, MemoryLevel};

/// The least capacity of a pipe. A Linux pipe has 64 KB by default.
const LEAST: usize = 256 * 1024;

/// The largest capacity: the limit of an unprivileged user (`/proc/sys/fs/pipe-max-size`). It saves a
/// sixth of the CPU time of 256 KB (`docs/perf/2026-11.md`).
const MOST: usize = 1024 * 1024;

/// The number of lent pipes of a worker that have the largest capacity. More of them would soon use
/// up the 64 MB that all pipes of an unprivileged user may have (pipe(7), `pipe-user-pages-soft`).
const LARGE: usize = 4;

/// The most empty pipes that a worker keeps for the next transfer.
const KEPT: usize = 32;

/// The pipes of one worker: created on demand, reused, bounded.
#[derive(Debug)]
pub struct Pipes {
    idle: RefCell<Vec<PipeEnds>>,
    open: Cell<usize>,
    limit: Cell<usize>,
}

#[derive(Debug)]
struct PipeEnds {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
}

impl Pipes {
    /// Keeps at most `limit` pipes open at once, each worth two descriptors.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            idle: RefCell::default(),
            open: Cell::new(0),
            limit: Cell::new(limit),
        })
    }

    /// Keeps at most `limit` open from now on; lent ones beyond that are closed when they come
    /// back.
    pub fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
        let mut idle = self.idle.borrow_mut();
        while self.open.get() > limit && idle.pop().is_some() {
            self.open.set(self.open.get() - 1);
        }
    }

    /// A pipe for splices of `room` bytes, bounded by 256 KB and 1 MB, the first few of 1 MB, or
    /// `None` when there are too many or descriptors or memory have run out, that of a user's pipes
    /// among it: the transfer then continues by copying.
    pub fn take(self: &Rc<Self>, room: usize) -> Option<Pipe> {
        if memory::level() > MemoryLevel::Easy {
            return None;
        }
        let mut idle = self.idle.borrow_mut();
        let is_among_first = self.open.get() - idle.len() < LARGE;
        let room = room.clamp(if is_among_first { MOST } else { LEAST }, MOST);
        // The last used one that is large enough: the cache has its state.
        let fitting = idle.iter().rposition(|ends| ends.capacity >= room);
        let ends = match fitting
            .map(|index| idle.remove(index))
            .or_else(|| idle.pop())
        {
            Some(ends) => ends,
            None if self.open.get() >= self.limit.get() => return None,
            None => {
                let ends = PipeEnds::new().ok()?;
                self.open.set(self.open.get() + 1);
                ends
            }
        };
        let Ok(ends) = ends.grown(room) else {
            self.open.set(self.open.get() - 1);
            return None;
        };
        let room = room.min(ends.capacity);
        Some(Pipe {
            ends: Some(ends),
            room,
            holds: 0,
            pipes: Rc::clone(self),
        })
    }
}

impl PipeEnds {
    fn new() -> Result<Self, Errno> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self {
            read,
            write,
            capacity: 0,
        })
    }

    /// The same with `room` bytes, or 256 KB if there is no more. When the user's share of pipe
    /// memory is used up, a pipe has 8 KB: less than copying moves in a call.
    fn grown(mut self, room: usize) -> Result<Self, Errno> {
        if self.capacity < room {
            let resize = |room| rustix::pipe::fcntl_setpipe_size(&self.write, room);
            self.capacity = resize(room).or_else(|_| resize(LEAST))?;
        }
        Ok(self)
    }
}

/// One pipe of [`Pipes`]; given back when dropped empty, closed when dropped with bytes in it.
#[derive(Debug)]
pub struct Pipe {
    ends: Option<PipeEnds>,
    /// The most bytes of one fill.
    room: usize,
    holds: usize,
    pipes: Rc<Pipes>,
}

impl Pipe {
    /// The bytes in the pipe.
    pub fn holds(&self) -> usize {
        self.holds
    }

    /// The most bytes of one fill.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Moves bytes from the source into the pipe, at most `most`; 0 is the end of the source.
    ///
    /// # Errors
    /// EAGAIN when the source has no data now; EINVAL when it cannot be spliced.
    pub fn fill(&mut self, source: impl AsFd, most: usize) -> Result<usize, Errno> {
        let most = most.min(self.room);
        let moved = rustix::pipe::splice(source, None, &self.ends().write, None, most, flags())?;
        self.holds += moved;
        memory::charge(MemoryKind::Kernel, moved.cast_signed());
        Ok(moved)
    }

    /// Moves bytes from the pipe to the sink.
    ///
    /// # Errors
    /// EAGAIN when the sink is full, else those of send(2).
    pub fn drain(&mut self, sink: impl AsFd) -> Result<usize, Errno> {
        let moved = rustix::pipe::splice(&self.ends().read, None, sink, None, self.holds, flags())?;
        self.holds -= moved;
        memory::charge(MemoryKind::Kernel, -moved.cast_signed());
        Ok(moved)
    }

    fn ends(&self) -> &PipeEnds {
        self.ends.as_ref().expect("taken in drop only")
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        memory::charge(MemoryKind::Kernel, -self.holds.cast_signed());
        let mut idle = self.pipes.idle.borrow_mut();
        let is_within = self.pipes.open.get() <= self.pipes.limit.get();
        if self.holds == 0 && idle.len() < KEPT && is_within {
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
