//! One connected stream socket, TCP or Unix, and its readiness.
//!
//! Every call is a single system call on a non-blocking descriptor. A read or write that moved less
//! than was asked clears the readiness at once, which saves the extra call that would only say
//! EAGAIN; and one that took all that was there before an end of which is known already saves the
//! call that would only say so.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::acknowledge::{Acks, PIECES};
use crate::memory::{self, Charge, Kind};
use crate::syscall;

/// What kind of stream a socket carries: TCP has options that Unix sockets lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A TCP connection, over IPv4 or IPv6.
    Tcp,
    /// A connection over a Unix socket.
    Unix,
}

/// What the other end of a connection has done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// It may send and receive.
    Open,
    /// It sends no more.
    Ended,
    /// It has reset the connection, or the connection is lost.
    Reset,
}

/// A connected, non-blocking stream socket, registered with the worker's runtime.
///
/// Dropping it closes the connection.
#[derive(Debug)]
pub struct Socket {
    fd: AsyncFd<OwnedFd>,
    family: Family,
    /// Whether it is likely that it can be read, though nothing was heard of it yet.
    readable: Cell<bool>,
    /// Whether it can be read, of which the runtime was told to forget that it has heard of it.
    unread: Cell<bool>,
    /// The same as `readable`, of writing.
    writable: Cell<bool>,
    /// Whether all was read, and the end with it.
    ended: Cell<bool>,
    nagle: Cell<Nagle>,
    /// Bytes written so far, as long as they are few.
    written: Cell<usize>,
    /// What it may hold that was not sent; what the kernel says as long as nothing was set.
    unsent: Cell<usize>,
    /// What its owner lets it hold at the most.
    allowed: Cell<usize>,
    /// What it is counted for while it is full.
    full: Cell<usize>,
    _own: Charge,
    acks: Acks,
}

/// Bytes after which a socket is told how much it may hold: until then it holds little, and most
/// never get there.
const FEW: usize = 64 * 1024;

/// How far Nagle's algorithm (RFC 896) may still hold back what is sent. It never holds the first
/// write on a connection, since nothing is on its way by then: many connections need no more, and
/// save the call that switches it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nagle {
    /// It is off, or there is none.
    Off,
    /// It is on, and nothing was sent.
    Unsent,
    /// It is on, and would hold the next write.
    Sent,
}

impl Socket {
    /// Registers a connected non-blocking descriptor, on which TCP_NODELAY is set or inherited.
    ///
    /// # Errors
    /// When the runtime cannot watch it (out of memory or of epoll watches).
    pub fn new(fd: OwnedFd, family: Family) -> io::Result<Self> {
        // Urgent data (RFC 6093) is of no use to anybody, but ends reads: see `note_end`.
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        Ok(Self {
            fd: syscall::watch(fd, interest)?,
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
            _own: Charge::new(Kind::Kernel, memory::SOCKET),
            acks: Acks::default(),
        })
    }

