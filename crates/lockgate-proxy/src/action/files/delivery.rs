//! The body of a response that is made of bytes in memory and of parts of files.

use std::collections::VecDeque;
use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use lockgate_content::coding::ContentEncoder;
use lockgate_http::coding::ContentCoding;
use lockgate_http_io::body::WriteError;
use lockgate_http_io::message::ClientExchange;
use lockgate_net::files::{self as disk, DiskWait, Errno};
use lockgate_net::memory::{self, MemoryLevel};
use lockgate_net::millis::Millis;
use lockgate_net::thread_pool::ThreadPool;
use lockgate_net::traffic_shaping::Shaper;
use tokio::sync::oneshot;

use crate::files::Files;
use crate::files::file::ServedFile;
use crate::files::representation::FileContent;

/// Bytes of a file that one sendfile call asks for: every call ends with a segment that may be
/// short.
const PIECE: u64 = 1024 * 1024;
/// Bytes of a file that one read asks for, where they are copied through us: at first, and once the
/// client has shown that it takes them.
const FIRST: u64 = 16 * 1024;
const COPIED: u64 = 128 * 1024;
/// Parts that move in one turn; then the worker's other connections have theirs.
const TURNS: usize = 16;
/// The time for which a file that was all in the kernel's memory is taken to be still there.
const RESIDENT: Millis = Millis::from_secs(1);

/// Why a body was not sent to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryError {
    /// The client has gone.
    #[error(transparent)]
    Client(#[from] WriteError),
    /// The file was changed or cut while it was sent: no client gets half of one version and half
    /// of the other.
    #[error("the file was changed while it was sent")]
    Changed,
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(Errno),
    /// Too many others wait for the disk.
    #[error("too many reads wait for the disk")]
    Busy,
}

/// A part of a body.
pub(super) enum DeliveryPart {
    Bytes(Bytes),
    File {
        file: Rc<ServedFile>,
        coding: ContentCoding,
        offset: u64,
        len: u64,
    },
    /// All of a file, compressed as it is read; the encoder is away while a thread has it.
    Encoded {
        file: Rc<ServedFile>,
        encoder: Option<Box<ContentEncoder>>,
        offset: u64,
        len: u64,
    },
}

impl DeliveryPart {
    /// Its length in bytes; `None` where it is not known yet.
    fn len(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File { len, .. } => Some(*len),
            Self::Encoded { .. } => None,
        }
    }
}

/// The result of a read on a thread, compressed where there is an encoder.
type PendingRead = oneshot::Receiver<Result<ReadPiece, Errno>>;

#[derive(Default)]
struct ReadPiece {
    bytes: Bytes,
    /// Bytes of the file that were read.
    taken: u64,
    encoder: Option<Box<ContentEncoder>>,
}

/// A body on its way.
#[derive(Default)]
pub(super) struct Delivery {
    parts: VecDeque<DeliveryPart>,
    /// Bytes that were read of the first part, where they are copied through us.
    piece: Bytes,
    reading: Option<PendingRead>,
    /// Whether something of a file has been sent: the rest must be of the same.
    begun: bool,
    /// Bytes of a file that one read asks for.
    step: u64,
}

impl Delivery {
    pub(super) fn new(parts: impl IntoIterator<Item = DeliveryPart>) -> Self {
        let parts = parts
            .into_iter()
            .filter(|part| part.len() != Some(0))
            .collect();
        Self {
            parts,
            step: FIRST,
            ..Self::default()
        }
    }

    /// Bytes that are left; `None` where their number is not known yet.
    pub(super) fn len(&self) -> Option<u64> {
        let parts: Option<u64> = self.parts.iter().map(DeliveryPart::len).sum();
        parts.map(|parts| parts + self.piece.len() as u64)
    }

