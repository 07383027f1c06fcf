//! One client of HTTP/2: a connection to each peer, and as many requests at once on it as it has
//! streams.
//!
//! For the pace each stream is a client with turns of its own. All that has come on a connection is
//! looked at before anything leaves, so that what became free together asks again together: with
//! one read and one write.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use fastrand::Rng;

use super::{PAUSE, TICK, Worker};
use crate::client::h2::{BodyUse, Connection, Finished, Outcome, Windows};
use crate::client::{ExchangeStats, Fault, Scratch, Transport};
use crate::load_scheduler::Ticket;
use crate::moment::{Moment, nanoseconds};
use crate::result::Failure;
use crate::target::Exchange;

/// A request that is under way, or waits for a stream.
#[derive(Clone, Copy)]
struct PendingRequest {
    ticket: Ticket,
    begun: Moment,
    target: usize,
    peer: usize,
    /// Whether a server has ended a connection before it did anything about it.
    was_sent_back: bool,
}

/// A connection that is there.
struct ActiveConnection {
    transport: Transport,
    connection: Connection,
    /// Whether no other request begins on it.
    is_retired: bool,
}

/// A connection that is being opened.
type PendingConnection = Pin<Box<dyn Future<Output = Result<Transport, Fault>>>>;

/// What there is towards one peer.
#[derive(Default)]
struct PeerConnections {
    opening: Option<PendingConnection>,
    /// At most one of them is not retired.
    wires: Vec<ActiveConnection>,
    /// Slots whose requests wait for a stream.
    waiting: VecDeque<usize>,
}

pub(super) struct Http2Client {
    worker: Rc<Worker>,
    /// The first of its clients, for the scheduler.
    first: usize,
    /// Of each stream the request that it has, or will have.
    slots: Vec<Option<PendingRequest>>,
    /// Slots without a request.
    free: Vec<usize>,
    sides: Vec<PeerConnections>,
    rng: Rng,
    /// After it could not connect: no turn is asked for before.
    paused: Option<Moment>,
    /// Deadlines that had passed when they were looked at.
    expired: u64,
}

impl Http2Client {
    /// With so many at once, who are the scheduler's clients from `first` on.
    pub(super) fn new(worker: Rc<Worker>, first: usize, streams: usize) -> Self {
        let sides = worker
            .draw
            .peers()
            .map(|_| PeerConnections::default())
            .collect();
        Self {
            worker,
            first,
            slots: vec![None; streams],
            free: (0..streams).rev().collect(),
            sides,
            rng: Rng::new(),
            paused: None,
            expired: 0,
        }
    }

    /// For ever.
    pub(super) async fn run(mut self) -> Infallible {
        poll_fn(|cx| {
            // What a step lets us send leaves together, before the next one looks at what came
            // meanwhile.
            while self.step(cx) {
                self.write(cx);
            }
            self.write(cx);
            Poll::Pending
        })
        .await
    }

