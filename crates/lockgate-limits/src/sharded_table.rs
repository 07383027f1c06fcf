//! A table that all workers write.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

const SHARDS: usize = 64;

/// A table in shards with a lock each.
#[derive(Debug)]
pub(crate) struct ShardedTable<K, V> {
    hasher: RandomState,
    shards: Box<[Mutex<TableShard<K, V>>]>,
}

type TableShard<K, V> = HashMap<K, V, RandomState>;

impl<K: Hash + Eq, V> ShardedTable<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// The shard of `key`, for one look-up: never held over a wait.
    pub(crate) fn lock(&self, key: &K) -> MutexGuard<'_, TableShard<K, V>> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }

    /// Calls `see` with each value, under the lock of its shard.
    pub(crate) fn each(&self, mut see: impl FnMut(&V)) {
        for shard in &self.shards {
            lock(shard).values().for_each(&mut see);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
