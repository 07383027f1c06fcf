//! A few threads for long work that must not block a worker: waiting for a disk, compressing a
//! file.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;

use crate::threads;

/// The most waiting jobs; continuations are not counted.
const WAITING: usize = 1024;

type PoolJob = Box<dyn FnOnce() + Send>;

/// A pool of threads; they start with the first job, and end with this value.
pub struct ThreadPool {
    name: &'static str,
    count: NonZeroUsize,
    jobs: OnceLock<Option<Sender<PoolJob>>>,
    waiting: Arc<AtomicUsize>,
}

/// No thread is available: too many jobs wait, or no thread could be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many tasks wait for a thread")]
pub struct Busy;

impl ThreadPool {
    /// A pool of `count` threads, called `name` and a number.
    pub fn new(name: &'static str, count: NonZeroUsize) -> Arc<Self> {
        Arc::new(Self {
            name,
            count,
            jobs: OnceLock::new(),
            waiting: Arc::default(),
        })
    }

    /// Queues `job`; its result comes through the channel. A job without a receiver is skipped.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Busy> {
        if self.waiting.load(Ordering::Relaxed) >= WAITING {
            Err(Busy)
        } else {
            self.submit_continuation(job)
        }
    }

    /// The same for the continuation of a job, which is never refused: the caller ensures that each
    /// task has one job at a time.
    ///
    /// # Errors
    /// When there are no threads.
    pub fn submit_continuation<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Busy> {
        let (answer, answered) = oneshot::channel();
        let waiting = Arc::clone(&self.waiting);
        let job: PoolJob = Box::new(move || {
            waiting.fetch_sub(1, Ordering::Relaxed);
            if !answer.is_closed() {
                // The caller may be gone.
                let _ = answer.send(job());
            }
        });
        let jobs = self
            .jobs
            .get_or_init(|| self.start())
            .as_ref()
            .ok_or(Busy)?;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        jobs.send(job).map_err(|_| Busy)?;
        Ok(answered)
    }

    fn start(&self) -> Option<Sender<PoolJob>> {
        let (jobs, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let start = |number: usize| {
            let waiting = Arc::clone(&waiting);
            threads::start(format!("{}-{number}", self.name), move || work(&waiting))
        };
        let started = (0..self.count.get())
            .filter(|number| start(*number).is_ok())
            .count();
        (started > 0).then_some(jobs)
    }
}

fn work(jobs: &Mutex<Receiver<PoolJob>>) {
    loop {
        // Unlocked before the job runs, so that other threads get the next one.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("name", &self.name)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_beyond_the_queue_bound_are_refused() {
        let threads = ThreadPool::new("test", NonZeroUsize::MIN);
        let (go, wait) = mpsc::channel::<()>();
        let (begun, began) = mpsc::channel();
        let first = threads
            .submit(move || {
                begun.send(()).unwrap();
                wait.recv().unwrap();
                1
            })
            .unwrap();
        began.recv().unwrap();
        let mut others: Vec<_> = (0..WAITING)
            .map(|number| threads.submit(move || number).unwrap())
            .collect();
        let busy = threads.submit(|| ()).unwrap_err();
        assert_eq!(
            busy.to_string(),
            "too many tasks wait for a thread",
            "whatever it would do"
        );
        others.push(threads.submit_continuation(|| WAITING).unwrap());
        go.send(()).unwrap();
        assert_eq!(first.blocking_recv(), Ok(1));
        assert_eq!(others.pop().unwrap().blocking_recv(), Ok(WAITING));
    }
}
