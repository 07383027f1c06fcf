//! Bytes from one side of a connection to the other, both ways, until both have ended.
//!
//! A direction that ends is ended on the other side too, while the opposite one goes on (half-close). What a side
//! does not take at once is kept, at most one read's worth, and nothing more is read until it is gone: that is
//! all the memory a direction can use. Plain TCP in bulk is spliced. Does not watch the clock and does not log.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::dial::set_keepalive;
use crate::socket::{Family, Socket};
use crate::splice::{self, Pipe, Pipes};
use crate::tls::session::{Session, SessionError};

/// What one read asks for: 64 KB is four TLS records, and stays in the second-level cache.
const READ: usize = 64 * 1024;
/// What a cut record may leave in front of the next read: one of TLS 1.2 with the largest expansion.
const PARTIAL: usize = 20 * 1024;
/// Reads of one direction in one turn; then the worker's other connections have theirs.
const TURNS: usize = 16;
/// Full reads in a row after which a direction of plain TCP is spliced.
const FULL_READS: u8 = 3;
/// A splice that moves less than this is worth no pipe...
const SMALL_SPLICE: usize = 16 * 1024;
/// ...when it happens this often in a row.
const SMALL_SPLICES: u8 = 4;
/// A pause inside an answer as long as Linux delays an acknowledgement, 40 ms, is probably that.
const STALL: std::ops::Range<Duration> = Duration::from_millis(36)..Duration::from_millis(60);
/// Stalls of an endpoint after which its data is acknowledged at once.
const STALLS: u8 = 8;

/// The buffers that all relays of one worker share: nothing stays in them between two polls.
#[derive(Debug)]
pub struct Scratch {
    buffers: RefCell<Buffers>,
    pipes: Rc<Pipes>,
}

#[derive(Debug)]
struct Buffers {
    /// Received from TLS.
    wire: Box<[u8]>,
    /// Received in plain, or opened from `wire`.
    plain: Box<[u8]>,
    /// Sealed for TLS.
    sealed: Box<[u8]>,
}

impl Scratch {
    /// `pipes` are those of the same worker.
    pub fn new(pipes: Rc<Pipes>) -> Rc<Self> {
        let wire = vec![0; READ + PARTIAL].into();
        let plain: Box<[u8]> = vec![0; READ + PARTIAL].into();
        // Session tickets may lead the first data.
        let sealed = vec![0; Session::sealed_len(plain.len()) + READ].into();
        Rc::new(Self { buffers: RefCell::new(Buffers { wire, plain, sealed }), pipes })
    }
}

/// What an endpoint has shown of how it sends; shared by all its connections.
///
/// An origin that writes an answer in pieces with Nagle's algorithm on (RFC 896) waits for our acknowledgement of
/// the first piece, which the kernel delays by 40 ms in the hope of data to send it with (RFC 1122 §4.2.3.2). Once that was
/// seen a few times, its data is acknowledged at once; for other origins that would only cost packets.
#[derive(Debug, Default)]
pub struct Habits {
    stalls: AtomicU8,
}

impl Habits {
    fn stalls(&self) -> bool {
        self.stalls.load(Ordering::Relaxed) >= STALLS
    }

    fn stalled(&self) {
        let seen = self.stalls.load(Ordering::Relaxed);
        self.stalls.store(seen.saturating_add(1), Ordering::Relaxed);
    }
}

/// One end of a relay: a socket, and its TLS if it has any.
#[derive(Debug)]
pub struct Side {
    socket: Socket,
    session: Option<Box<Session>>,
}

impl Side {
    /// A side that speaks in plain.
    pub fn plain(socket: Socket) -> Self {
        Self { socket, session: None }
    }

    /// A side that speaks TLS.
    pub fn tls(socket: Socket, session: Box<Session>) -> Self {
        Self { socket, session: Some(session) }
    }

    /// The socket under it.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    fn owes(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.owes())
    }

    fn is_plain_tcp(&self) -> bool {
        self.session.is_none() && self.socket.family() == Family::Tcp
    }
}

/// Which side of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The client's.
    Downstream,
    /// The origin's.
    Upstream,
}

