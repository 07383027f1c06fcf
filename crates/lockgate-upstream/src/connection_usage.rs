//! The use of a connection to an endpoint, and whether it may have a further request.

use std::time::Duration;

use lockgate_net::millis::Millis;
use lockgate_rules::IdleSettings;

/// The use of a connection to an endpoint so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionUsage {
    /// When it was connected.
    pub(super) connected_at: Millis,
    /// Since when it is known to have no request; the maximum while it is not.
    pub(super) idle_since: Millis,
    /// The requests that it was given.
    pub(super) requests: u64,
}

impl ConnectionUsage {
    /// That of a connection that is made now.
    pub(super) fn new(now: Millis) -> Self {
        Self {
            connected_at: now,
            idle_since: Millis::MAX,
            requests: 0,
        }
    }

    /// Counts one more request, which begins.
    pub(super) fn begin_request(&mut self) {
        self.idle_since = Millis::MAX;
        self.requests += 1;
    }

    /// Notes that it has no request now.
    pub(super) fn note_idle(&mut self, now: Millis) {
        self.idle_since = self.idle_since.min(now);
    }

    /// The time that it has had no request.
    pub(super) fn idle_for(self, now: Millis) -> Millis {
        now - self.idle_since
    }

    /// Whether it may have a further request.
    pub(super) fn allows_request(self, settings: IdleSettings, now: Millis) -> bool {
        let is_within = |time: Millis, limit| Duration::from(time) < limit;
        let is_young = |lifetime| is_within(now - self.connected_at, lifetime);
        self.requests < settings.requests
            && is_within(self.idle_for(now), settings.age)
            && settings.lifetime.is_none_or(is_young)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Millis {
        Millis::new(millis)
    }

    #[test]
    fn idle_settings_bound_requests_and_idle_time() {
        let settings = IdleSettings {
            age: Duration::from_millis(100),
            requests: 2,
            ..IdleSettings::default()
        };
        let mut usage = ConnectionUsage::new(at(1_000));
        assert!(usage.allows_request(settings, at(1_000)));
        assert!(
            usage.allows_request(settings, at(5_000)),
            "not known to be idle"
        );
        usage.begin_request();
        assert!(usage.allows_request(settings, at(5_000)), "busy");
        usage.note_idle(at(5_000));
        usage.note_idle(at(5_050));
        assert_eq!(usage.idle_for(at(5_099)), at(99));
        assert!(usage.allows_request(settings, at(5_099)));
        assert!(!usage.allows_request(settings, at(5_100)));
        usage.begin_request();
        usage.note_idle(at(5_100));
        assert!(!usage.allows_request(settings, at(5_100)), "two requests");
    }

    #[test]
    fn idle_lifetime_counts_since_the_connection_was_established() {
        let settings = IdleSettings {
            lifetime: Some(Duration::from_millis(100)),
            ..IdleSettings::default()
        };
        let mut usage = ConnectionUsage::new(at(1_000));
        for now in [1_000, 1_040, 1_099].map(at) {
            usage.begin_request();
            assert!(usage.allows_request(settings, now), "busy at {now:?}");
            usage.note_idle(now);
            assert!(usage.allows_request(settings, now), "idle at {now:?}");
        }
        assert!(!usage.allows_request(settings, at(1_100)), "idle");
        usage.begin_request();
        assert!(!usage.allows_request(settings, at(1_100)), "busy");
        let off = IdleSettings {
            lifetime: None,
            age: Duration::MAX,
            ..settings
        };
        usage.note_idle(at(1_100));
        assert!(usage.allows_request(off, at(u64::MAX - 1)));
    }
}
