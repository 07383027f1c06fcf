//! One worker: what its connections share, its tick, and its end.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use lockgate_metrics::{Shard, Top, TopSnapshot};
use lockgate_net::relay::Scratch;
use lockgate_net::splice::Pipes;
use tokio::sync::Notify;

use crate::access_log::Log;
use crate::clock::{Clock, Cut, Pulse, Watch};
use crate::limits::{Limit, PerClient};
use crate::metrics::WorkerCells;
use crate::popular::{Popular, PopularSnapshot};

/// Clients whose traffic one worker tracks: see `lockgate_metrics::Top`.
const TOP_CLIENTS: usize = 1024;
/// Milliseconds between two publications of them.
const PUBLISHED_EVERY: u64 = 1_000;

/// What all workers share: settings that do not change, and the limits of the process.
pub struct Shared {
    /// Connections at once.
    pub connections: Limit,
    /// Handshakes at once.
    pub handshakes: Limit,
    /// Connections of each client at once, if that is limited.
    pub per_client: Option<Arc<PerClient>>,
    /// Whose PROXY headers are believed.
    pub trusted: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Connections are numbered from a random start, so that an id is not met again after a restart.
    pub ids: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("connections", &self.connections).finish_non_exhaustive()
    }
}

/// What one worker's accounts say.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// The traffic of its clients.
    pub clients: TopSnapshot<IpAddr>,
    /// What they asked for.
    pub popular: PopularSnapshot,
}

/// The accounts of one worker as of about a second ago; written by the worker, read by anybody.
pub type Published = Arc<ArcSwapOption<Accounts>>;

/// What a worker is made of.
#[derive(Debug)]
pub struct Setup {
    /// Process-wide things.
    pub shared: Arc<Shared>,
    /// What drives it.
    pub pulse: Arc<Pulse>,
    /// What it counts.
    pub cells: Shard<WorkerCells>,
    /// Where it publishes its accounts.
    pub top: Published,
    /// The access log, unless it is off.
    pub log: Option<Log>,
    /// Pipes that it may have open for splicing.
    pub pipes: usize,
}

/// What the connections of one worker share.
#[derive(Debug)]
pub struct Worker {
    /// Process-wide things.
    pub shared: Arc<Shared>,
    /// Time and deadlines.
    pub clock: Rc<Clock>,
    /// Buffers of the relays.
    pub scratch: Rc<Scratch>,
    /// Counters.
    pub cells: Shard<WorkerCells>,
    /// The access log, unless it is off.
    pub log: RefCell<Option<Log>>,
    /// What is asked for most.
    pub popular: RefCell<Popular>,
    top: RefCell<Top<IpAddr>>,
    published: Published,
    published_at: Cell<u64>,
    stopping: Cell<bool>,
    stop: Notify,
}

impl Worker {
    /// A worker without connections.
    pub fn new(setup: Setup) -> Rc<Self> {
        Rc::new(Self {
            shared: setup.shared,
            clock: Clock::new(setup.pulse),
            scratch: Scratch::new(Pipes::new(setup.pipes)),
            cells: setup.cells,
            log: RefCell::new(setup.log),
            popular: RefCell::default(),
            top: RefCell::new(Top::new(TOP_CLIENTS)),
            published: setup.top,
            published_at: Cell::new(0),
            stopping: Cell::new(false),
            stop: Notify::new(),
        })
    }

    /// Takes a tick: deadlines, accounts, and the log's buffer.
    pub fn tick(&self) {
        self.clock.tick(|watch| self.account(watch));
        if self.clock.now() >= self.published_at.get() + PUBLISHED_EVERY {
            self.published_at.set(self.clock.now());
            let now = unix_millis();
            let accounts = Accounts {
                clients: self.top.borrow().snapshot(now),
                popular: self.popular.borrow().snapshot(now),
            };
            self.published.store(Some(Arc::new(accounts)));
        }
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.flush();
        }
    }

    /// Adds what a connection has moved since the last time to the counters and its client's account.
    pub fn account(&self, watch: &Watch) {
        let moved = (watch.meter.received.get(), watch.meter.sent.get());
        let before = watch.accounted.replace(moved);
        let (received, sent) = (moved.0 - before.0, moved.1 - before.1);
        if received == 0 && sent == 0 {
            return;
        }
        if let Some(cells) = self.cells.listeners.get(watch.listener.get()) {
            cells.received.add(received);
            cells.sent.add(sent);
        }
        if let Some(client) = watch.client.get() {
            self.top.borrow_mut().add(&account_key(client), unix_millis(), received, sent);
        }
    }

    /// Stops accepting once the backlog is empty.
    pub fn stop_accepting(&self) {
        self.stopping.set(true);
        self.stop.notify_waiters();
    }

    /// Whether accepting has been stopped.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Completes when accepting is to stop.
    pub async fn stopping(&self) {
        if !self.is_stopping() {
            self.stop.notified().await;
        }
    }

    /// Cuts every connection that is left, and says how many there were.
    pub fn cut_all(&self) -> usize {
        self.clock.each(|watch| watch.cut(Cut::Drain));
        self.clock.watched()
    }

    /// The next connection's number.
    pub fn next_id(&self) -> u64 {
        self.shared.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// An IPv6 client is its /64: it has all of that.
fn account_key(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

/// Milliseconds since 1970.
pub fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
