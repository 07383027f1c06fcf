//! Host names of endpoints, resolved on the supervisor's runtime so that no worker ever waits for a
//! name server.
//!
//! Uses the system's getaddrinfo (through tokio's blocking threads), so `/etc/hosts`,
//! `nsswitch.conf` and search domains count. getaddrinfo does not return a TTL: names are therefore
//! resolved again every 30 s, and at once when an address does not answer. Chooses no address: see
//! `lockgate_upstream`.
//!
//! getaddrinfo has no SRV records: name servers are asked for them, and the system for the hosts
//! that they name.

mod name_server;
mod refresh;
mod srv;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockgate_limits::MemberIndex;
use lockgate_upstream::endpoint_name::EndpointName;
use lockgate_upstream::{Endpoint, Pool};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::background::OwnedTask;

use refresh::{
    INTERVALS, LookupFn, RefreshIntervals, ask_system, keep_resolved, keep_service_resolved,
};
use srv::{ServicePool, SrvService, lock};

/// The wait for the first answers: a name server that is down must not hold up a start or a reload.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// The names that a configuration has, to be resolved by [`Resolving`].
#[derive(Default)]
pub(crate) struct EndpointResolver {
    registered: NameTable,
    /// The names that are resolved already, whether this configuration has them or not.
    running: NameTable,
    /// The name servers for SRV records; without any, those of the system.
    servers: Arc<[SocketAddr]>,
}

/// Names, and services with SRV records.
#[derive(Default, Clone)]
struct NameTable {
    names: BTreeMap<(Box<str>, u16), RegisteredName>,
    services: BTreeMap<Box<str>, RegisteredService>,
}

#[derive(Clone)]
struct RegisteredName {
    name: Arc<EndpointName>,
    woken: Arc<Notify>,
    /// The task that resolves it, once there is one.
    task: Option<Arc<OwnedTask>>,
}

#[derive(Clone)]
struct RegisteredService {
    service: Arc<Mutex<SrvService>>,
    /// The pools of the configuration that has registered it, which do not follow the records yet.
    pools: Vec<ServicePool>,
    /// The task that resolves it, once there is one.
    task: Option<Arc<OwnedTask>>,
}

/// The tasks that resolve the names of the running configuration. Dropping this ends them; the last
/// addresses stay published.
pub(crate) struct Resolving {
    running: NameTable,
    lookup: LookupFn,
    intervals: RefreshIntervals,
}

/// The names of a configuration that does not run yet, with tasks for those that are new. Dropping
/// this ends these tasks, and nothing else has changed.
pub(crate) struct PreparedNames {
    registered: NameTable,
    servers: Arc<[SocketAddr]>,
    /// The number of new names and services.
    new: u32,
    /// One permit for each of them of which the first resolution has ended, in success or failure.
    answered: Arc<Semaphore>,
}

impl EndpointResolver {
    /// Names for a configuration that may take the place of the running one: those in common keep
    /// their addresses.
    pub(crate) fn continuing(running: &Resolving) -> Self {
        Self {
            running: running.running.clone(),
            ..Self::default()
        }
    }

    /// The shared cell of `host` and `port`: the same one for the same pair, so that it is resolved
    /// once.
    pub(crate) fn register(&mut self, host: &str, port: u16) -> Arc<EndpointName> {
        let (key, running) = ((host.into(), port), &self.running.names);
        let names = self.registered.names.entry(key);
        let registered = names.or_insert_with_key(|key| {
            let known = running.get(key).cloned();
            known.unwrap_or_else(|| RegisteredName::new(host, port))
        });
        Arc::clone(&registered.name)
    }

    /// Sets the name servers for SRV records.
    pub(crate) fn set_name_servers(&mut self, servers: &[SocketAddr]) {
        self.servers = servers.into();
    }

    /// The endpoints of a service, the same ones for the same name; they are vacant until its
    /// records are found. Each has `max` connections at the most; one of a service that runs
    /// already keeps its own.
    pub(crate) fn service(&mut self, name: &str, max: Option<usize>) -> Vec<Arc<Endpoint>> {
        let running = &self.running.services;
        let services = self.registered.services.entry(name.into());
        let registered = services.or_insert_with(|| {
            let known = running.get(name).cloned();
            known.unwrap_or_else(|| RegisteredService::new(name, max))
        });
        lock(&registered.service).endpoints()
    }

