//! What `/metrics` and `/top` say: the workers' counters, and what only the process knows.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_metrics::{
    ExpositionText, Shards, TopEntry, TopListing, TopOrder, TopSnapshot, Traffic,
};
use lockgate_net::memory::{self as counted, MemoryKind};
use lockgate_net::tls::Acceptor;
use lockgate_proxy::clock;
use lockgate_proxy::metrics::http::{self, EndpointState};
use lockgate_proxy::metrics::relay::{self, RelayName};
use lockgate_proxy::metrics::{self, WorkerCells};
use lockgate_proxy::popular::PopularSnapshot;
use lockgate_proxy::upstream::{Endpoint, Member, Pool};
use lockgate_proxy::worker::{Accounts, ProcessState, Published};
use serde_json::{Value, json};

use crate::assemble::{Assembly, Planned};
use crate::configuration::Configuration;
use crate::operator_log;
use crate::prober::{Standing, Standings};

/// Clients that `/top` lists.
const LISTED: usize = 100;
/// Clients that have a series of their own.
const SERIES: usize = 20;

/// Everything that is shown.
pub(crate) struct Exposition {
    names: Vec<String>,
    acceptors: Vec<(String, Arc<Acceptor>)>,
    /// Each once, however many listeners have it.
    endpoints: Vec<Arc<Endpoint>>,
    /// In the order of the workers' cells, as the pools behind them.
    relays: Vec<RelayName>,
    sites: Vec<String>,
    /// Those of sites, in the order of the workers' cells.
    upstreams: Vec<Arc<Pool>>,
    /// Those of relays as well.
    pools: Vec<Arc<Pool>>,
    standings: Standings,
    shards: Arc<Shards<WorkerCells>>,
    shared: Arc<ProcessState>,
    tops: Vec<Published>,
    lost: Vec<Arc<AtomicU64>>,
    file: Option<Arc<Configuration>>,
    started: SystemTime,
}

impl Exposition {
    /// Shows what `shards` count and what else the process shares; `lost` counts the lost lines of
    /// each access log.
    pub(crate) fn new(
        assembly: &Assembly,
        file: Option<Arc<Configuration>>,
        shards: Arc<Shards<WorkerCells>>,
        shared: Arc<ProcessState>,
        tops: Vec<Published>,
        lost: Vec<Arc<AtomicU64>>,
    ) -> Self {
        let listeners = &assembly.listeners;
        let name = |planned: &Planned| planned.listener.name.clone();
        let acceptors = |planned: &Planned| {
            let all = planned.listener.acceptors().into_iter();
            all.map(|acceptor| (name(planned), Arc::clone(acceptor)))
                .collect::<Vec<_>>()
        };
        let mut endpoints: Vec<Arc<Endpoint>> = Vec::new();
        let members = assembly.pools.iter().flat_map(|pool| pool.members());
        for endpoint in members.map(Member::endpoint) {
            if !endpoints.iter().any(|known| Arc::ptr_eq(known, endpoint)) {
                endpoints.push(Arc::clone(endpoint));
            }
        }
        Self {
            names: listeners.iter().map(name).collect(),
            acceptors: listeners.iter().flat_map(acceptors).collect(),
            endpoints,
            relays: assembly.relays.clone(),
            sites: assembly.sites.clone(),
            upstreams: assembly.upstreams.clone(),
            pools: assembly.pools.clone(),
            standings: assembly.prober.standings(),
            shards,
            shared,
            tops,
            lost,
            file,
            started: SystemTime::now(),
        }
    }

    /// How many connections there may be.
    pub(crate) fn connection_limit(&self) -> usize {
        self.shared.connections.size()
    }

    /// How many sockets towards endpoints there may be.
    pub(crate) fn socket_limit(&self) -> usize {
        self.shared.sockets.size()
    }

    /// Prometheus text.
    pub(crate) fn metrics(&self) -> String {
        let mut text = ExpositionText::new();
        metrics::write(&mut text, &self.shards, &self.names);
        relay::write(&mut text, &self.shards, &self.relays);
        self.process(&mut text);
        self.configuration(&mut text);
        self.upstream(&mut text);
        http::write(&mut text, &self.shards, &self.sites, &self.states());
        self.checks(&mut text);
        self.certificates(&mut text);
        self.clients(&mut text);
        text.finish()
    }

