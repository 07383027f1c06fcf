//! Counts of a stage, summed over all threads as they arrive.

use std::collections::VecDeque;
use std::time::Duration;

use crate::result::{Second, StageCounts};
use crate::worker::ThreadTime;

/// Counts of a stage so far.
#[derive(Default)]
pub(super) struct StageSum {
    /// Counts of the whole stage so far.
    pub(super) counts: StageCounts,
    /// Seconds that all threads have reported.
    pub(super) seconds: Vec<Second>,
    /// Seconds after them: their counts, and how many threads have reported each.
    open: VecDeque<(StageCounts, usize)>,
    /// Time of the busiest thread.
    pub(super) busiest: ThreadTime,
    /// The longest time that a thread was ready and had no CPU.
    pub(super) waited: Duration,
}

impl StageSum {
    /// Adds the counts of a thread for the second with the index `second`.
    pub(super) fn add(&mut self, second: usize, counts: &StageCounts) {
        self.counts.add(counts);
        // A thread that had nothing to report for a while may come late.
        let index = second.saturating_sub(self.seconds.len());
        while self.open.len() <= index {
            self.open.push_back((StageCounts::new(), 0));
        }
        let (sum, reported) = &mut self.open[index];
        sum.add(counts);
        *reported += 1;
    }

    /// Adds the time of a thread at the end of its share of the stage.
    pub(super) fn add_thread(&mut self, busy: ThreadTime) {
        if busy.ran + busy.waited > self.busiest.ran + self.busiest.waited {
            self.busiest = busy;
        }
        self.waited = self.waited.max(busy.waited);
    }

    /// Whether the first open second has passed and is complete: every thread has reported it, or
    /// one has reported a later second, where another had nothing to report.
    pub(super) fn is_second_complete(&self, threads: usize, elapsed: Duration) -> bool {
        let passed = elapsed >= Duration::from_secs(self.seconds.len() as u64 + 1);
        let first = self.open.front();
        first.is_some_and(|(_, reported)| *reported >= threads && passed) || self.open.len() > 1
    }

    /// Sums up the first open second: a histogram is a megabyte, and a run may take days.
    pub(super) fn close_second(&mut self) -> Second {
        let (counts, _) = self.open.pop_front().unwrap_or_default();
        let second = Second {
            succeeded: counts.succeeded(),
            failed: counts.failed(),
            received: counts.received,
            p50: counts.latency.value_at_quantile(0.5),
            p99: counts.latency.value_at_quantile(0.99),
            max: counts.latency.max(),
        };
        self.seconds.push(second);
        second
    }

    /// Sums up all open seconds at the end of the stage.
    pub(super) fn close(&mut self) {
        while !self.open.is_empty() {
            self.close_second();
        }
    }
}
