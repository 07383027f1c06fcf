//! Levels of memory, the kinds that count towards them, and the allocator that counts.

use super::*;

const MB: usize = 1 << 20;

fn with_limit(limit: usize) -> Budget {
    let budget = Budget::new();
    budget.set_limit(Some(limit as u64));
    budget
}

#[test]
fn memory_levels_follow_the_share_of_the_limit() {
    let budget = with_limit(100 * MB);
    let mut levels = Vec::new();
    for used in [10, 59, 61, 55, 84, 86, 80, 74, 55, 49] {
        let change = (used * MB).cast_signed() - budget.used(MemoryKind::Heap).cast_signed();
        budget.add(MemoryKind::Heap, change);
        levels.push(budget.level() as u8);
    }
    assert_eq!(levels, [0, 0, 1, 1, 1, 2, 2, 1, 1, 0]);
}

#[test]
fn without_a_memory_limit_the_memory_level_is_easy() {
    let budget = Budget::new();
    budget.add(MemoryKind::Heap, isize::MAX / 2);
    assert_eq!(
        (budget.level(), budget.excess(), budget.limit()),
        (MemoryLevel::Easy, 0, None)
    );
}

#[test]
fn every_kind_and_the_surplus_count_against_the_limit() {
    let budget = with_limit(100 * MB);
    for (kind, _) in MemoryKind::ALL {
        budget.add(kind, (20 * MB).cast_signed());
    }
    budget.set_surplus(30 * MB);
    assert_eq!(
        (budget.total(), budget.level()),
        (90 * MB, MemoryLevel::Full)
    );
    assert_eq!(budget.excess() / MB, 15);
    budget.set_surplus(0);
    assert_eq!(budget.level(), MemoryLevel::Lean);
}

#[test]
fn the_surplus_alone_never_makes_memory_scarce() {
    let budget = with_limit(100 * MB);
    budget.set_surplus(200 * MB);
    assert_eq!(
        (budget.surplus() / MB, budget.level()),
        (40, MemoryLevel::Easy)
    );
    budget.add(MemoryKind::Heap, (46 * MB).cast_signed());
    assert_eq!(budget.level(), MemoryLevel::Full);
    budget.add(MemoryKind::Heap, -(12 * MB).cast_signed());
    assert_eq!(budget.level(), MemoryLevel::Lean);
    budget.add(MemoryKind::Heap, -(26 * MB).cast_signed());
    assert_eq!(budget.level(), MemoryLevel::Easy);
}

#[test]
fn a_changed_memory_limit_holds_at_once() {
    let budget = with_limit(100 * MB);
    budget.add(MemoryKind::Heap, (50 * MB).cast_signed());
    budget.set_surplus(40 * MB);
    let mut levels = Vec::new();
    // 90 of 100 are full; with 75 the surplus counts for 30 only, with 200 for what it counted
    // last; without a limit nothing is scarce, and there is no surplus.
    for limit in [Some(100), Some(75), Some(200), None, Some(100)] {
        budget.set_limit(limit.map(|limit: usize| (limit * MB) as u64));
        levels.push((budget.level() as u8, budget.surplus() / MB));
    }
    assert_eq!(levels, [(2, 40), (2, 30), (0, 30), (0, 0), (0, 0)]);
}

#[test]
fn more_freed_than_allocated_counts_as_nothing() {
    let budget = with_limit(MB);
    budget.add(MemoryKind::Heap, -(MB.cast_signed()));
    assert_eq!((budget.used(MemoryKind::Heap), budget.total()), (0, 0));
}

#[test]
fn the_send_buffer_limit_shrinks_with_the_memory_limit() {
    assert_eq!(Budget::new().unsent(), MB);
    assert_eq!(with_limit(8 << 30).unsent(), MB);
    assert_eq!(with_limit(1 << 30).unsent(), 256 * 1024);
    assert_eq!(with_limit(100 * MB).unsent(), 64 * 1024);
    let budget = with_limit(100 * MB);
    budget.add(MemoryKind::Heap, (70 * MB).cast_signed());
    assert_eq!(budget.unsent(), 16 * 1024);
}

#[test]
fn allocator_marks_measure_a_threads_allocations_between_them() {
    let before = mark();
    let charge = Charge::new(MemoryKind::Kernel, 1000);
    lend(24);
    assert_eq!(mark() - before, 1024);
    drop(charge);
    lend(-24);
    assert_eq!(mark(), before);
}

#[test]
fn the_counting_allocator_counts_growth_and_release() {
    let allocator = CountingAllocator(std::alloc::System);
    let before = mark();
    // Through the trait only: a vector would use the global allocator.
    let layout = std::alloc::Layout::array::<u8>(100).unwrap();
    assert_eq!(
        allocator::exercise(&allocator, layout, 300),
        [100, 300, 0].map(|bytes: isize| before + bytes)
    );
}
