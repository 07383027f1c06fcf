//! When a certificate is obtained, renewed, or asked about: a pure function of the time and of what
//! is known.
//!
//! Reads no clock and no file, and orders nothing.

use std::time::{Duration, SystemTime};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The first delay after a failure. Later ones double.
const FIRST_DELAY: Duration = MINUTE;
/// The first delay after a failed validation: Let's Encrypt allows five of a name in an hour, and the
/// first try has up to three.
const FIRST_DELAY_REFUTED: Duration = Duration::from_secs(600);
/// The longest delay after a failure while there is no valid certificate.
const LONGEST_WITHOUT: Duration = HOUR;
/// The longest delay after a failure while the certificate is valid.
const LONGEST_WITH: Duration = Duration::from_secs(6 * 3600);
/// The longest wait that an authority may ask for: the windows of Let's Encrypt's rate limits are
/// a week long.
pub(crate) const LONGEST_ASKED: Duration = Duration::from_secs(7 * 86_400);
/// The bounds of the time between two questions for the window of renewal (RFC 9773 §4.3.2).
const WINDOW_CHECKS: (Duration, Duration) = (MINUTE, DAY);
/// The most that may pass before the clock is read again: it may have been set, or the machine may
/// have slept.
const LONGEST_SLEEP: Duration = HOUR;
/// The bounds of the time between two orders of a certificate that is due as soon as it is there: one
/// that ends soon, or that the authority wants to be renewed at once.
const LEAST_PAUSE: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(6 * 3600));
/// A certificate that lives no longer than this is renewed at half of its life, others when a third
/// is left.
const SHORT_LIFE: Duration = Duration::from_secs(10 * 86_400);

/// What is known of one certificate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// The validity of the certificate that is served; `None` where there is none.
    pub validity: Option<Validity>,
    /// When it was obtained, if that is known.
    pub obtained: Option<SystemTime>,
    /// Whether it is to be replaced now: the operator has asked for it, or other settings apply.
    pub outdated: bool,
    /// The window in which the authority wants it to be renewed (RFC 9773).
    pub window: Option<RenewalWindow>,
    /// When the authority is asked for the window next; `None` where it has none.
    pub window_check: Option<SystemTime>,
    /// Failures since the last success.
    pub failures: u32,
    /// The time of the last one.
    pub failed: Option<SystemTime>,
    /// Whether that was a failed validation.
    pub refuted: bool,
    /// The time before which the authority wants no other try (RFC 9110 §10.2.3).
    pub retry_after: Option<SystemTime>,
    /// The place among all certificates, from 0 to 1: it spreads renewals.
    pub spread: f64,
}

/// The time in which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first moment.
    pub not_before: SystemTime,
    /// Its last moment.
    pub not_after: SystemTime,
}

/// The window of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewalWindow {
    /// Its begin.
    pub start: SystemTime,
    /// Its end.
    pub end: SystemTime,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Obtain a certificate.
    Obtain,
    /// Ask the authority for the window of renewal.
    CheckWindow,
    /// Wait this long, then ask again.
    Wait(Duration),
}

/// What is to be done at the time `now`.
pub fn next(standing: &Standing, now: SystemTime) -> Next {
    let due = standing
        .due()
        .max(standing.not_before_retry(now))
        .max(standing.pause_after_success(now));
    if due.is_none_or(|due| due <= now) {
        return Next::Obtain;
    }
    let check = standing
        .window_check
        .filter(|_| standing.validity.is_some() && !standing.outdated)
        .map(|check| {
            if check > later(now, WINDOW_CHECKS.1) {
                now
            } else {
                check
            }
        });
    if check.is_some_and(|check| check <= now) {
        return Next::CheckWindow;
    }
    let moments = due.into_iter().chain(check);
    let until = moments.min().and_then(|next| next.duration_since(now).ok());
    Next::Wait(until.unwrap_or_default().min(LONGEST_SLEEP))
}

/// When the authority is asked for the window again, where it wants that after `delay`.
pub fn next_window_check(now: SystemTime, delay: Duration) -> SystemTime {
    let (least, most) = WINDOW_CHECKS;
    later(now, delay.clamp(least, most))
}

impl Standing {
    /// When the certificate is to be renewed; nothing where that is now.
    pub fn due(&self) -> Option<SystemTime> {
        let validity = self.validity.filter(|_| !self.outdated)?;
        let life = validity.life();
        let left = match life <= SHORT_LIFE {
            true => life / 2,
            false => life / 3,
        };
        let usual = earlier(
            validity.not_after,
            left + (life / 20).mul_f64(self.spread()),
        );
        let Some(window) = self.window else {
            return Some(usual);
        };
        let length = window.end.duration_since(window.start).unwrap_or_default();
        let wanted = later(window.start, length.mul_f64(self.spread()));
        // However late the window: time must be left for failures.
        Some(wanted.min(earlier(validity.not_after, life / 8)))
    }

    /// Whether less than a third of the certificate's life is left: it should have been renewed by
    /// now.
    pub fn is_late(&self, now: SystemTime) -> bool {
        self.validity.is_some_and(|validity| {
            let left = validity.not_after.duration_since(now).unwrap_or_default();
            left < validity.life() / 3
        })
    }

    /// The time before which there is no other try.
    fn not_before_retry(&self, now: SystemTime) -> Option<SystemTime> {
        // A clock that was ahead must not hold up tries.
        let failed = self.failed.filter(|failed| *failed <= now);
        let valid = self
            .validity
            .is_some_and(|validity| now < validity.not_after);
        let longest = if valid { LONGEST_WITH } else { LONGEST_WITHOUT };
        let first = match self.refuted {
            true => FIRST_DELAY_REFUTED,
            false => FIRST_DELAY,
        };
        let doubled = first.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        let own = failed.map(|failed| later(failed, doubled.min(longest)));
        let asked = self.retry_after.filter(|asked| is_credible(*asked, now));
        own.filter(|_| self.failures > 0).max(asked)
    }

    /// The time before which a certificate is not replaced by another one of the same settings.
    fn pause_after_success(&self, now: SystemTime) -> Option<SystemTime> {
        let validity = self.validity.filter(|_| !self.outdated)?;
        let (least, most) = LEAST_PAUSE;
        let pause = (validity.life() / 20).clamp(least, most);
        let obtained = self.obtained.filter(|obtained| *obtained <= now)?;
        Some(later(obtained, pause))
    }

    fn spread(&self) -> f64 {
        if self.spread.is_nan() {
            return 0.0;
        }
        self.spread.clamp(0.0, 1.0)
    }
}

impl Validity {
    /// The time from the first moment to the last.
    pub fn life(&self) -> Duration {
        self.not_after
            .duration_since(self.not_before)
            .unwrap_or_default()
    }
}

/// Whether an authority may have asked to be left alone until this time: a clock that was ahead has
/// noted one that is too far away.
pub(crate) fn is_credible(until: SystemTime, now: SystemTime) -> bool {
    until <= later(now, LONGEST_ASKED)
}

/// The place of a name among all, from 0 to 1 (FNV-1a): the same in each process.
pub fn spread_of(name: &str) -> f64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The upper bits of FNV-1a are the better mixed ones.
    f64::from((hash >> 32) as u32) / f64::from(u32::MAX)
}

fn later(time: SystemTime, delay: Duration) -> SystemTime {
    time.checked_add(delay).unwrap_or(time)
}

fn earlier(time: SystemTime, lead: Duration) -> SystemTime {
    time.checked_sub(lead).unwrap_or(time)
}

#[cfg(test)]
mod tests;
