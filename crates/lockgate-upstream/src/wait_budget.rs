//! The time that a request or a relay may wait before it is sent, all its waits together: for its
//! client's share, a permit at an endpoint and a socket, in all attempts.

use std::cell::Cell;
use std::time::Duration;

use lockgate_limits::clock::{Cut, Guard, WaitReason};
use lockgate_net::millis::Millis;

/// The rest of `queue.wait`. Only time spent waiting counts.
#[derive(Debug)]
pub struct WaitBudget(Cell<Millis>);

impl WaitBudget {
    /// The whole budget.
    pub fn new(wait: Duration) -> Self {
        Self(Cell::new(wait.into()))
    }

    /// The rest of the budget.
    pub fn left(&self) -> Duration {
        self.0.get().into()
    }

    /// Waits for `future` in a phase of its own, within the rest of the budget.
    ///
    /// # Errors
    /// When it takes longer, or the connection was cut.
    pub async fn within<F: Future>(&self, guard: &Guard, future: F) -> Result<F::Output, Cut> {
        let began = guard.clock().now();
        guard.begin_phase(self.left());
        guard.watch().set_wait(WaitReason::ForPermit);
        let waited = guard.within(future).await;
        guard.watch().set_wait(WaitReason::Nothing);
        self.0.set(self.0.get() - (guard.clock().now() - began));
        waited
    }
}
