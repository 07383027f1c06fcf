//! Coarse time for one worker, and deadlines that cost a comparison instead of a timer.
//!
//! The supervisor's tick comes ten times a second while a worker has connections. Each connection
//! has one [`Watch`] with a deadline cell; a tick compares them and wakes whoever is late. That
//! costs nothing per wait, where a runtime timer cost 1.4 µs a request
//! (`docs/notes/002-deadlines.md`). Deadlines are therefore off by up to one tick, and late by up
//! to one second where a worker has thousands of connections.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use lockgate_net::relay::Meter;
use tokio::sync::Notify;

use crate::clients::CountedConnection;
use crate::member_set::MemberSet;

/// How often the supervisor ticks.
pub const TICK: Duration = Duration::from_millis(100);
/// Connections that are looked at in every tick; of more, a tenth each.
const SWEPT_EACH_TICK: usize = 1024;
/// Ticks that a worker still gets after its last connection, so that rates over some seconds fall
/// to zero.
const AFTERGLOW: u32 = 64;
const NEVER: u64 = u64::MAX;
/// What clocks count from: one for the process, because workers tell each other times.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The tick as it reaches one worker from another thread.
#[derive(Debug, Default)]
pub struct Pulse {
    notify: Notify,
    wanted: AtomicBool,
    /// Whether a tick has come, and not only a question.
    due: AtomicBool,
}

impl Pulse {
    /// Makes a pulse that nobody wants yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Ticks; a worker without connections is left asleep.
    pub fn tick(&self) {
        if self.wanted.load(Ordering::Relaxed) {
            self.nudge();
        }
    }

    /// Ticks even a worker that has nothing to do: something else has changed.
    pub fn nudge(&self) {
        self.due.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Asks the worker, without a tick, to close what is idle and wanted elsewhere.
    pub fn ask(&self) {
        self.notify.notify_one();
    }

    /// Completes with the next tick, or when the worker is asked.
    pub async fn next(&self) {
        self.notify.notified().await;
    }

    /// Whether a tick has come since this was asked last.
    pub fn take_tick(&self) -> bool {
        self.due.swap(false, Ordering::Acquire)
    }

    fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }
}

/// Why a connection was cut by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The phase it was in has taken too long.
    Deadline,
    /// No byte was moved for as long as that is allowed.
    Idle,
    /// It has lived as long as it may.
    Lifetime,
    /// It has moved as many bytes as it may.
    Spent,
    /// The client kept us waiting: it moved less than the minimum rate.
    Slow,
    /// The process ends.
    Drain,
    /// The endpoint that it waits for is down, and another one can be asked.
    EndpointDown,
    /// Memory has run out, and it held more than others.
    Memory,
    /// It waited for its client, and another client has no place.
    Crowded,
}

impl Cut {
    /// Whether it ends no more than a phase, which another may follow.
    fn is_of_phase(self) -> bool {
        matches!(self, Self::Deadline | Self::Slow | Self::EndpointDown)
    }
}

/// An endpoint that was asked and has not answered.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Which of the worker's upstreams.
    pub upstream: usize,
    /// Its place among the members of that.
    pub member: usize,
    /// When it had all that it is to answer.
    pub since: Instant,
    /// If others may be asked instead: members that were tried, this one among them.
    pub tried: Option<MemberSet>,
}

/// What a connection waits for, as far as somebody else is to blame for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing, or somebody whom no rate holds.
    #[default]
    Otherwise,
    /// The client's next request, or its first byte: the connection may be closed without harm.
    ForRequest,
    /// The rest of what a connection or a request opens with: a PROXY header, a handshake, a head.
    ForOpening,
    /// The rest of a body that the client sends.
    ForBody,
    /// The client, to take what is held for it.
    ForRoom,
    /// The client, to close: the connection is over.
    ForClose,
    /// A place that others have: a socket towards an endpoint, or one of what an endpoint takes at
    /// once.
    ForPlace,
    /// The streams of the connection, each of which is watched by itself.
    ForStreams,
    /// Either end of a tunnel or relay: both may be silent.
    ForTunnel,
}

impl Waiting {
    /// Whether the client is waited for.
    pub fn is_for_client(self) -> bool {
        matches!(
            self,
            Self::ForRequest | Self::ForOpening | Self::ForBody | Self::ForRoom | Self::ForClose
        )
    }
}

