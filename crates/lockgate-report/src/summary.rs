//! The figures that every form of a report shows: of a histogram, of a stage, of rounds of the same
//! stage.
//!
//! Times are nanoseconds. Where there is nothing to compute from there is no figure, rather than a
//! zero.

use std::time::Duration;

use lockgate_load::result::{NanosecondHistogram, RunResult, StageResult, Watched};

/// The percentiles that are reported, in rising order: the name, and the share of values that are
/// not above it.
pub const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// The shares of values in trimmed means: `tm99` is the mean of the values up to p99.
const TRIMMED: [f64; 3] = [0.95, 0.99, 0.999];

/// The names of a summary's figures, for people and as keys, in the order in which they are shown.
pub const FIGURES: [(&str, &str); 14] = [
    ("min", "min"),
    ("p50", "p50"),
    ("p75", "p75"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("p99.9", "p99_9"),
    ("p99.99", "p99_99"),
    ("max", "max"),
    ("mean", "mean"),
    ("sd", "sd"),
    ("tm95", "tm95"),
    ("tm99", "tm99"),
    ("tm99.9", "tm99_9"),
];

/// The figures of one histogram that is not empty, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many values there are.
    pub count: u64,
    /// Minimum of all values.
    pub min: f64,
    /// In the order of [`PERCENTILES`], also of too few values: see [`figures`](Self::figures).
    pub percentiles: [f64; PERCENTILES.len()],
    /// Maximum of all values.
    pub max: f64,
    /// Mean of all values.
    pub mean: f64,
    /// Standard deviation of all values.
    pub sd: f64,
    /// Means of the smallest 95 %, 99 % and 99.9 %.
    pub trimmed: [f64; TRIMMED.len()],
}

impl Summary {
    /// The summary of a histogram, unless it is empty.
    pub fn of(histogram: &NanosecondHistogram) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min: histogram.min() as f64,
            percentiles: PERCENTILES.map(|(_, share)| histogram.value_at_quantile(share) as f64),
            max: histogram.max() as f64,
            mean: histogram.mean(),
            sd: histogram.stdev(),
            trimmed: TRIMMED.map(|share| trimmed_mean(histogram, share)),
        })
    }

    /// The figure of this name, if there is one.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let mut named = FIGURES.iter().zip(self.figures());
        named.find(|((known, _), _)| *known == name)?.1
    }

    /// The figure of this name, also where it is a percentile of too few values: their maximum.
    pub(crate) fn measured(&self, name: &str) -> Option<f64> {
        let percentile = PERCENTILES.iter().position(|(known, _)| *known == name);
        percentile.map_or_else(|| self.figure(name), |index| Some(self.percentiles[index]))
    }

    /// The 50th percentile, the median, of at least 2 values.
    pub fn p50(&self) -> Option<f64> {
        self.percentile(0)
    }

    /// The 99th percentile of at least 100 values.
    pub fn p99(&self) -> Option<f64> {
        self.percentile(4)
    }

    /// A percentile that a value is above: of fewer values than 1 / (1 - share) it would only be
    /// their maximum by another name.
    fn percentile(&self, index: usize) -> Option<f64> {
        let above = self.count as f64 * (1.0 - PERCENTILES[index].1);
        // 1 - 0.9 is a little less than 0.1.
        (above > 1.0 - 1e-9).then_some(self.percentiles[index])
    }

    /// Every figure but the count, in the order of [`FIGURES`]; none of a percentile of too few
    /// values: p99.9 needs 1,000, p99.99 10,000.
    pub fn figures(&self) -> [Option<f64>; FIGURES.len()] {
        let [p50, p75, p90, p95, p99, p99_9, p99_99] =
            std::array::from_fn(|index| self.percentile(index));
        let [tm95, tm99, tm99_9] = self.trimmed.map(Some);
        let Self {
            min, max, mean, sd, ..
        } = *self;
        let [min, max, mean, sd] = [min, max, mean, sd].map(Some);
        [
            min, p50, p75, p90, p95, p99, p99_9, p99_99, max, mean, sd, tm95, tm99, tm99_9,
        ]
    }
}

/// The mean of the smallest `share` of the values, at least of one.
fn trimmed_mean(histogram: &NanosecondHistogram, share: f64) -> f64 {
    let kept = ((histogram.len() as f64 * share).ceil() as u64).clamp(1, histogram.len());
    let mut left = kept;
    let mut sum = 0.0;
    for bucket in histogram.iter_recorded() {
        let taken = bucket.count_at_value().min(left);
        sum += histogram.median_equivalent(bucket.value_iterated_to()) as f64 * taken as f64;
        left -= taken;
        if left == 0 {
            break;
        }
    }
    sum / kept as f64
}

