//! What wakes a worker between its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// What wakes one worker between its events, also from other threads.
#[derive(Debug, Default)]
pub struct Ticker {
    notify: Notify,
    /// Whether a tick was asked for, and not only a look at what is wanted.
    due: AtomicBool,
}

impl Ticker {
    /// A ticker that has asked for nothing yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Has the worker tick at once: something has changed.
    pub fn nudge(&self) {
        self.due.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Wakes the worker without a tick: to close idle sockets that another worker needs, or to set
    /// its alarm anew.
    pub fn ask(&self) {
        self.notify.notify_one();
    }

    /// Completes when the worker is nudged or asked.
    pub async fn next(&self) {
        self.notify.notified().await;
    }

    /// Whether the worker was nudged since the last call.
    pub fn take_tick(&self) -> bool {
        self.due.swap(false, Ordering::Acquire)
    }
}
