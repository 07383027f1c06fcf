//! The tasks of one thread, and the wakers that other threads may use.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::prefetch::{NotedMemory, prefetch};
use super::slots::{SlotKey, Slots};

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The future that the thread runs until it completes has no slot.
const MAIN: SlotKey = SlotKey::NONE;

/// All tasks of one thread.
pub(super) struct Tasks {
    slots: RefCell<Slots<Task>>,
    /// Those that are to be polled, in the order in which they were woken.
    woken: RefCell<VecDeque<SlotKey>>,
    main_is_woken: Cell<bool>,
    /// What the running task has noted so far.
    noted: Cell<NotedMemory>,
    wakes: Arc<RemoteWakes>,
}

struct Task {
    is_woken: bool,
    /// What its last poll has noted.
    memory: NotedMemory,
    /// None while the task is polled.
    idle: Option<(TaskFuture, Waker)>,
}

impl Task {
    fn prefetch(&self) {
        if let Some((future, _)) = &self.idle {
            prefetch(&**future);
        }
        self.memory.prefetch();
    }
}

/// A task that was taken from its slot to be polled.
pub(super) struct RunningTask {
    key: SlotKey,
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
            slots: RefCell::default(),
            woken: RefCell::default(),
            main_is_woken: Cell::default(),
            noted: Cell::default(),
            wakes,
        }
    }

    /// Adds a task, which is woken.
    pub(super) fn add(&self, future: TaskFuture) {
        let key = self.slots.borrow_mut().insert(|key| Task {
            is_woken: true,
            memory: NotedMemory::default(),
            idle: Some((future, Waker::from(self.waker(key)))),
        });
        self.woken.borrow_mut().push_back(key);
    }

    fn waker(&self, task: SlotKey) -> Arc<TaskWaker> {
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

    /// Has a task polled, unless it has ended.
    pub(super) fn wake(&self, task: SlotKey) {
        if task == MAIN {
            return self.wake_main();
        }
        if let Some(slot) = self.slots.borrow_mut().get_mut(task)
            && !std::mem::replace(&mut slot.is_woken, true)
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

    /// Takes the next task that is to be polled. The memory of the one after it is fetched meanwhile.
    pub(super) fn next(&self) -> Option<RunningTask> {
        let mut slots = self.slots.borrow_mut();
        self.noted.take();
        loop {
            let mut woken = self.woken.borrow_mut();
            let key = woken.pop_front()?;
            if let Some(task) = woken.front().and_then(|key| slots.get_mut(*key)) {
                task.prefetch();
            }
            drop(woken);
            // One that has woken itself in its last poll is gone.
            if let Some(task) = slots.get_mut(key)
                && let Some((future, waker)) = task.idle.take()
            {
                // What wakes it from here on, while it is polled too, has it polled again.
                task.is_woken = false;
                return Some(RunningTask { key, future, waker });
            }
        }
    }

    /// Changes what the running task has noted.
    pub(super) fn note(&self, change: impl FnOnce(&mut NotedMemory)) {
        let mut noted = self.noted.get();
        change(&mut noted);
        self.noted.set(noted);
    }

    pub(super) fn put_back(&self, running: RunningTask) {
        let RunningTask { key, future, waker } = running;
        if let Some(task) = self.slots.borrow_mut().get_mut(key) {
            task.memory = self.noted.get();
            task.idle = Some((future, waker));
        }
    }

    /// Frees the slot of a task that has ended.
    pub(super) fn end(&self, running: RunningTask) {
        self.slots.borrow_mut().remove(running.key);
        // What the task owns may wake others, or spawn them.
        drop(running);
    }

    /// Drops all tasks, also those that others spawn as they are dropped.
    pub(super) fn clear(&self) {
        let mut from = 0;
        loop {
            let first = self.slots.borrow().first(from);
            match first {
                Some((key, next)) => {
                    from = next;
                    let task = self.slots.borrow_mut().remove(key);
                    drop(task);
                }
                None if from == 0 => return,
                // Tasks that were spawned meanwhile may be in earlier places.
                None => from = 0,
            }
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("count", &self.slots.borrow().len())
            .field("woken", &self.woken.borrow().len())
            .finish_non_exhaustive()
    }
}

/// Tasks that other threads have woken.
#[derive(Debug)]
pub(super) struct RemoteWakes {
    woken: Mutex<Vec<SlotKey>>,
    /// An eventfd(2) that ends the reactor's wait.
    alarm: OwnedFd,
}

impl RemoteWakes {
    pub(super) fn new(alarm: OwnedFd) -> Self {
        let woken = Mutex::default();
        Self { woken, alarm }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SlotKey>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes one task.
#[derive(Debug)]
pub(super) struct TaskWaker {
    task: SlotKey,
    wakes: Arc<RemoteWakes>,
}

impl TaskWaker {
    pub(super) fn task(&self) -> SlotKey {
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
