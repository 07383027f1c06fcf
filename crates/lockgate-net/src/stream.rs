//! A connected socket with or without TLS, for readers of messages: bytes come into a
//! [`ReadBuffer`] and leave from slices.
//!
//! Each call is at most one system call. The relay moves bytes unread; this is for code that reads
//! them.

mod read_buffer;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll, ready};

use crate::full_reads::{Burst, FullReads};
use crate::memory::{self, MemoryLevel};
use crate::socket::{Socket, SocketFamily};
use crate::tls::record::MAX_RECORD;
use crate::tls::session::{SessionError, TlsSession};
use crate::traffic_shaping::ShapingQueue;

pub use read_buffer::{BufferPool, ReadBuffer};

/// The size of one read.
const READ: usize = 64 * 1024;
/// The most bytes that one write under TLS seals: those of a read, and the frames around them. A
/// rest would be a system call and a packet for a few bytes.
const SEALED: usize = READ + 16 * 1024;
/// What the rest of a body is awaited by, if its sender is fast: more per wake-up saves no more
/// (docs/perf/2026-11.md).
const FULL: usize = 256 * 1024;
/// The least rest of a body for which two system calls are worth it.
const WORTH_WAITING: usize = 128 * 1024;
/// The size of a read or a write while memory is scarce: bytes that a peer does not accept are
/// held.
const LEAN: usize = 16 * 1024;

/// The reason why a connection broke.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The socket failed: a reset, mostly.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// TLS failed: a refused record, or an alert.
    #[error(transparent)]
    Tls(#[from] SessionError),
    /// The connection ended without the close_notify of TLS: the received data was delivered, but
    /// may be incomplete.
    #[error("ended without close_notify")]
    Truncated,
}

/// The buffers for TLS that all streams of one worker share; empty between two calls.
#[derive(Debug)]
pub(crate) struct SealBuffers {
    /// Received records: the beginning of one, and a read behind it.
    wire: Box<[u8]>,
    /// Gathered bytes, when several slices are sealed together.
    plain: Vec<u8>,
    /// Records to send.
    sealed: Box<[u8]>,
}

impl SealBuffers {
    fn new() -> RefCell<Self> {
        let sealed = vec![0; TlsSession::sealed_len(SEALED)].into();
        RefCell::new(Self {
            wire: vec![0; READ + MAX_RECORD].into(),
            plain: Vec::new(),
            sealed,
        })
    }
}

/// A connection; dropping it closes it.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    session: Option<Box<TlsSession>>,
    /// Sealed bytes, sent up to `sent`.
    unsent: Vec<u8>,
    sent: usize,
    /// Whether these wait for data to share a packet with.
    held: bool,
    /// Whether TLS was ended.
    finished: bool,
    /// Whether the kernel may hold the end of what was sent.
    corked: bool,
    /// The bytes of a body that have come since the reader waited last.
    fresh: usize,
    burst: Burst,
    full_reads: FullReads,
}

/// The part of `usual` that is moved at once.
fn within(usual: usize) -> usize {
    if memory::level() == MemoryLevel::Easy {
        usual
    } else {
        LEAN
    }
}

/// The parts of a stream, for a relay.
#[derive(Debug)]
pub struct StreamParts {
    /// The connected socket.
    pub socket: Socket,
    /// The TLS session, if it uses TLS.
    pub session: Option<Box<TlsSession>>,
    /// Bytes to send before anything else, sealed.
    pub unsent: Vec<u8>,
}

impl Stream {
    /// A stream over `socket`; `unsent` (session tickets) leaves with the first data.
    pub fn new(socket: Socket, session: Option<Box<TlsSession>>, unsent: Vec<u8>) -> Self {
        let held = !unsent.is_empty();
        Self {
            socket,
            session,
            unsent,
            sent: 0,
            held,
            finished: false,
            corked: false,
            fresh: 0,
            burst: Burst::default(),
            full_reads: FullReads::default(),
        }
    }

