//! Deadlines without waiting: time passes by moving the start of the clock.

use std::cell::Cell;
use std::future::{pending, ready};
use std::task::{Context, Wake};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn clock() -> Rc<Clock> {
    Clock::new(Ticker::new())
}

/// As if the clock and all watched connections had been there for this long.
fn pass(clock: &Clock, time: Duration) {
    let passed = Millis::from(time);
    let earlier = |at: &Cell<Millis>| {
        if at.get() != Millis::MAX {
            // Limits that would lie before the clock's start have passed as well.
            at.set(at.get() - passed);
        }
    };
    for watch in clock.watches.borrow().iter() {
        earlier(&watch.deadline);
        earlier(&watch.lifetime);
        earlier(&watch.moved_at);
    }
}

/// A clock that has run for an hour, so that there is a past.
fn old_clock() -> Rc<Clock> {
    let clock = Clock {
        start: Instant::now()
            .checked_sub(60 * MINUTE)
            .expect("a time before the host was started is one too"),
        now: Cell::new(Millis::ZERO),
        swept: Cell::new(0),
        watches: RefCell::default(),
        ticks: RefCell::default(),
        taken: Cell::new(0),
        empty: Cell::new(0),
        wanted: Cell::new(false),
        ticker: Ticker::new(),
    };
    Rc::new(clock)
}

fn tick(clock: &Clock) {
    clock.tick(|_| {});
}

/// Polls once; a waker that counts.
fn poll<F: Future>(future: std::pin::Pin<&mut F>, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Arc::clone(wakes).into()))
}

#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn outcome<T>(guard: &Guard, future: impl Future<Output = T>) -> Poll<Result<T, Cut>> {
    poll(pin!(guard.within(future)), &Arc::default())
}

#[test]
fn a_wait_ends_with_its_future_or_its_deadline() {
    let clock = old_clock();
    let guard = clock.watch();
    guard.begin_phase(MINUTE);
    assert_eq!(outcome(&guard, ready(7)), Poll::Ready(Ok(7)));
    assert_eq!(outcome(&guard, pending::<()>()), Poll::Pending);
    pass(&clock, MINUTE / 2);
    tick(&clock);
    assert_eq!(outcome(&guard, pending::<()>()), Poll::Pending);
    pass(&clock, MINUTE / 2);
    assert_eq!(
        outcome(&guard, pending::<()>()),
        Poll::Pending,
        "only a tick looks"
    );
    tick(&clock);
    assert_eq!(
        outcome(&guard, pending::<()>()),
        Poll::Ready(Err(Cut::Deadline))
    );
    assert_eq!(
        outcome(&guard, ready(7)),
        Poll::Ready(Err(Cut::Deadline)),
        "and so does every later wait"
    );
}

#[test]
fn only_the_connection_past_its_deadline_is_woken_once() {
    let clock = old_clock();
    let (late, early) = (clock.watch(), clock.watch());
    late.begin_phase(MINUTE);
    early.begin_phase(2 * MINUTE);
    let (late_wakes, early_wakes) = (Arc::<Wakes>::default(), Arc::<Wakes>::default());
    let (mut late_wait, mut early_wait) = (
        pin!(late.within(pending::<()>())),
        pin!(early.within(pending::<()>())),
    );
    assert!(poll(late_wait.as_mut(), &late_wakes).is_pending());
    assert!(poll(early_wait.as_mut(), &early_wakes).is_pending());
    pass(&clock, MINUTE);
    (0..3).for_each(|_| tick(&clock));
    assert_eq!((late_wakes.count(), early_wakes.count()), (1, 0));
    assert_eq!(
        poll(late_wait, &late_wakes),
        Poll::Ready(Err(Cut::Deadline))
    );
}

#[test]
fn the_newest_waker_is_woken() {
    let clock = old_clock();
    let guard = clock.watch();
    let (first, second) = (Arc::<Wakes>::default(), Arc::<Wakes>::default());
    let mut wait = pin!(guard.within(pending::<()>()));
    assert!(poll(wait.as_mut(), &first).is_pending());
    assert!(poll(wait.as_mut(), &second).is_pending());
    guard.watch().cut(Cut::Drain);
    assert_eq!((first.count(), second.count()), (0, 1));
}

#[test]
fn a_new_deadline_replaces_even_an_expired_one() {
    let clock = old_clock();
    let guard = clock.watch();
    guard.begin_phase(MINUTE);
    guard.begin_phase(3 * MINUTE);
    pass(&clock, 2 * MINUTE);
    tick(&clock);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
    pass(&clock, MINUTE);
    tick(&clock);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Err(Cut::Deadline)));
    guard.begin_phase(MINUTE);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
}

