//! Services with SRV records as endpoints (RFC 2782): each record has one of the slots that a pool
//! keeps for them, as long as it exists.
//!
//! A slot without its record stays empty for a while: connections to the old endpoint must not be
//! taken for those to the next one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockgate_limits::MemberIndex;
use lockgate_limits::clock;
use lockgate_net::dns::Srv;
use lockgate_net::millis::Millis;
use lockgate_upstream::endpoint_name::EndpointName;
use lockgate_upstream::{Endpoint, Member, Pool};
use tokio::sync::Notify;

/// The number of slots of one service. Services with more endpoints balance by a registry of their
/// own.
pub(crate) const SLOTS: usize = 32;
/// Time beyond the lifetime of idle connections until a slot is free.
const MARGIN: Duration = Duration::from_secs(2);

/// One service and the pools that use it.
pub(super) struct SrvService {
    /// The name of its SRV records.
    pub(super) name: Arc<str>,
    pub(super) woken: Arc<Notify>,
    /// The name servers; without any, those of the system.
    servers: Arc<[SocketAddr]>,
    slots: Vec<RecordSlot>,
    /// The best priority of its records.
    best: u16,
    pools: Vec<ServicePool>,
}

/// The service, for a look at it without a wait.
pub(super) fn lock(service: &Mutex<SrvService>) -> MutexGuard<'_, SrvService> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One endpoint of a service, for one record at a time.
struct RecordSlot {
    name: Arc<EndpointName>,
    endpoint: Arc<Endpoint>,
    record: Option<SlotRecord>,
    state: State,
}

/// The record of a slot.
struct SlotRecord {
    srv: Srv,
    /// When the slot got it.
    since: Millis,
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
#[derive(Clone)]
pub(super) struct ServicePool {
    pool: Arc<Pool>,
    /// The member for the first slot.
    first: MemberIndex,
    /// Whether all these members are backups.
    backup: bool,
}

impl ServicePool {
    /// The members of `pool` from `first` on, all backups if `backup` is set.
    pub(super) fn new(pool: &Arc<Pool>, first: MemberIndex, backup: bool) -> Self {
        Self {
            pool: Arc::clone(pool),
            first,
            backup,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool) && self.first == other.first
    }

    /// The member for a slot.
    fn index(&self, slot: usize) -> MemberIndex {
        MemberIndex::new(self.first.get() + slot)
    }

    fn member(&self, slot: usize) -> Option<&Member> {
        self.pool.member(self.index(slot))
    }

    /// RFC 2782: weights are shares within a priority, and 0 is a very small one. Members of other
    /// priorities than the best are backups.
    fn set_weight(&self, slot: usize, srv: &Srv, best: u16) {
        if let Some(member) = self.member(slot) {
            let weight = (u32::from(srv.weight) * 10).max(1);
            member.set_weight(weight, self.backup || srv.priority > best);
        }
    }

