//! Pipes through which the kernel moves bytes from socket to socket without a copy to us.
//!
//! Pays on plain TCP in bulk only: a fifth of the CPU of the peers, which copy; see `docs/perf.md`.
//! Does not decide when to splice: that is the relay's.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

/// How much one pipe is asked to hold. A Linux pipe has 64 KB by default, and an unprivileged user may
/// have pipes of up to 1 MB (`/proc/sys/fs/pipe-max-size`); 256 KB measured as well as 1 MB.
const CAPACITY: usize = 256 * 1024;

/// Empty pipes kept by a worker for the next transfer.
const KEPT: usize = 32;

/// The pipes of one worker: made when first needed, reused, bounded.
#[derive(Debug)]
pub struct Pipes {
    idle: RefCell<Vec<(OwnedFd, OwnedFd)>>,
    open: Cell<usize>,
    limit: usize,
}

impl Pipes {
    /// Keeps at most `limit` pipes open at once, each worth two descriptors.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self { idle: RefCell::default(), open: Cell::new(0), limit })
    }

    /// A pipe to splice through, or `None` when there are too many or descriptors have run out:
    /// the transfer then goes on by copying.
    pub fn take(self: &Rc<Self>) -> Option<Pipe> {
        let ends = match self.idle.borrow_mut().pop() {
            Some(ends) => ends,
            None if self.open.get() >= self.limit => return None,
            None => {
                let ends = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
                // Where the user's share of pipe memory is used up the pipe stays small, which only costs calls.
                let _ = rustix::pipe::fcntl_setpipe_size(&ends.1, CAPACITY);
                self.open.set(self.open.get() + 1);
                ends
            }
        };
        Some(Pipe { ends: Some(ends), holds: 0, pipes: Rc::clone(self) })
    }
}

/// One pipe, lent by [`Pipes`]; given back when dropped empty, closed when dropped with bytes in it.
#[derive(Debug)]
pub struct Pipe {
    ends: Option<(OwnedFd, OwnedFd)>,
    holds: usize,
    pipes: Rc<Pipes>,
}

impl Pipe {
    /// How many bytes a fill asks for.
    pub const FILL: usize = CAPACITY;

    /// Bytes that were taken from the source and not yet handed on.
    pub fn holds(&self) -> usize {
        self.holds
    }

    /// Moves what the source has into the pipe, at most `most` bytes; 0 is the end of the source.
    ///
    /// # Errors
    /// EAGAIN when the source has nothing now; EINVAL when it cannot be spliced.
    pub fn fill(&mut self, source: impl AsFd, most: usize) -> Result<usize, Errno> {
        let (_, write) = self.ends();
        let moved = rustix::pipe::splice(source, None, write, None, most.min(Self::FILL), flags())?;
        self.holds += moved;
        Ok(moved)
    }

    /// Moves what the pipe holds to the sink.
    ///
    /// # Errors
    /// EAGAIN when the sink takes nothing now, else what send(2) would say.
    pub fn drain(&mut self, sink: impl AsFd) -> Result<usize, Errno> {
        let (read, _) = self.ends();
        let moved = rustix::pipe::splice(read, None, sink, None, self.holds, flags())?;
        self.holds -= moved;
        Ok(moved)
    }

    fn ends(&self) -> (&OwnedFd, &OwnedFd) {
        let (read, write) = self.ends.as_ref().expect("taken in drop only");
        (read, write)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
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
