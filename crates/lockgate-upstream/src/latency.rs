//! The average latency of an endpoint, which rises at once and falls slowly.
//!
//! Peak EWMA as in Finagle's balancer (`PeakEwma.scala`) and Linkerd's proxy: a response slower
//! than the average becomes the average, quicker ones pull it down, each for as much of [`DECAY`]
//! as has passed. Without responses it decays to nothing, so that a slow endpoint is tried again.
//! Shared by the workers; does not choose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockgate_net::millis::Millis;

/// After so long an old average counts for 1/e; Finagle's and Linkerd's default.
const DECAY: f32 = 10_000.0;
/// Low bits of the milliseconds that the time of an average lacks. The clocks of the workers are no
/// more exact than a tick, and 32 bits of the rest last for eight years.
const COARSE: u32 = 6;

/// The average and its time, in one word: no worker sees half of an update.
///
/// An update that is lost to another worker's is one sample among thousands, so a plain store is
/// enough. Most responses do not store at all: within one unit of time only a new peak counts.
#[derive(Debug, Default)]
pub struct Latency(AtomicU64);

impl Latency {
    /// The average now in microseconds; `None` before the first response. `now` is
    /// [`lockgate_limits::clock::Clock::now`], here and below.
    pub fn now(&self, now: Millis) -> Option<f32> {
        let (average, made) = self.load()?;
        Some(match elapsed(made, now) {
            0.0 => average,
            elapsed => average * (-elapsed / DECAY).exp(),
        })
    }

    /// Adds the latency of a response.
    pub fn observe(&self, took: Duration, now: Millis) {
        let took = micros(took);
        let next = match self.load() {
            None => took,
            Some((average, _)) if took >= average => took,
            Some((average, made)) => match elapsed(made, now) {
                0.0 => return,
                elapsed => {
                    let kept = (-elapsed / DECAY).exp();
                    average * kept + took * (1.0 - kept)
                }
            },
        };
        self.store(next, now);
    }

    /// Adds the latency so far of a response that is not there yet.
    pub fn at_least(&self, waited: Duration, now: Millis) {
        if self.now(now).is_none_or(|average| micros(waited) > average) {
            self.store(micros(waited), now);
        }
    }

    /// Forgets the average.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn load(&self) -> Option<(f32, u32)> {
        let word = self.0.load(Ordering::Relaxed);
        // No average is 0: see `micros`.
        (word != 0).then(|| (f32::from_bits((word >> 32) as u32), word as u32))
    }

    fn store(&self, average: f32, now: Millis) {
        let word = (u64::from(average.max(1.0).to_bits()) << 32) | u64::from(coarse(now));
        self.0.store(word, Ordering::Relaxed);
    }
}

fn coarse(now: Millis) -> u32 {
    (now.as_u64() >> COARSE) as u32
}

/// Milliseconds from `made` to `now`; none where another worker's clock is ahead.
fn elapsed(made: u32, now: Millis) -> f32 {
    let units = coarse(now).wrapping_sub(made).cast_signed().max(0);
    (units as f32) * (1_u32 << COARSE) as f32
}

fn micros(time: Duration) -> f32 {
    (time.as_secs_f32() * 1e6).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// In milliseconds, rounded.
    fn average(latency: &Latency, now: u64) -> Option<u32> {
        latency
            .now(Millis::new(now))
            .map(|micros| (micros / 1e3).round() as u32)
    }

    #[test]
    fn a_latency_peak_counts_at_once_and_decays_slowly() {
        let latency = Latency::default();
        assert_eq!(average(&latency, 0), None);
        latency.observe(ms(10), Millis::ZERO);
        assert_eq!(average(&latency, 0), Some(10));
        latency.observe(ms(500), Millis::new(1));
        latency.observe(ms(10), Millis::new(2));
        assert_eq!(average(&latency, 2), Some(500));
        // Ten seconds of quick responses: 1/e of the peak, the rest is their own latency.
        for now in 1..=1000 {
            latency.observe(ms(10), Millis::new(now * 10));
        }
        let now = average(&latency, 10 * SECOND);
        assert!((185..=195).contains(&now.unwrap()), "{now:?}");
    }

    #[test]
    fn the_latency_of_an_unused_endpoint_fades() {
        let latency = Latency::default();
        latency.observe(ms(200), Millis::ZERO);
        let after = [0, 10, 20, 60].map(|seconds| average(&latency, seconds * SECOND));
        assert_eq!(after, [Some(200), Some(74), Some(27), Some(0)]);
    }

    #[test]
    fn a_pending_response_counts_its_waiting_time_as_latency() {
        let latency = Latency::default();
        latency.at_least(ms(100), Millis::ZERO);
        latency.at_least(ms(50), Millis::ZERO);
        assert_eq!(average(&latency, 0), Some(100));
        latency.at_least(ms(3_000), Millis::ZERO);
        assert_eq!(average(&latency, 0), Some(3_000));
        latency.forget();
        assert_eq!(average(&latency, 0), None);
    }

    #[test]
    fn a_clock_that_is_behind_leaves_latency_unchanged() {
        let latency = Latency::default();
        latency.observe(ms(100), Millis::new(5 * SECOND));
        latency.observe(ms(1), Millis::new(4 * SECOND));
        assert_eq!(average(&latency, 4 * SECOND), Some(100));
        assert_eq!(
            latency.now(Millis::new(5 * SECOND)),
            latency.now(Millis::ZERO)
        );
    }

    #[test]
    fn extreme_latencies_and_times_do_not_overflow() {
        let (latency, wrap) = (Latency::default(), 1 << (32 + COARSE));
        latency.observe(ms(100), Millis::new(wrap - 1));
        assert_eq!(average(&latency, wrap + 10 * SECOND), Some(37));
        latency.observe(Duration::ZERO, Millis::new(wrap + 10 * SECOND));
        latency.observe(Duration::MAX, Millis::new(wrap + 10 * SECOND));
        assert!(
            latency
                .now(Millis::new(wrap + 10 * SECOND))
                .is_some_and(f32::is_finite)
        );
        let never = Latency::default();
        never.observe(Duration::ZERO, Millis::ZERO);
        assert_eq!(never.now(Millis::ZERO), Some(1.0));
    }
}
