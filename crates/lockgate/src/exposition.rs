//! The texts of `/metrics` and `/top`: the workers' counters, and the figures of the process.

mod exports;
mod figures;
mod process;

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_certs::{CertId, CertKeeper, FailureKind};
use lockgate_limits::clock;
use lockgate_metrics::{
    ExpositionText, MetricFamilies, MetricSink, Shards, TopEntry, TopListing, TopOrder,
    TopSnapshot, Traffic,
};
use lockgate_net::tls::Acceptor;
use lockgate_proxy::admit::client_bans::ClientBans;
use lockgate_proxy::generation::GenerationRules;
use lockgate_proxy::metrics::http::{self, EndpointState};
use lockgate_proxy::metrics::relay::{self, RelayName};
use lockgate_proxy::metrics::{self, WorkerCells};
use lockgate_proxy::request_traces::{RequestTraces, TracedRequest};
use lockgate_proxy::site::SiteMaintenance;
use lockgate_proxy::top_requests::TopRequestsSnapshot;
use lockgate_proxy::worker::{ProcessState, PublishedTop, WorkerTop};
use lockgate_upstream::{Endpoint, Member, Pool};
use serde_json::{Value, json};

use crate::assemble::{Assembly, NamedLimit, PlannedListener};
use crate::configuration::Configuration;
use crate::endpoint_changes::{ChangeablePool, EndpointChanges};
use crate::explain::{ExplainRequest, ExplainedConfig};
use crate::exporter::SinkStatuses;
use crate::prober::{EndpointStatus, EndpointStatuses};

pub(crate) use figures::{
    CheckFigures, EndpointCondition, EndpointFigures, LimitFigures, PoolFigures, SiteFigures, Usage,
};

/// The number of clients that `/top` lists.
const LISTED: usize = 100;
/// The number of clients with a series of their own.
const SERIES: usize = 20;

/// The sources of all figures.
pub(crate) struct Exposition {
    names: Vec<String>,
    acceptors: Vec<(String, Arc<Acceptor>)>,
    /// Each endpoint once, however many pools have it.
    endpoints: Vec<Arc<Endpoint>>,
    /// The relays, in the order of the workers' cells.
    relays: Vec<RelayName>,
    sites: Vec<String>,
    limits: Vec<NamedLimit>,
    /// The maintenance of each site.
    maintenance: Vec<(String, SiteMaintenance)>,
    /// The pools of sites, in the order of the workers' cells.
    upstreams: Vec<Arc<Pool>>,
    /// All pools, those of relays included.
    pools: Vec<Arc<Pool>>,
    /// The endpoints of all pools as they were written, in their order.
    written: Vec<ChangeablePool>,
    /// The endpoints that operators have added and removed.
    changes: Arc<EndpointChanges>,
    statuses: EndpointStatuses,
    state: SharedState,
}

/// The state that the workers share with the exposition.
pub(crate) struct SharedState {
    pub(crate) shards: Arc<Shards<WorkerCells>>,
    pub(crate) shared: Arc<ProcessState>,
    pub(crate) tops: Vec<PublishedTop>,
    /// The number of lost lines of each access log.
    pub(crate) lost: Vec<Arc<AtomicU64>>,
    /// The file that the configuration was read from, if it was one.
    pub(crate) file: Option<Arc<Configuration>>,
    /// When the process started.
    pub(crate) started: SystemTime,
    /// The rules of earlier generations, which live as long as a request is held to them.
    pub(crate) earlier: Vec<Weak<GenerationRules>>,
    /// The number of the generation.
    pub(crate) generation: u64,
    /// The bound listeners, in their order.
    pub(crate) bound: Vec<BoundAddress>,
    /// The certificates that come by themselves.
    pub(crate) certificates: Arc<CertKeeper>,
    /// How pushing figures goes.
    pub(crate) sinks: Arc<SinkStatuses>,
    /// The configuration, for questions about requests.
    pub(crate) explained: ExplainedConfig,
}

/// A bound listener as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct BoundAddress {
    pub(crate) address: String,
    /// Its port, if it has one.
    pub(crate) port: Option<u16>,
    /// `https`, `http`, `tls` or `tcp`.
    pub(crate) kind: &'static str,
}

impl Exposition {
    pub(crate) fn new(assembly: &Assembly, statuses: EndpointStatuses, state: SharedState) -> Self {
        let listeners = &assembly.listeners;
        let name = |planned: &PlannedListener| planned.listener.name.clone();
        let acceptors = |planned: &PlannedListener| {
            let all = planned.listener.acceptors().into_iter();
            all.map(|acceptor| (name(planned), Arc::clone(acceptor)))
                .collect::<Vec<_>>()
        };
        let members = assembly.pools.iter().flat_map(|pool| pool.members());
        let mut known = HashSet::new();
        let endpoints = members
            .map(Member::endpoint)
            .filter(|endpoint| known.insert(Arc::as_ptr(endpoint)))
            .cloned()
            .collect();
        Self {
            names: listeners.iter().map(name).collect(),
            acceptors: listeners.iter().flat_map(acceptors).collect(),
            endpoints,
            relays: assembly.relays.clone(),
            sites: assembly.sites.clone(),
            limits: assembly.limits.clone(),
            maintenance: {
                let sites = assembly.sites.iter().cloned();
                sites.zip(assembly.maintenance.iter().cloned()).collect()
            },
            upstreams: assembly.upstreams.clone(),
            pools: assembly.pools.clone(),
            written: assembly.written.iter().map(ChangeablePool::new).collect(),
            changes: Arc::clone(&assembly.changes),
            statuses,
            state,
        }
    }

