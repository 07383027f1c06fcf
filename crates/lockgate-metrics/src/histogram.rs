//! Durations counted in fixed buckets, one writer each.
//!
//! Quantiles are estimated from the buckets, as Prometheus does.

use std::time::Duration;

use crate::{Counter, SampleValue};

/// The most bounds of a histogram; the bucket above the last bound is extra.
const MOST: usize = 20;

/// Upper bounds of buckets, each inclusive, strictly increasing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds(&'static [Duration]);

impl Bounds {
    /// For TLS handshakes: 0.5 ms (a resumption nearby) to 10 s (past every sensible deadline).
    pub const HANDSHAKE: Self = Self::new(&[
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
    ]);

    /// For connecting to an endpoint: 50 µs (a Unix socket) to 10 s.
    pub const CONNECT: Self = Self::new(&[
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
        Duration::from_secs(3),
        Duration::from_secs(10),
    ]);

    /// For the life of a connection: 1 ms to a day.
    pub const CONNECTION: Self = Self::new(&[
        Duration::from_millis(1),
        Duration::from_millis(5),
        Duration::from_millis(25),
        Duration::from_millis(100),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(5),
        Duration::from_secs(15),
        Duration::from_secs(60),
        Duration::from_secs(300),
        Duration::from_secs(900),
        Duration::from_secs(3_600),
        Duration::from_secs(6 * 3_600),
        Duration::from_secs(24 * 3_600),
    ]);

    /// For an exchange or a part of it: 0.5 ms (a small response from nearby) to a minute, which
    /// only downloads exceed.
    pub const EXCHANGE: Self = Self::new(&[
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

    /// Bounds from a list in ascending order.
    ///
    /// # Panics
    /// When the bounds do not increase or are more than 20: at compile time in a `const`.
    pub const fn new(bounds: &'static [Duration]) -> Self {
        assert!(bounds.len() <= MOST, "too many bounds");
        let mut i = 1;
        while i < bounds.len() {
            assert!(
                bounds[i - 1].as_nanos() < bounds[i].as_nanos(),
                "bounds must increase"
            );
            i += 1;
        }
        Self(bounds)
    }
}

/// Durations in buckets, written by one thread and readable from every other.
///
/// The buckets lie inside the value, not on the heap, so that the padding of
/// [`Shards`](crate::Shards) covers them.
#[derive(Debug)]
pub struct Histogram {
    bounds: Bounds,
    buckets: [Counter; MOST + 1],
    /// Microseconds: nanoseconds of 10,000 open connections would wrap within a month.
    sum: Counter,
}

impl Histogram {
    /// An empty histogram with these bounds.
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            buckets: [const { Counter::new() }; MOST + 1],
            sum: Counter::new(),
        }
    }

    /// Counts one duration. Its part of the sum is cut to whole microseconds.
    pub fn record(&self, duration: Duration) {
        let index = self.bounds.0.partition_point(|bound| *bound < duration);
        if let Some(bucket) = self.buckets.get(index) {
            bucket.inc();
        }
        self.sum
            .add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts the same duration `times` times; their part of the sum is cut once.
    pub fn record_many(&self, duration: Duration, times: u64) {
        let index = self.bounds.0.partition_point(|bound| *bound < duration);
        if let Some(bucket) = self.buckets.get(index) {
            bucket.add(times);
        }
        let sum = duration.as_nanos().saturating_mul(u128::from(times)) / 1_000;
        self.sum.add(u64::try_from(sum).unwrap_or(u64::MAX));
    }

    /// Reads all buckets, from any thread.
    ///
    /// A concurrent [`record`](Self::record) may show in the sum before it shows in a bucket, or
    /// the other way round.
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            bounds: self.bounds,
            buckets: self.buckets.each_ref().map(Counter::value),
            sum: self.sum.value(),
        }
    }
}

/// The state of a histogram at one moment; the snapshots of several workers add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    bounds: Bounds,
    buckets: [u64; MOST + 1],
    sum: u64,
}

