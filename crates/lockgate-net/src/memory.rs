//! The memory of the process: allocations, memory of libraries in C, the kernel's memory for our
//! sockets; and its level relative to the limit.
//!
//! Counted at each change, by thread, and added to the process's sums in steps of 64 KB: a thousand
//! connections may come between two ticks, and a reading of /proc would come too late. Memory that
//! this cannot see, such as fragments between allocations, is [reported](Budget::set_surplus) from
//! measurements. Does not decide what to free.

mod allocator;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicU8, AtomicUsize, Ordering::Relaxed};

pub use allocator::{CountingAllocator, collect};

/// The change in one thread after which it updates the process's sums.
const STEP: isize = 64 * 1024;
/// The kernel's memory for a socket beside its data: the socket itself, its file, its place in
/// epoll.
pub(crate) const SOCKET: usize = 5 * 1024;
/// The least and the most unsent data of a socket.
const UNSENT: std::ops::RangeInclusive<usize> = 64 * 1024..=1024 * 1024;
/// The same while memory is scarce.
const UNSENT_LEAN: usize = 16 * 1024;
/// The number of full sockets that use up the limit.
const FULL_SOCKETS: usize = 4096;

/// The categories that memory is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Allocations of the program: heads, bodies, sessions, windows, caches, queues.
    Heap = 0,
    /// Contexts of zstd, which has its own allocator.
    Coding = 1,
    /// Sockets, their unsent data, and pipes, by estimate.
    Kernel = 2,
}

impl MemoryKind {
    /// All categories, and their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Heap, "heap"),
        (Self::Coding, "coding"),
        (Self::Kernel, "kernel"),
    ];
}

/// The share of the limit that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MemoryLevel {
    /// Little, or there is no limit.
    Easy = 0,
    /// Much: nothing is kept for later, and work is done in small pieces.
    Lean = 1,
    /// Nearly all: growth waits, and the largest users are closed.
    Full = 2,
}

impl MemoryLevel {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Easy,
            1 => Self::Lean,
            _ => Self::Full,
        }
    }

    /// The level for this much of a limit. A level ends at less than it begins at, so that it does
    /// not flutter.
    fn after(self, used: usize, limit: usize) -> Self {
        let is_past = |percent: usize| used / 100 >= limit / 10_000 * percent;
        match self {
            _ if limit == 0 => Self::Easy,
            _ if is_past(ENTERS_FULL) => Self::Full,
            Self::Full if is_past(LEAVES_FULL) => Self::Full,
            _ if is_past(ENTERS_LEAN) => Self::Lean,
            Self::Lean | Self::Full if is_past(LEAVES_LEAN) => Self::Lean,
            _ => Self::Easy,
        }
    }
}

/// Percent of the limit at which levels begin and end.
const ENTERS_FULL: usize = 85;
const LEAVES_FULL: usize = 75;
const ENTERS_LEAN: usize = 60;
const LEAVES_LEAN: usize = 50;
/// The most percent of the limit that uncounted memory counts for.
const MOST_SURPLUS: usize = 40;

/// The sums of a process and their limit.
#[derive(Debug)]
pub struct Budget {
    used: [AtomicIsize; MemoryKind::ALL.len()],
    surplus: AtomicUsize,
    /// 0 is none.
    limit: AtomicUsize,
    level: CachePadded<AtomicU8>,
}

/// A value in cache lines of its own, and in those that are fetched with it: values that all
/// threads read must not share lines with those that threads write.
#[derive(Debug)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// The budget of this process.
static PROCESS: Budget = Budget::new();

/// The changes of one thread.
struct ThreadCharges {
    /// Not yet added to the process's sums.
    unsettled: [Cell<isize>; MemoryKind::ALL.len()],
    /// The bytes added since the thread began, and the lent ones.
    settled: Cell<isize>,
}

impl ThreadCharges {
    /// Adds the changes of `kind` to the sums of the process.
    #[cold]
    fn settle(&self, kind: MemoryKind) {
        let sum = self.unsettled[kind as usize].take();
        self.settled.set(self.settled.get().wrapping_add(sum));
        PROCESS.add(kind, sum);
    }
}

thread_local! {
    // Without a destructor, so that the allocator can use it at any time.
    static THREAD: ThreadCharges = const {
        ThreadCharges { unsettled: [const { Cell::new(0) }; MemoryKind::ALL.len()], settled: Cell::new(0) }
    };
}

/// The budget of this process.
pub fn process() -> &'static Budget {
    &PROCESS
}

/// The level of this process.
pub fn level() -> MemoryLevel {
    PROCESS.level()
}

