//! Settings of pools: ejection of endpoints, retries, the queue, idle connections and sticky
//! sessions.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The conditions for the ejection of a failing endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eject {
    /// Consecutive failures, from 1 to 100.
    pub errors: u8,
    /// The time for which the endpoint is ejected.
    pub time: Duration,
    /// Statuses that count as failures; usually none.
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

/// A set of statuses from 500 to 599; it holds no others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerErrors(u128);

impl ServerErrors {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether this status is in the set.
    pub fn has(self, status: u16) -> bool {
        self.0 & Self::bit(status) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The statuses of the set, as ranges with gaps between them.
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
    /// Requests that may wait at once, for the whole process; 0 is no queue.
    pub max: usize,
    /// The time that a request may wait.
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

/// The limits of idle connections to endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleSettings {
    /// Idle connections to each endpoint that a worker keeps; further ones are closed after one
    /// idle second. 0 keeps none.
    pub max: usize,
    /// The idle time after which a connection is closed.
    pub age: Duration,
    /// The number of requests after which a connection is closed.
    pub requests: u64,
    /// The time since it was established after which one is closed; none is never.
    pub lifetime: Option<Duration>,
}

impl Default for IdleSettings {
    fn default() -> Self {
        Self {
            max: 256,
            age: Duration::from_secs(60),
            requests: 10_000,
            lifetime: Some(Duration::from_secs(3_600)),
        }
    }
}

/// The retries of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first; 0 is no retry.
    pub times: u32,
    /// The share of a pool's requests that may be retried, in percent: when every endpoint fails,
    /// retries only add load.
    pub budget: u8,
}

impl Retry {
    /// No retries.
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

/// The property by which sticky sessions and hashes know a client. A request without it, or with an
/// empty one, counts by the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The client's address; of IPv6 the /64, within which a client changes its address daily (RFC
    /// 8981).
    Client,
    /// The name in SNI.
    Sni,
    /// The value of a field; of several lines, the first.
    Header(String),
    /// The value of a cookie; of several, the first.
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
