//! Bytes per second over a sliding window, in two counts.
//!
//! The window slides by interpolation: the bytes of the previous fixed window count for the part of
//! it that the sliding window still covers, as if they had arrived evenly. Exact for an even flow;
//! integers only, no clock.

/// Length of the window in milliseconds.
pub const WINDOW: u64 = 5_000;

/// The bytes of the two directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Bytes {
    pub(crate) fn add(&mut self, more: Self) {
        self.received = self.received.saturating_add(more.received);
        self.sent = self.sent.saturating_add(more.sent);
    }

    pub(crate) fn both(self) -> u64 {
        self.received.saturating_add(self.sent)
    }
}

/// The bytes of the current and the previous window.
///
/// Windows start at multiples of [`WINDOW`] of the caller's clock, so those of two workers with one
/// clock coincide.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Throughput {
    window: u64,
    current: Bytes,
    previous: Bytes,
}

impl Throughput {
    /// Counts bytes at `now` (milliseconds). A clock that runs backwards counts as standing still.
    pub(crate) fn add(&mut self, now: u64, bytes: Bytes) {
        self.advance(now);
        self.current.add(bytes);
    }

    /// Bytes per second at `now` (milliseconds).
    pub(crate) fn per_second(mut self, now: u64) -> Bytes {
        self.advance(now);
        let gone = now.saturating_sub(self.window * WINDOW).min(WINDOW);
        let rate = |previous: u64, current: u64| {
            let covered = u128::from(previous) * u128::from(WINDOW - gone) / u128::from(WINDOW);
            let bytes = covered + u128::from(current);
            u64::try_from(bytes * 1_000 / u128::from(WINDOW)).unwrap_or(u64::MAX)
        };
        Bytes {
            received: rate(self.previous.received, self.current.received),
            sent: rate(self.previous.sent, self.current.sent),
        }
    }

    fn advance(&mut self, now: u64) {
        let window = now / WINDOW;
        if window <= self.window {
            return;
        }
        let follows = window == self.window + 1;
        self.previous = if follows {
            self.current
        } else {
            Bytes::default()
        };
        self.current = Bytes::default();
        self.window = window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(received: u64) -> Bytes {
        Bytes { received, sent: 0 }
    }

    #[test]
    fn a_steady_flow_has_the_same_throughput_at_every_moment() {
        let mut flow = Throughput::default();
        for now in (100..60_000).step_by(100) {
            flow.add(
                now,
                Bytes {
                    received: 1_000,
                    sent: 200,
                },
            );
            if now > 2 * WINDOW {
                let rate = flow.per_second(now);
                assert!(
                    (9_900..=10_200).contains(&rate.received),
                    "{rate:?} at {now}"
                );
                assert!((1_980..=2_040).contains(&rate.sent), "{rate:?} at {now}");
            }
        }
    }

    #[test]
    fn throughput_falls_to_zero_within_two_idle_windows() {
        let mut flow = Throughput::default();
        flow.add(1_000, received(50_000));
        assert_eq!(flow.per_second(1_000), received(10_000));
        assert_eq!(flow.per_second(WINDOW), received(10_000));
        assert_eq!(flow.per_second(WINDOW + WINDOW / 2), received(5_000));
        assert_eq!(flow.per_second(2 * WINDOW), received(0));
    }

    #[test]
    fn a_clock_that_runs_backwards_stands_still() {
        let mut flow = Throughput::default();
        flow.add(20_000, received(5_000));
        flow.add(3, received(5_000));
        assert_eq!(flow.per_second(3), received(2_000));
        assert_eq!(flow.per_second(20_000), received(2_000));
    }

    #[test]
    fn huge_byte_counts_do_not_overflow() {
        let mut flow = Throughput::default();
        flow.add(0, received(u64::MAX));
        flow.add(1, received(u64::MAX));
        assert_eq!(flow.per_second(1), received(u64::MAX / 5));
        assert_eq!(flow.per_second(u64::MAX), received(0));
    }
}
