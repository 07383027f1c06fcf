//! For how long certificates of our own authority are valid, and when they are renewed.
//!
//! Knows no clock: the time is always given.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error::AuthorityError;

const DAY: Duration = Duration::from_secs(86_400);

/// The validity of a root certificate: ten years.
pub(super) const ROOT_LIFE: Duration = Duration::from_secs(3_652 * DAY.as_secs());
/// The validity of an intermediate certificate: three years. It is renewed when a third is left, so a
/// leaf of [`LONGEST_LEAF`] always ends before it.
pub(super) const INTERMEDIATE_LIFE: Duration =
    Duration::from_secs(3 * 365 * DAY.as_secs() + 86_400);
/// The validity of a certificate that is renewed by itself: seven days.
pub const LEAF_LIFE: Duration = Duration::from_secs(7 * DAY.as_secs());
/// The longest validity of a certificate for a server or a client: 365 days. Clients of Apple accept
/// up to 825 days from an authority that its user trusts.
pub const LONGEST_LEAF: Duration = Duration::from_secs(365 * DAY.as_secs());
/// The shortest validity of a certificate: an hour.
pub(super) const SHORTEST_LEAF: Duration = Duration::from_secs(3_600);
/// How much before now certificates begin: the clocks of clients may be behind.
const SLACK: Duration = Duration::from_secs(3_600);

/// 2026-01-01. A clock that says less was never set: machines without a battery begin in 1970.
const EARLIEST: Duration = Duration::from_secs(1_767_225_600);
/// 9900-01-01: certificates have no year above 9999 (RFC 5280 §4.1.2.5).
const LATEST: Duration = Duration::from_secs(250_246_627_200);

/// The validity period of a certificate (RFC 5280 §4.1.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidityPeriod {
    /// The first moment.
    pub not_before: SystemTime,
    /// The last moment.
    pub not_after: SystemTime,
}

impl ValidityPeriod {
    /// A period that begins an hour ago, and ends `life` from `now`; in whole seconds, as
    /// certificates have them.
    pub(super) fn from_now(now: SystemTime, life: Duration) -> Result<Self, AuthorityError> {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since < EARLIEST {
            let reason = "it is before 2026";
            return Err(AuthorityError::Clock { reason });
        }
        if since >= LATEST {
            let reason = "it is after the year 9899";
            return Err(AuthorityError::Clock { reason });
        }
        let now = UNIX_EPOCH + Duration::from_secs(since.as_secs());
        Ok(Self {
            not_before: now - SLACK,
            not_after: now + life,
        })
    }

    /// The part of this period that lies in `outer`.
    pub(super) fn within(self, outer: &Self) -> Self {
        Self {
            not_before: self.not_before.max(outer.not_before),
            not_after: self.not_after.min(outer.not_after),
        }
    }

    /// Whether `time` is in it.
    pub fn contains(&self, time: SystemTime) -> bool {
        self.not_before <= time && time <= self.not_after
    }

    /// When a certificate is to be replaced: once a third of its time is left.
    pub fn renew_at(&self) -> SystemTime {
        let life = self.not_after.duration_since(self.not_before);
        self.not_after - life.unwrap_or_default() / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(days: u64) -> SystemTime {
        UNIX_EPOCH + EARLIEST + DAY * u32::try_from(days).unwrap()
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_is_left() {
        let period = ValidityPeriod {
            not_before: at(0),
            not_after: at(90),
        };
        assert_eq!(period.renew_at(), at(60));
        let ended = ValidityPeriod {
            not_before: at(9),
            not_after: at(3),
        };
        assert_eq!(
            ended.renew_at(),
            at(3),
            "a period without time is due at its end"
        );
    }

    #[test]
    fn a_period_begins_an_hour_ago_in_whole_seconds() {
        let now = at(10) + Duration::from_millis(1_700);
        let period = ValidityPeriod::from_now(now, LEAF_LIFE).unwrap();
        assert_eq!(period.not_before, at(10) + Duration::from_secs(1) - SLACK);
        assert_eq!(period.not_after, at(17) + Duration::from_secs(1));
        assert!(period.contains(now) && period.contains(period.not_after));
        assert!(!period.contains(period.not_after + Duration::from_secs(1)));
        let outer = ValidityPeriod {
            not_before: at(10),
            not_after: at(12),
        };
        assert_eq!(period.within(&outer).not_before, at(10));
        assert_eq!(period.within(&outer).not_after, at(12));
    }

    #[test]
    fn a_clock_that_was_never_set_makes_no_certificate() {
        for wrong in [
            UNIX_EPOCH,
            UNIX_EPOCH - DAY,
            at(0) - SLACK,
            UNIX_EPOCH + LATEST,
        ] {
            let error = ValidityPeriod::from_now(wrong, LEAF_LIFE).unwrap_err();
            assert!(matches!(error, AuthorityError::Clock { .. }), "{error}");
        }
        assert!(ValidityPeriod::from_now(at(0), ROOT_LIFE).is_ok());
        assert!(ValidityPeriod::from_now(UNIX_EPOCH + LATEST - SLACK, ROOT_LIFE).is_ok());
    }

    #[test]
    fn a_third_of_an_intermediate_holds_the_longest_leaf() {
        assert!(INTERMEDIATE_LIFE / 3 >= LONGEST_LEAF);
        assert!(ROOT_LIFE > INTERMEDIATE_LIFE);
    }
}
