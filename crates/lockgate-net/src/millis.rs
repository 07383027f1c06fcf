//! Time in milliseconds.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Milliseconds: a span of time, or a moment since the origin of the workers' clocks. A type of its
/// own, because rates count nanoseconds. Arithmetic saturates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(u64);

impl Millis {
    /// No time, or the origin.
    pub const ZERO: Self = Self(0);
    /// 584 million years: never.
    pub const MAX: Self = Self(u64::MAX);

    /// This many milliseconds.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// This many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// The number of milliseconds.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        u64::try_from(duration.as_millis()).map_or(Self::MAX, Self)
    }
}

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        Self::from_millis(millis.0)
    }
}

impl Add for Millis {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Millis {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
