//! One worker: what its connections share, its tick, and its end.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use lockgate_content::coding::Encoders;
use lockgate_http::date;
use lockgate_http::head::{RequestHead, ResponseHead};
use lockgate_metrics::{Shard, Top, TopSnapshot};
use lockgate_net::memory::{self, Level};
use lockgate_net::relay::Scratch;
use lockgate_net::shape::Line;
use lockgate_net::splice::Pipes;
use lockgate_net::stream::Blocks;
use tokio::sync::Notify;

use crate::access_log::{AccessLog, MaskIp};
use crate::clients::Clients;
use crate::clock::{Asked, Clock, Cut, Pulse, Waiting, Watch};
use crate::files;
use crate::limits::connections::ConnectionLimit;
use crate::limits::handshakes::HandshakeLimit;
use crate::limits::sockets::SocketLimit;
use crate::limits::{self, PerClient, Permit};
use crate::metrics::WorkerCells;
use crate::preemption::{IdleAge, close_connections};
use crate::request_id::RequestIds;
use crate::top_requests::{TopRequests, TopRequestsSnapshot};
use crate::upstream::{Pool, Slots, Upstream};

/// Clients whose traffic one worker tracks: see `lockgate_metrics::Top`.
const TOP_CLIENTS: usize = 1024;
/// Milliseconds between two publications of them.
const PUBLISHED_EVERY: u64 = 1_000;

/// Milliseconds after which the allocator gives memory back again: that takes a while.
const COLLECTED_EVERY: u64 = 1_000;
/// Milliseconds between two looks at the idle connections to endpoints.
const TIDIED_EVERY: u64 = 1_000;
/// Ticks for which kept connections may still bring a request when we stop.
const LAST_REQUESTS: u32 = 10;
/// Heads that are kept for later.
const SPARE: usize = 64;
/// What all workers share: settings that do not change, and the limits of the process.
pub struct Shared {
    /// Connections of clients at once.
    pub connections: ConnectionLimit,
    /// Handshakes with clients.
    pub handshakes: HandshakeLimit,
    /// Sockets towards endpoints at once.
    pub sockets: Arc<SocketLimit>,
    /// Workers that share all of this.
    pub workers: usize,
    /// Connections of each client at once, if that is limited.
    pub per_client: Option<Arc<PerClient>>,
    /// What each client holds.
    pub clients: Arc<Clients>,
    /// Whose PROXY headers are believed.
    pub trusted: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// What requests are named by.
    pub request_ids: RequestIds,
    /// Connections are numbered from a random start, so that an id is not met again after a
    /// restart.
    pub ids: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// What one worker's accounts say.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// The traffic of its clients.
    pub clients: TopSnapshot<IpAddr>,
    /// What they asked for.
    pub top_requests: TopRequestsSnapshot,
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
    /// Under which addresses clients have an account.
    pub mask: MaskIp,
    /// The access log, unless it is off.
    pub log: Option<AccessLog>,
    /// Those of sites.
    pub site_logs: Vec<AccessLog>,
    /// Pipes that it may have open for splicing.
    pub pipes: usize,
    /// The pools of the sites.
    pub pools: Vec<Arc<Pool>>,
    /// Files that it may keep open for the next request.
    pub files: usize,
    /// Which of the workers it is.
    pub number: usize,
}

/// What the connections of one worker share.
pub struct Worker {
    /// Process-wide things.
    pub shared: Arc<Shared>,
    /// Time and deadlines.
    pub clock: Rc<Clock>,
    /// Who waits for rates.
    pub line: Rc<Line>,
    /// Buffers of the relays.
    pub scratch: Rc<Scratch>,
    /// Buffers of what is read and looked at.
    pub blocks: Rc<Blocks>,
    /// Counters.
    pub cells: Shard<WorkerCells>,
    /// The access log, unless it is off.
    pub log: RefCell<Option<AccessLog>>,
    /// Those of sites.
    pub site_logs: RefCell<Vec<AccessLog>>,
    /// Files that were asked for lately.
    pub files: files::FileCache,
    /// What compresses, while it has nothing to do.
    pub encoders: RefCell<Encoders>,
    /// Heads of requests that nobody uses now.
    pub requests: Spare<RequestHead>,
    /// Heads of answers that nobody uses now.
    pub answers: Spare<ResponseHead>,
    mask: MaskIp,
    /// Sockets towards endpoints.
    pub slots: Rc<Slots>,
    upstreams: Box<[Rc<Upstream>]>,
    date: Cell<(u64, [u8; date::LENGTH])>,
    /// What is asked for most.
    pub top_requests: RefCell<TopRequests>,
    top: RefCell<Top<IpAddr>>,
    published: Published,
    published_at: Cell<u64>,
    tidied_at: Cell<u64>,
    /// When it was last said that a client is not known.
    pub unknown_client_told: Cell<Option<u64>>,
    /// When the allocator last gave memory back, while that is scarce.
    collected_at: Cell<Option<u64>>,
    /// When no connection was found that could give way.
    none_at: Cell<Option<u64>>,
    /// Ticks since it began to stop.
    stopping_for: Cell<u32>,
    stopping: Cell<bool>,
    stop: Notify,
}

