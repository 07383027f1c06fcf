//! How often an endpoint has failed in a row, and for how long it is left alone for that: one word,
//! shared by the workers.
//!
//! **What counts.** It cannot be reached, breaks off before it answers, answers what cannot be
//! read, or does not answer in time: what nginx counts unless told otherwise (`max_fails` with
//! `proxy_next_upstream`: errors, timeouts, invalid heads). An answer does not, whatever its
//! status, unless the pool says so ([`ServerErrors`](lockgate_rules::ServerErrors); nginx's `http_503` and its like, HAProxy's
//! `observe layer7`, Envoy's `consecutive_5xx`): it is an answer to one request, and whoever knows
//! a URL that brings it about could take half of the pool away. Why nothing cleverer: note 010.
//!
//! **What follows.** One that could not be reached or broke off is left alone for a second, after
//! further failures in a row for two, four, eight, at last for ten. At the number in a row that
//! [`Eject`] says it is ejected: left alone for as long as that says, whatever it does meanwhile.
//! Nobody is left alone where there is no other.

use std::sync::atomic::{AtomicU64, Ordering};

use lockgate_rules::Eject;

use crate::clock::millis;

/// How a try at an endpoint failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or no TLS.
    Unreachable,
    /// A connection that broke before an answer.
    Broken,
    /// No answer in time, one that cannot be read, or one that says that it cannot serve. One alone
    /// says little.
    Unserved,
}

/// How an endpoint does, by what was met there lately; the order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// As well as anybody.
    Well,
    /// It broke off: others are better.
    Doubtful,
    /// It could not be reached, or is ejected: also those who belong to it go to others.
    Gone,
}

/// Until when it is left alone, why, and how often it has failed in a row; 0 is not at all.
#[derive(Debug, Default)]
pub(super) struct Avoidance(AtomicU64);

/// Milliseconds.
const FIRST: u64 = 1_000;
const LONGEST: u64 = 10_000;
/// Failures in a row that are more than an accident.
const SEVERAL: u64 = 3;
/// The bits of the word.
const COUNT: u64 = 0xff;
const GONE: u64 = 1 << 8;
const EJECTED: u64 = 1 << 9;
const UNTIL: u32 = 10;

impl Avoidance {
    pub(super) fn condition(&self, now: u64) -> Condition {
        match self.0.load(Ordering::Relaxed) {
            word if word >> UNTIL <= now => Condition::Well,
            word if word & GONE != 0 => Condition::Gone,
            _ => Condition::Doubtful,
        }
    }