/// Counts memory that was taken, or given back if `bytes` is negative.
#[inline]
pub fn charge(kind: MemoryKind, bytes: isize) {
    THREAD.with(|thread| {
        let unsettled = &thread.unsettled[kind as usize];
        let sum = unsettled.get().wrapping_add(bytes);
        unsettled.set(sum);
        if sum.unsigned_abs() >= STEP.unsigned_abs() {
            thread.settle(kind);
        }
    });
}

/// Moves `bytes` from the worker's shared memory to the current [measurement](mark), or back if
/// negative; the process's sum stays the same.
pub fn lend(bytes: isize) {
    THREAD.with(|thread| thread.settled.set(thread.settled.get().wrapping_add(bytes)));
}

/// The memory that this thread has taken, less what it has given back: the difference of two marks
/// is the memory taken between them.
pub fn mark() -> isize {
    THREAD.with(|thread| {
        let sum = |sum: isize, unsettled: &Cell<isize>| sum.wrapping_add(unsettled.get());
        thread.unsettled.iter().fold(thread.settled.get(), sum)
    })
}

/// Memory outside of our allocator; dropping the value gives it back.
#[derive(Debug)]
pub struct Charge {
    kind: MemoryKind,
    bytes: usize,
}

impl Charge {
    /// Counts `bytes` until it is dropped.
    pub fn new(kind: MemoryKind, bytes: usize) -> Self {
        charge(kind, bytes.cast_signed());
        Self { kind, bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        charge(self.kind, -self.bytes.cast_signed());
    }
}

impl Budget {
    /// An empty budget without a limit.
    const fn new() -> Self {
        Self {
            used: [const { AtomicIsize::new(0) }; MemoryKind::ALL.len()],
            surplus: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            level: CachePadded(AtomicU8::new(0)),
        }
    }

    /// Sets the limit of all memory, at any time; `None` is no limit.
    pub fn set_limit(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or(0, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX).max(1)
        });
        self.limit.store(bytes, Relaxed);
        // It counts for a part of this limit, not of the one before.
        self.set_surplus(self.surplus());
    }

    /// The limit, if there is one.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit > 0)
    }

    /// The level, as of the last step of any thread.
    pub fn level(&self) -> MemoryLevel {
        MemoryLevel::of(self.level.0.load(Relaxed))
    }

    /// The memory of `kind`. Threads may have changed it by 64 KB each.
    pub fn used(&self, kind: MemoryKind) -> usize {
        usize::try_from(self.used[kind as usize].load(Relaxed)).unwrap_or(0)
    }

    /// The memory that counting cannot see, as last measured.
    pub fn surplus(&self) -> usize {
        self.surplus.load(Relaxed)
    }

    /// All memory: the counted kinds and the surplus.
    pub fn total(&self) -> usize {
        MemoryKind::ALL
            .iter()
            .fold(self.surplus(), |sum, (kind, _)| {
                sum.saturating_add(self.used(*kind))
            })
    }

    /// Bytes that must be given back for the level to fall below [`MemoryLevel::Full`].
    pub fn excess(&self) -> usize {
        let Some(limit) = self.limit() else { return 0 };
        self.total().saturating_sub(limit / 100 * LEAVES_FULL)
    }

    /// Sets the measured memory beyond the counted one. It counts for less of the limit than the
    /// lowest level ends at: it cannot be freed, and with more of it memory would be scarce for the
    /// life of the process.
    pub fn set_surplus(&self, bytes: usize) {
        self.surplus.store(
            bytes.min(self.limit.load(Relaxed) / 100 * MOST_SURPLUS),
            Relaxed,
        );
        self.settle();
    }

    fn add(&self, kind: MemoryKind, bytes: isize) {
        self.used[kind as usize].fetch_add(bytes, Relaxed);
        self.settle();
    }

    /// Determines the level anew. Of two concurrent calls either may win: the next step corrects
    /// it.
    fn settle(&self) {
        let before = self.level();
        let level = before.after(self.total(), self.limit.load(Relaxed));
        if level != before {
            self.level.0.store(level as u8, Relaxed);
        }
    }

    /// The most unsent data of a socket: the smaller the limit, the less.
    fn unsent(&self) -> usize {
        match (self.limit(), self.level()) {
            (None, _) => *UNSENT.end(),
            (Some(_), MemoryLevel::Lean | MemoryLevel::Full) => UNSENT_LEAN,
            (Some(limit), MemoryLevel::Easy) => {
                (limit / FULL_SOCKETS).clamp(*UNSENT.start(), *UNSENT.end())
            }
        }
    }
}

/// The most unsent data of a socket of this process.
pub(crate) fn unsent() -> usize {
    PROCESS.unsent()
}
