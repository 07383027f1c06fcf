//! The clock of one worker's shapers, their waits and other short ones: one alarm for all.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::nanos::Nanos;
use crate::timer::Timer;

/// Waits end at multiples of this, so that one alarm serves all that are due by then. Its lateness
/// is made up for.
const GRAIN: Nanos = Nanos::from_millis(4);
/// The same for short waits, of which a connection has few.
const SOON: Nanos = Nanos::from_millis(1);
/// The origin of moments: one for the process, since workers share buckets. A day before its first
/// use, so that buckets have always had time to fill.
static ORIGIN: LazyLock<(Instant, Nanos)> =
    LazyLock::new(|| (Instant::now(), Nanos::from_secs(86_400)));

/// The current time for buckets, in every thread.
pub fn now() -> Nanos {
    let (origin, before) = *ORIGIN;
    before + Nanos::from(origin.elapsed())
}

/// The waits for tokens in one worker, and other waits of milliseconds.
#[derive(Debug)]
pub struct ShapingQueue {
    alarm: Timer,
    /// The time that the alarm is set for.
    set_for: Cell<Nanos>,
    waiting: RefCell<BTreeMap<QueuedWait, Waker>>,
    /// The number of the next wait.
    next: Cell<u64>,
    /// A clock that stands still until a test advances it.
    #[cfg(test)]
    stopped: Cell<Option<Nanos>>,
}

/// A wait: its time, and a number that distinguishes it from others of the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuedWait(Nanos, u64);

impl ShapingQueue {
    /// An empty queue. It uses a descriptor.
    ///
    /// # Errors
    /// When there is no descriptor for its alarm.
    pub fn new() -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            alarm: Timer::new()?,
            set_for: Cell::new(Nanos::MAX),
            waiting: RefCell::default(),
            next: Cell::new(0),
            #[cfg(test)]
            stopped: Cell::new(None),
        }))
    }

    /// Wakes tasks that are due, for ever: a task of the worker.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub async fn run(&self) -> io::Result<()> {
        loop {
            poll_fn(|cx| self.alarm.poll(cx)).await?;
            self.set_for.set(Nanos::MAX);
            self.wake_due(self.now());
        }
    }

    /// The current time, as [`now`].
    pub fn now(&self) -> Nanos {
        #[cfg(test)]
        if let Some(stopped) = self.stopped.get() {
            return stopped;
        }
        now()
    }

    /// The number of waits of the worker.
    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Whether there are no waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Whether a wait is due.
    pub(crate) fn is_due(&self, wait: QueuedWait) -> bool {
        wait.0 <= self.now()
    }

    /// Wakes `waker` at `due`, or up to 4 ms later.
    pub(crate) fn wait_until(&self, due: Nanos, waker: &Waker) -> QueuedWait {
        self.wait_at(due.next_multiple_of(GRAIN), waker)
    }

    /// Wakes `waker` after one to two milliseconds, together with others that wait for that.
    pub(crate) fn wait_soon(&self, waker: &Waker) -> QueuedWait {
        self.wait_at((self.now() + SOON).next_multiple_of(SOON), waker)
    }

    fn wait_at(&self, due: Nanos, waker: &Waker) -> QueuedWait {
        let wait = QueuedWait(due, self.next.get());
        self.next.set(wait.1 + 1);
        self.waiting.borrow_mut().insert(wait, waker.clone());
        self.set(due);
        wait
    }

    /// Replaces the waker of a wait.
    pub(crate) fn set_waker(&self, wait: QueuedWait, waker: &Waker) {
        if let Some(held) = self.waiting.borrow_mut().get_mut(&wait)
            && !held.will_wake(waker)
        {
            held.clone_from(waker);
        }
    }

    /// Removes a wait that is no longer needed.
    pub(super) fn cancel(&self, wait: QueuedWait) {
        self.waiting.borrow_mut().remove(&wait);
    }

    fn wake_due(&self, now: Nanos) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            first.remove().wake();
        }
        let next = waiting.first_key_value().map(|(wait, _)| wait.0);
        drop(waiting);
        if let Some(next) = next {
            self.set(next);
        }
    }

    /// Sets the alarm for `due` at the latest. The alarm of a cancelled wait may go off in vain.
    fn set(&self, due: Nanos) {
        if due >= self.set_for.get() {
            return;
        }
        self.set_for.set(due);
        let after = Duration::from(due - self.now());
        self.alarm
            .set(after)
            .expect("the alarm is open, and any time is taken");
    }
}

#[cfg(test)]
impl ShapingQueue {
    /// A queue with a stopped clock.
    pub(crate) fn stopped() -> Rc<Self> {
        let queue = Self::new().unwrap();
        queue.stopped.set(Some(queue.now()));
        queue
    }

    /// Advances the clock, and wakes tasks that are due.
    pub(crate) fn pass(&self, time: Nanos) {
        let now = self.now() + time;
        self.stopped.set(Some(now));
        self.set_for.set(Nanos::MAX);
        self.wake_due(now);
    }
}