    pub(super) fn is_ejected(&self, now: u64) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word >> UNTIL > now && word & EJECTED != 0
    }

    /// Counts a failure; when it is ejected by that, says until when. `may` is asked whether it may
    /// be.
    pub(super) fn failed(
        &self,
        failure: Failure,
        now: u64,
        eject: Option<Eject>,
        may: impl FnOnce() -> bool,
    ) -> Option<u64> {
        let before = self.0.load(Ordering::Relaxed);
        // What fails meanwhile was begun before, or had no choice: it is the same failure.
        if before >> UNTIL > now {
            return None;
        }
        let count = ((before & COUNT) + 1).min(COUNT);
        let longest = eject.map_or(LONGEST, |eject| millis(eject.time).min(LONGEST));
        let avoided = (FIRST << (count - 1).min(8)).min(longest);
        let ejects = eject
            .filter(|eject| count >= u64::from(eject.errors))
            .filter(|_| may());
        let (time, why) = match (ejects, failure) {
            (Some(eject), _) => (millis(eject.time), GONE | EJECTED),
            (None, Failure::Unreachable) => (avoided, GONE),
            (None, Failure::Broken) => (avoided, 0),
            (None, Failure::Unserved) => (0, 0),
        };
        let until = now.saturating_add(time).min(u64::MAX >> UNTIL);
        let next = (until << UNTIL) | why | count;
        // Whoever was quicker says the same.
        let told = self
            .0
            .compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed);
        ejects.filter(|_| told.is_ok()).map(|_| until)
    }

    /// It did what it was asked for. That ends all but an ejection: what it still answers was asked
    /// before. Whether there was anything to end.
    pub(super) fn succeeded(&self, now: u64) -> bool {
        // Read first: writing would take the line from every other worker with each answer.
        let word = self.0.load(Ordering::Relaxed);
        let ends = word != 0 && (word & EJECTED == 0 || word >> UNTIL <= now);
        if ends {
            self.0.store(0, Ordering::Relaxed);
        }
        ends
    }

    /// For how many milliseconds it is still left alone.
    pub(super) fn passed_over(&self, now: u64) -> Option<u64> {
        (self.0.load(Ordering::Relaxed) >> UNTIL)
            .checked_sub(now)
            .filter(|left| *left > 0)
    }

    /// Whether it could not be reached, or was ejected, and has not served since.
    pub(super) fn was_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed) & GONE != 0
    }

    /// The same, or whether it has failed otherwise several times in a row.
    pub(super) fn is_lost(&self) -> bool {
        self.was_gone() || self.0.load(Ordering::Relaxed) & COUNT >= SEVERAL
    }

    /// Ends whatever there is.
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockgate_rules::ServerErrors;

    use super::*;

    const EJECT: Option<Eject> = Some(Eject {
        errors: 3,
        time: Duration::from_secs(5),
        statuses: ServerErrors::NONE,
    });

    #[test]
    fn a_failing_endpoint_is_avoided_with_exponential_backoff() {
        let (avoidance, mut now) = (Avoidance::default(), 5_000);
        let failed = |failure, now| avoidance.failed(failure, now, None, || unreachable!());
        for span in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            failed(Failure::Unreachable, now);
            // Requests in flight fail as well, and count as no further failure.
            failed(Failure::Unreachable, now + 1);
            let gone = [0, span - 1, span].map(|later| avoidance.condition(now + later));
            assert_eq!(gone, [Condition::Gone, Condition::Gone, Condition::Well]);
            now += span;
        }
        assert!((0..100).all(|_| failed(Failure::Broken, now).is_none()));
        assert_eq!(avoidance.condition(now), Condition::Doubtful);
        avoidance.succeeded(now);
        assert_eq!(avoidance.condition(now), Condition::Well);
        failed(Failure::Broken, now);
        assert_eq!(
            avoidance.condition(now + 1_000),
            Condition::Well,
            "it begins anew"
        );
        assert!((0..1_000).all(|_| failed(Failure::Unserved, now + 1_000).is_none()));
        assert_eq!(
            avoidance.condition(now + 1_000),
            Condition::Well,
            "nobody is ejected"
        );
    }

    #[test]
    fn consecutive_failures_eject_an_endpoint() {
        let avoidance = Avoidance::default();
        let failed = |now| avoidance.failed(Failure::Unserved, now, EJECT, || true);
        assert_eq!([failed(0), failed(0)], [None, None]);
        avoidance.succeeded(0);
        assert_eq!(
            [failed(0), failed(0), failed(7), failed(8)],
            [None, None, Some(5_007), None]
        );
        avoidance.succeeded(8);
        assert!(avoidance.is_ejected(5_006) && !avoidance.is_ejected(5_007));
        assert_eq!(avoidance.condition(5_006), Condition::Gone);
        // It has not shown that it is well: the next failure is enough.
        assert_eq!(failed(6_000), Some(11_000));
        avoidance.succeeded(11_000);
        assert_eq!(failed(11_000), None);
        failed(11_000);
        failed(11_000);
        assert!(avoidance.is_ejected(11_000));
        avoidance.end();
        assert!(!avoidance.is_ejected(11_000));
    }

    #[test]
    fn an_endpoint_exempt_from_ejection_is_avoided_only_briefly() {
        let avoidance = Avoidance::default();
        for (now, until) in [
            (0, 1_000),
            (1_000, 3_000),
            (3_000, 7_000),
            (7_000, 12_000),
            (12_000, 17_000),
        ] {
            assert_eq!(
                avoidance.failed(Failure::Unreachable, now, EJECT, || false),
                None
            );
            let gone = [until - 1, until].map(|now| avoidance.condition(now));
            assert_eq!(gone, [Condition::Gone, Condition::Well], "{now}");
            assert!(!avoidance.is_ejected(now));
        }
    }

    #[test]
    fn huge_ejection_times_and_counts_do_not_overflow() {
        let avoidance = Avoidance::default();
        let forever = Some(Eject {
            errors: 255,
            time: Duration::from_millis(u64::MAX),
            ..Eject::default()
        });
        let failed = |_| avoidance.failed(Failure::Unserved, 1, forever, || true);
        assert!((0..254).all(|at| failed(at).is_none()));
        assert_eq!(failed(0), Some(u64::MAX >> UNTIL));
        assert!(avoidance.is_ejected(u64::MAX >> (UNTIL + 1)));
    }
}
