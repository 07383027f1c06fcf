//! The wait after failures: a minute, then twice as long each time, to an hour. A provider that says that
//! it is asked too often is left alone for longer, a router that says nothing for no more than ten minutes,
//! and so are name servers that say nothing, at first for ten seconds.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);
/// The same after an answer that says that there were too many requests.
const FIRST_OF_LIMIT: Duration = Duration::from_secs(15 * 60);
const LONGEST_OF_LIMIT: Duration = Duration::from_secs(4 * 3600);
/// The first where no name server answers: after a change of the line that may be so for a moment.
const FIRST_UNANSWERED: Duration = Duration::from_secs(10);
/// The longest after a silence: a router may have been restarted, or have got another setting.
const LONGEST_OF_SILENCE: Duration = Duration::from_secs(10 * 60);
/// The share of a wait by which it may be longer, so that many machines do not come back at once.
const SPREAD: f64 = 0.25;

/// The kind of a failure, by how long to wait after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Usual,
    /// There were too many requests.
    RateLimit,
    /// No name server answers.
    Unanswered,
    /// A router says nothing.
    Silence,
}

impl FailureKind {
    /// The first wait, and the longest.
    fn waits(self) -> (Duration, Duration) {
        match self {
            Self::Usual => (FIRST, LONGEST),
            Self::RateLimit => (FIRST_OF_LIMIT, LONGEST_OF_LIMIT),
            Self::Unanswered => (FIRST_UNANSWERED, LONGEST_OF_SILENCE),
            Self::Silence => (FIRST, LONGEST_OF_SILENCE),
        }
    }
}

/// The failures since the last success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BackOff {
    failures: u32,
    /// The kind of the last one.
    kind: Option<FailureKind>,
    until: Option<Instant>,
}

impl BackOff {
    /// Counts a failure; `jitter` is a random number from 0 to 1.
    pub(crate) fn failed(&mut self, now: Instant, kind: FailureKind, jitter: f64) {
        let (first, longest) = kind.waits();
        if self.until.is_some_and(|until| now > until + longest) {
            // It was not tried for so long that this failure has nothing to do with those before.
            self.failures = 0;
        }
        let doubled = first.saturating_mul(1 << self.failures.min(16));
        let wait = doubled.min(longest);
        self.failures = self.failures.saturating_add(1);
        self.kind = Some(kind);
        self.until = Some(now + wait + wait.mul_f64(SPREAD * jitter.clamp(0.0, 1.0)));
    }

    /// Ends the wait, unless there were too many requests. The failures still count: the next wait is
    /// none the shorter. Those of a line that was down do not.
    pub(crate) fn hurry(&mut self) {
        match self.kind {
            Some(FailureKind::RateLimit) => {}
            Some(FailureKind::Unanswered) => self.succeeded(),
            _ => self.until = None,
        }
    }

    /// Forgets the failures.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// When to try again; none where nothing has failed.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(kind: FailureKind, jitter: f64, count: usize) -> Vec<u64> {
        let now = Instant::now();
        let mut back_off = BackOff::default();
        let mut waits = Vec::new();
        for _ in 0..count {
            back_off.failed(now, kind, jitter);
            waits.push((back_off.until().unwrap() - now).as_secs());
        }
        waits
    }

    #[test]
    fn waits_after_failures_double_from_a_minute_to_an_hour() {
        assert_eq!(
            waits(FailureKind::Usual, 0.0, 8),
            [60, 120, 240, 480, 960, 1920, 3600, 3600]
        );
        assert_eq!(waits(FailureKind::Usual, 1.0, 2), [75, 150]);
        assert_eq!(waits(FailureKind::Usual, 0.0, 100).last(), Some(&3600));
    }

    #[test]
    fn name_servers_that_are_silent_are_soon_asked_again() {
        assert_eq!(
            waits(FailureKind::Unanswered, 0.0, 8),
            [10, 20, 40, 80, 160, 320, 600, 600]
        );
        let mut back_off = BackOff::default();
        (0..9).for_each(|_| back_off.failed(Instant::now(), FailureKind::Unanswered, 0.0));
        back_off.hurry();
        assert_eq!(back_off, BackOff::default());
    }

    #[test]
    fn a_rate_limit_is_waited_for_longer_and_a_success_forgets() {
        assert_eq!(
            waits(FailureKind::RateLimit, 0.0, 6),
            [900, 1800, 3600, 7200, 14400, 14400]
        );
        let mut back_off = BackOff::default();
        back_off.failed(Instant::now(), FailureKind::Usual, 0.5);
        back_off.succeeded();
        assert_eq!(back_off.until(), None);
    }

    #[test]
    fn only_the_wait_of_a_rate_limit_cannot_be_ended() {
        let now = Instant::now();
        for (kind, next) in [
            (FailureKind::Usual, Some(120)),
            (FailureKind::RateLimit, None),
        ] {
            let mut back_off = BackOff::default();
            back_off.failed(now, kind, 0.0);
            back_off.hurry();
            assert_eq!(back_off.until().is_none(), next.is_some(), "{kind:?}");
            if let Some(next) = next {
                back_off.failed(now, kind, 0.0);
                assert_eq!(back_off.until(), Some(now + Duration::from_secs(next)));
            }
        }
    }

    #[test]
    fn failures_of_long_ago_make_no_wait_longer() {
        let now = Instant::now();
        for (later, expected) in [(60, 120), (60 + 3600, 120), (60 + 3601, 60)] {
            let mut back_off = BackOff::default();
            back_off.failed(now, FailureKind::Usual, 0.0);
            let later = now + Duration::from_secs(later);
            back_off.failed(later, FailureKind::Usual, 0.0);
            assert_eq!(
                back_off.until(),
                Some(later + Duration::from_secs(expected)),
                "{expected}"
            );
        }
    }
}
