//! A condition that the operator log reports once when it begins and once when it ends, rarely if
//! it keeps changing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lockgate_net::millis::Millis;

/// The time between two lines about the same condition.
const SELDOM: Millis = Millis::from_secs(10);

/// A condition that may hold, and whether the log has reported it.
#[derive(Debug, Default)]
pub(super) struct Notice {
    told: AtomicBool,
    /// When it was last reported; 0 for never.
    last: AtomicU64,
}

impl Notice {
    /// Notes that it holds; returns whether to report it: not again before its end, nor soon after
    /// the last report.
    pub(super) fn begins(&self, now: Millis) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        let soon = last != 0 && now < Millis::new(last) + SELDOM;
        if soon || self.told.load(Ordering::Relaxed) || self.told.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.last.store(now.as_u64().max(1), Ordering::Relaxed);
        true
    }

    /// Whether it holds and was reported.
    pub(super) fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Notes that it holds no longer; returns whether to report that: where its beginning was.
    pub(super) fn ends(&self) -> bool {
        self.told.load(Ordering::Relaxed) && self.told.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_notice_is_logged_once_and_seldom_repeated() {
        let notice = Notice::default();
        assert!(!notice.ends(), "there was none");
        assert_eq!(
            [notice.begins(Millis::new(5)), notice.begins(Millis::new(6))],
            [true, false]
        );
        assert_eq!([notice.ends(), notice.ends()], [true, false]);
        // Soon after that, neither the next nor its end.
        assert_eq!(
            [notice.begins(Millis::new(10_004)), notice.ends()],
            [false, false]
        );
        assert_eq!(
            [notice.begins(Millis::new(10_005)), notice.ends()],
            [true, true]
        );
    }
}
