//! Outlier detection: consecutive failures of an endpoint, and the time for which it is avoided
//! after them, in one word that the workers share.
//!
//! **Failures.** The endpoint cannot be reached, resets before its response, sends an unreadable
//! response, or none in time: as nginx counts by default (`max_fails` with `proxy_next_upstream`:
//! errors, timeouts, invalid heads). A response is no failure by its status, unless the pool lists
//! the status ([`ServerErrors`](lockgate_rules::ServerErrors); like nginx's `http_503`, HAProxy's
//! `observe layer7`, Envoy's `consecutive_5xx`): a client that knows a URL with such a status could
//! take half of the pool away. Note 010 has the reasons for nothing cleverer.
//!
//! **Consequences.** An endpoint that could not be reached or has reset is avoided for a second,
//! after further consecutive failures for two, four, eight, at last for ten. After the number of
//! consecutive failures in [`Eject`] it is ejected: avoided for the time there, also if it serves
//! meanwhile. An endpoint is never avoided where there is no other.

use std::sync::atomic::{AtomicU64, Ordering};

use lockgate_net::millis::Millis;
use lockgate_rules::Eject;

/// How an attempt at an endpoint failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointFailure {
    /// It could not be connected, or its TLS handshake failed.
    Unreachable,
    /// The connection broke before a response.
    Reset,
    /// No response in time, an unreadable one, or one with a listed status. One alone proves
    /// little.
    Unserved,
}

/// The condition of an endpoint, by its latest results; the order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// It may be chosen.
    Healthy,
    /// It has reset: others are better.
    Suspect,
    /// It could not be reached, or is ejected: clients with affinity to it go to others too.
    Unavailable,
}

/// The end of the avoidance of one endpoint, its reason, and the number of consecutive failures; 0
/// is none.
#[derive(Debug, Default)]
pub(super) struct OutlierDetection(AtomicU64);

/// The time of the first avoidance, in milliseconds, and that of the longest.
const FIRST: u64 = 1_000;
const LONGEST: Millis = Millis::from_secs(10);
/// Consecutive failures after which an endpoint counts as lost.
const SEVERAL: u64 = 3;
/// The bits of the word.
const COUNT: u64 = 0xff;
const GONE: u64 = 1 << 8;
const EJECTED: u64 = 1 << 9;
const UNTIL: u32 = 10;

/// The end of the avoidance that a word has.
fn until(word: u64) -> Millis {
    Millis::new(word >> UNTIL)
}

impl OutlierDetection {
    pub(super) fn condition(&self, now: Millis) -> Condition {
        match self.0.load(Ordering::Relaxed) {
            word if until(word) <= now => Condition::Healthy,
            word if word & GONE != 0 => Condition::Unavailable,
            _ => Condition::Suspect,
        }
    }

