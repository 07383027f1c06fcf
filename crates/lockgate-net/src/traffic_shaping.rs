//! Rate limits of the process, in bytes: token buckets that workers share. Pure arithmetic on given
//! times.
//!
//! A direction that wants to move bytes reserves a piece, which is earned at a certain time, and
//! waits until then. So waiting directions have their turns in the order of reservation, across
//! workers, without a queue; unused reservations are given back. The rate is exact in the long run:
//! late alarms cost nothing up to [`BURST`].
//!
//! Does not wait: see [`Shaper`] and [`ShapingQueue`].

mod shaper;
mod shaping_queue;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::nanos::Nanos;
use crate::token_bucket::SharedTokenBucket;

pub use shaper::Shaper;
pub(crate) use shaping_queue::QueuedWait;
pub use shaping_queue::{ShapingQueue, now};

/// The most time that is saved while nothing moves: one twentieth of a second, or one piece.
pub const BURST: Nanos = Nanos::from_millis(50);
/// The length of a piece in time, unless it is too many bytes or too few: wake-ups are the cost of
/// shaping.
const PIECE: Nanos = Nanos::from_millis(20);
/// The number of pieces in a second.
const PIECES: u64 = 50;
/// The largest piece: the usual buffers of both sides' sockets.
const MOST: u64 = 2 * 1024 * 1024;
/// The smallest piece: a packet.
const LEAST: u64 = 1_500;

/// A rate in bytes per second, shared by all its users.
#[derive(Debug)]
pub struct SharedRate {
    rate: NonZeroU64,
    /// The size of a piece without contention.
    piece: u64,
    bucket: SharedTokenBucket,
}

impl SharedRate {
    /// A full bucket that earns `rate` bytes per second.
    pub fn new(rate: NonZeroU64) -> Arc<Self> {
        let piece = (rate.get() / PIECES).clamp(LEAST, MOST);
        let depth = BURST.max(time_of(piece, rate));
        Arc::new(Self {
            rate,
            piece,
            bucket: SharedTokenBucket::new(depth),
        })
    }

    /// Whether its bucket is full at `now`: then it is as good as a new one.
    pub fn is_full(&self, now: Nanos) -> bool {
        self.bucket.is_full(now)
    }

    /// The size of a piece. With contention pieces are smaller, so that turns come round sooner:
    /// that of the last one in a line of `n` by the square root of `n`.
    fn piece(&self, now: Nanos) -> u64 {
        let contended = PIECE + self.bucket.debt(now);
        (self.piece * PIECE.as_u64() / contended.as_u64()).max(LEAST)
    }

    /// Reserves bytes, and returns the time when they are earned.
    fn reserve(&self, bytes: u64, now: Nanos) -> Nanos {
        self.bucket.reserve(time_of(bytes, self.rate), now)
    }

    /// Gives back unused reservations. Directions that wait already do so until their own time.
    fn give_back(&self, bytes: u64) {
        self.bucket.give_back(time_of(bytes, self.rate));
    }
}

/// The time of this many bytes at this rate, to the next nanosecond.
fn time_of(bytes: u64, rate: NonZeroU64) -> Nanos {
    // Pieces are far from where this would not fit.
    let bytes_seconds = bytes * Nanos::from_secs(1);
    Nanos::new(bytes_seconds.as_u64().div_ceil(rate.get()))
}

/// The smallest piece of all buckets.
fn piece(buckets: &[Arc<SharedRate>], now: Nanos) -> u64 {
    buckets
        .iter()
        .map(|bucket| bucket.piece(now))
        .min()
        .unwrap_or(MOST)
}
