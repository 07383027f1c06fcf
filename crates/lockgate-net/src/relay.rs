//! Bytes from one side of a connection to the other, both ways, until both have ended.
//!
//! A direction that ends is ended on the other side too, while the opposite one goes on
//! (half-close). What a side does not take at once is kept, at most one read's worth, and nothing
//! more is read until it is gone: that is all the memory a direction can use. Plain TCP in bulk is
//! spliced. Has no deadlines and does not log.

mod bulk;
mod flow;
mod meter;
mod read_size;
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

use crate::acknowledge::Habits;
use crate::shape::{Line, Shaper};
use crate::socket::{Family, Socket};
use crate::splice::Pipes;
use crate::stream::StreamError;
use crate::tls::session::{Session, SessionError};

pub use meter::{Meter, Times};

use flow::{Fault, Flow, Lane, Stage};
use read_size::ReadSize;

/// The alert that says that nothing more comes.
const CLOSE_NOTIFY: u8 = 0;

/// The buffers that all relays of one worker share: nothing stays in them between two polls.
#[derive(Debug)]
pub struct Scratch {
    buffers: RefCell<Buffers>,
    pipes: Rc<Pipes>,
    line: Rc<Line>,
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
    /// `pipes` and `line` are those of the same worker.
    pub fn new(pipes: Rc<Pipes>, line: Rc<Line>) -> Rc<Self> {
        let wire = vec![0; ReadSize::MOST_WIRE].into();
        let plain: Box<[u8]> = vec![0; ReadSize::MOST_WIRE].into();
        let sealed = vec![0; Session::sealed_len(plain.len())].into();
        Rc::new(Self {
            buffers: RefCell::new(Buffers {
                wire,
                plain,
                sealed,
            }),
            pipes,
            line,
        })
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
        Self {
            socket,
            session: None,
        }
    }

    /// A side that speaks TLS.
    pub fn tls(socket: Socket, session: Box<Session>) -> Self {
        Self {
            socket,
            session: Some(session),
        }
    }

    /// The socket under it.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    fn owes(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.owes())
    }

    /// Whether nothing more can come, as far as that is known: all of it was read, and that it was
    /// all.
    fn is_over(&self) -> bool {
        match &self.session {
            Some(session) => session.is_closed(),
            None => self.socket.has_ended(),
        }
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
    Failed(Which, StreamError),
}

/// What is to be sent before anything else.
#[derive(Debug, Default)]
pub struct Preface {
    /// To the origin: a PROXY header, and what was read of the client's data already.
    pub upstream: Vec<u8>,
    /// To the client with the first data, as it goes over the wire: session tickets.
    pub downstream: Vec<u8>,
}

/// Somebody who hears what passes by, until it has heard enough.
pub trait Tap: fmt::Debug {
    /// Is shown the bytes of a direction from its beginning, in the pieces in which they are read,
    /// each before it is sent on; says whether it wants to hear more. The bytes wait for it.
    fn hear(&mut self, bytes: &[u8]) -> ControlFlow<()>;
}

/// A relay between two connected sides.
#[derive(Debug)]
pub struct Relay {
    down: Side,
    up: Side,
    upward: Flow,
    downward: Flow,
    first: Option<Which>,
    /// Why the origin takes no more.
    refused: Option<StreamError>,
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

    /// Moves bytes until both sides have ended or one has broken; `habits` are those of the
    /// endpoint.
    ///
    /// Dropping the future ends nothing: the relay can be run again, or dropped, which closes both
    /// connections.
    pub async fn run(&mut self, scratch: &Scratch, meter: &Meter, habits: &Habits) -> End {
        poll_fn(|cx| {
            let end = self.poll(cx, scratch, meter, habits);
            meter
                .held
                .set(self.upward.is_held() || self.downward.is_held());
            meter.note(self.upward.has_ended(), self.downward.has_ended());
            end
        })
        .await
    }

    /// Holds both directions to rates: what is read of the client's side, and of the origin's. What
    /// goes beyond is not lost: it is read later.
    pub fn shape(&mut self, received: Option<Shaper>, sent: Option<Shaper>) {
        self.upward.shaper = received.map(Box::new);
        self.downward.shaper = sent.map(Box::new);
    }

