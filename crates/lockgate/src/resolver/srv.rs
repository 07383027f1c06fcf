//! Services with SRV records as endpoints (RFC 2782): each record has one of the slots that a pool keeps
//! for them, as long as it exists.
//!
//! A slot without its record stays empty for a while: connections to the old endpoint must not be taken
//! for those to the next one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::dns::Srv;
use lockgate_proxy::clock;
use lockgate_proxy::upstream::name::Name;
use lockgate_proxy::upstream::{Endpoint, Member, Pool};
use tokio::sync::Notify;

/// The number of slots of one service. Services with more endpoints balance by a registry of their own.
pub(crate) const SLOTS: usize = 32;
/// Time beyond the lifetime of idle connections until a slot is free.
const MARGIN: Duration = Duration::from_secs(2);

/// One service and the pools that use it.
pub(super) struct SrvService {
    /// The name of its SRV records.
    pub(super) name: Box<str>,
    pub(super) woken: Arc<Notify>,
    slots: Vec<RecordSlot>,
    pools: Vec<ServicePool>,
}

/// One endpoint of a service, for one record at a time.
struct RecordSlot {
    name: Arc<Name>,
    endpoint: Arc<Endpoint>,
    /// The host and port of its record.
    record: Option<(String, u16)>,
    state: State,
}

/// Whether a slot without a record may get another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No record has had it.
    Unused,
    /// A record has it or had it, and exchanges or connections with its endpoint may go on.
    Used,
    /// No exchange has gone on since then; idle connections may be kept.
    Idle(Instant),
}

/// A pool with members for the slots.
struct ServicePool {
    pool: Arc<Pool>,
    /// The index of the member for the first slot.
    first: usize,
    /// Whether all these members are backups.
    backup: bool,
}

/// A record and the addresses of its host; none where the host does not resolve.
pub(super) type ResolvedRecord = (Srv, Vec<SocketAddr>);

impl SrvService {
    /// A service without records so far.
    pub(super) fn new(name: &str, max: Option<usize>) -> Self {
        let woken = Arc::new(Notify::new());
        let slot = |number: usize| {
            let wake = Arc::clone(&woken);
            let cell = Arc::new(Name::of_record(name, move || wake.notify_one()));
            let place = lockgate_proxy::upstream::Place::Name(Arc::clone(&cell));
            let label = format!("srv:{name}#{number}");
            let endpoint = Arc::new(Endpoint::new(label, String::new(), place, max));
            RecordSlot {
                name: cell,
                endpoint,
                record: None,
                state: State::Unused,
            }
        };
        let slots = (1..=SLOTS).map(slot).collect();
        Self {
            name: name.into(),
            woken,
            slots,
            pools: Vec::new(),
        }
    }

