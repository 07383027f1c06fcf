//! A connected socket with its TLS, if it has any, for whoever reads messages: bytes come into an
//! [`Inbox`] and leave from slices.
//!
//! Each call is one system call at the most. Where the relay moves bytes on unread, this is for
//! those that look at them.

mod inbox;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll, ready};

use crate::memory::{self, Level};
use crate::socket::Socket;
use crate::tls::session::{Session, SessionError};

pub use inbox::{Blocks, Inbox};

/// What one read asks for.
const READ: usize = 64 * 1024;
/// What one write under TLS seals at once.
const SEALED: usize = 64 * 1024;
/// What a read or a write moves at once while memory is scarce: what a peer does not take is held.
const LEAN: usize = 16 * 1024;

/// Why a connection broke.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The socket did.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its TLS did.
    #[error(transparent)]
    Tls(#[from] SessionError),
    /// It ended without the close_notify of TLS: what came was delivered, but may not be the whole.
    #[error("ended without close_notify")]
    Truncated,
}

/// The buffers for TLS that all streams of one worker share: nothing stays in them between two
/// calls.
#[derive(Debug)]
pub(crate) struct Sealing {
    /// Received.
    wire: Box<[u8]>,
    /// Gathered, where several slices are to be sealed together.
    plain: Vec<u8>,
    /// Sealed.
    sealed: Box<[u8]>,
}

impl Sealing {
    fn new() -> RefCell<Self> {
        let sealed = vec![0; Session::sealed_len(SEALED)].into();
        RefCell::new(Self {
            wire: vec![0; READ].into(),
            plain: Vec::new(),
            sealed,
        })
    }
}

/// A connection; dropping it closes it.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    session: Option<Box<Session>>,
    /// Sealed and not sent, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    /// Whether that waits for data to share a packet with.
    held: bool,
    /// Whether TLS was told that nothing follows.
    finished: bool,
}

/// How much of `usual` is moved at once.
fn within(usual: usize) -> usize {
    if memory::level() == Level::Easy {
        usual
    } else {
        LEAN
    }
}

/// A stream taken apart: what a relay begins with.
#[derive(Debug)]
pub struct Parts {
    /// The socket.
    pub socket: Socket,
    /// Its TLS.
    pub session: Option<Box<Session>>,
    /// To be sent before anything else, as it goes over the wire.
    pub unsent: Vec<u8>,
}

impl Stream {
    /// A stream over `socket`; `unsent` (session tickets) leaves with the first data.
    pub fn new(socket: Socket, session: Option<Box<Session>>, unsent: Vec<u8>) -> Self {
        let held = !unsent.is_empty();
        Self {
            socket,
            session,
            unsent,
            sent: 0,
            held,
            finished: false,
        }
    }

    /// The socket under it.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether it is under TLS.
    pub fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// Takes it apart.
    pub fn into_parts(mut self) -> Parts {
        self.unsent.drain(..self.sent);
        Parts {
            socket: self.socket,
            session: self.session,
            unsent: self.unsent,
        }
    }

    /// Reads once, behind what `inbox` holds; `false` when the peer has finished.
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<Result<bool, StreamError>> {
        let mut allowed = usize::MAX;
        self.poll_read_within(cx, inbox, &mut allowed)
    }

