//! The clock of one worker's shapers, and their waits: one alarm for all.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::{Moment, SECOND};
use crate::timer::Timer;

/// Waits end at multiples of this, so that one alarm serves all that are due by then. Its lateness
/// is made up for.
const GRAIN: Moment = 4_000_000;
/// The same for short waits, of which a connection has few.
const SOON: Moment = 1_000_000;
const NEVER: Moment = Moment::MAX;
/// The origin of moments: one for the process, since workers share buckets. A day before its first
/// use, so that buckets have always had time to fill.
static ORIGIN: LazyLock<(Instant, Moment)> = LazyLock::new(|| (Instant::now(), 86_400 * SECOND));

/// The current time for buckets, in every thread.
pub fn now() -> Moment {
    let (origin, before) = *ORIGIN;
    before.saturating_add(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(NEVER))
}

/// The waits for tokens in one worker.
#[derive(Debug)]
pub struct ShapingQueue {
    alarm: Timer,
    /// The time that the alarm is set for.
    set_for: Cell<Moment>,
    waiting: RefCell<BTreeMap<QueuedWait, Waker>>,
    places: Cell<u64>,
    /// A clock that stands still until a test advances it.
    #[cfg(test)]
    stopped: Cell<Option<Moment>>,
}

/// A wait: its time, and a number that distinguishes it from others of the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuedWait(Moment, u64);

impl ShapingQueue {
    /// An empty line. It uses a descriptor.
    ///
    /// # Errors
    /// When there is no descriptor for its alarm.
    pub fn new() -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            alarm: Timer::new()?,
            set_for: Cell::new(NEVER),
            waiting: RefCell::default(),
            places: Cell::new(0),
            #[cfg(test)]
            stopped: Cell::new(None),
        }))
    }

    /// Wakes tasks that are due, for ever: a task of the worker.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn run(&self) -> io::Result<()> {
        loop {
            poll_fn(|cx| self.alarm.poll(cx)).await?;
            self.set_for.set(NEVER);
            self.call(self.now());
        }
    }

    /// The current time, as [`now`].
    pub fn now(&self) -> Moment {
        #[cfg(test)]
        if let Some(stopped) = self.stopped.get() {
            return stopped;
        }
        now()
    }

    /// The number of waits.
    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Whether there are no waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Whether a wait is due.
    pub(crate) fn is_due(&self, place: QueuedWait) -> bool {
        place.0 <= self.now()
    }

    /// Wakes `waker` at `due`, or up to 4 ms later.
    pub(crate) fn enter(&self, due: Moment, waker: &Waker) -> QueuedWait {
        self.enter_at(due.checked_next_multiple_of(GRAIN).unwrap_or(NEVER), waker)
    }

    /// Wakes `waker` after one to two milliseconds, together with others that wait for that.
    pub(crate) fn enter_soon(&self, waker: &Waker) -> QueuedWait {
        self.enter_at(
            (self.now() + SOON)
                .checked_next_multiple_of(SOON)
                .unwrap_or(NEVER),
            waker,
        )
    }

    fn enter_at(&self, due: Moment, waker: &Waker) -> QueuedWait {
        let place = QueuedWait(due, self.places.get());
        self.places.set(place.1 + 1);
        self.waiting.borrow_mut().insert(place, waker.clone());
        self.set(place.0);
        place
    }

    /// Replaces the waker of a wait.
    pub(crate) fn stay(&self, place: QueuedWait, waker: &Waker) {
        if let Some(held) = self.waiting.borrow_mut().get_mut(&place)
            && !held.will_wake(waker)
        {
            held.clone_from(waker);
        }
    }

    /// Cancels a wait.
    pub(super) fn leave(&self, place: QueuedWait) {
        self.waiting.borrow_mut().remove(&place);
    }

    fn call(&self, now: Moment) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            first.remove().wake();
        }
        let next = waiting.first_key_value().map(|(place, _)| place.0);
        drop(waiting);
        if let Some(next) = next {
            self.set(next);
        }
    }

    /// Sets the alarm for `due` at the latest. The alarm of a cancelled wait may go off in vain.
    fn set(&self, due: Moment) {
        if due >= self.set_for.get() {
            return;
        }
        self.set_for.set(due);
        let after = Duration::from_nanos(due.saturating_sub(self.now()));
        self.alarm
            .set(after)
            .expect("the alarm is open, and any time is taken");
    }
}

#[cfg(test)]
impl ShapingQueue {
    /// A line with a stopped clock.
    pub(crate) fn stopped() -> Rc<Self> {
        let line = Self::new().unwrap();
        line.stopped.set(Some(line.now()));
        line
    }

    /// Advances the clock, and wakes tasks that are due.
    pub(crate) fn pass(&self, time: Moment) {
        let now = self.now() + time;
        self.stopped.set(Some(now));
        self.set_for.set(NEVER);
        self.call(now);
    }
}
