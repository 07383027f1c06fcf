//! The memory of the process as it grows: what was allocated, what libraries in C hold for us, what
//! the kernel holds for our sockets; and how near all of that is to its limit.
//!
//! Counted where it grows and shrinks, by thread, and added to the process's sums in steps of 64
//! KB: a thousand connections may come between two ticks, and a reading of /proc would come too
//! late. What this cannot see, such as fragments between allocations, is
//! [told](Budget::tell_surplus) by who measures. Does not decide what gives way.

mod allocator;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicU8, AtomicUsize, Ordering::Relaxed};

pub use allocator::{Counting, collect};

/// What a thread may have changed before the process hears of it.
const STEP: isize = 64 * 1024;
/// What the kernel keeps for a socket beside its data: the socket itself, its file, its place in
/// epoll.
pub(crate) const SOCKET: usize = 5 * 1024;
/// What a socket may hold that was not sent, at the least and at the most.
const UNSENT: std::ops::RangeInclusive<usize> = 64 * 1024..=1024 * 1024;
/// And while memory is scarce.
const UNSENT_LEAN: usize = 16 * 1024;
/// So many sockets that are full take all of the limit.
const FULL_SOCKETS: usize = 4096;

/// What memory is used for, as far as it is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Allocations of the program: heads, bodies, sessions, windows, caches, queues.
    Heap = 0,
    /// Contexts of zstd, which has its own allocator.
    Coding = 1,
    /// Sockets, what they hold to be sent, and pipes, by estimate.
    Kernel = 2,
}

impl Kind {
    /// All of them, and their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Heap, "heap"),
        (Self::Coding, "coding"),
        (Self::Kernel, "kernel"),
    ];
}

/// How much of the limit is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Less than is worth a thought, or there is no limit.
    Easy = 0,
    /// So much that nothing is kept for later, and everything is done in small pieces.
    Lean = 1,
    /// So much that what would grow waits, and the largest give way.
    Full = 2,
}

impl Level {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Easy,
            1 => Self::Lean,
            _ => Self::Full,
        }
    }

    /// The level for so much of a limit. A level is left at less than it is entered at, so that it
    /// does not flutter.
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
/// Percent of the limit that what is not counted may take.
const MOST_SURPLUS: usize = 40;

/// The sums of a process and their limit.
#[derive(Debug)]
pub struct Budget {
    used: [AtomicIsize; Kind::ALL.len()],
    /// Memory that is used and not counted, as it was measured.
    surplus: AtomicUsize,
    /// 0 is none.
    limit: AtomicUsize,
    level: Apart<AtomicU8>,
}

/// In cache lines of its own, and so that the next one may be fetched with it: what every thread
/// reads all the time does not share them with what every thread writes now and then.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// The budget of this process.
static PROCESS: Budget = Budget::new();

/// What one thread has changed.
struct Thread {
    /// Not yet in the sums of the process.
    unsettled: [Cell<isize>; Kind::ALL.len()],
    /// All that is in them since the thread began, and what was lent.
    settled: Cell<isize>,
}

impl Thread {
    /// Adds to the sums of the process what was changed for `kind`.
    #[cold]
    fn settle(&self, kind: Kind) {
        let sum = self.unsettled[kind as usize].take();
        self.settled.set(self.settled.get().wrapping_add(sum));
        PROCESS.add(kind, sum);
    }
}

thread_local! {
    // Without a destructor, so that the allocator can use it at any time.
    static THREAD: Thread = const {
        Thread { unsettled: [const { Cell::new(0) }; Kind::ALL.len()], settled: Cell::new(0) }
    };
}

/// The budget of this process.
pub fn process() -> &'static Budget {
    &PROCESS
}

/// How much of the limit of this process is in use.
pub fn level() -> Level {
    PROCESS.level()
}

/// Counts memory that was taken, or given back where `bytes` is negative.
#[inline]
pub fn charge(kind: Kind, bytes: isize) {
    THREAD.with(|thread| {
        let unsettled = &thread.unsettled[kind as usize];
        let sum = unsettled.get().wrapping_add(bytes);
        unsettled.set(sum);
        if sum.unsigned_abs() >= STEP.unsigned_abs() {
            thread.settle(kind);
        }
    });
}

