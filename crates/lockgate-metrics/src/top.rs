//! Top-N accounting: bytes and throughput per key in bounded memory.
//!
//! The Space-Saving algorithm (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and
//! top-k elements in data streams", ICDT 2005), weighted by bytes. With `m` entries and `B` bytes
//! in all, every key that moved more than `B / m` has an entry, and no entry's error is larger than
//! that.
//!
//! Plain data of one worker: no sharing, no clock. Only a [`TopSnapshot`] leaves the worker.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use crate::throughput::{Bytes, Throughput};

/// Bytes and throughput per key, at most `capacity` keys.
///
/// The paper keeps entries in a list of buckets, which suits increments of one. Bytes come by the
/// thousand, so this is a heap that is sorted only when the smallest entry is needed: counts only
/// grow, so a stale weight is a lower bound, and a root with an up-to-date weight is the smallest.
/// A known key costs one look-up.
#[derive(Debug)]
pub struct Top<K, S = RandomState> {
    capacity: usize,
    slots: HashMap<K, usize, S>,
    entries: Vec<Tracked<K>>,
    heap: Vec<Ranked>,
    total: Bytes,
    throughput: Throughput,
}

#[derive(Debug)]
struct Tracked<K> {
    key: K,
    bytes: Bytes,
    error: u64,
    throughput: Throughput,
}

impl<K> Tracked<K> {
    /// The upper bound of the key's bytes: the paper's count.
    fn weight(&self) -> u64 {
        self.bytes.both().saturating_add(self.error)
    }
}

#[derive(Debug, Clone, Copy)]
struct Ranked {
    /// The entry's weight when it was last looked at.
    weight: u64,
    slot: usize,
}

impl<K: Eq + Hash + Clone> Top<K> {
    /// An empty table of at most `capacity` keys (at least one); memory grows with the keys seen.
    pub fn new(capacity: usize) -> Self {
        Self::with_hasher(capacity, RandomState::new())
    }
}

impl<K: Eq + Hash + Clone, S: BuildHasher> Top<K, S> {
    /// As [`new`](Top::new) with another hasher, which must be seeded when peers choose the keys.
    pub fn with_hasher(capacity: usize, hasher: S) -> Self {
        Self {
            capacity: capacity.max(1),
            slots: HashMap::with_hasher(hasher),
            entries: Vec::new(),
            heap: Vec::new(),
            total: Bytes::default(),
            throughput: Throughput::default(),
        }
    }

    /// Counts bytes for `key`; `now` is in milliseconds of any clock, the same for all calls.
    ///
    /// Call it while a connection lives, not only at its end: the throughput is as even as the
    /// calls are.
    pub fn add(&mut self, key: &K, now: u64, received: u64, sent: u64) {
        self.add_borrowed(key, now, received, sent);
    }

    /// As [`add`](Self::add) with a borrowed form of the key, such as `str` for `Box<str>`: it is
    /// cloned only when it gets an entry.
    pub fn add_borrowed<Q>(&mut self, key: &Q, now: u64, received: u64, sent: u64)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned: Into<K>> + ?Sized,
    {
        let bytes = Bytes { received, sent };
        if bytes.both() == 0 {
            return;
        }
        self.total.add(bytes);
        self.throughput.add(now, bytes);
        let slot = match self.slots.get(key) {
            Some(&slot) => slot,
            None => self.admit(key.to_owned().into()),
        };
        let entry = &mut self.entries[slot];
        entry.bytes.add(bytes);
        entry.throughput.add(now, bytes);
    }

    /// Reads the whole table; `now` as in [`add`](Self::add).
    ///
    /// The snapshot is owned and can be sent to another thread: 1,024 keys are some 70 KB.
    pub fn snapshot(&self, now: u64) -> TopSnapshot<K> {
        let full = self.entries.len() == self.capacity;
        let least = self
            .entries
            .iter()
            .map(Tracked::weight)
            .min()
            .filter(|_| full);
        let entries = self.entries.iter().map(|entry| TopEntry {
            key: entry.key.clone(),
            traffic: Traffic::of(entry.bytes, entry.throughput.per_second(now)),
            error: entry.error,
        });
        TopSnapshot {
            entries: entries.collect(),
            total: Traffic::of(self.total, self.throughput.per_second(now)),
            floor: least.unwrap_or(0),
        }
    }

    /// Gives a new key an entry: a fresh one, or the smallest one, with its weight as the error.
    fn admit(&mut self, key: K) -> usize {
        if self.entries.len() < self.capacity {
            let slot = self.entries.len();
            self.entries.push(Tracked {
                key: key.clone(),
                bytes: Bytes::default(),
                error: 0,
                throughput: Throughput::default(),
            });
            // Zero is a valid lower bound. A zero at the end keeps the heap valid only while all
            // are zero: until the table is full nothing asks for the smallest.
            self.heap.push(Ranked { weight: 0, slot });
            self.slots.insert(key, slot);
            return slot;
        }
        let slot = self.smallest();
        let entry = &mut self.entries[slot];
        let error = entry.weight();
        let evicted = std::mem::replace(
            entry,
            Tracked {
                key: key.clone(),
                bytes: Bytes::default(),
                error,
                throughput: Throughput::default(),
            },
        );
        self.slots.remove(&evicted.key);
        self.slots.insert(key, slot);
        slot
    }

