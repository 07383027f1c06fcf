//! The peaks of the last hour: how much of each limit was in use at most.
//!
//! Kept by minute and of a fixed size. Seen every [`STEP`], so that a shorter peak may be missed: no
//! worker counts for it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::exposition::LimitFigures;

/// The time between two looks.
pub(super) const STEP: Duration = Duration::from_secs(10);
/// Looks of a minute.
const MINUTE: u64 = 60 / STEP.as_secs();
/// Full minutes that are kept.
const MINUTES: usize = 59;

/// What is in use of each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitPeaks {
    pub(crate) connections: usize,
    /// Sockets towards endpoints that are not idle.
    pub(crate) sockets: usize,
    pub(crate) handshakes: usize,
    /// In bytes.
    pub(crate) memory: usize,
}

/// The peaks of the last hour.
#[derive(Debug, Default)]
pub(super) struct UsagePeaks {
    /// Those of full minutes, the oldest first.
    minutes: VecDeque<LimitPeaks>,
    /// Those of the minute that is not over.
    minute: LimitPeaks,
    looks: u64,
}

impl LimitPeaks {
    /// What is in use now.
    pub(super) fn now(limits: &LimitFigures) -> Self {
        Self {
            connections: limits.connections.used,
            sockets: limits.sockets.used.saturating_sub(limits.sockets_idle),
            handshakes: limits.handshakes.used,
            memory: limits.memory_used,
        }
    }

    /// The greater of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            connections: self.connections.max(other.connections),
            sockets: self.sockets.max(other.sockets),
            handshakes: self.handshakes.max(other.handshakes),
            memory: self.memory.max(other.memory),
        }
    }
}

impl UsagePeaks {
    /// Takes up what is in use; due every [`STEP`].
    pub(super) fn take(&mut self, now: LimitPeaks) {
        self.minute = self.minute.max(now);
        self.looks += 1;
        if self.looks == MINUTE {
            if self.minutes.len() == MINUTES {
                self.minutes.pop_front();
            }
            self.minutes.push_back(std::mem::take(&mut self.minute));
            self.looks = 0;
        }
    }

    /// The peaks, and the span that they are of: up to an hour.
    pub(super) fn peaks(&self) -> (LimitPeaks, Duration) {
        let all = self.minutes.iter().copied();
        let looks = self.looks + MINUTE * self.minutes.len() as u64;
        let span = STEP * u32::try_from(looks).unwrap_or(u32::MAX);
        (all.fold(self.minute, LimitPeaks::max), span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(connections: usize) -> LimitPeaks {
        LimitPeaks {
            connections,
            ..LimitPeaks::default()
        }
    }

    #[test]
    fn a_peak_is_kept_for_an_hour() {
        let mut peaks = UsagePeaks::default();
        assert_eq!(peaks.peaks(), (LimitPeaks::default(), Duration::ZERO));
        peaks.take(connections(9));
        peaks.take(LimitPeaks {
            memory: 5,
            ..connections(3)
        });
        let (both, span) = peaks.peaks();
        assert_eq!((both.connections, both.memory), (9, 5));
        assert_eq!(span, 2 * STEP);
        let hour = 60 * MINUTE;
        (2..hour - 1).for_each(|_| peaks.take(connections(1)));
        assert_eq!(peaks.peaks().0.connections, 9);
        (0..hour).for_each(|_| peaks.take(connections(1)));
        let (later, span) = peaks.peaks();
        assert_eq!(later.connections, 1);
        assert!(span <= Duration::from_secs(3_600), "{span:?}");
    }
}
