//! What a configuration that runs means for the next start: it is kept as the last good one, once
//! it is confirmed where it has to be. Without that the configuration before is taken over again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::RunningServer;
use crate::admin::KeptChanges;
use crate::state;

/// The time between two attempts to take over the configuration before one that was not confirmed.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A configuration that is to be confirmed.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    /// When the one before is taken over again.
    until: Instant,
}

impl Unconfirmed {
    pub(super) fn from_now(within: Duration) -> Self {
        Self {
            until: Instant::now() + within,
        }
    }

    /// When the one before is taken over again.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether the one before is to be taken over again. Should that fail, it is tried again.
    pub(super) fn is_late(&mut self) -> bool {
        let now = Instant::now();
        let is_late = self.until <= now;
        if is_late {
            self.until = now + TRIED_AGAIN_AFTER;
        }
        is_late
    }
}

impl RunningServer {
    /// Keeps the configuration that runs, in a thread: the disk may take its time.
    pub(super) fn keep_last_good(&self) {
        let Some(dir) = self.state.clone() else {
            return;
        };
        let loaded = Arc::clone(&self.loaded);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = state::keep_last_good(&dir, &loaded.merged_toml()) {
                tracing::warn!(%error, "the last good configuration could not be kept");
            }
        });
    }

    /// Takes the changes that have ended with the configuration out of the file of kept ones.
    pub(super) fn forget_ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let file = self.kept.clone().filter(|_| !self.ended.is_empty());
        let (ended, exposition) = (self.ended.clone(), Arc::clone(&self.exposition));
        async move {
            let Some(file) = file else { return };
            let forget = move |kept: &mut KeptChanges| {
                kept.forget(&ended, exposition.load().changes());
            };
            if let Err(error) = file.change(forget).await {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the kept run-time changes still have those that have ended"
                );
            }
        }
    }
}
