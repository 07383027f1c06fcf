//! The byte stream below the h2 crate, which speaks with endpoints: with one read and one write in a
//! turn of the driver.
//!
//! The h2 crate writes frame by frame and flushes whenever its own buffer is full. Here its frames
//! are gathered, and leave together when the driver has let the crate do all that it can do now.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lockgate_net::acknowledge::ReadPauses;
use lockgate_net::stream::{BufferPool, ReadBuffer, Stream, StreamError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::endpoint_frames::EndpointFrames;

/// Bytes of gathered frames beyond which the crate must wait: gathered frames cannot be reordered
/// by priority.
const GATHERED: usize = 64 * 1024;

/// Gathered frames beyond which more will follow.
const FEW: usize = 8 * 1024;

/// What gathered frames need at most, but for long heads.
const MOST_GATHERED: usize = GATHERED + 32 * 1024;

/// The most reads in a turn.
const READS: usize = 8;

/// The bytes of an HTTP/2 connection, both ways.
#[derive(Debug)]
pub(super) struct FrameIo {
    stream: Stream,
    inbox: ReadBuffer,
    blocks: Rc<BufferPool>,
    /// Frames to send, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Whether the peer takes nothing now.
    blocked: bool,
    /// Reads left in this turn.
    reads: usize,
    /// Bytes sent, and bytes received.
    moved: (u64, u64),
    /// The checks of the endpoint's frames.
    endpoint_frames: EndpointFrames,
    pauses: ReadPauses,
    /// Why the connection broke, of which the crate sees only an I/O error.
    broken: Option<StreamError>,
}

impl FrameIo {
    /// The bytes of a new connection to an endpoint that may send fields of up to `longest` bytes.
    pub(super) fn to_endpoint(stream: Stream, blocks: &Rc<BufferPool>, longest: usize) -> Self {
        Self {
            stream,
            inbox: ReadBuffer::new(blocks),
            blocks: Rc::clone(blocks),
            out: Vec::new(),
            sent: 0,
            blocked: false,
            reads: READS,
            moved: (0, 0),
            endpoint_frames: EndpointFrames::new(longest),
            pauses: ReadPauses::default(),
            broken: None,
        }
    }

    /// The connection.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The checks of the endpoint's frames.
    pub(super) fn endpoint_frames(&mut self) -> &mut EndpointFrames {
        &mut self.endpoint_frames
    }

    /// Takes the reason why the connection broke, if it did.
    pub(super) fn take_broken(&mut self) -> Option<StreamError> {
        self.broken.take()
    }

    /// Whether the peer is waited for: it takes no bytes now.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Bytes of frames sent, and received.
    pub(super) fn bytes_moved(&self) -> (u64, u64) {
        self.moved
    }

    /// Begins a turn of the driver, with a limited number of reads: then the worker's other
    /// connections are served.
    pub(super) fn begin_turn(&mut self) {
        self.reads = READS;
    }

    /// Ends a turn: received bytes are acknowledged at once where the rest of a message is waited
    /// for, unless bytes sent in this turn carry the acknowledgement.
    pub(super) fn await_rest(&mut self) {
        let within = self.endpoint_frames.is_within_frame();
        let partial_message = self.endpoint_frames.partial_message();
        if (within || partial_message.is_awaited()) && self.stream.await_rest() {
            partial_message.acknowledged();
        }
    }

    /// Sends the gathered frames.
    ///
    /// # Errors
    /// When the connection has broken.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.blocked = true;
        while self.sent < self.out.len() {
            let sent = ready!(
                self.stream
                    .poll_write(cx, &self.blocks, &[&self.out[self.sent..]])
            );
            let sent = sent.map_err(|error| self.record_failure(error))?;
            self.sent += sent;
            self.moved.0 += sent as u64;
        }
        self.sent = 0;
        if self.out.capacity() > 0 {
            self.blocks.take_back(std::mem::take(&mut self.out));
        }
        ready!(self.stream.poll_flush(cx)).map_err(|error| self.record_failure(error))?;
        self.blocked = false;
        Poll::Ready(Ok(()))
    }

    fn record_failure(&mut self, error: StreamError) -> io::Error {
        let told = io::Error::new(io::ErrorKind::BrokenPipe, error.to_string());
        self.broken.get_or_insert(error);
        told
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.inbox.is_empty() {
            if self.reads == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.reads -= 1;
            match self.stream.poll_read(cx, &mut self.inbox) {
                Poll::Ready(Ok(true)) => {
                    self.pauses.note(self.stream.socket(), None);
                    self.moved.1 += self.inbox.bytes().len() as u64;
                    self.endpoint_frames.observe(self.inbox.bytes());
                    if self.endpoint_frames.is_flooded() {
                        let error = io::Error::other("too many interim responses");
                        return Poll::Ready(Err(self.record_failure(error.into())));
                    }
                }
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => {
                    self.stream.alert(cx, &error);
                    return Poll::Ready(Err(self.record_failure(error)));
                }
                Poll::Pending => {
                    self.inbox.release_block();
                    return Poll::Pending;
                }
            }
        }
        let bytes = self.inbox.bytes();
        let here = bytes.len().min(buf.remaining());
        buf.put_slice(&bytes[..here]);
        self.inbox.consume(here);
        Poll::Ready(Ok(()))
    }

    fn queue(&mut self, bytes: &[u8]) {
        let len = self.out.len() + bytes.len();
        if len > self.out.capacity() && len > FEW {
            // Data follows data: grown step by step, the same bytes are copied several times.
            self.out.reserve_exact(MOST_GATHERED);
        }
        self.out.extend_from_slice(bytes);
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.len() - self.sent >= GATHERED {
            ready!(self.poll_send(cx))?;
        }
        if self.out.capacity() == 0 {
            self.out = self.blocks.text();
        }
        Poll::Ready(Ok(()))
    }
}

