//! The turns of changes of endpoints: which of them exclude each other, and how many may wait.

use hyper::StatusCode;
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use super::error::AdminError;

/// The most adds and removes at once: one is made, the others wait for it. They must leave
/// connections of the admin socket to other requests.
const AT_ONCE: usize = 9;

/// The turns of a process.
pub(super) struct ChangeTurns {
    /// One permit for each add or remove that may be made, or wait for that.
    places: Semaphore,
    /// Held while a pool gets an endpoint or loses one: each is a reload, on top of the one before.
    pools: Mutex<()>,
    /// Held while an endpoint is taken out of its pool, or removed: whether it is the last one depends
    /// on the ones before. An add needs no exclusion from that, since it only makes a pool larger; it
    /// may wait for a name server, and a drain must not.
    taking_out: Mutex<()>,
}

impl Default for ChangeTurns {
    fn default() -> Self {
        Self {
            places: Semaphore::new(AT_ONCE),
            pools: Mutex::default(),
            taking_out: Mutex::default(),
        }
    }
}

/// The turn to change the endpoints of pools, which lasts until it is dropped.
pub(super) struct PoolTurn<'t> {
    _turn: MutexGuard<'t, ()>,
    _place: SemaphorePermit<'t>,
}

impl ChangeTurns {
    /// Waits for the turn to add an endpoint or to remove one.
    ///
    /// # Errors
    /// When as many wait as may.
    pub(super) async fn of_pools(&self) -> Result<PoolTurn<'_>, AdminError> {
        let place = self.places.try_acquire().map_err(|_| {
            AdminError::new(
                StatusCode::CONFLICT,
                "too_many_changes",
                format!("{AT_ONCE} endpoints are being added and removed already"),
                "try again once one of these changes has ended",
            )
        })?;
        Ok(PoolTurn {
            _turn: self.pools.lock().await,
            _place: place,
        })
    }

    /// Waits for the turn to take an endpoint out, which lasts until it is dropped. A remove has the
    /// turn of pools before, so that this one is never held by a wait for others.
    pub(super) async fn to_take_out(&self) -> MutexGuard<'_, ()> {
        self.taking_out.lock().await
    }
}