/// Boxes that are used again: a head keeps the memory that it has grown to.
#[derive(Debug)]
pub struct Spare<T>(RefCell<Vec<Box<T>>>);

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: Default> Spare<T> {
    /// One that was used before, or a new one.
    pub fn take(&self) -> Box<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives one back.
    pub fn give(&self, spare: Box<T>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < SPARE {
            kept.push(spare);
        }
    }

    /// Keeps none.
    fn clear(&self) {
        self.0.take();
    }
}

impl Worker {
    /// A worker without connections, whose time for rates is that of `line`.
    pub fn new(setup: Setup, line: Rc<Line>) -> Rc<Self> {
        let blocks = Blocks::new();
        let slots = Slots::new(Arc::clone(&setup.shared.sockets), setup.number);
        let mut first = 0;
        let upstream = |pool: Arc<Pool>| {
            let here = first;
            first += pool.members().len();
            Upstream::new(pool, here, &blocks, &slots)
        };
        let upstreams = setup.pools.into_iter().map(upstream).collect();
        Rc::new(Self {
            blocks,
            files: files::FileCache::new(setup.files),
            encoders: RefCell::default(),
            requests: Spare::default(),
            answers: Spare::default(),
            slots,
            upstreams,
            date: Cell::new((u64::MAX, [0; date::LENGTH])),
            shared: setup.shared,
            clock: Clock::new(setup.pulse),
            scratch: Scratch::new(Pipes::new(setup.pipes), Rc::clone(&line)),
            line,
            cells: setup.cells,
            log: RefCell::new(setup.log),
            site_logs: RefCell::new(setup.site_logs),
            top_requests: RefCell::default(),
            top: RefCell::new(Top::new(TOP_CLIENTS)),
            mask: setup.mask,
            published: setup.top,
            published_at: Cell::new(0),
            tidied_at: Cell::new(0),
            unknown_client_told: Cell::new(None),
            collected_at: Cell::new(None),
            none_at: Cell::new(None),
            stopping_for: Cell::new(0),
            stopping: Cell::new(false),
            stop: Notify::new(),
        })
    }