    /// The same, with no more than `allowed` bytes taken from the socket, which are taken off it:
    /// under TLS those of its records. Where that ends before there is data, this is `true`
    /// without any.
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_read_within(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
        allowed: &mut usize,
    ) -> Poll<Result<bool, StreamError>> {
        if self.session.is_some() {
            return self.poll_open(cx, inbox, allowed);
        }
        // A read that fills all of the room may have left something: only a shorter one has emptied
        // the socket.
        let wanted = inbox.room().min(within(READ)).min(*allowed);
        if *allowed == 0 {
            return Poll::Ready(Ok(true));
        }
        let read = self.socket.poll_read_with(cx, wanted, |fd| {
            // Taken only now: a connection that waits holds no block.
            inbox.fill(|room| {
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
        inbox: &mut Inbox,
        allowed: &mut usize,
    ) -> Poll<Result<bool, StreamError>> {
        let Some(session) = &mut self.session else {
            return Poll::Ready(Ok(false));
        };
        // Where no record fits, no read could ever help.
        if inbox.is_full() {
            return Poll::Ready(Err(io::Error::from(io::ErrorKind::StorageFull).into()));
        }
        loop {
            let early = session.take_early();
            if !early.is_empty() {
                inbox.extend(&early);
                return Poll::Ready(Ok(true));
            }
            let mut filled = session.partial_len();
            let blocks = inbox.blocks();
            let Sealing { wire, .. } = &mut *blocks.sealing.borrow_mut();
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
            let opened = inbox.fill(|room| {
                // Records never grow by being opened, so what fits sealed fits.
                let wire = &wire[..filled.min(room.len())];
                session.open(wire, room).map(|done| {
                    consumed = done.consumed;
                    done.produced
                })
            })?;
            if consumed < filled {
                session.keep_partial(&wire[consumed..filled]);
            }
            // Otherwise it was no data, or not a whole record.
            if opened > 0 {
                return Poll::Ready(Ok(true));
            }
        }
    }

    /// Is told that the rest of a message is waited for: see [`Socket::await_rest`].
    pub fn await_rest(&self) -> bool {
        self.socket.await_rest()
    }

    /// Writes from the front of `parts`, which are taken as one, and says how many of their bytes
    /// it took; under TLS these may still wait to be sent: see
    /// [`poll_flush`](Self::poll_flush).
    ///
    /// # Errors
    /// When the connection or its TLS has broken.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        blocks: &Blocks,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, StreamError>> {
        if self.session.is_some() {
            return self.poll_seal(cx, blocks, parts);
        }
        let sent = match parts {
            [one] => ready!(self.socket.poll_send(cx, one)),
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

    /// Sends `head` and then up to `len` bytes of `file` from `offset` on, which do not pass
    /// through us; says how many of both went. Only without TLS: see
    /// [`is_secure`](Self::is_secure).
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

    fn poll_seal(
        &mut self,
        cx: &mut Context<'_>,
        blocks: &Blocks,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, StreamError>> {
        // What waits for room goes first; only what waits for company is taken along.
        ready!(self.poll_flush(cx))?;
        self.held = false;
        let Some(session) = &mut self.session else {
            return Poll::Ready(Ok(0));
        };
        if session.owes() {
            session.seal_owed(&mut self.unsent)?;
        }
        let most = within(SEALED);
        let Sealing { plain, sealed, .. } = &mut *blocks.sealing.borrow_mut();
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
            let sent = match self.socket.poll_send(cx, &sealed[..used]) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => 0,
            };
            self.unsent.extend_from_slice(&sealed[sent..used]);
        } else {
            self.unsent.extend_from_slice(&sealed[..used]);
        }
        Poll::Ready(Ok(text.len()))
    }

    /// Completes when everything that was taken has been sent.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
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

    /// Completes when nothing that was taken waits here to be sent.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        if self.unsent.is_empty() {
            Poll::Ready(Ok(()))
        } else {
            self.poll_flush(cx)
        }
    }

    /// Completes when something would be taken and sent, as far as is known without a system call.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        ready!(self.poll_sent(cx))?;
        self.socket.poll_writable(cx).map_err(StreamError::from)
    }

    /// Completes when the peer has reset the connection. A peer that has only finished sending
    /// still listens.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_gone(cx)
    }

    /// Whether nothing has come and the peer is still there, as far as the runtime has heard:
    /// mostly no system call.
    pub fn is_quiet(&self) -> bool {
        let waiting = |session: &Session| session.has_waiting() || session.is_closed();
        !self.session.as_deref().is_some_and(waiting) && self.socket.is_quiet()
    }

    /// The same, asked of the kernel: one system call.
    pub fn is_quiet_now(&self) -> bool {
        self.is_quiet() && self.socket.is_quiet_now()
    }

    /// Says that nothing more will be written, by TLS too, once everything that was taken has been
    /// sent.
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

    /// Tells a TLS peer by an alert why we end.
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