    pub(super) fn is_ejected(&self, now: Millis) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        until(word) > now && word & EJECTED != 0
    }

    /// Counts a failure; returns the end of the ejection that follows, if one does. `may` decides
    /// whether the endpoint may be ejected.
    pub(super) fn failed(
        &self,
        failure: EndpointFailure,
        now: Millis,
        eject: Option<Eject>,
        may: impl FnOnce() -> bool,
    ) -> Option<Millis> {
        let before = self.0.load(Ordering::Relaxed);
        // Attempts that fail meanwhile were begun before, or had no choice: it is the same failure.
        if until(before) > now {
            return None;
        }
        let count = ((before & COUNT) + 1).min(COUNT);
        let longest = eject.map_or(LONGEST, |eject| LONGEST.min(eject.time.into()));
        let avoided = Millis::new(FIRST << (count - 1).min(8)).min(longest);
        let ejects = eject
            .filter(|eject| count >= u64::from(eject.errors))
            .filter(|_| may());
        let (time, why) = match (ejects, failure) {
            (Some(eject), _) => (eject.time.into(), GONE | EJECTED),
            (None, EndpointFailure::Unreachable) => (avoided, GONE),
            (None, EndpointFailure::Reset) => (avoided, 0),
            (None, EndpointFailure::Unserved) => (Millis::ZERO, 0),
        };
        let end = (now + time).min(until(u64::MAX));
        let next = (end.as_u64() << UNTIL) | why | count;
        // Another worker that was first has stored the same.
        let told = self
            .0
            .compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed);
        ejects.filter(|_| told.is_ok()).map(|_| end)
    }

    /// Notes a success. It ends all but an ejection, since its request may be older than that.
    /// Returns whether there was anything to end.
    pub(super) fn succeeded(&self, now: Millis) -> bool {
        // Read first: writing would take the line from every other worker with each response.
        let word = self.0.load(Ordering::Relaxed);
        let ends = word != 0 && (word & EJECTED == 0 || until(word) <= now);
        if ends {
            self.0.store(0, Ordering::Relaxed);
        }
        ends
    }

    /// The time for which it is still avoided.
    pub(super) fn passed_over(&self, now: Millis) -> Option<Millis> {
        let left = until(self.0.load(Ordering::Relaxed)) - now;
        (left > Millis::ZERO).then_some(left)
    }

    /// Whether it could not be reached, or was ejected, and has had no success since.
    pub(super) fn was_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed) & GONE != 0
    }

    /// The same, or whether it has failed otherwise several times consecutively.
    pub(super) fn is_lost(&self) -> bool {
        self.was_gone() || self.0.load(Ordering::Relaxed) & COUNT >= SEVERAL
    }

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
        let (avoidance, mut now) = (OutlierDetection::default(), 5_000);
        let failed = |failure, now| avoidance.failed(failure, now, None, || unreachable!());
        for span in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            failed(EndpointFailure::Unreachable, Millis::new(now));
            // Requests in flight fail as well, and count as no further failure.
            failed(EndpointFailure::Unreachable, Millis::new(now + 1));
            let gone =
                [0, span - 1, span].map(|later| avoidance.condition(Millis::new(now + later)));
            assert_eq!(
                gone,
                [
                    Condition::Unavailable,
                    Condition::Unavailable,
                    Condition::Healthy
                ]
            );
            now += span;
        }
        assert!((0..100).all(|_| failed(EndpointFailure::Reset, Millis::new(now)).is_none()));
        assert_eq!(avoidance.condition(Millis::new(now)), Condition::Suspect);
        avoidance.succeeded(Millis::new(now));
        assert_eq!(avoidance.condition(Millis::new(now)), Condition::Healthy);
        failed(EndpointFailure::Reset, Millis::new(now));
        assert_eq!(
            avoidance.condition(Millis::new(now + 1_000)),
            Condition::Healthy,
            "it begins anew"
        );
        assert!(
            (0..1_000)
                .all(|_| failed(EndpointFailure::Unserved, Millis::new(now + 1_000)).is_none())
        );
        assert_eq!(
            avoidance.condition(Millis::new(now + 1_000)),
            Condition::Healthy,
            "nobody is ejected"
        );
    }

    #[test]
    fn consecutive_failures_eject_an_endpoint() {
        let avoidance = OutlierDetection::default();
        let failed = |now| avoidance.failed(EndpointFailure::Unserved, now, EJECT, || true);
        assert_eq!([failed(Millis::ZERO), failed(Millis::ZERO)], [None, None]);
        avoidance.succeeded(Millis::ZERO);
        assert_eq!(
            [
                failed(Millis::ZERO),
                failed(Millis::ZERO),
                failed(Millis::new(7)),
                failed(Millis::new(8))
            ],
            [None, None, Some(Millis::new(5_007)), None]
        );
        avoidance.succeeded(Millis::new(8));
        assert!(
            avoidance.is_ejected(Millis::new(5_006)) && !avoidance.is_ejected(Millis::new(5_007))
        );
        assert_eq!(
            avoidance.condition(Millis::new(5_006)),
            Condition::Unavailable
        );
        // It has not shown that it is well: the next failure is enough.
        assert_eq!(failed(Millis::new(6_000)), Some(Millis::new(11_000)));
        avoidance.succeeded(Millis::new(11_000));
        assert_eq!(failed(Millis::new(11_000)), None);
        failed(Millis::new(11_000));
        failed(Millis::new(11_000));
        assert!(avoidance.is_ejected(Millis::new(11_000)));
        avoidance.end();
        assert!(!avoidance.is_ejected(Millis::new(11_000)));
    }

    #[test]
    fn an_endpoint_exempt_from_ejection_is_avoided_only_briefly() {
        let avoidance = OutlierDetection::default();
        for (now, until) in [
            (0, 1_000),
            (1_000, 3_000),
            (3_000, 7_000),
            (7_000, 12_000),
            (12_000, 17_000),
        ] {
            assert_eq!(
                avoidance.failed(
                    EndpointFailure::Unreachable,
                    Millis::new(now),
                    EJECT,
                    || false
                ),
                None
            );
            let gone = [until - 1, until].map(|now| avoidance.condition(Millis::new(now)));
            assert_eq!(gone, [Condition::Unavailable, Condition::Healthy], "{now}");
            assert!(!avoidance.is_ejected(Millis::new(now)));
        }
    }

    #[test]
    fn huge_ejection_times_and_counts_do_not_overflow() {
        let avoidance = OutlierDetection::default();
        let forever = Some(Eject {
            errors: 255,
            time: Duration::from_millis(u64::MAX),
            ..Eject::default()
        });
        let failed =
            |_| avoidance.failed(EndpointFailure::Unserved, Millis::new(1), forever, || true);
        assert!((0..254).all(|at| failed(at).is_none()));
        assert_eq!(failed(0), Some(until(u64::MAX)));
        assert!(avoidance.is_ejected(Millis::new(u64::MAX >> (UNTIL + 1))));
    }
}
