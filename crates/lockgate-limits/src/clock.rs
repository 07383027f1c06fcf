//! Coarse time for one worker, and deadlines that cost a comparison instead of a timer.
//!
//! A worker ticks ten times a second while something is under way. Each connection has one
//! [`Watch`] with a deadline cell; a tick compares them and wakes the late ones. That
//! costs nothing per wait, where a runtime timer cost 1.4 µs a request
//! (`docs/notes/002-deadlines.md`). Deadlines are therefore off by up to one tick, and late by up
//! to two seconds where a worker has thousands of connections.
//!
//! A connection that was not polled since the last tick, and waits for nothing that a tick counts,
//! is at rest: no tick looks at it before its first limit is due. When all are, the worker sleeps
//! until then, or until something looks at the clock.

mod min_rate;
mod phase;
mod ticker;
mod watch_list;

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockgate_net::millis::Millis;
use lockgate_net::nanos::Nanos;
use lockgate_net::relay::Meter;

use crate::clients::CountedConnection;
use crate::index::{ListenerId, MemberIndex, SiteNumber};
use crate::member_set::MemberSet;
use min_rate::WaitTime;
use watch_list::WatchList;

pub use min_rate::MinRate;
pub use ticker::Ticker;

/// How often a worker ticks while something is under way.
pub const TICK: Duration = Duration::from_millis(100);
/// The zero of all clocks: one for the process, because workers share times.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Why we have ended a connection, or its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The phase has taken too long.
    Deadline,
    /// No byte has moved for as long as is allowed.
    Idle,
    /// The connection is as old as it may become.
    Lifetime,
    /// The connection has moved as many bytes as it may.
    Spent,
    /// The client moved less than the minimum rate.
    Slow,
    /// The process ends.
    Drain,
    /// The operator has closed it.
    Closed,
    /// The endpoint of the request is down, and another one can be asked.
    EndpointDown,
    /// Memory has run out, and the connection held more than others.
    Memory,
    /// The connection waited for its client, and another client has no permit.
    Crowded,
}

impl Cut {
    /// Whether it ends only the phase, which another may follow.
    fn is_of_phase(self) -> bool {
        matches!(self, Self::Deadline | Self::Slow | Self::EndpointDown)
    }
}

/// The pool of an endpoint that a response is waited for from.
pub trait ResponseSource: fmt::Debug {
    /// Records that a response of `member` is overdue by `waited`; returns whether the wait is to
    /// end, because checks have found the endpoint down and one outside `tried` can be asked.
    fn is_given_up(
        &self,
        member: MemberIndex,
        tried: Option<MemberSet>,
        waited: Duration,
        now: Millis,
    ) -> bool;
}

/// A counter of the bytes that connections move.
pub trait TrafficCounter: fmt::Debug {
    /// Adds bytes received and sent, and the time for which rates held them.
    fn add_traffic(&self, received: u64, sent: u64, held_for: Nanos);
}

/// A request that was sent to an endpoint and has no response yet.
#[derive(Debug, Clone)]
pub struct PendingResponse {
    /// The pool.
    pub source: Rc<dyn ResponseSource>,
    /// The pool's member.
    pub member: MemberIndex,
    /// When the whole request had left.
    pub since: Instant,
    /// The members that were tried, this one among them, if another may be asked instead.
    pub tried: Option<MemberSet>,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WaitReason {
    /// Nothing, or a peer without a minimum rate.
    #[default]
    Nothing,
    /// The client's next request, or its first byte: the connection may be closed without harm.
    ForRequest,
    /// The rest of a PROXY header, of a handshake, or of a request's head.
    ForHead,
    /// The rest of a body that the client sends.
    ForBody,
    /// The client, to take data that is ready for it.
    ForRoom,
    /// The client, to close its side.
    ForClose,
    /// A permit: for a socket towards endpoints, or for one of the requests that an endpoint takes
    /// at once.
    ForPermit,
    /// The streams of the connection, each of which has a [`Watch`] of its own.
    ForStreams,
    /// Either end of a tunnel or relay: both may be silent.
    ForTunnel,
}

impl WaitReason {
    /// Whether the client is waited for.
    pub(crate) fn is_for_client(self) -> bool {
        matches!(
            self,
            Self::ForRequest | Self::ForHead | Self::ForBody | Self::ForRoom | Self::ForClose
        )
    }
}

/// What a connection is used for, as far as it has opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConnectionUse {
    /// It opens: PROXY header, ClientHello, handshake.
    #[default]
    Opening,
    /// Requests over HTTP/1.
    Http1,
    /// Requests over HTTP/2.
    Http2,
    /// A relay.
    Relay,
    /// A tunnel or upgrade that began as a request over HTTP/1.
    Tunnel,
}

