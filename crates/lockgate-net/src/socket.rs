//! A connected stream socket, TCP or Unix, and its readiness.
//!
//! Every call is a single system call on a non-blocking descriptor. A read or write that moved less
//! than was asked clears the readiness at once, which saves the extra call that would only return
//! EAGAIN; a read that emptied the socket, with the end known already, saves the call that would
//! only return 0.

mod acks;
mod options;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};

use crate::memory::{self, MemoryKind};
use crate::reactor::{Interest, Registration};
use acks::PendingAcks;

pub use crate::syscall::{peer_groups, peer_user};
pub use acks::ACKS_PER_MESSAGE;

/// The family of a stream socket: TCP has options that Unix sockets lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketFamily {
    /// A TCP connection, over IPv4 or IPv6.
    Tcp,
    /// A connection over a Unix socket.
    Unix,
}

/// The peer's state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// The peer may send and receive.
    Open,
    /// The peer sends no more.
    Ended,
    /// The peer has reset the connection, or the connection is lost.
    Reset,
}

/// A connected, non-blocking stream socket, watched by the thread's reactor.
///
/// Dropping it closes the connection.
#[derive(Debug)]
pub struct Socket {
    fd: Registration,
    family: SocketFamily,
    /// Whether it is probably readable, before any event.
    readable: Cell<bool>,
    /// Whether it is readable after its event was forgotten.
    unread: Cell<bool>,
    /// The same as `readable`, for writing.
    writable: Cell<bool>,
    /// Whether all data and the end have been read.
    ended: Cell<bool>,
    nagle: Cell<Nagle>,
    /// The bytes written so far, while they are few.
    written: Cell<usize>,
    /// The limit of unsent bytes; the kernel's until one is set.
    unsent: Cell<usize>,
    /// The owner's limit of unsent bytes.
    allowed: Cell<usize>,
    /// The memory counted for it while it is full.
    full: Cell<usize>,
    _own: SocketCharge,
    acks: PendingAcks,
}

/// What a socket is counted for in any case, without a field that says so.
#[derive(Debug)]
struct SocketCharge(());

impl SocketCharge {
    fn new() -> Self {
        memory::charge(MemoryKind::Kernel, memory::SOCKET.cast_signed());
        Self(())
    }
}

impl Drop for SocketCharge {
    fn drop(&mut self) {
        memory::charge(MemoryKind::Kernel, -memory::SOCKET.cast_signed());
    }
}

/// The bytes after which a socket's limit is set: until then it holds little, and most never get
/// there.
const FEW: usize = 64 * 1024;

/// The state of Nagle's algorithm (RFC 896). It never delays the first write on a connection, since
/// nothing is unacknowledged by then: many connections need no more, and save the call that
/// disables it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nagle {
    /// Disabled, or not applicable.
    Off,
    /// Enabled, and nothing was sent.
    Unsent,
    /// Enabled, and would delay the next write.
    Sent,
}

impl Socket {
    /// Watches a connected non-blocking descriptor with TCP_NODELAY set or inherited.
    ///
    /// # Errors
    /// When the kernel cannot watch it (out of memory or of epoll watches).
    pub fn new(fd: OwnedFd, family: SocketFamily) -> io::Result<Self> {
        Ok(Self {
            // With urgent data (RFC 6093), which is useless, but ends reads: see `note_end`.
            fd: Registration::new(fd, Interest::Connection)?,
            family,
            readable: Cell::new(false),
            unread: Cell::new(false),
            writable: Cell::new(false),
            ended: Cell::new(false),
            nagle: Cell::new(Nagle::Off),
            written: Cell::new(0),
            unsent: Cell::new(usize::MAX),
            allowed: Cell::new(usize::MAX),
            full: Cell::new(0),
            _own: SocketCharge::new(),
            acks: PendingAcks::default(),
        })
    }