    fn process(&self, text: &mut ExpositionText) {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        text.gauge("lockgate_build_info", "Always 1; the version is the label.")
            .sample(&version, 1_i64);
        text.gauge(
            "lockgate_start_time_seconds",
            "When the process started, in seconds since 1970.",
        )
        .sample(&[], seconds(self.started));
        text.gauge(
            "lockgate_connections_limit",
            "Connections that there may be at once.",
        )
        .sample(&[], self.shared.connections.size() as i64);
        text.gauge(
            "lockgate_clients",
            "Clients that are connected: addresses, of IPv6 /64 networks.",
        )
        .sample(&[], self.shared.clients.count() as i64);
        text.counter(
            "lockgate_connections_evicted_total",
            "Connections that waited for their clients and were closed because other clients had no place.",
        )
        .sample(&[], self.shared.connections.gave_way());
        let handshakes = &self.shared.handshakes;
        text.gauge(
            "lockgate_tls_handshakes_in_flight",
            "Handshakes with clients that are going on.",
        )
        .sample(&[], handshakes.begun() as i64);
        text.gauge(
            "lockgate_tls_handshakes_waiting",
            "Handshakes with clients that wait until others were computed.",
        )
        .sample(&[], handshakes.waiting() as i64);
        text.gauge(
            "lockgate_tls_handshakes_limit",
            "Handshakes with clients that may be computed at once.",
        )
        .sample(&[], handshakes.size() as i64);
        self.sockets(text);
        memory(text);
        let lost: u64 = self
            .lost
            .iter()
            .map(|lost| lost.load(Ordering::Relaxed))
            .sum();
        text.counter(
            "lockgate_access_log_lost_total",
            "Lines of the access log that were lost.",
        )
        .sample(&[], lost);
        text.counter(
            "lockgate_operator_log_lost_total",
            "Lines of the operator log that were lost.",
        )
        .sample(&[], operator_log::lost());
    }

    fn configuration(&self, text: &mut ExpositionText) {
        let Some(configuration) = self.file.as_deref() else {
            return;
        };
        let Configuration {
            file, hash, read, ..
        } = configuration;
        let labels = [("file", &*file.to_string_lossy()), ("hash", hash)];
        text.gauge(
            "lockgate_config_info",
            "Always 1; the file of the configuration that runs, and the SHA-256 of it and of what it includes.",
        )
        .sample(&labels, 1_i64);
        text.gauge(
            "lockgate_config_read_timestamp_seconds",
            "When the configuration that runs was read, in seconds since 1970.",
        )
        .sample(&[], seconds(*read));
        let last = configuration.last();
        text.gauge(
            "lockgate_config_check_timestamp_seconds",
            "When the file was last checked, at start or on HUP, in seconds since 1970.",
        )
        .sample(&[], seconds(last.time));
        text.gauge(
            "lockgate_config_check_errors",
            "Mistakes that the last check of the file found.",
        )
        .sample(&[], i64::try_from(last.errors).unwrap_or(i64::MAX));
        text.gauge(
            "lockgate_config_differs",
            "1 when the last check found another text in the file than that which runs, else 0.",
        )
        .sample(&[], i64::from(last.differs));
    }

    fn sockets(&self, text: &mut ExpositionText) {
        let sockets = &self.shared.sockets;
        let (open, idle) = (sockets.open() as i64, sockets.idle() as i64);
        let mut family = text.gauge(
            "lockgate_upstream_sockets",
            "Sockets towards endpoints: those in use, and those that are idle. Idle ones give way.",
        );
        family.sample(&[("state", "used")], (open - idle).max(0));
        family.sample(&[("state", "idle")], idle);
        text.gauge(
            "lockgate_upstream_sockets_limit",
            "Sockets towards endpoints that there may be at once.",
        )
        .sample(&[], sockets.size() as i64);
        text.gauge(
            "lockgate_upstream_sockets_waiting",
            "Requests and relays that wait for a socket towards an endpoint.",
        )
        .sample(&[], sockets.waiting() as i64);
        let [places, shares] = sockets.waited();
        let mut family = text.counter(
            "lockgate_upstream_sockets_waited_total",
            "Requests and relays that had to wait for a socket, because there was none (limit) or because their client had its \
             share (share).",
        );
        family.sample(&[("reason", "limit")], places);
        family.sample(&[("reason", "share")], shares);
        text.counter(
            "lockgate_upstream_sockets_evicted_total",
            "Idle sockets towards endpoints that were closed because others were needed.",
        )
        .sample(&[], sockets.gave_way());
        text.counter(
            "lockgate_upstream_sockets_preempted_total",
            "Exchanges that stood still and were ended because others needed their sockets.",
        )
        .sample(&[], sockets.preempted());
    }

