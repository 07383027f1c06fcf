//! One set of cells per worker, kept apart in memory and summed on read.
//!
//! Does not know what the cells count: the set is the caller's own struct of counters, gauges and
//! histograms.

use std::ops::Deref;
use std::sync::Arc;

use crate::{Counter, Gauge, Histogram, HistogramSnapshot};

/// A value that shares no cache line with its neighbours.
///
/// 128 bytes rather than 64, because x86-64 fetches lines in pairs and some 64-bit ARM cores have
/// lines of 128.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(T);

impl<T> Padded<T> {
    /// This value, padded.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// One worker's cells. Only that worker writes to them.
pub type Shard<T> = Arc<Padded<T>>;

/// The cells of all workers, for readers.
#[derive(Debug)]
pub struct Shards<T>(Box<[Shard<T>]>);

impl<T> Shards<T> {
    /// Creates `workers` sets of cells; `make` receives the worker's number.
    pub fn new(workers: usize, mut make: impl FnMut(usize) -> T) -> Self {
        Self(
            (0..workers)
                .map(|worker| Arc::new(Padded(make(worker))))
                .collect(),
        )
    }

    /// Creates a set of cells for each of these; `make` receives it.
    #[must_use]
    pub fn map(&self, make: impl FnMut(&T) -> T) -> Self {
        let sets = self.iter().map(make);
        Self(sets.map(|set| Arc::new(Padded(set))).collect())
    }

    /// The cells that worker number `worker` writes; `None` when there are fewer workers.
    pub fn shard(&self, worker: usize) -> Option<Shard<T>> {
        self.0.get(worker).cloned()
    }

    /// Every worker's cells, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &***shard)
    }

    /// The sum of one counter over all workers.
    pub fn counter(&self, cell: impl Fn(&T) -> &Counter) -> u64 {
        self.iter()
            .fold(0, |sum, cells| sum.wrapping_add(cell(cells).value()))
    }

    /// The sum of one gauge over all workers.
    ///
    /// The cells are read one after the other, so concurrent changes may put the sum off, even
    /// below zero for a moment when one worker counts down what another has counted up.
    pub fn gauge(&self, cell: impl Fn(&T) -> &Gauge) -> i64 {
        self.iter()
            .fold(0, |sum, cells| sum.wrapping_add(cell(cells).value()))
    }

    /// The sum of one histogram over all workers; `None` when there is no worker.
    ///
    /// All workers' histograms behind `cell` must have the same bounds.
    pub fn histogram(&self, cell: impl Fn(&T) -> &Histogram) -> Option<HistogramSnapshot> {
        self.iter()
            .map(|cells| cell(cells).snapshot())
            .reduce(HistogramSnapshot::merge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bounds;
    use std::time::Duration;

    #[derive(Default)]
    struct Cells {
        bytes: Counter,
        open: Gauge,
    }

    #[test]
    fn two_shards_never_share_a_cache_line() {
        let shards = Shards::new(2, |_| Counter::new());
        assert!(align_of::<Padded<Counter>>() >= 128);
        assert_eq!(size_of::<Padded<Counter>>() % 128, 0);
        let [a, b] = [0, 1].map(|worker| {
            let shard = shards.shard(worker).unwrap();
            let cell: &Counter = &shard;
            std::ptr::from_ref(cell).addr()
        });
        assert!(a.abs_diff(b) >= 128);
    }

    #[test]
    fn counters_are_summed_over_workers() {
        let shards = Shards::new(4, |_| Cells::default());
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let cells = shards.shard(worker).unwrap();
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        cells.bytes.add(3);
                        cells.open.inc();
                    }
                });
            }
        });
        assert_eq!(shards.counter(|cells| &cells.bytes), 120_000);
        assert_eq!(shards.gauge(|cells| &cells.open), 40_000);
    }

    #[test]
    fn a_gauge_sums_increments_and_decrements_across_shards() {
        let shards = Shards::new(2, |_| Cells::default());
        shards.shard(0).unwrap().open.inc();
        shards.shard(1).unwrap().open.dec();
        assert_eq!(shards.gauge(|cells| &cells.open), 0);
    }

    #[test]
    fn a_worker_that_does_not_exist_has_no_cells() {
        assert!(Shards::new(2, |_| Cells::default()).shard(2).is_none());
    }

    #[test]
    fn histograms_are_summed_over_workers() {
        let shards = Shards::new(2, |_| Histogram::new(Bounds::HANDSHAKE));
        for worker in 0..2 {
            shards
                .shard(worker)
                .unwrap()
                .record(Duration::from_millis(3));
        }
        let sum = shards.histogram(|cell| cell).unwrap();
        assert_eq!((sum.count(), sum.sum()), (2, 0.006));
        assert!(
            Shards::new(0, |_| Histogram::new(Bounds::CONNECT))
                .histogram(|cell| cell)
                .is_none()
        );
    }
}
