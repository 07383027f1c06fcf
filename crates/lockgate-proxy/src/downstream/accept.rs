//! The accept loop of one listener in one worker.
//!
//! A connection takes a permit of the process: past the limit, one waits here, the others in the
//! backlog, and those that wait for nothing give way to them. Running out of descriptors pauses the
//! loop until the next tick.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockgate_limits::Permit;
use lockgate_net::listen::{self, Peer, SocketOwner};
use lockgate_net::memory::{self, MemoryLevel};
use lockgate_net::millis::Millis;
use lockgate_net::reactor;
use lockgate_net::socket::{PeerState, Socket};
use tokio::sync::{Notify, watch};

use super::ActiveListener;
use super::connection::ClientConnection;
use crate::worker::Worker;

/// The time between two warnings that accepting fails.
const WARN_EVERY: Millis = Millis::from_secs(10);

/// The time for which connections that have begun are still accepted: longer than a round trip
/// around the world.
const LAST_TIME: Millis = Millis::new(400);
/// Connections accepted in a row before the clock is looked at.
const BATCH: u32 = 16;
/// The time that accepting may take before the worker's other connections have their turn; longer
/// only if theirs was.
const TURN: Duration = Duration::from_millis(1);

/// A listening socket of a worker: the listener of its connections may change, and it may be closed.
pub struct AcceptSocket {
    listener: RefCell<Rc<ActiveListener>>,
    closing: Cell<bool>,
    /// Dropped when it is closed.
    open: RefCell<Option<watch::Receiver<()>>>,
    /// Whether another process has the socket too, and accepts what is in its backlog.
    handed_over: Cell<bool>,
    close: Notify,
}

impl AcceptSocket {
    /// A socket that accepts for `listener`.
    pub fn new(listener: Rc<ActiveListener>) -> Rc<Self> {
        Rc::new(Self {
            listener: RefCell::new(listener),
            closing: Cell::new(false),
            open: RefCell::default(),
            handed_over: Cell::new(false),
            close: Notify::new(),
        })
    }

    /// The listener of its connections.
    pub fn listener(&self) -> Rc<ActiveListener> {
        Rc::clone(&self.listener.borrow())
    }

    /// Makes its connections those of another listener, from now on.
    pub fn hand_to(&self, listener: Rc<ActiveListener>) {
        self.listener.replace(listener);
    }

    /// Ends accepting at once: another process has the socket, and accepts on it.
    pub fn hand_over(&self) {
        self.handed_over.set(true);
        self.end();
    }

    /// Ends accepting once the backlog is empty. `open` is dropped when the socket is closed.
    pub fn close(&self, open: watch::Receiver<()>) {
        self.open.replace(Some(open));
        self.end();
    }

    fn end(&self) {
        self.closing.set(true);
        self.close.notify_waiters();
    }

    /// Completes when accepting is to end.
    async fn closing(&self) {
        if !self.closing.get() {
            self.close.notified().await;
        }
    }
}

/// Accepts on `socket` until it is closed or the worker stops, and then the connections that are
/// left in the backlog.
pub async fn accept(worker: Rc<Worker>, socket: listen::Listener, of: Rc<AcceptSocket>) {
    let accept = AcceptLoop {
        worker,
        socket,
        of,
        warned: Cell::new(None),
    };
    accept.run().await;
    let AcceptLoop { socket, of, .. } = accept;
    drop(socket);
    of.open.take();
}

/// The accept loop of one listening socket.
struct AcceptLoop {
    worker: Rc<Worker>,
    socket: listen::Listener,
    of: Rc<AcceptSocket>,
    /// When it was warned last that accepting fails.
    warned: Cell<Option<Millis>>,
}