    /// The socket below TLS.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether its bytes are protected by TLS.
    pub fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// Gives back what TLS can make again, as for a wait that may be long: see
    /// [`TlsSession::rest`].
    pub fn rest(&mut self) {
        if let Some(session) = &mut self.session {
            session.rest();
        }
    }

    /// Splits it into its parts.
    pub fn into_parts(mut self) -> StreamParts {
        self.end_full_reads();
        self.unsent.drain(..self.sent);
        StreamParts {
            socket: self.socket,
            session: self.session,
            unsent: self.unsent,
        }
    }

    /// Reads once, behind the bytes in `buffer`; `false` at the end.
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuffer,
    ) -> Poll<Result<bool, StreamError>> {
        let mut allowed = usize::MAX;
        self.poll_read_within(cx, buffer, &mut allowed)
    }

    /// The same with at most `allowed` bytes from the socket, which are subtracted from it: under
    /// TLS those of its records. If that is used up before there is data, this is `true` without
    /// any.
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_read_within(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuffer,
        allowed: &mut usize,
    ) -> Poll<Result<bool, StreamError>> {
        self.end_full_reads();
        self.poll_receive(cx, buffer, allowed)
    }

    /// Reads once, as [`poll_read`](Self::poll_read), where `left` bytes of a body are still to come.
    /// Under TLS, where packets are many records, a fast sender wakes the reader only when it has sent
    /// many of them, or after a pause of some milliseconds.
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_read_body(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuffer,
        left: u64,
    ) -> Poll<Result<bool, StreamError>> {
        let mut allowed = usize::MAX;
        let read = self.poll_receive(cx, buffer, &mut allowed);
        let Some(session) = &self.session else {
            return read;
        };
        self.fresh = self.fresh.saturating_add(usize::MAX - allowed);
        if read.is_pending()
            && let Some(queue) = buffer.pool().queue()
        {
            // Of a record that is not complete, the first bytes were received already.
            let coming = left.saturating_sub(session.partial_len() as u64);
            self.await_body(cx, usize::try_from(coming).unwrap_or(usize::MAX), queue);
        }
        read
    }

    /// Waits for much of a body of which `coming` bytes are still to be received, if its sender is
    /// fast.
    fn await_body(&mut self, cx: &mut Context<'_>, coming: usize, queue: &ShapingQueue) {
        let fresh = std::mem::take(&mut self.fresh);
        let burst = self.burst.note(fresh, queue.now());
        let waits = self.full_reads.mark().is_some();
        // The kernel makes room for as much as is awaited.
        if coming == 0 || memory::level() > MemoryLevel::Easy {
            self.full_reads.stop(&self.socket);
        } else if waits && fresh > 0 || burst >= READ && coming >= WORTH_WAITING {
            self.full_reads.wait_for(&self.socket, coming.min(FULL));
        }
        if self.full_reads.poll_pending(cx, &self.socket, queue) {
            self.burst.end();
        }
    }

    /// Lets any data wake the reader again: a body has ended.
    pub fn end_full_reads(&mut self) {
        self.fresh = 0;
        self.burst = Burst::default();
        self.full_reads.stop(&self.socket);
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuffer,
        allowed: &mut usize,
    ) -> Poll<Result<bool, StreamError>> {
        if self.session.is_some() {
            return self.poll_open(cx, buffer, allowed);
        }
        // A read that fills the room may have left data: only a shorter one has emptied the socket.
        let wanted = buffer.room().min(within(READ)).min(*allowed);
        if *allowed == 0 {
            return Poll::Ready(Ok(true));
        }
        let read = self.socket.poll_read_with(cx, wanted, |fd| {
            // Taken only now: a waiting connection holds no block.
            buffer.fill(|room| {
                rustix::net::recv(fd, &mut room[..wanted], rustix::net::RecvFlags::empty())
                    .map(|(read, _)| read)
            })
        });
        match ready!(read) {
            Ok(read) => {
                *allowed -= read;
                Poll::Ready(Ok(read > 0))
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    fn poll_open(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuffer,
        allowed: &mut usize,
    ) -> Poll<Result<bool, StreamError>> {
        let Some(session) = &mut self.session else {
            return Poll::Ready(Ok(false));
        };
        // If no record fits, no read could ever help.
        if buffer.is_full() {
            return Poll::Ready(Err(io::Error::from(io::ErrorKind::StorageFull).into()));
        }
        loop {
            let early = session.take_early();
            if !early.is_empty() {
                buffer.extend(&early);
                return Poll::Ready(Ok(true));
            }
            let mut filled = session.partial_len();
            let pool = buffer.pool();
            let SealBuffers { wire, .. } = &mut *pool.sealing.borrow_mut();
            if !session.has_waiting() {
                if session.is_closed() {
                    return Poll::Ready(Ok(false));
                }
                let end = wire
                    .len()
                    .min(filled.saturating_add(within(READ).min(*allowed)));
                if end == filled {
                    return Poll::Ready(Ok(true));
                }
                let received = ready!(self.socket.poll_recv(cx, &mut wire[filled..end]))?;
                if received == 0 {
                    return Poll::Ready(Err(StreamError::Truncated));
                }
                *allowed -= received;
                filled += received;
            }
            let partial = session.take_partial();
            wire[..partial.len()].copy_from_slice(&partial);
            let mut consumed = 0;
            let opened = buffer.fill(|room| {
                // Records never grow by being opened: if they fit sealed, they fit opened.
                let wire = &wire[..filled.min(room.len())];
                session.open(wire, room).map(|done| {
                    consumed = done.consumed;
                    done.produced
                })
            })?;
            if consumed < filled {
                session.keep_partial(&wire[consumed..filled]);
            }
            // Otherwise it was no data, or an incomplete record.
            if opened > 0 {
                return Poll::Ready(Ok(true));
            }
        }
    }

    /// Announces that the rest of a message is awaited: see [`Socket::await_rest`].
    pub fn await_rest(&self) -> bool {
        self.socket.await_rest()
    }

    /// Writes from the front of `parts`, as if they were one, and returns the number of bytes
    /// taken; under TLS these may still have to be sent: see [`poll_flush`](Self::poll_flush).
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pool: &BufferPool,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, StreamError>> {
        self.corked = false;
        self.poll_write_parts(cx, pool, parts)
    }

    /// The same for the beginning of much data, the rest of which is written or flushed soon: the
    /// kernel need not send a short segment at its end.
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        pool: &BufferPool,
        data: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        self.corked = self.socket.family() == SocketFamily::Tcp;
        self.poll_write_parts(cx, pool, &[data])
    }

    fn poll_write_parts(
        &mut self,
        cx: &mut Context<'_>,
        pool: &BufferPool,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, StreamError>> {
        if self.session.is_some() {
            return self.poll_seal(cx, pool, parts);
        }
        let sent = match parts {
            [one] => ready!(self.poll_send(cx, one)),
            _ => {
                let mut slices = [IoSlice::new(&[]); 4];
                let mut len = 0;
                for (slice, part) in slices.iter_mut().zip(parts) {
                    *slice = IoSlice::new(part);
                    len += part.len();
                }
                let slices = &slices[..parts.len().min(4)];
                ready!(self.socket.poll_send_parts(cx, slices, len))
            }
        };
        Poll::Ready(sent.map_err(StreamError::from))
    }

    /// Sends `head` and then up to `len` bytes of `file` from `offset` on within the kernel;
    /// returns the bytes of both. Only without TLS: see [`is_secure`](Self::is_secure).
    ///
    /// # Errors
    /// When the connection has broken, or the file cannot be read.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        (file, offset, len): (BorrowedFd<'_>, u64, usize),
    ) -> Poll<Result<(usize, usize), StreamError>> {
        if !head.is_empty() {
            let sent = ready!(self.socket.poll_send_more(cx, head))?;
            if sent < head.len() {
                return Poll::Ready(Ok((sent, 0)));
            }
        }
        match self.socket.poll_send_file(cx, file, offset, len) {
            Poll::Pending if !head.is_empty() => Poll::Ready(Ok((head.len(), 0))),
            polled => polled
                .map_ok(|sent| (head.len(), sent))
                .map_err(StreamError::from),
        }
    }

    fn poll_send(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.corked {
            self.socket.poll_send_more(cx, data)
        } else {
            self.socket.poll_send(cx, data)
        }
    }

    fn poll_seal(
        &mut self,
        cx: &mut Context<'_>,
        pool: &BufferPool,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, StreamError>> {
        // Bytes that wait for room go first; held ones are taken along.
        ready!(self.poll_unsent(cx))?;
        self.held = false;
        let Some(session) = &mut self.session else {
            return Poll::Ready(Ok(0));
        };
        if session.owes() {
            session.seal_owed(&mut self.unsent)?;
        }
        let most = within(SEALED);
        let SealBuffers { plain, sealed, .. } = &mut *pool.sealing.borrow_mut();
        let text = match parts {
            [one] => &one[..one.len().min(most)],
            _ => {
                plain.clear();
                for part in parts {
                    let room = most - plain.len();
                    plain.extend_from_slice(&part[..part.len().min(room)]);
                }
                plain
            }
        };
        let used = session.seal(text, sealed)?;
        if self.unsent.is_empty() {
            let sent = match self.poll_send(cx, &sealed[..used]) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => 0,
            };
            self.unsent.extend_from_slice(&sealed[sent..used]);
        } else {
            self.unsent.extend_from_slice(&sealed[..used]);
        }
        Poll::Ready(Ok(text.len()))
    }

    /// Completes when everything taken has been sent.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        ready!(self.poll_unsent(cx))?;
        if std::mem::take(&mut self.corked) {
            self.socket.push();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        if self.held {
            return Poll::Ready(Ok(()));
        }
        while self.sent < self.unsent.len() {
            self.sent += ready!(self.socket.poll_send(cx, &self.unsent[self.sent..]))?;
        }
        if self.sent > 0 {
            self.unsent = Vec::new();
            self.sent = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Completes when nothing taken waits here for room.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        if self.unsent.is_empty() {
            Poll::Ready(Ok(()))
        } else {
            self.poll_unsent(cx)
        }
    }

    /// Completes when a write would be taken and sent, as far as known without a system call.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        ready!(self.poll_sent(cx))?;
        self.socket.poll_writable(cx).map_err(StreamError::from)
    }

    /// Completes when the peer has reset the connection. A peer that has only finished sending
    /// still receives.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_gone(cx)
    }

    /// Whether there is no data and the peer is still there, by the socket's events: mostly no
    /// system call.
    pub fn is_quiet(&self) -> bool {
        let waiting = |session: &TlsSession| session.has_waiting() || session.is_closed();
        !self.session.as_deref().is_some_and(waiting) && self.socket.is_quiet()
    }

    /// The same, by the kernel: one system call.
    pub fn is_quiet_now(&self) -> bool {
        self.is_quiet() && self.socket.is_quiet_now()
    }

    /// Ends writing, by TLS too, once everything taken has been sent.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        self.held = false;
        if let Some(session) = self.session.as_mut().filter(|_| !self.finished) {
            session.seal_close(&mut self.unsent);
        }
        self.finished = true;
        ready!(self.poll_flush(cx))?;
        Poll::Ready(Ok(self.socket.shutdown_write()?))
    }

    /// Sends a TLS peer the reason of the end as an alert.
    pub fn alert(&mut self, cx: &mut Context<'_>, error: &StreamError) {
        if let (StreamError::Tls(error), Some(session)) = (error, &mut self.session)
            && let Some(alert) = error.alert()
        {
            self.held = false;
            session.seal_alert(alert, &mut self.unsent);
            let _ = self.poll_flush(cx);
        }
    }
}