/// The crate's end of a [`FrameIo`]; only the driver of the connection polls it.
#[derive(Debug)]
pub(super) struct Io(pub(super) Rc<RefCell<FrameIo>>);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut frame_io = self.0.borrow_mut();
        ready!(frame_io.poll_room(cx))?;
        frame_io.queue(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut frame_io = self.0.borrow_mut();
        ready!(frame_io.poll_room(cx))?;
        for buf in bufs {
            frame_io.queue(buf);
        }
        Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: gathered frames leave by [`FrameIo::poll_send`].
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut frame_io = self.0.borrow_mut();
        ready!(frame_io.poll_send(cx))?;
        let finished = ready!(frame_io.stream.poll_finish(cx));
        Poll::Ready(finished.map_err(|error| frame_io.record_failure(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use lockgate_http::h2::frames;
    use lockgate_net::socket::{Socket, SocketFamily};

    use super::*;
    use lockgate_net::reactor::Reactor;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        [
            &[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream],
            payload,
        ]
        .concat()
    }

    /// Sends a request to an endpoint, which then sends `bytes`; returns how often these were
    /// acknowledged at once when the turn is over.
    async fn acknowledged(bytes: &[u8]) -> u8 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (mut endpoint, _) = listener.accept().unwrap();
        let stream = Stream::new(
            Socket::new(socket.into(), SocketFamily::Tcp).unwrap(),
            None,
            Vec::new(),
        );
        let frame_io = Rc::new(RefCell::new(FrameIo::to_endpoint(
            stream,
            &BufferPool::new(),
            1_024,
        )));
        let mut io = Io(Rc::clone(&frame_io));
        poll_fn(|cx| Pin::new(&mut io).poll_write(cx, b"ask"))
            .await
            .unwrap();
        poll_fn(|cx| frame_io.borrow_mut().poll_send(cx))
            .await
            .unwrap();
        endpoint.read_exact(&mut [0; 3]).unwrap();
        endpoint.write_all(bytes).unwrap();
        let mut read = 0;
        while read < bytes.len() {
            let (mut room, before) = ([0; 1024], frame_io.borrow().bytes_moved().1);
            poll_fn(|cx| Pin::new(&mut io).poll_read(cx, &mut ReadBuf::new(&mut room)))
                .await
                .unwrap();
            read += (frame_io.borrow().bytes_moved().1 - before) as usize;
        }
        frame_io.borrow_mut().await_rest();
        frame_io.borrow().stream().socket().acknowledged()
    }

    #[test]
    fn partial_h2_responses_are_acknowledged_at_once() {
        let head = frame(frames::HEADERS, frames::END_HEADERS, 1, b"\x88");
        let data = frame(frames::DATA, 0, 1, b"da");
        let last = frame(frames::DATA, frames::END_STREAM, 1, b"ta");
        let reactor = Reactor::new().unwrap();
        for (bytes, expected) in [
            ([head.clone(), last.clone()].concat(), 0),
            ([head.clone(), data.clone(), last.clone()].concat(), 0),
            (frame(frames::SETTINGS, 0, 0, b""), 0),
            (head.clone(), 1),
            ([head.clone(), data].concat(), 1),
            ([&head[..], &last[..10]].concat(), 1),
            (head[..5].to_vec(), 1),
        ] {
            assert_eq!(
                reactor.block_on(acknowledged(&bytes)).unwrap(),
                expected,
                "{bytes:?}"
            );
        }
    }
}
