//! One worker: the state that its connections share, its tick, and its shutdown.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use foldhash::HashSet;
use lockgate_content::coding::Encoders;
use lockgate_http::date;
use lockgate_http::head::{RequestHead, ResponseHead};
use lockgate_http_io::h2::WorkerBuffers;
use lockgate_limits::clients::Clients;
use lockgate_limits::clock::{Clock, Cut, Ticker, WaitReason, Watch};
use lockgate_limits::connections::ConnectionLimit;
use lockgate_limits::handshakes::HandshakeLimit;
use lockgate_limits::preemption::{IdleAge, close_connections};
use lockgate_limits::sockets::SocketLimit;
use lockgate_limits::{Permit, WorkerIndex};
use lockgate_metrics::{Top, TopSnapshot};
use lockgate_net::cert_demand::CertDemands;
use lockgate_net::challenges::Challenges;
use lockgate_net::memory::{self, MemoryLevel};
use lockgate_net::millis::Millis;
use lockgate_net::nanos::Nanos;
use lockgate_net::relay::RelayBuffers;
use lockgate_net::splice::Pipes;
use lockgate_net::stream::BufferPool;
use lockgate_net::traffic_shaping::ShapingQueue;
use lockgate_upstream::{UpstreamPool, WorkerSockets};
use tokio::sync::Notify;

use crate::access_log::{RecentErrors, Tails, WorkerLog};
use crate::admit::client_bans::ClientBans;
use crate::files;
use crate::generation::{Generation, GenerationSetup};
use crate::metrics::{ProcessCells, SharedCells};
use crate::request_id::RequestIds;
use crate::request_traces::RequestTraces;
use crate::spans::{SpanQueue, WorkerSpans};
use crate::top_requests::{TopRequests, TopRequestsSnapshot};

/// Clients for which one worker counts traffic: see `lockgate_metrics::Top`.
const TOP_CLIENTS: usize = 1024;
/// The time between two publications of the counts.
const PUBLISHED_EVERY: Millis = Millis::from_secs(1);

/// The time for which counts are still published after the last traffic: rates fall to zero
/// meanwhile.
const AFTERGLOW: Millis = Millis::new(2 * lockgate_metrics::WINDOW);

/// The time between two collections of the allocator: each takes a while.
const COLLECTED_EVERY: Millis = Millis::from_secs(1);
/// The time between two checks of the idle connections to endpoints.
const TIDIED_EVERY: Millis = Millis::from_secs(1);
/// The time in which kept connections may still send a request when they are to end.
const LAST_REQUESTS: Millis = Millis::from_secs(1);
/// Heads that are kept for later.
const SPARE: usize = 64;

/// The state that all workers share: constant settings, and the limits of the process.
pub struct ProcessState {
    /// Connections of clients at once.
    pub connections: ConnectionLimit,
    /// Handshakes with clients at once.
    pub handshakes: HandshakeLimit,
    /// Sockets towards endpoints at once.
    pub sockets: Arc<SocketLimit>,
    /// Number of workers.
    pub workers: usize,
    /// The account of each client: its connections, sockets and memory.
    pub clients: Arc<Clients>,
    /// The clients that are banned.
    pub bans: ClientBans,
    /// The answers to challenges of ACME.
    pub challenges: Arc<Challenges>,
    /// The way to certificates on demand.
    pub cert_demands: CertDemands,
    /// The readers of the access log.
    pub tails: Arc<Tails>,
    /// The last errors.
    pub errors: RecentErrors,
    /// The requests that an operator follows.
    pub traces: RequestTraces,
    /// The spans that wait to be sent.
    pub spans: Arc<SpanQueue>,
    /// The source of request ids.
    pub request_ids: RequestIds,
    /// The next connection's number. The first is random, so that no id comes again after a
    /// restart.
    pub ids: AtomicU64,
    /// Told about once a second by workers that have something to do: the process may have changed.
    pub worked: Notify,
}