/// The time and the watched connections of one worker.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    now: Cell<Millis>,
    watches: RefCell<WatchList>,
    ticks: RefCell<Vec<Waker>>,
    taken: Cell<u64>,
    /// The last tick with something under way.
    busy_at: Cell<Millis>,
    /// When the next tick is due.
    next: Cell<Millis>,
    /// Whether that is more than a tick away: then `now` is old, and a look at the clock wakes it.
    asleep: Cell<bool>,
    ticker: Arc<Ticker>,
}

impl Clock {
    /// A clock that sleeps, and wakes its worker by `ticker`.
    pub fn new(ticker: Arc<Ticker>) -> Rc<Self> {
        Rc::new(Self::since(*ORIGIN, ticker))
    }

    fn since(start: Instant, ticker: Arc<Ticker>) -> Self {
        Self {
            start,
            now: Cell::new(Millis::ZERO),
            watches: RefCell::default(),
            ticks: RefCell::default(),
            taken: Cell::new(0),
            busy_at: Cell::new(Millis::ZERO),
            next: Cell::new(Millis::MAX),
            asleep: Cell::new(true),
            ticker,
        }
    }

    /// The time since the process began to work, the same for every worker, as of the last tick or
    /// connection, or the end of a sleep.
    pub fn now(&self) -> Millis {
        if self.asleep.get() {
            self.wake();
        }
        self.now.get()
    }

    /// The time on the same scale, as of now.
    pub fn nanos(&self) -> Nanos {
        self.start.elapsed().into()
    }

    /// Connections that are watched.
    pub fn watched(&self) -> usize {
        self.watches.borrow().len()
    }

    /// Watches a new connection until the guard is dropped.
    pub fn watch(self: &Rc<Self>) -> Guard {
        self.refresh();
        let watch = Rc::new(Watch::new(self.now()));
        self.watches.borrow_mut().push(Rc::clone(&watch));
        // It may end before the next tick, and leave a connection to an endpoint that ticks must
        // close.
        self.busy_at.set(self.now());
        Guard {
            watch,
            clock: Rc::clone(self),
        }
    }

    /// Handles a tick: cuts late connections, and hands every connection that it checks to `visit`.
    /// Those at rest have moved nothing since they came to rest.
    pub fn tick(&self, mut visit: impl FnMut(&Watch)) {
        self.refresh();
        self.asleep.set(false);
        self.taken.set(self.taken.get().wrapping_add(1));
        for waker in self.ticks.borrow_mut().drain(..) {
            waker.wake();
        }
        let now = self.now();
        let mut watches = self.watches.borrow_mut();
        watches.search(now);
        if watches.due() == Millis::ZERO {
            self.busy_at.set(now);
        }
        watches.check(|watch| {
            watch.check(now);
            visit(watch);
            watch.comes_to_rest()
        });
    }

    /// After a tick: sets when the next one is to come. Soon, if something is under way; else as the
    /// first limit of a connection is due, but not after `latest`.
    pub fn sleep(&self, latest: Millis) {
        let soon = self.now() + TICK.into();
        let due = if self.ticks.borrow().is_empty() {
            self.watches.borrow().due()
        } else {
            Millis::ZERO
        };
        self.next.set(latest.min(due).max(soon));
        self.asleep.set(self.next.get() > soon);
    }