/// Moves `bytes` to whatever is [measured](mark) now from what the worker keeps for all, or back
/// where negative; of the process it is as much as before.
pub(crate) fn lend(bytes: isize) {
    THREAD.with(|thread| thread.settled.set(thread.settled.get().wrapping_add(bytes)));
}

/// What this thread has taken so far, less what it has given back: the difference of two marks is
/// what was taken between them.
pub fn mark() -> isize {
    THREAD.with(|thread| {
        let sum = |sum: isize, unsettled: &Cell<isize>| sum.wrapping_add(unsettled.get());
        thread.unsettled.iter().fold(thread.settled.get(), sum)
    })
}

/// Memory that no allocator of ours sees; dropping it gives it back.
#[derive(Debug)]
pub struct Charge {
    kind: Kind,
    bytes: usize,
}

impl Charge {
    /// Counts `bytes` until it is dropped.
    pub fn new(kind: Kind, bytes: usize) -> Self {
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
    /// Nothing is used, and there is no limit.
    const fn new() -> Self {
        Self {
            used: [const { AtomicIsize::new(0) }; Kind::ALL.len()],
            surplus: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            level: Apart(AtomicU8::new(0)),
        }
    }

    /// Sets the limit.
    pub fn set_limit(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or(0, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX).max(1)
        });
        self.limit.store(bytes, Relaxed);
        self.settle();
    }

    /// The limit, if there is one.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit > 0)
    }

    /// How much of the limit is in use.
    pub fn level(&self) -> Level {
        Level::of(self.level.0.load(Relaxed))
    }

    /// What is used for `kind`. Threads may have changed it by 64 KB each.
    pub fn used(&self, kind: Kind) -> usize {
        usize::try_from(self.used[kind as usize].load(Relaxed)).unwrap_or(0)
    }

    /// What is used and not counted.
    pub fn surplus(&self) -> usize {
        self.surplus.load(Relaxed)
    }

    /// All that is used.
    pub fn total(&self) -> usize {
        Kind::ALL.iter().fold(self.surplus(), |sum, (kind, _)| {
            sum.saturating_add(self.used(*kind))
        })
    }

    /// Bytes that must be given back for the level to fall below [`Level::Full`].
    pub fn excess(&self) -> usize {
        let Some(limit) = self.limit() else { return 0 };
        self.total().saturating_sub(limit / 100 * LEAVES_FULL)
    }

    /// Takes note of what was measured beyond what is counted. It counts for less of the limit than
    /// the lowest level ends at: it cannot give way, and with more of it memory would be scarce
    /// for as long as the process lives.
    pub fn tell_surplus(&self, bytes: usize) {
        self.surplus.store(
            bytes.min(self.limit.load(Relaxed) / 100 * MOST_SURPLUS),
            Relaxed,
        );
        self.settle();
    }

    fn add(&self, kind: Kind, bytes: isize) {
        self.used[kind as usize].fetch_add(bytes, Relaxed);
        self.settle();
    }

    /// Finds the level anew. Of two threads that do so at once either may be the last: the next
    /// step corrects it.
    fn settle(&self) {
        let before = self.level();
        let level = before.after(self.total(), self.limit.load(Relaxed));
        if level != before {
            self.level.0.store(level as u8, Relaxed);
        }
    }

    /// What a socket may hold that was not sent: the less, the smaller the limit.
    fn unsent(&self) -> usize {
        match (self.limit(), self.level()) {
            (None, _) => *UNSENT.end(),
            (Some(_), Level::Lean | Level::Full) => UNSENT_LEAN,
            (Some(limit), Level::Easy) => {
                (limit / FULL_SOCKETS).clamp(*UNSENT.start(), *UNSENT.end())
            }
        }
    }
}

/// What a socket of this process may hold that was not sent.
pub(crate) fn unsent() -> usize {
    PROCESS.unsent()
}
