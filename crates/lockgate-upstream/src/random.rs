//! Random numbers for load balancing and jitter. Not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): an
/// addition and five operations a number, and no seed is a bad one.
#[derive(Debug)]
pub struct Random {
    state: Cell<u64>,
}

impl Random {
    /// A generator with a seed of the system.
    pub fn new() -> Self {
        // The hasher's keys are the standard library's only source of system randomness.
        Self::seeded(RandomState::new().hash_one(0))
    }

    /// A generator with a fixed sequence.
    pub fn seeded(seed: u64) -> Self {
        Self {
            state: Cell::new(seed),
        }
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        mix(state)
    }

    /// `time`, plus or minus a tenth, so that periodic work does not synchronise.
    pub fn about(&self, time: Duration) -> Duration {
        time.mul_f64(0.9 + 0.2 * (self.next() >> 32) as f64 / f64::from(u32::MAX))
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

/// Spreads a change of one bit over all of them.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_random_numbers() {
        let (one, other) = (Random::seeded(7), Random::seeded(7));
        assert!((0..100).all(|_| one.next() == other.next()));
        assert_ne!(Random::new().next(), Random::new().next());
    }

    #[test]
    fn jitter_is_within_a_tenth_of_a_duration() {
        let random = Random::seeded(1);
        let times: Vec<_> = (0..1_000)
            .map(|_| random.about(Duration::from_secs(100)).as_secs())
            .collect();
        assert_eq!(
            (times.iter().min(), times.iter().max()),
            (Some(&90), Some(&109))
        );
    }

    #[test]
    fn every_random_bit_is_set_half_the_time() {
        let random = Random::seeded(1);
        let numbers: Vec<u64> = (0..4096).map(|_| random.next()).collect();
        for bit in 0..64 {
            let set = numbers
                .iter()
                .filter(|number| *number >> bit & 1 == 1)
                .count();
            assert!((1900..2200).contains(&set), "bit {bit}: {set}");
        }
    }
}
