//! Seconds of a stage, as one thread counts them.

use crate::nanos::Nanoseconds;

const SECOND: Nanoseconds = 1_000_000_000;

/// The second of a stage that goes on. The last second ends with the stage's time, so that it may
/// be a part of a second. Exchanges that end later are in no second: their index is the number of
/// seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct StageSeconds {
    /// Begin of the stage.
    begin: Nanoseconds,
    /// End of the stage's time; the far future where a count ends the stage.
    end: Nanoseconds,
    /// Index of the second that goes on.
    pub(super) index: usize,
    /// End of the second that goes on.
    until: Nanoseconds,
}

impl StageSeconds {
    pub(super) fn new(begin: Nanoseconds, end: Nanoseconds) -> Self {
        Self {
            begin,
            end,
            index: 0,
            until: begin.saturating_add(SECOND).min(end),
        }
    }

    /// Goes on to the second of `now`; returns the index of the second that has ended, if one has.
    pub(super) fn advance(&mut self, now: Nanoseconds) -> Option<usize> {
        if now < self.until {
            return None;
        }
        let ended = self.index;
        if now >= self.end {
            self.index = (self.end - self.begin).div_ceil(SECOND) as usize;
            self.until = Nanoseconds::MAX;
        } else {
            let passed = (now - self.begin) / SECOND;
            self.index = passed as usize;
            self.until = self
                .begin
                .saturating_add((passed + 1) * SECOND)
                .min(self.end);
        }
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_second_ends_with_the_time_of_the_stage() {
        let mut seconds = StageSeconds::new(7, 7 + 2 * SECOND + SECOND / 2);
        for (now, ended, index) in [
            (7 + SECOND - 1, None, 0),
            (7 + SECOND, Some(0), 1),
            (7 + 2 * SECOND + 1, Some(1), 2),
            (7 + 2 * SECOND + SECOND / 2, Some(2), 3),
            // What ends later is in no second, however late it is.
            (7 + 9 * SECOND, None, 3),
        ] {
            assert_eq!((seconds.advance(now), seconds.index), (ended, index));
        }
    }

    #[test]
    fn without_an_end_seconds_are_skipped_as_time_passes() {
        let mut seconds = StageSeconds::new(0, Nanoseconds::MAX);
        assert_eq!(seconds.advance(5 * SECOND + 1), Some(0));
        assert_eq!(seconds.index, 5);
        assert_eq!(seconds.advance(6 * SECOND - 1), None);
        assert_eq!(seconds.advance(6 * SECOND), Some(5));
    }
}