impl HistogramSnapshot {
    /// Adds another worker's buckets. Both must have the same bounds.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        debug_assert_eq!(
            self.bounds, other.bounds,
            "histograms of different bounds do not add up"
        );
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = bucket.wrapping_add(more);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self
    }

    /// The durations that were recorded after the `earlier` snapshot of the same histograms. Where
    /// these have begun anew since then, those are all that there are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = || self.buckets.iter().zip(&earlier.buckets);
        if pairs().any(|(now, before)| now < before) || self.sum < earlier.sum {
            return self.clone();
        }
        let mut difference = self.clone();
        for (bucket, before) in difference.buckets.iter_mut().zip(earlier.buckets) {
            *bucket -= before;
        }
        difference.sum -= earlier.sum;
        difference
    }

    /// An estimate of the quantile `share` (0 to 1) in seconds, linear within its bucket; above the
    /// last bound it is that bound. `None` without a duration.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = share * self.count() as f64;
        let (mut lower, mut before) = (0.0, 0);
        for (upper, so_far) in self.cumulative() {
            if so_far > 0 && so_far as f64 >= rank {
                let within = (so_far - before) as f64;
                let part = if within > 0.0 {
                    (rank - before as f64) / within
                } else {
                    1.0
                };
                return Some(lower + (upper - lower) * part.clamp(0.0, 1.0));
            }
            (lower, before) = (upper, so_far);
        }
        (self.count() > 0).then_some(lower)
    }

    /// The number of recorded durations: the sum of the buckets, so that it never contradicts them.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The sum of all durations, in seconds.
    pub fn sum(&self) -> f64 {
        self.sum as f64 / 1e6
    }

    /// The samples that stand for it in Prometheus' data model: a cumulative count for each bound
    /// and one for infinity, the sum, the count.
    pub fn samples(&self) -> impl Iterator<Item = HistogramSample> {
        let count = self.count();
        let bucket = |(bound, below): (f64, u64)| HistogramSample {
            suffix: "_bucket",
            le: Some(bound),
            value: below.into(),
        };
        let buckets = self.cumulative().chain([(f64::INFINITY, count)]);
        buckets.map(bucket).chain([
            HistogramSample {
                suffix: "_sum",
                le: None,
                value: self.sum().into(),
            },
            HistogramSample {
                suffix: "_count",
                le: None,
                value: count.into(),
            },
        ])
    }

    /// Each bound in seconds with the number of durations up to it, in Prometheus' cumulative form.
    /// [`count`](Self::count) stands for the bucket above the last bound.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds
            .0
            .iter()
            .zip(self.buckets)
            .scan(0_u64, |sum, (bound, n)| {
                *sum = sum.wrapping_add(n);
                Some((bound.as_secs_f64(), *sum))
            })
    }
}

