//! What the frames of a connection travel on: a stream of bytes, read and written in as few system
//! calls as there are turns.
//!
//! The h2 crate writes frame by frame and asks for a flush whenever its own buffer is full. Here
//! its frames are gathered, and leave together when whoever drives the connection has let it do all
//! that it can do now.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lockgate_net::acknowledge::Pauses;
use lockgate_net::stream::{Blocks, Inbox, Stream, StreamError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::answers::Answers;
use super::gate::Gate;

/// Gathered frames beyond which the crate is asked to wait: what is gathered is in nobody's order
/// any more.
const GATHERED: usize = 64 * 1024;

/// Reads of one turn.
const READS: usize = 8;

/// A connection's bytes, both ways.
#[derive(Debug)]
pub struct Carrier {
    stream: Stream,
    inbox: Inbox,
    blocks: Rc<Blocks>,
    /// Frames that wait to leave, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Whether the peer takes nothing now.
    blocked: bool,
    /// Reads that are left in this turn.
    reads: usize,
    /// Whether a violation ends what is read.
    enforced: bool,
    /// Bytes that have left, and that have come.
    moved: (u64, u64),
    /// Looks at what comes.
    gate: Option<Gate>,
    /// The same at what endpoints answer.
    answers: Option<Answers>,
    /// How the peer sends.
    pauses: Pauses,
    /// Why it broke, which the crate is told only in the words of input and output.
    broken: Option<StreamError>,
}

impl Carrier {
    /// Over a connection of which `received` was read already.
    pub fn new(stream: Stream, blocks: &Rc<Blocks>, received: &[u8], gate: Option<Gate>) -> Self {
        let mut inbox = Inbox::new(blocks);
        inbox.extend(received);
        let mut carrier = Self {
            stream,
            inbox,
            blocks: Rc::clone(blocks),
            out: Vec::new(),
            sent: 0,
            blocked: false,
            reads: READS,
            enforced: false,
            moved: (0, 0),
            gate,
            answers: None,
            pauses: Pauses::default(),
            broken: None,
        };
        if let Some(gate) = &mut carrier.gate {
            gate.see(received, 0);
        }
        carrier
    }

    /// Over a connection to an endpoint on which nothing was said, and whose fields have up to
    /// `longest` bytes.
    pub fn to_endpoint(stream: Stream, blocks: &Rc<Blocks>, longest: usize) -> Self {
        Self {
            answers: Some(Answers::new(longest)),
            ..Self::new(stream, blocks, &[], None)
        }
    }

    /// The connection.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What it has seen of what comes.
    pub fn gate(&mut self) -> Option<&mut Gate> {
        self.gate.as_mut()
    }

    /// What was seen of an endpoint's answers.
    pub(super) fn answers(&mut self) -> Option<&mut Answers> {
        self.answers.as_mut()
    }

    /// Why it broke, if it did; once.
    pub fn take_broken(&mut self) -> Option<StreamError> {
        self.broken.take()
    }

    /// Whether the peer is waited for: it takes nothing now.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Bytes of frames that have left, and that have come.
    pub fn moved(&self) -> (u64, u64) {
        self.moved
    }

    /// Begins a turn, in which no more than a share is read: then the worker's other connections
    /// have theirs.
    pub fn begin_turn(&mut self) {
        self.reads = READS;
    }

    /// Is told at the end of a turn: what has come is acknowledged at once where the rest of it is
    /// waited for. What was sent in this turn has done that.
    pub fn await_rest(&mut self) {
        let (within, unfinished) = match (&mut self.gate, &mut self.answers) {
            (Some(gate), _) => (gate.is_within_frame(), gate.unfinished()),
            (None, Some(answers)) => (answers.is_within_frame(), answers.unfinished()),
            (None, None) => return,
        };
        if (within || unfinished.is_waited_for()) && self.stream.await_rest() {
            unfinished.told();
        }
    }

    /// From here on nothing of a client that breaks the rules is read: before, nobody could tell it
    /// so.
    pub fn enforce(&mut self) {
        self.enforced = true;
    }

    fn is_violated(&self) -> bool {
        self.gate
            .as_ref()
            .is_some_and(|gate| gate.violation().is_some())
    }

    /// Reads and forgets; `false` when nothing more comes.
    pub fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.inbox.consume(self.inbox.bytes().len());
        self.stream
            .poll_read(cx, &mut self.inbox)
            .map(|read| matches!(read, Ok(true)))
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// When the connection has broken.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.blocked = true;
        while self.sent < self.out.len() {
            let sent = ready!(
                self.stream
                    .poll_write(cx, &self.blocks, &[&self.out[self.sent..]])
            );
            let sent = sent.map_err(|error| self.breaks(error))?;
            self.sent += sent;
            self.moved.0 += sent as u64;
        }
        self.sent = 0;
        if self.out.capacity() > 0 {
            self.blocks.take_back(std::mem::take(&mut self.out));
        }
        ready!(self.stream.poll_flush(cx)).map_err(|error| self.breaks(error))?;
        self.blocked = false;
        Poll::Ready(Ok(()))
    }

    fn breaks(&mut self, error: StreamError) -> io::Error {
        let told = io::Error::new(io::ErrorKind::BrokenPipe, error.to_string());
        self.broken.get_or_insert(error);
        told
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.enforced && self.is_violated() {
            // Nobody acts on it.
            return Poll::Pending;
        }
        if self.inbox.is_empty() {
            let full = self.gate.as_ref().is_some_and(|gate| gate.is_full());
            if self.reads == 0 || full {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.reads -= 1;
            match self.stream.poll_read(cx, &mut self.inbox) {
                Poll::Ready(Ok(true)) => {
                    self.pauses.note(self.stream.socket(), None);
                    self.moved.1 += self.inbox.bytes().len() as u64;
                    if let Some(gate) = &mut self.gate {
                        gate.see(self.inbox.bytes(), self.moved.0);
                    }
                    if self.enforced && self.is_violated() {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    if let Some(answers) = &mut self.answers {
                        answers.see(self.inbox.bytes());
                        if answers.is_flooded() {
                            let error = io::Error::other("too many interim responses");
                            return Poll::Ready(Err(self.breaks(error.into())));
                        }
                    }
                }
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => {
                    self.stream.alert(cx, &error);
                    return Poll::Ready(Err(self.breaks(error)));
                }
                Poll::Pending => {
                    self.inbox.settle();
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

    fn gather(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        if let Some(gate) = &mut self.gate {
            gate.send(bytes);
        }
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

/// The crate's end of a [`Carrier`]; it is polled by nobody but whoever drives the connection.
#[derive(Debug)]
pub struct Io(pub Rc<RefCell<Carrier>>);

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
        let mut carrier = self.0.borrow_mut();
        ready!(carrier.poll_room(cx))?;
        carrier.gather(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut carrier = self.0.borrow_mut();
        ready!(carrier.poll_room(cx))?;
        for buf in bufs {
            carrier.gather(buf);
        }
        Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing: what is gathered leaves by [`Carrier::poll_send`].
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut carrier = self.0.borrow_mut();
        ready!(carrier.poll_send(cx))?;
        let finished = ready!(carrier.stream.poll_finish(cx));
        Poll::Ready(finished.map_err(|error| carrier.breaks(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use lockgate_http::h2::frames;
    use lockgate_net::socket::{Family, Socket};

    use super::*;

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
            Socket::new(socket.into(), Family::Tcp).unwrap(),
            None,
            Vec::new(),
        );
        let carrier = Rc::new(RefCell::new(Carrier::to_endpoint(
            stream,
            &Blocks::new(),
            1_024,
        )));
        let mut io = Io(Rc::clone(&carrier));
        poll_fn(|cx| Pin::new(&mut io).poll_write(cx, b"ask"))
            .await
            .unwrap();
        poll_fn(|cx| carrier.borrow_mut().poll_send(cx))
            .await
            .unwrap();
        endpoint.read_exact(&mut [0; 3]).unwrap();
        endpoint.write_all(bytes).unwrap();
        let mut read = 0;
        while read < bytes.len() {
            let (mut room, before) = ([0; 1024], carrier.borrow().moved().1);
            poll_fn(|cx| Pin::new(&mut io).poll_read(cx, &mut ReadBuf::new(&mut room)))
                .await
                .unwrap();
            read += (carrier.borrow().moved().1 - before) as usize;
        }
        carrier.borrow_mut().await_rest();
        carrier.borrow().stream().socket().acknowledged()
    }

    #[test]
    fn partial_h2_responses_are_acknowledged_at_once() {
        let head = frame(frames::HEADERS, frames::END_HEADERS, 1, b"\x88");
        let data = frame(frames::DATA, 0, 1, b"da");
        let last = frame(frames::DATA, frames::END_STREAM, 1, b"ta");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
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
                runtime.block_on(acknowledged(&bytes)),
                expected,
                "{bytes:?}"
            );
        }
    }
}
