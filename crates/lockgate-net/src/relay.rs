//! A relay of bytes between two sides of a connection, both ways, until both have ended.
//!
//! The end of a direction is passed on to the other side, while the opposite direction continues
//! (half-close). Bytes that a side does not accept at once are kept, at most one read, and nothing
//! more is read until they are sent: that bounds the memory of a direction. Plain TCP in bulk is
//! spliced. Has no deadlines and does not log.

mod bulk_reads;
mod flow;
mod meter;
mod read_size;
mod source;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::acknowledge::EndpointStalls;
use crate::socket::{Socket, SocketFamily};
use crate::splice::Pipes;
use crate::stream::StreamError;
use crate::tls::session::{SessionError, TlsSession};
use crate::traffic_shaping::{Shaper, ShapingQueue};

pub use meter::{DirectionTimes, Meter};

use flow::{Flow, FlowContext, FlowError, FlowStage};
use read_size::ReadSize;

/// The alert that ends a peer's data.
const CLOSE_NOTIFY: u8 = 0;

/// The buffers that all relays of one worker share; empty between two polls.
#[derive(Debug)]
pub struct RelayBuffers {
    buffers: RefCell<CopyBuffers>,
    pipes: Rc<Pipes>,
    queue: Rc<ShapingQueue>,
}

#[derive(Debug)]
struct CopyBuffers {
    /// Received records.
    wire: Box<[u8]>,
    /// Bytes received in plain, or opened from `wire`.
    plain: Box<[u8]>,
    /// Records to send.
    sealed: Box<[u8]>,
}

impl RelayBuffers {
    /// Keeps at most `limit` pipes open from now on.
    pub fn limit_pipes(&self, limit: usize) {
        self.pipes.set_limit(limit);
    }

    /// Buffers with the `pipes` and the `queue` of the same worker.
    pub fn new(pipes: Rc<Pipes>, queue: Rc<ShapingQueue>) -> Rc<Self> {
        let wire = vec![0; ReadSize::MOST_WIRE].into();
        let plain: Box<[u8]> = vec![0; ReadSize::MOST_WIRE].into();
        let sealed = vec![0; TlsSession::sealed_len(plain.len())].into();
        Rc::new(Self {
            buffers: RefCell::new(CopyBuffers {
                wire,
                plain,
                sealed,
            }),
            pipes,
            queue,
        })
    }
}

/// One end of a relay: a socket, with TLS or without.
#[derive(Debug)]
pub struct RelayEnd {
    socket: Socket,
    session: Option<Box<TlsSession>>,
}

impl RelayEnd {
    /// An end without TLS on this socket.
    pub fn plain(socket: Socket) -> Self {
        Self {
            socket,
            session: None,
        }
    }

    /// An end with TLS on this socket.
    pub fn tls(socket: Socket, session: Box<TlsSession>) -> Self {
        Self {
            socket,
            session: Some(session),
        }
    }

    /// The socket, for its options.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    fn owes(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.owes())
    }

    /// Whether all data is known to have been read.
    fn is_over(&self) -> bool {
        match &self.session {
            Some(session) => session.is_closed(),
            None => self.socket.has_ended(),
        }
    }

    fn is_plain_tcp(&self) -> bool {
        self.session.is_none() && self.socket.family() == SocketFamily::Tcp
    }
}

/// A side of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelaySide {
    /// The client's side of the proxy.
    Downstream,
    /// The origin's side of the proxy.
    Upstream,
}

/// The end of a relay that was not cut.
#[derive(Debug)]
pub enum RelayOutcome {
    /// Both sides have finished; this one did so first.
    Finished(RelaySide),
    /// This side failed, with this error.
    Failed(RelaySide, StreamError),
}

/// Bytes to send before anything else.
#[derive(Debug, Default)]
pub struct RelayPreface {
    /// To the origin: a PROXY header, and the client's data that was read already.
    pub upstream: Vec<u8>,
    /// To the client with the first data, sealed: session tickets.
    pub downstream: Vec<u8>,
}

/// An observer of a direction's first bytes.
pub trait ByteObserver: fmt::Debug {
    /// Receives the bytes of a direction from its beginning, in the pieces in which they are read,
    /// each before it is sent; returns whether it needs more. The bytes wait for it.
    fn observe(&mut self, bytes: &[u8]) -> ControlFlow<()>;
}