/// How a relay ended without anybody cutting it.
#[derive(Debug)]
pub enum End {
    /// Both sides have finished; this one did so first.
    Finished(Which),
    /// A side broke.
    Failed(Which, RelayError),
}

/// Why a side broke.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Its connection did.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its TLS did.
    #[error(transparent)]
    Tls(#[from] SessionError),
}

/// Bytes moved so far, application data only; read by others while the relay runs.
#[derive(Debug, Default)]
pub struct Meter {
    /// From the client to the origin.
    pub received: Cell<u64>,
    /// From the origin to the client.
    pub sent: Cell<u64>,
}

/// What is to be sent before anything else.
#[derive(Debug, Default)]
pub struct Preface {
    /// To the origin: a PROXY header, and what was read of the client's data already.
    pub upstream: Vec<u8>,
    /// To the client with the first data, as it goes over the wire: session tickets.
    pub downstream: Vec<u8>,
}

/// A relay between two connected sides.
#[derive(Debug)]
pub struct Relay {
    down: Side,
    up: Side,
    upward: Flow,
    downward: Flow,
    first: Option<Which>,
}

impl Relay {
    /// Joins two sides; `preface.upstream` is sealed if that side speaks TLS.
    ///
    /// # Errors
    /// When the preface cannot be sealed.
    pub fn new(down: Side, mut up: Side, preface: Preface) -> Result<Self, SessionError> {
        let pending = match &mut up.session {
            Some(session) if !preface.upstream.is_empty() => {
                let mut sealed = vec![0; Session::sealed_len(preface.upstream.len())];
                let used = session.seal(&preface.upstream, &mut sealed)?;
                sealed.truncate(used);
                sealed
            }
            _ => preface.upstream,
        };
        let upward = Flow { pending, ..Flow::default() };
        let downward = Flow { held: preface.downstream, ..Flow::default() };
        Ok(Self { down, up, upward, downward, first: None })
    }

    /// Moves bytes until both sides have ended or one has broken.
    ///
    /// Dropping the future ends nothing: the relay can be run again, or dropped, which closes both connections.
    pub async fn run(&mut self, scratch: &Scratch, meter: &Meter, habits: &Habits) -> End {
        poll_fn(|cx| self.poll(cx, scratch, meter, habits)).await
    }

    /// Has the kernel probe silent peers from now on: not at once, since most connections do not live to need it,
    /// and the options cost calls and timers.
    ///
    /// # Errors
    /// When an option cannot be set.
    pub fn probe(&self, idle: Duration) -> io::Result<()> {
        for side in [&self.down, &self.up] {
            if side.socket.family() == Family::Tcp {
                set_keepalive(&side.socket, idle)?;
            }
        }
        Ok(())
    }

    /// Whether tickets for the client wait for data to share a packet with.
    pub fn holds(&self) -> bool {
        !self.downward.held.is_empty()
    }

    /// Lets what is held go without data.
    pub fn release(&mut self) {
        // Whatever is pending was sealed after it, and so took it along.
        if self.downward.pending.is_empty() {
            self.downward.pending = std::mem::take(&mut self.downward.held);
        }
    }

    /// Tells a TLS client that we end; for a cut by a limit or a drain. What is unsent is lost.
    pub async fn abandon(&mut self) {
        poll_fn(|cx| {
            self.alert(cx, Which::Downstream, CLOSE_NOTIFY);
            Poll::Ready(())
        })
        .await;
    }