    #[cold]
    fn wake(&self) {
        self.asleep.set(false);
        self.refresh();
        self.next.set(self.now() + TICK.into());
        // The worker has set its alarm for later.
        self.ticker.ask();
    }

    /// When the next tick is due.
    pub fn next(&self) -> Millis {
        self.next.get()
    }

    /// The time that is left until a moment.
    pub fn until(&self, moment: Millis) -> Duration {
        Duration::from(moment).saturating_sub(self.start.elapsed())
    }

    /// The last tick, or the last new connection, with something under way.
    pub fn busy_at(&self) -> Millis {
        self.busy_at.get()
    }

    #[cold]
    fn rouse(&self, watch: &Watch) {
        let now = self.now();
        watch.is_at_rest.set(false);
        // At rest it waited for nothing that is held to a rate.
        watch.looked_at.set(now);
        self.watches.borrow_mut().rouse(watch.index.get() as usize);
    }

    /// Hands every watched connection to `visit`.
    pub fn each(&self, mut visit: impl FnMut(&Watch)) {
        self.watches.borrow().iter().for_each(|watch| visit(watch));
    }

    /// The same with shared ownership.
    pub fn each_shared(&self, visit: impl FnMut(&Rc<Watch>)) {
        self.watches.borrow().iter().for_each(visit);
    }

    /// Cuts connections that have an `order`, the least first, and returns how many: `count` of the
    /// number that there are.
    pub fn make_room<K: Ord>(
        &self,
        order: impl Fn(&Watch) -> Option<K>,
        count: impl FnOnce(usize) -> usize,
    ) -> usize {
        let watches = self.watches.borrow();
        let ordered = watches.iter().filter(|watch| watch.cut.get().is_none());
        let mut ordered: Vec<_> = ordered
            .filter_map(|watch| Some((order(watch)?, watch)))
            .collect();
        let count = count(ordered.len()).min(ordered.len());
        if count < ordered.len() {
            ordered.select_nth_unstable_by(count, |(one, _), (other, _)| one.cmp(other));
        }
        ordered
            .iter()
            .take(count)
            .for_each(|(_, watch)| watch.cut(Cut::Crowded));
        count
    }

    /// Completes with the next tick: for rare waits.
    pub async fn next_tick(&self) {
        let since = self.taken.get();
        poll_fn(|cx| {
            if self.taken.get() != since {
                return Poll::Ready(());
            }
            self.ticks.borrow_mut().push(cx.waker().clone());
            if self.asleep.get() {
                self.wake();
            }
            Poll::Pending
        })
        .await;
    }

    fn refresh(&self) {
        self.now.set(self.start.elapsed().into());
    }

    fn forget(&self, index: u32) {
        self.watches.borrow_mut().remove(index as usize);
    }
}

/// A place in four bytes: a worker has never so many connections.
fn place(index: usize) -> u32 {
    u32::try_from(index).expect("memory has room for fewer than four billion watches")
}

