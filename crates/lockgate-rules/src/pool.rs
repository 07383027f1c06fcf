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

impl IdleSettings {
    /// Whether a connection that was used so may have a further request.
    pub fn allow_request(&self, usage: ConnectionUsage, now: u64) -> bool {
        let is_within = |time, limit| Duration::from_millis(time) < limit;
        usage.requests < self.requests
            && is_within(usage.idle_for(now), self.age)
            && self
                .lifetime
                .is_none_or(|lifetime| is_within(usage.age(now), lifetime))
    }
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

/// The use of a connection to an endpoint so far. Times are milliseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// When it was established.
    pub made_at: u64,
    /// Since when it is known to have no request; `u64::MAX` while it is not.
    pub idle_since: u64,
    /// The requests that it was given.
    pub requests: u64,
}

impl ConnectionUsage {
    /// That of a connection that is established now.
    pub fn new(now: u64) -> Self {
        Self {
            made_at: now,
            idle_since: u64::MAX,
            requests: 0,
        }
    }

    /// Counts one more request, which begins.
    pub fn begin_request(&mut self) {
        self.idle_since = u64::MAX;
        self.requests += 1;
    }

    /// Notes that it has no request now.
    pub fn note_idle(&mut self, now: u64) {
        self.idle_since = self.idle_since.min(now);
    }

    /// The time since it was established.
    pub fn age(self, now: u64) -> u64 {
        now.saturating_sub(self.made_at)
    }

    /// The time that it has had no request.
    pub fn idle_for(self, now: u64) -> u64 {
        now.saturating_sub(self.idle_since)
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

    #[test]
    fn idle_settings_bound_requests_and_idle_time() {
        let settings = IdleSettings {
            age: Duration::from_millis(100),
            requests: 2,
            ..IdleSettings::default()
        };
        let mut usage = ConnectionUsage::new(1_000);
        assert!(settings.allow_request(usage, 1_000));
        assert!(settings.allow_request(usage, 5_000), "not known to be idle");
        usage.begin_request();
        assert!(settings.allow_request(usage, 5_000), "busy");
        usage.note_idle(5_000);
        usage.note_idle(5_050);
        assert_eq!(usage.idle_for(5_099), 99);
        assert!(settings.allow_request(usage, 5_099));
        assert!(!settings.allow_request(usage, 5_100));
        usage.begin_request();
        usage.note_idle(5_100);
        assert!(!settings.allow_request(usage, 5_100), "two requests");
    }

    #[test]
    fn idle_lifetime_counts_since_the_connection_was_established() {
        let settings = IdleSettings {
            lifetime: Some(Duration::from_millis(100)),
            ..IdleSettings::default()
        };
        let mut usage = ConnectionUsage::new(1_000);
        for now in [1_000, 1_040, 1_099] {
            usage.begin_request();
            assert!(settings.allow_request(usage, now), "busy at {now}");
            usage.note_idle(now);
            assert!(settings.allow_request(usage, now), "idle at {now}");
        }
        assert!(!settings.allow_request(usage, 1_100), "idle");
        usage.begin_request();
        assert!(!settings.allow_request(usage, 1_100), "busy");
        let off = IdleSettings {
            lifetime: None,
            age: Duration::MAX,
            ..settings
        };
        usage.note_idle(1_100);
        assert!(off.allow_request(usage, u64::MAX - 1));
    }
}
