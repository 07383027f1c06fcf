//! The connections of one address: a bounded number, where a silent connection gives way to a new
//! one.
//!
//! Does not serve them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// The time that a connection has for its head before it may be closed for another: bytes that have
/// arrived are read by then.
const LEAST: Duration = Duration::from_millis(100);

/// The slots and the connections that have them.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    /// The oldest first.
    taken: VecDeque<OpenConnection>,
}

struct OpenConnection {
    since: Instant,
    head_received: HeadReceived,
    task: JoinHandle<()>,
}

/// Whether the head of a connection's request has come, and the response is not finished.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeadReceived(Arc<AtomicBool>);

impl HeadReceived {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Waits for the next head: the connection is silent again.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
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

    /// A slot for a new connection. Where all are taken, the connection that has waited longest for
    /// its head is closed; where all heads have arrived, the oldest.
    pub(super) async fn take(&mut self) -> OwnedSemaphorePermit {
        loop {
            self.taken.retain(|taken| !taken.task.is_finished());
            let longest = self
                .taken
                .iter()
                .position(|taken| !taken.head_received.is_set())
                .unwrap_or(0);
            let age = self
                .taken
                .get(longest)
                .map_or(Duration::ZERO, |taken| taken.since.elapsed());
            let slot = Arc::clone(&self.free).acquire_owned();
            match timeout(LEAST.saturating_sub(age), slot).await {
                Ok(Ok(slot)) => return slot,
                // The semaphore is never closed.
                Ok(Err(_)) => {}
                Err(_) => {
                    if let Some(taken) = self.taken.remove(longest) {
                        taken.task.abort();
                        // Its slot is free once the task is dropped.
                        let _ = taken.task.await;
                    }
                }
            }
        }
    }

    /// Remembers the connection that has the slot.
    pub(super) fn occupy(&mut self, head_received: HeadReceived, task: JoinHandle<()>) {
        self.taken.push_back(OpenConnection {
            since: Instant::now(),
            head_received,
            task,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_waits_longest_for_its_head_gives_way() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut slots = ConnectionSlots::new(2);
            let (told, mut closed) = tokio::sync::mpsc::unbounded_channel();
            struct Open(u8, tokio::sync::mpsc::UnboundedSender<u8>);
            impl Drop for Open {
                fn drop(&mut self) {
                    let _ = self.1.send(self.0);
                }
            }
            // The first has sent its head, the others have not.
            for number in 1..=4 {
                let slot = slots.take().await;
                let (head_received, open) = (HeadReceived::default(), Open(number, told.clone()));
                if number == 1 {
                    head_received.set();
                }
                let task = tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop((open, slot));
                });
                slots.occupy(head_received, task);
            }
            assert_eq!(
                (closed.recv().await, closed.recv().await),
                (Some(2), Some(3))
            );
        });
    }
}
