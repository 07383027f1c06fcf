//! The layer's budget of a client's frames, which knows no clock, by the time that has passed.

use std::time::Duration;

use lockgate_http::h2::Budget;
use lockgate_net::millis::Millis;

/// A rate of frames, and how many may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRate {
    /// Frames in each `every`.
    pub count: u32,
    /// The time in which `count` frames are allowed again.
    pub every: Duration,
    /// Frames that may come at once.
    pub burst: u32,
}

/// Data of a frame that is less than its header is.
const TINY: usize = 9;
/// The tiny frames that a client may send without an answer.
const TINY_FRAMES: FrameRate = FrameRate {
    count: 2_000,
    every: Duration::from_secs(1),
    burst: 16_384,
};

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

/// The DATA frames of a client that have less data than header, and do not end a message: a flood of
/// these costs us far more than its bytes. Frames that we send account for as many: messages of gRPC
/// may be empty, and are answered one by one.
#[derive(Debug)]
pub(super) struct TinyFrames {
    /// The tiny frames that may come; below 0 they were too many.
    left: i64,
    refill: Refill,
}

impl TinyFrames {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            left: TINY_FRAMES.burst.into(),
            refill: Refill::new(TINY_FRAMES, now),
        }
    }

    /// Notes a frame with so much data that does not end a message.
    pub(super) fn note_received(&mut self, length: usize) {
        self.left -= i64::from(length < TINY);
    }

    /// Notes that we have sent a frame with data.
    pub(super) fn note_sent(&mut self) {
        self.add(1);
    }

    pub(super) fn refill(&mut self, now: Millis) {
        let due = self.refill.due(now);
        self.add(due.into());
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.left < 0
    }

    fn add(&mut self, more: i64) {
        // What was too much once is not undone.
        if !self.are_too_many() {
            self.left = i64::from(TINY_FRAMES.burst).min(self.left + more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_frames_are_bounded_but_for_those_that_are_answered() {
        let mut tiny = TinyFrames::new(Millis::ZERO);
        for _ in 0..100_000 {
            tiny.note_received(9);
            tiny.note_received(1);
            tiny.note_sent();
        }
        assert!(!tiny.are_too_many());
        for _ in 0..TINY_FRAMES.burst {
            tiny.note_received(1);
        }
        assert!(!tiny.are_too_many());
        tiny.refill(Millis::from_secs(1));
        for _ in 0..=TINY_FRAMES.count {
            assert!(!tiny.are_too_many());
            tiny.note_received(8);
        }
        assert!(tiny.are_too_many());
        tiny.refill(Millis::from_secs(60));
        tiny.note_sent();
        assert!(tiny.are_too_many(), "for ever");
    }

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
