//! The change from one pool to another of the same name, when its settings change while it is used.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_limits::MemberIndex;
use lockgate_net::millis::Millis;

use super::balance::{CheckChange, Member};
use super::pool::Pool;

impl Pool {
    /// Takes over the state of the pool that had its name under other settings: its members that of
    /// the same endpoint's members there; all others join it now. To be called before this one is
    /// used. `now` is [`lockgate_limits::clock::Clock::now`].
    pub fn succeed(&self, earlier: &Self, checks: CheckChange, now: Millis) {
        let by_endpoint: HashMap<_, _> = MemberIndex::enumerate(earlier.members())
            .map(|(at, member)| (Arc::as_ptr(member.endpoint()), at))
            .collect();
        let place_before =
            |member: &Member| by_endpoint.get(&Arc::as_ptr(member.endpoint())).copied();
        let has_changed = |member: &Member| {
            member.endpoint().is_of_record() || member.weight_override().is_some()
        };
        let had_weights = self.members().iter().any(has_changed);
        let mut places = HashMap::new();
        for (at, member) in MemberIndex::enumerate(self.members()) {
            let before = place_before(member);
            member.succeed(
                before.and_then(|before| earlier.member(before)),
                checks,
                now,
            );
            let Some(before) = before else { continue };
            places.insert(before, at);
            if let (Some(own), Some(theirs)) = (self.settings.sticky(), earlier.settings.sticky()) {
                own.copy_value(at, theirs, before);
            }
        }
        if let (Some(own), Some(theirs)) = (self.settings.sessions(), earlier.settings.sessions()) {
            own.succeed(theirs, |before| places.get(&before).copied());
        }
        if had_weights || self.members().iter().any(has_changed) {
            self.reweigh();
        }
    }
}

#[cfg(test)]
mod tests {
    use lockgate_http::fields::Fields;
    use lockgate_limits::member_set::MemberSet;

    use super::*;
    use crate::affinity::Affinity;
    use crate::endpoint::{Endpoint, EndpointAddress};
    use crate::endpoint_name::EndpointName;
    use crate::preference::Preference;
    use crate::sessions::Sessions;
    use crate::settings::Settings;
    use crate::sticky::Sticky;

    /// A member for a record of a service: it exists with an address only.
    fn of_record(address: Option<&str>) -> Arc<Endpoint> {
        let name = Arc::new(EndpointName::of_record("_app._tcp.test", || {}));
        name.publish(address.into_iter().map(|at| at.parse().unwrap()).collect());
        let address = EndpointAddress::Name(name);
        Arc::new(Endpoint::new("srv".into(), String::new(), address, None))
    }

    #[test]
    fn a_pool_successor_keeps_weight_and_health_of_srv_records() {
        let (found, gone) = (of_record(Some("192.0.2.1:80")), of_record(None));
        let pool = || {
            let vacant = |endpoint: &Arc<Endpoint>| {
                let member = Member::new(Arc::clone(endpoint), 1).as_backup();
                member.mark_down();
                member
            };
            let members = [&found, &gone].map(vacant).into();
            Pool::new(members, None, None, Settings::default())
        };
        let earlier = pool();
        earlier.members()[0].set_weight(30, false);
        earlier.members()[0].mark_up(Millis::ZERO);
        for checks in [CheckChange::Same, CheckChange::Other] {
            let successor = pool();
            successor.succeed(&earlier, checks, Millis::ZERO);
            let [found, gone] = successor.members() else {
                panic!()
            };
            assert_eq!((found.is_up(), gone.is_up()), (true, false), "{checks:?}");
            assert_eq!((found.weight(), found.is_backup()), (30, false));
            let none = MemberSet::default();
            let chosen = successor.choose(Preference::Any, none, 0, Millis::ZERO);
            assert_eq!(chosen.map(|(at, _)| at.get()), Some(0));
        }
    }

    #[test]
    fn a_pool_successor_keeps_tls_sessions_of_members_that_moved() {
        let endpoints = ["a", "b", "c"].map(|label| {
            let address = EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
            Arc::new(Endpoint::new(label.into(), String::new(), address, None))
        });
        let pool = |order: &[usize], sessions| {
            let member = |at: &usize| Member::new(Arc::clone(&endpoints[*at]), 1);
            let settings = Settings {
                affinity: Some(Affinity::Session(sessions)),
                ..Settings::default()
            };
            Pool::new(order.iter().map(member).collect(), None, None, settings)
        };
        let earlier = pool(&[0, 1], Sessions::default());
        let sessions = earlier.settings.sessions().unwrap();
        sessions.learn(b"of a", MemberIndex::new(0), Millis::ZERO);
        sessions.learn(b"of b", MemberIndex::new(1), Millis::ZERO);
        let successor = pool(&[2, 1], sessions.successor());
        successor.succeed(&earlier, CheckChange::Same, Millis::ZERO);
        let known = successor.settings.sessions().unwrap();
        let found = [&b"of a"[..], b"of b"].map(|session| known.find(session, Millis::ZERO));
        assert_eq!(found, [None, Some(MemberIndex::new(1))]);
        let successor = pool(&[1, 0], sessions.successor());
        successor.succeed(&earlier, CheckChange::Same, Millis::ZERO);
        let known = successor.settings.sessions().unwrap();
        let found = [&b"of a"[..], b"of b"].map(|session| known.find(session, Millis::ZERO));
        assert_eq!(found, [1, 0].map(|at| Some(MemberIndex::new(at))));
    }

    #[test]
    fn a_pool_successor_keeps_the_sticky_cookie_of_an_srv_record() {
        let endpoint = of_record(Some("192.0.2.1:80"));
        let pool = || {
            let settings = Settings {
                affinity: Some(Affinity::Sticky(Sticky::new(
                    "lg",
                    "app",
                    ["srv"].into_iter(),
                ))),
                ..Settings::default()
            };
            let members = vec![Member::new(Arc::clone(&endpoint), 1)];
            Pool::new(members, None, None, settings)
        };
        let cookie = |pool: &Pool| {
            let mut response = Fields::default();
            let sticky = pool.settings.sticky().unwrap();
            sticky.say(MemberIndex::new(0), true, &mut response);
            response.named(b"set-cookie").next().map(<[u8]>::to_vec)
        };
        let (earlier, successor) = (pool(), pool());
        earlier.set_alias(MemberIndex::new(0), "one.test:80");
        assert_ne!(cookie(&earlier), cookie(&successor));
        successor.succeed(&earlier, CheckChange::Same, Millis::ZERO);
        assert_eq!(cookie(&earlier), cookie(&successor));
    }
}