impl fmt::Debug for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessState")
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// The most active clients and the most requested pages of one worker.
#[derive(Debug, Clone)]
pub struct WorkerTop {
    /// Its clients with the most traffic.
    pub clients: TopSnapshot<IpAddr>,
    /// Its most requested hosts, pages and referers.
    pub top_requests: TopRequestsSnapshot,
}

/// The most active of one worker, about a second old; written by the worker, read by any thread.
pub type PublishedTop = Arc<ArcSwapOption<WorkerTop>>;

/// The parts of a new worker.
#[derive(Debug)]
pub struct Setup {
    /// The state that all workers share.
    pub shared: Arc<ProcessState>,
    /// The source of its ticks.
    pub ticker: Arc<Ticker>,
    /// Its counters.
    pub cells: SharedCells<ProcessCells>,
    /// Where it publishes its most active clients and pages.
    pub top: PublishedTop,
    /// The most pipes that it may have open for splicing.
    pub pipes: usize,
    /// The most files that it may keep open for the next request.
    pub files: usize,
    /// Its index.
    pub index: WorkerIndex,
}

/// The state that the connections of one worker share.
pub struct Worker {
    /// The state that all workers share.
    pub shared: Arc<ProcessState>,
    /// Its index.
    pub index: WorkerIndex,
    /// Time and deadlines.
    pub clock: Rc<Clock>,
    /// The connections that wait for their rates, for full reads, or to acknowledge early.
    pub shaping_queue: Rc<ShapingQueue>,
    /// Buffers of the relays.
    pub relay_buffers: Rc<RelayBuffers>,
    /// Buffers of messages.
    pub blocks: Rc<BufferPool>,
    /// Buffers of connections over HTTP/2.
    pub h2_buffers: Rc<WorkerBuffers>,
    /// Its counters that belong to no configuration.
    pub cells: SharedCells<ProcessCells>,
    generation: RefCell<Rc<Generation>>,
    /// The buffers of all logs, also of those of earlier generations.
    logs: RefCell<Vec<Weak<RefCell<WorkerLog>>>>,
    /// The spans that were not handed over yet.
    pub spans: RefCell<WorkerSpans>,
    /// Recently requested files.
    pub files: files::FileCache,
    /// Idle encoders of content codings.
    pub encoders: RefCell<Encoders>,
    /// Unused heads of requests.
    pub request_heads: Recycler<RequestHead>,
    /// Unused heads of responses.
    pub response_heads: Recycler<ResponseHead>,
    /// Sockets towards endpoints.
    pub sockets: Rc<WorkerSockets>,
    date: Cell<(Millis, [u8; date::LENGTH])>,
    /// The most requested hosts, pages and referers.
    pub top_requests: RefCell<TopRequests>,
    top: RefCell<Top<IpAddr>>,
    published: PublishedTop,
    published_at: Cell<Millis>,
    tidied_at: Cell<Millis>,
    /// Whether there were connections to endpoints then.
    has_idle: Cell<bool>,
    /// When the log last said that a client is not known.
    pub unknown_client_told: Cell<Option<Millis>>,
    /// When the allocator last gave memory back, while memory is scarce.
    collected_at: Cell<Option<Millis>>,
    /// When no connection was found that could be closed for another client.
    none_at: Cell<Option<Millis>>,
    /// Whether connections may be left that take no further request.
    draining: Cell<bool>,
    stopping: Cell<bool>,
    stop: Notify,
}

/// Boxes that are used again: a head keeps its memory.
#[derive(Debug)]
pub struct Recycler<T>(RefCell<Vec<Box<T>>>);

impl<T> Default for Recycler<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: Default> Recycler<T> {
    /// A used box, or a new one.
    pub fn take(&self) -> Box<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a box back.
    pub fn give(&self, spare: Box<T>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < SPARE {
            kept.push(spare);
        }
    }

    fn clear(&self) {
        self.0.take();
    }
}