    fn poll(&mut self, cx: &mut Context<'_>, scratch: &Scratch, meter: &Meter, habits: &Habits) -> Poll<End> {
        let mut buffers = scratch.buffers.borrow_mut();
        loop {
            let mut lane = Lane {
                from: &mut self.down,
                to: &mut self.up,
                buffers: &mut buffers,
                pipes: &scratch.pipes,
                moved: &meter.received,
                habits: None,
                last: self.downward.stage == Stage::Ended,
            };
            let upward = self.upward.poll(cx, &mut lane);
            if let Poll::Ready(Err(fault)) = upward {
                return Poll::Ready(self.fail(cx, fault, Which::Downstream));
            }
            let mut lane = Lane {
                from: &mut self.up,
                to: &mut self.down,
                buffers: &mut buffers,
                pipes: &scratch.pipes,
                moved: &meter.sent,
                habits: Some((habits, meter.received.get())),
                last: self.upward.stage == Stage::Ended,
            };
            let downward = self.downward.poll(cx, &mut lane);
            if let Poll::Ready(Err(fault)) = downward {
                return Poll::Ready(self.fail(cx, fault, Which::Upstream));
            }
            if self.first.is_none() {
                self.first = match (self.upward.has_ended(), self.downward.has_ended()) {
                    (true, _) => Some(Which::Downstream),
                    (false, true) => Some(Which::Upstream),
                    (false, false) => None,
                };
            }
            match (upward, downward, self.first) {
                (Poll::Ready(_), Poll::Ready(_), Some(first)) => return Poll::Ready(End::Finished(first)),
                // The upstream's TLS wants to answer in the direction that was polled before it was read.
                _ if self.up.owes() && self.upward.is_idle() => {}
                _ => return Poll::Pending,
            }
        }
    }

    fn fail(&mut self, cx: &mut Context<'_>, fault: Fault, source: Which) -> End {
        let (which, error) = match fault {
            Fault::Source(error) => (source, error),
            Fault::Sink(error) => (source.other(), error),
        };
        if let RelayError::Tls(error) = &error
            && let Some(alert) = error.alert()
        {
            self.alert(cx, which, alert);
        }
        // The other side must not take what it got for the whole.
        let other = if which == Which::Downstream { &self.up } else { &self.down };
        other.socket.reset_on_close();
        End::Failed(which, error)
    }

    /// Tells a TLS peer why we end, unless it is in the middle of a record or its socket takes nothing now.
    fn alert(&mut self, cx: &mut Context<'_>, which: Which, alert: u8) {
        let (side, flow) = match which {
            Which::Downstream => (&mut self.down, &self.downward),
            Which::Upstream => (&mut self.up, &self.upward),
        };
        if let Some(session) = side.session.as_mut().filter(|_| flow.pending.is_empty() && flow.held.is_empty()) {
            let mut record = Vec::new();
            session.seal_alert(alert, &mut record);
            let _ = side.socket.poll_send(cx, &record);
        }
    }
}

impl Which {
    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Downstream => Self::Upstream,
            Self::Upstream => Self::Downstream,
        }
    }
}

/// Whose fault the end of a direction is.
enum Fault {
    Source(RelayError),
    Sink(RelayError),
}

const CLOSE_NOTIFY: u8 = 0;

/// What one direction works with during one poll.
struct Lane<'a> {
    from: &'a mut Side,
    to: &'a mut Side,
    buffers: &'a mut Buffers,
    pipes: &'a Rc<Pipes>,
    moved: &'a Cell<u64>,
    /// Those of the endpoint, when it is the source, and what it was sent so far.
    habits: Option<(&'a Habits, u64)>,
    /// Whether the other direction has ended.
    last: bool,
}

impl Lane<'_> {
    fn count(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
    }
}

/// How far a direction has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The source may send more.
    #[default]
    Open,
    /// The source has ended; what is pending goes out before the sink is told.
    Ending,
    /// The sink was told.
    Ended,
}

/// One direction.
#[derive(Debug, Default)]
struct Flow {
    stage: Stage,
    /// Taken from the source and not yet by the sink, as it goes over the sink's wire; from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    /// To be sent with the first data, or with the end if there is none.
    held: Vec<u8>,
    pipe: Option<Pipe>,
    full_reads: u8,
    small_splices: u8,
    no_splice: bool,
    /// When the last read was, and what the endpoint had been sent by then.
    last_read: Option<(Instant, u64)>,
}

impl Flow {
    fn has_ended(&self) -> bool {
        self.stage != Stage::Open
    }

    /// Whether the next poll would read, not flush.
    fn is_idle(&self) -> bool {
        self.stage == Stage::Open && self.pending.is_empty() && self.pipe.is_none()
    }