/// One connection as the clock sees it.
///
/// In memory in this order: first what each request touches, in few cache lines, with what fits
/// between.
#[derive(Debug)]
#[repr(C)]
pub struct Watch {
    cut: Cell<Option<Cut>>,
    waiting: Cell<WaitReason>,
    /// What the connection is used for.
    pub used_as: Cell<ConnectionUse>,
    /// Whether the exchange has a socket towards an endpoint for itself.
    pub uses_socket: Cell<bool>,
    /// Whether it is [between exchanges](Self::mark_between_exchanges) since its running task was polled.
    is_between_exchanges: Cell<bool>,
    /// Whether it was polled since the last tick that has checked it.
    was_polled: Cell<bool>,
    /// Whether ticks pass it over.
    is_at_rest: Cell<bool>,
    /// The client's address, once it is known.
    pub client: Cell<Option<IpAddr>>,
    /// The site of its request, in the configuration that it is held to.
    pub site: Cell<Option<SiteNumber>>,
    /// Its place among those of its clock.
    index: Cell<u32>,
    deadline: Cell<Millis>,
    since: Cell<Millis>,
    waker: RefCell<Option<Waker>>,
    /// Bytes of memory that its tasks have taken and not given back.
    pub held: Cell<isize>,
    /// Bytes that it held when it was first between exchanges.
    held_between_exchanges: OnceCell<isize>,
    /// The number of the configuration that it is held to; 0 between two requests, when it is held
    /// to none.
    pub generation: Cell<u64>,
    /// Since when it takes no further request; the maximum while it takes some.
    draining: Cell<Millis>,
    /// The connection of this stream, which is charged with the memory of the stream's tasks.
    pub stream_of: OnceCell<Rc<Watch>>,
    min_rate: Cell<MinRate>,
    /// The response that it waits for.
    pub pending: RefCell<Option<PendingResponse>>,
    /// What it has moved.
    pub meter: Meter,
    body: WaitTime,
    room: WaitTime,
    looked_at: Cell<Millis>,
    lifetime: Cell<Millis>,
    idle: Cell<Millis>,
    moved: Cell<u64>,
    moved_at: Cell<Millis>,
    /// The part of the meter that was accounted for: bytes received, bytes sent, and the time that
    /// rates held it.
    pub accounted: Cell<(u64, u64, u64)>,
    /// When a stream of it was last seen to wait for the client.
    pub stalled_at: Cell<Millis>,
    opened: Millis,
    /// The account of its client, once it is known; none where this is a part of another
    /// connection.
    pub account: OnceCell<CountedConnection>,
    /// The number of the connection; 0 for a part of another one.
    pub id: Cell<u64>,
    /// The listener that has accepted it; none for a part of another connection.
    pub listener: Cell<Option<ListenerId>>,
    /// The counter of its listener, where its bytes count for one.
    pub listener_traffic: OnceCell<Arc<dyn TrafficCounter>>,
    /// The counter of its relay, if it is one.
    pub relay_traffic: OnceCell<Arc<dyn TrafficCounter>>,
}

impl Watch {
    /// Its first bytes, which each request uses.
    pub(crate) const USED_BYTES: usize = std::mem::offset_of!(Self, lifetime);

    fn new(now: Millis) -> Self {
        Self {
            meter: Meter::default(),
            client: Cell::default(),
            account: OnceCell::default(),
            id: Cell::default(),
            used_as: Cell::default(),
            site: Cell::default(),
            listener: Cell::default(),
            listener_traffic: OnceCell::new(),
            relay_traffic: OnceCell::new(),
            generation: Cell::default(),
            accounted: Cell::default(),
            uses_socket: Cell::default(),
            pending: RefCell::default(),
            held: Cell::default(),
            is_between_exchanges: Cell::default(),
            held_between_exchanges: OnceCell::new(),
            stream_of: OnceCell::new(),
            stalled_at: Cell::new(Millis::MAX),
            opened: now,
            index: Cell::default(),
            was_polled: Cell::new(true),
            is_at_rest: Cell::default(),
            deadline: Cell::new(Millis::MAX),
            lifetime: Cell::new(Millis::MAX),
            idle: Cell::new(Millis::MAX),
            moved: Cell::default(),
            moved_at: Cell::new(now),
            cut: Cell::default(),
            draining: Cell::new(Millis::MAX),
            waiting: Cell::default(),
            since: Cell::new(now),
            min_rate: Cell::default(),
            looked_at: Cell::new(now),
            body: WaitTime::default(),
            room: WaitTime::default(),
            waker: RefCell::default(),
        }
    }