/// The least that a client must move while it is waited for, in bytes a second, and for how many
/// milliseconds of waiting it may stay below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// Of a body that is due; `None` is any.
    pub min_in: Option<u64>,
    /// Of what is held for it; `None` is any.
    pub min_out: Option<u64>,
    /// Milliseconds.
    pub grace: u64,
}

/// How long one direction was waited for, and from which byte on.
#[derive(Debug, Default)]
struct Waited {
    millis: Cell<u64>,
    from: Cell<u64>,
}

impl Waited {
    /// Whether less than `least` was moved by `grace` milliseconds of waiting, which it has now
    /// waited `millis` longer.
    fn is_slow(&self, millis: u64, moved: u64, least: Option<u64>, grace: u64) -> bool {
        let Some(least) = least else { return false };
        let waited = self.millis.get() + millis;
        self.millis.set(waited);
        if waited < grace {
            return false;
        }
        let slow = moved.saturating_sub(self.from.get()).saturating_mul(1_000)
            < least.saturating_mul(waited);
        self.begin(moved);
        slow
    }

    fn begin(&self, moved: u64) {
        self.millis.set(0);
        self.from.set(moved);
    }
}

/// The time and the watched connections of one worker.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    now: Cell<u64>,
    swept: Cell<usize>,
    watches: RefCell<Vec<Rc<Watch>>>,
    ticks: RefCell<Vec<Waker>>,
    taken: Cell<u64>,
    /// Ticks in a row without a connection.
    empty: Cell<u32>,
    /// Whether there is something else to be looked after.
    wanted: Cell<bool>,
    pulse: Arc<Pulse>,
}

impl Clock {
    /// A clock that is driven by `pulse`.
    pub fn new(pulse: Arc<Pulse>) -> Rc<Self> {
        Rc::new(Self {
            start: *ORIGIN,
            now: Cell::new(0),
            swept: Cell::new(0),
            watches: RefCell::default(),
            ticks: RefCell::default(),
            taken: Cell::new(0),
            empty: Cell::new(0),
            wanted: Cell::new(false),
            pulse,
        })
    }

    /// Milliseconds since the process began to work, the same for every worker, as of the last tick
    /// or connection.
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Nanoseconds on the same scale, as of now.
    pub fn nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(NEVER)
    }

    /// Connections that are watched.
    pub fn watched(&self) -> usize {
        self.watches.borrow().len()
    }

    /// Watches a new connection until the guard is dropped.
    pub fn watch(self: &Rc<Self>) -> Guard {
        self.refresh();
        let watch = Rc::new(Watch::new(self.now()));
        let mut watches = self.watches.borrow_mut();
        watch.index.set(watches.len());
        watches.push(Rc::clone(&watch));
        // It may be gone before a tick has seen it, and leaves something to be looked after all the
        // same.
        self.empty.set(0);
        self.pulse.want(true);
        Guard {
            watch,
            clock: Rc::clone(self),
        }
    }

    /// Takes a tick: cuts what is late, and hands every connection that it looks at to `visit`.
    pub fn tick(&self, mut visit: impl FnMut(&Watch)) {
        self.refresh();
        self.taken.set(self.taken.get().wrapping_add(1));
        for waker in self.ticks.borrow_mut().drain(..) {
            waker.wake();
        }
        let watches = self.watches.borrow();
        if watches.is_empty() {
            self.empty.set(self.empty.get().saturating_add(1));
            let glows = self.empty.get() < AFTERGLOW || self.wanted.get();
            self.pulse.want(glows || !self.ticks.borrow().is_empty());
            return;
        }
        self.empty.set(0);
        let count = if watches.len() <= SWEPT_EACH_TICK {
            watches.len()
        } else {
            watches.len() / 10 + 1
        };
        let from = self.swept.get() % watches.len();
        for watch in watches.iter().cycle().skip(from).take(count) {
            watch.look(self.now());
            visit(watch);
        }
        self.swept.set(from + count);
    }

    /// Whether ticks are wanted without a connection too: something else grows old.
    pub fn want(&self, wanted: bool) {
        self.wanted.set(wanted);
    }

    /// Hands every watched connection to `visit`.
    pub fn each(&self, mut visit: impl FnMut(&Watch)) {
        self.watches.borrow().iter().for_each(|watch| visit(watch));
    }

    /// The same, for who keeps them.
    pub fn each_shared(&self, visit: impl FnMut(&Rc<Watch>)) {
        self.watches.borrow().iter().for_each(visit);
    }

    /// Cuts connections for which `order` says when their turn is, the least first, and says how
    /// many: as many as `count` makes of how many there are.
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

    /// Completes with the next tick: a wait that is too rare to be worth more.
    pub async fn next_tick(&self) {
        let since = self.taken.get();
        poll_fn(|cx| {
            if self.taken.get() != since {
                return Poll::Ready(());
            }
            self.ticks.borrow_mut().push(cx.waker().clone());
            self.pulse.want(true);
            Poll::Pending
        })
        .await;
    }

    fn refresh(&self) {
        self.now
            .set(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(NEVER));
    }

    fn forget(&self, index: usize) {
        let mut watches = self.watches.borrow_mut();
        watches.swap_remove(index);
        if let Some(moved) = watches.get(index) {
            moved.index.set(index);
        }
    }
}