    /// The limit of connections.
    pub(crate) fn connection_limit(&self) -> usize {
        self.state.shared.connections.size()
    }

    /// The limit of sockets towards endpoints.
    pub(crate) fn socket_limit(&self) -> usize {
        self.state.shared.sockets.size()
    }

    /// The Prometheus text of all figures.
    pub(crate) fn metrics(&self) -> String {
        let mut text = ExpositionText::new();
        self.write(&mut text);
        text.finish()
    }

    /// Gives all figures, as they are now, to `sink`.
    pub(crate) fn write(&self, sink: &mut dyn MetricSink) {
        let families = &mut MetricFamilies::new(sink);
        metrics::write(families, &self.state.shards, &self.names);
        relay::write(families, &self.state.shards, &self.relays);
        self.process(families);
        self.configuration(families);
        self.upstream(families);
        http::write(families, &self.state.shards, &self.sites, &self.states());
        self.checks(families);
        self.certificates(families);
        self.clients(families);
        self.exports(families);
    }

    /// What becomes of a request.
    ///
    /// # Errors
    /// As [`ExplainedConfig::answer`].
    pub(crate) fn explain(&self, request: &ExplainRequest) -> Result<Value, String> {
        let ports: Vec<_> = self.state.bound.iter().map(|bound| bound.port).collect();
        self.state.explained.answer(&ports, request)
    }

    /// What became of a request that an operator follows.
    pub(crate) fn explain_traced(&self, traced: &TracedRequest) -> Value {
        self.state.explained.traced(traced, self.state.generation)
    }

    /// The requests that an operator follows.
    pub(crate) fn traces(&self) -> &RequestTraces {
        &self.state.shared.traces
    }

    /// The configuration as one file: includes are merged, paths absolute, `${…}` as written.
    pub(crate) fn merged_toml(&self) -> String {
        self.state.explained.loaded.merged_toml()
    }

    /// The number of the generation.
    pub(crate) fn generation(&self) -> u64 {
        self.state.generation
    }

    /// The maintenance of each site and tunnel, by its name.
    pub(crate) fn site_maintenance(&self) -> &[(String, SiteMaintenance)] {
        &self.maintenance
    }

    /// The banned clients.
    pub(crate) fn bans(&self) -> &ClientBans {
        &self.state.shared.bans
    }

    /// The rate limits.
    pub(crate) fn rate_limits(&self) -> &[NamedLimit] {
        &self.limits
    }

    /// All pools.
    pub(crate) fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// The endpoints of a pool as they were written, or changed by operators.
    pub(crate) fn written(&self, pool: &Arc<Pool>) -> Option<ChangeablePool> {
        let at = self.pools.iter().position(|one| Arc::ptr_eq(one, pool))?;
        self.written.get(at).cloned()
    }

    /// The endpoints that operators have added and removed.
    pub(crate) fn changes(&self) -> &Arc<EndpointChanges> {
        &self.changes
    }

    /// The bound listeners, in their order.
    pub(crate) fn bound(&self) -> &[BoundAddress] {
        &self.state.bound
    }

    /// The number of earlier generations that a request or a connection is still held to.
    pub(crate) fn earlier_generations(&self) -> usize {
        let earlier = self.state.earlier.iter();
        earlier.filter(|rules| rules.strong_count() > 0).count()
    }

    /// The endpoints, without those of SRV records that have none.
    fn present(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints
            .iter()
            .filter(|endpoint| !endpoint.is_vacant())
    }

