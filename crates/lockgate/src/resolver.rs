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
mod srv;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_limits::MemberIndex;
use lockgate_net::dial::interleave;
use lockgate_upstream::endpoint_name::EndpointName;
use lockgate_upstream::{Endpoint, Pool, Random};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use srv::{ResolvedRecord, SrvService};

/// The wait for the first answers: a name server that is down must not hold up the start.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// The time limit of looking up the host of one record.
const HOST_LIMIT: Duration = Duration::from_secs(5);

type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
type LookupFn = Arc<dyn Fn(Arc<EndpointName>) -> LookupFuture + Send + Sync>;

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

#[derive(Clone, Copy)]
struct RefreshIntervals {
    /// The interval after an answer, plus or minus a tenth.
    refresh: Duration,
    /// The least time between two resolutions of a name, also when workers ask for one; the first
    /// pause after a failure.
    least: Duration,
}

const INTERVALS: RefreshIntervals = RefreshIntervals {
    refresh: Duration::from_secs(30),
    least: Duration::from_secs(1),
};

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
                resolved,
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

fn ask_system(name: Arc<EndpointName>) -> LookupFuture {
    Box::pin(async move {
        Ok(tokio::net::lookup_host((name.host(), name.port()))
            .await?
            .collect())
    })
}

async fn keep_resolved(
    resolved: RegisteredName,
    lookup: LookupFn,
    intervals: RefreshIntervals,
    answered: Arc<Semaphore>,
) {
    let RegisteredName { name, woken } = resolved;
    let random = Random::new();
    let mut failures = 0;
    let mut answered = Some(answered);
    loop {
        // A connect that fails from here on may have used the old addresses, and wakes this task
        // again.
        name.take_failed();
        match lookup(Arc::clone(&name)).await.and_then(some_address) {
            Ok(addresses) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!(name = %name, "the name resolves again");
                }
                publish_if_changed(&name, addresses);
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    let kept = name.addresses().len();
                    tracing::warn!(name = %name, %error, kept, "the name does not resolve: its old addresses stay in use");
                }
            }
        }
        if let Some(answered) = answered.take() {
            answered.add_permits(1);
        }
        sleep(intervals.least).await;
        let rest = pause(&random, failures, intervals).saturating_sub(intervals.least);
        // Ends early when a worker reports that the addresses do not answer.
        let _ = timeout(rest, woken.notified()).await;
    }
}

async fn keep_service_resolved(
    mut service: SrvService,
    servers: Arc<[SocketAddr]>,
    intervals: RefreshIntervals,
    answered: Arc<Semaphore>,
) {
    let random = Random::new();
    let mut failures = 0;
    let mut answered = Some(answered);
    loop {
        service.take_failed();
        let mut refresh = intervals.refresh;
        match resolve_service(&servers, &service.name).await {
            Ok((found, lasts)) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!(service = %service.name, "the service has records again");
                }
                service.publish(found, Instant::now());
                refresh = refresh.min(lasts);
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(service = %service.name, %error, "the service has no records now: its old endpoints stay in use");
                }
            }
        }
        if let Some(answered) = answered.take() {
            answered.add_permits(1);
        }
        sleep(intervals.least).await;
        let rest = pause(
            &random,
            failures,
            RefreshIntervals {
                refresh,
                ..intervals
            },
        )
        .saturating_sub(intervals.least);
        let _ = timeout(rest, service.woken.notified()).await;
    }
}

/// The records of a service with the addresses of their hosts, and their TTL.
async fn resolve_service(
    servers: &[SocketAddr],
    name: &str,
) -> io::Result<(Vec<ResolvedRecord>, Duration)> {
    let (mut records, ttl) = name_server::ask(servers, name).await?;
    // In a fixed order, so that always the same records remain of too many.
    records.sort_by(|one, other| {
        (one.priority, &one.target, one.port).cmp(&(other.priority, &other.target, other.port))
    });
    records.truncate(2 * srv::SLOTS);
    let mut lookups = JoinSet::new();
    for record in records {
        lookups.spawn(async move {
            let looked = timeout(
                HOST_LIMIT,
                tokio::net::lookup_host((record.target.as_str(), record.port)),
            )
            .await;
            let addresses: Vec<_> = looked
                .ok()
                .and_then(Result::ok)
                .map(Iterator::collect)
                .unwrap_or_default();
            (record, interleave(addresses))
        });
    }
    let mut found = Vec::new();
    while let Some(looked) = lookups.join_next().await {
        found.extend(looked.ok());
    }
    Ok((found, Duration::from_secs(ttl.into())))
}

/// 30 s ± 10 % after an answer; 1, 2, 4 … 30 s after failures in a row.
fn pause(random: &Random, failures: u32, intervals: RefreshIntervals) -> Duration {
    match failures {
        0 => random.about(intervals.refresh),
        _ => intervals
            .least
            .saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX))
            .min(intervals.refresh),
    }
}

fn some_address(addresses: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    if addresses.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the answer has no address",
        ));
    }
    Ok(addresses)
}

fn publish_if_changed(name: &EndpointName, found: Vec<SocketAddr>) {
    let found = interleave(found);
    let old = name.addresses();
    // EndpointName servers rotate their answers: another order is not another answer.
    if same_set(&old, &found) {
        return;
    }
    tracing::info!(name = %name, from = ?**old, to = ?found, "the name has new addresses");
    drop(old);
    name.publish(found);
}

fn same_set(one: &[SocketAddr], other: &[SocketAddr]) -> bool {
    one.len() == other.len() && one.iter().all(|address| other.contains(address))
}

#[cfg(test)]
mod tests;