    /// The endpoints that are there.
    fn present(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints
            .iter()
            .filter(|endpoint| !endpoint.is_vacant())
    }

    fn upstream(&self, text: &mut ExpositionText) {
        if !self.pools.is_empty() {
            let mut family =
                text.gauge("lockgate_upstream_up", "1 while an endpoint may be chosen; 0 while checks have it down, while others are preferred because it has failed, and after a failed connect until it has served.");
            let now = clock::now();
            for pool in &self.pools {
                for member in pool
                    .members()
                    .iter()
                    .filter(|member| !member.endpoint().is_vacant())
                {
                    let labels = [
                        ("pool", &*pool.settings.name),
                        ("endpoint", &*member.endpoint().label),
                    ];
                    family.sample(
                        &labels,
                        i64::from(member.is_up() && !member.endpoint().is_out(now)),
                    );
                }
            }
        }
        let mut family = text.gauge(
            "lockgate_upstream_connections",
            "Connections to an endpoint.",
        );
        for endpoint in self.present() {
            let labels = [("endpoint", endpoint.label.as_str())];
            family.sample(&labels, endpoint.connections() as i64);
        }
        let now = clock::now();
        let mut family = text.gauge(
            "lockgate_upstream_ejected",
            "1 while an endpoint is left alone because it kept failing, else 0.",
        );
        for endpoint in self.present() {
            family.sample(
                &[("endpoint", &endpoint.label)],
                i64::from(endpoint.is_ejected(now)),
            );
        }
        let mut family = text.counter(
            "lockgate_upstream_ejections_total",
            "How often an endpoint was ejected.",
        );
        for endpoint in self.present() {
            family.sample(&[("endpoint", &endpoint.label)], endpoint.ejections());
        }
    }

    /// Every endpoint of the sites, in the order of the workers' cells.
    fn states(&self) -> Vec<EndpointState> {
        let now = clock::now();
        let members = self
            .upstreams
            .iter()
            .flat_map(|pool| pool.members().iter().map(move |one| (pool, one)));
        let state = |(pool, member): (&Arc<Pool>, &Member)| EndpointState {
            pool: pool.settings.name.clone(),
            endpoint: member.endpoint().label.clone(),
            vacant: member.endpoint().is_vacant(),
            latency: member
                .endpoint()
                .latency()
                .now(now)
                .map(|micros| Duration::from_secs_f32(micros / 1e6)),
        };
        members.map(state).collect()
    }

    fn checks(&self, text: &mut ExpositionText) {
        let standings = self.standings.now();
        if standings.is_empty() {
            return;
        }
        let mut family = text.gauge(
            "lockgate_upstream_check_duration_seconds",
            "How long the last check took.",
        );
        for Standing {
            pool,
            endpoint,
            took,
            ..
        } in &standings
        {
            if let Some(took) = took {
                family.sample(
                    &[("pool", pool), ("endpoint", endpoint)],
                    took.as_secs_f64(),
                );
            }
        }
    }

    fn certificates(&self, text: &mut ExpositionText) {
        // One certificate may serve several listeners and have several names: its file tells it
        // apart.
        let mut expiries = BTreeMap::new();
        for (listener, acceptor) in &self.acceptors {
            for certificate in acceptor.store().describe() {
                let name = certificate
                    .facts
                    .names
                    .first()
                    .cloned()
                    .unwrap_or_else(|| certificate.facts.subject.clone());
                let path = certificate.path.display().to_string();
                expiries.insert(
                    (listener.clone(), path, name),
                    seconds(certificate.facts.not_after),
                );
            }
        }
        let mut family = text.gauge(
            "lockgate_cert_not_after_timestamp_seconds",
            "When a certificate expires, in seconds since 1970.",
        );
        for ((listener, path, name), expiry) in &expiries {
            family.sample(
                &[("listener", listener), ("path", path), ("name", name)],
                *expiry,
            );
        }
    }

