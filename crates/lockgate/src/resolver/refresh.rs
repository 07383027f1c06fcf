//! The resolution of one name or one service, again and again: the task, its intervals, and the
//! look-ups of the system.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockgate_net::dial::interleave;
use lockgate_upstream::Random;
use lockgate_upstream::endpoint_name::EndpointName;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::name_server;
use super::srv::{self, ResolvedRecord, SrvService, lock};

/// The time limit of looking up the host of one record.
const HOST_LIMIT: Duration = Duration::from_secs(5);

pub(super) type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
pub(super) type LookupFn = Arc<dyn Fn(Arc<EndpointName>) -> LookupFuture + Send + Sync>;

#[derive(Clone, Copy)]
pub(super) struct RefreshIntervals {
    /// The interval after an answer, plus or minus a tenth.
    pub(super) refresh: Duration,
    /// The least time between two resolutions of a name, also when workers ask for one; the first
    /// pause after a failure.
    pub(super) least: Duration,
}

pub(super) const INTERVALS: RefreshIntervals = RefreshIntervals {
    refresh: Duration::from_secs(30),
    least: Duration::from_secs(1),
};

pub(super) fn ask_system(name: Arc<EndpointName>) -> LookupFuture {
    Box::pin(async move {
        Ok(tokio::net::lookup_host((name.host(), name.port()))
            .await?
            .collect())
    })
}

pub(super) async fn keep_resolved(
    name: Arc<EndpointName>,
    woken: Arc<Notify>,
    lookup: LookupFn,
    intervals: RefreshIntervals,
    answered: Arc<Semaphore>,
) {
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

pub(super) async fn keep_service_resolved(
    service: Arc<Mutex<SrvService>>,
    intervals: RefreshIntervals,
    answered: Arc<Semaphore>,
) {
    let random = Random::new();
    let mut failures = 0;
    let mut answered = Some(answered);
    let (name, woken) = {
        let service = lock(&service);
        (Arc::clone(&service.name), Arc::clone(&service.woken))
    };
    loop {
        let servers = lock(&service).begin_look_up();
        let mut refresh = intervals.refresh;
        match resolve_service(&servers, &name).await {
            Ok((found, lasts)) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!(service = %name, "the service has records again");
                }
                lock(&service).publish(found, Instant::now());
                refresh = refresh.min(lasts);
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(service = %name, %error, "the service has no records now: its old endpoints stay in use");
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
        // Ends early also when there are other name servers.
        let _ = timeout(rest, woken.notified()).await;
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
pub(super) fn pause(random: &Random, failures: u32, intervals: RefreshIntervals) -> Duration {
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

pub(super) fn publish_if_changed(name: &EndpointName, found: Vec<SocketAddr>) {
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