    /// Has somebody hear what the origin says.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        self.downward.tap = Some(tap);
    }

    /// Has the kernel probe silent peers from now on: not at once, since most connections do not
    /// live to need it, and the options cost calls and timers.
    ///
    /// # Errors
    /// When an option cannot be set.
    pub fn probe(&self, idle: Duration) -> io::Result<()> {
        [&self.down, &self.up]
            .into_iter()
            .try_for_each(|side| side.socket.probe(idle))
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

    /// Makes the close that follows a reset, on both sides.
    pub fn reset(&self) {
        self.down.socket.reset_on_close();
        self.up.socket.reset_on_close();
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &Scratch,
        meter: &Meter,
        habits: &Habits,
    ) -> Poll<End> {
        let mut buffers = scratch.buffers.borrow_mut();
        loop {
            let mut lane = Lane {
                from: &mut self.down,
                to: &mut self.up,
                buffers: &mut buffers,
                pipes: &scratch.pipes,
                line: &scratch.line,
                meter,
                moved: &meter.received,
                answered: meter.sent.get(),
                habits: None,
                last: self.downward.stage == Stage::Ended,
                cut: false,
            };
            let upward = self.upward.poll(cx, &mut lane);
            let upward = match upward {
                // An origin that has begun to answer and takes no more may have said why: that is
                // delivered first.
                Poll::Ready(Err(Fault::Sink(error)))
                    if self.refused.is_none() && meter.sent.get() > 0 =>
                {
                    self.refused = Some(error);
                    self.upward.refuse();
                    continue;
                }
                Poll::Ready(Err(fault)) => {
                    return Poll::Ready(self.fail(cx, fault, Which::Downstream));
                }
                upward => upward,
            };
            let mut lane = Lane {
                from: &mut self.up,
                to: &mut self.down,
                buffers: &mut buffers,
                pipes: &scratch.pipes,
                line: &scratch.line,
                meter,
                moved: &meter.sent,
                answered: meter.received.get(),
                habits: Some(habits),
                last: self.upward.stage == Stage::Ended,
                cut: self.refused.is_some(),
            };
            let downward = self.downward.poll(cx, &mut lane);
            if let Poll::Ready(Err(fault)) = downward {
                if let Some(error) = self.refused.take() {
                    return Poll::Ready(End::Failed(Which::Upstream, error));
                }
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
                // Clients are known to leave without a word; an endpoint that does may have been
                // cut off.
                (Poll::Ready(_), Poll::Ready(_), Some(_)) if self.downward.truncated => {
                    return Poll::Ready(End::Failed(Which::Upstream, StreamError::Truncated));
                }
                (Poll::Ready(_), Poll::Ready(_), Some(first)) => {
                    let refused = self
                        .refused
                        .take()
                        .map(|error| End::Failed(Which::Upstream, error));
                    return Poll::Ready(refused.unwrap_or(End::Finished(first)));
                }
                // The upstream's TLS wants to answer in the direction that was polled before it was
                // read.
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
        if let StreamError::Tls(error) = &error
            && let Some(alert) = error.alert()
        {
            self.alert(cx, which, alert);
        }
        // The other side must not take what it got for the whole.
        let other = if which == Which::Downstream {
            &self.up
        } else {
            &self.down
        };
        other.socket.reset_on_close();
        End::Failed(which, error)
    }

    /// Tells a TLS peer why we end, unless it is in the middle of a record or its socket takes
    /// nothing now.
    fn alert(&mut self, cx: &mut Context<'_>, which: Which, alert: u8) {
        let (side, flow) = match which {
            Which::Downstream => (&mut self.down, &mut self.downward),
            Which::Upstream => (&mut self.up, &mut self.upward),
        };
        if let Some(session) = side.session.as_mut().filter(|_| flow.pending.is_empty()) {
            // Records leave in the order in which they were sealed.
            let mut records = std::mem::take(&mut flow.held);
            session.seal_alert(alert, &mut records);
            let _ = side.socket.poll_send(cx, &records);
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
