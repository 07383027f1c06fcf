//! Top-N accounting against exact counts.

use std::collections::HashMap;

use super::*;

/// Bytes per key, largest first.
fn bytes<K: Clone>(listing: &TopListing<K>) -> Vec<(K, u64)> {
    listing
        .entries
        .iter()
        .map(|entry| (entry.key.clone(), entry.traffic.bytes()))
        .collect()
}

/// A stream of keys and bytes that repeats exactly (xorshift).
fn stream(mut seed: u64, length: usize) -> impl Iterator<Item = (u32, u64)> {
    (0..length).map(move |_| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Half of the calls go to sixteen heavy keys, the rest to a long tail.
        let key = if seed.is_multiple_of(2) {
            (seed >> 8) % 16
        } else {
            100 + (seed >> 8) % 5_000
        };
        (key as u32, 1 + (seed >> 40) % 1_000)
    })
}

fn exact(streams: impl Iterator<Item = (u32, u64)>) -> HashMap<u32, u64> {
    let mut counts = HashMap::new();
    for (key, n) in streams {
        *counts.entry(key).or_default() += n;
    }
    counts
}

/// Every entry's bounds hold the truth, and every key above the floor has an entry.
fn assert_sound(snapshot: &TopSnapshot<u32>, truth: &HashMap<u32, u64>) {
    for entry in &snapshot.entries {
        let seen = entry.traffic.bytes();
        assert!(seen <= truth[&entry.key], "{entry:?}");
        assert!(seen + entry.error >= truth[&entry.key], "{entry:?}");
    }
    for (key, n) in truth.iter().filter(|(_, n)| **n > snapshot.floor) {
        assert!(
            snapshot.entries.iter().any(|entry| entry.key == *key),
            "{key} moved {n}"
        );
    }
}

#[test]
fn below_its_capacity_the_top_table_is_exact() {
    let mut top = Top::new(4);
    top.add(&"a", 0, 10, 0);
    top.add(&"b", 0, 5, 100);
    top.add(&"a", 0, 0, 1);
    let listing = top.snapshot(0).top(10, TopOrder::Bytes);
    assert_eq!(bytes(&listing), [("b", 105), ("a", 11)]);
    assert_eq!(listing.entries[0].traffic.sent, 100);
    assert!(listing.entries.iter().all(|entry| entry.error == 0));
    assert_eq!(listing.other, Traffic::default());
}

#[test]
fn a_new_key_evicts_the_smallest_and_inherits_its_error() {
    let mut top = Top::new(2);
    top.add(&"a", 0, 100, 0);
    top.add(&"b", 0, 7, 0);
    top.add(&"c", 0, 1, 0);
    let listing = top.snapshot(0).top(10, TopOrder::Bytes);
    assert_eq!(bytes(&listing), [("a", 100), ("c", 1)]);
    assert_eq!(listing.entries[1].error, 7);
    assert_eq!(listing.other.received, 7);
    assert_eq!(listing.total.received, 108);
}

#[test]
fn unlisted_keys_are_counted_as_other() {
    let mut top = Top::new(64);
    for key in 0..1_000_u32 {
        top.add(&key, 1_000, u64::from(key), 1);
    }
    let listing = top.snapshot(1_000).top(20, TopOrder::Bytes);
    assert_eq!(listing.entries.len(), 20);
    let listed: u64 = listing
        .entries
        .iter()
        .map(|entry| entry.traffic.bytes())
        .sum();
    assert_eq!(listed + listing.other.bytes(), 499_500 + 1_000);
    assert_eq!(listing.total.sent, 1_000);
}