    fn upstream(&self, families: &mut MetricFamilies<'_>) {
        if !self.pools.is_empty() {
            let mut family =
                families.gauge("lockgate_upstream_up", "1 while an endpoint may be chosen; 0 while its health checks fail, while an operator has taken it out, while others are preferred after a failure, and after a failed connect until it serves again.");
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
                        i64::from(member.takes_any_client() && !member.endpoint().is_out(now)),
                    );
                }
            }
        }
        let mut family = families.gauge(
            "lockgate_upstream_connections",
            "Connections to an endpoint.",
        );
        for endpoint in self.present() {
            let labels = [("endpoint", endpoint.label.as_str())];
            family.sample(&labels, endpoint.connections() as i64);
        }
        let now = clock::now();
        let mut family = families.gauge(
            "lockgate_upstream_ejected",
            "1 while an endpoint is ejected because it kept failing, else 0.",
        );
        for endpoint in self.present() {
            family.sample(
                &[("endpoint", &endpoint.label)],
                i64::from(endpoint.is_ejected(now)),
            );
        }
        let mut family = families.counter(
            "lockgate_upstream_ejections_total",
            "Ejections of an endpoint.",
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

    fn checks(&self, families: &mut MetricFamilies<'_>) {
        let statuses = self.statuses.now();
        if statuses.is_empty() {
            return;
        }
        let mut family = families.gauge(
            "lockgate_upstream_check_duration_seconds",
            "Duration of the last health check.",
        );
        for EndpointStatus {
            pool,
            endpoint,
            took,
            ..
        } in &statuses
        {
            if let Some(took) = took {
                family.sample(
                    &[("pool", pool), ("endpoint", endpoint)],
                    took.as_secs_f64(),
                );
            }
        }
    }

    fn certificates(&self, families: &mut MetricFamilies<'_>) {
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
        let mut family = families.gauge(
            "lockgate_cert_not_after_timestamp_seconds",
            "When a certificate expires, in seconds since 1970.",
        );
        for ((listener, path, name), expiry) in &expiries {
            family.sample(
                &[("listener", listener), ("path", path), ("name", name)],
                *expiry,
            );
        }
        self.managed_certificates(families);
    }

    /// Certificates that the program obtains. Without one there are no families.
    fn managed_certificates(&self, families: &mut MetricFamilies<'_>) {
        let managed = self.managed_certs();
        if managed.is_empty() {
            return;
        }
        let labels = |id: &CertId| [("name", id.name.clone()), ("key", id.key.name().to_owned())];
        let mut family = families.gauge(
            "lockgate_managed_cert_valid",
            "Whether there is a valid certificate for a name whose certificate Lockgate obtains.",
        );
        let now = SystemTime::now();
        for (id, status) in &managed {
            let [name, key] = labels(id);
            let valid = status
                .validity
                .is_some_and(|validity| now < validity.not_after);
            family.sample(&[(name.0, &name.1), (key.0, &key.1)], i64::from(valid));
        }
        let mut family = families.gauge(
            "lockgate_managed_cert_failures",
            "Failed tries to obtain the certificate since the last success, by the kind of the last.",
        );
        for (id, status) in &managed {
            let [name, key] = labels(id);
            let kind = status.failure.as_ref().and_then(|(kind, _)| *kind);
            let kind = kind.map_or("none", FailureKind::as_str);
            let labels = [(name.0, &*name.1), (key.0, &*key.1), ("kind", kind)];
            family.sample(&labels, i64::from(status.failures));
        }
        let tried = managed
            .iter()
            .filter_map(|(id, status)| Some((id, status.tried?)));
        let mut tried = tried.peekable();
        if tried.peek().is_none() {
            return;
        }
        let mut family = families.gauge(
            "lockgate_managed_cert_last_try_timestamp_seconds",
            "When the last try to obtain the certificate began, in seconds since 1970.",
        );
        for (id, tried) in tried {
            let [name, key] = labels(id);
            family.sample(&[(name.0, &name.1), (key.0, &key.1)], seconds(tried));
        }
    }

    /// Gauges, not counters: the bytes of a client that enters the list leave `other`.
    fn clients(&self, families: &mut MetricFamilies<'_>) {
        let listing = self.snapshot().top(SERIES, TopOrder::Bytes);
        let mut family = families.gauge(
            "lockgate_client_bytes",
            "Bytes of the clients with the most traffic.",
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
        let mut family = families.gauge(
            "lockgate_client_throughput_bytes_per_second",
            "Throughput of the clients with the most traffic, over the last five seconds.",
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

    /// The traffic of clients and their requests as JSON, the largest first.
    pub(crate) fn top(&self) -> String {
        let mut top = self.client_traffic();
        let popular =
            TopRequestsSnapshot::merge(self.worker_tops().map(|top| top.top_requests.clone()));
        top["hosts"] = requests("host", &popular.hosts);
        top["pages"] = requests("page", &popular.pages);
        top["referers"] = requests("referer", &popular.referers);
        top["checks"] = self.statuses.now().iter().map(check).collect();
        format!("{top:#}\n")
    }

    /// The traffic of clients as JSON, the largest first.
    pub(crate) fn client_traffic(&self) -> Value {
        let listing = self.snapshot().top(LISTED, TopOrder::Bytes);
        let clients: Vec<Value> = listing.entries.iter().map(client).collect();
        json!({
            "clients": clients,
            "other": traffic(&listing.other),
            "total": traffic(&listing.total),
        })
    }

    fn snapshot(&self) -> TopSnapshot<IpAddr> {
        TopSnapshot::merge(self.worker_tops().map(|top| top.clients.clone()))
    }

    fn worker_tops(&self) -> impl Iterator<Item = Arc<WorkerTop>> {
        self.state.tops.iter().filter_map(|top| top.load_full())
    }
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

/// A list with entries that count requests (in `received`); `name` is the JSON name of the key.
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

/// The result of the last health check of an endpoint.
fn check(status: &EndpointStatus) -> Value {
    json!({
        "pool": status.pool,
        "endpoint": status.endpoint,
        "up": status.up,
        "ejected": status.ejected,
        "seconds": status.took.map(|took| took.as_secs_f64()),
        "why": status.why.as_deref(),
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
