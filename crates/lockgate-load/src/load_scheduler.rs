//! Schedule of one thread's share of a stage: which client makes the next request, and when.
//!
//! A client asks for a ticket. In a closed loop there is always one, until the stage ends. In an
//! open loop tickets fall due by a schedule. A waiting client is woken by the alarm. Where no
//! client was free, the ticket is taken late: that lateness is the target's doing and part of the
//! latency. The lateness of a waiting client is the generator's own, and measured apart.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockgate_net::timer::Timer;

use crate::nanos::{Nanoseconds, nanoseconds};
use crate::plan::{LoadStage, Loop, Until};

/// The right of one client to make a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// When the request is due.
    pub(crate) due: Nanoseconds,
    /// Whether it is due by a schedule; if not, it is due when it is given.
    pub(crate) scheduled: bool,
    /// Whether a client was waiting for it: then its lateness is the generator's own.
    pub(crate) awaited: bool,
}

/// One client, as the scheduler sees it.
#[derive(Debug, Default)]
struct ClientSlot {
    /// Waker of the client's task, which stays the same; one task may have several clients.
    waker: RefCell<Option<Waker>>,
    ticket: Cell<Option<Ticket>>,
    waiting: Cell<bool>,
    deadline: Cell<Option<Nanoseconds>>,
    overdue: Cell<bool>,
}

/// One thread's share of a stage.
#[derive(Debug, Clone)]
struct StageShare {
    shape: Loop,
    /// The time of its begin.
    begin: Nanoseconds,
    /// No ticket is due from here on; the far future where a count ends the stage.
    end: Nanoseconds,
    /// Index of the next ticket; this thread has every `stride`th of the schedule.
    next: u64,
    stride: u64,
    /// Tickets that are left, where a count ends the stage.
    left: u64,
    timeout: Nanoseconds,
}

#[derive(Debug)]
enum SchedulerClock {
    /// The system's clock, since the scheduler was made.
    Running(Instant),
    #[cfg(test)]
    Set(Cell<Nanoseconds>),
}

/// The clients of one thread and the stage that they are in.
#[derive(Debug)]
pub(crate) struct LoadScheduler {
    clock: SchedulerClock,
    slots: Vec<ClientSlot>,
    /// Clients that wait, the one that waits longest first.
    waiting: RefCell<VecDeque<usize>>,
    share: RefCell<Option<StageShare>>,
    alarm: Timer,
    /// Tickets that no client could take in time.
    unsent: Cell<u64>,
    /// Tickets that were due when the stage was ended early.
    cut: Cell<u64>,
    /// Number of deadlines that have passed.
    expired: Cell<u64>,
    over: RefCell<Option<Waker>>,
}

impl LoadScheduler {
    /// A scheduler of so many clients, without a stage.
    ///
    /// # Errors
    /// There is no descriptor for the alarm.
    pub(crate) fn new(clients: usize) -> io::Result<Self> {
        Ok(Self {
            clock: SchedulerClock::Running(Instant::now()),
            slots: (0..clients).map(|_| ClientSlot::default()).collect(),
            waiting: RefCell::default(),
            share: RefCell::default(),
            alarm: Timer::new()?,
            unsent: Cell::new(0),
            cut: Cell::new(0),
            expired: Cell::new(0),
            over: RefCell::default(),
        })
    }

    pub(crate) fn now(&self) -> Nanoseconds {
        match &self.clock {
            SchedulerClock::Running(zero) => nanoseconds(zero.elapsed()),
            #[cfg(test)]
            SchedulerClock::Set(now) => now.get(),
        }
    }

    pub(crate) fn at(&self, instant: Instant) -> Nanoseconds {
        match &self.clock {
            SchedulerClock::Running(zero) => nanoseconds(instant.saturating_duration_since(*zero)),
            #[cfg(test)]
            SchedulerClock::Set(now) => now.get(),
        }
    }

    /// Begins a stage; `own` are this thread's tickets.
    pub(crate) fn begin(
        &self,
        begin: Nanoseconds,
        stage: &LoadStage,
        timeout: Duration,
        own: Interleave,
    ) {
        let (end, left) = match stage.until {
            Until::Time(time) => (begin.saturating_add(nanoseconds(time)), u64::MAX),
            Until::Count(count) => {
                let (first, stride) = (own.first as u64, own.stride as u64);
                (u64::MAX, count.saturating_sub(first).div_ceil(stride))
            }
        };
        *self.share.borrow_mut() = Some(StageShare {
            shape: stage.shape.clone(),
            begin,
            end,
            next: own.first as u64,
            stride: own.stride as u64,
            left,
            timeout: nanoseconds(timeout),
        });
        self.hand_out_tickets();
    }

