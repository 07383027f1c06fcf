//! Host names of endpoints, resolved on the supervisor's runtime so that no worker ever waits for a
//! name server.
//!
//! Uses the system's getaddrinfo (through tokio's blocking threads), so `/etc/hosts`,
//! `nsswitch.conf` and search domains count. getaddrinfo does not tell the TTL of an answer: names
//! are therefore asked for again every 30 s, and at once when an address does not answer. Chooses
//! no address: see `lockgate_proxy`'s upstream.
//!
//! Records of services are none of getaddrinfo's: name servers are asked for them, and the system
//! for the hosts that they name.

mod name_server;
mod services;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::dial::interleave;
use lockgate_proxy::upstream::endpoint_name::EndpointName;
use lockgate_proxy::upstream::{Endpoint, Pool, Random};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use services::{Found, Service};

/// How long the first answers are waited for: a name server that is down must not hold up the
/// start.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// How long the host of one record is looked for.
const HOST: Duration = Duration::from_secs(5);

type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
type Lookup = Arc<dyn Fn(Arc<EndpointName>) -> Answer + Send + Sync>;

/// The names to resolve; [`Resolver::start`] begins with it.
#[derive(Default)]
pub(crate) struct Resolver {
    names: BTreeMap<(Box<str>, u16), Resolved>,
    services: BTreeMap<Box<str>, Service>,
    /// Who is asked for records; without any, whoever the system says.
    servers: Vec<SocketAddr>,
}

struct Resolved {
    name: Arc<EndpointName>,
    woken: Arc<Notify>,
}

/// Names that are being resolved. Dropping it ends that; the last addresses stay published.
pub(crate) struct Resolving {
    tasks: JoinSet<()>,
    /// One permit for each name whose first resolution ended, well or badly.
    answered: Arc<Semaphore>,
}

#[derive(Clone, Copy)]
struct Pace {
    /// After an answer, plus or minus a tenth.
    refresh: Duration,
    /// The least time between two resolutions of a name, whatever the workers say; also the first
    /// pause after a failure.
    least: Duration,
}

const PACE: Pace = Pace {
    refresh: Duration::from_secs(30),
    least: Duration::from_secs(1),
};

impl Resolver {
    /// The shared cell of `host` and `port`: the same one for the same pair, so that it is resolved
    /// once.
    pub(crate) fn register(&mut self, host: &str, port: u16) -> Arc<EndpointName> {
        let resolved = self.names.entry((host.into(), port)).or_insert_with(|| {
            let woken = Arc::new(Notify::new());
            let wake = Arc::clone(&woken);
            Resolved {
                name: Arc::new(EndpointName::new(host, port, move || wake.notify_one())),
                woken,
            }
        });
        Arc::clone(&resolved.name)
    }

    /// Who is asked for records of services.
    pub(crate) fn ask(&mut self, servers: &[SocketAddr]) {
        self.servers = servers.to_vec();
    }

    /// The endpoints of a service, which are not there before its records are: the same ones for
    /// the same name. Each has `max` connections at the most.
    pub(crate) fn service(&mut self, name: &str, max: Option<usize>) -> Vec<Arc<Endpoint>> {
        self.services
            .entry(name.into())
            .or_insert_with(|| Service::new(name, max))
            .endpoints()
    }

    /// Has the members of `pool` from `first` on come and go as the records of a service do; all
    /// are backups if it is one.
    pub(crate) fn serve(&mut self, name: &str, pool: &Arc<Pool>, first: usize, backup: bool) {
        if let Some(service) = self.services.get_mut(name) {
            service.used_by(pool, first, backup);
        }
    }

    /// Begins to resolve every registered name, each in a task of its own: a slow name server for
    /// one does not delay another.
    ///
    /// To be called in a tokio runtime with time. getaddrinfo cannot be interrupted: end that
    /// runtime with `shutdown_background`, or its end waits for the name server.
    pub(crate) fn start(self) -> Resolving {
        self.start_with(Arc::new(ask_system), PACE)
    }

    fn start_with(self, lookup: Lookup, pace: Pace) -> Resolving {
        let answered = Arc::new(Semaphore::new(0));
        let mut tasks = JoinSet::new();
        for resolved in self.names.into_values() {
            tasks.spawn(keep_resolved(
                resolved,
                Arc::clone(&lookup),
                pace,
                Arc::clone(&answered),
            ));
        }
        let servers: Arc<[SocketAddr]> = self.servers.into();
        for service in self.services.into_values() {
            tasks.spawn(keep_looking(
                service,
                Arc::clone(&servers),
                pace,
                Arc::clone(&answered),
            ));
        }
        Resolving { tasks, answered }
    }
}