/// One connection as the clock sees it.
#[derive(Debug)]
pub struct Watch {
    /// What it has moved.
    pub meter: Meter,
    /// Who it belongs to, once that is known.
    pub client: Cell<Option<IpAddr>>,
    /// The account of its client, once that is known; none where this is part of another
    /// connection.
    pub account: OnceCell<CountedConnection>,
    /// Which listener it came by, where its bytes count for one.
    pub listener: Cell<Option<usize>>,
    /// Which of the worker's relays it is, if it is one.
    pub relay: Cell<Option<usize>>,
    /// What of the meter was accounted for: received, sent, and for how long it was held to rates.
    pub accounted: Cell<(u64, u64, u64)>,
    /// Whether the exchange has a socket towards an endpoint for itself.
    pub uses_socket: Cell<bool>,
    /// Whose answer it waits for.
    pub asked: Cell<Option<Asked>>,
    /// Bytes of memory that its tasks have taken and not given back.
    pub held: Cell<isize>,
    /// Whether it [rests](Self::rests) since the task of it that runs was polled.
    resting: Cell<bool>,
    /// What it held when it rested first.
    held_at_rest: OnceCell<isize>,
    /// The connection whose stream it is; that is charged with what its tasks take.
    pub stream_of: OnceCell<Rc<Watch>>,
    /// When a stream of it was last seen to wait for the client.
    pub stalled_at: Cell<u64>,
    index: Cell<usize>,
    deadline: Cell<u64>,
    lifetime: Cell<u64>,
    idle: Cell<u64>,
    moved: Cell<u64>,
    moved_at: Cell<u64>,
    cut: Cell<Option<Cut>>,
    waiting: Cell<Waiting>,
    /// When the phase began.
    since: Cell<u64>,
    pace: Cell<Pace>,
    looked_at: Cell<u64>,
    body: Waited,
    room: Waited,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    fn new(now: u64) -> Self {
        Self {
            meter: Meter::default(),
            client: Cell::default(),
            account: OnceCell::default(),
            listener: Cell::default(),
            relay: Cell::default(),
            accounted: Cell::default(),
            uses_socket: Cell::default(),
            asked: Cell::default(),
            held: Cell::default(),
            resting: Cell::default(),
            held_at_rest: OnceCell::new(),
            stream_of: OnceCell::new(),
            stalled_at: Cell::new(NEVER),
            index: Cell::default(),
            deadline: Cell::new(NEVER),
            lifetime: Cell::new(NEVER),
            idle: Cell::new(NEVER),
            moved: Cell::default(),
            moved_at: Cell::new(now),
            cut: Cell::default(),
            waiting: Cell::default(),
            since: Cell::new(now),
            pace: Cell::default(),
            looked_at: Cell::new(now),
            body: Waited::default(),
            room: Waited::default(),
            waker: RefCell::default(),
        }
    }

