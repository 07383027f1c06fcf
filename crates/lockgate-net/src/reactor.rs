//! The event loop of a worker thread: tasks, and descriptors that wake them when they are ready.
//!
//! All tasks of a worker stay in its thread, so that nothing here is locked, except the list of
//! tasks that other threads wake. It has no timers: deadlines are cells that a tick checks,
//! and the tick has a timerfd ([`timer`](crate::timer)). `docs/notes/032-reactor.md` says why this
//! is not tokio's, and what it saves.
//!
//! A turn collects the events of epoll(7) and runs the tasks that they wake. Events are
//! edge-triggered: a `Registration` keeps its readiness until a system call has found it used up.

mod prefetch;
mod registration;
mod slots;
mod sources;
mod tasks;
#[cfg(test)]
pub(crate) mod testing;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sources::{Sources, Wait};
use tasks::{RemoteWakes, TaskWaker, Tasks};

pub use prefetch::{PrefetchedFuture, note_memory, prefetched};
pub(crate) use registration::{Interest, Registration};

/// Polls of tasks between two looks at the events: the tasks of a turn may wake each other for
/// longer than sockets are to wait.
const POLLS_PER_TURN: usize = 128;
/// Operations that a task may begin on ready descriptors in one poll; then the others have their
/// turn.
const OPERATIONS_PER_POLL: u32 = 128;

thread_local! {
    /// The reactor that runs in this thread.
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// The event loop of one thread. Dropping it drops its tasks.
#[derive(Debug)]
pub struct Reactor(Rc<Core>);

/// What the tasks and descriptors of a thread share.
#[derive(Debug)]
struct Core {
    sources: Sources,
    tasks: Tasks,
    /// Wakers of tasks that let the others go first.
    yielded: RefCell<Vec<Waker>>,
    /// Operations that the running task may still begin.
    budget: Cell<u32>,
}

impl Reactor {
    /// A reactor without tasks, for this thread.
    ///
    /// # Errors
    /// When there is no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let sources = Sources::new()?;
        let wakes = Arc::new(RemoteWakes::new(sources.alarm()?));
        Ok(Self(Rc::new(Core {
            sources,
            tasks: Tasks::new(wakes),
            yielded: RefCell::default(),
            budget: Cell::new(0),
        })))
    }

    /// Runs `future` and the tasks that it spawns, until `future` completes.
    ///
    /// # Errors
    /// When the kernel refuses to wait for events: this has no cause that could end.
    ///
    /// # Panics
    /// In a thread where a reactor runs already.
    pub fn block_on<F: Future>(&self, future: F) -> io::Result<F::Output> {
        let _entered = Entered::new(&self.0);
        let core = &*self.0;
        let waker = Waker::from(core.tasks.main());
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        core.tasks.wake_main();
        loop {
            if core.tasks.take_main() {
                core.budget.set(OPERATIONS_PER_POLL);
                if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                    return Ok(output);
                }
            }
            core.run_tasks();
            core.turn()?;
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        // What tasks drop may deregister descriptors, wake and spawn.
        let _entered = Entered::new(&self.0);
        self.0.tasks.clear();
    }
}

impl Core {
    /// Runs the tasks that are woken, and those that they wake, for a while.
    fn run_tasks(&self) {
        for _ in 0..POLLS_PER_TURN {
            let Some(mut running) = self.tasks.next() else {
                return;
            };
            self.budget.set(OPERATIONS_PER_POLL);
            if running.poll().is_pending() {
                self.tasks.put_back(running);
            } else {
                self.tasks.end(running);
            }
        }
    }

    /// Collects events, and waits for one if no task is woken.
    fn turn(&self) -> io::Result<()> {
        let is_busy = self.tasks.are_woken() || !self.yielded.borrow().is_empty();
        let wait = if is_busy { Wait::Not } else { Wait::ForEvent };
        if self.sources.collect(wait)? {
            self.tasks.take_remote();
        }
        for waker in self.yielded.borrow_mut().drain(..) {
            waker.wake();
        }
        Ok(())
    }

    /// Counts an operation of the running task; whether it is to let others go first.
    fn is_spent(&self, cx: &Context<'_>) -> bool {
        match self.budget.get().checked_sub(1) {
            Some(left) => {
                self.budget.set(left);
                false
            }
            None => {
                self.yielded.borrow_mut().push(cx.waker().clone());
                true
            }
        }
    }
}

/// The reactor of this thread while it runs.
struct Entered;

impl Entered {
    fn new(core: &Rc<Core>) -> Self {
        CURRENT.with_borrow_mut(|current| {
            assert!(current.is_none(), "a thread runs one reactor");
            *current = Some(Rc::clone(core));
        });
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// The reactor that runs in this thread, if one does.
fn current() -> Option<Rc<Core>> {
    CURRENT.with_borrow(Option::clone)
}

/// Runs `future` as a task of this thread's reactor, beside the present one.
///
/// # Panics
/// In a thread without a reactor.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    CURRENT.with_borrow(|current| {
        let core = current.as_ref().expect("a task belongs to a reactor");
        core.tasks.add(Box::pin(future));
    });
}

/// Lets the thread's other tasks go first, after a look at the events.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        CURRENT.with_borrow(|current| match current {
            Some(core) => core.yielded.borrow_mut().push(cx.waker().clone()),
            // On a runtime of another kind.
            None => cx.waker().wake_by_ref(),
        });
        Poll::Pending
    })
    .await;
}

/// Wakes a task of the reactor that `waker` belongs to.
fn wake(waker: &TaskWaker) {
    let is_here = CURRENT.with_borrow(|current| {
        let here = current
            .as_ref()
            .filter(|core| core.tasks.has_waker(waker))
            .map(|core| core.tasks.wake(waker.task()));
        here.is_some()
    });
    if !is_here {
        waker.wake_from_afar();
    }
}

#[cfg(test)]
mod tests;