impl Resolving {
    /// Waits until every name was asked for once, but no longer than `patience`: a connection that
    /// comes before the first answer finds no address, a name server that is down must not hold
    /// up the start.
    pub(crate) async fn first_answers(&self, patience: Duration) {
        let names = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        if timeout(patience, self.answered.acquire_many(names))
            .await
            .is_err()
        {
            tracing::warn!("starting although not every name is resolved yet");
        }
    }
}

fn ask_system(name: Arc<EndpointName>) -> Answer {
    Box::pin(async move {
        Ok(tokio::net::lookup_host((name.host(), name.port()))
            .await?
            .collect())
    })
}

async fn keep_resolved(resolved: Resolved, lookup: Lookup, pace: Pace, answered: Arc<Semaphore>) {
    let Resolved { name, woken } = resolved;
    let random = Random::new();
    let mut failures = 0;
    let mut answered = Some(answered);
    loop {
        // What fails from here on may have used the old addresses: it asks for another turn.
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
                    tracing::warn!(name = %name, %error, kept, "the name does not resolve: old addresses stay");
                }
            }
        }
        if let Some(answered) = answered.take() {
            answered.add_permits(1);
        }
        sleep(pace.least).await;
        let rest = pause(&random, failures, pace).saturating_sub(pace.least);
        // Ends early when a worker says that the addresses do not answer.
        let _ = timeout(rest, woken.notified()).await;
    }
}

async fn keep_looking(
    mut service: Service,
    servers: Arc<[SocketAddr]>,
    pace: Pace,
    answered: Arc<Semaphore>,
) {
    let random = Random::new();
    let mut failures = 0;
    let mut answered = Some(answered);
    loop {
        service.take_failed();
        let mut refresh = pace.refresh;
        match look(&servers, &service.name).await {
            Ok((found, lasts)) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!(service = %service.name, "the service is found again");
                }
                service.publish(found, Instant::now());
                refresh = refresh.min(lasts);
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(service = %service.name, %error, "the service is not found: old records stay");
                }
            }
        }
        if let Some(answered) = answered.take() {
            answered.add_permits(1);
        }
        sleep(pace.least).await;
        let rest = pause(&random, failures, Pace { refresh, ..pace }).saturating_sub(pace.least);
        let _ = timeout(rest, service.woken.notified()).await;
    }
}