/// A relay between two connected sides.
#[derive(Debug)]
pub struct Relay {
    down: RelayEnd,
    up: RelayEnd,
    upward: Flow,
    downward: Flow,
    first: Option<RelaySide>,
    /// The error of the origin that accepts no more.
    refused: Option<StreamError>,
}

impl Relay {
    /// Joins two sides; `preface.upstream` is sealed if that side uses TLS.
    ///
    /// # Errors
    /// When the preface cannot be sealed.
    pub fn new(
        down: RelayEnd,
        mut up: RelayEnd,
        preface: RelayPreface,
    ) -> Result<Self, SessionError> {
        let pending = match &mut up.session {
            Some(session) if !preface.upstream.is_empty() => {
                let mut sealed = vec![0; TlsSession::sealed_len(preface.upstream.len())];
                let used = session.seal(&preface.upstream, &mut sealed)?;
                sealed.truncate(used);
                sealed
            }
            _ => preface.upstream,
        };
        let upward = Flow::pending(pending);
        let downward = Flow::holding(preface.downstream);
        Ok(Self {
            down,
            up,
            upward,
            downward,
            first: None,
            refused: None,
        })
    }

    /// Moves bytes until both sides have ended or one has failed; `stalls` are those of the
    /// endpoint.
    ///
    /// The caller may stop at any time and go on later. Dropping the relay closes both connections.
    pub fn poll_run(
        &mut self,
        cx: &mut Context<'_>,
        shared: &RelayBuffers,
        meter: &Meter,
        stalls: &EndpointStalls,
    ) -> Poll<RelayOutcome> {
        let end = self.poll(cx, shared, meter, stalls);
        meter
            .held
            .set(self.upward.is_held() || self.downward.is_held());
        meter.note(self.upward.has_ended(), self.downward.has_ended());
        end
    }

    /// Limits the rates of both directions: of reads from the client, and from the origin. Bytes
    /// beyond the rate are read later.
    pub fn shape(&mut self, received: Option<Shaper>, sent: Option<Shaper>) {
        self.upward.shaper = received.map(Box::new);
        self.downward.shaper = sent.map(Box::new);
    }

    /// Sets an observer of the origin's bytes.
    pub fn observe_upstream(&mut self, observer: Box<dyn ByteObserver>) {
        self.downward.observer = Some(observer);
    }

    /// Enables keep-alive probes of silent peers: not at once, since most connections do not live
    /// to need them, and the options cost calls and timers.
    ///
    /// # Errors
    /// When an option cannot be set.
    pub fn probe(&self, idle: Duration) -> io::Result<()> {
        [&self.down, &self.up]
            .into_iter()
            .try_for_each(|side| side.socket.probe(idle))
    }

    /// Gives back what TLS can make again, as for a wait that may be long: see
    /// [`TlsSession::rest`].
    pub fn rest(&mut self) {
        for side in [&mut self.down, &mut self.up] {
            if let Some(session) = &mut side.session {
                session.rest();
            }
        }
    }

    /// Whether session tickets for the client wait for data to share a packet with.
    pub fn holds(&self) -> bool {
        !self.downward.held.is_empty()
    }

    /// Sends held tickets without data.
    pub fn release(&mut self) {
        // Pending data was sealed after it, and so has taken it along.
        if self.downward.pending.is_empty() {
            self.downward.pending = std::mem::take(&mut self.downward.held);
        }
    }

    /// Sends a TLS client the end, for a limit or a drain. Unsent data is lost.
    pub async fn abandon(&mut self) {
        poll_fn(|cx| {
            self.alert(cx, RelaySide::Downstream, CLOSE_NOTIFY);
            Poll::Ready(())
        })
        .await;
    }