    /// Lets the members of `pool` from `first` on follow the records of a service; all are backups
    /// if `backup` is set. They do so from [`Resolving::commit`] on, and are to be down before.
    pub(crate) fn add_pool(
        &mut self,
        name: &str,
        pool: &Arc<Pool>,
        first: MemberIndex,
        backup: bool,
    ) {
        if let Some(registered) = self.registered.services.get_mut(name) {
            let pool = ServicePool::new(pool, first, backup);
            registered.pools.push(pool);
        }
    }
}

impl RegisteredName {
    fn new(host: &str, port: u16) -> Self {
        let woken = Arc::new(Notify::new());
        let wake = Arc::clone(&woken);
        Self {
            name: Arc::new(EndpointName::new(host, port, move || wake.notify_one())),
            woken,
            task: None,
        }
    }
}

impl RegisteredService {
    fn new(name: &str, max: Option<usize>) -> Self {
        Self {
            service: Arc::new(Mutex::new(SrvService::new(name, max))),
            pools: Vec::new(),
            task: None,
        }
    }
}

impl Default for Resolving {
    /// No name is resolved so far.
    fn default() -> Self {
        Self {
            running: NameTable::default(),
            lookup: Arc::new(ask_system),
            intervals: INTERVALS,
        }
    }
}

impl Resolving {
    /// Starts to resolve every name that is new, each in a task of its own: a slow name server for
    /// one does not delay another. Changes nothing that runs.
    ///
    /// To be called in a tokio runtime with time. getaddrinfo cannot be interrupted: end that
    /// runtime with `shutdown_background`, or its end waits for the name server.
    pub(crate) fn prepare(&self, resolver: EndpointResolver) -> PreparedNames {
        let EndpointResolver {
            mut registered,
            servers,
            ..
        } = resolver;
        let answered = Arc::new(Semaphore::new(0));
        let mut new = 0;
        for one in registered.names.values_mut() {
            if one.task.is_some() {
                continue;
            }
            let (name, woken) = (Arc::clone(&one.name), Arc::clone(&one.woken));
            let (lookup, answered) = (Arc::clone(&self.lookup), Arc::clone(&answered));
            let task = keep_resolved(name, woken, lookup, self.intervals, answered);
            one.task = Some(Arc::new(OwnedTask::spawn(task)));
            new += 1;
        }
        for one in registered.services.values_mut() {
            if one.task.is_some() {
                continue;
            }
            lock(&one.service).set_servers(&servers);
            let (service, answered) = (Arc::clone(&one.service), Arc::clone(&answered));
            let task = keep_service_resolved(service, self.intervals, answered);
            one.task = Some(Arc::new(OwnedTask::spawn(task)));
            new += 1;
        }
        PreparedNames {
            registered,
            servers,
            new,
            answered,
        }
    }

    /// Lets the prepared names take the place of the running ones: the tasks of names that are gone
    /// end, and the pools of the new configuration follow the records instead of the old ones.
    ///
    /// To be called before the new pools are used.
    pub(crate) fn commit(&mut self, prepared: PreparedNames) {
        let PreparedNames {
            mut registered,
            servers,
            ..
        } = prepared;
        for one in registered.services.values_mut() {
            let mut service = lock(&one.service);
            if service.set_servers(&servers) {
                service.woken.notify_one();
            }
            service.set_pools(std::mem::take(&mut one.pools));
        }
        self.running = registered;
    }
}

impl PreparedNames {
    /// Waits until every new name was looked up once, but no longer than `patience`: a connection
    /// before the first answer finds no address, but a name server that is down must not hold up
    /// the others.
    pub(crate) async fn first_answers(&self, patience: Duration) {
        if timeout(patience, self.answered.acquire_many(self.new))
            .await
            .is_err()
        {
            tracing::warn!("some names are not resolved yet: they are used without an address");
        }
    }
}

#[cfg(test)]
mod tests;