    /// Lets the member for a slot serve for its new record.
    fn assign(&self, slot: usize, record: &SlotRecord) {
        let SlotRecord { srv, since } = record;
        if let Some(member) = self.member(slot) {
            let alias = format!("{}:{}", srv.target, srv.port);
            self.pool.set_alias(self.index(slot), &alias);
            member.mark_up(*since);
        }
    }
}

/// A record and the addresses of its host; none where the host does not resolve.
pub(super) type ResolvedRecord = (Srv, Vec<SocketAddr>);

impl SrvService {
    /// A service without records so far.
    pub(super) fn new(name: &str, max: Option<usize>) -> Self {
        let woken = Arc::new(Notify::new());
        let slot = |number: usize| {
            let wake = Arc::clone(&woken);
            let cell = Arc::new(EndpointName::of_record(name, move || wake.notify_one()));
            let address = lockgate_upstream::EndpointAddress::Name(Arc::clone(&cell));
            let label = format!("srv:{name}#{number}");
            let endpoint = Arc::new(Endpoint::new(label, String::new(), address, max));
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
            servers: Arc::default(),
            slots,
            best: 0,
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

    /// Sets the name servers; returns whether they are others than before.
    pub(super) fn set_servers(&mut self, servers: &Arc<[SocketAddr]>) -> bool {
        let changed = self.servers != *servers;
        self.servers = Arc::clone(servers);
        changed
    }

    /// Sets the pools that follow the records. The members of a new one get the state that others
    /// have already.
    pub(super) fn set_pools(&mut self, pools: Vec<ServicePool>) {
        for new in &pools {
            if !self.pools.iter().any(|known| known.is_same(new)) {
                self.bring_up(new);
            }
        }
        self.pools = pools;
    }

    /// Gives the members of a pool the records of their slots.
    fn bring_up(&self, service_pool: &ServicePool) {
        let records = || {
            let slots = self.slots.iter().enumerate();
            slots.filter_map(|(number, slot)| Some((number, slot.record.as_ref()?)))
        };
        for (number, record) in records() {
            service_pool.set_weight(number, &record.srv, self.best);
        }
        service_pool.pool.reweigh();
        for (number, record) in records() {
            service_pool.assign(number, record);
        }
    }

    /// Forgets failed connects to its addresses, which are looked up now; returns the name servers
    /// to ask.
    pub(super) fn begin_look_up(&self) -> Arc<[SocketAddr]> {
        for slot in &self.slots {
            slot.name.take_failed();
        }
        Arc::clone(&self.servers)
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
        self.best = records
            .values()
            .map(|(srv, _)| srv.priority)
            .min()
            .unwrap_or_default();
        let gone: Vec<_> = (0..self.slots.len())
            .filter(|number| !self.refresh(*number, &mut records))
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
                Some(number) => self.assign(number, srv, addresses),
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

    /// Updates a slot by its record. Returns false where the record is gone; its member is then
    /// chosen last.
    fn refresh(
        &mut self,
        number: usize,
        records: &mut BTreeMap<(String, u16), ResolvedRecord>,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(number) else {
            return true;
        };
        let Some(record) = &mut slot.record else {
            return true;
        };
        match records.remove(&(record.srv.target.clone(), record.srv.port)) {
            Some((srv, addresses)) => {
                // Where its host does not resolve now, the old addresses stay.
                if !addresses.is_empty() && **slot.name.addresses() != addresses {
                    slot.name.publish(addresses);
                }
                for service_pool in &self.pools {
                    service_pool.set_weight(number, &srv, self.best);
                }
                record.srv = srv;
                true
            }
            None => {
                let Srv { target, port, .. } = &record.srv;
                let endpoint = slot.endpoint.label.as_str();
                tracing::info!(
                    endpoint,
                    "{target}:{port} is no longer a record of the service"
                );
                (slot.record, slot.state) = (None, State::Used);
                self.members(number)
                    .for_each(|member| member.set_weight(1, true));
                false
            }
        }
    }

    /// Takes a slot out of use: its record is gone.
    fn vacate(&self, number: usize) {
        self.members(number).for_each(Member::mark_down);
        if let Some(slot) = self.slots.get(number) {
            slot.name.publish(Vec::new());
        }
    }

    /// The members for a slot, one in each pool.
    fn members(&self, number: usize) -> impl Iterator<Item = &Member> {
        self.pools
            .iter()
            .filter_map(move |service_pool| service_pool.member(number))
    }

    /// A slot for a new record: an unused one, else one without kept connections to its last
    /// endpoint.
    fn free_slot(&self, now: Instant) -> Option<usize> {
        let kept = self
            .pools
            .iter()
            .map(|one| one.pool.settings.idle_settings.age)
            .max()
            .unwrap_or_default();
        let is_free = |slot: &RecordSlot| match slot.state {
            State::Unused => true,
            State::Used => false,
            State::Idle(since) => now.saturating_duration_since(since) > kept + MARGIN,
        };
        let mut all = self.slots.iter();
        let unused = all.position(|slot| slot.record.is_none() && slot.state == State::Unused);
        let free = |slot: &RecordSlot| slot.record.is_none() && is_free(slot);
        unused.or_else(|| self.slots.iter().position(free))
    }

    fn assign(&mut self, number: usize, srv: Srv, addresses: Vec<SocketAddr>) {
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
        slot.state = State::Used;
        slot.endpoint.reset_history();
        slot.name.publish(addresses);
        let since = clock::now();
        let record = slot.record.insert(SlotRecord { srv, since });
        for service_pool in &self.pools {
            service_pool.set_weight(number, &record.srv, self.best);
            service_pool.assign(number, record);
        }
    }
}

#[cfg(test)]
mod tests;