/// The figures of one stage beside its histograms.
#[derive(Debug, Clone, PartialEq)]
pub struct StageSummary {
    /// Successes a second, without late ones; 0 where no time has passed.
    pub rate: f64,
    /// Share of failures among ended exchanges, 0 to 1.
    pub failed_share: Option<f64>,
    /// Bytes sent a second, without late ones.
    pub sent_rate: f64,
    /// Bytes received a second, without late ones.
    pub received_rate: f64,
    /// The generator's CPU time by successes, in microseconds.
    pub generator_cpu: Option<f64>,
    /// The same of each program that was watched, in their order.
    pub watched: Vec<WatchedSummary>,
}

/// The figures of one program that was watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchedSummary {
    /// Its CPU time by successes, in microseconds: a request that failed was no use, so it costs
    /// the others.
    pub cpu: Option<f64>,
    /// Bytes that it grew by, by connections at once; less than nothing where it shrank.
    pub memory: Option<f64>,
}

impl StageSummary {
    /// The summary of a stage with this many concurrent connections.
    pub fn of(stage: &StageResult, connections: usize) -> Self {
        let succeeded = stage.counts.succeeded();
        let ended = succeeded.saturating_add(stage.counts.failed());
        let a_second =
            |number: u64| divide(number as f64, stage.elapsed.as_secs_f64()).unwrap_or_default();
        let cpu = |user: Duration, system: Duration| {
            // A run that is shorter than the kernel's count of time has none, rather than 0.
            let time = user.saturating_add(system);
            let time = Some(time).filter(|time| !time.is_zero())?;
            divide(time.as_secs_f64() * 1e6, succeeded as f64)
        };
        let watched = |program: &Watched| WatchedSummary {
            cpu: cpu(program.user, program.system),
            memory: program
                .before
                .zip(program.peak)
                .and_then(|(before, peak)| divide(peak as f64 - before as f64, connections as f64)),
        };
        Self {
            rate: a_second(succeeded.saturating_sub(stage.counts.late)),
            failed_share: divide(stage.counts.failed() as f64, ended as f64),
            sent_rate: a_second(stage.counts.sent.saturating_sub(stage.counts.late_sent)),
            received_rate: a_second(
                stage
                    .counts
                    .received
                    .saturating_sub(stage.counts.late_received),
            ),
            generator_cpu: cpu(stage.generator.user, stage.generator.system),
            watched: stage.watched.iter().map(watched).collect(),
        }
    }
}

fn divide(number: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| number / by)
}

/// Stages grouped by name, which are rounds of one stage, in the order of their first rounds.
pub fn rounds(report: &RunResult) -> Vec<Vec<&StageResult>> {
    let mut groups: Vec<Vec<&StageResult>> = Vec::new();
    for stage in &report.stages {
        match groups.iter_mut().find(|group| group[0].name == stage.name) {
            Some(group) => group.push(stage),
            None => groups.push(vec![stage]),
        }
    }
    groups
}

/// Whether no stage has a reason to doubt its figures, and there is one.
pub fn is_valid(report: &RunResult) -> bool {
    !report.stages.is_empty() && report.stages.iter().all(|stage| stage.invalid.is_empty())
}

/// Median and range of the figures of several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Minimum of the figures.
    pub min: f64,
    /// Median; of an even number the mean of the two in the middle.
    pub median: f64,
    /// Maximum of the figures.
    pub max: f64,
    /// Number of figures, usually one a round.
    pub count: usize,
}