    /// Does what there is to do, but for sending; whether that was anything.
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        for side in 0..self.sides.len() {
            moved |= self.open(side, cx);
            moved |= self.read(side, cx);
        }
        moved |= self.expire();
        moved |= self.ask(cx);
        for side in 0..self.sides.len() {
            moved |= self.begin(side);
        }
        moved
    }

    /// Takes turns for those who have no request.
    fn ask(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(until) = self.paused {
            if self.worker.scheduler.now() < until {
                self.worker.ticks.borrow_mut().push(cx.waker().clone());
                return false;
            }
            self.paused = None;
        }
        let before = self.free.len();
        let mut at = self.free.len();
        while at > 0 {
            at -= 1;
            let slot = self.free[at];
            let Poll::Ready(ticket) = self.worker.scheduler.poll_ticket(self.first + slot, cx)
            else {
                continue;
            };
            self.free.swap_remove(at);
            let (target, peer) = self.worker.draw.next(&mut self.rng);
            let deadline = ticket
                .due
                .saturating_add(nanoseconds(self.worker.plan.timeout));
            self.worker
                .scheduler
                .expect_by(self.first + slot, Some(deadline));
            let begun = if ticket.scheduled {
                self.worker.scheduler.now()
            } else {
                ticket.due
            };
            self.slots[slot] = Some(PendingRequest {
                ticket,
                begun,
                target,
                peer,
                was_sent_back: false,
            });
            self.sides[peer].waiting.push_back(slot);
        }
        self.free.len() < before
    }

    /// Goes on with a connection that is being opened.
    fn open(&mut self, side: usize, cx: &mut Context<'_>) -> bool {
        let Some(opening) = &mut self.sides[side].opening else {
            return false;
        };
        let Poll::Ready(opened) = opening.as_mut().poll(cx) else {
            return false;
        };
        self.sides[side].opening = None;
        match opened {
            Ok(transport) => {
                let connection = Connection::new(self.slots.len(), Windows::LARGE);
                self.sides[side].wires.push(ActiveConnection {
                    transport,
                    connection,
                    is_retired: false,
                });
                true
            }
            Err(fault) => {
                let mut is_scheduled = true;
                for slot in std::mem::take(&mut self.sides[side].waiting) {
                    is_scheduled &=
                        self.slots[slot].is_some_and(|request| request.ticket.scheduled);
                    self.finish(slot, Err(fault.clone()), &ExchangeStats::default());
                }
                if is_scheduled {
                    // Refused without waiting for anything, as a Unix socket does it, it would
                    // never let go of the thread.
                    cx.waker().wake_by_ref();
                } else {
                    self.paused =
                        Some(self.worker.scheduler.now() + PAUSE as Moment * nanoseconds(TICK));
                    self.worker.ticks.borrow_mut().push(cx.waker().clone());
                }
                !is_scheduled
            }
        }
    }

    /// Reads from each connection once, and tells what has become of requests.
    fn read(&mut self, side: usize, cx: &mut Context<'_>) -> bool {
        let (mut moved, mut at) = (false, 0);
        while let Some(wire) = self.sides[side].wires.get_mut(at) {
            let ActiveConnection {
                transport,
                connection,
                is_retired,
            } = wire;
            let ended = match connection.poll_read(cx, transport) {
                Poll::Pending => false,
                Poll::Ready(Ok(())) => {
                    moved = true;
                    false
                }
                Poll::Ready(Err(fault)) => {
                    moved = true;
                    connection.end(&fault);
                    true
                }
            };
            *is_retired |= connection.is_ending();
            let is_over = ended || *is_retired && connection.active() == 0;
            while let Some(finished) = self.sides[side].wires[at].connection.take_finished() {
                self.take(finished);
            }
            if is_over {
                self.sides[side].wires.swap_remove(at);
                moved = true;
            } else {
                at += 1;
            }
        }
        moved
    }

    fn take(&mut self, finished: Finished) {
        let Finished {
            place,
            stats,
            outcome,
            ..
        } = finished;
        let Some(request) = &mut self.slots[place] else {
            return;
        };
        let made = match outcome {
            Outcome::Answered => {
                let judged = self.worker.plan.targets[request.target].judge(&stats.response);
                judged.map_err(|(failure, text)| Fault::new(failure, text))
            }
            Outcome::Failed(fault) => Err(fault),
            Outcome::Unprocessed(_) if !request.was_sent_back => {
                request.was_sent_back = true;
                let side = request.peer;
                self.sides[side].waiting.push_front(place);
                return;
            }
            Outcome::Unprocessed(fault) => Err(fault),
        };
        self.finish(place, made, &stats);
    }

    /// Looks for those who have waited too long.
    fn expire(&mut self) -> bool {
        let expired = self.worker.scheduler.expired();
        if std::mem::replace(&mut self.expired, expired) == expired {
            return false;
        }
        let mut moved = false;
        for slot in 0..self.slots.len() {
            let Some(request) = self.slots[slot] else {
                continue;
            };
            if !self.worker.scheduler.is_overdue(self.first + slot) {
                continue;
            }
            moved = true;
            let side = &mut self.sides[request.peer];
            let mut stats = ExchangeStats::default();
            let text = match side.waiting.iter().position(|waiting| *waiting == slot) {
                Some(at) => {
                    side.waiting.remove(at);
                    let text = if side.wires.is_empty() {
                        "not connected in time"
                    } else {
                        "no free stream in time"
                    };
                    if side.waiting.is_empty() {
                        side.opening = None;
                    }
                    text
                }
                None => {
                    for wire in &mut side.wires {
                        if let Some((moved, is_silent)) = wire.connection.cancel(slot) {
                            wire.is_retired |= is_silent;
                            stats = moved;
                        }
                    }
                    "no complete response in time"
                }
            };
            self.finish(slot, Err(Fault::new(Failure::Timeout, text)), &stats);
        }
        moved
    }

    fn finish(&mut self, slot: usize, made: Result<(), Fault>, stats: &ExchangeStats) {
        let Some(request) = self.slots[slot].take() else {
            return;
        };
        self.worker.scheduler.expect_by(self.first + slot, None);
        self.worker.note(request.ticket, request.begun, made, stats);
        self.free.push(slot);
    }

    /// Begins what waits for a stream, as far as there are some; opens a connection where there is
    /// none, and says so.
    fn begin(&mut self, side: usize) -> bool {
        let Self {
            worker,
            slots,
            sides,
            rng,
            ..
        } = self;
        let PeerConnections {
            opening,
            wires,
            waiting,
        } = &mut sides[side];
        let Some(ActiveConnection {
            transport,
            connection,
            is_retired,
        }) = wires.iter_mut().find(|wire| !wire.is_retired)
        else {
            let first = waiting.front().and_then(|slot| slots[*slot]);
            let (Some(PendingRequest { target, .. }), None) = (first, &opening) else {
                return false;
            };
            *opening = Some(Box::pin(open(Rc::clone(worker), target)));
            return true;
        };
        while connection.has_room() && !*is_retired {
            let Some(slot) = waiting.pop_front() else {
                break;
            };
            let Some(PendingRequest { target, .. }) = slots[slot] else {
                continue;
            };
            let Exchange::Http2(request) = &worker.plan.targets[target].exchange else {
                continue;
            };
            let used = BodyUse::of(&worker.plan.targets[target].expect);
            connection.begin(slot, target, request, used, rng);
            worker.counts.borrow_mut().reused += u64::from(transport.exchanges > 0);
            transport.exchanges += 1;
            *is_retired = worker
                .plan
                .per_connection
                .is_some_and(|most| transport.exchanges >= most);
        }
        *is_retired |= connection.is_ending();
        // What is left waits for another.
        *is_retired && !waiting.is_empty()
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        for ActiveConnection {
            transport,
            connection,
            ..
        } in self.sides.iter_mut().flat_map(|side| &mut side.wires)
        {
            connection.write(cx, transport, &self.worker.blocks);
        }
    }
}

/// Opens a connection for a target, and counts it.
async fn open(worker: Rc<Worker>, target: usize) -> Result<Transport, Fault> {
    let mut scratch = Scratch::new(Rc::clone(&worker.blocks), Rng::new());
    scratch.link_queue.clone_from(&worker.link_queue);
    let target = &worker.plan.targets[target];
    worker
        .open(target, &mut scratch, &mut ExchangeStats::default())
        .await
}
