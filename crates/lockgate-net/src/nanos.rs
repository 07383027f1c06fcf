//! Time in nanoseconds.

use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Duration;

use crate::millis::Millis;

/// Nanoseconds: a span of time, or a moment since an origin that all its users share. A type of its
/// own, because workers' clocks count milliseconds. Arithmetic saturates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(u64);

impl Nanos {
    /// No time, or the origin.
    pub const ZERO: Self = Self(0);
    /// 584 years: never.
    pub const MAX: Self = Self(u64::MAX);

    /// This many nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// This many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// This many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The number of nanoseconds.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The earliest multiple of `step` that is not before this.
    #[must_use]
    pub fn next_multiple_of(self, step: Self) -> Self {
        self.0
            .checked_next_multiple_of(step.0)
            .map_or(Self::MAX, Self)
    }
}

impl From<Millis> for Nanos {
    fn from(millis: Millis) -> Self {
        Self::from_millis(millis.as_u64())
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        u64::try_from(duration.as_nanos()).map_or(Self::MAX, Self)
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<Nanos> for u64 {
    type Output = Nanos;

    fn mul(self, unit: Nanos) -> Nanos {
        Nanos(self.saturating_mul(unit.0))
    }
}