impl AcceptLoop {
    async fn run(&self) {
        let worker = &self.worker;
        let mut budget = AcceptBudget::first();
        // Whether connections have waited in the backlog for a permit, and still do.
        let mut crowded = false;
        while let Some(waiting) = self
            .unless_stopped(self.socket.ready())
            .await
            .and_then(Result::ok)
        {
            // What finds no memory waits in the backlog, where it costs nothing.
            if memory::level() == MemoryLevel::Full {
                match self.unless_stopped(worker.clock.next_tick()).await {
                    Some(()) => continue,
                    None => break,
                }
            }
            let permit = worker.shared.connections.try_take();
            crowded |= permit.is_none();
            match self.next() {
                // Of those that have waited in the backlog many are given up: each would take a
                // permit and a handshake from others.
                Ok(Some((accepted, _))) if crowded && self.is_abandoned(&accepted) => {
                    worker.cells.abandoned.inc();
                }
                Ok(Some((accepted, peer))) => {
                    let permit = match permit {
                        Some(permit) => permit,
                        None => worker.take_permit().await,
                    };
                    self.start(accepted, peer, permit);
                }
                Ok(None) => {
                    crowded = false;
                    waiting.none();
                }
                Err(error) => {
                    drop(permit);
                    worker.cells.accept_failures.inc();
                    self.warn(&error);
                    // It is not known what used up the descriptors. Those that can be spared are
                    // freed.
                    worker.files.clear();
                    worker.sockets.free_descriptor(&worker.clock).await;
                }
            }
            if budget.is_over() {
                let others = Instant::now();
                reactor::yield_now().await;
                budget = AcceptBudget::after(others.elapsed());
            }
        }
        if self.socket.owner() == SocketOwner::Us && !self.of.handed_over.get() {
            self.empty_backlog().await;
        }
    }

    /// Accepts what clients take for open already, before the listener closes: the last packet, or
    /// with TCP_DEFER_ACCEPT the first data, may still be on its way.
    async fn empty_backlog(&self) {
        if let Err(error) = self.socket.refuse_syn() {
            let listener = self.of.listener().snapshot();
            tracing::warn!(listener = %listener.settings.name, %error, "connections that are being opened now may be reset");
        }
        let end = self.worker.clock.now() + LAST_TIME;
        loop {
            while let Ok(Some((accepted, peer))) = self.next() {
                let permit = self.worker.take_permit().await;
                self.start(accepted, peer, permit);
            }
            if self.worker.clock.now() >= end {
                return;
            }
            self.worker.clock.next_tick().await;
        }
    }

    /// Waits for `future`; `None` when accepting is to end first.
    async fn unless_stopped<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut stopping = pin!(self.worker.stopping());
        let mut closing = pin!(self.of.closing());
        let mut future = pin!(future);
        poll_fn(|cx| {
            if stopping.as_mut().poll(cx).is_ready() || closing.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// The next connection that waits, watched.
    fn next(&self) -> io::Result<Option<(Socket, Peer)>> {
        let Some((fd, peer)) = self.socket.accept()? else {
            return Ok(None);
        };
        let socket = Socket::accepted(fd, self.socket.family())?;
        Ok(Some((socket, peer)))
    }

    /// Whether the client has reset its connection, or ended it where it cannot have sent a
    /// request: under TLS.
    fn is_abandoned(&self, accepted: &Socket) -> bool {
        match accepted.peer() {
            PeerState::Open => false,
            PeerState::Ended => self.of.listener().snapshot().settings.tls.is_some(),
            PeerState::Reset => true,
        }
    }

    /// Serves a connection, unless its client is banned: then it is closed.
    fn start(&self, socket: Socket, peer: Peer, permit: Permit) {
        if peer.ip().is_some_and(|ip| self.worker.is_banned(ip)) {
            return;
        }
        let connection = ClientConnection::new(&self.worker, self.of.listener(), peer, permit);
        reactor::spawn(connection.serve(Box::new(socket)));
    }

    fn warn(&self, error: &io::Error) {
        let now = self.worker.clock.now();
        if self
            .warned
            .get()
            .is_none_or(|last| now >= last + WARN_EVERY)
        {
            self.warned.set(Some(now));
            let listener = self.of.listener().snapshot();
            tracing::warn!(listener = %listener.settings.name, %error, "cannot accept connections, which wait in the backlog");
        }
    }
}

/// The time for accepting before the worker's other connections go on.
///
/// Half as long as these had. With a fixed number of connections per turn, many busy connections
/// would make accepting slow, and the last of thousands would wait for seconds.
struct AcceptBudget {
    began: Instant,
    length: Duration,
    accepted: u32,
}

impl AcceptBudget {
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
