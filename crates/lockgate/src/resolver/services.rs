//! Services whose endpoints are SRV records (RFC 2782): each record has one of the places that a
//! pool keeps for them, as long as it is there.
//!
//! A place whose record has gone is left empty for a while: connections to the old endpoint must
//! not be taken for those to the next one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::dns::Srv;
use lockgate_proxy::clock;
use lockgate_proxy::upstream::endpoint_name::EndpointName;
use lockgate_proxy::upstream::{Endpoint, Member, Pool};
use tokio::sync::Notify;

/// Places of one service. What needs more has a registry of its own to balance.
pub(crate) const PLACES: usize = 32;
/// What is added to the time for which connections are kept.
const MARGIN: Duration = Duration::from_secs(2);

/// One service and who uses it.
pub(super) struct Service {
    /// Under which its records are found.
    pub(super) name: Box<str>,
    pub(super) woken: Arc<Notify>,
    places: Vec<Place>,
    users: Vec<User>,
}

struct Place {
    name: Arc<EndpointName>,
    endpoint: Arc<Endpoint>,
    /// Whose it is.
    record: Option<(String, u16)>,
    state: State,
}

/// Whether a place without a record may have another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody has had it.
    New,
    /// Somebody has had it, and may still be spoken to.
    Left,
    /// Nobody is spoken to any more, since then; connections may be kept.
    Quiet(Instant),
}

/// A pool with places for it.
struct User {
    pool: Arc<Pool>,
    /// The first of them among its members.
    first: usize,
    /// Whether all of them are backups there.
    backup: bool,
}

/// A record and the addresses of its host; none where the host does not resolve.
pub(super) type Found = (Srv, Vec<SocketAddr>);

impl Service {
    /// One without records so far.
    pub(super) fn new(name: &str, max: Option<usize>) -> Self {
        let woken = Arc::new(Notify::new());
        let place = |number: usize| {
            let wake = Arc::clone(&woken);
            let cell = Arc::new(EndpointName::of_record(name, move || wake.notify_one()));
            let place = lockgate_proxy::upstream::EndpointAddress::Name(Arc::clone(&cell));
            let label = format!("srv:{name}#{number}");
            let endpoint = Arc::new(Endpoint::new(label, String::new(), place, max));
            Place {
                name: cell,
                endpoint,
                record: None,
                state: State::New,
            }
        };
        let places = (1..=PLACES).map(place).collect();
        Self {
            name: name.into(),
            woken,
            places,
            users: Vec::new(),
        }
    }

