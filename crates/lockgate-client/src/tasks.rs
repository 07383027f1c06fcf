//! The tasks of a connection, polled beside its exchange: dropping the connection stops them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::Context;

use hyper::rt::Executor;

use crate::error::ClientError;
use crate::limits::ExchangeLimits;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The unfinished tasks of one connection, which has these limits.
pub(crate) struct Tasks {
    unfinished: Rc<RefCell<Vec<Task>>>,
    pub(crate) limits: ExchangeLimits,
}

/// The way to add a task. Tasks hold it too: if it owned them, they would never be dropped.
#[derive(Clone)]
pub(crate) struct TaskSpawner(Weak<RefCell<Vec<Task>>>);

impl<F: Future + 'static> Executor<F> for TaskSpawner {
    fn execute(&self, task: F) {
        // A task that fails tells the exchange by itself.
        let task = Box::pin(async { drop(task.await) });
        if let Some(unfinished) = self.0.upgrade() {
            unfinished.borrow_mut().push(task);
        }
    }
}

impl Tasks {
    pub(crate) fn new(limits: ExchangeLimits) -> Self {
        let unfinished = Rc::default();
        Self { unfinished, limits }
    }

    pub(crate) fn spawner(&self) -> TaskSpawner {
        TaskSpawner(Rc::downgrade(&self.unfinished))
    }

    /// The output of `work`, in time, with the tasks polled beside it.
    pub(crate) async fn drive<T>(
        &self,
        work: impl Future<Output = hyper::Result<T>>,
    ) -> Result<T, ClientError> {
        let mut work = pin!(work);
        let driven = poll_fn(|cx| {
            self.poll(cx);
            work.as_mut().poll(cx).map_err(ClientError::from)
        });
        self.limits.bound(driven).await
    }

    fn poll(&self, cx: &mut Context<'_>) {
        let mut tasks = self.unfinished.take();
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        let mut unfinished = self.unfinished.borrow_mut();
        if !unfinished.is_empty() {
            // Those that a task has added have their first turn soon.
            cx.waker().wake_by_ref();
        }
        unfinished.append(&mut tasks);
    }
}
