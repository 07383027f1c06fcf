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
use std::sync::Arc;
use std::time::Duration;

use lockgate_limits::MemberIndex;
use lockgate_upstream::endpoint_name::EndpointName;
use lockgate_upstream::{Endpoint, Pool};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use refresh::{
    INTERVALS, LookupFn, RefreshIntervals, ask_system, keep_resolved, keep_service_resolved,
};
use srv::SrvService;

/// The wait for the first answers: a name server that is down must not hold up the start.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// The names to resolve, once [`EndpointResolver::start`] is called.
#[derive(Default)]
pub(crate) struct EndpointResolver {
    names: BTreeMap<(Box<str>, u16), RegisteredName>,
    services: BTreeMap<Box<str>, SrvService>,
    /// The name servers for SRV records; without any, those of the system.
    servers: Vec<SocketAddr>,
}

struct RegisteredName {
    name: Arc<EndpointName>,
    woken: Arc<Notify>,
}

/// The tasks that resolve names. Dropping this ends them; the last addresses stay published.
pub(crate) struct Resolving {
    tasks: JoinSet<()>,
    /// One permit for each name of which the first resolution has ended, in success or failure.
    answered: Arc<Semaphore>,
}

impl EndpointResolver {
    /// The shared cell of `host` and `port`: the same one for the same pair, so that it is resolved
    /// once.
    pub(crate) fn register(&mut self, host: &str, port: u16) -> Arc<EndpointName> {
        let resolved = self.names.entry((host.into(), port)).or_insert_with(|| {
            let woken = Arc::new(Notify::new());
            let wake = Arc::clone(&woken);
            RegisteredName {
                name: Arc::new(EndpointName::new(host, port, move || wake.notify_one())),
                woken,
            }
        });
        Arc::clone(&resolved.name)
    }

    /// Sets the name servers for SRV records.
    pub(crate) fn set_name_servers(&mut self, servers: &[SocketAddr]) {
        self.servers = servers.to_vec();
    }

    /// The endpoints of a service, the same ones for the same name; they are vacant until its
    /// records are found. Each has `max` connections at the most.
    pub(crate) fn service(&mut self, name: &str, max: Option<usize>) -> Vec<Arc<Endpoint>> {
        self.services
            .entry(name.into())
            .or_insert_with(|| SrvService::new(name, max))
            .endpoints()
    }

    /// Lets the members of `pool` from `first` on follow the records of a service; all are backups
    /// if `backup` is set.
    pub(crate) fn add_pool(
        &mut self,
        name: &str,
        pool: &Arc<Pool>,
        first: MemberIndex,
        backup: bool,
    ) {
        if let Some(service) = self.services.get_mut(name) {
            service.add_pool(pool, first, backup);
        }
    }

    /// Starts to resolve every registered name, each in a task of its own: a slow name server for
    /// one does not delay another.
    ///
    /// To be called in a tokio runtime with time. getaddrinfo cannot be interrupted: end that
    /// runtime with `shutdown_background`, or its end waits for the name server.
    pub(crate) fn start(self) -> Resolving {
        self.start_with(Arc::new(ask_system), INTERVALS)
    }

    fn start_with(self, lookup: LookupFn, intervals: RefreshIntervals) -> Resolving {
        let answered = Arc::new(Semaphore::new(0));
        let mut tasks = JoinSet::new();
        for resolved in self.names.into_values() {
            tasks.spawn(keep_resolved(
                resolved.name,
                resolved.woken,
                Arc::clone(&lookup),
                intervals,
                Arc::clone(&answered),
            ));
        }
        let servers: Arc<[SocketAddr]> = self.servers.into();
        for service in self.services.into_values() {
            tasks.spawn(keep_service_resolved(
                service,
                Arc::clone(&servers),
                intervals,
                Arc::clone(&answered),
            ));
        }
        Resolving { tasks, answered }
    }
}

impl Resolving {
    /// Waits until every name was looked up once, but no longer than `patience`: a connection
    /// before the first answer finds no address, but a name server that is down must not hold up
    /// the start.
    pub(crate) async fn first_answers(&self, patience: Duration) {
        let names = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        if timeout(patience, self.answered.acquire_many(names))
            .await
            .is_err()
        {
            tracing::warn!("starting although some names are not resolved yet");
        }
    }
}

#[cfg(test)]
mod tests;
