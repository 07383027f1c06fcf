//! The least rate at which a client has to send a body and to take one.

use std::cell::Cell;
use std::num::NonZeroU64;

use lockgate_net::millis::Millis;

/// The least that a client must move while it is waited for, in bytes a second, and for how long a
/// wait it may stay below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MinRate {
    /// Bytes a second of a body from the client; `None` is any.
    pub min_in: Option<NonZeroU64>,
    /// Bytes a second that the client takes; `None` is any.
    pub min_out: Option<NonZeroU64>,
    /// The time of waiting below the minimum.
    pub grace: Millis,
}

/// The time that one direction was waited for, and the byte count where that began.
#[derive(Debug, Default)]
pub(super) struct WaitTime {
    waited: Cell<Millis>,
    from: Cell<u64>,
}

impl WaitTime {
    /// Adds `more` to the time waited; whether after a wait of `grace` fewer than `least` bytes a
    /// second have moved.
    pub(super) fn is_slow(
        &self,
        more: Millis,
        moved: u64,
        least: Option<NonZeroU64>,
        grace: Millis,
    ) -> bool {
        let Some(least) = least else { return false };
        let waited = self.waited.get() + more;
        self.waited.set(waited);
        if waited < grace {
            return false;
        }
        let slow = moved.saturating_sub(self.from.get()).saturating_mul(1_000)
            < least.get().saturating_mul(waited.as_u64());
        self.restart(moved);
        slow
    }

    pub(super) fn restart(&self, moved: u64) {
        self.waited.set(Millis::ZERO);
        self.from.set(moved);
    }
}