    /// The same of one that was accepted: whoever connects mostly says something at once.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn accepted(fd: OwnedFd, family: Family) -> io::Result<Self> {
        let socket = Self::new(fd, family)?;
        socket.readable.set(true);
        socket.writable.set(true);
        Ok(socket)
    }

    /// The same of one that connects, without TCP_NODELAY.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn connecting(fd: OwnedFd, family: Family) -> io::Result<Self> {
        let socket = Self::new(fd, family)?;
        match family {
            Family::Tcp => socket.nagle.set(Nagle::Unsent),
            // It has connected, or connect(2) has failed.
            Family::Unix => socket.writable.set(true),
        }
        Ok(socket)
    }

    /// Whether this is TCP or a Unix socket.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Reads once into `buf`; 0 means that the peer has finished.
    ///
    /// # Errors
    /// As recv(2) says: a reset, mostly.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let wanted = buf.len();
        self.poll_read_with(cx, wanted, |fd| {
            rustix::net::recv(fd, &mut *buf, RecvFlags::empty()).map(|(n, _)| n)
        })
    }

    /// Writes once from `buf` and says how much went out.
    ///
    /// # Errors
    /// As send(2) says.
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, buf.len(), |fd| {
            rustix::net::send(fd, buf, SendFlags::NOSIGNAL)
        })
    }

    /// Writes once from all of `parts`, which have `len` bytes together, and says how much went
    /// out.
    ///
    /// # Errors
    /// As sendmsg(2) says.
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
    /// As send(2) says.
    pub fn poll_send_more(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, buf.len(), |fd| {
            rustix::net::send(fd, buf, SendFlags::NOSIGNAL | SendFlags::MORE)
        })
    }

    /// Has the kernel send up to `len` bytes of `file` from `offset` on, and says how many; 0 is
    /// the end of the file.
    ///
    /// # Errors
    /// As sendfile(2) says.
    pub fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        // That less was sent may be the file's doing: whether there is room left, the next call
        // finds out.
        self.poll_write_with(cx, 0, |fd| {
            let mut from = offset;
            rustix::fs::sendfile(fd, file, Some(&mut from), len)
        })
    }

    /// Runs a reading system call when the socket is readable, again when it was interrupted.
    ///
    /// # Errors
    /// What `call` says, other than EAGAIN and EINTR.
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
            let mut guard = if std::mem::take(&mut tries) {
                heard(self.fd.poll_read_ready(&mut nobody()))?
            } else {
                Some(ready!(self.fd.poll_read_ready(cx))?)
            };
            match call(self.fd.as_fd()) {
                Ok(moved) => {
                    self.acks.received();
                    // A read that was filled may have left something, of which nothing will be
                    // heard again.
                    self.unread.set(forgotten && moved == wanted);
                    // 0 is the end of the stream, which stays readable.
                    if let Some(guard) = guard.as_mut().filter(|_| moved < wanted && moved > 0) {
                        if guard.ready().is_read_closed() {
                            self.note_end();
                        }
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(moved));
                }
                Err(Errno::AGAIN) => guard.iter_mut().for_each(AsyncFdReadyGuard::clear_ready),
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Learns from a read that took less than it asked for when the end had been heard of. What
    /// came before the end of a TCP connection was there by then: nothing can follow. A read
    /// ends early at urgent data too, though (tcp(7)), and what broke has an error to tell.
    fn note_end(&self) {
        let all = Interest::READABLE | Interest::PRIORITY | Interest::ERROR;
        if let (Family::Tcp, Poll::Ready(Ok(guard))) =
            (self.family, pin!(self.fd.ready(all)).poll(&mut nobody()))
        {
            self.ended
                .set(!guard.ready().is_priority() && !guard.ready().is_error());
        }
    }

    /// Runs a writing system call when the socket is writable, again when it was interrupted.
    ///
    /// # Errors
    /// What `call` says, other than EAGAIN and EINTR.
    pub fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        wanted: usize,
        mut call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = if self.writable.take() {
                heard(self.fd.poll_write_ready(&mut nobody()))?
            } else {
                Some(ready!(self.fd.poll_write_ready(cx))?)
            };
            if self.nagle.get() == Nagle::Sent {
                rustix::net::sockopt::set_tcp_nodelay(&self.fd, true)?;
                self.nagle.set(Nagle::Off);
            }
            match call(self.fd.as_fd()) {
                Ok(moved) => {
                    self.acks.sent();
                    if self.nagle.get() == Nagle::Unsent {
                        self.nagle.set(Nagle::Sent);
                    }
                    if let Some(guard) = guard.as_mut().filter(|_| moved < wanted) {
                        guard.clear_ready();
                    }
                    self.wrote(moved, wanted);
                    return Poll::Ready(Ok(moved));
                }
                Err(Errno::AGAIN) => {
                    guard.iter_mut().for_each(AsyncFdReadyGuard::clear_ready);
                    self.fills();
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Takes note of a write: a socket that has had much is told how much it may hold, and one that
    /// takes less than all is full.
    fn wrote(&self, moved: usize, wanted: usize) {
        let written = self.written.get();
        if written < FEW {
            self.written.set(written + moved);
            if written + moved >= FEW {
                self.bound(memory::unsent());
            }
        }
        if moved < wanted {
            self.fills();
        } else if self.full.get() > 0 {
            memory::charge(Kind::Kernel, -self.full.take().cast_signed());
        }
    }

    /// It holds all that it may.
    fn fills(&self) {
        if self.full.get() == 0 {
            self.bound(memory::unsent());
            // An estimate: most peers that are slow have a window of less. What is missing is seen
            // where it is measured.
            let holds = self.unsent.get().min(FEW * 4);
            self.full.set(holds);
            memory::charge(Kind::Kernel, holds.cast_signed());
        }
    }

    /// Has it hold no more than its share of the process's memory. By itself the kernel keeps
    /// megabytes for a peer that was fast once, or is on this host. What it was denied while
    /// memory was scarce it has again later.
    fn bound(&self, share: usize) {
        let most = share.min(self.allowed.get());
        if most != self.unsent.get() {
            self.set_unsent(i32::try_from(most).unwrap_or(i32::MAX));
        }
    }

    /// Completes when something can be written, as far as the runtime has heard: no system call.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.writable.get() {
            return Poll::Ready(Ok(()));
        }
        self.fd
            .poll_write_ready(cx)
            .map_ok(|mut guard| guard.retain_ready())
    }

    /// Whether all was read, and the end with it, as far as that is known without a call.
    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// What the peer has done with the connection, read or not, as the kernel says.
    pub fn peer(&self) -> PeerState {
        let mut polled = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        match poll(&mut polled, Some(&Timespec::default())) {
            // HUP alone: a Unix socket's peer has closed it, and what it has sent may be there.
            Ok(1) if polled[0].revents().contains(PollFlags::ERR) => PeerState::Reset,
            Ok(1) => PeerState::Ended,
            _ => PeerState::Open,
        }
    }

    /// Completes when the peer's bytes, or its end, can be read.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    /// The same, to be polled: reading then may still find nothing, where what was heard of has
    /// been read meanwhile.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unread.get() {
            return Poll::Ready(Ok(()));
        }
        self.fd
            .poll_read_ready(cx)
            .map_ok(|mut guard| guard.retain_ready())
    }

    /// Completes when a [connecting](Self::connecting) socket has connected.
    ///
    /// # Errors
    /// As connect(2) says.
    pub(crate) async fn connected(&self) -> io::Result<()> {
        // On one host the connection is there before connect(2) returns: asking is cheaper than a
        // turn through epoll.
        if rustix::net::getpeername(&self.fd).is_ok() {
            self.writable.set(true);
            return Ok(());
        }
        let mut guard = self.fd.writable().await?;
        guard.retain_ready();
        // One that has failed takes nothing.
        match guard.ready().is_write_closed() {
            true => self.take_error()?.map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    /// Whether there is nothing to read and no end, as far as the runtime has heard; what it heard
    /// is looked after by one system call.
    pub fn is_quiet(&self) -> bool {
        self.poll_read_with(&mut nobody(), 1, peek).is_pending()
    }

    /// The same, asked of the kernel.
    pub fn is_quiet_now(&self) -> bool {
        peek(self.fd.as_fd()) == Err(Errno::AGAIN)
    }

    /// Completes when the peer has reset the connection; that it has finished sending is no reason
    /// to.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match ready!(self.fd.poll_read_ready(cx)) {
                Ok(guard) if guard.ready().is_read_closed() => {
                    return if matches!(self.take_error(), Ok(None)) {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    };
                }
                // What nobody reads now must not hide what comes after it: the next event is waited
                // for, and the next read finds by itself what this one told of.
                Ok(mut guard) => {
                    guard.clear_ready();
                    self.unread.set(true);
                }
                Err(_) => return Poll::Pending,
            }
        }
    }

    /// The error that the kernel keeps for this socket, if there is one; reading it clears it.
    ///
    /// # Errors
    /// When the option cannot be read.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(rustix::net::sockopt::socket_error(&self.fd)?
            .err()
            .map(io::Error::from))
    }

    /// Has the kernel probe a silent TCP peer from now on; a Unix socket needs no probes.
    ///
    /// # Errors
    /// When an option cannot be set.
    pub fn probe(&self, idle: Duration) -> io::Result<()> {
        if self.family == Family::Tcp {
            crate::dial::set_keepalive(&self.fd, idle)
        } else {
            Ok(())
        }
    }

    /// Says that nothing more will be written, and keeps reading: half-close.
    ///
    /// # Errors
    /// When the peer has reset the connection in the meantime.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.fd, Shutdown::Write)?)
    }

    /// Is told that the rest of a message is waited for, of which a piece has come: that is
    /// acknowledged at once, so that the peer does not wait for it. Says whether the kernel was
    /// asked for it: only for the first pieces, until something is sent.
    pub fn await_rest(&self) -> bool {
        let asked = self.acks.asked();
        if asked < PIECES {
            self.acknowledge_now();
        }
        self.acks.asked() > asked
    }

    /// Acknowledges what was received at once instead of with the next data that is sent
    /// (TCP_QUICKACK). Without a call where nothing was received since that was asked for, or
    /// something was sent.
    pub fn acknowledge_now(&self) {
        if self.family == Family::Tcp && self.acks.ask() {
            // A hint; that it cannot be given changes nothing.
            let _ = rustix::net::sockopt::set_tcp_quickack(&self.fd, true);
        }
    }

    /// Whether something was received that may not be acknowledged yet: nothing was sent since, and
    /// the kernel was not asked.
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        self.family == Family::Tcp && self.acks.is_due()
    }

    /// How often the kernel was asked to acknowledge at once, since something was sent.
    pub fn acknowledged(&self) -> u8 {
        self.acks.asked()
    }

    /// Whether nothing was sent between the last read and the one before.
    pub(crate) fn reads_again(&self) -> bool {
        self.acks.reads_again()
    }

    /// Has it take no more than can be sent soon: what waits here is in nobody's order any more.
    /// With `bytes` that were not sent it is full; what was sent and not acknowledged is not
    /// counted, so that no path is too long.
    pub fn limit_unsent(&self, bytes: i32) {
        self.allowed.set(usize::try_from(bytes).unwrap_or(0));
        self.set_unsent(bytes);
    }

    fn set_unsent(&self, bytes: i32) {
        // One that is not TCP has no such limit, and no such queue.
        let _ = syscall::set_unsent_limit(&self.fd, bytes);
        self.unsent.set(usize::try_from(bytes).unwrap_or(0));
    }

    /// Is readable only once so much is there, or the end; 1 is where every socket begins.
    pub(crate) fn wait_for(&self, bytes: usize) {
        // One that cannot be told is readable sooner.
        let _ = syscall::set_low_water(&self.fd, bytes);
    }

    /// Makes the close that follows a reset: the peer must not take what it got for the whole.
    pub fn reset_on_close(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }
}

/// What the runtime has heard of a socket, if it has.
fn heard<T>(polled: Poll<io::Result<T>>) -> io::Result<Option<T>> {
    match polled {
        Poll::Ready(heard) => heard.map(Some),
        Poll::Pending => Ok(None),
    }
}

/// For who wants to know and not to be woken.
fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn peek(fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    rustix::net::recv(fd, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).map(|(read, _)| read)
}

impl Drop for Socket {
    fn drop(&mut self) {
        memory::charge(Kind::Kernel, -self.full.get().cast_signed());
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