    /// Whether the disk is what is waited for.
    pub(super) fn reads(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether something can move now, as far as is known: not while the disk is waited for.
    fn is_ready(&self) -> bool {
        !self.piece.is_empty() || (!self.parts.is_empty() && self.reading.is_none())
    }

    /// Moves it, as far as `shaper` lets it go, until all of it has left.
    pub(super) fn poll<D: ClientExchange>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        files: &Files,
        now: Millis,
        mut shaper: Option<&mut Shaper>,
    ) -> Poll<Result<(), DeliveryError>> {
        for _ in 0..TURNS {
            if down.is_finished() {
                return down.poll_flush(cx).map_err(DeliveryError::from);
            }
            let mut allowed = usize::MAX;
            if let Some(shaper) = shaper.as_deref_mut()
                && self.is_ready()
            {
                let Poll::Ready(granted) = shaper.poll(cx) else {
                    // What was gathered does not wait for it.
                    ready!(down.poll_flush(cx))?;
                    return Poll::Pending;
                };
                allowed = granted;
            }
            let before = down.bytes_written();
            if !self.piece.is_empty() {
                let last = self.parts.is_empty();
                let taken = if self.piece.len() <= allowed {
                    ready!(down.poll_write(cx, &self.piece, last))?
                } else {
                    ready!(down.poll_write(cx, &self.piece[..allowed], false))?
                };
                self.piece.advance(taken);
                spend(shaper.as_deref_mut(), taken);
                continue;
            }
            match self.parts.front_mut() {
                None => down.finish(None, |_| true),
                Some(DeliveryPart::Bytes(bytes)) => {
                    self.piece = std::mem::take(bytes);
                    self.parts.pop_front();
                }
                Some(DeliveryPart::File { .. }) => {
                    let polled = self.poll_file(cx, down, files, now, allowed);
                    spend(
                        shaper.as_deref_mut(),
                        (down.bytes_written() - before) as usize,
                    );
                    ready!(self.poll_pushed(cx, down, polled))?;
                }
                Some(DeliveryPart::Encoded { .. }) => {
                    let polled = self.poll_encoded(cx, down, files);
                    ready!(self.poll_pushed(cx, down, polled))?;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// What was sent does not wait for the disk.
    fn poll_pushed<D: ClientExchange>(
        &self,
        cx: &mut Context<'_>,
        down: &mut D,
        polled: Poll<Result<(), DeliveryError>>,
    ) -> Poll<Result<(), DeliveryError>> {
        if polled.is_pending() && self.reads() {
            ready!(down.poll_flush(cx))?;
        }
        polled
    }

    /// Moves a piece of the file that comes first, or reads one.
    fn poll_file<D: ClientExchange>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        files: &Files,
        now: Millis,
        allowed: usize,
    ) -> Poll<Result<(), DeliveryError>> {
        let (last, begun) = (self.parts.len() == 1, self.begun);
        let Some(DeliveryPart::File {
            file,
            coding,
            offset,
            len,
        }) = self.parts.front_mut()
        else {
            return Poll::Ready(Ok(()));
        };
        let form = file.form(*coding);
        let wanted = (*len).min(PIECE);
        let moved = match &form.content {
            FileContent::Held(bytes) => {
                let [start, end] =
                    [*offset, *offset + *len].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                self.piece = bytes.slice(start.min(bytes.len())..end.min(bytes.len()));
                self.piece.len() as u64
            }
            // Before it was begun it was looked at where it was found.
            FileContent::Open(_) if begun && self.reading.is_none() && !form.is_unchanged() => {
                return Poll::Ready(Err(DeliveryError::Changed));
            }
            FileContent::Open(descriptor) => match &mut self.reading {
                Some(reading) => {
                    let read =
                        ready!(Pin::new(reading).poll(cx)).map_err(|_| DeliveryError::Busy)?;
                    self.reading = None;
                    self.piece = read.map_err(DeliveryError::Unreadable)?.bytes;
                    if !form.is_unchanged() {
                        return Poll::Ready(Err(DeliveryError::Changed));
                    }
                    self.piece.len() as u64
                }
                // Bytes that the client does not take are not read: they can be read again as long
                // as the file is there.
                None if !down.supports_sendfile() && down.poll_room(cx)?.is_pending() => {
                    return Poll::Pending;
                }
                None if now < file.resident.get() || is_resident(descriptor, *offset, wanted) => {
                    let here = usize::try_from(wanted).unwrap_or(usize::MAX).min(allowed);
                    let part = (descriptor.as_fd(), *offset, here);
                    match ready!(down.poll_send_file(cx, part, last && here as u64 == *len))? {
                        Some(moved) => moved as u64,
                        None => match read(
                            descriptor,
                            *offset,
                            wanted.min(at_once(self.step)),
                            DiskWait::No,
                        ) {
                            // It may have been written over since it was looked at.
                            Ok(_) if !form.is_unchanged() => {
                                return Poll::Ready(Err(DeliveryError::Changed));
                            }
                            Ok(read) => {
                                self.step = (self.step * 2).min(COPIED);
                                self.piece = read;
                                self.piece.len() as u64
                            }
                            Err(error) if disk::would_wait(error) => {
                                file.resident.set(Millis::ZERO);
                                self.reading =
                                    Some(order(&files.threads, descriptor, *offset, wanted)?);
                                return Poll::Ready(Ok(()));
                            }
                            Err(error) => {
                                return Poll::Ready(Err(DeliveryError::Unreadable(error)));
                            }
                        },
                    }
                }
                None => {
                    self.reading = Some(order(&files.threads, descriptor, *offset, wanted)?);
                    return Poll::Ready(Ok(()));
                }
            },
        };
        // It has become shorter.
        if moved == 0 {
            return Poll::Ready(Err(DeliveryError::Changed));
        }
        (*offset, *len) = (*offset + moved, *len - moved);
        self.begun = true;
        if *len == 0 {
            file.resident.set(now + RESIDENT);
            self.parts.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    /// Has a thread read and compress a piece, and takes it.
    fn poll_encoded<D: ClientExchange>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        files: &Files,
    ) -> Poll<Result<(), DeliveryError>> {
        let Some(DeliveryPart::Encoded {
            file,
            encoder,
            offset,
            len,
        }) = self.parts.front_mut()
        else {
            return Poll::Ready(Ok(()));
        };
        let own = &file.loaded.own;
        if let Some(reading) = &mut self.reading {
            let read = ready!(Pin::new(reading).poll(cx)).map_err(|_| DeliveryError::Busy)?;
            self.reading = None;
            let read = read.map_err(DeliveryError::Unreadable)?;
            if read.taken == 0 || !own.is_unchanged() {
                return Poll::Ready(Err(DeliveryError::Changed));
            }
            (*offset, *len) = (*offset + read.taken, *len - read.taken);
            (self.piece, *encoder) = (read.bytes, read.encoder);
            if *len == 0 {
                self.parts.pop_front();
            }
            return Poll::Ready(Ok(()));
        }
        ready!(down.poll_room(cx))?;
        let (FileContent::Open(descriptor), Some(mut encoder)) = (&own.content, encoder.take())
        else {
            return Poll::Ready(Err(DeliveryError::Busy));
        };
        let (descriptor, offset, wanted, last) = (
            Arc::clone(descriptor),
            *offset,
            (*len).min(COPIED),
            *len <= COPIED,
        );
        let job = move || {
            let bytes = read(&descriptor, offset, wanted, DiskWait::Yes)?;
            let mut encoded = Vec::new();
            encoder.write(&bytes, &mut encoded);
            if last {
                encoder.finish(&mut encoded);
            }
            Ok(ReadPiece {
                bytes: encoded.into(),
                taken: bytes.len() as u64,
                encoder: Some(encoder),
            })
        };
        self.reading = Some(
            files
                .compressors
                .submit_continuation(job)
                .map_err(|_| DeliveryError::Busy)?,
        );
        Poll::Ready(Ok(()))
    }
}

/// Bytes that one read asks for, usually `step`: what a client does not take is held in memory.
fn at_once(step: u64) -> u64 {
    if memory::level() == MemoryLevel::Easy {
        step
    } else {
        FIRST
    }
}

fn spend(shaper: Option<&mut Shaper>, bytes: usize) {
    if let Some(shaper) = shaper {
        shaper.spend(bytes);
    }
}

/// Has a thread read a piece.
fn order(
    threads: &ThreadPool,
    file: &Arc<OwnedFd>,
    offset: u64,
    wanted: u64,
) -> Result<PendingRead, DeliveryError> {
    let (file, len) = (Arc::clone(file), wanted.min(at_once(COPIED)));
    let job = move || {
        read(&file, offset, len, DiskWait::Yes).map(|bytes| ReadPiece {
            bytes,
            ..ReadPiece::default()
        })
    };
    threads
        .submit_continuation(job)
        .map_err(|_| DeliveryError::Busy)
}

/// Whether the kernel has a part of a file in memory, as far as its first and last bytes tell.
fn is_resident(file: &OwnedFd, offset: u64, len: u64) -> bool {
    let at = |offset| disk::read_at(file, &mut [0], offset, DiskWait::No).is_ok();
    at(offset) && at(offset + len - 1)
}

fn read(file: &OwnedFd, offset: u64, len: u64, wait: DiskWait) -> Result<Bytes, Errno> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| Errno::FBIG)?];
    let read = disk::read_at(file, &mut bytes, offset, wait)?;
    bytes.truncate(read);
    Ok(bytes.into())
}
