//! Rates that hold for the process: token buckets that workers share, one atomic word each. Pure
//! arithmetic on given time.
//!
//! A bucket is GCRA (the leaky bucket of ITU-T I.371): it keeps until when the bytes that were
//! asked for so far are earned. Whoever wants to move bytes reserves a piece, which is earned at a
//! certain moment, and waits until then. So those who wait have their turns in the order of asking,
//! across workers, without a queue; what is reserved and not moved is given back. The rate is exact
//! in the long run: late alarms cost nothing up to [`BURST`].
//!
//! Does not wait: see [`Shaper`] and [`Line`].

mod line;
mod shaper;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use line::Place;
pub use line::{Line, now};
pub use shaper::Shaper;

/// Nanoseconds since some moment before the process began, the same for all of its threads.
pub type Moment = u64;

/// What may be saved while nothing moves, in time: one twentieth of a second's worth, or one piece.
pub const BURST: Moment = SECOND / 20;
/// A piece in time, unless it is too many bytes or too few: wake-ups are what shaping costs.
const PIECE: Moment = SECOND / 50;
/// The largest: what the sockets of both sides hold without being asked to.
const MOST: u64 = 2 * 1024 * 1024;
/// The smallest: a packet.
const LEAST: u64 = 1_500;
const SECOND: Moment = 1_000_000_000;

/// So many bytes a second, for all who share it.
#[derive(Debug)]
pub struct Bucket {
    rate: NonZeroU64,
    /// A piece while nobody else waits.
    piece: u64,
    /// What may be saved, in time.
    depth: Moment,
    /// When everything that was reserved so far is earned.
    earned: AtomicU64,
}

impl Bucket {
    /// A full bucket that earns `rate` bytes a second.
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

    /// Whether it is as full at `now` as it gets: then it is as good as a new one.
    pub fn is_full(&self, now: Moment) -> bool {
        self.earned.load(Ordering::Relaxed) <= now.saturating_sub(self.depth)
    }

    /// What is worth waiting for. Where many wait pieces are smaller, so that turns come round
    /// sooner: that of the last one in a line of `n` by the square root of `n`.
    fn piece(&self, now: Moment) -> u64 {
        let wait = self.earned.load(Ordering::Relaxed).saturating_sub(now);
        (self.piece * PIECE / PIECE.saturating_add(wait)).max(LEAST)
    }

    /// Takes so many bytes, and says when they are earned.
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

    /// Gives back what was reserved and not moved. Others who wait already do so as long as they
    /// were told.
    fn give_back(&self, bytes: u64) {
        let cost = time_of(bytes, self.rate);
        let less = |earned: Moment| Some(earned.saturating_sub(cost));
        let _ = self
            .earned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// What so many bytes take at this rate, to the next nanosecond.
fn time_of(bytes: u64, rate: NonZeroU64) -> Moment {
    // Pieces are far from where this would not fit.
    bytes.saturating_mul(SECOND).div_ceil(rate.get())
}

/// What is asked for of all of them: the smallest piece of any.
fn piece(buckets: &[Arc<Bucket>], now: Moment) -> u64 {
    buckets
        .iter()
        .map(|bucket| bucket.piece(now))
        .min()
        .unwrap_or(MOST)
}