/// One of the samples that stand for a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramSample {
    /// What its name has behind that of the family: `_bucket`, `_sum`, `_count`.
    pub suffix: &'static str,
    /// The bound of a bucket in seconds; it may be infinite.
    pub le: Option<f64>,
    /// The value.
    pub value: SampleValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds::new(&[Duration::from_millis(1), Duration::from_millis(10)]);

    #[test]
    fn quantiles_are_linear_within_a_bucket() {
        let histogram = Histogram::new(BOUNDS);
        assert_eq!(micros(&histogram.snapshot(), 0.5), None);
        histogram.record_many(Duration::from_millis(5), 100);
        let read = histogram.snapshot();
        let found = [0.0, 0.5, 1.0].map(|share| micros(&read, share));
        assert_eq!(found, [Some(1_000), Some(5_500), Some(10_000)]);
        histogram.record_many(Duration::from_secs(9), 900);
        // No bound is above them.
        let read = histogram.snapshot();
        let found = [0.05, 0.99].map(|share| micros(&read, share));
        assert_eq!(found, [Some(5_500), Some(10_000)]);
    }

    /// A quantile in microseconds.
    fn micros(read: &HistogramSnapshot, share: f64) -> Option<u64> {
        read.quantile(share)
            .map(|seconds| (seconds * 1e6).round() as u64)
    }

    #[test]
    fn a_difference_of_snapshots_has_what_was_recorded_between() {
        let histogram = Histogram::new(BOUNDS);
        histogram.record_many(Duration::from_millis(5), 3);
        let earlier = histogram.snapshot();
        histogram.record(Duration::from_micros(500));
        let between = histogram.snapshot().since(&earlier);
        assert_eq!((between.count(), between.sum()), (1, 0.000_5));
        assert_eq!(micros(&between, 0.99), Some(990));
        assert_eq!(earlier.since(&earlier).count(), 0);
    }

    #[test]
    fn a_histogram_that_began_anew_counts_from_zero() {
        let before = Histogram::new(BOUNDS);
        before.record_many(Duration::from_micros(500), 10);
        before.record_many(Duration::from_millis(5), 3);
        let anew = Histogram::new(BOUNDS);
        assert_eq!(anew.snapshot().since(&before.snapshot()).count(), 0);
        anew.record_many(Duration::from_millis(5), 8);
        let between = anew.snapshot().since(&before.snapshot());
        assert_eq!((between.count(), between.sum()), (8, 0.04));
        assert_eq!(micros(&between, 1.0), Some(10_000));
        // The buckets alone cannot tell it here.
        before.record_many(Duration::from_secs(1), 1);
        anew.record_many(Duration::from_micros(1), 10);
        anew.record_many(Duration::from_millis(11), 1);
        let between = anew.snapshot().since(&before.snapshot());
        assert_eq!(between.count(), 19);
    }

    #[test]
    fn a_duration_equal_to_a_histogram_bound_counts_below() {
        let histogram = Histogram::new(BOUNDS);
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_millis(1));
        histogram.record(Duration::from_nanos(1_000_001));
        histogram.record(Duration::from_millis(10));
        histogram.record(Duration::from_secs(1));
        let read = histogram.snapshot();
        assert_eq!(
            read.cumulative().collect::<Vec<_>>(),
            [(0.001, 2), (0.01, 4)]
        );
        assert_eq!(read.count(), 5);
        assert_eq!(read.sum(), 1.012);
    }

    #[test]
    fn the_longest_duration_does_not_overflow_a_histogram() {
        let histogram = Histogram::new(BOUNDS);
        histogram.record(Duration::MAX);
        assert_eq!(histogram.snapshot().count(), 1);
    }

    #[test]
    fn record_many_adds_count_and_sum_of_equal_durations() {
        let histogram = Histogram::new(BOUNDS);
        histogram.record_many(Duration::from_nanos(1_500), 1_000);
        histogram.record_many(Duration::from_millis(5), 2);
        histogram.record_many(Duration::from_secs(1), 0);
        let read = histogram.snapshot();
        assert_eq!(
            read.cumulative().collect::<Vec<_>>(),
            [(0.001, 1_000), (0.01, 1_002)]
        );
        assert_eq!(read.count(), 1_002);
        assert_eq!(read.sum(), 0.0115);
        histogram.record_many(Duration::MAX, u64::MAX);
    }

    #[test]
    fn twenty_histogram_bounds_leave_room_for_the_infinity_bucket() {
        const SECONDS: [Duration; MOST] = {
            let mut bounds = [Duration::ZERO; MOST];
            let mut i = 0;
            while i < MOST {
                bounds[i] = Duration::from_secs(i as u64 + 1);
                i += 1;
            }
            bounds
        };
        let histogram = Histogram::new(const { Bounds::new(&SECONDS) });
        histogram.record(Duration::from_secs(100));
        assert_eq!(histogram.snapshot().count(), 1);
    }

    #[test]
    #[should_panic(expected = "bounds must increase")]
    fn unsorted_histogram_bounds_are_refused() {
        static TWICE: [Duration; 2] = [Duration::from_secs(1); 2];
        let _ = Bounds::new(&TWICE);
    }
}
