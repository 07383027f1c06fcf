//! Tasks beside the workers, which end with their owner, and a thread for those that may wait long.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use lockgate_net::threads;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

/// A task that runs; dropping this ends it.
pub(crate) struct OwnedTask {
    _end: oneshot::Sender<()>,
}

impl OwnedTask {
    /// Runs a task on the runtime of the caller.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        let (end, ended) = oneshot::channel();
        tokio::spawn(until_dropped(task, ended));
        Self { _end: end }
    }
}

/// Runs `task` until it ends, or its owner is gone.
async fn until_dropped(task: impl Future<Output = ()>, mut owner: oneshot::Receiver<()>) {
    let mut task = pin!(task);
    poll_fn(|cx| match Pin::new(&mut owner).poll(cx) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => task.as_mut().poll(cx),
    })
    .await;
}

type BeginTask = Box<dyn FnOnce() + Send>;

/// A thread with a runtime; dropping this ends it and its tasks, without waiting for it.
pub(crate) struct Background {
    begun: mpsc::UnboundedSender<BeginTask>,
}

impl Background {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    fn start(name: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (begun, mut beginning) = mpsc::unbounded_channel::<BeginTask>();
        threads::start(name, move || {
            // Unfinished tasks are dropped with the set.
            LocalSet::new().block_on(&runtime, async {
                while let Some(begin) = beginning.recv().await {
                    begin();
                }
            });
        })?;
        Ok(Self { begun })
    }

    /// The thread for this number of tasks: the running one, or a new one of this name where there
    /// is none. None where there is no task.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    pub(crate) fn continued(
        running: Option<&Arc<Self>>,
        tasks: usize,
        name: &str,
    ) -> io::Result<Option<Arc<Self>>> {
        match (tasks, running) {
            (0, _) => Ok(None),
            (_, Some(running)) => Ok(Some(Arc::clone(running))),
            (_, None) => Self::start(name).map(|thread| Some(Arc::new(thread))),
        }
    }

    /// Runs the task that `make` makes in the thread.
    pub(crate) fn spawn<F>(&self, make: impl FnOnce() -> F + Send + 'static) -> OwnedTask
    where
        F: Future<Output = ()> + 'static,
    {
        let (end, ended) = oneshot::channel();
        let begin = move || drop(spawn_local(until_dropped(make(), ended)));
        // The thread ends only after this sender.
        let _ = self.begun.send(Box::new(begin));
        OwnedTask { _end: end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that never ends; the receiver reports when it is dropped.
    async fn endless(started: mpsc::UnboundedSender<()>) {
        let _ = started.send(());
        std::future::pending::<()>().await;
        drop(started);
    }

    #[test]
    fn a_task_ends_when_its_owner_drops_it() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (started, mut seen) = mpsc::unbounded_channel();
            let task = OwnedTask::spawn(endless(started));
            assert_eq!(seen.recv().await, Some(()));
            drop(task);
            assert_eq!(seen.recv().await, None);
        });
    }

    #[test]
    fn one_task_of_a_thread_ends_without_the_others() {
        let thread = Background::start("test").unwrap();
        let (first, mut of_first) = mpsc::unbounded_channel();
        let (second, mut of_second) = mpsc::unbounded_channel();
        let one = thread.spawn(move || endless(first));
        let _other = thread.spawn(move || endless(second));
        assert_eq!(of_first.blocking_recv(), Some(()));
        assert_eq!(of_second.blocking_recv(), Some(()));
        drop(one);
        assert_eq!(of_first.blocking_recv(), None);
        assert!(
            of_second
                .try_recv()
                .is_err_and(|error| error == mpsc::error::TryRecvError::Empty)
        );
        drop(thread);
        assert_eq!(of_second.blocking_recv(), None);
    }
}