    /// Takes a tick: deadlines, accounts, and the log's buffer.
    pub fn tick(&self) {
        self.clock.tick(|watch| {
            self.account(watch);
            self.impatience(watch);
        });
        self.mind_memory();
        if self.clock.now() >= self.published_at.get() + PUBLISHED_EVERY {
            self.published_at.set(self.clock.now());
            let now = unix_millis();
            let accounts = Accounts {
                clients: self.top.borrow().snapshot(now),
                top_requests: self.top_requests.borrow().snapshot(self.clock.now()),
            };
            self.published.store(Some(Arc::new(accounts)));
        }
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.flush();
        }
        self.site_logs
            .borrow_mut()
            .iter_mut()
            .for_each(AccessLog::flush);
        if self.clock.now() >= self.tidied_at.get() + TIDIED_EVERY {
            self.tidied_at.set(self.clock.now());
            self.blocks.tidy();
            self.tidy();
        }
        if self.is_stopping() {
            self.let_go();
        }
    }

    /// Gives memory back where it is scarce, and once when it is no longer.
    fn mind_memory(&self) {
        let level = memory::level();
        if level > Level::Easy {
            self.relieve();
        }
        let now = self.clock.now();
        let since = self.collected_at.get();
        if level > Level::Easy && since.is_none_or(|since| now >= since + COLLECTED_EVERY) {
            self.collected_at.set(Some(now));
            memory::collect();
        } else if level == Level::Easy && since.is_some() {
            self.collected_at.set(None);
            memory::collect();
        }
    }

    /// Lets go of what is only kept for later; where that is not enough, cuts its share of the
    /// connections that hold most.
    fn relieve(&self) {
        self.files.clear();
        self.blocks.shrink();
        self.requests.clear();
        self.answers.clear();
        self.encoders.take();
        if memory::level() == Level::Full {
            let share = memory::process()
                .excess()
                .div_ceil(self.shared.workers.max(1));
            let cut = crate::memory::relieve(&self.clock, share, |client| {
                // A Unix socket's peers speak for many, as those do that are trusted.
                client.is_none_or(|ip| (self.shared.trusted)(ip))
            });
            self.cells.memory_cut.add(cut as u64);
        }
    }

    /// Lets the endpoint that a connection waits for look as slow as it is: one that has stopped
    /// loses its requests within ticks, and not when the first of them runs into its deadline.
    /// One that checks have found down is waited for no longer where another can be asked;
    /// where not it may be merely busy, and answer yet.
    fn impatience(&self, watch: &Watch) {
        let Some(Asked {
            upstream,
            member,
            since,
            tried,
        }) = watch.asked.get()
        else {
            return;
        };
        let Some(upstream) = self.upstreams.get(upstream) else {
            return;
        };
        let Some(member) = upstream.pool().members().get(member) else {
            return;
        };
        member.endpoint().waited(since.elapsed(), self.clock.now());
        if !member.is_up() && tried.is_some_and(|tried| upstream.has_another(tried)) {
            watch.cut(Cut::EndpointDown);
        }
    }

    /// Closes idle connections to endpoints that are of no more use, and shows how many there are.
    fn tidy(&self) {
        let mut kept = false;
        for upstream in &self.upstreams {
            upstream.tidy(self.clock.now());
            for (place, idle) in upstream.idle_connections() {
                if let Some(cells) = self.cells.http.endpoint(place) {
                    cells.idle.set(idle as i64);
                }
            }
            kept |= upstream.has_connections();
        }
        // The last client may leave long before they are too old.
        self.clock.want(kept);
    }

    /// Closes connections of clients that only wait for their next request. Not at once: what is on
    /// its way when we begin to stop is still answered, and told that it was the last.
    fn let_go(&self) {
        let since = self.stopping_for.replace(self.stopping_for.get() + 1);
        if since >= LAST_REQUESTS {
            let waiting = |watch: &Watch| watch.waiting() == Waiting::ForRequest;
            self.clock.each(|watch| {
                if waiting(watch) {
                    watch.cut(Cut::Drain)
                }
            });
        }
    }

    /// Looks whether another worker wants what is idle here.
    pub fn answer(&self) {
        if self.shared.connections.wanted() > 0 {
            self.make_room(IdleAge::Long);
        }
        self.slots.answer(&self.clock);
    }

    /// Closes connections of clients if another client waits for one of their places; says how
    /// many.
    fn make_room(&self, idle: IdleAge) -> usize {
        let connections = &self.shared.connections;
        let (wanted, now) = (connections.wanted(), self.clock.now());
        // Looking costs as much as there are connections: several listeners that wait need not do
        // it in one tick.
        if wanted == 0 || self.none_at.get() == Some(now) {
            return 0;
        }
        let part = connections.size() / (self.shared.clients.count() + 1);
        let closed = close_connections(&self.clock, wanted, part, idle);
        self.none_at.set((closed == 0).then_some(now));
        connections.give_way(closed);
        closed
    }

    /// Takes a place among the connections of clients; where there is none, idle ones give way.
    pub async fn place(&self) -> Permit {
        let connections = &self.shared.connections;
        if let Some(place) = connections.try_take() {
            return place;
        }
        let _waiting = connections.wait();
        let mut place = pin!(connections.take());
        let mut tick = pin!(self.clock.next_tick());
        let (mut asked, mut which) = (false, IdleAge::Long);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(place) = place.as_mut().poll(cx) {
                    return Poll::Ready(place);
                }
                if !std::mem::replace(&mut asked, true) {
                    connections.want();
                    if self.make_room(which) == 0 {
                        connections.wake();
                    }
                } else if tick.as_mut().poll(cx).is_ready() {
                    tick.set(self.clock.next_tick());
                    // Places may be free in a moment: of connections that have waited in the
                    // backlog many are dead.
                    (asked, which) = (false, IdleAge::Any);
                } else {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// One of the pools of the sites.
    pub fn upstream(&self, number: usize) -> &Rc<Upstream> {
        &self.upstreams[number]
    }

    /// The time as messages have it (RFC 9110 §5.6.7).
    pub fn date(&self) -> [u8; date::LENGTH] {
        let now = self.clock.now();
        let (written, text) = self.date.get();
        if written == now {
            return text;
        }
        let text = date::imf_fixdate(unix_millis() / 1_000);
        self.date.set((now, text));
        text
    }

    /// Adds what a connection has moved since the last time to the counters and its client's
    /// account.
    pub fn account(&self, watch: &Watch) {
        let moved = (
            watch.meter.received.get(),
            watch.meter.sent.get(),
            watch.meter.held_for.get(),
        );
        let before = watch.accounted.replace(moved);
        let (received, sent, held_for) =
            (moved.0 - before.0, moved.1 - before.1, moved.2 - before.2);
        if received == 0 && sent == 0 && held_for == 0 {
            return;
        }
        if let Some(cells) = watch
            .listener
            .get()
            .and_then(|place| self.cells.listeners.get(place))
        {
            cells.held_nanos.add(held_for);
            cells.received.add(received);
            cells.sent.add(sent);
        }
        if let Some(cells) = watch
            .relay
            .get()
            .and_then(|place| self.cells.relays.get(place))
        {
            cells.received.add(received);
            cells.sent.add(sent);
        }
        if let Some(client) = watch.client.get() {
            let client = self.mask.shown(limits::client(client));
            self.top
                .borrow_mut()
                .add(&client, unix_millis(), received, sent);
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

/// Milliseconds since 1970.
pub fn unix_millis() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