    /// Ends the connection's current wait, and every later one, with `cut`.
    pub fn cut(&self, cut: Cut) {
        // What ends a phase may be followed by another: whatever ends the connection is stronger.
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

    /// Whether it is to end.
    pub fn is_cut(&self) -> bool {
        self.cut.get().is_some()
    }

    /// Charges it with memory that was taken, or given back where negative. What others have taken
    /// for it may be given back here: that does not hide what it takes later.
    pub fn takes(&self, bytes: isize) {
        let held = self.held.get().saturating_add(bytes).max(0);
        self.held.set(if self.resting.take() {
            *self.held_at_rest.get_or_init(|| held)
        } else {
            held
        });
    }

    /// Notes that it is between two exchanges: it holds what it held when this was noted first.
    /// What an exchange has left beyond that is the worker's, as connections to endpoints are,
    /// and what it has had of the worker is back.
    pub fn rests(&self) {
        self.resting.set(true);
    }

    /// For how many milliseconds nothing has moved.
    pub fn still_for(&self, now: u64) -> u64 {
        if self.moves() == self.moved.get() {
            now.saturating_sub(self.moved_at.get())
        } else {
            0
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

    /// What it waits for; noted with every wait, looked at with every tick.
    pub fn waiting(&self) -> Waiting {
        self.waiting.get()
    }

    /// When its present phase began.
    pub fn since(&self) -> u64 {
        self.since.get()
    }

    /// Notes what it waits for from now on.
    pub fn waits(&self, waiting: Waiting) {
        self.waiting.set(waiting);
    }

    /// Holds the client to `pace` from now on.
    pub fn hold_to(&self, pace: Pace) {
        self.pace.set(pace);
        self.body.begin(self.meter.received.get());
        self.room.begin(self.meter.sent.get());
    }

    fn is_slow(&self, now: u64) -> bool {
        let millis = now.saturating_sub(self.looked_at.replace(now));
        let (pace, meter) = (self.pace.get(), &self.meter);
        match self.waiting.get() {
            Waiting::ForBody => {
                self.body
                    .is_slow(millis, meter.received.get(), pace.min_in, pace.grace)
            }
            Waiting::ForRoom => {
                self.room
                    .is_slow(millis, meter.sent.get(), pace.min_out, pace.grace)
            }
            _ => false,
        }
    }

    fn look(&self, now: u64) {
        let (moved, held) = (self.moves(), &self.meter.held);
        // Whom we hold to a rate is not idle: it waits for us.
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

    /// The same, for who outlives the guard.
    pub fn shared(&self) -> Rc<Watch> {
        Rc::clone(&self.watch)
    }

    /// Whether it was cut because memory has run out.
    pub fn is_cut_for_memory(&self) -> bool {
        self.watch.cut.get() == Some(Cut::Memory)
    }

    /// Starts a phase that may take `limit`. Phases follow each other: a new one replaces the last,
    /// also one that has run out.
    pub fn phase(&self, limit: Duration) {
        self.settle();
        self.watch.since.set(self.clock.now());
        self.watch.deadline.set(self.after(limit));
    }

    /// Limits how long nothing may move, from now on.
    pub fn idle(&self, limit: Duration) {
        self.watch.idle.set(millis(limit));
        self.watch.moved_at.set(self.clock.now());
    }

    /// Ends the phase, which the connection has outlived: only the idle limit and its lifetime hold
    /// from here on. A client that was too slow is done with too: what follows is telling it
    /// so.
    pub fn settle(&self) {
        self.watch.deadline.set(NEVER);
        if self.watch.cut.get().is_some_and(Cut::is_of_phase) {
            self.watch.cut.set(None);
        }
    }

    /// Watches something else that this connection has begun and that goes on without it.
    pub fn another(&self) -> Self {
        self.clock.watch()
    }

    /// The clock that watches.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Limits how long the connection may live, from now on.
    pub fn live(&self, lifetime: Duration) {
        self.watch.lifetime.set(self.after(lifetime));
    }

    /// Limits how many bytes may move from now on, both ways together. Who has moved them moves no
    /// more, and is cut by the next tick.
    pub fn spend(&self, bytes: u64) {
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
        poll_fn(|cx| {
            if let Some(cut) = self.watch.cut.get() {
                return Poll::Ready(Err(cut));
            }
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
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
        .await
    }

    fn after(&self, limit: Duration) -> u64 {
        self.clock.now().saturating_add(millis(limit))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.clock.forget(self.watch.index.get());
    }
}

/// The time as [`Clock::now`] has it, for those who are no worker.
pub fn now() -> u64 {
    millis(ORIGIN.elapsed())
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests;
