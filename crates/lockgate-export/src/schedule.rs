//! When readings are due: at the multiples of an interval since 1970, so that the points of several
//! machines have the same times.
//!
//! The clock of the day is an argument. It may jump: there is one reading for each wait all the same,
//! and a wait is never shorter than half an interval nor longer than one and a half.

use std::time::Duration;

/// The interval of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    every: u128,
}

/// A reading that is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Its time since 1970: a multiple of the interval.
    pub time: Duration,
    /// How long the next one is waited for.
    pub wait: Duration,
}

impl Schedule {
    /// A reading so often, which is not never.
    pub fn new(every: Duration) -> Self {
        Self {
            every: every.as_nanos().max(1),
        }
    }

    /// How long the first reading is waited for, when the time since 1970 is `now`.
    pub fn first_wait(self, now: Duration) -> Duration {
        nanos(self.every - now.as_nanos() % self.every)
    }

    /// The reading for which was waited until `now`, the time since 1970. It has the time of the
    /// nearest multiple: timers are late, and clocks are put right a little.
    pub fn tick(self, now: Duration) -> Tick {
        let (now, every) = (now.as_nanos(), self.every);
        let time = (now + every / 2) / every * every;
        Tick {
            time: nanos(time),
            wait: nanos(time + every - now),
        }
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn readings_have_the_times_of_the_nearest_multiples() {
        let schedule = Schedule::new(ms(10_000));
        for (now, wait) in [(0, 10_000), (1, 9_999), (9_999, 1), (1_000_003, 9_997)] {
            assert_eq!(schedule.first_wait(ms(now)), ms(wait), "{now}");
        }
        for (now, time, wait) in [
            // In time, late, early, and half an interval away.
            (100_000, 100_000, 10_000),
            (100_003, 100_000, 9_997),
            (99_998, 100_000, 10_002),
            (105_000, 110_000, 15_000),
            (104_999, 100_000, 5_001),
        ] {
            let tick = Tick {
                time: ms(time),
                wait: ms(wait),
            };
            assert_eq!(schedule.tick(ms(now)), tick, "{now}");
        }
    }

    #[test]
    fn a_clock_that_jumps_brings_neither_a_burst_nor_a_gap() {
        let schedule = Schedule::new(ms(10_000));
        // The clock of the day, as it is after each wait: an hour forward, and back.
        let jumps = [0, 3_600_000, 3_600_000, 0, 4_000, 0_u64];
        let mut slept = ms(100_000);
        for jump in jumps {
            let tick = schedule.tick(slept + ms(jump));
            assert!((ms(5_000)..=ms(15_000)).contains(&tick.wait), "{tick:?}");
            assert_eq!(tick.time.as_secs() % 10, 0);
            slept += tick.wait;
        }
    }
}
