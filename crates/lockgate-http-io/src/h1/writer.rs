//! The writer of HTTP/1 messages: small data is copied to a buffer, large data is written from the
//! buffer that received it, and both leave in one system call.

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lockgate_http::fields::{Field, Fields};
use lockgate_http::h1::encode;
use lockgate_http::head::BodyLength;
use lockgate_net::stream::{BufferPool, Stream, StreamError};

/// Data up to this size is copied to the buffer: cheaper than one more slice in the system call.
const SMALL: usize = 4 * 1024;
/// Data from this size on that is not the last is a part of much: the rest is read already, or comes
/// soon.
const MUCH: usize = 32 * 1024;
/// Bytes in the buffer beyond which it must leave first.
const GATHERED: usize = 16 * 1024;

/// The messages to the peer of one connection.
#[derive(Debug)]
pub struct MessageWriter {
    blocks: Rc<BufferPool>,
    /// Heads, small data, and framing of chunks; sent up to `sent`.
    out: Vec<u8>,
    sent: usize,
    chunked: bool,
    /// Bytes of data that the current chunk still needs.
    owed: usize,
    ended: bool,
    moved: u64,
    /// Whether any byte of the message has left.
    left: bool,
    blocked: bool,
}

impl MessageWriter {
    /// A writer without a message.
    pub fn new(blocks: &Rc<BufferPool>) -> Self {
        Self {
            blocks: Rc::clone(blocks),
            out: Vec::new(),
            sent: 0,
            chunked: false,
            owed: 0,
            ended: true,
            moved: 0,
            left: false,
            blocked: false,
        }
    }

    /// The buffer of what leaves with the next data, or by a flush: heads are appended to it.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.out.capacity() == 0 {
            self.out = self.blocks.text();
        }
        &mut self.out
    }

    /// Begins the body behind the head that was just written.
    pub fn begin_body(&mut self, length: BodyLength) {
        self.chunked = length == BodyLength::Chunked;
        self.owed = 0;
        self.ended = length == BodyLength::Empty;
        self.moved = 0;
        self.left = false;
    }

    /// Whether the whole message was taken; it may still have to be flushed.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether any byte of the message has left, or may have.
    pub fn has_sent(&self) -> bool {
        self.left
    }

    /// Whether the peer is waited for: it takes nothing now.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether bytes wait to leave.
    pub fn holds_bytes(&self) -> bool {
        !self.out.is_empty()
    }

    /// Bytes that wait to leave.
    pub fn pending(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Bytes of the body's data that were taken so far.
    pub fn bytes_written(&self) -> u64 {
        self.moved
    }

    /// Takes data of the body and returns how many bytes of it; `last` when none follows.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, StreamError>> {
        self.blocked = true;
        if self.out.len() - self.sent > GATHERED {
            ready!(self.poll_flush(cx, stream))?;
        }
        let here = if self.chunked && self.owed > 0 {
            &data[..data.len().min(self.owed)]
        } else {
            data
        };
        let last = last && here.len() == data.len();
        if self.chunked && self.owed == 0 && !here.is_empty() {
            self.owed = here.len();
            encode::chunk(self.buffer(), here.len());
        }
        if here.len() <= SMALL {
            self.buffer().extend_from_slice(here);
            self.took(here.len());
            if last {
                self.finish(None, |_| true);
            }
            self.blocked = false;
            return Poll::Ready(Ok(here.len()));
        }
        let around: &[u8] = match (self.chunked && self.owed == here.len(), last) {
            (true, true) => b"\r\n0\r\n\r\n",
            (true, false) => b"\r\n",
            (false, _) => b"",
        };
        let before = self.out.len() - self.sent;
        let written = match (before, around.len()) {
            (0, 0) if !last && here.len() >= MUCH => {
                ready!(stream.poll_write_more(cx, &self.blocks, here))
            }
            (0, 0) => ready!(stream.poll_write(cx, &self.blocks, &[here])),
            (_, 0) => ready!(stream.poll_write(cx, &self.blocks, &[&self.out[self.sent..], here])),
            _ => {
                ready!(stream.poll_write(cx, &self.blocks, &[&self.out[self.sent..], here, around]))
            }
        }?;
        self.left = true;
        self.blocked = false;
        if written < before {
            self.sent += written;
            // The next call finds out whether there is room for more.
            return Poll::Ready(Ok(0));
        }
        self.clear();
        let taken = (written - before).min(here.len());
        if self.chunked {
            self.owed -= taken;
        }
        self.moved += taken as u64;
        if taken == here.len() {
            if !around.is_empty() {
                self.buffer()
                    .extend_from_slice(&around[written - before - taken..]);
            }
            self.ended |= last;
        }
        Poll::Ready(Ok(taken))
    }

    /// Sends data of the body from a file, up to `len` bytes from `offset` on, and returns how
    /// many; 0 is the end of the file. Only without TLS, and for a body with Content-Length.
    ///
    /// # Errors
    /// When the connection has broken, or the file cannot be read.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        (file, offset, len): (BorrowedFd<'_>, u64, usize),
        last: bool,
    ) -> Poll<Result<usize, StreamError>> {
        self.blocked = true;
        loop {
            let (head, sent) =
                ready!(stream.poll_send_file(cx, &self.out[self.sent..], (file, offset, len)))?;
            self.left = true;
            self.sent += head;
            if self.sent < self.out.len() || (head > 0 && sent == 0) {
                if self.sent == self.out.len() {
                    self.clear();
                }
                continue;
            }
            self.clear();
            self.blocked = false;
            self.moved += sent as u64;
            self.ended |= last && sent == len;
            return Poll::Ready(Ok(sent));
        }
    }

    fn took(&mut self, count: usize) {
        self.moved += count as u64;
        if self.chunked && count > 0 {
            self.owed -= count;
            if self.owed == 0 {
                self.buffer().extend_from_slice(b"\r\n");
            }
        }
    }

    /// Ends the body, with the trailers that `passes` accepts.
    pub fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool) {
        if std::mem::replace(&mut self.ended, true) || !self.chunked {
            return;
        }
        let out = self.buffer();
        match trailers {
            None => out.extend_from_slice(encode::LAST_CHUNK),
            Some(trailers) => {
                out.extend_from_slice(b"0\r\n");
                trailers.write(out, passes);
                encode::end(out);
            }
        }
    }

    /// Completes when all taken data has left.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<Result<(), StreamError>> {
        self.blocked = true;
        while self.sent < self.out.len() {
            self.sent += ready!(stream.poll_write(cx, &self.blocks, &[&self.out[self.sent..]]))?;
            self.left = true;
        }
        self.clear();
        ready!(stream.poll_flush(cx))?;
        self.blocked = false;
        Poll::Ready(Ok(()))
    }

    /// Completes when no encrypted record waits to leave.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_sent(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<Result<(), StreamError>> {
        let sent = stream.poll_sent(cx);
        self.blocked |= sent.is_pending();
        sent
    }

    /// Completes when the socket is writable, as far as is known without a system call.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<Result<(), StreamError>> {
        let room = stream.poll_room(cx);
        self.blocked = room.is_pending();
        room
    }

    /// Drops the unsent part of a message that is given up.
    pub fn discard(&mut self) {
        self.clear();
        self.ended = true;
    }

    fn clear(&mut self) {
        self.sent = 0;
        if self.out.capacity() > 0 {
            self.blocks.take_back(std::mem::take(&mut self.out));
        }
    }
}