impl Worker {
    /// A worker without connections and configuration; `shaping_queue` has its short waits.
    pub fn new(setup: Setup, shaping_queue: Rc<ShapingQueue>) -> Rc<Self> {
        let blocks = BufferPool::with_queue(Some(Rc::clone(&shaping_queue)));
        let sockets = WorkerSockets::new(Arc::clone(&setup.shared.sockets), setup.index);
        Rc::new(Self {
            blocks,
            h2_buffers: WorkerBuffers::new(),
            files: files::FileCache::new(setup.files),
            encoders: RefCell::default(),
            request_heads: Recycler::default(),
            response_heads: Recycler::default(),
            sockets,
            date: Cell::new((Millis::MAX, [0; date::LENGTH])),
            spans: RefCell::new(WorkerSpans::new(
                Arc::clone(&setup.shared.spans),
                setup.index,
            )),
            shared: setup.shared,
            index: setup.index,
            clock: Clock::new(setup.ticker),
            relay_buffers: RelayBuffers::new(Pipes::new(setup.pipes), Rc::clone(&shaping_queue)),
            shaping_queue,
            cells: setup.cells,
            generation: RefCell::new(Rc::new(Generation::none())),
            logs: RefCell::default(),
            top_requests: RefCell::default(),
            top: RefCell::new(Top::new(TOP_CLIENTS)),
            published: setup.top,
            published_at: Cell::default(),
            tidied_at: Cell::default(),
            has_idle: Cell::default(),
            unknown_client_told: Cell::new(None),
            collected_at: Cell::new(None),
            none_at: Cell::new(None),
            draining: Cell::new(false),
            stopping: Cell::new(false),
            stop: Notify::new(),
        })
    }

    /// Whether the client is banned; then it is counted.
    #[inline]
    pub fn is_banned(&self, client: IpAddr) -> bool {
        let is_banned = self.shared.bans.has(client, self.clock.now());
        if is_banned {
            self.cells.banned.inc();
        }
        is_banned
    }

    /// The generation that new requests begin in.
    pub fn generation(&self) -> Rc<Generation> {
        Rc::clone(&self.generation.borrow())
    }

    /// Takes up the next generation, which requests begin in from now on.
    pub fn adopt(&self, setup: GenerationSetup) -> Rc<Generation> {
        let previous = self.generation();
        let next = Rc::new(previous.next(setup, &self.blocks, &self.sockets));
        let kept: HashSet<_> = next
            .upstreams()
            .iter()
            .flat_map(|upstream| upstream.connection_ids())
            .collect();
        let retire = |upstream: &Rc<UpstreamPool>| upstream.retire(|one| kept.contains(&one));
        previous.upstreams().iter().for_each(retire);
        let mut logs = self.logs.borrow_mut();
        logs.retain(|log| log.strong_count() > 0);
        for log in next.logs().map(Rc::downgrade) {
            if !logs.iter().any(|known| Weak::ptr_eq(known, &log)) {
                logs.push(log);
            }
        }
        if previous.rules.mask != next.rules.mask {
            // What was counted so far may show addresses in full.
            self.top.replace(Top::new(TOP_CLIENTS));
            self.published.store(None);
            // The next tick publishes the rest, even if it is the last for long.
            self.published_at.set(Millis::ZERO);
        }
        self.relay_buffers.limit_pipes(next.pipes);
        self.generation.replace(Rc::clone(&next));
        next
    }

    /// Handles a tick: deadlines, the published top, and the buffers of logs and spans.
    pub fn tick(&self) {
        self.clock.tick(|watch| {
            self.count_traffic(watch);
            self.check_slow_endpoints(watch);
        });
        self.check_memory();
        if self.clock.now() >= self.published_at.get() + PUBLISHED_EVERY {
            self.published_at.set(self.clock.now());
            let now = unix_millis();
            let top = WorkerTop {
                clients: self.top.borrow().snapshot(now),
                top_requests: self.top_requests.borrow().snapshot(self.clock.now()),
            };
            self.published.store(Some(Arc::new(top)));
            if self.was_busy() {
                self.shared.worked.notify_one();
            }
        }
        self.flush_logs();
        self.spans.borrow_mut().flush();
        if self.clock.now() >= self.tidied_at.get() + TIDIED_EVERY {
            self.tidied_at.set(self.clock.now());
            self.blocks.evict_unused();
            self.h2_buffers.evict_unused();
            self.close_stale();
        }
        self.close_waiting_clients();
        self.clock.sleep(self.latest_tick());
    }

