//! HTTP/2 client of a worker: a connection to each peer, with as many concurrent requests as it has
//! streams.
//!
//! For the scheduler each stream is a client with its own tickets. All received frames are handled
//! before any write, so that streams that became free send their next requests together: with one
//! read and one write.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use fastrand::Rng;

use super::{Exchange, LoadWorker, PAUSE, TICK};
use crate::client::h2::{
    BodyUse, FinishedRequest, Http2Connection, ReceiveWindows, RequestOutcome,
};
use crate::client::{ClientBuffers, ExchangeError, ExchangeStats, Transport};
use crate::load_scheduler::Ticket;
use crate::nanos::{Nanoseconds, nanoseconds};
use crate::result::FailureKind;
use crate::target::TargetRequest;

/// A request under way, or waiting for a stream.
#[derive(Clone, Copy)]
struct PendingRequest {
    ticket: Ticket,
    begun: Nanoseconds,
    /// When it was sent; until then, when its client took its ticket.
    sent: Nanoseconds,
    target: usize,
    peer: usize,
    /// Whether it was sent again, because a server has not processed it.
    was_retried: bool,
}

/// An open connection with its HTTP/2 state.
struct ActiveConnection {
    transport: Transport,
    connection: Http2Connection,
    /// Whether no other request begins on it.
    is_retired: bool,
}

/// A connection that is being opened.
type PendingConnection = Pin<Box<dyn Future<Output = Result<Transport, ExchangeError>>>>;

/// Connections to one peer, and requests that wait for one.
#[derive(Default)]
struct PeerConnections {
    opening: Option<PendingConnection>,
    /// At most one of them is not retired.
    connections: Vec<ActiveConnection>,
    /// Slots of requests that wait for a stream.
    waiting: VecDeque<usize>,
}

pub(super) struct Http2Client {
    worker: Rc<LoadWorker>,
    /// Index of its first client in the scheduler.
    first: usize,
    /// The request of each stream.
    slots: Vec<Option<PendingRequest>>,
    /// Slots that have no request.
    free: Vec<usize>,
    peers: Vec<PeerConnections>,
    rng: Rng,
    /// End of the pause after a failed connect.
    paused: Option<Nanoseconds>,
    /// The scheduler's count of passed deadlines at the last check.
    expired: u64,
}

impl Http2Client {
    /// A client with so many streams, which are the scheduler's clients from `first` on.
    pub(super) fn new(worker: Rc<LoadWorker>, first: usize, streams: usize) -> Self {
        let peers = worker
            .picker
            .peers()
            .map(|_| PeerConnections::default())
            .collect();
        Self {
            worker,
            first,
            slots: vec![None; streams],
            free: (0..streams).rev().collect(),
            peers,
            rng: Rng::new(),
            paused: None,
            expired: 0,
        }
    }

    /// Runs the client without end.
    pub(super) async fn run(mut self) {
        poll_fn(|cx| {
            // The requests of a step are written together, before the next step reads.
            while self.step(cx) {
                self.write(cx);
            }
            self.write(cx);
            Poll::Pending
        })
        .await
    }

