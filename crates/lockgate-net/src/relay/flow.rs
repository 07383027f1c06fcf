//! One direction of a relay: reads from one side, writes to the other, keeps bytes that it does not
//! accept at once.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::bulk_reads::BulkReads;
use super::meter::Meter;
use super::read_size::ReadSize;
use super::source::{SourceEnd, SourceRead, poll_read};
use super::{ByteObserver, CopyBuffers, RelayEnd};
use crate::acknowledge::{EarlyAck, EndpointStalls, ReadPauses};
use crate::nanos::Nanos;
use crate::socket::SocketFamily;
use crate::splice::{self, Pipe, Pipes};
use crate::stream::StreamError;
use crate::traffic_shaping::{Shaper, ShapingQueue};

/// The most reads of one direction per turn; then the worker's other connections have theirs.
const TURNS: usize = 16;
/// The most bytes of a source that are discarded after the sink has ended.
const DISCARDED: usize = 1024 * 1024;
/// The number of full reads in a row, of 64 and 128 KB, after which plain TCP is spliced.
const FULL_READS: u8 = 2;
/// A splice that moves less than this does not pay...
const SMALL_SPLICE: usize = 16 * 1024;
/// ...when it happens this often in a row.
const SMALL_SPLICES: u8 = 4;

/// The side that ended a direction by a failure.
pub(super) enum FlowError {
    /// The side that it reads from.
    Source(StreamError),
    /// The side that it writes to.
    Sink(StreamError),
}

/// The context of one direction during one poll.
pub(super) struct FlowContext<'a> {
    pub(super) from: &'a mut RelayEnd,
    pub(super) to: &'a mut RelayEnd,
    pub(super) buffers: &'a mut CopyBuffers,
    pub(super) pipes: &'a Rc<Pipes>,
    pub(super) queue: &'a ShapingQueue,
    pub(super) meter: &'a Meter,
    /// The bytes moved this way.
    pub(super) moved: &'a Cell<u64>,
    /// The bytes moved the other way.
    pub(super) answered: u64,
    /// The stalls of the endpoint, if it is the source.
    pub(super) stalls: Option<&'a EndpointStalls>,
    /// Whether the other direction has ended.
    pub(super) last: bool,
    /// Whether the source has failed already, so that its end may be a truncation.
    pub(super) cut: bool,
}

impl FlowContext<'_> {
    fn count(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
    }
}

/// The stage of a direction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowStage {
    /// The source may send more.
    #[default]
    Open,
    /// The source has ended; pending bytes are sent before the end.
    Ending,
    /// The sink accepts no more; further bytes of the source are discarded, so that it can receive
    /// the response.
    Refused,
    /// The end was sent to the sink.
    Ended,
}

/// One direction of a relay.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) stage: FlowStage,
    /// Bytes from the source, sealed for the sink if it uses TLS, and sent up to `sent`.
    pub(super) pending: Vec<u8>,
    pub(super) sent: usize,
    /// Bytes to send with the first data, or with the end if there is none.
    pub(super) held: Vec<u8>,
    /// Discarded bytes, because the sink accepts no more.
    discarded: usize,
    /// Whether the source's TLS was truncated: the received data was delivered, but may be
    /// incomplete.
    pub(super) truncated: bool,
    /// The room of its pipes, while it is spliced.
    pub(super) spliced: Option<usize>,
    /// A pipe is lent while bytes are in it: those of many directions are few, large, and in the
    /// cache.
    pub(super) pipe: Option<Pipe>,
    /// The rate limit of reads, if any.
    pub(super) shaper: Option<Box<Shaper>>,
    /// The observer of the first bytes; a splice begins only after more bytes than it needs.
    pub(super) observer: Option<Box<dyn ByteObserver>>,
    read_size: ReadSize,
    bulk: BulkReads,
    full_reads: u8,
    small_splices: u8,
    no_splice: bool,
    pauses: ReadPauses,
    early_ack: EarlyAck,
}

impl Flow {
    /// A direction with pending bytes.
    pub(super) fn pending(pending: Vec<u8>) -> Self {
        Self {
            pending,
            ..Self::default()
        }
    }

    /// A direction with bytes that leave with its first data.
    pub(super) fn holding(held: Vec<u8>) -> Self {
        Self {
            held,
            ..Self::default()
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.stage, FlowStage::Open | FlowStage::Refused)
    }

    /// The size of the next read.
    #[cfg(test)]
    pub(super) fn read_size(&self) -> ReadSize {
        self.read_size
    }