    /// Ends the connection's current wait, and every later one, with `cut`.
    pub fn cut(&self, cut: Cut) {
        // A phase that was cut may be followed by another: a cut of the connection is stronger.
        if self
            .cut
            .get()
            .is_none_or(|before| before.is_of_phase() && !cut.is_of_phase())
        {
            self.cut.set(Some(cut));
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    /// Has it take no further request from `now` on: the last response tells the client so.
    pub fn drain(&self, now: Millis) {
        if self.draining.get() == Millis::MAX {
            self.draining.set(now);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    /// Since when it takes no further request, if it takes none.
    pub fn draining_since(&self) -> Option<Millis> {
        Some(self.draining.get()).filter(|since| *since < Millis::MAX)
    }

    /// Whether it, or the connection of this stream, is to take no further request.
    pub fn is_draining(&self) -> bool {
        let is_draining = |watch: &Self| watch.draining.get() < Millis::MAX;
        is_draining(self) || self.stream_of.get().is_some_and(|of| is_draining(of))
    }

    /// Whether it is to end.
    pub fn is_cut(&self) -> bool {
        self.cut.get().is_some()
    }

    /// Why the connection of this stream is to end, if it is.
    pub fn cut_of_connection(&self) -> Option<Cut> {
        self.stream_of.get()?.cut.get()
    }

    /// Charges it with memory that was taken, or given back where negative. Never below 0: memory
    /// that was charged elsewhere and is given back here does not hide later takes.
    pub(crate) fn charge(&self, bytes: isize) {
        let held = self.held.get().saturating_add(bytes).max(0);
        self.held.set(if self.is_between_exchanges.take() {
            *self.held_between_exchanges.get_or_init(|| held)
        } else {
            held
        });
    }

    /// Notes that it is between two exchanges: it holds what it held at the first such moment.
    /// Memory beyond that belongs to the worker, as that of connections to endpoints does, and
    /// buffers of the worker are back.
    pub fn mark_between_exchanges(&self) {
        self.is_between_exchanges.set(true);
    }

    /// For how long nothing has moved.
    pub(crate) fn still_for(&self, now: Millis) -> Millis {
        if self.moves() == self.moved.get() {
            now - self.moved_at.get()
        } else {
            Millis::ZERO
        }
    }

    fn moves(&self) -> u64 {
        let Meter {
            received,
            sent,
            flushed,
            ..
        } = &self.meter;
        received
            .get()
            .wrapping_add(sent.get())
            .wrapping_add(flushed.get())
    }

    /// What it waits for: set with every wait.
    pub fn waiting(&self) -> WaitReason {
        self.waiting.get()
    }

    /// When it was accepted.
    pub fn opened(&self) -> Millis {
        self.opened
    }

    /// When its present phase began.
    pub fn since(&self) -> Millis {
        self.since.get()
    }

    /// Sets what it waits for from now on.
    pub fn set_wait(&self, waiting: WaitReason) {
        self.waiting.set(waiting);
    }

    /// Holds the client to `min_rate` from now on.
    pub fn hold_to(&self, min_rate: MinRate) {
        self.min_rate.set(min_rate);
        if min_rate.min_in.or(min_rate.min_out).is_none() {
            return;
        }
        self.body.restart(self.meter.received.get());
        self.room.restart(self.meter.sent.get());
    }

    fn is_slow(&self, now: Millis) -> bool {
        let more = now - self.looked_at.replace(now);
        let (min_rate, meter) = (self.min_rate.get(), &self.meter);
        match self.waiting.get() {
            WaitReason::ForBody => {
                self.body
                    .is_slow(more, meter.received.get(), min_rate.min_in, min_rate.grace)
            }
            WaitReason::ForRoom => {
                self.room
                    .is_slow(more, meter.sent.get(), min_rate.min_out, min_rate.grace)
            }
            _ => false,
        }
    }

    /// When its first limit is due, if it moves nothing before.
    fn due(&self) -> Millis {
        if self.is_cut() {
            // Its task was woken.
            return Millis::MAX;
        }
        let idle = self.moved_at.get() + self.idle.get();
        self.deadline.get().min(self.lifetime.get()).min(idle)
    }

    /// Whether ticks need not look at it from here on, until it is polled or a limit is due: called
    /// once by each tick that checks it.
    fn comes_to_rest(&self) -> bool {
        let was_polled = self.was_polled.replace(false);
        // What has a minimum rate or a response that is overdue is counted by ticks.
        let has_min_rate = match self.waiting.get() {
            WaitReason::ForBody => self.min_rate.get().min_in.is_some(),
            WaitReason::ForRoom => self.min_rate.get().min_out.is_some(),
            _ => false,
        };
        let is_counted = has_min_rate || self.pending.borrow().is_some();
        !was_polled && !is_counted && !self.meter.held.get()
    }

    fn check(&self, now: Millis) {
        let (moved, held) = (self.moves(), &self.meter.held);
        // A connection that we hold to a rate is not idle.
        if moved != self.moved.replace(moved) || held.get() {
            self.moved_at.set(now);
        }
        if now >= self.lifetime.get() {
            self.cut(Cut::Lifetime);
        } else if self.meter.left() == 0 {
            self.cut(Cut::Spent);
        } else if now >= self.deadline.get() {
            self.cut(Cut::Deadline);
        } else if now - self.moved_at.get() >= self.idle.get() {
            self.cut(Cut::Idle);
        } else if self.is_slow(now) {
            self.cut(Cut::Slow);
        }
    }
}

/// Keeps a connection watched; dropping it ends that.
#[derive(Debug)]
pub struct Guard {
    watch: Rc<Watch>,
    clock: Rc<Clock>,
}

impl Guard {
    /// The connection's watch.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The same with shared ownership, for use after the guard.
    pub fn shared(&self) -> Rc<Watch> {
        Rc::clone(&self.watch)
    }

    /// Whether it was cut because memory has run out.
    pub fn is_cut_for_memory(&self) -> bool {
        self.watch.cut.get() == Some(Cut::Memory)
    }

    /// Notes that the connection is under way.
    #[inline]
    fn touch(&self) {
        self.watch.was_polled.set(true);
        if self.watch.is_at_rest.get() {
            self.clock.rouse(&self.watch);
        }
    }

    /// Limits how long nothing may move, from now on.
    pub fn limit_idle(&self, limit: Duration) {
        self.touch();
        self.watch.idle.set(limit.into());
        self.watch.moved_at.set(self.clock.now());
    }

    /// Watches another task that this connection has started and that may outlive it.
    pub fn watch_another(&self) -> Self {
        self.clock.watch()
    }

    /// The clock that watches.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Limits how long the connection may live, from now on.
    pub fn limit_lifetime(&self, lifetime: Duration) {
        self.touch();
        self.watch.lifetime.set(self.after(lifetime));
    }

    /// Limits how many bytes may move from now on, both ways together. A connection that has moved
    /// them stops, and is cut by the next tick.
    pub fn limit_bytes(&self, bytes: u64) {
        let meter = &self.watch.meter;
        let moved = meter.received.get().saturating_add(meter.sent.get());
        meter.most.set(Some(bytes.saturating_add(moved)));
    }

    /// Waits for `future` until the connection is cut.
    ///
    /// # Errors
    /// The reason of the cut; the future is dropped then.
    pub async fn within<F: Future>(&self, future: F) -> Result<F::Output, Cut> {
        let mut future = pin!(future);
        self.poll_within(|cx| future.as_mut().poll(cx)).await
    }

    /// The same for a function that is polled, which an async function would store twice.
    pub fn poll_within<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> impl Future<Output = Result<T, Cut>> {
        poll_fn(move |cx| {
            self.touch();
            if let Some(cut) = self.watch.cut.get() {
                return Poll::Ready(Err(cut));
            }
            if let Poll::Ready(output) = poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let mut waker = self.watch.waker.borrow_mut();
            if !waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                *waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    fn after(&self, limit: Duration) -> Millis {
        self.clock.now() + limit.into()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.clock.forget(self.watch.index.get());
    }
}

/// The time as [`Clock::now`] has it, for threads other than workers.
pub fn now() -> Millis {
    ORIGIN.elapsed().into()
}

#[cfg(test)]
mod tests;