    /// Makes one step without writes; `true` if there was any progress.
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        for peer in 0..self.peers.len() {
            moved |= self.open(peer, cx);
            moved |= self.read(peer, cx);
        }
        moved |= self.expire();
        moved |= self.ask(cx);
        for peer in 0..self.peers.len() {
            moved |= self.begin(peer);
        }
        moved
    }

    /// Takes tickets for free slots.
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
            let (target, peer) = self.worker.picker.next(&mut self.rng);
            let deadline = ticket
                .due
                .saturating_add(nanoseconds(self.worker.plan.timeout));
            self.worker
                .scheduler
                .set_deadline(self.first + slot, Some(deadline));
            let begun = if ticket.scheduled {
                self.worker.scheduler.now()
            } else {
                ticket.due
            };
            self.slots[slot] = Some(PendingRequest {
                ticket,
                begun,
                sent: begun,
                target,
                peer,
                was_retried: false,
            });
            self.peers[peer].waiting.push_back(slot);
        }
        self.free.len() < before
    }

    /// Goes on with a connection that is being opened.
    fn open(&mut self, peer: usize, cx: &mut Context<'_>) -> bool {
        let Some(opening) = &mut self.peers[peer].opening else {
            return false;
        };
        let Poll::Ready(opened) = opening.as_mut().poll(cx) else {
            return false;
        };
        self.peers[peer].opening = None;
        match opened {
            Ok(transport) => {
                let mut connection = Http2Connection::new(self.slots.len(), ReceiveWindows::LARGE);
                let known = self.worker.plan.peers()[peer].max_streams.get();
                if let Some(streams) = known {
                    connection.expect_max_streams(*streams);
                }
                self.peers[peer].connections.push(ActiveConnection {
                    transport,
                    connection,
                    is_retired: false,
                });
                true
            }
            Err(error) => {
                let mut is_scheduled = true;
                for slot in std::mem::take(&mut self.peers[peer].waiting) {
                    is_scheduled &=
                        self.slots[slot].is_some_and(|request| request.ticket.scheduled);
                    self.finish(slot, Err(error.clone()), &ExchangeStats::default());
                }
                if is_scheduled {
                    // A Unix socket refuses without waiting: without the yield the client would
                    // never let go of the thread.
                    cx.waker().wake_by_ref();
                } else {
                    self.paused = Some(
                        self.worker.scheduler.now() + PAUSE as Nanoseconds * nanoseconds(TICK),
                    );
                    self.worker.ticks.borrow_mut().push(cx.waker().clone());
                }
                !is_scheduled
            }
        }
    }

    /// Reads from each connection once, and records finished requests.
    fn read(&mut self, peer: usize, cx: &mut Context<'_>) -> bool {
        let (mut moved, mut at) = (false, 0);
        while let Some(active) = self.peers[peer].connections.get_mut(at) {
            let ActiveConnection {
                transport,
                connection,
                is_retired,
            } = active;
            let ended = match connection.poll_read(cx, transport) {
                Poll::Pending => false,
                Poll::Ready(Ok(())) => {
                    moved = true;
                    false
                }
                Poll::Ready(Err(error)) => {
                    moved = true;
                    connection.end(&error);
                    true
                }
            };
            *is_retired |= connection.is_ending();
            let is_over = ended || *is_retired && connection.active() == 0;
            while let Some(finished) = self.peers[peer].connections[at].connection.take_finished() {
                self.take(finished);
            }
            if is_over {
                self.peers[peer].connections.swap_remove(at);
                moved = true;
            } else {
                at += 1;
            }
        }
        moved
    }

    fn take(&mut self, finished: FinishedRequest) {
        let FinishedRequest {
            slot,
            stats,
            outcome,
            ..
        } = finished;
        let Some(request) = &mut self.slots[slot] else {
            return;
        };
        let made = match outcome {
            RequestOutcome::Answered => {
                let judged = self.worker.plan.targets[request.target].judge(&stats.response);
                judged.map_err(|(failure, text)| ExchangeError::new(failure, text))
            }
            RequestOutcome::Failed(error) => Err(error),
            RequestOutcome::Unprocessed(_) if !request.was_retried => {
                request.was_retried = true;
                let peer = request.peer;
                let counts = &mut **self.worker.counts.borrow_mut();
                counts.retried += 1;
                counts.sent += stats.sent;
                counts.received += stats.received;
                self.peers[peer].waiting.push_front(slot);
                return;
            }
            RequestOutcome::Unprocessed(error) => Err(error),
        };
        self.finish(slot, made, &stats);
    }

    /// Ends requests with a passed deadline.
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
            let peer = &mut self.peers[request.peer];
            let mut stats = ExchangeStats::default();
            let text = match peer.waiting.iter().position(|waiting| *waiting == slot) {
                Some(at) => {
                    peer.waiting.remove(at);
                    let text = if peer.connections.is_empty() {
                        "not connected in time"
                    } else {
                        "no free stream in time"
                    };
                    if peer.waiting.is_empty() {
                        peer.opening = None;
                    }
                    text
                }
                None => {
                    for active in &mut peer.connections {
                        if let Some((moved, is_silent)) = active.connection.cancel(slot) {
                            active.is_retired |= is_silent;
                            stats = moved;
                        }
                    }
                    "no complete response in time"
                }
            };
            self.finish(
                slot,
                Err(ExchangeError::new(FailureKind::Timeout, text)),
                &stats,
            );
        }
        moved
    }

    fn finish(&mut self, slot: usize, made: Result<(), ExchangeError>, stats: &ExchangeStats) {
        let Some(request) = self.slots[slot].take() else {
            return;
        };
        self.worker.scheduler.set_deadline(self.first + slot, None);
        let exchange = Exchange {
            ticket: request.ticket,
            target: request.target,
            begun: request.begun,
            sent: request.sent,
        };
        self.worker.record(&exchange, made, stats);
        self.free.push(slot);
    }

    /// Begins waiting requests, as far as there are streams; opens a connection where there is
    /// none. `true` if it did so.
    fn begin(&mut self, peer: usize) -> bool {
        let Self {
            worker,
            slots,
            peers,
            rng,
            ..
        } = self;
        let PeerConnections {
            opening,
            connections,
            waiting,
        } = &mut peers[peer];
        let Some(ActiveConnection {
            transport,
            connection,
            is_retired,
        }) = connections.iter_mut().find(|active| !active.is_retired)
        else {
            let first = waiting.front().and_then(|slot| slots[*slot]);
            let (Some(PendingRequest { target, .. }), None) = (first, &opening) else {
                return false;
            };
            *opening = Some(Box::pin(open(Rc::clone(worker), target)));
            return true;
        };
        if waiting.is_empty() {
            *is_retired |= connection.is_ending();
            return false;
        }
        let now = worker.scheduler.now();
        while connection.has_room() && !*is_retired {
            let Some(slot) = waiting.pop_front() else {
                break;
            };
            let Some(PendingRequest { target, sent, .. }) = &mut slots[slot] else {
                continue;
            };
            *sent = now;
            let target = *target;
            let TargetRequest::Http2(request) = &worker.plan.targets[target].request else {
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
        // The rest waits for another connection.
        *is_retired && !waiting.is_empty()
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        for ActiveConnection {
            transport,
            connection,
            ..
        } in self.peers.iter_mut().flat_map(|peer| &mut peer.connections)
        {
            connection.write(cx, transport, &self.worker.blocks);
        }
    }
}

/// Opens a connection for a target, and counts it.
async fn open(worker: Rc<LoadWorker>, target: usize) -> Result<Transport, ExchangeError> {
    let mut buffers = ClientBuffers::new(Rc::clone(&worker.blocks), Rng::new());
    buffers.link_queue.clone_from(&worker.link_queue);
    let target = &worker.plan.targets[target];
    worker
        .open(target, &mut buffers, &mut ExchangeStats::default())
        .await
}
