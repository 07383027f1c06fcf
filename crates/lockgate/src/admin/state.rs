//! What the resources of the admin socket read: the figures of the process, and its listeners.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::exposition::Exposition;
use crate::metrics_server::Readiness;
use crate::views::RecentCounts;

use super::command::CommandSender;
use super::error::AdminError;
use super::kept_changes::KeptFile;
use super::peers::AllowedPeers;
use super::phase::AdminPhase;
use super::traces::LiveTraces;
use super::turns::ChangeTurns;
use super::usage_peaks::{LimitPeaks, STEP, UsagePeaks};

/// The sources of all resources.
pub(crate) struct AdminState {
    /// The figures of the generation that runs.
    exposition: Arc<ArcSwap<Exposition>>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) workers: usize,
    pub(super) commands: CommandSender,
    pub(super) peers: AllowedPeers,
    pub(super) recent: RecentCounts,
    /// The file of kept changes, with `state` at the start.
    pub(super) kept: Option<KeptFile>,
    /// The turns of changes of endpoints: one may depend on the one before.
    pub(super) turns: ChangeTurns,
    pub(super) recent_sites: RecentCounts,
    pub(super) traces: Arc<LiveTraces>,
    pub(super) phase: watch::Receiver<AdminPhase>,
    peaks: Mutex<UsagePeaks>,
}

impl AdminState {
    /// The state of a server with so many `workers`; then the way to the supervisor, the users that
    /// may use the socket, and how far it serves; `kept` is the file of kept changes.
    pub(crate) fn new(
        exposition: Arc<ArcSwap<Exposition>>,
        readiness: Arc<Readiness>,
        workers: usize,
        (commands, peers, phase): (CommandSender, AllowedPeers, watch::Receiver<AdminPhase>),
        kept: Option<KeptFile>,
    ) -> Self {
        Self {
            exposition,
            readiness,
            workers,
            commands,
            peers,
            recent: RecentCounts::default(),
            kept,
            turns: ChangeTurns::default(),
            recent_sites: RecentCounts::default(),
            traces: Arc::default(),
            phase,
            peaks: Mutex::default(),
        }
    }

    /// Refuses a request for which there is no place now.
    ///
    /// # Errors
    /// Its answer.
    pub(super) fn admit(&self, is_change: bool) -> Result<(), AdminError> {
        self.phase.borrow().admit(is_change)
    }

    /// Takes up what is in use of each limit, until the future is dropped.
    pub(super) async fn watch_usage(&self) {
        let mut ticks = interval(STEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = LimitPeaks::now(&self.exposition.load().limits());
            let peaks = self.peaks.lock();
            peaks.unwrap_or_else(PoisonError::into_inner).take(now);
        }
    }

    /// The peaks of the last hour, what is in use now included, and the span that they are of.
    pub(super) fn peaks(&self) -> (LimitPeaks, Duration) {
        let now = LimitPeaks::now(&self.exposition.load().limits());
        let peaks = self.peaks.lock();
        let (earlier, span) = peaks.unwrap_or_else(PoisonError::into_inner).peaks();
        (earlier.max(now), span)
    }

    /// A token for a request that is followed; none while there are too many.
    pub(super) fn begin_trace(&self) -> Option<String> {
        self.traces.begin(&self.exposition)
    }

    /// The figures of the generation that runs.
    pub(super) fn exposition(&self) -> Arc<Exposition> {
        self.exposition.load_full()
    }
}