impl Spread {
    /// The spread of the finite ones among `figures`, if there are any.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let figures = figures.into_iter().filter(|figure| figure.is_finite());
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self {
            min,
            median: low / 2.0 + high / 2.0,
            max,
            count: sorted.len(),
        })
    }

    /// From the minimum to the maximum, as a share of the median.
    pub fn relative(&self) -> Option<f64> {
        divide(self.max - self.min, self.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use lockgate_load::result::StageCounts;

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= expected.abs() / 500.0,
            "{found} is not near {expected}"
        );
    }

    #[test]
    fn percentiles_and_trimmed_means_are_those_of_the_values() {
        let mut counts = StageCounts::new();
        for milliseconds in 1..=1000 {
            counts.latency.record(milliseconds * 1_000_000).unwrap();
        }
        let summary = Summary::of(&counts.latency).unwrap();
        assert_eq!(summary.count, 1000);
        near(summary.min, 1e6);
        near(summary.p50().unwrap(), 500e6);
        near(summary.p99().unwrap(), 990e6);
        near(summary.figure("p99.9").unwrap(), 999e6);
        near(summary.max, 1000e6);
        near(summary.mean, 500.5e6);
        near(summary.sd, 288.7e6);
        near(summary.trimmed[0], 475.5e6); // of 1 to 950
        near(summary.trimmed[1], 495.5e6); // of 1 to 990
        assert_eq!(summary.figure("p12"), None);
    }

    #[test]
    fn percentile_of_too_few_values_is_no_figure() {
        for (name, share) in PERCENTILES {
            let needed = (1.0 / (1.0 - share)).round() as u64;
            for (number, is_figure) in [(needed - 1, false), (needed, true)] {
                let mut counts = StageCounts::new();
                counts.latency.record_n(1_000, number).unwrap();
                let summary = Summary::of(&counts.latency).unwrap();
                let found = summary.figure(name).is_some();
                assert_eq!(found, is_figure, "{name} of {number}");
            }
        }
    }

    #[test]
    fn a_trimmed_mean_leaves_out_what_is_above_within_one_bucket_too() {
        let mut counts = StageCounts::new();
        counts.latency.record_n(1_000, 90).unwrap();
        counts.latency.record_n(1_000_000, 10).unwrap();
        let summary = Summary::of(&counts.latency).unwrap();
        near(
            summary.trimmed[0],
            (90.0 * 1_000.0 + 5.0 * 1_000_000.0) / 95.0,
        );
        let mut one = StageCounts::new();
        one.latency.record(5_000).unwrap();
        near(Summary::of(&one.latency).unwrap().trimmed[2], 5_000.0);
    }

    #[test]
    fn zero_counts_give_no_figure() {
        assert_eq!(Summary::of(&StageCounts::new().latency), None);
        let mut stage = sample::stage("closed loop", 0, 1e6);
        stage.elapsed = Duration::ZERO;
        let summary = StageSummary::of(&stage, 0);
        assert_eq!(
            (summary.rate, summary.failed_share, summary.generator_cpu),
            (0.0, None, None)
        );
        assert_eq!(
            summary.watched,
            [WatchedSummary {
                cpu: None,
                memory: None
            }]
        );
        assert_eq!((Spread::of([]), Spread::of([f64::NAN])), (None, None));
    }

    #[test]
    fn cpu_and_memory_are_divided_by_successes_and_connections() {
        let mut stage = sample::stage("closed loop", 10_000, 1e6);
        stage.elapsed = Duration::from_secs(5);
        stage.watched[0].user = Duration::from_millis(300);
        stage.watched[0].system = Duration::from_millis(100);
        (stage.watched[0].before, stage.watched[0].peak) = (Some(1_000_000), Some(3_000_000));
        let summary = StageSummary::of(&stage, 100);
        near(summary.rate, 2_000.0);
        stage.counts.late = 1_000;
        near(StageSummary::of(&stage, 100).rate, 1_800.0);
        near(summary.watched[0].cpu.unwrap(), 40.0);
        near(summary.watched[0].memory.unwrap(), 20_000.0);
    }

    #[test]
    fn huge_numbers_neither_overflow_nor_panic() {
        let mut stage = sample::stage("closed loop", 0, 1e6);
        stage
            .counts
            .latency
            .record_n(u64::MAX / 4, 1 << 62)
            .unwrap();
        stage.counts.sent = u64::MAX;
        stage.generator.user = Duration::MAX;
        stage.generator.system = Duration::MAX;
        assert!(
            Summary::of(&stage.counts.latency)
                .unwrap()
                .trimmed
                .iter()
                .all(|mean| mean.is_finite())
        );
        assert!(
            StageSummary::of(&stage, usize::MAX)
                .generator_cpu
                .unwrap()
                .is_finite()
        );
    }

    #[test]
    fn rounds_are_compared_by_their_median_and_spread() {
        let spread = Spread::of([5.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            spread,
            Spread {
                min: 1.0,
                median: 2.5,
                max: 5.0,
                count: 4
            }
        );
        assert_eq!(spread.relative(), Some(1.6));
        let mut report = sample::report(&["a", "b", "a"]);
        assert_eq!(
            rounds(&report).iter().map(Vec::len).collect::<Vec<_>>(),
            [2, 1]
        );
        assert!(is_valid(&report));
        report.stages[1]
            .invalid
            .push(sample::late("the generator was late"));
        assert!(!is_valid(&report));
        report.stages.clear();
        assert!(!is_valid(&report));
    }
}