    /// Its endpoints, in the order of their places.
    pub(super) fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.places
            .iter()
            .map(|place| Arc::clone(&place.endpoint))
            .collect()
    }

    /// Tells a pool of what comes and goes, whose members from `first` on are its endpoints.
    pub(super) fn used_by(&mut self, pool: &Arc<Pool>, first: usize, backup: bool) {
        self.users.push(User {
            pool: Arc::clone(pool),
            first,
            backup,
        });
    }

    /// Forgets that its addresses were doubted: they are looked for anew.
    pub(super) fn take_failed(&self) {
        for place in &self.places {
            place.name.take_failed();
        }
    }

    /// Gives the records their places, and what is gone none.
    pub(super) fn publish(&mut self, found: Vec<Found>, now: Instant) {
        let mut records: BTreeMap<(String, u16), (Srv, Vec<SocketAddr>)> = BTreeMap::new();
        for (srv, addresses) in found {
            let key = (srv.target.clone(), srv.port);
            // Of two for one endpoint the better.
            if records
                .get(&key)
                .is_none_or(|(known, _)| srv.priority < known.priority)
            {
                records.insert(key, (srv, addresses));
            }
        }
        let best = records
            .values()
            .map(|(srv, _)| srv.priority)
            .min()
            .unwrap_or_default();
        let gone: Vec<_> = (0..self.places.len())
            .filter(|number| !self.keep(*number, &mut records, best))
            .collect();
        // What is left is new; those that are to be tried first come first.
        let mut new: Vec<_> = records
            .into_values()
            .filter(|(_, addresses)| !addresses.is_empty())
            .collect();
        new.sort_by_key(|(srv, _)| srv.priority);
        let mut left_out = 0;
        for (srv, addresses) in new {
            match self.free(now) {
                Some(number) => self.enter(number, &srv, addresses, best),
                None => left_out += 1,
            }
        }
        if left_out > 0 {
            tracing::warn!(service = %self.name, left_out, "more records than there are places for");
        }
        for user in &self.users {
            user.pool.reweigh();
        }
        // Last of all, so that at no moment nobody is there.
        gone.into_iter().for_each(|number| self.leave(number));
        for place in &mut self.places {
            let idle = place.endpoint.in_flight() == 0 && place.endpoint.connections() == 0;
            if place.record.is_none() && place.state == State::Left && idle {
                place.state = State::Quiet(now);
            }
        }
    }

    /// Looks after a place whose record is still there, or that has none; of one whose record is
    /// gone it says so, and has nobody wait for its turn.
    fn keep(
        &mut self,
        number: usize,
        records: &mut BTreeMap<(String, u16), Found>,
        best: u16,
    ) -> bool {
        let Some(place) = self.places.get_mut(number) else {
            return true;
        };
        let Some(record) = &place.record else {
            return true;
        };
        match records.remove(record) {
            Some((srv, addresses)) => {
                // Where its host does not resolve now, it stays where it was.
                if !addresses.is_empty() && **place.name.addresses() != addresses {
                    place.name.publish(addresses);
                }
                self.weigh(number, &srv, best);
                true
            }
            None => {
                let (host, port) = record;
                let endpoint = place.endpoint.label.as_str();
                tracing::info!(endpoint, "{host}:{port} is no longer there");
                (place.record, place.state) = (None, State::Left);
                self.members(number)
                    .for_each(|member| member.set_weight(1, true));
                false
            }
        }
    }

    /// Sends away whose record is gone.
    fn leave(&self, number: usize) {
        self.members(number).for_each(Member::mark_down);
        if let Some(place) = self.places.get(number) {
            place.name.publish(Vec::new());
        }
    }

    /// A place as the pools have it.
    fn members(&self, number: usize) -> impl Iterator<Item = &Member> {
        self.users
            .iter()
            .filter_map(move |user| user.pool.members().get(user.first + number))
    }

    /// A place for a new record: one that nobody has had, else one to whose last owner no
    /// connection is kept.
    fn free(&self, now: Instant) -> Option<usize> {
        let kept = self
            .users
            .iter()
            .map(|user| user.pool.settings.idle_settings.age)
            .max()
            .unwrap_or_default();
        let is_over = |place: &Place| match place.state {
            State::New => true,
            State::Left => false,
            State::Quiet(since) => {
                now.saturating_duration_since(since) > kept + MARGIN
            }
        };
        let free = |place: &&Place| place.record.is_none() && is_over(place);
        let mut all = self.places.iter();
        let new = all.position(|place| place.record.is_none() && place.state == State::New);
        new.or_else(|| self.places.iter().position(|place| free(&place)))
    }

    fn enter(&mut self, number: usize, srv: &Srv, addresses: Vec<SocketAddr>, best: u16) {
        let Some(place) = self.places.get_mut(number) else {
            return;
        };
        let endpoint = place.endpoint.label.as_str();
        tracing::info!(
            endpoint,
            "{}:{} is there, at {addresses:?}",
            srv.target,
            srv.port
        );
        place.record = Some((srv.target.clone(), srv.port));
        place.state = State::Left;
        place.endpoint.reset_history();
        place.name.publish(addresses);
        self.weigh(number, srv, best);
        let whom = format!("{}:{}", srv.target, srv.port);
        for user in &self.users {
            if let Some(member) = user.pool.members().get(user.first + number) {
                user.pool.set_alias(user.first + number, &whom);
                member.mark_up(clock::now());
            }
        }
    }

    /// RFC 2782: weights are shares within a priority, and 0 is a very small one. Of other
    /// priorities than the best all are backups.
    fn weigh(&self, number: usize, srv: &Srv, best: u16) {
        let weight = (u32::from(srv.weight) * 10).max(1);
        for user in &self.users {
            if let Some(member) = user.pool.members().get(user.first + number) {
                member.set_weight(weight, user.backup || srv.priority > best);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use lockgate_proxy::member_set::MemberSet;
    use lockgate_proxy::upstream::{Balance, Preference, Settings};

    use super::*;

    /// A service with a pool of its own, in which connections are kept for a minute.
    fn service() -> (Service, Arc<Pool>) {
        let mut service = Service::new("_app._tcp.test", None);
        let members = service.endpoints().into_iter().map(|endpoint| {
            let member = Member::new(endpoint, 1).as_backup();
            member.mark_down();
            member
        });
        let pool = Pool::new(
            members.collect(),
            Some(Balance::RoundRobin),
            None,
            Settings::default(),
        );
        let pool = Arc::new(pool);
        service.used_by(&pool, 0, false);
        (service, pool)
    }

    fn record(priority: u16, weight: u16, port: u16) -> Found {
        let srv = Srv {
            priority,
            weight,
            port,
            target: "a.test".into(),
        };
        (srv, vec![SocketAddr::from(([10, 0, 0, 1], port))])
    }

    /// Ports of those that are up, with a mark behind backups, in the order of their places.
    fn up(pool: &Pool) -> Vec<String> {
        let members = pool.members().iter().filter(|member| member.is_up());
        let shown = members.map(|member| {
            let targets = member.endpoint().address().targets();
            let port = match &targets[..] {
                [lockgate_net::dial::DialTarget::Tcp(address)] => address.port(),
                other => panic!("{other:?}"),
            };
            format!("{port}{}", if member.is_backup() { "b" } else { "" })
        });
        shown.collect()
    }

    /// Ports in the order in which the pool chooses, round and round.
    fn chosen(pool: &Pool, count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| {
                pool.choose(Preference::Any, MemberSet::default(), 0, 0)
                    .unwrap()
                    .0
            })
            .collect()
    }

    #[test]
    fn those_of_the_best_priority_serve_by_their_weights_and_others_are_backups() {
        let (mut service, pool) = service();
        assert!(
            up(&pool).is_empty()
                && pool
                    .choose(Preference::Any, MemberSet::default(), 0, 0)
                    .is_none()
        );
        service.publish(
            vec![record(5, 9, 3), record(1, 1, 1), record(1, 3, 2)],
            Instant::now(),
        );
        assert_eq!(up(&pool), ["1", "2", "3b"]);
        let turns = chosen(&pool, 40);
        let count = |place| turns.iter().filter(|chosen| **chosen == place).count();
        assert_eq!([0, 1, 2].map(count), [10, 30, 0]);
        // RFC 2782: of two with weight 0 each has its share, and beside others nearly none.
        service.publish(vec![record(1, 0, 1), record(1, 0, 2)], Instant::now());
        let turns = chosen(&pool, 10);
        assert_eq!(turns.iter().filter(|chosen| **chosen == 0).count(), 5);
        // What is left of the best serves; the order is no change.
        service.publish(vec![record(5, 9, 3), record(7, 1, 2)], Instant::now());
        assert_eq!(up(&pool), ["2b", "3"]);
    }

    #[test]
    fn while_records_take_the_place_of_others_somebody_is_there_all_the_time() {
        let (mut service, pool) = service();
        let start = Instant::now();
        service.publish(vec![record(0, 1, 1)], start);
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let looks = threads.spawn(|| {
                let somebody = || {
                    pool.choose(Preference::Any, MemberSet::default(), 0, 0)
                        .is_some()
                };
                // Who comes up behind a look that has passed him is seen by the next one, as
                // requests look again.
                while !done.load(Ordering::Relaxed) {
                    assert!(somebody() || somebody());
                }
            });
            for turn in 1..2_000_u16 {
                let now = start + Duration::from_secs(100) * turn.into();
                service.publish(
                    vec![record(turn % 3, 1, turn % 2), record(2, 1, turn % 2 + 2)],
                    now,
                );
            }
            done.store(true, Ordering::Relaxed);
            looks.join().unwrap();
        });
    }

    #[test]
    fn a_place_is_another_ones_only_when_no_connection_can_be_kept_any_more() {
        let (mut service, pool) = service();
        let start = Instant::now();
        let all = |from: u16| {
            (from..from + 32)
                .map(|port| record(0, 1, port))
                .collect::<Vec<_>>()
        };
        service.publish(all(100), start);
        assert_eq!(up(&pool).len(), 32);
        let busy = pool.members()[0].endpoint().begin_request();
        // All of them have gone; no place is free yet.
        let later = |seconds| start + Duration::from_secs(seconds);
        service.publish(all(200), later(1));
        assert!(up(&pool).is_empty());
        service.publish(all(200), later(62));
        assert!(up(&pool).is_empty());
        service.publish(all(200), later(64));
        let there = up(&pool);
        assert_eq!(
            (there.len(), there[0].as_str(), pool.members()[0].is_up()),
            (31, "200", false)
        );
        // One was still spoken to by the first: from its end on the time counts.
        drop(busy);
        service.publish(all(200), later(70));
        service.publish(all(200), later(131));
        assert_eq!(up(&pool).len(), 31);
        service.publish(all(200), later(133));
        assert_eq!((up(&pool).len(), up(&pool)[0].as_str()), (32, "231"));
    }

    #[test]
    fn a_record_whose_host_does_not_resolve_stays_where_it_was_and_is_nowhere_if_it_is_new() {
        let (mut service, pool) = service();
        let lost = |port| (record(0, 1, port).0, Vec::new());
        service.publish(vec![record(0, 1, 1), lost(2)], Instant::now());
        assert_eq!(up(&pool), ["1"]);
        service.publish(vec![lost(1), record(0, 1, 2)], Instant::now());
        assert_eq!(up(&pool), ["1", "2"]);
        // RFC 2782: decidedly not available.
        service.publish(Vec::new(), Instant::now());
        assert!(
            up(&pool).is_empty()
                && pool
                    .members()
                    .iter()
                    .all(|member| member.endpoint().is_vacant())
        );
    }

    #[test]
    fn what_was_taken_down_by_checks_stays_down_while_its_record_stays() {
        let (mut service, pool) = service();
        service.publish(vec![record(0, 1, 1), record(0, 1, 2)], Instant::now());
        pool.members()[0].mark_down();
        service.publish(vec![record(0, 2, 1), record(0, 1, 2)], Instant::now());
        assert_eq!(up(&pool), ["2"]);
    }

    #[test]
    fn whom_a_client_belongs_to_does_not_hang_on_the_place_that_a_record_has() {
        let ((mut one, first), (mut other, second)) = (service(), service());
        one.publish(
            (1..=8).map(|port| record(0, 1, port)).collect(),
            Instant::now(),
        );
        other.publish(vec![record(0, 1, 8), record(0, 1, 7)], Instant::now());
        other.publish(
            (1..=8).map(|port| record(0, 1, port)).collect(),
            Instant::now(),
        );
        let whose = |pool: &Pool, hash: u64| {
            let (place, _) = pool
                .choose(Preference::Hashed(hash), MemberSet::default(), 0, 0)
                .unwrap();
            format!("{:?}", pool.members()[place].endpoint().address().targets())
        };
        for hash in (0..64_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            assert_eq!(whose(&first, hash), whose(&second, hash));
        }
    }
}
