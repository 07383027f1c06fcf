//! Rate limits of the process: token buckets that workers share, one atomic word each. Pure
//! arithmetic on given times.
//!
//! A bucket is GCRA (the leaky bucket of ITU-T I.371): it stores the time when all reserved bytes
//! are earned. A direction that wants to move bytes reserves a piece, which is earned at a certain
//! time, and waits until then. So waiting directions have their turns in the order of reservation,
//! across workers, without a queue; unused reservations are given back. The rate is exact in the
//! long run: late alarms cost nothing up to [`BURST`].
//!
//! Does not wait: see [`Shaper`] and [`ShapingQueue`].

mod shaper;
mod shaping_queue;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use shaper::Shaper;
pub(crate) use shaping_queue::QueuedWait;
pub use shaping_queue::{ShapingQueue, now};

/// Nanoseconds since a fixed moment before the process began, the same for all of its threads.
pub type Moment = u64;

/// The most time that is saved while nothing moves: one twentieth of a second, or one piece.
pub const BURST: Moment = SECOND / 20;
/// The length of a piece in time, unless it is too many bytes or too few: wake-ups are the cost of
/// shaping.
const PIECE: Moment = SECOND / 50;
/// The largest piece: the usual buffers of both sides' sockets.
const MOST: u64 = 2 * 1024 * 1024;
/// The smallest piece: a packet.
const LEAST: u64 = 1_500;
const SECOND: Moment = 1_000_000_000;

/// A rate in bytes per second, shared by all its users.
#[derive(Debug)]
pub struct SharedRate {
    rate: NonZeroU64,
    /// The size of a piece without contention.
    piece: u64,
    /// The most time that is saved.
    depth: Moment,
    /// The time when all reserved bytes are earned.
    earned: AtomicU64,
}

impl SharedRate {
    /// A full bucket that earns `rate` bytes per second.
    pub fn new(rate: NonZeroU64) -> Arc<Self> {
        let piece = (rate.get() / (SECOND / PIECE)).clamp(LEAST, MOST);
        let depth = BURST.max(time_of(piece, rate));
        Arc::new(Self {
            rate,
            piece,
            depth,
            earned: AtomicU64::new(0),
        })
    }

    /// Whether it is full at `now`: then it is as good as a new one.
    pub fn is_full(&self, now: Moment) -> bool {
        self.earned.load(Ordering::Relaxed) <= now.saturating_sub(self.depth)
    }

    /// The size of a piece. With contention pieces are smaller, so that turns come round sooner:
    /// that of the last one in a line of `n` by the square root of `n`.
    fn piece(&self, now: Moment) -> u64 {
        let wait = self.earned.load(Ordering::Relaxed).saturating_sub(now);
        (self.piece * PIECE / PIECE.saturating_add(wait)).max(LEAST)
    }

    /// Reserves bytes, and returns the time when they are earned.
    fn reserve(&self, bytes: u64, now: Moment) -> Moment {
        let (full, cost) = (now.saturating_sub(self.depth), time_of(bytes, self.rate));
        let then = |earned: Moment| earned.max(full).saturating_add(cost);
        // It always has a next value.
        let before = self
            .earned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |earned| {
                Some(then(earned))
            });
        then(before.unwrap_or_else(|earned| earned))
    }

    /// Gives back unused reservations. Directions that wait already do so until their own time.
    fn give_back(&self, bytes: u64) {
        let cost = time_of(bytes, self.rate);
        let less = |earned: Moment| Some(earned.saturating_sub(cost));
        let _ = self
            .earned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// The time of this many bytes at this rate, to the next nanosecond.
fn time_of(bytes: u64, rate: NonZeroU64) -> Moment {
    // Pieces are far from where this would not fit.
    bytes.saturating_mul(SECOND).div_ceil(rate.get())
}

/// The smallest piece of all buckets.
fn piece(buckets: &[Arc<SharedRate>], now: Moment) -> u64 {
    buckets
        .iter()
        .map(|bucket| bucket.piece(now))
        .min()
        .unwrap_or(MOST)
}