    /// The slot of the entry with the least weight; only called with a full table.
    fn smallest(&mut self) -> usize {
        loop {
            let root = self.heap[0];
            let weight = self.entries[root.slot].weight();
            if weight == root.weight {
                return root.slot;
            }
            self.heap[0].weight = weight;
            self.sift_down();
        }
    }

    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|&child| self.heap[child].weight) else {
                return;
            };
            if self.heap[at].weight <= self.heap[child].weight {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}

/// Traffic of a key: bytes since the start and bytes per second over the last
/// [`WINDOW`](crate::WINDOW).
///
/// *Received* is from downstream, *sent* is to downstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes received since the start.
    pub received: u64,
    /// Bytes sent since the start.
    pub sent: u64,
    /// Bytes received per second, over the window.
    pub received_per_second: u64,
    /// Bytes sent per second, over the window.
    pub sent_per_second: u64,
}

impl Traffic {
    /// Bytes of both directions since the start.
    pub fn bytes(&self) -> u64 {
        self.received.saturating_add(self.sent)
    }

    /// Bytes of both directions per second.
    pub fn per_second(&self) -> u64 {
        self.received_per_second
            .saturating_add(self.sent_per_second)
    }

    fn of(bytes: Bytes, rate: Bytes) -> Self {
        Self {
            received: bytes.received,
            sent: bytes.sent,
            received_per_second: rate.received,
            sent_per_second: rate.sent,
        }
    }

    fn zip(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            received: with(self.received, other.received),
            sent: with(self.sent, other.sent),
            received_per_second: with(self.received_per_second, other.received_per_second),
            sent_per_second: with(self.sent_per_second, other.sent_per_second),
        }
    }
}

/// One key and its traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopEntry<K> {
    /// The key, such as a client.
    pub key: K,
    /// Traffic since the key has its entry: never overestimated.
    pub traffic: Traffic,
    /// The most bytes (both directions) that the key can have moved before it got its entry.
    pub error: u64,
}

/// The figure that a list is sorted by, largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopOrder {
    /// Bytes since the start, both directions.
    Bytes,
    /// Bytes per second, both directions.
    Throughput,
}

/// The table of one worker, or of several merged, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopSnapshot<K> {
    entries: Vec<TopEntry<K>>,
    total: Traffic,
    /// The most bytes that a key without an entry can have moved.
    floor: u64,
}

impl<K: Eq + Hash + Clone> TopSnapshot<K> {
    /// Adds up the tables of several workers.
    ///
    /// A key that one table lacks may have moved up to that table's floor there, so the floor is
    /// added to the key's error (Agarwal et al., "Mergeable summaries", PODS 2012).
    pub fn merge(snapshots: impl IntoIterator<Item = Self>) -> Self {
        let mut merged = Self {
            entries: Vec::new(),
            total: Traffic::default(),
            floor: 0,
        };
        let mut slots = HashMap::new();
        for snapshot in snapshots {
            merged.total = merged.total.zip(snapshot.total, u64::saturating_add);
            // Every key is first charged with this worker's floor; the keys that the worker knows
            // get it back.
            for entry in &mut merged.entries {
                entry.error = entry.error.saturating_add(snapshot.floor);
            }
            for mut entry in snapshot.entries {
                match slots.get(&entry.key) {
                    Some(&slot) => {
                        let known: &mut TopEntry<K> = &mut merged.entries[slot];
                        known.traffic = known.traffic.zip(entry.traffic, u64::saturating_add);
                        known.error = (known.error - snapshot.floor).saturating_add(entry.error);
                    }
                    None => {
                        slots.insert(entry.key.clone(), merged.entries.len());
                        entry.error = entry.error.saturating_add(merged.floor);
                        merged.entries.push(entry);
                    }
                }
            }
            merged.floor = merged.floor.saturating_add(snapshot.floor);
        }
        merged
    }

    /// The `n` largest by `order`, and the sum of the rest.
    pub fn top(&self, n: usize, order: TopOrder) -> TopListing<K> {
        let mut sorted: Vec<&TopEntry<K>> = self.entries.iter().collect();
        sorted.sort_by_key(|entry| {
            let (bytes, rate) = (entry.traffic.bytes(), entry.traffic.per_second());
            std::cmp::Reverse(match order {
                TopOrder::Bytes => (bytes, rate),
                TopOrder::Throughput => (rate, bytes),
            })
        });
        sorted.truncate(n);
        let listed = sorted.iter().fold(Traffic::default(), |sum, entry| {
            sum.zip(entry.traffic, u64::saturating_add)
        });
        TopListing {
            entries: sorted.into_iter().cloned().collect(),
            other: self.total.zip(listed, u64::saturating_sub),
            total: self.total,
        }
    }

    /// The number of keys with an entry.
    pub fn tracked(&self) -> usize {
        self.entries.len()
    }
}

/// The largest keys, the rest and the total: `total` = entries + `other`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopListing<K> {
    /// The largest keys, the first one largest.
    pub entries: Vec<TopEntry<K>>,
    /// The traffic of all other keys, with an entry or without.
    pub other: Traffic,
    /// The traffic of all keys: exact, however many there were.
    pub total: Traffic,
}

#[cfg(test)]
mod tests;
