//! The layer's budget of a client's frames, which knows no clock, by the time that has passed.

use lockgate_http::h2::Budget;
use lockgate_net::millis::Millis;

use super::FrameRate;

/// The frames of one kind that a client may send again.
#[derive(Debug)]
struct Refill {
    count: u64,
    every: u64,
    burst: u64,
    /// The time up to which frames were given.
    since: Millis,
}

impl Refill {
    fn new(rate: FrameRate, now: Millis) -> Self {
        Self {
            count: u64::from(rate.count).max(1),
            every: Millis::from(rate.every).as_u64().max(1),
            burst: rate.burst.into(),
            since: now,
        }
    }

    fn due(&mut self, now: Millis) -> u32 {
        let passed = (now - self.since).as_u64();
        let due = passed.saturating_mul(self.count) / self.every;
        if due >= self.burst {
            self.since = now;
        } else if due > 0 {
            // The rest of the time counts for the next one.
            self.since = self.since + Millis::new(due * self.every / self.count);
        }
        u32::try_from(due).unwrap_or(u32::MAX)
    }
}

/// The refills of one connection.
#[derive(Debug)]
pub(super) struct BudgetRefill {
    resets: Refill,
    control: Refill,
    /// The time of the last look: a tick has many turns.
    seen: Millis,
}

impl BudgetRefill {
    pub(super) fn new(resets: FrameRate, control: FrameRate, now: Millis) -> Self {
        Self {
            resets: Refill::new(resets, now),
            control: Refill::new(control, now),
            seen: now,
        }
    }

    /// What is due since the last call, if anything is.
    pub(super) fn due(&mut self, now: Millis) -> Option<Budget> {
        if std::mem::replace(&mut self.seen, now) == now {
            return None;
        }
        Some(Budget {
            resets: self.resets.due(now),
            control: self.control.due(now),
            updates: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn frames_are_allowed_again_at_their_rate() {
        let rate = |count, seconds, burst| FrameRate {
            count,
            every: Duration::from_secs(seconds),
            burst,
        };
        let mut refills = BudgetRefill::new(rate(20, 1, 200), rate(1, 60, 5), Millis::ZERO);
        let mut sum = (0, 0);
        // Of parts of a frame none is lost.
        for at in 1..=120_000 / 7 {
            if let Some(due) = refills.due(Millis::new(7 * at)) {
                sum = (sum.0 + due.resets, sum.1 + due.control);
            }
        }
        assert!((2_390..=2_400).contains(&sum.0), "{sum:?}");
        assert_eq!(sum.1, 1, "the second is due at 120 s");
        assert_eq!(refills.due(Millis::new(119_994)), None);
        let due = refills.due(Millis::MAX).unwrap();
        assert!(due.resets >= 200 && due.control >= 5);
    }
}