    /// Makes the following close a reset, on both sides.
    pub fn reset(&self) {
        self.down.socket.reset_on_close();
        self.up.socket.reset_on_close();
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        shared: &RelayBuffers,
        meter: &Meter,
        stalls: &EndpointStalls,
    ) -> Poll<RelayOutcome> {
        let mut buffers = shared.buffers.borrow_mut();
        loop {
            let mut context = FlowContext {
                from: &mut self.down,
                to: &mut self.up,
                buffers: &mut buffers,
                pipes: &shared.pipes,
                queue: &shared.queue,
                meter,
                moved: &meter.received,
                answered: meter.sent.get(),
                stalls: None,
                last: self.downward.stage == FlowStage::Ended,
                cut: false,
            };
            let upward = self.upward.poll(cx, &mut context);
            let upward = match upward {
                // An origin that has begun its response and accepts no more may have sent the
                // reason: that is delivered first.
                Poll::Ready(Err(FlowError::Sink(error)))
                    if self.refused.is_none() && meter.sent.get() > 0 =>
                {
                    self.refused = Some(error);
                    self.upward.refuse(&self.down);
                    continue;
                }
                Poll::Ready(Err(fault)) => {
                    return Poll::Ready(self.fail(cx, fault, RelaySide::Downstream));
                }
                upward => upward,
            };
            let mut context = FlowContext {
                from: &mut self.up,
                to: &mut self.down,
                buffers: &mut buffers,
                pipes: &shared.pipes,
                queue: &shared.queue,
                meter,
                moved: &meter.sent,
                answered: meter.received.get(),
                stalls: Some(stalls),
                last: self.upward.stage == FlowStage::Ended,
                cut: self.refused.is_some(),
            };
            let downward = self.downward.poll(cx, &mut context);
            if let Poll::Ready(Err(fault)) = downward {
                if let Some(error) = self.refused.take() {
                    return Poll::Ready(RelayOutcome::Failed(RelaySide::Upstream, error));
                }
                return Poll::Ready(self.fail(cx, fault, RelaySide::Upstream));
            }
            if self.first.is_none() {
                self.first = match (self.upward.has_ended(), self.downward.has_ended()) {
                    (true, _) => Some(RelaySide::Downstream),
                    (false, true) => Some(RelaySide::Upstream),
                    (false, false) => None,
                };
            }
            match (upward, downward, self.first) {
                // Clients often close without close_notify; an endpoint that does may have been cut
                // off.
                (Poll::Ready(_), Poll::Ready(_), Some(_)) if self.downward.truncated => {
                    return Poll::Ready(RelayOutcome::Failed(
                        RelaySide::Upstream,
                        StreamError::Truncated,
                    ));
                }
                (Poll::Ready(_), Poll::Ready(_), Some(first)) => {
                    let refused = self
                        .refused
                        .take()
                        .map(|error| RelayOutcome::Failed(RelaySide::Upstream, error));
                    return Poll::Ready(refused.unwrap_or(RelayOutcome::Finished(first)));
                }
                // The upstream's TLS has to respond in the direction that was polled before it was
                // read.
                _ if self.up.owes() && self.upward.is_idle() => {}
                _ => return Poll::Pending,
            }
        }
    }

    fn fail(&mut self, cx: &mut Context<'_>, fault: FlowError, source: RelaySide) -> RelayOutcome {
        let (which, error) = match fault {
            FlowError::Source(error) => (source, error),
            FlowError::Sink(error) => (source.other(), error),
        };
        if let StreamError::Tls(error) = &error
            && let Some(alert) = error.alert()
        {
            self.alert(cx, which, alert);
        }
        // The other side must not take truncated data for the whole.
        let other = if which == RelaySide::Downstream {
            &self.up
        } else {
            &self.down
        };
        other.socket.reset_on_close();
        RelayOutcome::Failed(which, error)
    }

    /// Sends a TLS peer the reason of the end as an alert, unless it is within a record or its
    /// socket is full.
    fn alert(&mut self, cx: &mut Context<'_>, which: RelaySide, alert: u8) {
        let (side, flow) = match which {
            RelaySide::Downstream => (&mut self.down, &mut self.downward),
            RelaySide::Upstream => (&mut self.up, &mut self.upward),
        };
        if let Some(session) = side.session.as_mut().filter(|_| flow.pending.is_empty()) {
            // Records are sent in the order in which they were sealed.
            let mut records = std::mem::take(&mut flow.held);
            session.seal_alert(alert, &mut records);
            let _ = side.socket.poll_send(cx, &records);
        }
    }
}

impl RelaySide {
    /// The side that is not this one.
    pub fn other(self) -> Self {
        match self {
            Self::Downstream => Self::Upstream,
            Self::Upstream => Self::Downstream,
        }
    }
}
