//! The accept loop of one listener in one worker.
//!
//! A connection takes a place among those of the process: past the limit, one waits here, the
//! others in the backlog, and those that wait for nothing give way to them. Running out of
//! descriptors pauses the loop until the next tick.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockgate_net::listen::{self, Peer, SocketOwner};
use lockgate_net::memory::{self, MemoryLevel};
use lockgate_net::socket::{PeerState, Socket};

use super::Listener;
use super::connection::Connection;
use crate::limits::Permit;
use crate::worker::Worker;

/// Milliseconds between two warnings that accepting fails.
const WARN_EVERY: u64 = 10_000;

/// Ticks for which connections that have begun are still accepted: longer than a round trip around
/// the world.
const LAST_TICKS: u32 = 4;
/// Connections accepted in a row before the clock is looked at.
const BATCH: u32 = 16;
/// What accepting may take before the worker's other connections have their turn; longer only if
/// theirs was.
const TURN: Duration = Duration::from_millis(1);

/// Accepts on `socket` until the worker stops, and then what is left in the backlog.
///
/// `place` is the listener's among those of the worker's counters.
pub async fn accept(
    worker: Rc<Worker>,
    socket: listen::Listener,
    place: usize,
    listener: Arc<Listener>,
) {
    let warned = Cell::new(None);
    let mut turn = Turn::first();
    // Whether connections have waited in the backlog for a place, and still do.
    let mut crowded = false;
    while let Some(waiting) = unless_stopped(&worker, socket.ready())
        .await
        .and_then(Result::ok)
    {
        // What has no place in memory waits in the backlog, where it costs nothing.
        if memory::level() == MemoryLevel::Full {
            match unless_stopped(&worker, worker.clock.next_tick()).await {
                Some(()) => continue,
                None => break,
            }
        }
        let permit = worker.shared.connections.try_take();
        crowded |= permit.is_none();
        match next(&socket) {
            // Of those that have waited in the backlog many are given up: each would take a place
            // and a handshake from others.
            Ok(Some((accepted, _))) if crowded && is_abandoned(&accepted, &listener) => {
                worker.cells.abandoned.inc();
            }
            Ok(Some((accepted, peer))) => {
                let permit = match permit {
                    Some(permit) => permit,
                    None => worker.take_place().await,
                };
                start(&worker, place, &listener, accepted, peer, permit);
            }
            Ok(None) => {
                crowded = false;
                waiting.none();
            }
            Err(error) => {
                drop(permit);
                worker.cells.accept_failures.inc();
                warn(&worker, &listener, &error, &warned);
                // What has taken them is not counted: what is, and can be done without, makes room.
                worker.files.clear();
                worker.slots.free_descriptor(&worker.clock).await;
            }
        }
        if turn.is_over() {
            let others = Instant::now();
            tokio::task::yield_now().await;
            turn = Turn::after(others.elapsed());
        }
    }
    if socket.owner() == SocketOwner::Us {
        empty(&worker, &socket, place, &listener).await;
    }
}

/// What is accepted before the worker's other connections go on.
///
/// Half as long as these had: where thousands come at once, a fixed number each time around would
/// be the fewer a second the more there are, and the last would wait for seconds.
struct Turn {
    began: Instant,
    length: Duration,
    accepted: u32,
}

impl Turn {
    fn first() -> Self {
        Self::after(Duration::ZERO)
    }

    /// The one after the others had so long.
    fn after(others: Duration) -> Self {
        Self {
            began: Instant::now(),
            length: TURN.max(others / 2),
            accepted: 0,
        }
    }

    /// Counts a connection. While memory is scarce a turn is short: what the connections of one
    /// take is known only when they have run.
    fn is_over(&mut self) -> bool {
        self.accepted += 1;
        self.accepted.is_multiple_of(BATCH)
            && (self.began.elapsed() >= self.length || memory::level() > MemoryLevel::Easy)
    }
}

/// Accepts what clients take for open already, before the listener closes: the last packet, or with
/// TCP_DEFER_ACCEPT the first data, may still be on its way.
async fn empty(
    worker: &Rc<Worker>,
    socket: &listen::Listener,
    place: usize,
    listener: &Arc<Listener>,
) {
    if let Err(error) = socket.refuse_openings() {
        tracing::warn!(listener = %listener.name, %error, "connections that are being opened now may be reset");
    }
    for _ in 0..LAST_TICKS {
        while let Ok(Some((accepted, peer))) = next(socket) {
            let permit = worker.take_place().await;
            start(worker, place, listener, accepted, peer, permit);
        }
        worker.clock.next_tick().await;
    }
}

/// Waits for `future`; `None` when the worker stops first.
async fn unless_stopped<F: Future>(worker: &Worker, future: F) -> Option<F::Output> {
    let mut stopping = pin!(worker.stopping());
    let mut future = pin!(future);
    poll_fn(|cx| {
        if stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// The next connection that waits, watched.
fn next(listener: &listen::Listener) -> io::Result<Option<(Socket, Peer)>> {
    let Some((fd, peer)) = listener.accept()? else {
        return Ok(None);
    };
    Ok(Some((Socket::accepted(fd, listener.family())?, peer)))
}

/// Whether the client has reset its connection, or ended it where it cannot have sent a request:
/// under TLS.
fn is_abandoned(accepted: &Socket, listener: &Listener) -> bool {
    match accepted.peer() {
        PeerState::Open => false,
        PeerState::Ended => listener.tls.is_some(),
        PeerState::Reset => true,
    }
}

fn start(
    worker: &Rc<Worker>,
    place: usize,
    listener: &Arc<Listener>,
    socket: Socket,
    peer: Peer,
    permit: Permit,
) {
    let connection = Connection::new(worker, Arc::clone(listener), place, peer, permit);
    tokio::task::spawn_local(connection.serve(socket));
}

fn warn(worker: &Worker, listener: &Listener, error: &io::Error, warned: &Cell<Option<u64>>) {
    let now = worker.clock.now();
    if warned.get().is_none_or(|last| now >= last + WARN_EVERY) {
        warned.set(Some(now));
        tracing::warn!(listener = %listener.name, %error, "cannot accept connections, which wait in the backlog");
    }
}
