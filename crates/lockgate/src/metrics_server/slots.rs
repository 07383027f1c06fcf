//! The connections of the metrics address: a bounded number, where none keeps a place that it does
//! not use.
//!
//! Does not serve them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// What a connection may have to send its head, before it can be closed for another: what has come
/// is read by then.
const LEAST: Duration = Duration::from_millis(100);

/// The places and the connections that have them.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    /// Oldest first.
    taken: VecDeque<OpenConnection>,
}

struct OpenConnection {
    since: Instant,
    asked: HeadReceived,
    task: JoinHandle<()>,
}

/// Whether the head of a connection's request has come.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadReceived(Arc<AtomicBool>);

impl HeadReceived {
    /// It has.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl ConnectionSlots {
    pub(super) fn new(count: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            taken: VecDeque::new(),
        }
    }

    /// A place for a connection that has come. Where all are taken, the connection that has waited
    /// longest for its head is closed; where all have asked, the oldest.
    pub(super) async fn take(&mut self) -> OwnedSemaphorePermit {
        loop {
            self.taken.retain(|taken| !taken.task.is_finished());
            let longest = self
                .taken
                .iter()
                .position(|taken| !taken.asked.is_set())
                .unwrap_or(0);
            let age = self
                .taken
                .get(longest)
                .map_or(Duration::ZERO, |taken| taken.since.elapsed());
            let place = Arc::clone(&self.free).acquire_owned();
            match timeout(LEAST.saturating_sub(age), place).await {
                Ok(Ok(place)) => return place,
                // A semaphore that nobody closes.
                Ok(Err(_)) => {}
                Err(_) => {
                    if let Some(taken) = self.taken.remove(longest) {
                        taken.task.abort();
                        // It gives its place back as it is dropped.
                        let _ = taken.task.await;
                    }
                }
            }
        }
    }

    /// Remembers whose task has a place.
    pub(super) fn fill(&mut self, asked: HeadReceived, task: JoinHandle<()>) {
        self.taken.push_back(OpenConnection {
            since: Instant::now(),
            asked,
            task,
        });
    }
}