    /// Ends the stage now: no ticket is given any more. Due tickets that had no client are cut.
    pub(crate) fn stop(&self) {
        if let Some(share) = &mut *self.share.borrow_mut() {
            self.cut
                .set(self.cut.get() + share.overdue_tickets(self.now()));
            share.left = 0;
        }
        self.wake_if_over();
    }

    /// When the stage ends, if time ends it.
    pub(crate) fn end(&self) -> Option<Nanoseconds> {
        self.share.borrow().as_ref().map(|share| share.end)
    }

    /// Completes when the stage has no ticket left and every client waits.
    pub(crate) async fn over(&self) {
        poll_fn(|cx| {
            if self.is_over() {
                return Poll::Ready(());
            }
            *self.over.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        *self.share.borrow_mut() = None;
    }

    /// Takes the number of tickets that no client could take in time.
    pub(crate) fn take_unsent(&self) -> u64 {
        self.unsent.take()
    }

    /// Takes the number of due tickets without a client when the stage was ended early.
    pub(crate) fn take_cut(&self) -> u64 {
        self.cut.take()
    }

    /// Completes with the client's next ticket.
    pub(crate) fn poll_ticket(&self, client: usize, cx: &mut Context<'_>) -> Poll<Ticket> {
        let slot = &self.slots[client];
        if let Some(mut ticket) = slot.ticket.take() {
            // In a closed loop a ticket is due when it is taken: the work of other clients before
            // that is no part of its latency.
            if !ticket.scheduled {
                ticket.due = self.now();
            }
            return Poll::Ready(ticket);
        }
        if slot.waiting.get() {
            return Poll::Pending;
        }
        if slot.waker.borrow().is_none() {
            *slot.waker.borrow_mut() = Some(cx.waker().clone());
        }
        // Where other clients wait, the alarm has not handed out this due ticket yet.
        let awaited = !self.waiting.borrow().is_empty();
        if let Some(ticket) = self.take(awaited) {
            return Poll::Ready(ticket);
        }
        slot.waiting.set(true);
        let first = self.waiting.borrow().is_empty();
        self.waiting.borrow_mut().push_back(client);
        if first {
            self.set_alarm();
        }
        self.wake_if_over();
        Poll::Pending
    }

    /// Gives out tickets as they fall due, for ever.
    ///
    /// # Errors
    /// When the alarm cannot be set.
    pub(crate) async fn run(&self) -> io::Result<()> {
        loop {
            poll_fn(|cx| self.alarm.poll(cx)).await?;
            self.hand_out_tickets();
        }
    }

    /// Gives due tickets to the clients that wait.
    fn hand_out_tickets(&self) {
        loop {
            let Some(&client) = self.waiting.borrow().front() else {
                break;
            };
            let Some(ticket) = self.take(true) else { break };
            self.waiting.borrow_mut().pop_front();
            let slot = &self.slots[client];
            slot.waiting.set(false);
            slot.ticket.set(Some(ticket));
            if let Some(waker) = &*slot.waker.borrow() {
                waker.wake_by_ref();
            }
        }
        self.set_alarm();
        self.wake_if_over();
    }

    /// The next ticket, if it is due; `awaited` when a client waits for it.
    fn take(&self, awaited: bool) -> Option<Ticket> {
        let mut share = self.share.borrow_mut();
        let share = share.as_mut()?;
        if share.left == 0 {
            return None;
        }
        let now = self.now();
        let ticket = match &share.shape {
            Loop::Closed if now < share.end => Ticket {
                due: now,
                scheduled: false,
                awaited: false,
            },
            Loop::Closed => return None,
            Loop::Open(_) => {
                self.skip(share, now);
                let due = share.due()?;
                if share.left == 0 || due > now {
                    return None;
                }
                share.next += share.stride;
                Ticket {
                    due,
                    scheduled: true,
                    awaited,
                }
            }
        };
        share.left -= 1;
        Some(ticket)
    }

    /// Skips tickets that could only be too late: an absurd rate must not make an absurd queue.
    fn skip(&self, share: &mut StageShare, now: Nanoseconds) {
        let Some(latest) = now.checked_sub(share.timeout) else {
            return;
        };
        if share.due().is_none_or(|due| due > latest) {
            return;
        }
        let skipped = share.overdue_tickets(latest);
        share.next += skipped * share.stride;
        share.left -= skipped;
        self.unsent.set(self.unsent.get() + skipped);
    }

    fn set_alarm(&self) {
        if self.waiting.borrow().is_empty() {
            return;
        }
        let share = self.share.borrow();
        let Some(share) = share.as_ref().filter(|share| share.left > 0) else {
            return;
        };
        if let (Loop::Open(_), Some(due)) = (&share.shape, share.due()) {
            // It has its descriptor, so it cannot fail.
            let _ = self
                .alarm
                .set(Duration::from_nanos(due.saturating_sub(self.now())));
        }
    }

    fn wake_if_over(&self) {
        if self.over.borrow().is_some()
            && self.is_over()
            && let Some(waker) = self.over.borrow_mut().take()
        {
            waker.wake();
        }
    }

    fn is_over(&self) -> bool {
        // A stage lasts its whole time, also after its last ticket.
        let spent = self.share.borrow().as_ref().is_none_or(|share| {
            share.left == 0
                || self.now() >= share.end
                    && match share.shape {
                        Loop::Closed => true,
                        Loop::Open(_) => share.due().is_none(),
                    }
        });
        spent && self.waiting.borrow().len() == self.slots.len()
    }

    /// Sets a client's deadline; see [`is_overdue`](Self::is_overdue).
    pub(crate) fn set_deadline(&self, client: usize, deadline: Option<Nanoseconds>) {
        self.slots[client].deadline.set(deadline);
        self.slots[client].overdue.set(false);
    }

    /// Whether a client's deadline has passed.
    pub(crate) fn is_overdue(&self, client: usize) -> bool {
        self.slots[client].overdue.get()
    }

    /// Number of deadlines that have passed: a task with many clients checks them only when it
    /// changes.
    pub(crate) fn expired(&self) -> u64 {
        self.expired.get()
    }

    /// Wakes the clients with a passed deadline, every few milliseconds; with `all`, every client
    /// with a deadline.
    pub(crate) fn expire_deadlines(&self, all: bool) {
        let now = self.now();
        for slot in &self.slots {
            if slot
                .deadline
                .get()
                .is_some_and(|deadline| all || deadline <= now)
            {
                slot.overdue.set(true);
                self.expired.set(self.expired.get() + 1);
                if let Some(waker) = &*slot.waker.borrow() {
                    waker.wake_by_ref();
                }
            }
        }
        self.wake_if_over();
    }
}

impl StageShare {
    /// When the next ticket is due, if it is within the stage.
    fn due(&self) -> Option<Nanoseconds> {
        let Loop::Open(schedule) = &self.shape else {
            return None;
        };
        let due = self
            .begin
            .saturating_add(nanoseconds(schedule.due(self.next)));
        (due < self.end).then_some(due)
    }

    /// Number of tickets that were due before `at` and are not taken.
    fn overdue_tickets(&self, at: Nanoseconds) -> u64 {
        let Loop::Open(schedule) = &self.shape else {
            return 0;
        };
        let passed = at.min(self.end).saturating_sub(self.begin);
        let due = schedule.count(Duration::from_nanos(passed));
        due.saturating_sub(self.next)
            .div_ceil(self.stride)
            .min(self.left)
    }
}

/// Position of one thread's tickets in the schedule of all threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interleave {
    /// Index of the first ticket.
    pub(crate) first: usize,
    /// Distance to the next ticket: the number of threads.
    pub(crate) stride: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{RequestRate, Schedule};
    use lockgate_net::reactor::Reactor;

    const SECOND: Nanoseconds = 1_000_000_000;

    /// A scheduler of two clients at time 0, without a stage, on a reactor, which the alarm needs.
    fn with_scheduler(test: impl FnOnce(&LoadScheduler)) {
        let test = async {
            let mut scheduler = LoadScheduler::new(2).unwrap();
            scheduler.clock = SchedulerClock::Set(Cell::new(0));
            test(&scheduler);
        };
        Reactor::new().unwrap().block_on(test).unwrap();
    }

    impl LoadScheduler {
        fn set(&self, now: Nanoseconds) {
            let SchedulerClock::Set(clock) = &self.clock else {
                panic!("it runs by itself")
            };
            clock.set(now);
        }

        /// The client's ticket, if it gets one now.
        fn ask(&self, client: usize) -> Option<Ticket> {
            match self.poll_ticket(client, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(ticket) => Some(ticket),
                Poll::Pending => None,
            }
        }

        fn start(&self, shape: Loop, until: Until, timeout: Duration, first: usize, stride: usize) {
            let stage = LoadStage {
                round: 1,
                name: String::new(),
                shape,
                until,
            };
            self.begin(self.now(), &stage, timeout, Interleave { first, stride });
        }
    }

    fn every_tenth() -> Loop {
        Loop::Open(Schedule::Constant(RequestRate::new(10.0).unwrap()))
    }

    fn due(due: Nanoseconds, awaited: bool) -> Option<Ticket> {
        Some(Ticket {
            due,
            scheduled: true,
            awaited,
        })
    }

    #[test]
    fn turns_come_when_they_are_due_and_late_ones_are_still_due_when_they_were() {
        with_scheduler(|scheduler| {
            scheduler.start(
                every_tenth(),
                Until::Time(Duration::from_secs(1)),
                Duration::from_secs(60),
                0,
                1,
            );
            assert_eq!((scheduler.ask(0), scheduler.ask(0)), (due(0, false), None));
            scheduler.set(SECOND / 10);
            // A client waited: the lateness is the generator's.
            scheduler.hand_out_tickets();
            assert_eq!(scheduler.ask(0), due(SECOND / 10, true));
            // No client waited for the next three.
            scheduler.set(SECOND / 2 - 1);
            for tenth in 2..5 {
                assert_eq!(scheduler.ask(0), due(tenth * SECOND / 10, false));
            }
            assert_eq!(scheduler.ask(0), None);
            // No ticket is due after the end; the earlier ones still are.
            scheduler.set(2 * SECOND);
            let rest: Vec<_> = std::iter::from_fn(|| scheduler.ask(1))
                .map(|ticket| ticket.due)
                .collect();
            assert_eq!(rest, [5, 6, 7, 8, 9].map(|tenth| tenth * SECOND / 10));
        });
    }

    #[test]
    fn a_client_that_asks_before_the_alarm_takes_the_turn_that_others_awaited() {
        with_scheduler(|scheduler| {
            scheduler.start(
                every_tenth(),
                Until::Count(3),
                Duration::from_secs(60),
                1,
                1,
            );
            assert_eq!(scheduler.ask(0), None);
            scheduler.set(SECOND / 10 + 7);
            assert_eq!(scheduler.ask(1), due(SECOND / 10, true));
        });
    }

    #[test]
    fn a_stage_lasts_as_long_as_it_was_to_though_its_last_turn_is_long_over() {
        with_scheduler(|scheduler| {
            let rare = Loop::Open(Schedule::Constant(RequestRate::new(0.1).unwrap()));
            scheduler.start(
                rare,
                Until::Time(Duration::from_secs(5)),
                Duration::from_secs(1),
                0,
                1,
            );
            assert_eq!(
                (scheduler.ask(0), scheduler.ask(0), scheduler.ask(1)),
                (due(0, false), None, None)
            );
            scheduler.set(5 * SECOND - 1);
            assert!(!scheduler.is_over());
            scheduler.set(5 * SECOND);
            assert!(scheduler.is_over());
        });
    }

    #[test]
    fn requests_due_when_a_stage_ends_early_are_cut() {
        with_scheduler(|scheduler| {
            scheduler.start(
                every_tenth(),
                Until::Time(Duration::from_secs(60)),
                Duration::from_secs(60),
                1,
                2,
            );
            assert_eq!(scheduler.ask(0), None);
            // The tickets at 0.1 s, 0.3 s … 1.9 s are this thread's.
            scheduler.set(2 * SECOND);
            assert_eq!(scheduler.ask(1), due(SECOND / 10, true));
            scheduler.stop();
            assert_eq!(
                (
                    scheduler.take_cut(),
                    scheduler.take_cut(),
                    scheduler.take_unsent()
                ),
                (9, 0, 0)
            );
            scheduler.stop();
            assert_eq!((scheduler.take_cut(), scheduler.ask(1)), (0, None));
        });
    }

    #[test]
    fn an_absurd_rate_makes_no_absurd_queue() {
        with_scheduler(|scheduler| {
            let shape = Loop::Open(Schedule::Constant(
                RequestRate::new(RequestRate::HIGHEST).unwrap(),
            ));
            let hour = Duration::from_secs(3600);
            scheduler.start(shape, Until::Time(hour), Duration::from_secs(1), 0, 2);
            assert_eq!((scheduler.ask(0).unwrap().due, scheduler.ask(0)), (0, None));
            // Half an hour later a ticket that was due a second ago is still in time, and half of
            // the tickets are this thread's.
            scheduler.set(1800 * SECOND);
            assert_eq!(scheduler.ask(1).unwrap().due, 1799 * SECOND);
            // All but the first client's ticket and the ticket of now.
            assert_eq!(scheduler.take_unsent(), 1799 * SECOND / 2 - 1);
            assert_eq!(scheduler.take_unsent(), 0);
            scheduler.set(2 * 3600 * SECOND);
            assert_eq!((scheduler.ask(1), scheduler.ask(0)), (None, None));
            assert!(scheduler.is_over());
            assert_eq!(scheduler.take_unsent(), 1801 * SECOND / 2 - 1);
        });
    }

    #[test]
    fn a_count_holds_whoever_is_late() {
        with_scheduler(|scheduler| {
            let shape = Loop::Open(Schedule::Constant(RequestRate::new(1000.0).unwrap()));
            scheduler.start(shape, Until::Count(10), Duration::from_millis(1), 0, 1);
            scheduler.set(SECOND);
            assert_eq!((scheduler.ask(0), scheduler.ask(1)), (None, None));
            assert!(scheduler.is_over());
            assert_eq!(scheduler.take_unsent(), 10);
        });
    }

    #[test]
    fn threads_share_a_schedule_and_a_count_without_a_gap() {
        for (count, threads) in [(10, 3), (2, 4), (1, 1), (12, 4)] {
            let mut all = Vec::new();
            for first in 0..threads {
                with_scheduler(|scheduler| {
                    scheduler.start(
                        every_tenth(),
                        Until::Count(count),
                        Duration::from_secs(60),
                        first,
                        threads,
                    );
                    scheduler.set(59 * SECOND);
                    all.extend(std::iter::from_fn(|| scheduler.ask(0)).map(|ticket| ticket.due));
                });
            }
            all.sort_unstable();
            assert_eq!(
                all,
                (0..count)
                    .map(|tenth| tenth * SECOND / 10)
                    .collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_closed_loop_has_a_turn_for_everybody_until_its_end() {
        with_scheduler(|scheduler| {
            let until = Until::Time(Duration::from_secs(1));
            scheduler.start(Loop::Closed, until, Duration::from_secs(60), 0, 1);
            for now in [0, 1, SECOND - 1] {
                scheduler.set(now);
                assert_eq!(
                    scheduler.ask(0),
                    Some(Ticket {
                        due: now,
                        scheduled: false,
                        awaited: false
                    })
                );
            }
            scheduler.set(SECOND);
            assert_eq!(
                (
                    scheduler.ask(0),
                    scheduler.is_over(),
                    scheduler.ask(1),
                    scheduler.is_over()
                ),
                (None, false, None, true)
            );
        });
    }

    #[test]
    fn a_stage_that_is_stopped_has_no_turn_left_and_the_same_end() {
        for shape in [Loop::Closed, every_tenth()] {
            with_scheduler(|scheduler| {
                scheduler.start(
                    shape,
                    Until::Time(Duration::from_secs(1)),
                    Duration::from_secs(60),
                    0,
                    1,
                );
                assert!(scheduler.ask(0).is_some());
                scheduler.stop();
                scheduler.set(SECOND / 2);
                assert_eq!(
                    (scheduler.ask(0), scheduler.ask(1), scheduler.is_over()),
                    (None, None, true)
                );
                assert_eq!(scheduler.end(), Some(SECOND), "what ends now is not late");
            });
        }
    }

    #[test]
    fn deadlines_are_seen_by_the_sweep_and_by_all_when_it_is_over() {
        with_scheduler(|scheduler| {
            scheduler.set_deadline(0, Some(5));
            scheduler.set_deadline(1, Some(6));
            scheduler.set(5);
            scheduler.expire_deadlines(false);
            assert_eq!(
                [0, 1].map(|client| scheduler.is_overdue(client)),
                [true, false]
            );
            scheduler.expire_deadlines(true);
            assert!(scheduler.is_overdue(1));
            scheduler.set_deadline(1, Some(6));
            assert!(!scheduler.is_overdue(1));
        });
    }
}
