//! What a run has counted as Prometheus text.
//!
//! Latency is a histogram and no summary: quantiles that were computed here could not be put
//! together, neither over generators nor over a stretch of time, and buckets can. Its finest bounds
//! are below those of the proxy's own histograms of exchanges, the others are the same, so that
//! both can be laid beside each other; the percentiles of the report are right to three digits,
//! what is computed from buckets is not.

use std::time::Duration;

use lockgate_metrics::{Bounds, Histogram, HistogramSnapshot, Text};

use lockgate_load::result::{Failure, Nanoseconds, StageCounts};

/// From 50 µs (nothing between) on; from 0.5 ms on those of `Bounds::EXCHANGE`.
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

/// What was counted, by stages.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    /// The name of each stage, and what was counted of it once it has begun.
    stages: Vec<(String, Option<Counted>)>,
    /// Requests a second that are due; none in a closed loop.
    pub(super) due: Option<f64>,
}

/// What was counted of one stage, in all its rounds.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    failures: [u64; Failure::ALL.len()],
    latency: HistogramSnapshot,
    sent: u64,
    received: u64,
    opened: u64,
}

impl Default for Counted {
    fn default() -> Self {
        Self::of(&StageCounts::new())
    }
}

impl Counted {
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

/// The same in fewer buckets; what lies at a bound is above or below it by the three digits of the
/// other.
fn buckets(latency: &Nanoseconds) -> HistogramSnapshot {
    let histogram = Histogram::new(LATENCY);
    for each in latency.iter_recorded() {
        let duration = Duration::from_nanos(latency.median_equivalent(each.value_iterated_to()));
        histogram.record_many(duration, each.count_at_value());
    }
    histogram.snapshot()
}

impl Counters {
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

    /// Adds what was counted of the stage with this place among the names.
    pub(super) fn add(&mut self, place: usize, counted: Counted) {
        if let Some((_, sum)) = self.stages.get_mut(place) {
            *sum = Some(match sum.take() {
                Some(sum) => sum.plus(counted),
                None => counted,
            });
        }
    }

    /// As Prometheus text. There is no sample of stages that have not begun.
    pub(super) fn text(&self) -> String {
        let mut text = Text::new();
        let stages = || {
            self.stages
                .iter()
                .filter_map(|(name, counted)| Some((&**name, counted.as_ref()?)))
        };

        let mut family = text.counter(
            "lockgate_load_requests_total",
            "Finished requests, by result.",
        );
        for (stage, counted) in stages() {
            family.sample(
                &[("stage", stage), ("result", "success")],
                counted.latency.count(),
            );
            family.sample(
                &[("stage", stage), ("result", "failure")],
                counted.failures.iter().sum::<u64>(),
            );
        }
        let mut family = text.counter(
            "lockgate_load_failures_total",
            "Requests that failed, by the kind of failure.",
        );
        for (stage, counted) in stages() {
            for (kind, count) in Failure::ALL.iter().zip(counted.failures) {
                family.sample(&[("stage", stage), ("kind", kind.name())], count);
            }
        }
        let mut family = text.histogram(
            "lockgate_load_latency_seconds",
            "Latency of successes, from their due time; in a closed loop from their sending.",
        );
        for (stage, counted) in stages() {
            family.sample(&[("stage", stage)], &counted.latency);
        }
        let mut family = text.counter(
            "lockgate_load_bytes_total",
            "Bytes of messages, heads included; under TLS those inside it.",
        );
        for (stage, counted) in stages() {
            family.sample(&[("stage", stage), ("direction", "sent")], counted.sent);
            family.sample(
                &[("stage", stage), ("direction", "received")],
                counted.received,
            );
        }
        let mut family = text.counter(
            "lockgate_load_connections_opened_total",
            "Opened connections, without those of the warm-up.",
        );
        for (stage, counted) in stages() {
            family.sample(&[("stage", stage)], counted.opened);
        }
        if let Some(due) = self.due {
            let help = "Scheduled requests per second in an open loop; 0 after the run.";
            text.gauge("lockgate_load_rate_due", help).sample(&[], due);
        }
        text.finish()
    }
}
