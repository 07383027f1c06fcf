//! The body of an answer that is made of bytes in memory and of parts of files.

use std::collections::VecDeque;
use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use lockgate_http::coding::Coding;
use lockgate_net::files::{self, Errno, Wait};
use lockgate_net::threads::Threads;
use tokio::sync::oneshot;

use super::file::File;
use super::load::Content;
use crate::body::WriteError;
use crate::exchange::Downstream;

/// How much of a file is asked for at once.
const PIECE: u64 = 256 * 1024;
/// How much of it is read at once, where it must pass through us.
const COPIED: u64 = 128 * 1024;
/// Parts that move in one turn; then the worker's other connections have theirs.
const TURNS: usize = 16;
/// Milliseconds for which a file that was all in the kernel's memory is taken to be still there.
const RESIDENT: u64 = 1_000;

/// Why a body did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The client has gone.
    #[error(transparent)]
    Client(#[from] WriteError),
    /// The file was changed or cut while it was sent: nobody gets half of the one and half of the other.
    #[error("the file was changed while it was sent")]
    Changed,
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(Errno),
    /// Too many others wait for the disk.
    #[error("too much waits for the disk")]
    Busy,
}

/// A part of a body.
#[derive(Debug)]
pub(super) enum Part {
    Bytes(Bytes),
    File { file: Rc<File>, coding: Coding, offset: u64, len: u64 },
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

/// What is being read by a thread.
type Reading = oneshot::Receiver<Result<Bytes, Errno>>;

/// A body on its way.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    parts: VecDeque<Part>,
    /// What was read of the first part, where it must pass through us.
    piece: Bytes,
    reading: Option<Reading>,
}

impl Delivery {
    pub(super) fn new(parts: impl IntoIterator<Item = Part>) -> Self {
        let parts = parts.into_iter().filter(|part| part.len() > 0).collect();
        Self { parts, ..Self::default() }
    }

    /// Bytes that are left.
    pub(super) fn len(&self) -> u64 {
        self.piece.len() as u64 + self.parts.iter().map(Part::len).sum::<u64>()
    }

    /// Whether the disk is what is waited for.
    pub(super) fn reads(&self) -> bool {
        self.reading.is_some()
    }

    /// Moves it until all of it has left.
    pub(super) fn poll<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        threads: &Threads,
        now: u64,
    ) -> Poll<Result<(), Broken>> {
        for _ in 0..TURNS {
            if down.is_taken() {
                return down.poll_flush(cx).map_err(Broken::from);
            }
            if !self.piece.is_empty() {
                let taken = ready!(down.poll_share(cx, &self.piece, self.parts.is_empty()))?;
                self.piece.advance(taken);
                continue;
            }
            match self.parts.front_mut() {
                None => down.finish(None, |_| true),
                Some(Part::Bytes(bytes)) => {
                    self.piece = std::mem::take(bytes);
                    self.parts.pop_front();
                }
                Some(Part::File { .. }) => ready!(self.poll_file(cx, down, threads, now))?,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves a piece of the file that comes first, or reads one.
    fn poll_file<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        threads: &Threads,
        now: u64,
    ) -> Poll<Result<(), Broken>> {
        let last = self.parts.len() == 1;
        let Some(Part::File { file, coding, offset, len }) = self.parts.front_mut() else {
            return Poll::Ready(Ok(()));
        };
        let form = file.form(*coding);
        let wanted = (*len).min(PIECE);
        let moved = match &form.content {
            Content::Held(bytes) => {
                let [start, end] = [*offset, *offset + *len].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                self.piece = bytes.slice(start.min(bytes.len())..end.min(bytes.len()));
                self.piece.len() as u64
            }
            Content::Open(_) if self.reading.is_none() && !form.is_unchanged() => {
                return Poll::Ready(Err(Broken::Changed));
            }
            Content::Open(descriptor) => match &mut self.reading {
                Some(reading) => {
                    let read = ready!(Pin::new(reading).poll(cx)).map_err(|_| Broken::Busy)?;
                    self.reading = None;
                    self.piece = read.map_err(Broken::Unreadable)?;
                    if !form.is_unchanged() {
                        return Poll::Ready(Err(Broken::Changed));
                    }
                    self.piece.len() as u64
                }
                None if now < file.resident.get() || is_resident(descriptor, *offset, wanted) => {
                    let part = (descriptor.as_fd(), *offset, usize::try_from(wanted).unwrap_or(usize::MAX));
                    match ready!(down.poll_file(cx, part, last && wanted == *len))? {
                        Some(moved) => moved as u64,
                        None => match read(descriptor, *offset, wanted.min(COPIED), Wait::No) {
                            Ok(read) => {
                                self.piece = read;
                                self.piece.len() as u64
                            }
                            Err(error) if files::would_wait(error) => {
                                file.resident.set(0);
                                self.reading = Some(order(threads, descriptor, *offset, wanted)?);
                                return Poll::Ready(Ok(()));
                            }
                            Err(error) => return Poll::Ready(Err(Broken::Unreadable(error))),
                        },
                    }
                }
                None => {
                    self.reading = Some(order(threads, descriptor, *offset, wanted)?);
                    return Poll::Ready(Ok(()));
                }
            },
        };
        // It has become shorter.
        if moved == 0 {
            return Poll::Ready(Err(Broken::Changed));
        }
        (*offset, *len) = (*offset + moved, *len - moved);
        if *len == 0 {
            file.resident.set(now + RESIDENT);
            self.parts.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

/// Has a thread read a piece.
fn order(threads: &Threads, file: &Arc<OwnedFd>, offset: u64, wanted: u64) -> Result<Reading, Broken> {
    let (file, len) = (Arc::clone(file), wanted.min(COPIED));
    threads.submit(move || read(&file, offset, len, Wait::Yes)).map_err(|_| Broken::Busy)
}

/// Whether the kernel has a part of a file in memory, as far as its first and last bytes tell.
fn is_resident(file: &OwnedFd, offset: u64, len: u64) -> bool {
    let at = |offset| files::read_at(file, &mut [0], offset, Wait::No).is_ok();
    at(offset) && at(offset + len - 1)
}

fn read(file: &OwnedFd, offset: u64, len: u64, wait: Wait) -> Result<Bytes, Errno> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| Errno::FBIG)?];
    let read = files::read_at(file, &mut bytes, offset, wait)?;
    bytes.truncate(read);
    Ok(bytes.into())
}
