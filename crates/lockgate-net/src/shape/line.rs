//! One worker's time, and who waits in it: one alarm for all of them.

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

/// Waits end at multiples of this, so that one alarm wakes all who are due by then. What that is
/// late is made up for.
const GRAIN: Moment = 4_000_000;
/// The same for short waits, of which a connection has few.
const SOON: Moment = 1_000_000;
const NEVER: Moment = Moment::MAX;
/// What moments count from: one for the process, since workers share buckets. A day before the
/// first look, so that buckets have always had time to fill.
static ORIGIN: LazyLock<(Instant, Moment)> = LazyLock::new(|| (Instant::now(), 86_400 * SECOND));

/// What time it is for buckets, in every thread.
pub fn now() -> Moment {
    let (origin, before) = *ORIGIN;
    before.saturating_add(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(NEVER))
}

/// Who waits for tokens in one worker.
#[derive(Debug)]
pub struct Line {
    alarm: Timer,
    /// For when the alarm is set.
    set_for: Cell<Moment>,
    waiting: RefCell<BTreeMap<Place, Waker>>,
    places: Cell<u64>,
    /// Time that stands still until a test moves it.
    #[cfg(test)]
    stopped: Cell<Option<Moment>>,
}

/// A place in the line: when its turn is, and a number that tells it from others of the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Moment, u64);

impl Line {
    /// A line in which nobody waits. It takes a descriptor.
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

    /// Wakes whose turn it is, for ever: a task of the worker.
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

    /// What time it is, as [`now`] says.
    pub fn now(&self) -> Moment {
        #[cfg(test)]
        if let Some(stopped) = self.stopped.get() {
            return stopped;
        }
        now()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Whether a place's turn has come.
    pub(crate) fn is_due(&self, place: Place) -> bool {
        place.0 <= self.now()
    }

    /// Has `waker` woken at `due`, or up to 4 ms later.
    pub(crate) fn enter(&self, due: Moment, waker: &Waker) -> Place {
        self.enter_at(due.checked_next_multiple_of(GRAIN).unwrap_or(NEVER), waker)
    }

    /// Has `waker` woken after one to two milliseconds, together with others that wait for that.
    pub(crate) fn enter_soon(&self, waker: &Waker) -> Place {
        self.enter_at(
            (self.now() + SOON)
                .checked_next_multiple_of(SOON)
                .unwrap_or(NEVER),
            waker,
        )
    }

    fn enter_at(&self, due: Moment, waker: &Waker) -> Place {
        let place = Place(due, self.places.get());
        self.places.set(place.1 + 1);
        self.waiting.borrow_mut().insert(place, waker.clone());
        self.set(place.0);
        place
    }

    /// Lets another waker have the place.
    pub(crate) fn stay(&self, place: Place, waker: &Waker) {
        if let Some(held) = self.waiting.borrow_mut().get_mut(&place)
            && !held.will_wake(waker)
        {
            held.clone_from(waker);
        }
    }

    /// Gives the place up.
    pub(super) fn leave(&self, place: Place) {
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

    /// Sees to it that the alarm goes off at `due` at the latest. One that nobody waits for any
    /// more may go off in vain.
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
impl Line {
    /// One whose time stands still.
    pub(crate) fn stopped() -> Rc<Self> {
        let line = Self::new().unwrap();
        line.stopped.set(Some(line.now()));
        line
    }

    /// Lets time pass, and wakes whose turn it is.
    pub(crate) fn pass(&self, time: Moment) {
        let now = self.now() + time;
        self.stopped.set(Some(now));
        self.set_for.set(NEVER);
        self.call(now);
    }
}