#[test]
fn a_settled_connection_has_no_deadline_but_stays_cut() {
    let clock = old_clock();
    let guard = clock.watch();
    guard.begin_phase(Duration::ZERO);
    tick(&clock);
    guard.end_phase();
    pass(&clock, 59 * MINUTE);
    tick(&clock);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
    for cut in [Cut::Drain, Cut::Idle, Cut::Lifetime] {
        let guard = clock.watch();
        guard.watch().cut(cut);
        guard.end_phase();
        guard.begin_phase(MINUTE);
        assert_eq!(outcome(&guard, ready(())), Poll::Ready(Err(cut)));
    }
}

/// A drain that comes in the tick that ends a phase must not be forgotten with the phase.
#[test]
fn a_drain_overrides_an_expired_deadline() {
    for cut in [Cut::Deadline, Cut::Slow, Cut::EndpointDown] {
        let guard = clock().watch();
        guard.watch().cut(cut);
        assert_eq!(outcome(&guard, ready(())), Poll::Ready(Err(cut)));
        guard.end_phase();
        assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
        for cut in [cut, Cut::Drain, cut] {
            guard.watch().cut(cut);
        }
        guard.end_phase();
        assert_eq!(
            outcome(&guard, ready(())),
            Poll::Ready(Err(Cut::Drain)),
            "{cut:?}"
        );
    }
}

#[test]
fn bytes_in_either_direction_postpone_the_idle_timeout() {
    let clock = old_clock();
    let guard = clock.watch();
    guard.limit_idle(MINUTE);
    let meter = &guard.watch().meter;
    for moved in [&meter.received, &meter.sent, &meter.received] {
        pass(&clock, MINUTE - Duration::from_secs(1));
        moved.set(moved.get() + 1);
        tick(&clock);
        assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
    }
    pass(&clock, MINUTE);
    tick(&clock);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Err(Cut::Idle)));
}

#[test]
fn a_rate_limited_connection_is_not_idle() {
    let clock = old_clock();
    let guard = clock.watch();
    guard.limit_idle(MINUTE);
    guard.watch().meter.held.set(true);
    for _ in 0..3 {
        pass(&clock, MINUTE);
        tick(&clock);
        assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
    }
    guard.watch().meter.held.set(false);
    pass(&clock, MINUTE);
    tick(&clock);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Err(Cut::Idle)));
}

#[test]
fn the_idle_timeout_counts_from_when_it_is_set() {
    let clock = old_clock();
    let guard = clock.watch();
    pass(&clock, 10 * MINUTE);
    guard.limit_idle(MINUTE);
    tick(&clock);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
}

#[test]
fn the_lifetime_limit_ends_an_active_connection() {
    let clock = old_clock();
    let guard = clock.watch();
    guard.limit_lifetime(MINUTE);
    guard.limit_idle(MINUTE);
    guard.begin_phase(MINUTE);
    guard.watch().meter.sent.set(1);
    pass(&clock, MINUTE);
    tick(&clock);
    assert_eq!(
        outcome(&guard, ready(())),
        Poll::Ready(Err(Cut::Lifetime)),
        "it is the strongest reason"
    );
}

#[test]
fn huge_timeouts_do_not_overflow() {
    let clock = old_clock();
    let guard = clock.watch();
    guard.begin_phase(Duration::MAX);
    guard.limit_lifetime(Duration::MAX);
    guard.limit_idle(Duration::MAX);
    tick(&clock);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Ok(())));
}

#[test]
fn the_first_cut_reason_is_reported() {
    let guard = clock().watch();
    guard.watch().cut(Cut::Drain);
    guard.watch().cut(Cut::Idle);
    assert_eq!(outcome(&guard, ready(())), Poll::Ready(Err(Cut::Drain)));
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    let clock = clock();
    let mut guards: Vec<_> = (0..10).map(|_| clock.watch()).collect();
    for (n, guard) in (0..).zip(&guards) {
        guard.watch().generation.set(n);
    }
    for index in [9, 0, 3, 3, 0, 1] {
        guards.remove(index);
        let (mut left, mut watched) = (Vec::new(), Vec::new());
        guards
            .iter()
            .for_each(|guard| left.push(guard.watch().generation.get()));
        clock.each(|watch| watched.push(watch.generation.get()));
        watched.sort_unstable();
        assert_eq!(watched, left);
        for (index, watch) in clock.watches.borrow().iter().enumerate() {
            assert_eq!(watch.index.get() as usize, index);
        }
    }
    drop(guards);
    assert_eq!(clock.watched(), 0);
}

