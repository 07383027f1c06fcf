//! Who makes the next request, and when: one thread's share of a stage.
//!
//! A client asks for its turn. In a closed loop there is always one, until the stage has ended. In an open loop turns
//! come by a schedule: the client whose turn it is may be waiting for it, and is woken by the alarm, or come for it
//! late, because no client was free. That lateness is the target's doing and part of the latency; that of a client which
//! had been waiting is the generator's own, and measured apart.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockgate_net::timer::Timer;

use crate::plan::{Loop, Stage, Until};

/// Nanoseconds since the pace was made: what turns and deadlines are counted in.
pub(crate) type Moment = u64;

/// The turn of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// When the request is due.
    pub(crate) due: Moment,
    /// Whether a schedule says when: else it is due when it is given.
    pub(crate) scheduled: bool,
    /// Whether a client was waiting for it: what it is late by is the generator's own doing.
    pub(crate) awaited: bool,
}

/// One client, as the pace sees it.
#[derive(Debug, Default)]
struct Slot {
    /// Set once the client runs: it is one task, whose waker stays the same.
    waker: RefCell<Option<Waker>>,
    turn: Cell<Option<Turn>>,
    waiting: Cell<bool>,
    deadline: Cell<Option<Moment>>,
    overdue: Cell<bool>,
}

/// A stage, one thread's share of it.
#[derive(Debug, Clone)]
struct Share {
    shape: Loop,
    /// The first moment.
    begin: Moment,
    /// No turn is due from here on; the far future where a count ends the stage.
    end: Moment,
    /// The schedule's turns of this thread are every `stride`th from its own on.
    next: u64,
    stride: u64,
    /// How many turns are left, where a count ends the stage.
    left: u64,
    timeout: Moment,
}

/// The clients of one thread and the stage that they are in.
#[derive(Debug)]
pub(crate) struct Pace {
    zero: Instant,
    slots: Vec<Slot>,
    /// Clients that wait, the one that waits longest first.
    waiting: RefCell<VecDeque<usize>>,
    share: RefCell<Option<Share>>,
    alarm: Timer,
    /// Turns that nobody could take while they might have been in time.
    unsent: Cell<u64>,
    over: RefCell<Option<Waker>>,
}

impl Pace {
    /// For so many clients; no stage yet.
    ///
    /// # Errors
    /// When there is no descriptor for its alarm.
    pub(crate) fn new(clients: usize) -> io::Result<Self> {
        Ok(Self {
            zero: Instant::now(),
            slots: (0..clients).map(|_| Slot::default()).collect(),
            waiting: RefCell::default(),
            share: RefCell::default(),
            alarm: Timer::new()?,
            unsent: Cell::new(0),
            over: RefCell::default(),
        })
    }

    /// Now.
    pub(crate) fn now(&self) -> Moment {
        nanoseconds(self.zero.elapsed())
    }

    /// That moment.
    pub(crate) fn at(&self, instant: Instant) -> Moment {
        nanoseconds(instant.saturating_duration_since(self.zero))
    }

    /// Begins a stage, of which some turns are this thread's.
    pub(crate) fn begin(&self, begin: Moment, stage: &Stage, timeout: Duration, own: Own) {
        let (end, left) = match stage.until {
            Until::Time(time) => (begin.saturating_add(nanoseconds(time)), u64::MAX),
            Until::Count(count) => {
                let (first, stride) = (own.first as u64, own.stride as u64);
                (u64::MAX, count.saturating_sub(first).div_ceil(stride))
            }
        };
        *self.share.borrow_mut() = Some(Share {
            shape: stage.shape.clone(),
            begin,
            end,
            next: own.first as u64,
            stride: own.stride as u64,
            left,
            timeout: nanoseconds(timeout),
        });
        self.deal();
    }

    /// Ends the stage now: no turn is given any more.
    pub(crate) fn stop(&self) {
        if let Some(share) = &mut *self.share.borrow_mut() {
            share.end = 0;
            share.left = 0;
        }
        self.look_for_the_end();
    }

    /// When the stage ends, if time ends it and it has not ended early.
    pub(crate) fn end(&self) -> Option<Moment> {
        self.share.borrow().as_ref().map(|share| share.end)
    }

    /// Completes when the stage has no turn left and every client waits.
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

    /// Turns of the stage that nobody could take in time; asked for once.
    pub(crate) fn take_unsent(&self) -> u64 {
        self.unsent.take()
    }

    /// Completes when it is that client's turn.
    pub(crate) fn poll_turn(&self, client: usize, cx: &mut Context<'_>) -> Poll<Turn> {
        let slot = &self.slots[client];
        if let Some(turn) = slot.turn.take() {
            return Poll::Ready(turn);
        }
        if slot.waiting.get() {
            return Poll::Pending;
        }
        if slot.waker.borrow().is_none() {
            *slot.waker.borrow_mut() = Some(cx.waker().clone());
        }
        // Whoever comes finds that others wait only when no turn is due.
        if let Some(turn) = self.take(false) {
            return Poll::Ready(turn);
        }
        slot.waiting.set(true);
        let first = self.waiting.borrow().is_empty();
        self.waiting.borrow_mut().push_back(client);
        if first {
            self.set_alarm();
        }
        self.look_for_the_end();
        Poll::Pending
    }

