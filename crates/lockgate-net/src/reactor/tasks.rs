//! The tasks of one thread, and the wakers that other threads may use.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A task of a thread. Places are used again: a waker that outlives its task has an earlier use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskId {
    place: u32,
    use_count: u32,
}

/// The future that the thread runs until it completes.
const MAIN: TaskId = TaskId {
    place: u32::MAX,
    use_count: 0,
};

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// All tasks of one thread.
pub(super) struct Tasks {
    places: RefCell<Places>,
    /// Those that are to be polled, in the order in which they were woken.
    woken: RefCell<VecDeque<TaskId>>,
    main_is_woken: Cell<bool>,
    wakes: Arc<RemoteWakes>,
}

#[derive(Default)]
struct Places {
    all: Vec<Place>,
    /// Places without a task.
    free: Vec<u32>,
}

#[derive(Default)]
struct Place {
    use_count: u32,
    is_woken: bool,
    /// None while the task is polled.
    task: Option<(TaskFuture, Waker)>,
}

/// A task that was taken from its place to be polled.
pub(super) struct RunningTask {
    id: TaskId,
    future: TaskFuture,
    waker: Waker,
}

impl RunningTask {
    pub(super) fn poll(&mut self) -> Poll<()> {
        self.future
            .as_mut()
            .poll(&mut Context::from_waker(&self.waker))
    }
}

impl Tasks {
    pub(super) fn new(wakes: Arc<RemoteWakes>) -> Self {
        Self {
            places: RefCell::default(),
            woken: RefCell::default(),
            main_is_woken: Cell::default(),
            wakes,
        }
    }

    /// Adds a task, which is woken.
    pub(super) fn add(&self, future: TaskFuture) {
        let mut places = self.places.borrow_mut();
        let place = places.free.pop().unwrap_or_else(|| {
            places.all.push(Place::default());
            u32::try_from(places.all.len() - 1)
                .ok()
                .filter(|place| *place < MAIN.place)
                .expect("memory has room for fewer than four billion tasks")
        });
        let free = &mut places.all[place as usize];
        let id = TaskId {
            place,
            use_count: free.use_count,
        };
        free.is_woken = true;
        free.task = Some((future, Waker::from(self.waker(id))));
        self.woken.borrow_mut().push_back(id);
    }

    fn waker(&self, task: TaskId) -> Arc<TaskWaker> {
        Arc::new(TaskWaker {
            task,
            wakes: Arc::clone(&self.wakes),
        })
    }

    /// The waker of the future that the thread runs.
    pub(super) fn main(&self) -> Arc<TaskWaker> {
        self.waker(MAIN)
    }

    pub(super) fn wake_main(&self) {
        self.main_is_woken.set(true);
    }

    /// Whether the thread's future was woken since the last call.
    pub(super) fn take_main(&self) -> bool {
        self.main_is_woken.take()
    }

    /// Whether something is to be polled.
    pub(super) fn are_woken(&self) -> bool {
        self.main_is_woken.get() || !self.woken.borrow().is_empty()
    }

    /// Has a task polled, if there still is one.
    pub(super) fn wake(&self, task: TaskId) {
        if task == MAIN {
            return self.wake_main();
        }
        let mut places = self.places.borrow_mut();
        let place = places.all.get_mut(task.place as usize);
        if let Some(place) = place.filter(|place| place.use_count == task.use_count)
            && !std::mem::replace(&mut place.is_woken, true)
        {
            self.woken.borrow_mut().push_back(task);
        }
    }

    /// Has those polled that other threads have woken.
    pub(super) fn take_remote(&self) {
        // Not locked while they are woken.
        let woken = std::mem::take(&mut *self.wakes.lock());
        woken.into_iter().for_each(|task| self.wake(task));
    }

    pub(super) fn has_waker(&self, waker: &TaskWaker) -> bool {
        Arc::ptr_eq(&self.wakes, &waker.wakes)
    }

    /// Takes the next task that is to be polled.
    pub(super) fn next(&self) -> Option<RunningTask> {
        let id = self.woken.borrow_mut().pop_front()?;
        let mut places = self.places.borrow_mut();
        let place = &mut places.all[id.place as usize];
        // What wakes it from here on, while it is polled too, has it polled again.
        place.is_woken = false;
        let (future, waker) = place.task.take().expect("a woken task has not ended");
        Some(RunningTask { id, future, waker })
    }

    pub(super) fn put_back(&self, running: RunningTask) {
        let RunningTask { id, future, waker } = running;
        self.places.borrow_mut().all[id.place as usize].task = Some((future, waker));
    }

    /// Frees the place of a task that has ended.
    pub(super) fn end(&self, running: RunningTask) {
        let place = running.id.place;
        // What the task owns may wake others.
        drop(running);
        self.free(place);
    }

    fn free(&self, index: u32) {
        let mut places = self.places.borrow_mut();
        let place = &mut places.all[index as usize];
        place.use_count = place.use_count.wrapping_add(1);
        // It may have woken itself in its last poll.
        if std::mem::take(&mut place.is_woken) {
            self.woken.borrow_mut().retain(|task| task.place != index);
        }
        places.free.push(index);
    }

    /// Drops all tasks, also those that others spawn as they are dropped.
    pub(super) fn clear(&self) {
        let mut index = 0;
        while let Some(task) = {
            let mut places = self.places.borrow_mut();
            places.all.get_mut(index).map(|place| place.task.take())
        } {
            match task {
                Some(task) => {
                    drop(task);
                    // Others may be spawned in this place.
                    self.free(index as u32);
                    index = 0;
                }
                None => index += 1,
            }
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (places, woken) = (self.places.borrow(), self.woken.borrow());
        f.debug_struct("Tasks")
            .field("count", &(places.all.len() - places.free.len()))
            .field("woken", &woken.len())
            .finish_non_exhaustive()
    }
}

/// Tasks that other threads have woken.
#[derive(Debug)]
pub(super) struct RemoteWakes {
    woken: Mutex<Vec<TaskId>>,
    /// An eventfd(2) that ends the reactor's wait.
    alarm: OwnedFd,
}

impl RemoteWakes {
    pub(super) fn new(alarm: OwnedFd) -> Self {
        let woken = Mutex::default();
        Self { woken, alarm }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TaskId>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes one task.
#[derive(Debug)]
pub(super) struct TaskWaker {
    task: TaskId,
    wakes: Arc<RemoteWakes>,
}

impl TaskWaker {
    pub(super) fn task(&self) -> TaskId {
        self.task
    }

    /// Wakes the task from another thread than its own.
    pub(super) fn wake_from_afar(&self) {
        let is_first = {
            let mut woken = self.wakes.lock();
            woken.push(self.task);
            woken.len() == 1
        };
        if is_first {
            // The counter has room for as many as there can be: the call does not fail.
            let _ = rustix::io::write(&self.wakes.alarm, &1_u64.to_ne_bytes());
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        super::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        super::wake(self);
    }
}