/// The records of a service with the addresses of their hosts, and how long they hold.
async fn look(servers: &[SocketAddr], name: &str) -> io::Result<(Vec<Found>, Duration)> {
    let (mut records, ttl) = name_server::ask(servers, name).await?;
    // Always the same ones, of more than could have a place.
    records.sort_by(|one, other| {
        (one.priority, &one.target, one.port).cmp(&(other.priority, &other.target, other.port))
    });
    records.truncate(2 * services::PLACES);
    let mut lookups = JoinSet::new();
    for record in records {
        lookups.spawn(async move {
            let looked = timeout(
                HOST,
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
fn pause(random: &Random, failures: u32, pace: Pace) -> Duration {
    match failures {
        0 => random.about(pace.refresh),
        _ => pace
            .least
            .saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX))
            .min(pace.refresh),
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
    // Name servers rotate their answers: another order is not another answer.
    if same_set(&old, &found) {
        return;
    }
    tracing::info!(name = %name, from = ?**old, to = ?found, "addresses of the name");
    drop(old);
    name.publish(found);
}

fn same_set(one: &[SocketAddr], other: &[SocketAddr]) -> bool {
    one.len() == other.len() && one.iter().all(|address| other.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use tokio::sync::mpsc;

    const QUICK: Pace = Pace {
        refresh: Duration::from_millis(2),
        least: Duration::from_millis(1),
    };
    const ONLY_WHEN_WOKEN: Pace = Pace {
        refresh: Duration::from_secs(3_600),
        least: Duration::from_millis(1),
    };

    fn block_on<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            timeout(Duration::from_secs(60), test)
                .await
                .expect("the test hangs")
        })
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter()
            .map(|address| address.parse().unwrap())
            .collect()
    }

    /// Answers as scripted (the last one again and again; an empty list is a failure) and says each
    /// time that it did.
    fn scripted(answers: &[&[&str]]) -> (Lookup, mpsc::UnboundedReceiver<()>) {
        let script: VecDeque<Vec<SocketAddr>> =
            answers.iter().map(|answer| addresses(answer)).collect();
        let script = Mutex::new(script);
        let (asked, asks) = mpsc::unbounded_channel();
        let lookup: Lookup = Arc::new(move |_| {
            let mut script = script.lock().unwrap();
            let answer = if script.len() > 1 {
                script.pop_front()
            } else {
                script.front().cloned()
            };
            let _ = asked.send(());
            Box::pin(async move {
                match answer.unwrap() {
                    answer if answer.is_empty() => Err(io::Error::other("no such host")),
                    answer => Ok(answer),
                }
            })
        });
        (lookup, asks)
    }

    #[test]
    fn a_name_is_resolved_before_the_start_goes_on() {
        block_on(async {
            let mut resolver = Resolver::default();
            let name = resolver.register("app.internal", 8080);
            let (lookup, _asks) = scripted(&[&["10.0.0.1:8080"]]);
            let resolving = resolver.start_with(lookup, ONLY_WHEN_WOKEN);
            resolving.first_answers(Duration::from_secs(60)).await;
            assert_eq!(**name.addresses(), addresses(&["10.0.0.1:8080"]));
        });
    }

    #[test]
    fn a_name_that_fails_keeps_its_last_addresses_until_it_resolves_again() {
        block_on(async {
            let mut resolver = Resolver::default();
            let name = resolver.register("app.internal", 1);
            let (lookup, mut asks) = scripted(&[&["10.0.0.1:1"], &[], &[], &["10.0.0.2:1"]]);
            let _resolving = resolver.start_with(lookup, QUICK);
            for expected in ["10.0.0.1:1", "10.0.0.1:1", "10.0.0.1:1", "10.0.0.2:1"] {
                asks.recv().await.unwrap();
                assert_eq!(**name.addresses(), addresses(&[expected]));
            }
        });
    }

    #[test]
    fn a_worker_that_cannot_connect_has_the_name_resolved_at_once() {
        block_on(async {
            let mut resolver = Resolver::default();
            let name = resolver.register("app.internal", 1);
            let (lookup, mut asks) = scripted(&[&["10.0.0.1:1"], &["10.0.0.2:1"]]);
            let _resolving = resolver.start_with(lookup, ONLY_WHEN_WOKEN);
            asks.recv().await.unwrap();
            let worker = Arc::clone(&name);
            std::thread::spawn(move || (0..100).for_each(|_| worker.failed()))
                .join()
                .unwrap();
            asks.recv().await.unwrap();
            assert_eq!(**name.addresses(), addresses(&["10.0.0.2:1"]));
            assert!(
                asks.try_recv().is_err(),
                "a hundred failures are one reason to look"
            );
        });
    }

    #[test]
    fn one_name_that_hangs_holds_up_neither_the_others_nor_the_start() {
        block_on(async {
            let mut resolver = Resolver::default();
            let (good, bad) = (resolver.register("good", 1), resolver.register("bad", 1));
            let (answer, mut asks) = scripted(&[&["10.0.0.1:1"]]);
            let lookup: Lookup = Arc::new(move |name| match name.host() {
                "bad" => Box::pin(std::future::pending()),
                _ => answer(name),
            });
            let resolving = resolver.start_with(lookup, QUICK);
            resolving.first_answers(Duration::from_millis(1)).await;
            asks.recv().await.unwrap();
            assert_eq!(good.addresses().len(), 1);
            assert!(bad.addresses().is_empty());
        });
    }

    #[test]
    fn the_same_host_and_port_are_one_name() {
        let mut resolver = Resolver::default();
        let one = resolver.register("app.internal", 1);
        assert!(Arc::ptr_eq(&one, &resolver.register("app.internal", 1)));
        assert!(!Arc::ptr_eq(&one, &resolver.register("app.internal", 2)));
    }

    #[test]
    fn nothing_to_resolve_starts_at_once() {
        block_on(async {
            Resolver::default()
                .start()
                .first_answers(Duration::from_secs(3_600))
                .await
        });
    }

    #[test]
    fn the_system_knows_localhost() {
        block_on(async {
            let mut resolver = Resolver::default();
            let name = resolver.register("localhost", 80);
            let resolving = resolver.start();
            resolving.first_answers(Duration::from_secs(60)).await;
            let found = name.addresses();
            assert!(!found.is_empty());
            assert!(
                found
                    .iter()
                    .all(|address| address.ip().is_loopback() && address.port() == 80),
                "{found:?}"
            );
        });
    }

    #[test]
    fn another_order_is_not_another_answer() {
        let name = EndpointName::new("app.internal", 1, || {});
        publish_if_changed(&name, addresses(&["10.0.0.1:1", "10.0.0.2:1"]));
        let first = Arc::clone(&name.addresses());
        publish_if_changed(
            &name,
            addresses(&["10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:1"]),
        );
        assert!(Arc::ptr_eq(&first, &name.addresses()));
        publish_if_changed(&name, addresses(&["10.0.0.2:1"]));
        assert_eq!(**name.addresses(), addresses(&["10.0.0.2:1"]));
    }

    #[test]
    fn failures_back_off_up_to_the_refresh() {
        let random = Random::seeded(1);
        let seconds = |failures| pause(&random, failures, PACE).as_secs();
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 7, 32, 33, u32::MAX].map(seconds),
            [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]
        );
        assert_ne!(pause(&random, 0, PACE), pause(&random, 0, PACE));
    }
}