    /// Hands out turns as they fall due, for ever.
    ///
    /// # Errors
    /// When the alarm cannot be set.
    pub(crate) async fn run(&self) -> io::Result<()> {
        loop {
            poll_fn(|cx| self.alarm.poll(cx)).await?;
            self.deal();
        }
    }

    /// Gives due turns to those who wait.
    fn deal(&self) {
        loop {
            let Some(&client) = self.waiting.borrow().front() else { break };
            let Some(turn) = self.take(true) else { break };
            self.waiting.borrow_mut().pop_front();
            let slot = &self.slots[client];
            slot.waiting.set(false);
            slot.turn.set(Some(turn));
            if let Some(waker) = &*slot.waker.borrow() {
                waker.wake_by_ref();
            }
        }
        self.set_alarm();
        self.look_for_the_end();
    }

    /// The next turn, if it is due; `awaited` when a client waits for it.
    fn take(&self, awaited: bool) -> Option<Turn> {
        let mut share = self.share.borrow_mut();
        let share = share.as_mut()?;
        if share.left == 0 {
            return None;
        }
        let now = self.now();
        let turn = match &share.shape {
            Loop::Closed if now < share.end => Turn { due: now, scheduled: false, awaited: false },
            Loop::Closed => return None,
            Loop::Open(_) => {
                self.skip(share, now);
                let due = share.due()?;
                if share.left == 0 || due > now {
                    return None;
                }
                share.next += share.stride;
                Turn { due, scheduled: true, awaited }
            }
        };
        share.left -= 1;
        Some(turn)
    }

    /// Passes over turns that could only be too late: an absurd rate must not make an absurd queue.
    fn skip(&self, share: &mut Share, now: Moment) {
        let Loop::Open(schedule) = &share.shape else { return };
        let Some(latest) = now.checked_sub(share.timeout) else { return };
        if share.due().is_none_or(|due| due > latest) {
            return;
        }
        let passed = latest.min(share.end).saturating_sub(share.begin);
        let due = schedule.count(Duration::from_nanos(passed));
        let skipped = due.saturating_sub(share.next).div_ceil(share.stride).min(share.left);
        share.next += skipped * share.stride;
        share.left -= skipped;
        self.unsent.set(self.unsent.get() + skipped);
    }

    fn set_alarm(&self) {
        if self.waiting.borrow().is_empty() {
            return;
        }
        let share = self.share.borrow();
        let Some(share) = share.as_ref().filter(|share| share.left > 0) else { return };
        if let (Loop::Open(_), Some(due)) = (&share.shape, share.due()) {
            // Without a descriptor left to fail for, it cannot.
            let _ = self.alarm.set(Duration::from_nanos(due.saturating_sub(self.now())));
        }
    }

    fn look_for_the_end(&self) {
        if self.over.borrow().is_some()
            && self.is_over()
            && let Some(waker) = self.over.borrow_mut().take()
        {
            waker.wake();
        }
    }

    fn is_over(&self) -> bool {
        let spent = self.share.borrow().as_ref().is_none_or(|share| {
            share.left == 0
                || match share.shape {
                    Loop::Closed => self.now() >= share.end,
                    Loop::Open(_) => share.due().is_none(),
                }
        });
        spent && self.waiting.borrow().len() == self.slots.len()
    }

    /// Gives a client until then; see [`is_overdue`](Self::is_overdue).
    pub(crate) fn expect_by(&self, client: usize, deadline: Option<Moment>) {
        self.slots[client].deadline.set(deadline);
        self.slots[client].overdue.set(false);
    }

    /// Whether a client's deadline has passed.
    pub(crate) fn is_overdue(&self, client: usize) -> bool {
        self.slots[client].overdue.get()
    }

    /// Wakes those whose deadlines have passed; asked for every few milliseconds. With `all`, those too who have time.
    pub(crate) fn sweep(&self, all: bool) {
        let now = self.now();
        for slot in &self.slots {
            if slot.deadline.get().is_some_and(|deadline| all || deadline <= now) {
                slot.overdue.set(true);
                if let Some(waker) = &*slot.waker.borrow() {
                    waker.wake_by_ref();
                }
            }
        }
        self.look_for_the_end();
    }
}

impl Share {
    /// When the next turn is due, if it is within the stage.
    fn due(&self) -> Option<Moment> {
        let Loop::Open(schedule) = &self.shape else { return None };
        let due = self.begin.saturating_add(nanoseconds(schedule.due(self.next)));
        (due < self.end).then_some(due)
    }
}

/// Which turns are one thread's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    /// The first, from 0 on.
    pub(crate) first: usize,
    /// How many threads there are.
    pub(crate) stride: usize,
}

/// As far as they can be counted: 584 years.
pub(crate) fn nanoseconds(duration: Duration) -> Moment {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
