//! The `max` of an endpoint, which may come, change and go while requests are in flight.
//!
//! Does not count requests: the endpoint does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_limits::ProcessLimit;

/// The limit of requests and relays at an endpoint at once, if it has one.
#[derive(Debug)]
pub(super) struct EndpointLimit {
    /// [`NO_MAX`] without one.
    max: AtomicUsize,
    /// Made with the first `max`, and kept: permits of an earlier `max` count under a later one.
    permits: OnceLock<ProcessLimit>,
}

const NO_MAX: usize = usize::MAX;

impl EndpointLimit {
    /// Allows `max` at once.
    pub(super) fn new(max: Option<usize>) -> Self {
        let limit = Self {
            max: AtomicUsize::new(NO_MAX),
            permits: OnceLock::new(),
        };
        limit.set(max, || 0);
        limit
    }

    /// The permits; none without a `max`.
    pub(super) fn permits(&self) -> Option<&ProcessLimit> {
        if self.is_set() {
            self.permits.get()
        } else {
            None
        }
    }

    /// Whether there is a `max`.
    pub(super) fn is_set(&self) -> bool {
        self.max.load(Ordering::SeqCst) != NO_MAX
    }

    /// Allows `max` at once from now on, of which the requests that are `without_permit` use a
    /// part. Without a `max` the waits for a permit end.
    pub(super) fn set(&self, max: Option<usize>, without_permit: impl Fn() -> usize) {
        if let Some(max) = max {
            // No request may find a limit without permits.
            let permits = self.permits.get_or_init(|| ProcessLimit::new(0));
            permits.resize(max.saturating_sub(without_permit()));
        }
        let max = max.map_or(NO_MAX, |max| max.min(NO_MAX - 1));
        self.max.store(max, Ordering::SeqCst);
        // Until then requests began without a permit.
        self.settle(without_permit);
    }

    /// Leaves the permits that the requests `without_permit` do not use. To be called when one of
    /// these has ended.
    #[cold]
    pub(super) fn settle(&self, without_permit: impl Fn() -> usize) {
        let Some(permits) = self.permits.get() else {
            return;
        };
        let size = || match self.max.load(Ordering::SeqCst) {
            NO_MAX => usize::MAX,
            max => max.saturating_sub(without_permit()),
        };
        loop {
            let now = size();
            permits.resize(now);
            // Another thread may have counted later, and resized them earlier.
            if size() == now {
                return;
            }
        }
    }
}