    fn poll(&mut self, cx: &mut Context<'_>, lane: &mut Lane<'_>) -> Poll<Result<(), Fault>> {
        for _ in 0..TURNS {
            if lane.to.owes() && self.stage != Stage::Ended {
                self.append_owed(lane)?;
            }
            ready!(self.poll_flush(cx, lane))?;
            match self.stage {
                Stage::Open if self.pipe.is_some() => ready!(self.poll_splice(cx, lane))?,
                Stage::Open => ready!(self.poll_copy(cx, lane))?,
                Stage::Ending => {
                    // Where the other direction has ended too, the close that follows says the same.
                    if !lane.last {
                        lane.to.socket.shutdown_write().or_else(already_gone).map_err(sink)?;
                    }
                    self.stage = Stage::Ended;
                }
                Stage::Ended => return Poll::Ready(Ok(())),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once and writes what was read.
    fn poll_copy(&mut self, cx: &mut Context<'_>, lane: &mut Lane<'_>) -> Poll<Result<(), Fault>> {
        match ready!(poll_read(cx, lane)).map_err(Fault::Source)? {
            Read::Data(len) => {
                lane.count(len);
                self.note_read(len, lane);
                self.send(cx, lane, len)
            }
            Read::Nothing => Poll::Ready(Ok(())),
            Read::End(ending) => {
                self.end(lane, ending);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Sends the first `len` bytes of the plain buffer; what the sink does not take becomes pending.
    fn send(&mut self, cx: &mut Context<'_>, lane: &mut Lane<'_>, len: usize) -> Poll<Result<(), Fault>> {
        let Buffers { plain, sealed, .. } = lane.buffers;
        let out = match &mut lane.to.session {
            Some(session) => {
                let held = std::mem::take(&mut self.held);
                sealed[..held.len()].copy_from_slice(&held);
                let used = session.seal(&plain[..len], &mut sealed[held.len()..]).map_err(sink)?;
                &sealed[..held.len() + used]
            }
            None => &plain[..len],
        };
        let sent = match lane.to.socket.poll_send(cx, out) {
            Poll::Ready(sent) => sent.map_err(sink)?,
            Poll::Pending => 0,
        };
        if sent < out.len() {
            self.pending = out[sent..].to_vec();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is pending, from memory or from the pipe.
    fn poll_flush(&mut self, cx: &mut Context<'_>, lane: &mut Lane<'_>) -> Poll<Result<(), Fault>> {
        while self.sent < self.pending.len() {
            self.sent += ready!(lane.to.socket.poll_send(cx, &self.pending[self.sent..])).map_err(sink)?;
        }
        if self.sent > 0 {
            // Given back rather than kept: idle connections are what memory is spent on.
            self.pending = Vec::new();
            self.sent = 0;
        }
        while let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.holds() > 0) {
            ready!(lane.to.socket.poll_write_with(cx, 1, |fd| pipe.drain(fd))).map_err(sink)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Fills the pipe once; the next turn drains it.
    fn poll_splice(&mut self, cx: &mut Context<'_>, lane: &mut Lane<'_>) -> Poll<Result<(), Fault>> {
        let Some(pipe) = &mut self.pipe else { return Poll::Ready(Ok(())) };
        let mut unsupported = false;
        // A short splice does not mean that the source is empty, so it must not clear the readiness: hence "1".
        let filled = lane.from.socket.poll_read_with(cx, 1, |fd| {
            pipe.fill(fd).inspect_err(|&errno| unsupported = splice::is_unsupported(errno))
        });
        match ready!(filled) {
            Ok(0) => {
                self.pipe = None;
                self.end(lane, Ending::Clean);
            }
            Ok(moved) => {
                lane.count(moved);
                self.small_splices = if moved < SMALL_SPLICE { self.small_splices + 1 } else { 0 };
                if self.small_splices >= SMALL_SPLICES {
                    ready!(self.poll_flush(cx, lane))?;
                    self.stop_splicing();
                }
            }
            Err(_) if unsupported => {
                self.stop_splicing();
                self.no_splice = true;
            }
            Err(error) => return Poll::Ready(Err(Fault::Source(error.into()))),
        }
        Poll::Ready(Ok(()))
    }

    fn stop_splicing(&mut self) {
        self.pipe = None;
        self.full_reads = 0;
        self.small_splices = 0;
    }

    /// Learns from a read whether to splice, and whether the endpoint waits for acknowledgements.
    fn note_read(&mut self, len: usize, lane: &Lane<'_>) {
        if len >= READ {
            self.full_reads = self.full_reads.saturating_add(1);
            if self.full_reads == FULL_READS && !self.no_splice && lane.from.is_plain_tcp() && lane.to.is_plain_tcp() {
                self.pipe = lane.pipes.take();
            }
            return;
        }
        self.full_reads = 0;
        let Some((habits, asked)) = lane.habits.filter(|_| lane.from.socket.family() == Family::Tcp) else { return };
        if habits.stalls() {
            lane.from.socket.acknowledge_now();
            return;
        }
        let now = Instant::now();
        // A pause after which the endpoint had been sent something new is its own, not that of an acknowledgement.
        if let Some((last, asked_then)) = self.last_read.replace((now, asked))
            && asked_then == asked
            && STALL.contains(&now.duration_since(last))
        {
            habits.stalled();
        }
    }

    /// The source has ended: a TLS sink is told so by TLS as well, unless the source was cut short.
    fn end(&mut self, lane: &mut Lane<'_>, ending: Ending) {
        self.stage = Stage::Ending;
        self.pending = std::mem::take(&mut self.held);
        if let (Some(session), Ending::Clean) = (&mut lane.to.session, ending) {
            session.seal_close(&mut self.pending);
        }
    }

    fn append_owed(&mut self, lane: &mut Lane<'_>) -> Result<(), Fault> {
        if let Some(session) = &mut lane.to.session {
            // Records leave in the order in which they were sealed.
            self.pending.append(&mut self.held);
            session.seal_owed(&mut self.pending).map_err(sink)?;
        }
        Ok(())
    }
}

/// What one read of a source gave.
enum Read {
    /// So many bytes at the front of the plain buffer.
    Data(usize),
    /// Bytes that were no data, or not a whole record.
    Nothing,
    /// The source has ended.
    End(Ending),
}

#[derive(Clone, Copy)]
enum Ending {
    Clean,
    /// A TLS source whose connection ended without a close_notify.
    Truncated,
}

fn poll_read(cx: &mut Context<'_>, lane: &mut Lane<'_>) -> Poll<Result<Read, RelayError>> {
    let Buffers { wire, plain, .. } = lane.buffers;
    let Side { socket, session } = lane.from;
    let Some(session) = session else {
        let received = ready!(socket.poll_recv(cx, &mut plain[..READ]))?;
        return Poll::Ready(Ok(if received == 0 { Read::End(Ending::Clean) } else { Read::Data(received) }));
    };
    let mut filled = session.partial_len();
    if !session.has_waiting() {
        if session.is_closed() {
            return Poll::Ready(Ok(Read::End(Ending::Clean)));
        }
        let received = ready!(socket.poll_recv(cx, &mut wire[filled..filled + READ]))?;
        if received == 0 {
            return Poll::Ready(Ok(Read::End(Ending::Truncated)));
        }
        filled += received;
    }
    let early = session.take_early();
    if !early.is_empty() {
        plain[..early.len()].copy_from_slice(&early);
        return Poll::Ready(Ok(Read::Data(early.len())));
    }
    let partial = session.take_partial();
    wire[..partial.len()].copy_from_slice(&partial);
    let done = session.open(&wire[..filled], plain)?;
    if done.consumed < filled {
        session.keep_partial(&wire[done.consumed..filled]);
    }
    Poll::Ready(Ok(if done.produced > 0 { Read::Data(done.produced) } else { Read::Nothing }))
}

/// A peer that is gone needs no shutdown: what it left is for the reading direction to find out.
fn already_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotConnected { Ok(()) } else { Err(error) }
}

fn sink(error: impl Into<RelayError>) -> Fault {
    Fault::Sink(error.into())
}

#[cfg(test)]
mod tests;