    /// The bulk state.
    #[cfg(test)]
    pub(super) fn bulk(&self) -> &BulkReads {
        &self.bulk
    }

    /// Whether the next poll would read, not flush.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == FlowStage::Open && self.pending.is_empty() && self.pipe.is_none()
    }

    /// Whether only its shaper holds it.
    pub(super) fn is_held(&self) -> bool {
        self.shaper
            .as_ref()
            .is_some_and(|shaper| shaper.is_waited_for())
    }

    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        context: &mut FlowContext<'_>,
    ) -> Poll<Result<(), FlowError>> {
        let polled = self.poll_turns(cx, context);
        if let Some(shaper) = &mut self.shaper {
            // Nothing more can be moved now: the rest is for others.
            shaper.give_back();
        }
        polled
    }

    fn poll_turns(
        &mut self,
        cx: &mut Context<'_>,
        context: &mut FlowContext<'_>,
    ) -> Poll<Result<(), FlowError>> {
        for _ in 0..TURNS {
            ready!(self.poll_flush(cx, context))?;
            match self.stage {
                // Only after all pending bytes: a peer that asks and does not read must not fill
                // our memory.
                FlowStage::Open if context.to.owes() && !self.holds_bytes() => {
                    self.append_owed(context)?
                }
                FlowStage::Open if self.spliced.is_some() => ready!(self.poll_splice(cx, context))?,
                FlowStage::Open => ready!(self.poll_copy(cx, context))?,
                FlowStage::Ending => {
                    // If the other direction has ended too, the close that follows suffices.
                    if !context.last {
                        context
                            .to
                            .socket
                            .shutdown_write()
                            .or_else(already_gone)
                            .map_err(sink)?;
                    }
                    self.stage = FlowStage::Ended;
                }
                FlowStage::Refused => ready!(self.poll_discard(cx, context))?,
                FlowStage::Ended => return Poll::Ready(Ok(())),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Continues without its failed sink: the opposite direction may still have a response to
    /// deliver.
    pub(super) fn refuse(&mut self, from: &RelayEnd) {
        self.bulk.stop(&from.socket);
        self.stage = FlowStage::Refused;
        self.pending = Vec::new();
        self.sent = 0;
        self.spliced = None;
        self.pipe = None;
    }

    /// Completes when the source may be read, with the number of bytes. The shaper is asked only
    /// when there is something to read: a silent source must not take the tokens of others.
    fn poll_allowed(
        &mut self,
        cx: &mut Context<'_>,
        context: &FlowContext<'_>,
    ) -> Poll<Result<usize, FlowError>> {
        let left = usize::try_from(context.meter.left()).unwrap_or(usize::MAX);
        if left == 0 {
            // The side that failed ends it.
            return Poll::Pending;
        }
        let Some(shaper) = &mut self.shaper else {
            return Poll::Ready(Ok(left));
        };
        let read = context
            .from
            .session
            .as_ref()
            .is_some_and(|session| session.has_waiting() || session.is_closed());
        if !shaper.is_asked() && !read {
            let readable = ready!(context.from.socket.poll_readable(cx));
            readable.map_err(|error| FlowError::Source(error.into()))?;
        }
        let allowed = ready!(shaper.poll(cx));
        let held_for = shaper.take_waited();
        if held_for > Nanos::ZERO {
            context
                .meter
                .held_for
                .set(context.meter.held_for.get() + held_for);
            // A pause of ours is no pause of the source.
            self.pauses.forget();
        }
        Poll::Ready(Ok(allowed.min(left)))
    }

    fn spend(&mut self, bytes: usize) {
        if let Some(shaper) = &mut self.shaper {
            shaper.spend(bytes);
        }
    }

    /// Whether any bytes are kept.
    fn holds_bytes(&self) -> bool {
        !self.pending.is_empty() || self.pipe.as_ref().is_some_and(|pipe| pipe.holds() > 0)
    }

    /// Reads once and discards the bytes: closing with them unread would reset the connection, and
    /// the reset would overtake the response.
    fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        context: &mut FlowContext<'_>,
    ) -> Poll<Result<(), FlowError>> {
        match ready!(poll_read(
            cx,
            context.from,
            context.buffers,
            self.read_size,
            usize::MAX
        ))
        .map_err(FlowError::Source)?
        {
            SourceRead::Data { len, .. } => self.discarded += len,
            SourceRead::Nothing => {}
            SourceRead::End(_) => self.stage = FlowStage::Ended,
        }
        if context.last && self.discarded > DISCARDED {
            self.stage = FlowStage::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once and writes the bytes.
    fn poll_copy(
        &mut self,
        cx: &mut Context<'_>,
        context: &mut FlowContext<'_>,
    ) -> Poll<Result<(), FlowError>> {
        let Poll::Ready(allowed) = self.poll_allowed(cx, context) else {
            self.poll_early_ack(cx, context);
            return Poll::Pending;
        };
        let read = poll_read(
            cx,
            context.from,
            context.buffers,
            self.read_size.as_memory_allows(),
            allowed?,
        );
        if read.is_pending() {
            if context.from.session.is_some() && context.moved.get() == 0 {
                // So far there were TLS's own records: the next one may be delayed.
                context.from.socket.await_rest();
            }
            self.bulk
                .poll_pending(cx, &context.from.socket, context.queue);
            self.poll_early_ack(cx, context);
        }
        match ready!(read).map_err(FlowError::Source)? {
            SourceRead::Data { len, full } => {
                context.count(len);
                self.spend(len);
                // A limited rate sleeps enough, and plain TCP is spliced.
                if context.from.session.is_some() && self.shaper.is_none() {
                    self.bulk.note(
                        &context.from.socket,
                        len,
                        self.read_size.wire(),
                        context.answered,
                    );
                }
                self.note_read(full, context);
                if let Some(observer) = &mut self.observer
                    && observer.observe(&context.buffers.plain[..len]).is_break()
                {
                    self.observer = None;
                }
                let sent = self.send(cx, context, len);
                match (self.pending.is_empty(), full) {
                    (true, true) => self.read_size.grow(),
                    (true, false) => {}
                    (false, _) => self.read_size.shrink(),
                }
                sent
            }
            SourceRead::Nothing => Poll::Ready(Ok(())),
            SourceRead::End(ending) => {
                self.end(context, ending);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Waits for the rest of the client's message. The kernel delays nothing before something was
    /// sent to it; endpoints are known by their stalls.
    fn poll_early_ack(&mut self, cx: &mut Context<'_>, context: &FlowContext<'_>) {
        if context.stalls.is_none() && (context.answered > 0 || context.from.session.is_some()) {
            self.early_ack
                .poll_pending(cx, &context.from.socket, context.queue);
        }
    }

    /// Sends the first `len` bytes of the plain buffer; bytes that the sink does not accept become
    /// pending.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        context: &mut FlowContext<'_>,
        len: usize,
    ) -> Poll<Result<(), FlowError>> {
        // The end travels with the last bytes: one packet less, and the peer is woken once. Without
        // a shutdown(2) the end of the relay could become a reset that destroys them.
        let last = context.from.is_over() && !context.last && self.held.is_empty();
        let CopyBuffers { plain, sealed, .. } = context.buffers;
        let out = match &mut context.to.session {
            Some(session) => {
                let used = session.seal(&plain[..len], sealed).map_err(sink)?;
                &sealed[..used]
            }
            None => &plain[..len],
        };
        if !self.held.is_empty() {
            self.pending = std::mem::take(&mut self.held);
            self.pending.extend_from_slice(out);
            return self.poll_flush(cx, context);
        }
        let socket = &context.to.socket;
        let sent = if last {
            socket.poll_send_more(cx, out)
        } else {
            socket.poll_send(cx, out)
        };
        let sent = match sent {
            Poll::Ready(sent) => sent.map_err(sink)?,
            Poll::Pending => 0,
        };
        if sent < out.len() {
            self.pending = out[sent..].to_vec();
        }
        if last {
            self.end(context, SourceEnd::Clean);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends pending bytes, from memory or from the pipe.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        context: &mut FlowContext<'_>,
    ) -> Poll<Result<(), FlowError>> {
        while self.sent < self.pending.len() {
            let (socket, rest) = (&context.to.socket, &self.pending[self.sent..]);
            // The shutdown follows at once.
            let last = self.stage == FlowStage::Ending && !context.last;
            let sent = if last {
                socket.poll_send_more(cx, rest)
            } else {
                socket.poll_send(cx, rest)
            };
            let sent = ready!(sent).map_err(sink)?;
            self.sent += sent;
            context
                .meter
                .flushed
                .set(context.meter.flushed.get() + sent as u64);
        }
        if self.sent > 0 {
            // Freed rather than kept: idle connections are most of the memory.
            self.pending = Vec::new();
            self.sent = 0;
        }
        while let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.holds() > 0) {
            let sent = ready!(
                context
                    .to
                    .socket
                    .poll_write_with(cx, 1, |fd| pipe.drain(fd))
            )
            .map_err(sink)?;
            context
                .meter
                .flushed
                .set(context.meter.flushed.get() + sent as u64);
        }
        Poll::Ready(Ok(()))
    }

    /// Fills the pipe once; the next turn drains it.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        context: &mut FlowContext<'_>,
    ) -> Poll<Result<(), FlowError>> {
        let Poll::Ready(allowed) = self.poll_allowed(cx, context) else {
            self.pipe = None;
            return Poll::Pending;
        };
        let allowed = allowed?;
        if self.pipe.is_none() {
            self.pipe = self.spliced.and_then(|room| context.pipes.take(room));
        }
        let Some(pipe) = &mut self.pipe else {
            self.stop_splicing(context);
            return Poll::Ready(Ok(()));
        };
        // More is not worth a delay.
        let half_pipe = pipe.room() / 2;
        let mut unsupported = false;
        // A short splice does not mean that the source is empty, so it must not clear the
        // readiness: hence "1".
        let filled = context.from.socket.poll_read_with(cx, 1, |fd| {
            pipe.fill(fd, allowed)
                .inspect_err(|&errno| unsupported = splice::is_unsupported(errno))
        });
        if filled.is_pending() {
            self.pipe = None;
            self.bulk
                .poll_pending(cx, &context.from.socket, context.queue);
        }
        match ready!(filled) {
            Ok(0) => {
                self.stop_splicing(context);
                self.end(context, SourceEnd::Clean);
            }
            Ok(moved) => {
                context.count(moved);
                self.spend(moved);
                // A limited rate sleeps enough.
                if self.shaper.is_none() {
                    self.bulk
                        .note(&context.from.socket, moved, half_pipe, context.answered);
                }
                self.small_splices = if moved < SMALL_SPLICE {
                    self.small_splices.saturating_add(1)
                } else {
                    0
                };
                if self.small_splices >= SMALL_SPLICES {
                    ready!(self.poll_flush(cx, context))?;
                    self.stop_splicing(context);
                }
            }
            Err(_) if unsupported => {
                self.stop_splicing(context);
                self.no_splice = true;
            }
            Err(error) => return Poll::Ready(Err(FlowError::Source(error.into()))),
        }
        Poll::Ready(Ok(()))
    }

    fn stop_splicing(&mut self, context: &FlowContext<'_>) {
        self.bulk.stop(&context.from.socket);
        self.spliced = None;
        self.pipe = None;
        self.full_reads = 0;
        self.small_splices = 0;
    }

    /// Decides after a read whether to splice, and whether the source waits for acknowledgements.
    fn note_read(&mut self, full: bool, context: &FlowContext<'_>) {
        if full {
            self.full_reads = self.full_reads.saturating_add(1);
            if self.full_reads == FULL_READS
                && !self.no_splice
                && context.from.is_plain_tcp()
                && context.to.is_plain_tcp()
            {
                // A piece of a limited rate is read in as few calls as possible.
                self.spliced = Some(self.shaper.as_ref().map_or(0, |shaper| shaper.piece()));
            }
            return;
        }
        self.full_reads = 0;
        if context.from.socket.family() == SocketFamily::Tcp {
            self.early_ack
                .note(&context.from.socket, context.queue, &mut self.pauses);
            self.pauses.note(&context.from.socket, context.stalls);
        }
    }

    /// Handles the end of the source: a TLS sink gets close_notify, unless the source was
    /// truncated.
    fn end(&mut self, context: &mut FlowContext<'_>, ending: SourceEnd) {
        self.stage = FlowStage::Ending;
        self.pending.append(&mut self.held);
        match ending {
            SourceEnd::Truncated => self.truncated = true,
            SourceEnd::Clean if context.cut => {}
            SourceEnd::Clean => {
                if let Some(session) = &mut context.to.session {
                    session.seal_close(&mut self.pending);
                }
            }
        }
    }

    fn append_owed(&mut self, context: &mut FlowContext<'_>) -> Result<(), FlowError> {
        if let Some(session) = &mut context.to.session {
            // Records are sent in the order in which they were sealed.
            self.pending.append(&mut self.held);
            session.seal_owed(&mut self.pending).map_err(sink)?;
        }
        Ok(())
    }
}

/// A gone peer needs no shutdown: the reading direction finds out.
fn already_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotConnected {
        Ok(())
    } else {
        Err(error)
    }
}

fn sink(error: impl Into<StreamError>) -> FlowError {
    FlowError::Sink(error.into())
}