#[test]
fn error_bounds_hold_over_a_long_tail() {
    for (seed, capacity) in [(1, 1), (2, 2), (3, 17), (4, 64), (5, 1_024), (6, 6_000)] {
        let mut top = Top::new(capacity);
        stream(seed, 50_000).for_each(|(key, n)| top.add(&key, 0, n / 2, n - n / 2));
        let snapshot = top.snapshot(0);
        let truth = exact(stream(seed, 50_000));
        assert_sound(&snapshot, &truth);
        assert!(snapshot.tracked() <= capacity);
        let all: u64 = truth.values().sum();
        assert_eq!(snapshot.total.bytes(), all);
        assert!(
            snapshot.floor <= all / capacity as u64,
            "error is at most the bytes by the entries"
        );
    }
}

#[test]
fn heavy_hitters_are_found_among_many() {
    let mut top = Top::new(64);
    stream(9, 50_000).for_each(|(key, n)| top.add(&key, 0, n, 0));
    let listing = top.snapshot(0).top(16, TopOrder::Bytes);
    let mut keys: Vec<u32> = listing.entries.iter().map(|entry| entry.key).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..16).collect::<Vec<_>>());
}

#[test]
fn merged_workers_sum_and_error_bounds_still_hold() {
    let snapshots = [11, 12, 13].map(|seed| {
        let mut top = Top::new(128);
        stream(seed, 20_000).for_each(|(key, n)| top.add(&key, 0, n, 0));
        top.snapshot(0)
    });
    let merged = TopSnapshot::merge(snapshots);
    let truth = exact(
        [11, 12, 13]
            .into_iter()
            .flat_map(|seed| stream(seed, 20_000)),
    );
    assert_sound(&merged, &truth);
    assert_eq!(merged.total.bytes(), truth.values().sum::<u64>());
}

#[test]
fn a_merged_key_carries_the_error_of_the_full_table() {
    let mut full = Top::new(1);
    full.add(&"a", 0, 50, 0);
    let mut spare = Top::new(8);
    spare.add(&"b", 0, 10, 0);
    spare.add(&"a", 0, 1, 0);
    for order in [[&full, &spare], [&spare, &full]] {
        let merged = TopSnapshot::merge(order.map(|top| top.snapshot(0))).top(9, TopOrder::Bytes);
        assert_eq!(bytes(&merged), [("a", 51), ("b", 10)]);
        assert_eq!((merged.entries[0].error, merged.entries[1].error), (0, 50));
    }
}

#[test]
fn merging_nothing_gives_an_empty_listing() {
    let merged = TopSnapshot::<u8>::merge([]);
    assert_eq!((merged.tracked(), merged.total), (0, Traffic::default()));
}

#[test]
fn entries_may_be_ordered_by_current_throughput() {
    let mut top = Top::new(4);
    top.add(&"yesterday", 0, 1_000_000, 0);
    top.add(&"now", 86_400_000, 0, 5_000);
    let snapshot = top.snapshot(86_400_000);
    let listing = snapshot.top(1, TopOrder::Throughput);
    assert_eq!(listing.entries[0].key, "now");
    assert_eq!(listing.entries[0].traffic.sent_per_second, 1_000);
    assert_eq!(listing.other.per_second(), 0);
    assert_eq!(snapshot.top(1, TopOrder::Bytes).entries[0].key, "yesterday");
}

#[test]
fn a_new_key_does_not_inherit_the_evicted_throughput() {
    let mut top = Top::new(1);
    top.add(&"a", 0, 1_000_000, 0);
    top.add(&"b", 0, 5, 0);
    let listing = top.snapshot(0).top(1, TopOrder::Bytes);
    assert_eq!(listing.entries[0].traffic.per_second(), 1);
}

#[test]
fn zero_bytes_make_no_entry() {
    let mut top = Top::new(1);
    top.add(&"a", 0, 1, 0);
    top.add(&"b", 0, 0, 0);
    assert_eq!(bytes(&top.snapshot(0).top(9, TopOrder::Bytes)), [("a", 1)]);
}

#[test]
fn a_table_of_capacity_zero_holds_one_entry() {
    let mut top = Top::new(0);
    top.add(&"a", 0, 1, 0);
    assert_eq!(top.snapshot(0).tracked(), 1);
}
