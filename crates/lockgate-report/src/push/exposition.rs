//! Counts of a run as Prometheus text.
//!
//! Latency is a histogram and no summary: quantiles cannot be aggregated, neither over generators
//! nor over time, and buckets can. Its finest bounds are below those of the proxy's own histograms
//! of exchanges, the others are the same, so that both can be compared; the report's percentiles
//! are right to three digits, percentiles of buckets are not.

use std::time::Duration;

use lockgate_metrics::{Bounds, ExpositionText, Histogram, HistogramSnapshot, MetricFamilies};

use lockgate_load::result::{FailureKind, NanosecondHistogram, StageCounts};

/// From 50 µs on; from 0.5 ms on the bounds of `Bounds::EXCHANGE`.
const LATENCY: Bounds = Bounds::new(&[
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(60),
]);

/// Totals of a run by stages.
#[derive(Debug, Clone)]
pub(super) struct RunTotals {
    /// The name of each stage, and its totals once it has begun.
    stages: Vec<(String, Option<StageTotals>)>,
    /// Requests a second that are due; none in a closed loop.
    pub(super) due: Option<f64>,
}

/// Totals of one stage over all its rounds.
#[derive(Debug, Clone)]
pub(super) struct StageTotals {
    failures: [u64; FailureKind::ALL.len()],
    latency: HistogramSnapshot,
    sent: u64,
    received: u64,
    opened: u64,
}

impl Default for StageTotals {
    fn default() -> Self {
        Self::of(&StageCounts::new())
    }
}

impl StageTotals {
    pub(super) fn of(counts: &StageCounts) -> Self {
        Self {
            failures: counts.failures,
            latency: buckets(&counts.latency),
            sent: counts.sent,
            received: counts.received,
            opened: counts.opened,
        }
    }

    fn plus(self, other: Self) -> Self {
        let mut failures = self.failures;
        for (sum, more) in failures.iter_mut().zip(other.failures) {
            *sum += more;
        }
        Self {
            failures,
            latency: self.latency.merge(other.latency),
            sent: self.sent + other.sent,
            received: self.received + other.received,
            opened: self.opened + other.opened,
        }
    }
}

/// The latencies in fewer buckets; a value near a bound may be on either side of it, within the
/// histogram's three digits.
fn buckets(latency: &NanosecondHistogram) -> HistogramSnapshot {
    let histogram = Histogram::new(LATENCY);
    for each in latency.iter_recorded() {
        let duration = Duration::from_nanos(latency.median_equivalent(each.value_iterated_to()));
        histogram.record_many(duration, each.count_at_value());
    }
    histogram.snapshot()
}

impl RunTotals {
    /// Nothing yet, of stages of these names.
    pub(super) fn of(names: &[&str]) -> Self {
        Self {
            stages: names
                .iter()
                .map(|name| ((*name).to_owned(), None))
                .collect(),
            due: None,
        }
    }

    /// Adds the totals of the stage with this index among the names.
    pub(super) fn add(&mut self, index: usize, totals: StageTotals) {
        if let Some((_, sum)) = self.stages.get_mut(index) {
            *sum = Some(match sum.take() {
                Some(sum) => sum.plus(totals),
                None => totals,
            });
        }
    }

    /// As Prometheus text. There is no sample of stages that have not begun.
    pub(super) fn text(&self) -> String {
        let mut text = ExpositionText::new();
        let mut families = MetricFamilies::new(&mut text);
        let stages = || {
            self.stages
                .iter()
                .filter_map(|(name, totals)| Some((&**name, totals.as_ref()?)))
        };

        let mut family = families.counter(
            "lockgate_load_requests_total",
            "Finished requests, by result.",
        );
        for (stage, totals) in stages() {
            family.sample(
                &[("stage", stage), ("result", "success")],
                totals.latency.count(),
            );
            family.sample(
                &[("stage", stage), ("result", "failure")],
                totals.failures.iter().sum::<u64>(),
            );
        }
        let mut family = families.counter(
            "lockgate_load_failures_total",
            "Requests that failed, by the kind of failure.",
        );
        for (stage, totals) in stages() {
            for (kind, count) in FailureKind::ALL.iter().zip(totals.failures) {
                family.sample(&[("stage", stage), ("kind", kind.name())], count);
            }
        }
        let mut family = families.histogram(
            "lockgate_load_latency_seconds",
            "Latency of successes, from their due time; in a closed loop from their sending.",
        );
        for (stage, totals) in stages() {
            family.sample(&[("stage", stage)], &totals.latency);
        }
        let mut family = families.counter(
            "lockgate_load_bytes_total",
            "Bytes of messages, heads included; under TLS those inside it.",
        );
        for (stage, totals) in stages() {
            family.sample(&[("stage", stage), ("direction", "sent")], totals.sent);
            family.sample(
                &[("stage", stage), ("direction", "received")],
                totals.received,
            );
        }
        let mut family = families.counter(
            "lockgate_load_connections_opened_total",
            "Opened connections, without those of the warm-up.",
        );
        for (stage, totals) in stages() {
            family.sample(&[("stage", stage)], totals.opened);
        }
        if let Some(due) = self.due {
            let help = "Scheduled requests per second in an open loop; 0 after the run.";
            families
                .gauge("lockgate_load_rate_due", help)
                .sample(&[], due);
        }
        text.finish()
    }
}
