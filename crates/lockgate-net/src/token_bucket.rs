//! Token buckets: the arithmetic of all rate limits, on time that the caller gives.
//!
//! A bucket is GCRA (the virtual scheduling of ITU-T I.371): one number, the time when it is full
//! again if nothing more is taken. A token costs the time in which it is earned, so nothing is
//! added as time passes, and taking one needs no division.
//!
//! Does not know what the tokens are for, and does not wait.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::nanos::Nanos;

/// A rate of single tokens, and the depth of its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRate {
    /// The time in which one token is earned.
    cost: Nanos,
    /// The time in which an empty bucket is full again.
    depth: Nanos,
}

impl TokenRate {
    /// `count` tokens in each `period`, up to `burst` at once. A rate above one in a nanosecond is
    /// one in a nanosecond.
    pub fn new(count: NonZeroU32, period: Duration, burst: NonZeroU32) -> Self {
        let cost = Nanos::new((Nanos::from(period).as_u64() / u64::from(count.get())).max(1));
        Self {
            cost,
            depth: u64::from(burst.get()) * cost,
        }
    }
}

/// A bucket with one owner. The default is a full one.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenBucket {
    full_at: Nanos,
}

impl TokenBucket {
    /// Takes a token.
    ///
    /// # Errors
    /// The time until there is one, if the bucket is empty: then nothing is taken.
    pub fn take(&mut self, rate: TokenRate, now: Nanos) -> Result<(), Nanos> {
        let after = self.after(rate.cost, now);
        // At most one token is missing; where it looks like more, `now` is behind.
        let missing = (after.full_at - now - rate.depth).min(rate.cost);
        if missing > Nanos::ZERO {
            return Err(missing);
        }
        *self = after;
        Ok(())
    }

    /// The time from which on it is as good as a new one.
    pub fn full_at(self) -> Nanos {
        self.full_at
    }

    /// The bucket after tokens of this cost have been taken, whether or not they were there.
    fn after(self, cost: Nanos, now: Nanos) -> Self {
        Self {
            full_at: self.full_at.max(now) + cost,
        }
    }
}

/// A bucket that threads share: one atomic word. Tokens are reserved before they are earned.
#[derive(Debug)]
pub struct SharedTokenBucket {
    depth: Nanos,
    full_at: AtomicU64,
}

impl SharedTokenBucket {
    /// A full bucket that saves tokens worth `depth`.
    pub fn new(depth: Nanos) -> Self {
        Self {
            depth,
            full_at: AtomicU64::new(0),
        }
    }

    /// Whether it is full: then it is as good as a new one.
    pub fn is_full(&self, now: Nanos) -> bool {
        self.load().full_at <= now
    }

    /// The time until all reserved tokens are earned.
    pub fn debt(&self, now: Nanos) -> Nanos {
        self.load().full_at - self.depth - now
    }

    /// Reserves tokens of this cost, and returns the time when they are earned.
    pub fn reserve(&self, cost: Nanos, now: Nanos) -> Nanos {
        let after = |full_at| {
            let bucket = TokenBucket {
                full_at: Nanos::new(full_at),
            };
            bucket.after(cost, now).full_at
        };
        let before = self.update(|full_at| after(full_at).as_u64());
        after(before) - self.depth
    }

    /// Gives back unused tokens. Reservations after them are earned no sooner for that.
    pub fn give_back(&self, cost: Nanos) {
        self.update(|full_at| full_at.saturating_sub(cost.as_u64()));
    }

    fn load(&self) -> TokenBucket {
        TokenBucket {
            full_at: Nanos::new(self.full_at.load(Ordering::Relaxed)),
        }
    }

    /// Replaces the word, and returns the one before.
    fn update(&self, next: impl Fn(u64) -> u64) -> u64 {
        // There always is a next word.
        self.full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                Some(next(word))
            })
            .unwrap_or_else(|word| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn an_empty_bucket_tells_the_time_until_the_next_token() {
        let some = |number| NonZeroU32::new(number).unwrap();
        let rate = TokenRate::new(some(100), Duration::from_secs(1), some(3));
        let (mut bucket, now) = (TokenBucket::default(), 1_000 * MS);
        for _ in 0..3 {
            assert_eq!(bucket.take(rate, now), Ok(()));
        }
        assert_eq!(bucket.take(rate, now), Err(10 * MS));
        assert_eq!(bucket.take(rate, now + 4 * MS), Err(6 * MS));
        assert_eq!(bucket.take(rate, now + 10 * MS), Ok(()));
        assert_eq!(bucket.full_at(), now + 40 * MS);
    }

    #[test]
    fn reserved_tokens_are_earned_in_turn_and_can_be_given_back() {
        let (bucket, now) = (SharedTokenBucket::new(20 * MS), 1_000 * MS);
        assert!(bucket.is_full(now));
        assert_eq!(bucket.reserve(20 * MS, now), now);
        assert_eq!(bucket.reserve(5 * MS, now), now + 5 * MS);
        assert_eq!(bucket.debt(now), 5 * MS);
        bucket.give_back(5 * MS);
        assert_eq!(bucket.debt(now), Nanos::ZERO);
        assert!(!bucket.is_full(now + 19 * MS) && bucket.is_full(now + 20 * MS));
    }
}