    /// When the next tick is to come at the latest, where all connections are at rest.
    fn latest_tick(&self) -> Millis {
        let now = self.clock.now();
        let hurries = self.draining.get()
            || self.is_stopping()
            || memory::level() > MemoryLevel::Easy
            || self.collected_at.get().is_some();
        if hurries {
            now
        } else if self.has_idle.get() || self.was_busy() {
            now + TIDIED_EVERY.min(PUBLISHED_EVERY)
        } else {
            Millis::MAX
        }
    }

    /// Whether something was under way a moment ago.
    fn was_busy(&self) -> bool {
        self.clock.now() < self.clock.busy_at() + AFTERGLOW
    }

    fn flush_logs(&self) {
        for log in self.logs.borrow().iter().filter_map(Weak::upgrade) {
            log.borrow_mut().flush();
        }
    }

    /// Gives memory back while it is scarce, and once when it is no longer.
    fn check_memory(&self) {
        let level = memory::level();
        if level > MemoryLevel::Easy {
            self.free_memory();
        }
        let now = self.clock.now();
        let since = self.collected_at.get();
        if level > MemoryLevel::Easy && since.is_none() {
            // The main thread wakes the workers that sleep.
            self.shared.worked.notify_one();
        }
        if level > MemoryLevel::Easy && since.is_none_or(|since| now >= since + COLLECTED_EVERY) {
            self.collected_at.set(Some(now));
            memory::collect();
        } else if level == MemoryLevel::Easy && since.is_some() {
            self.collected_at.set(None);
            memory::collect();
        }
    }

    /// Drops caches and spare buffers; where that is not enough, cuts its share of the connections
    /// that hold most memory.
    fn free_memory(&self) {
        self.files.clear();
        self.blocks.shrink();
        self.h2_buffers.shrink();
        self.request_heads.clear();
        self.response_heads.clear();
        self.encoders.take();
        if memory::level() == MemoryLevel::Full {
            let share = memory::process()
                .excess()
                .div_ceil(self.shared.workers.max(1));
            let generation = self.generation();
            let cut = lockgate_limits::memory::relieve(&self.clock, share, |client| {
                // A peer on a Unix socket forwards for many clients, as a trusted proxy does.
                client.is_none_or(|ip| generation.trusts(ip))
            });
            self.cells.memory_cut.add(cut as u64);
        }
    }

    /// Adds the time that a response is overdue to its endpoint's latency, and ends waits for
    /// endpoints that are down.
    fn check_slow_endpoints(&self, watch: &Watch) {
        let is_given_up = watch.pending.borrow().as_ref().is_some_and(|pending| {
            let (waited, now) = (pending.since.elapsed(), self.clock.now());
            let source = &pending.source;
            source.is_given_up(pending.member, pending.tried, waited, now)
        });
        if is_given_up {
            watch.cut(Cut::EndpointDown);
        }
    }

    /// Closes idle connections to endpoints that are too old or too many, and counts the others.
    fn close_stale(&self) {
        let mut kept = false;
        let generation = self.generation();
        for upstream in generation.upstreams() {
            upstream.close_stale(self.clock.now());
            for (index, idle) in upstream.idle_connections() {
                if let Some(cells) = generation.cells.http.endpoint(index) {
                    cells.idle.set(idle as i64);
                }
            }
            kept |= upstream.has_connections();
        }
        // The last client may leave long before these are too old.
        self.has_idle.set(kept);
    }

    /// Closes connections that take no further request and only wait for one. Not at once: requests
    /// on their way are still answered, with `Connection: close`.
    fn close_waiting_clients(&self) {
        if !self.draining.get() {
            return;
        }
        let (now, mut left) = (self.clock.now(), self.is_stopping());
        self.clock.each(|watch| {
            let Some(since) = watch.draining_since() else {
                return;
            };
            // A relay or tunnel takes no request.
            left |= watch.waiting() != WaitReason::ForTunnel;
            if now >= since + LAST_REQUESTS && watch.waiting() == WaitReason::ForRequest {
                watch.cut(Cut::Drain);
            }
        });
        self.draining.set(left);
    }