#[test]
fn few_connections_are_all_checked_in_every_tick() {
    let clock = clock();
    let guards: Vec<_> = (0..SWEPT_EACH_TICK).map(|_| clock.watch()).collect();
    let mut looked = 0;
    clock.tick(|_| looked += 1);
    assert_eq!(looked, guards.len());
}

#[test]
fn many_connections_are_checked_within_ten_ticks() {
    for churn in [false, true] {
        let clock = clock();
        let mut guards: Vec<_> = (0..5000).map(|_| clock.watch()).collect();
        for (n, guard) in (0..).zip(&guards) {
            guard.watch().generation.set(n);
        }
        let mut seen = vec![0; 5000];
        for _ in 0..10 {
            let mut looked = 0;
            clock.tick(|watch| {
                looked += 1;
                seen[watch.generation.get() as usize] += 1;
            });
            assert!(looked <= 501, "{looked}");
            if churn {
                // The newest leaves: no other connection changes its index.
                guards.pop();
            }
        }
        assert!(
            seen[..4990].iter().all(|&seen| seen >= 1),
            "nobody is passed over"
        );
    }
}

#[test]
fn a_worker_wants_ticks_while_it_watches_connections() {
    let clock = clock();
    let wanted = || clock.ticker.wanted.load(Ordering::Relaxed);
    assert!(!wanted());
    let guard = clock.watch();
    assert!(wanted());
    tick(&clock);
    assert!(wanted());
    drop(guard);
    (1..AFTERGLOW).for_each(|_| tick(&clock));
    assert!(
        wanted(),
        "rates over some seconds are still to fall to zero"
    );
    tick(&clock);
    assert!(!wanted());
    let mut wait = pin!(clock.next_tick());
    assert!(poll(wait.as_mut(), &Arc::default()).is_pending());
    assert!(wanted());
    tick(&clock);
    assert!(!wanted());
    assert!(poll(wait, &Arc::default()).is_ready());
}

#[test]
fn a_tick_reaches_workers_that_want_it_a_nudge_all() {
    let ticker = Ticker::new();
    let wakes = Arc::default();
    let mut next = Box::pin(ticker.next());
    assert!(poll(next.as_mut(), &wakes).is_pending());
    ticker.tick();
    assert!(poll(next.as_mut(), &wakes).is_pending(), "nobody wants it");
    ticker.nudge();
    assert!(poll(next.as_mut(), &wakes).is_ready());
    ticker.want(true);
    ticker.tick();
    assert!(
        poll(pin!(ticker.next()), &wakes).is_ready(),
        "one that came before it was waited for is not lost"
    );
}

#[test]
fn all_waiters_for_a_tick_are_woken_by_it() {
    let clock = clock();
    let wakes: Arc<Wakes> = Arc::default();
    let mut waits: Vec<_> = (0..3).map(|_| Box::pin(clock.next_tick())).collect();
    for wait in &mut waits {
        assert!(poll(wait.as_mut(), &wakes).is_pending());
    }
    tick(&clock);
    assert_eq!(wakes.count(), 3);
    assert!(
        waits
            .iter_mut()
            .all(|wait| poll(wait.as_mut(), &wakes).is_ready())
    );
}

/// A task that waits for something else beside the tick is polled in between.
#[test]
fn a_repolled_wait_for_a_tick_still_waits() {
    let clock = clock();
    let wakes: Arc<Wakes> = Arc::default();
    let mut wait = Box::pin(clock.next_tick());
    assert!(poll(wait.as_mut(), &wakes).is_pending());
    assert!(poll(wait.as_mut(), &wakes).is_pending());
    tick(&clock);
    assert!(poll(wait.as_mut(), &wakes).is_ready());
}

#[test]
fn ticks_go_on_without_connections_while_something_expires() {
    let clock = clock();
    drop(clock.watch());
    let ticks = |count| (0..count).for_each(|_| tick(&clock));
    clock.want(true);
    ticks(2 * AFTERGLOW);
    assert!(clock.ticker.wanted.load(Ordering::Relaxed));
    clock.want(false);
    ticks(1);
    assert!(!clock.ticker.wanted.load(Ordering::Relaxed));
    // A connection that is gone before the next tick leaves work as well.
    drop(clock.watch());
    ticks(AFTERGLOW - 1);
    assert!(clock.ticker.wanted.load(Ordering::Relaxed));
    ticks(1);
    assert!(!clock.ticker.wanted.load(Ordering::Relaxed));
}

/// With the counts of its `Rc` it is in the allocator's class of 512 bytes: of 100,000 connections a
/// larger one takes 13 MB more.
#[test]
fn a_watch_stays_within_the_size_class_of_512_bytes() {
    let counts = 2 * size_of::<usize>();
    assert!(size_of::<Watch>() + counts <= 512, "{}", size_of::<Watch>());
}
