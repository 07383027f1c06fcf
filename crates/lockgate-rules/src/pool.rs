//! Settings of pools: when an endpoint is left alone, how requests are tried again and wait, and how
//! long connections are kept.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The conditions on which an endpoint that keeps failing is ejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eject {
    /// Failures in a row, from 1 to 100.
    pub errors: u8,
    /// The time for which it is left alone.
    pub time: Duration,
    /// Responses that are failures; mostly none.
    pub statuses: ServerErrors,
}

impl Default for Eject {
    fn default() -> Self {
        Self {
            errors: 5,
            time: Duration::from_secs(10),
            statuses: ServerErrors::default(),
        }
    }
}

/// A set of statuses from 500 to 599; others are never in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerErrors(u128);

impl ServerErrors {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether this one is in it.
    pub fn has(self, status: u16) -> bool {
        self.0 & Self::bit(status) != 0
    }

    /// Whether none is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The statuses in it, as ranges that do not touch.
    pub fn ranges(self) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for status in (500..600).filter(|status| self.has(*status)) {
            match ranges.last_mut() {
                Some(last) if last.end() + 1 == status => *last = *last.start()..=status,
                _ => ranges.push(status..=status),
            }
        }
        ranges
    }

    fn bit(status: u16) -> u128 {
        if (500..600).contains(&status) {
            1 << (status - 500)
        } else {
            0
        }
    }
}

impl FromIterator<u16> for ServerErrors {
    fn from_iter<I: IntoIterator<Item = u16>>(statuses: I) -> Self {
        let add = |set, status| set | Self::bit(status);
        Self(statuses.into_iter().fold(0, add))
    }
}

/// The queue of a pool when all of its endpoints are at their `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Requests that may wait at once, for the process; 0 is none.
    pub max: usize,
    /// The time that each may wait.
    pub wait: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            max: 1_000,
            wait: Duration::from_secs(2),
        }
    }
}

/// The limits of connections that are kept for reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleSettings {
    /// Idle connections to each endpoint, in each worker; more are closed when they have been idle
    /// for a second. 0 keeps none.
    pub max: usize,
    /// The time without a request after which one is closed.
    pub age: Duration,
    /// The requests after which one is closed.
    pub requests: u64,
}

impl Default for IdleSettings {
    fn default() -> Self {
        Self {
            max: 256,
            age: Duration::from_secs(60),
            requests: 10_000,
        }
    }
}

/// Repeated attempts of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts beyond the first; 0 is none.
    pub times: u32,
    /// Of a hundred requests to the pool so many may be tried again: where all fail, more attempts
    /// only add load.
    pub budget: u8,
}

impl Retry {
    /// No attempt beyond the first.
    pub const NEVER: Self = Self {
        times: 0,
        budget: 0,
    };
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            times: 1,
            budget: 20,
        }
    }
}

/// The property by which clients are told apart. Where a request has none, or an empty one, it is
/// the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// Their address; of IPv6 the /64, within which a client takes another one every day (RFC
    /// 8981).
    Client,
    /// The name that they ask for by SNI.
    Sni,
    /// The value of a field, the first where there are several.
    Header(String),
    /// The value of a cookie, the first where there are several.
    Cookie(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_server_errors_is_shown_as_ranges() {
        let set: ServerErrors = [404, 500, 503, 502, 504, 599, 600].into_iter().collect();
        assert_eq!(set.ranges(), [500..=500, 502..=504, 599..=599]);
        assert!(ServerErrors::default().is_empty() && !set.is_empty());
    }

    #[test]
    fn a_status_set_holds_only_5xx_codes() {
        let all = || 0..=u16::MAX;
        let has = |statuses: &[u16]| -> Vec<u16> {
            let set = statuses.iter().copied().collect::<ServerErrors>();
            all().filter(|status| set.has(*status)).collect()
        };
        assert_eq!(has(&[500, 503, 599]), [500, 503, 599]);
        assert_eq!(has(&[0, 499, 600, 628, u16::MAX]), [0_u16; 0]);
        assert_eq!(
            all().collect::<ServerErrors>(),
            (500..600).collect::<ServerErrors>()
        );
    }
}
