//! Cells that one thread writes and every thread may read.
//!
//! An increment is a relaxed load and a relaxed store, not a read-modify-write: measured, 0.8 ns
//! against 8 ns for an uncontended `fetch_add` and 38 ns for one that two cores fight over. The
//! price: two writers of one cell lose increments (never memory safety), so each worker has its own
//! cells, see [`Shards`](crate::Shards).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows, written by one thread. Wraps at 2⁶⁴.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one to the number.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n` to the number.
    pub fn add(&self, n: u64) {
        let value = self.0.load(Ordering::Relaxed).wrapping_add(n);
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads the number, from any thread.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down, written by one thread.
///
/// One worker's gauge may be negative: one worker may count down what another has counted up. Only
/// the sum over all workers has a meaning.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// A gauge at zero.
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Adds one to the number.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Subtracts one from the number.
    pub fn dec(&self) {
        self.add(-1);
    }

    /// Adds `n`, which may be negative.
    pub fn add(&self, n: i64) {
        let value = self.0.load(Ordering::Relaxed).wrapping_add(n);
        self.0.store(value, Ordering::Relaxed);
    }

    /// Replaces the number with `n`.
    pub fn set(&self, n: i64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Reads the number, from any thread.
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_adds_up() {
        let counter = Counter::new();
        counter.inc();
        counter.add(41);
        assert_eq!(counter.value(), 42);
    }

    #[test]
    fn a_counter_wraps_instead_of_panicking() {
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(2);
        assert_eq!(counter.value(), 1);
    }

    #[test]
    fn a_gauge_may_go_below_zero() {
        let gauge = Gauge::new();
        gauge.inc();
        gauge.dec();
        gauge.dec();
        assert_eq!(gauge.value(), -1);
        gauge.set(7);
        assert_eq!(gauge.value(), 7);
    }
}
