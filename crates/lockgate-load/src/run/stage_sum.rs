//! Counts of a stage, summed over all threads as they arrive.

use std::collections::VecDeque;
use std::time::Duration;

use crate::result::{Second, StageCounts, TargetCounts};
use crate::worker::ThreadTime;

/// A whole second.
const SECOND: Duration = Duration::from_secs(1);
/// A last second that is shorter than this and empty is only the time until the threads stopped.
const SHORT: Duration = Duration::from_millis(100);

/// Counts of a stage so far.
#[derive(Default)]
pub(super) struct StageSum {
    /// Counts of the whole stage so far.
    pub(super) counts: StageCounts,
    /// Seconds that all threads have reported.
    pub(super) seconds: Vec<Second>,
    /// Seconds after them: their counts, and how many threads have reported each.
    open: VecDeque<(StageCounts, usize)>,
    /// Time of the stage, where time ends it: later counts are in no second.
    time: Option<Duration>,
    /// Counts of each target, where there are several.
    pub(super) targets: Vec<TargetCounts>,
    /// Time of the busiest thread.
    pub(super) busiest: ThreadTime,
    /// The longest time that a thread was ready and had no CPU.
    pub(super) waited: Duration,
}

impl StageSum {
    /// An empty sum of a stage that ends after `time`, if time ends it.
    pub(super) fn new(time: Option<Duration>) -> Self {
        Self {
            time,
            ..Self::default()
        }
    }

    /// Adds the counts of a thread for the second with the index `second`.
    pub(super) fn add(&mut self, second: usize, counts: &StageCounts) {
        self.counts.add(counts);
        if self
            .time
            .is_some_and(|time| second >= number_of_seconds(time))
        {
            return;
        }
        // A thread that had nothing to report for a while may come late.
        let index = second.saturating_sub(self.seconds.len());
        while self.open.len() <= index {
            self.open.push_back((StageCounts::new(), 0));
        }
        let (sum, reported) = &mut self.open[index];
        sum.add(counts);
        *reported += 1;
    }

    /// Adds the time of a thread at the end of its share of the stage, and its counts of each target.
    pub(super) fn add_thread(&mut self, busy: ThreadTime, targets: Vec<TargetCounts>) {
        if self.targets.is_empty() {
            self.targets = targets;
        } else {
            for (sum, more) in self.targets.iter_mut().zip(&targets) {
                sum.add(more);
            }
        }
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
        let begin = SECOND.saturating_mul(self.seconds.len() as u32);
        let left = self.time.map_or(SECOND, |time| time.saturating_sub(begin));
        let (counts, _) = self.open.pop_front().unwrap_or_default();
        let second = Second {
            length: left.min(SECOND),
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

    /// Sums up all open seconds at the end of a stage of this length. Seconds that no thread has
    /// reported are empty.
    pub(super) fn close(&mut self, elapsed: Duration) {
        // An interrupted or counted stage ends where it is.
        self.time = Some(elapsed);
        let number = number_of_seconds(elapsed);
        while !self.open.is_empty() || self.seconds.len() < number {
            self.close_second();
        }
        self.seconds.pop_if(|last| {
            last.length < SHORT && (last.succeeded, last.failed, last.received) == (0, 0, 0)
        });
    }
}

/// Number of seconds that have begun within `time`.
fn number_of_seconds(time: Duration) -> usize {
    time.as_nanos().div_ceil(SECOND.as_nanos()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn success() -> StageCounts {
        let mut counts = StageCounts::new();
        counts.latency.record(1).unwrap();
        counts
    }

    fn seconds(sum: &StageSum) -> Vec<(u64, Duration)> {
        let seconds = sum.seconds.iter();
        seconds.map(|each| (each.succeeded, each.length)).collect()
    }

    #[test]
    fn no_second_is_behind_the_end_of_a_stage() {
        let time = Duration::from_millis(2_500);
        let mut sum = StageSum::new(Some(time));
        for index in [0, 2, 3] {
            sum.add(index, &success());
        }
        sum.close(time);
        let half = Duration::from_millis(500);
        assert_eq!(seconds(&sum), [(1, SECOND), (0, SECOND), (1, half)]);
        let mut late = StageSum::new(Some(time));
        for index in 0..3 {
            late.add(index, &success());
            // The last one is closed while late responses are waited for.
            late.close_second();
        }
        assert_eq!(seconds(&late), [(1, SECOND), (1, SECOND), (1, half)]);
        assert_eq!(sum.counts.succeeded(), 3, "the late one is in the sum");
    }

    #[test]
    fn a_counted_stage_has_no_empty_second_at_its_end() {
        for (last, expected) in [(StageCounts::new(), 1), (success(), 2)] {
            let mut sum = StageSum::new(None);
            sum.add(0, &success());
            sum.add(1, &last);
            sum.close(Duration::from_millis(1_001));
            assert_eq!(sum.seconds.len(), expected);
        }
    }
}
