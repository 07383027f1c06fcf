//! When requests are due: how many a second, and the moment of each.
//!
//! Knows no clock. Every moment is computed from the request's index alone, so that nothing adds up
//! over hours and a request that is late makes no other one late.

use std::fmt;
use std::time::Duration;

/// Requests a second: finite, and from [`RequestRate::LOWEST`] to [`RequestRate::HIGHEST`].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct RequestRate(f64);

/// Error of a number that is no rate.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "{0} requests a second is no rate: it must be from 0.000001 (one in 11 days) to 1,000,000,000"
)]
pub struct RateError(pub f64);

impl RequestRate {
    /// One request in eleven days.
    pub const LOWEST: f64 = 1e-6;
    /// One request in a nanosecond, which is the resolution of the clock.
    pub const HIGHEST: f64 = 1e9;

    /// A rate of requests a second, fractions included.
    ///
    /// # Errors
    /// The number is beyond the limits, or NaN.
    pub fn new(per_second: f64) -> Result<Self, RateError> {
        let within = (Self::LOWEST..=Self::HIGHEST).contains(&per_second);
        if within {
            Ok(Self(per_second))
        } else {
            Err(RateError(per_second))
        }
    }

    /// The number of requests a second.
    pub fn per_second(self) -> f64 {
        self.0
    }
}

/// As people write it, to six digits behind the point: `1000/s`, `0.1/s`.
impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.6}", self.0);
        write!(f, "{}/s", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Due times of the requests of one stage. After the end of a ramp or spike its last rate goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// One rate from begin to end.
    Constant(RequestRate),
    /// A rate that changes evenly from one to another.
    Ramp {
        /// Rate at the begin of the ramp.
        from: RequestRate,
        /// Rate at the end, and after it.
        to: RequestRate,
        /// Time from one rate to the other.
        over: Duration,
    },
    /// Another rate for a while.
    Spike {
        /// Rate before and after the spike.
        base: RequestRate,
        /// Rate during the spike; a lower one is a dip.
        peak: RequestRate,
        /// Time from the begin of the stage to the spike.
        at: Duration,
        /// How long the spike lasts.
        lasts: Duration,
    },
}

impl Schedule {
    /// The rate at the begin.
    pub fn initial_rate(&self) -> RequestRate {
        match *self {
            Self::Constant(rate)
            | Self::Ramp { from: rate, .. }
            | Self::Spike { base: rate, .. } => rate,
        }
    }

