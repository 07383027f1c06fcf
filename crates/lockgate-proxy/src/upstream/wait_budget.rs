//! How long a request or a relay waits before it is sent, all its waits together: for its client's
//! share, a place at an endpoint and one for a socket, at each endpoint that is tried.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::{Cut, Guard, WaitReason, millis};

/// What is left of `queue.wait`, in milliseconds. Time in which nothing is waited for does not
/// count.
#[derive(Debug)]
pub struct WaitBudget(Cell<u64>);

impl WaitBudget {
    /// All of it.
    pub fn new(wait: Duration) -> Self {
        Self(Cell::new(millis(wait)))
    }

    /// How long it may still wait.
    pub fn left(&self) -> Duration {
        Duration::from_millis(self.0.get())
    }

    /// Waits for `future` in a phase of its own, as long as is left.
    ///
    /// # Errors
    /// When it takes longer, or the connection was cut.
    pub async fn within<F: Future>(&self, guard: &Guard, future: F) -> Result<F::Output, Cut> {
        let began = guard.clock().now();
        guard.phase(self.left());
        guard.watch().set_wait(WaitReason::ForPlace);
        let waited = guard.within(future).await;
        guard.watch().set_wait(WaitReason::Otherwise);
        self.0
            .set(self.0.get().saturating_sub(guard.clock().now() - began));
        waited
    }
}