    /// Gauges, not counters: when a client comes into the list, what it had counts no longer under
    /// `other`.
    fn clients(&self, text: &mut ExpositionText) {
        let listing = self.snapshot().top(SERIES, TopOrder::Bytes);
        let mut family = text.gauge(
            "lockgate_client_bytes",
            "Bytes of the clients with the most, as far as tracked.",
        );
        each_client(&listing, |client, traffic| {
            family.sample(
                &[("client", client), ("direction", "received")],
                traffic.received as i64,
            );
            family.sample(
                &[("client", client), ("direction", "sent")],
                traffic.sent as i64,
            );
        });
        let mut family = text.gauge(
            "lockgate_client_throughput_bytes_per_second",
            "Their throughput over the last five seconds.",
        );
        each_client(&listing, |client, traffic| {
            family.sample(
                &[("client", client), ("direction", "received")],
                traffic.received_per_second as i64,
            );
            family.sample(
                &[("client", client), ("direction", "sent")],
                traffic.sent_per_second as i64,
            );
        });
    }

    /// The traffic of clients, and what they ask for, as JSON: the most first.
    pub(crate) fn top(&self) -> String {
        let listing = self.snapshot().top(LISTED, TopOrder::Bytes);
        let clients: Vec<Value> = listing.entries.iter().map(client).collect();
        let popular =
            PopularSnapshot::merge(self.accounts().map(|accounts| accounts.popular.clone()));
        let top = json!({
            "clients": clients,
            "other": traffic(&listing.other),
            "total": traffic(&listing.total),
            "hosts": requests("host", &popular.hosts),
            "pages": requests("page", &popular.pages),
            "referers": requests("referer", &popular.referers),
            "checks": self.standings.now().iter().map(check).collect::<Vec<_>>(),
        });
        format!("{top:#}\n")
    }

    fn snapshot(&self) -> TopSnapshot<IpAddr> {
        TopSnapshot::merge(self.accounts().map(|accounts| accounts.clients.clone()))
    }

    fn accounts(&self) -> impl Iterator<Item = Arc<Accounts>> {
        self.tops.iter().filter_map(|top| top.load_full())
    }
}

fn memory(text: &mut ExpositionText) {
    let budget = counted::process();
    if let Some(limit) = budget.limit() {
        text.gauge(
            "lockgate_memory_limit_bytes",
            "Memory that the process may have.",
        )
        .sample(&[], limit as i64);
    }
    let mut family = text.gauge(
        "lockgate_memory_bytes",
        "Memory in use by kind: what was allocated, zstd's contexts, what the kernel holds for us by estimate, and \
         what was measured beside that.",
    );
    for (kind, name) in MemoryKind::ALL {
        family.sample(&[("kind", name)], budget.used(kind) as i64);
    }
    family.sample(&[("kind", "surplus")], budget.surplus() as i64);
    text.gauge(
        "lockgate_memory_level",
        "0 with enough memory, 1 while it is scarce, 2 while it is full.",
    )
    .sample(&[], budget.level() as i64);
}

fn each_client(listing: &TopListing<IpAddr>, mut sample: impl FnMut(&str, &Traffic)) {
    for entry in &listing.entries {
        sample(&entry.key.to_string(), &entry.traffic);
    }
    sample("other", &listing.other);
}

fn client(entry: &TopEntry<IpAddr>) -> Value {
    let mut value = traffic(&entry.traffic);
    value["client"] = json!(entry.key.to_string());
    value["error_bytes"] = json!(entry.error);
    value
}

/// A list whose entries count requests, which are *received*; `name` is what the key is called.
fn requests(name: &str, top: &TopSnapshot<Box<str>>) -> Value {
    let entries = top.top(LISTED, TopOrder::Bytes).entries;
    entries
        .iter()
        .map(|entry| {
            json!({
                name: &*entry.key,
                "requests": entry.traffic.received,
                "requests_per_second": entry.traffic.received_per_second,
                "error_requests": entry.error,
            })
        })
        .collect()
}

/// What the last check of an endpoint found.
fn check(standing: &Standing) -> Value {
    json!({
        "pool": standing.pool,
        "endpoint": standing.endpoint,
        "up": standing.up,
        "ejected": standing.ejected,
        "seconds": standing.took.map(|took| took.as_secs_f64()),
        "why": standing.why.as_deref(),
    })
}

fn traffic(traffic: &Traffic) -> Value {
    json!({
        "received_bytes": traffic.received,
        "sent_bytes": traffic.sent,
        "received_bytes_per_second": traffic.received_per_second,
        "sent_bytes_per_second": traffic.sent_per_second,
    })
}

fn seconds(time: SystemTime) -> i64 {
    let since = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    i64::try_from(since).unwrap_or(i64::MAX)
}
