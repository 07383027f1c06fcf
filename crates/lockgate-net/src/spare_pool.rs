//! What a worker keeps of one kind for the next use: no more than its last moments needed.

use std::cell::{Cell, RefCell};

use crate::memory::{self, MemoryLevel};

/// The most values that are kept: further ones are dropped.
const KEPT: usize = 64;

/// Values that are used again.
#[derive(Debug, Default)]
pub struct SparePool<T> {
    spare: RefCell<Vec<T>>,
    /// The fewest since the last eviction: these were not needed.
    unused: Cell<usize>,
}

impl<T> SparePool<T> {
    /// The number of values.
    pub fn count(&self) -> usize {
        self.spare.borrow().len()
    }

    /// Takes the last used one: it is in the cache.
    pub fn take(&self) -> Option<T> {
        let mut spare = self.spare.borrow_mut();
        let value = spare.pop();
        self.unused.set(self.unused.get().min(spare.len()));
        value
    }

    /// Keeps a value, and returns whether it did: where memory is scarce, only `least` are kept.
    pub fn give(&self, value: T, least: usize) -> bool {
        let is_easy = memory::level() == MemoryLevel::Easy;
        let mut spare = self.spare.borrow_mut();
        let is_kept = spare.len() < if is_easy { KEPT } else { least };
        if is_kept {
            spare.push(value);
        }
        is_kept
    }

    /// Keeps only the values that were used since the last call, and `least` of the others.
    pub fn evict_unused(&self, least: usize) {
        let mut spare = self.spare.borrow_mut();
        // Those at the front were used longest ago.
        let unused = self.unused.get().min(spare.len().saturating_sub(least));
        spare.drain(..unused);
        self.unused.set(spare.len());
    }

    /// Keeps only `least` values.
    pub fn shrink(&self, least: usize) {
        self.spare.borrow_mut().truncate(least);
    }
}
