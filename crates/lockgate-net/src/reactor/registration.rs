//! A descriptor and its readiness, by the thread's reactor or, where none runs, by tokio's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use rustix::event::epoll::EventFlags;
use tokio::io::unix::AsyncFd;

use super::sources::{DATA, ROOM, Readiness, Source};
use super::{Core, current};
use crate::syscall;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Reading. The open file may outlive this descriptor: another process may have the same
    /// listening socket.
    Read,
    /// Reading, writing and urgent data of a connection.
    Connection,
}

/// A descriptor that is watched until it is dropped, which closes it.
#[derive(Debug)]
pub(crate) struct Registration(Watched);

#[derive(Debug)]
enum Watched {
    Here {
        source: Rc<Source>,
        core: Rc<Core>,
        interest: Interest,
    },
    /// In threads other than workers.
    Tokio(AsyncFd<OwnedFd>),
}

impl Registration {
    /// Watches a non-blocking descriptor.
    ///
    /// # Errors
    /// When the kernel has no room for another watch.
    pub(crate) fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        let Some(core) = current() else {
            let interest = match interest {
                Interest::Read => tokio::io::Interest::READABLE,
                Interest::Connection => {
                    tokio::io::Interest::READABLE
                        | tokio::io::Interest::WRITABLE
                        | tokio::io::Interest::PRIORITY
                }
            };
            return Ok(Self(Watched::Tokio(syscall::watch(fd, interest)?)));
        };
        let read = EventFlags::IN | EventFlags::RDHUP;
        let flags = match interest {
            Interest::Read => read,
            Interest::Connection => read | EventFlags::OUT | EventFlags::PRI,
        };
        let source = core.sources.add(fd, flags)?;
        Ok(Self(Watched::Here {
            source,
            core,
            interest,
        }))
    }

    /// Completes when the descriptor can probably be read.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Watched::Here { source, core, .. } => {
                poll_ready(core, cx, |cx| source.is_readable_or_wakes(cx))
            }
            Watched::Tokio(fd) => {
                ready!(fd.poll_read_ready(cx))?.retain_ready();
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Completes when the descriptor can probably be written.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Watched::Here { source, core, .. } => {
                poll_ready(core, cx, |cx| source.is_writable_or_wakes(cx))
            }
            Watched::Tokio(fd) => {
                ready!(fd.poll_write_ready(cx))?.retain_ready();
                Poll::Ready(Ok(()))
            }
        }
    }

    /// What the descriptor is ready for by the last events.
    pub(crate) fn readiness(&self) -> Readiness {
        match &self.0 {
            Watched::Here { source, .. } => source.readiness(),
            Watched::Tokio(fd) => {
                let all = tokio::io::Interest::READABLE
                    | tokio::io::Interest::WRITABLE
                    | tokio::io::Interest::PRIORITY
                    | tokio::io::Interest::ERROR;
                match pin!(fd.ready(all)).poll(&mut noop_context()) {
                    Poll::Ready(Ok(guard)) => Readiness::from_tokio(guard.ready()),
                    _ => Readiness::default(),
                }
            }
        }
    }

    /// Forgets that it is readable: a call has found nothing, or has taken all that there was. No
    /// event can have come since the call, since events are collected in this thread.
    pub(crate) fn clear_readable(&self) {
        match &self.0 {
            Watched::Here { source, core, .. } => {
                source.clear_readable();
                core.sources.tell(source, DATA);
            }
            Watched::Tokio(fd) => {
                if let Poll::Ready(Ok(mut guard)) = fd.poll_read_ready(&mut noop_context()) {
                    guard.clear_ready();
                }
            }
        }
    }

    /// Forgets that it is writable.
    pub(crate) fn clear_writable(&self) {
        match &self.0 {
            Watched::Here { source, core, .. } => {
                source.clear_writable();
                core.sources.tell(source, ROOM);
            }
            Watched::Tokio(fd) => {
                if let Poll::Ready(Ok(mut guard)) = fd.poll_write_ready(&mut noop_context()) {
                    guard.clear_ready();
                }
            }
        }
    }
}

/// Asks for readiness, unless the task has had its share of this turn.
fn poll_ready(
    core: &Core,
    cx: &mut Context<'_>,
    is_ready_or_wakes: impl FnOnce(&Context<'_>) -> bool,
) -> Poll<io::Result<()>> {
    if is_ready_or_wakes(cx) && !core.is_spent(cx) {
        Poll::Ready(Ok(()))
    } else {
        Poll::Pending
    }
}

/// A context without a task to wake.
fn noop_context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Watched::Here {
            source,
            core,
            interest,
        } = &self.0
        {
            if *interest == Interest::Read {
                core.sources.unwatch(source);
            }
            core.sources.remove(source);
        }
    }
}

impl AsFd for Registration {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Watched::Here { source, .. } => source.as_fd(),
            Watched::Tokio(fd) => fd.as_fd(),
        }
    }
}