    /// Has a connection take no further request.
    pub fn drain_one(&self, watch: &Watch) {
        self.draining.set(true);
        watch.drain(self.clock.now());
    }

    /// Has connections take no further request; those that wait for one are closed in a moment.
    pub fn drain(&self, of: impl Fn(&Watch) -> bool) {
        let now = self.clock.now();
        self.draining.set(true);
        self.clock.each(|watch| {
            if of(watch) {
                watch.drain(now);
            }
        });
    }

    /// Closes idle connections and sockets that another worker needs.
    pub fn yield_idle(&self) {
        if self.shared.connections.wanted() > 0 {
            self.make_room(IdleAge::Long);
        }
        self.sockets.yield_sockets(&self.clock);
    }

    /// Closes connections of clients if another client waits for one of their permits; returns how
    /// many.
    fn make_room(&self, idle: IdleAge) -> usize {
        let connections = &self.shared.connections;
        let (wanted, now) = (connections.wanted(), self.clock.now());
        // A search visits all connections: several waiting listeners need only one a tick.
        if wanted == 0 || self.none_at.get() == Some(now) {
            return 0;
        }
        let part = connections.size() / (self.shared.clients.count() + 1);
        let closed = close_connections(&self.clock, wanted, part, idle);
        self.none_at.set((closed == 0).then_some(now));
        connections.give_way(closed);
        closed
    }

    /// Takes a permit for a connection of a client; where there is none, closes idle ones.
    pub async fn take_permit(&self) -> Permit {
        let connections = &self.shared.connections;
        if let Some(permit) = connections.try_take() {
            return permit;
        }
        let _waiting = connections.wait();
        let mut permit = pin!(connections.take());
        let mut tick = pin!(self.clock.next_tick());
        let (mut asked, mut which) = (false, IdleAge::Long);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(permit) = permit.as_mut().poll(cx) {
                    return Poll::Ready(permit);
                }
                if !std::mem::replace(&mut asked, true) {
                    connections.want();
                    if self.make_room(which) == 0 {
                        connections.wake();
                    }
                } else if tick.as_mut().poll(cx).is_ready() {
                    tick.set(self.clock.next_tick());
                    // Permits may be free in a moment: many connections from the backlog are dead.
                    (asked, which) = (false, IdleAge::Any);
                } else {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The time as a Date field has it (RFC 9110 §5.6.7).
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

    /// Adds the bytes that a connection has moved since the last call to the counters and its
    /// client's account.
    pub fn count_traffic(&self, watch: &Watch) {
        let moved = (
            watch.meter.received.get(),
            watch.meter.sent.get(),
            watch.meter.held_for.get().as_u64(),
        );
        let before = watch.accounted.replace(moved);
        let (received, sent, held_for) =
            (moved.0 - before.0, moved.1 - before.1, moved.2 - before.2);
        if received == 0 && sent == 0 && held_for == 0 {
            return;
        }
        let counters = watch.listener_traffic.get();
        for counter in counters.into_iter().chain(watch.relay_traffic.get()) {
            counter.add_traffic(received, sent, Nanos::new(held_for));
        }
        if let Some(client) = watch.client.get() {
            let mask = self.generation.borrow().rules.mask;
            let client = mask.shown(lockgate_limits::client(client));
            self.top
                .borrow_mut()
                .add(&client, unix_millis(), received, sent);
        }
    }

    /// Stops accepting once the backlog is empty.
    pub fn stop_accepting(&self) {
        if !self.stopping.replace(true) {
            self.drain(|_| true);
            self.stop.notify_waiters();
        }
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

    /// Cuts what is held to a generation before the one with this number.
    pub fn cut_earlier(&self, number: u64) {
        self.clock.each(|watch| {
            if (1..number).contains(&watch.generation.get()) {
                watch.cut(Cut::Drain);
            }
        });
    }

    /// Cuts every connection that is left, and returns how many.
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