    /// The same for an accepted socket: clients mostly send at once.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn accepted(fd: OwnedFd, family: SocketFamily) -> io::Result<Self> {
        let socket = Self::new(fd, family)?;
        socket.readable.set(true);
        socket.writable.set(true);
        Ok(socket)
    }

    /// The same for a connecting socket, without TCP_NODELAY.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn connecting(fd: OwnedFd, family: SocketFamily) -> io::Result<Self> {
        let socket = Self::new(fd, family)?;
        match family {
            SocketFamily::Tcp => socket.nagle.set(Nagle::Unsent),
            // It has connected, or connect(2) has failed.
            SocketFamily::Unix => socket.writable.set(true),
        }
        Ok(socket)
    }

    /// The family of the socket.
    pub fn family(&self) -> SocketFamily {
        self.family
    }

    /// Reads once into `buf`; 0 is the end.
    ///
    /// # Errors
    /// Those of recv(2): a reset, mostly.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let wanted = buf.len();
        self.poll_read_with(cx, wanted, |fd| {
            rustix::net::recv(fd, &mut *buf, RecvFlags::empty()).map(|(n, _)| n)
        })
    }

    /// Writes once from `buf`; returns the number of bytes.
    ///
    /// # Errors
    /// Those of send(2).
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, buf.len(), |fd| {
            rustix::net::send(fd, buf, SendFlags::NOSIGNAL)
        })
    }

    /// Writes once from all of `parts`, which have `len` bytes together; returns the number of
    /// bytes.
    ///
    /// # Errors
    /// Those of sendmsg(2).
    pub fn poll_send_parts(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
        len: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, len, |fd| {
            let mut nothing = SendAncillaryBuffer::default();
            rustix::net::sendmsg(fd, parts, &mut nothing, SendFlags::NOSIGNAL)
        })
    }

    /// The same from one slice, when more follows at once: the kernel waits for it before it sends
    /// a short segment (MSG_MORE).
    ///
    /// # Errors
    /// Those of send(2).
    pub fn poll_send_more(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, buf.len(), |fd| {
            rustix::net::send(fd, buf, SendFlags::NOSIGNAL | SendFlags::MORE)
        })
    }

    /// Sends what the kernel holds after [`poll_send_more`](Self::poll_send_more): to set
    /// TCP_NODELAY has this effect (tcp(7)).
    pub fn push(&self) {
        // On a connection that has broken nothing is left to send.
        let _ = sockopt::set_tcp_nodelay(self, true);
    }

    /// Sends up to `len` bytes of `file` from `offset` on within the kernel; returns the number of
    /// bytes, 0 at the end of the file.
    ///
    /// # Errors
    /// Those of sendfile(2).
    pub fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        // A short result may be caused by the file: the next call finds out whether there is room.
        self.poll_write_with(cx, 0, |fd| {
            let mut from = offset;
            rustix::fs::sendfile(fd, file, Some(&mut from), len)
        })
    }

    /// Runs a reading system call when the socket is readable, again when it was interrupted.
    ///
    /// # Errors
    /// Those of `call`, other than EAGAIN and EINTR.
    pub fn poll_read_with(
        &self,
        cx: &mut Context<'_>,
        wanted: usize,
        mut call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        if self.ended.get() {
            return Poll::Ready(Ok(0));
        }
        let forgotten = self.unread.take();
        let mut tries = self.readable.take() || forgotten;
        loop {
            if !std::mem::take(&mut tries) {
                ready!(self.fd.poll_readable(cx))?;
            }
            match call(self.fd.as_fd()) {
                Ok(moved) => {
                    self.acks.received();
                    // A full read may have left data, for which there will be no event.
                    self.unread.set(forgotten && moved == wanted);
                    // 0 is the end of the stream, which stays readable.
                    if moved < wanted && moved > 0 {
                        self.note_end();
                        self.fd.clear_readable();
                    }
                    return Poll::Ready(Ok(moved));
                }
                Err(Errno::AGAIN) => self.fd.clear_readable(),
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Detects the end by a short read after its event. The data before the end of a TCP connection
    /// was there by then: nothing can follow. But a read is also cut short by urgent data (tcp(7)),
    /// so that the event must be one that tells of that, and a broken connection has an error to
    /// report.
    fn note_end(&self) {
        let readiness = self.fd.readiness();
        if self.family == SocketFamily::Tcp && readiness.is_end_of_data() {
            self.ended
                .set(!readiness.is_priority() && !readiness.is_error());
        }
    }

    /// Runs a writing system call when the socket is writable, again when it was interrupted.
    ///
    /// # Errors
    /// Those of `call`, other than EAGAIN and EINTR.
    pub fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        wanted: usize,
        mut call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if !self.writable.take() {
                ready!(self.fd.poll_writable(cx))?;
            }
            if self.nagle.get() == Nagle::Sent {
                sockopt::set_tcp_nodelay(&self.fd, true)?;
                self.nagle.set(Nagle::Off);
            }
            match call(self.fd.as_fd()) {
                Ok(moved) => {
                    self.acks.sent();
                    if self.nagle.get() == Nagle::Unsent {
                        self.nagle.set(Nagle::Sent);
                    }
                    if moved < wanted {
                        self.fd.clear_writable();
                    }
                    self.note_write(moved, wanted);
                    return Poll::Ready(Ok(moved));
                }
                Err(Errno::AGAIN) => {
                    self.fd.clear_writable();
                    self.note_full();
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Notes a write: after much data the socket's limit is set, and a short write means that it is
    /// full.
    fn note_write(&self, moved: usize, wanted: usize) {
        let written = self.written.get();
        if written < FEW {
            self.written.set(written + moved);
            if written + moved >= FEW {
                self.limit_to_share(memory::unsent());
            }
        }
        if moved < wanted {
            self.note_full();
        } else if self.full.get() > 0 {
            memory::charge(MemoryKind::Kernel, -self.full.take().cast_signed());
        }
    }

    /// Counts the memory of a full socket.
    fn note_full(&self) {
        if self.full.get() == 0 {
            self.limit_to_share(memory::unsent());
            // An estimate: most slow peers have a smaller window. The difference shows in
            // measurements.
            let holds = self.unsent.get().min(FEW * 4);
            self.full.set(holds);
            memory::charge(MemoryKind::Kernel, holds.cast_signed());
        }
    }

    /// Limits the unsent bytes to the socket's share of the process's memory. By default the kernel
    /// keeps megabytes for a peer that was fast once, or is on this host. A limit that was lowered
    /// while memory was scarce is raised again later.
    fn limit_to_share(&self, share: usize) {
        let most = share.min(self.allowed.get());
        if most != self.unsent.get() {
            self.set_unsent(i32::try_from(most).unwrap_or(i32::MAX));
        }
    }

    /// Completes when the socket is writable, by its events: no system call.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.writable.get() {
            return Poll::Ready(Ok(()));
        }
        self.fd.poll_writable(cx)
    }

    /// Whether all data and the end have been read, as far as known without a call.
    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// The peer's state, by the kernel, with unread data or without.
    pub fn peer(&self) -> PeerState {
        let mut polled = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        match poll(&mut polled, Some(&Timespec::default())) {
            // HUP alone: a Unix socket's peer has closed it, and its data may be unread.
            Ok(1) if polled[0].revents().contains(PollFlags::ERR) => PeerState::Reset,
            Ok(1) => PeerState::Ended,
            _ => PeerState::Open,
        }
    }

    /// Completes when data, or the end, can be read.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    /// The same as a poll: a read may still find nothing, if the data of the event has been read
    /// meanwhile.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unread.get() {
            return Poll::Ready(Ok(()));
        }
        self.fd.poll_readable(cx)
    }

    /// Completes when a [connecting](Self::connecting) socket has connected.
    ///
    /// # Errors
    /// Those of connect(2).
    pub(crate) async fn connected(&self) -> io::Result<()> {
        // On one host the connection exists before connect(2) returns: asking is cheaper than a
        // turn through epoll.
        if rustix::net::getpeername(&self.fd).is_ok() {
            self.writable.set(true);
            return Ok(());
        }
        poll_fn(|cx| self.fd.poll_writable(cx)).await?;
        // A failed connection is closed for writing.
        match self.fd.readiness().is_write_closed() {
            true => self.take_error()?.map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    /// Whether there is neither data nor an end, by its events; one system call if there
    /// was an event.
    pub fn is_quiet(&self) -> bool {
        let is_readable = self.readable.get() || self.unread.get();
        if self.ended.get() || !(is_readable || self.fd.readiness().is_readable()) {
            return !self.ended.get();
        }
        let is_quiet = self.is_quiet_now();
        if is_quiet {
            self.readable.set(false);
            self.unread.set(false);
            self.fd.clear_readable();
        }
        is_quiet
    }

    /// The same, by the kernel.
    pub fn is_quiet_now(&self) -> bool {
        peek(self.fd.as_fd()) == Err(Errno::AGAIN)
    }

    /// Completes when the peer has reset the connection, but not when it has only finished sending.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if ready!(self.fd.poll_readable(cx)).is_err() {
                return Poll::Pending;
            }
            if self.fd.readiness().is_read_closed() {
                return if matches!(self.take_error(), Ok(None)) {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                };
            }
            // An unread event must not hide later ones: the next event is awaited, and the next
            // read finds the data of this one by itself.
            self.fd.clear_readable();
            self.unread.set(true);
        }
    }
}

fn peek(fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    rustix::net::recv(fd, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).map(|(read, _)| read)
}

impl Drop for Socket {
    fn drop(&mut self) {
        memory::charge(MemoryKind::Kernel, -self.full.get().cast_signed());
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
