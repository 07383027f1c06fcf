//! A connection to a server as tokio's traits of a byte stream, with or without TLS.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lockgate_net::dial::DialTarget;
use lockgate_net::socket::Socket;
use lockgate_net::stream::{BufferPool, ReadBuffer, Stream, StreamError};
use lockgate_net::tls::handshake::Established;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::head_judge::HeadJudge;
use crate::limits::ExchangeLimits;

/// A connection to a server, before HTTP is spoken on it.
#[derive(Debug)]
pub struct ServerStream {
    pub(crate) stream: Stream,
    buffers: Rc<BufferPool>,
    inbox: ReadBuffer,
    address: DialTarget,
    pub(crate) limits: ExchangeLimits,
    /// Whether nothing is read before the first write.
    pub(crate) writes_first: bool,
    pub(crate) judge: Rc<RefCell<HeadJudge>>,
}

impl ServerStream {
    pub(crate) fn new(
        socket: Socket,
        tls: Option<Established>,
        address: DialTarget,
        limits: ExchangeLimits,
    ) -> Self {
        let buffers = BufferPool::new();
        let (session, unsent) = tls.map(|made| (made.session, made.unsent)).unzip();
        Self {
            stream: Stream::new(socket, session, unsent.unwrap_or_default()),
            inbox: ReadBuffer::new(&buffers),
            buffers,
            address,
            limits,
            writes_first: false,
            judge: Rc::default(),
        }
    }

    /// The address that accepted.
    pub fn address(&self) -> &DialTarget {
        &self.address
    }
}

impl ServerStream {
    /// Bytes that have come and were not consumed.
    pub(crate) fn received(&self) -> &[u8] {
        self.inbox.bytes()
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.inbox.consume(count);
    }

    /// Reads more behind the received bytes; `false` at the end.
    ///
    /// # Errors
    /// When the connection has broken.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let read = match ready!(self.stream.poll_read(cx, &mut self.inbox)) {
            // Without a close_notify an end may be a truncation: the reader sees whether anything is
            // missing.
            Err(StreamError::Truncated) => Ok(false),
            read => read.map_err(io::Error::other),
        };
        Poll::Ready(read)
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.writes_first {
            return Poll::Pending;
        }
        if this.inbox.is_empty() {
            match ready!(this.stream.poll_read(cx, &mut this.inbox)) {
                // Without a close_notify an end may be a truncation: the reader sees whether
                // anything is missing.
                Ok(_) | Err(StreamError::Truncated) => {}
                Err(error) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let bytes = this.inbox.bytes();
        let bytes = bytes.get(..buffer.remaining()).unwrap_or(bytes);
        this.judge.borrow_mut().observe(bytes)?;
        buffer.put_slice(bytes);
        let read = bytes.len();
        this.inbox.consume(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if mem::take(&mut this.writes_first) {
            cx.waker().wake_by_ref();
        }
        let sent = this.stream.poll_write(cx, &this.buffers, &[bytes]);
        sent.map_err(io::Error::other)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx).map_err(io::Error::other)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_finish(cx).map_err(io::Error::other)
    }
}