    /// Its endpoints, in the order of the slots.
    pub(super) fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.slots
            .iter()
            .map(|slot| Arc::clone(&slot.endpoint))
            .collect()
    }

    /// Adds a pool that follows the records; its members from `first` on are the endpoints.
    pub(super) fn add_pool(&mut self, pool: &Arc<Pool>, first: usize, backup: bool) {
        self.pools.push(ServicePool {
            pool: Arc::clone(pool),
            first,
            backup,
        });
    }

    /// Forgets failed connects to its addresses: they are looked up now.
    pub(super) fn take_failed(&self) {
        for slot in &self.slots {
            slot.name.take_failed();
        }
    }

    /// Gives new records slots, and takes those of records that are gone.
    pub(super) fn publish(&mut self, found: Vec<ResolvedRecord>, now: Instant) {
        let mut records: BTreeMap<(String, u16), (Srv, Vec<SocketAddr>)> = BTreeMap::new();
        for (srv, addresses) in found {
            let key = (srv.target.clone(), srv.port);
            // Of two records for one endpoint the better one.
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
        let gone: Vec<_> = (0..self.slots.len())
            .filter(|number| !self.refresh(*number, &mut records, best))
            .collect();
        // The remaining records are new; the best priority comes first.
        let mut new: Vec<_> = records
            .into_values()
            .filter(|(_, addresses)| !addresses.is_empty())
            .collect();
        new.sort_by_key(|(srv, _)| srv.priority);
        let mut left_out = 0;
        for (srv, addresses) in new {
            match self.free_slot(now) {
                Some(number) => self.assign(number, &srv, addresses, best),
                None => left_out += 1,
            }
        }
        if left_out > 0 {
            tracing::warn!(service = %self.name, left_out, "the service has more records than are used");
        }
        for service_pool in &self.pools {
            service_pool.pool.reweigh();
        }
        // Old members leave last, so that the pool always has one.
        gone.into_iter().for_each(|number| self.vacate(number));
        for slot in &mut self.slots {
            let idle = slot.endpoint.in_flight() == 0 && slot.endpoint.connections() == 0;
            if slot.record.is_none() && slot.state == State::Used && idle {
                slot.state = State::Idle(now);
            }
        }
    }

    /// Updates a slot by its record. Returns false where the record is gone; its member is then chosen
    /// last.
    fn refresh(
        &mut self,
        number: usize,
        records: &mut BTreeMap<(String, u16), ResolvedRecord>,
        best: u16,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(number) else {
            return true;
        };
        let Some(record) = &slot.record else {
            return true;
        };
        match records.remove(record) {
            Some((srv, addresses)) => {
                // Where its host does not resolve now, the old addresses stay.
                if !addresses.is_empty() && **slot.name.addresses() != addresses {
                    slot.name.publish(addresses);
                }
                self.set_weight(number, &srv, best);
                true
            }
            None => {
                let (host, port) = record;
                let endpoint = slot.endpoint.label.as_str();
                tracing::info!(endpoint, "{host}:{port} is no longer a record of the service");
                (slot.record, slot.state) = (None, State::Used);
                self.members(number)
                    .for_each(|member| member.assume(1, true));
                false
            }
        }
    }

    /// Takes a slot out of use: its record is gone.
    fn vacate(&self, number: usize) {
        self.members(number).for_each(Member::fall);
        if let Some(slot) = self.slots.get(number) {
            slot.name.publish(Vec::new());
        }
    }

    /// The members for a slot, one in each pool.
    fn members(&self, number: usize) -> impl Iterator<Item = &Member> {
        self.pools
            .iter()
            .filter_map(move |service_pool| service_pool.pool.members().get(service_pool.first + number))
    }

    /// A slot for a new record: an unused one, else one without kept connections to its last endpoint.
    fn free_slot(&self, now: Instant) -> Option<usize> {
        let kept = self
            .users
            .iter()
            .map(|one| one.pool.settings.keeping.lifetime)
            .max()
            .unwrap_or_default();
        let is_free = |slot: &RecordSlot| match slot.state {
            State::Unused => true,
            State::Used => false,
            State::Idle(since) => {
                now.saturating_duration_since(since) > Duration::from_millis(kept) + MARGIN
            }
        };
        let mut all = self.slots.iter();
        let unused = all.position(|slot| slot.record.is_none() && slot.state == State::Unused);
        let free = |slot: &RecordSlot| slot.record.is_none() && is_free(slot);
        unused.or_else(|| self.slots.iter().position(free))
    }

    fn assign(&mut self, number: usize, srv: &Srv, addresses: Vec<SocketAddr>, best: u16) {
        let Some(slot) = self.slots.get_mut(number) else {
            return;
        };
        let endpoint = slot.endpoint.label.as_str();
        tracing::info!(
            endpoint,
            "{}:{} is a new record of the service, at {addresses:?}",
            srv.target,
            srv.port
        );
        slot.record = Some((srv.target.clone(), srv.port));
        slot.state = State::Used;
        slot.endpoint.forgive();
        slot.name.publish(addresses);
        self.set_weight(number, srv, best);
        let alias = format!("{}:{}", srv.target, srv.port);
        for service_pool in &self.pools {
            if let Some(member) = service_pool.pool.members().get(service_pool.first + number) {
                service_pool.pool.stand_for(service_pool.first + number, &alias);
                member.rise(clock::now());
            }
        }
    }

    /// RFC 2782: weights are shares within a priority, and 0 is a very small one. Members of other
    /// priorities than the best are backups.
    fn set_weight(&self, number: usize, srv: &Srv, best: u16) {
        let weight = (u32::from(srv.weight) * 10).max(1);
        for service_pool in &self.pools {
            if let Some(member) = service_pool.pool.members().get(service_pool.first + number) {
                member.assume(weight, service_pool.backup || srv.priority > best);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use lockgate_proxy::member_set::MemberSet;
    use lockgate_proxy::upstream::{Balance, Settings, Wish};

    use super::*;

    /// A service with a pool of its own, in which connections are kept for a minute.
    fn service() -> (SrvService, Arc<Pool>) {
        let mut service = SrvService::new("_app._tcp.test", None);
        let members = service.endpoints().into_iter().map(|endpoint| {
            let member = Member::new(endpoint, 1).as_backup();
            member.fall();
            member
        });
        let pool = Pool::new(
            members.collect(),
            Some(Balance::RoundRobin),
            None,
            Settings::default(),
        );
        let pool = Arc::new(pool);
        service.add_pool(&pool, 0, false);
        (service, pool)
    }

    fn record(priority: u16, weight: u16, port: u16) -> ResolvedRecord {
        let srv = Srv {
            priority,
            weight,
            port,
            target: "a.test".into(),
        };
        (srv, vec![SocketAddr::from(([10, 0, 0, 1], port))])
    }

    /// The ports of members that are up, with a mark behind backups, in the order of their slots.
    fn up(pool: &Pool) -> Vec<String> {
        let members = pool.members().iter().filter(|member| member.is_up());
        let shown = members.map(|member| {
            let targets = member.endpoint().place().targets();
            let port = match &targets[..] {
                [lockgate_net::dial::Target::Tcp(address)] => address.port(),
                other => panic!("{other:?}"),
            };
            format!("{port}{}", if member.is_backup() { "b" } else { "" })
        });
        shown.collect()
    }

    /// The indexes of members in the order in which the pool chooses them.
    fn chosen(pool: &Pool, count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| {
                pool.choose(Wish::Any, MemberSet::default(), 0, 0)
                    .unwrap()
                    .0
            })
            .collect()
    }

    #[test]
    fn those_of_the_best_priority_serve_by_their_weights_and_others_are_backups() {
        let (mut service, pool) = service();
        assert!(
            up(&pool).is_empty() && pool.choose(Wish::Any, MemberSet::default(), 0, 0).is_none()
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
        // The remaining best priority serves; the order is no change.
        service.publish(vec![record(5, 9, 3), record(7, 1, 2)], Instant::now());
        assert_eq!(up(&pool), ["2b", "3"]);
    }

    #[test]
    fn a_pool_always_has_a_member_while_records_replace_each_other() {
        let (mut service, pool) = service();
        let start = Instant::now();
        service.publish(vec![record(0, 1, 1)], start);
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let looks = threads.spawn(|| {
                let has_member = || pool.choose(Wish::Any, MemberSet::default(), 0, 0).is_some();
                // A member that comes up behind the search is found by the next one: requests
                // search again.
                while !done.load(Ordering::Relaxed) {
                    assert!(has_member() || has_member());
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
    fn a_slot_gets_another_record_only_when_no_connection_can_be_kept() {
        let (mut service, pool) = service();
        let start = Instant::now();
        let all = |from: u16| {
            (from..from + 32)
                .map(|port| record(0, 1, port))
                .collect::<Vec<_>>()
        };
        service.publish(all(100), start);
        assert_eq!(up(&pool).len(), 32);
        let busy = pool.members()[0].endpoint().begin();
        // All old records are gone; no slot is free yet.
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
        // The first slot had an exchange: the time counts from its end.
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
        pool.members()[0].fall();
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
                .choose(Wish::Hashed(hash), MemberSet::default(), 0, 0)
                .unwrap();
            format!("{:?}", pool.members()[place].endpoint().place().targets())
        };
        for hash in (0..64_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            assert_eq!(whose(&first, hash), whose(&second, hash));
        }
    }
}