    /// When the request of this index, from 0 on, is due after the stage has begun: to the nearest
    /// nanosecond for months, and [`Duration::MAX`] where no duration is long enough.
    ///
    /// The inverse of how many are due until a moment, which is the integral of the rate.
    pub fn due(&self, index: u64) -> Duration {
        let index = index as f64;
        let seconds = match *self {
            Self::Constant(rate) => index / rate.0,
            Self::Ramp {
                from: RequestRate(from),
                to: RequestRate(to),
                over,
            } => {
                let over = over.as_secs_f64();
                let total = (from + to) / 2.0 * over;
                if index < total {
                    // The square of the rate grows linearly with the index. As a weighted mean of
                    // both ends it needs no difference of nearly equal numbers, and no division by
                    // the slope, which may be tiny or negative.
                    let squares = from * from * (total - index) + to * to * index;
                    let now = (squares / total).sqrt();
                    // So far the rate was, on average, in the middle between its first value and
                    // this one.
                    index / ((from + now) / 2.0)
                } else {
                    over + (index - total) / to
                }
            }
            Self::Spike {
                base: RequestRate(base),
                peak: RequestRate(peak),
                at,
                lasts,
            } => {
                let (at, lasts) = (at.as_secs_f64(), lasts.as_secs_f64());
                let (before, meanwhile) = (base * at, peak * lasts);
                if index < before {
                    index / base
                } else if index < before + meanwhile {
                    at + (index - before) / peak
                } else {
                    at + lasts + (index - before - meanwhile) / base
                }
            }
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// How many requests are due before `duration` is over, and so the index of the first that is
    /// not.
    ///
    /// Looked for among the moments that [`Schedule::due`] gives: an integral of its own would
    /// round otherwise.
    pub fn count(&self, duration: Duration) -> u64 {
        let (mut low, mut high) = (0, u64::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.due(middle) < duration {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Name for people: `1000/s`, `1000/s to 5000/s`, `1000/s, from 5s for 2s 10000/s`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(rate) => write!(f, "{rate}"),
            Self::Ramp { from, to, .. } => write!(f, "{from} to {to}"),
            Self::Spike {
                base,
                peak,
                at,
                lasts,
            } => write!(f, "{base}, from {at:?} for {lasts:?} {peak}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn rate(per_second: f64) -> RequestRate {
        RequestRate::new(per_second).unwrap()
    }

    fn constant(per_second: f64) -> Schedule {
        Schedule::Constant(rate(per_second))
    }

    fn ramp(from: f64, to: f64, over: f64) -> Schedule {
        Schedule::Ramp {
            from: rate(from),
            to: rate(to),
            over: Duration::from_secs_f64(over),
        }
    }

    fn spike(base: f64, peak: f64, at: f64, lasts: f64) -> Schedule {
        let [at, lasts] = [at, lasts].map(Duration::from_secs_f64);
        Schedule::Spike {
            base: rate(base),
            peak: rate(peak),
            at,
            lasts,
        }
    }

    #[test]
    fn a_rate_is_a_number_that_a_clock_can_keep() {
        for absurd in [
            0.0,
            -0.0,
            -1.0,
            1e-7,
            1e15,
            1.000_000_1e9,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ] {
            let error = RequestRate::new(absurd).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{absurd} requests a second is no rate")),
                "{error}"
            );
        }
        for (per_second, text) in [
            (1e-6, "0.000001/s"),
            (0.1 + 0.2, "0.3/s"),
            (1.0, "1/s"),
            (2500.0, "2500/s"),
            (1e9, "1000000000/s"),
        ] {
            assert_eq!(rate(per_second).to_string(), text);
        }
    }

    #[test]
    fn every_request_has_its_moment() {
        for (schedule, index, nanos) in [
            (constant(1000.0), 0, 0),
            (constant(1000.0), 1, 1_000_000),
            (constant(3.0), 1, 333_333_333),
            (constant(3.0), 2, 666_666_667),
            (constant(3.0), 3, 1_000_000_000),
            (constant(0.1), 7, 70_000_000_000),
            // After ten hours to the nanosecond.
            (constant(30_000.0), 30_000 * 36_000, 36_000_000_000_000),
            (constant(30_000.0), 30_000 * 36_000 + 1, 36_000_000_033_333),
            (constant(100.0 / 60.0), 100 * 600, 36_000_000_000_000),
            // t²/2 + 10 t.
            (ramp(10.0, 20.0, 10.0), 48, 4_000_000_000),
            (ramp(10.0, 20.0, 10.0), 150, 10_000_000_000),
            (ramp(10.0, 20.0, 10.0), 152, 10_100_000_000),
            // 20 t - t²/2.
            (ramp(20.0, 10.0, 10.0), 72, 4_000_000_000),
            (ramp(20.0, 10.0, 10.0), 150, 10_000_000_000),
            (ramp(20.0, 10.0, 10.0), 151, 10_100_000_000),
            (ramp(5.0, 9.0, 0.0), 9, 1_000_000_000),
            (spike(1000.0, 10_000.0, 5.0, 2.0), 4_999, 4_999_000_000),
            (spike(1000.0, 10_000.0, 5.0, 2.0), 5_000, 5_000_000_000),
            (spike(1000.0, 10_000.0, 5.0, 2.0), 5_001, 5_000_100_000),
            (spike(1000.0, 10_000.0, 5.0, 2.0), 25_000, 7_000_000_000),
            (spike(1000.0, 10_000.0, 5.0, 2.0), 25_001, 7_001_000_000),
            (spike(1000.0, 10.0, 0.0, 1.0), 1, 100_000_000),
            (spike(1000.0, 10.0, 1.0, 0.0), 2_000, 2_000_000_000),
        ] {
            assert_eq!(schedule.due(index).as_nanos(), nanos, "{schedule}: {index}");
        }
    }

    #[test]
    fn so_many_are_due_as_the_rate_says() {
        let second = Duration::from_secs(1);
        for (schedule, duration, count) in [
            (constant(1000.0), Duration::ZERO, 0),
            (constant(1000.0), Duration::from_nanos(1), 1),
            (constant(1000.0), 10 * second, 10_000),
            (constant(3.0), 10 * HOUR, 108_000),
            (constant(0.1), 5 * second, 1),
            (constant(0.1), 10 * second, 1),
            (constant(0.1), 11 * second, 2),
            (constant(1e9), HOUR, 3_600_000_000_000),
            (ramp(1000.0, 25_000.0, 60.0), 60 * second, 780_000),
            (ramp(25_000.0, 1000.0, 60.0), 60 * second, 780_000),
            (ramp(10.0, 20.0, 10.0), second, 11),
            (spike(1000.0, 10_000.0, 5.0, 2.0), 10 * second, 28_000),
        ] {
            assert_eq!(schedule.count(duration), count, "{schedule}: {duration:?}");
        }
    }

    /// The textbook solution would divide by the slope and subtract nearly equal numbers.
    #[test]
    fn a_ramp_that_hardly_rises_is_a_constant_rate() {
        for slope in [0.0, 2e-13, -2e-13, 4e-12, -4e-12] {
            let ramp = ramp(1000.0, 1000.0 + slope, 36_000.0);
            for index in [1, 999, 1_000_000, 36_000_000 - 1] {
                assert_eq!(
                    ramp.due(index),
                    constant(1000.0).due(index),
                    "{slope}: {index}"
                );
            }
        }
    }

    #[test]
    fn requests_counted_are_requests_due() {
        let mut random = fastrand::Rng::with_seed(12_021);
        let mut draw = |low: f64, high: f64| (low.ln() + random.f64() * (high / low).ln()).exp();
        for _ in 0..3_000 {
            let mut any = || {
                draw(RequestRate::LOWEST, RequestRate::HIGHEST)
                    .clamp(RequestRate::LOWEST, RequestRate::HIGHEST)
            };
            let (a, b) = (any(), any());
            let mut time = || draw(1e-9, 1e6);
            let (t, d) = (time(), time());
            for schedule in [
                constant(a),
                ramp(a, b, t),
                ramp(a, a * 1.000_000_1, t),
                spike(a, b, t, d),
            ] {
                for duration in [t, d, t + d, t / 3.0].map(Duration::from_secs_f64) {
                    let count = schedule.count(duration);
                    assert!(
                        duration <= schedule.due(count),
                        "{schedule:?} {duration:?} {count}"
                    );
                    assert!(
                        count == 0 || schedule.due(count - 1) < duration,
                        "{schedule:?} {duration:?} {count}"
                    );
                    // Neither moment is before the one of its predecessor.
                    assert!(
                        count < 2 || schedule.due(count - 2) <= schedule.due(count - 1),
                        "{schedule:?} {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_index_and_no_duration_is_too_large() {
        let far = Duration::MAX.as_secs_f64() / 2.0;
        for (a, b) in [
            (RequestRate::LOWEST, RequestRate::HIGHEST),
            (RequestRate::HIGHEST, RequestRate::LOWEST),
            (1.0, 1.0),
        ] {
            for schedule in [
                constant(a),
                ramp(a, b, far),
                ramp(a, b, 1e-9),
                spike(a, b, far, far),
                spike(a, b, 1.0, far),
            ] {
                assert!(schedule.due(u64::MAX) >= schedule.due(u64::MAX / 2));
                assert!(schedule.count(Duration::MAX) >= schedule.count(Duration::MAX / 2));
            }
        }
        assert_eq!(constant(RequestRate::LOWEST).due(u64::MAX), Duration::MAX);
        assert_eq!(
            constant(RequestRate::HIGHEST).count(Duration::MAX),
            u64::MAX
        );
    }
}
