//! What is counted, per worker and listener, and its names in Prometheus text.
//!
//! A reload makes new sets of cells, which have the cells of what both configurations have: counters
//! go on, and those of an old site are freed with the last request of its configuration.
//!
//! Labels come from closed sets: listeners and ALPN names of the configuration, reasons of this
//! page.

pub mod http;
pub mod relay;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_http::h2::ConnectionError;
use lockgate_limits::clock::TrafficCounter;
use lockgate_limits::{ListenerIndex, RelayIndex};
use lockgate_metrics::{Bounds, Counter, Gauge, Histogram, MetricFamilies, Shards};
use lockgate_net::nanos::Nanos;
use lockgate_net::tls::handshake::Negotiated;

use crate::access_log::Cause;

/// Reasons of a failed handshake, as [`lockgate_net::tls::handshake::HandshakeError::reason`] gives
/// them and this crate.
pub const HANDSHAKE_REASONS: [&str; 15] = [
    "alert",
    "bad_certificate",
    "closed",
    "malformed",
    "no_application_protocol",
    "no_certificate_yet",
    "no_client_certificate",
    "no_common_cipher",
    "no_common_version",
    "not_tls",
    "other",
    "plain_http",
    "refused_our_certificate",
    "timeout",
    "unknown_name",
];

/// Why clients of HTTP/2 were disconnected: for requests that they took back, for frames without a
/// use, for updates of windows, for field sections that cannot be decoded, for other excess (`calm`),
/// or for a breach of the protocol.
pub const VIOLATIONS: [&str; 6] = ConnectionError::LABELS;

const VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];
const RESUMED: [&str; 2] = ["false", "true"];

/// The cells of one thing that one worker counts. Two configurations share them where both have the
/// thing. Their types are aligned to 128 bytes, as [`lockgate_metrics::Padded`] is: no two workers
/// write to one cache line.
pub type SharedCells<T> = Arc<T>;

/// The cells that one worker writes for one configuration.
#[derive(Debug)]
pub struct WorkerCells {
    /// In the order of the listeners.
    pub listeners: Vec<SharedCells<ListenerCells>>,
    /// In the order of the relays.
    pub relays: Vec<SharedCells<relay::RelayCells>>,
    /// The counters of HTTP.
    pub http: http::HttpCells,
    /// The counters of no configuration.
    pub process: SharedCells<ProcessCells>,
}

/// The cells of one worker that belong to no configuration.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ProcessCells {
    /// Accepted connections.
    pub accepted: Counter,
    /// Attempts to accept that failed for want of descriptors or memory.
    pub accept_failures: Counter,
    /// Connections that clients closed before there was a slot for them.
    pub abandoned: Counter,
    /// Connections and requests of banned clients.
    pub banned: Counter,
    /// Connections that were cut because memory had run out.
    pub memory_cut: Counter,
    /// Requests and handshakes that were refused for the same reason.
    pub memory_refused: Counter,
    /// Requests of trusted proxies that named no client.
    pub unknown_clients: Counter,
}

/// The earlier index of each thing of a configuration, if the configuration before has it too.
#[derive(Debug, Clone, Default)]
pub struct EarlierIndexes {
    /// Of the listeners.
    pub listeners: Vec<Option<usize>>,
    /// Of the relays.
    pub relays: Vec<Option<usize>>,
    /// Of the sites.
    pub sites: Vec<Option<usize>>,
    /// Of the endpoints.
    pub endpoints: Vec<Option<usize>>,
}

impl WorkerCells {
    /// The cells of the next configuration: those of the same things, and new ones. `alpn` has the
    /// protocols that each listener can negotiate.
    #[must_use]
    pub fn next(&self, earlier: &EarlierIndexes, alpn: &[Vec<String>]) -> Self {
        let listener = |(index, alpn): (&Option<usize>, &Vec<String>)| {
            let known = index.and_then(|index| self.listeners.get(index));
            let cells = known.cloned().unwrap_or_default();
            cells.offer(alpn);
            cells
        };
        Self {
            listeners: earlier.listeners.iter().zip(alpn).map(listener).collect(),
            relays: next(&self.relays, &earlier.relays),
            http: self.http.next(earlier),
            process: Arc::clone(&self.process),
        }
    }

    /// The cells of a worker without a configuration.
    pub fn none() -> Self {
        Self {
            listeners: Vec::new(),
            relays: Vec::new(),
            http: http::HttpCells::default(),
            process: Arc::default(),
        }
    }

    /// The cells of a listener.
    pub fn listener(&self, listener: ListenerIndex) -> Option<&SharedCells<ListenerCells>> {
        self.listeners.get(listener.get())
    }

    /// The cells of a relay.
    pub fn relay(&self, relay: RelayIndex) -> Option<&SharedCells<relay::RelayCells>> {
        self.relays.get(relay.get())
    }
}

/// The cells of the next configuration, of those that have their `earlier` index among `known`.
fn next<T: Default>(known: &[SharedCells<T>], earlier: &[Option<usize>]) -> Vec<SharedCells<T>> {
    let cells = |index: &Option<usize>| {
        let known = index.and_then(|index| known.get(index));
        known.cloned().unwrap_or_default()
    };
    earlier.iter().map(cells).collect()
}

/// The counters of one listener in one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct ListenerCells {
    /// Accepted connections.
    pub accepted: Counter,
    /// Connections that are open.
    pub open: Gauge,
    /// Connections that ended, by cause.
    pub ended: [Counter; Cause::ALL.len()],
    /// Connections that ended without a byte.
    pub empty: Counter,
    /// Bytes of application data from clients.
    pub received: Counter,
    /// Bytes of application data to clients.
    pub sent: Counter,
    /// Nanoseconds for which directions of connections have waited for their rates.
    pub held_nanos: Counter,
    /// Durations of finished handshakes.
    pub handshake: Histogram,
    /// Durations of connecting to an endpoint.
    pub connect: Histogram,
    /// By the protocol that was chosen; one that is no longer offered stays.
    by_alpn: ArcSwap<Vec<Arc<AlpnCells>>>,
    failures: [Counter; HANDSHAKE_REASONS.len()],
    violations: [Counter; VIOLATIONS.len()],
}

/// The finished handshakes that chose one protocol.
#[derive(Debug, Default)]
struct AlpnCells {
    /// Empty for none.
    protocol: String,
    handshakes: [[Counter; RESUMED.len()]; VERSIONS.len()],
}

impl Default for ListenerCells {
    fn default() -> Self {
        Self {
            accepted: Counter::new(),
            open: Gauge::new(),
            ended: Default::default(),
            empty: Counter::new(),
            received: Counter::new(),
            sent: Counter::new(),
            held_nanos: Counter::new(),
            handshake: Histogram::new(Bounds::HANDSHAKE),
            connect: Histogram::new(Bounds::CONNECT),
            by_alpn: ArcSwap::from_pointee(vec![Arc::default()]),
            failures: Default::default(),
            violations: Default::default(),
        }
    }
}

impl ListenerCells {
    /// Prepares cells for the protocols `alpn`.
    pub fn offer(&self, alpn: &[String]) {
        let known = self.by_alpn.load();
        let is_new = |name: &&String| !known.iter().any(|cells| cells.protocol == **name);
        let mut cells = Vec::clone(&known);
        cells.extend(alpn.iter().filter(is_new).map(|name| {
            Arc::new(AlpnCells {
                protocol: name.clone(),
                ..AlpnCells::default()
            })
        }));
        if cells.len() > known.len() {
            self.by_alpn.store(Arc::new(cells));
        }
    }

    /// Counts a finished handshake.
    pub fn handshake_finished(&self, negotiated: &Negotiated, took: Duration) {
        let version = usize::from(negotiated.version == VERSIONS[1]);
        let resumed = usize::from(negotiated.resumed);
        let by_alpn = self.by_alpn.load();
        let chosen = negotiated.alpn.as_deref().unwrap_or_default();
        let cells = by_alpn
            .iter()
            .find(|cells| cells.protocol.as_bytes() == chosen);
        if let Some(cells) = cells.or(by_alpn.first()) {
            cells.handshakes[version][resumed].inc();
        }
        self.handshake.record(took);
    }

    /// Counts a failed handshake; `reason` is one of [`HANDSHAKE_REASONS`].
    pub fn failed(&self, reason: &str) {
        let index = HANDSHAKE_REASONS.iter().position(|&known| known == reason);
        debug_assert!(index.is_some(), "{reason} is in the list");
        if let Some(counter) = index.and_then(|index| self.failures.get(index)) {
            counter.inc();
        }
    }

    /// Counts a client that was disconnected for a violation of HTTP/2; `reason` is one of
    /// [`VIOLATIONS`].
    pub fn violated(&self, reason: &str) {
        let index = VIOLATIONS.iter().position(|&known| known == reason);
        debug_assert!(index.is_some(), "{reason} is in the list");
        if let Some(counter) = index.and_then(|index| self.violations.get(index)) {
            counter.inc();
        }
    }
}

impl TrafficCounter for ListenerCells {
    fn add_traffic(&self, received: u64, sent: u64, held_for: Nanos) {
        self.held_nanos.add(held_for.as_u64());
        self.received.add(received);
        self.sent.add(sent);
    }
}

/// Writes everything that the workers count, for the listeners with these names.
pub fn write(
    families: &mut MetricFamilies<'_>,
    shards: &Shards<WorkerCells>,
    listeners: &[String],
) {
    per_listener(families, shards, listeners);
    per_worker(families, shards);
    let mut family = families.counter(
        "lockgate_accept_failures_total",
        "Attempts to accept that failed for want of descriptors or memory.",
    );
    family.sample(&[], shards.counter(|cells| &cells.process.accept_failures));
    families
        .counter(
            "lockgate_connections_abandoned_total",
            "Connections that clients closed before there was a slot for them.",
        )
        .sample(&[], shards.counter(|cells| &cells.process.abandoned));
    families
        .counter(
            "lockgate_clients_banned_total",
            "Connections and requests of banned clients, which were refused.",
        )
        .sample(&[], shards.counter(|cells| &cells.process.banned));
    families
        .counter(
            "lockgate_memory_cut_total",
            "Connections that were cut because memory had run out.",
        )
        .sample(&[], shards.counter(|cells| &cells.process.memory_cut));
    families
        .counter(
            "lockgate_memory_refused_total",
            "Requests and handshakes that were refused because memory had run out.",
        )
        .sample(&[], shards.counter(|cells| &cells.process.memory_refused));
}

fn per_worker(families: &mut MetricFamilies<'_>, shards: &Shards<WorkerCells>) {
    let mut family = families.counter(
        "lockgate_worker_connections_accepted_total",
        "Connections accepted, by worker.",
    );
    for (worker, cells) in shards.iter().enumerate() {
        let accepted = cells.process.accepted.value();
        family.sample(&[("worker", &worker.to_string())], accepted);
    }
}

fn per_listener(
    families: &mut MetricFamilies<'_>,
    shards: &Shards<WorkerCells>,
    listeners: &[String],
) {
    let counter = |listener: usize, cell: fn(&ListenerCells) -> &Counter| {
        shards.counter(|cells| cell(&cells.listeners[listener]))
    };
    let each = || listeners.iter().map(String::as_str).enumerate();
    let mut family = families.counter(
        "lockgate_connections_accepted_total",
        "Connections accepted.",
    );
    for (index, name) in each() {
        family.sample(
            &[("listener", name)],
            counter(index, |cells| &cells.accepted),
        );
    }
    let mut family = families.gauge("lockgate_connections", "Connections that are open.");
    for (index, name) in each() {
        family.sample(
            &[("listener", name)],
            shards.gauge(|cells| &cells.listeners[index].open),
        );
    }
    let mut family = families.counter(
        "lockgate_connections_ended_total",
        "Connections that ended, by cause.",
    );
    for (index, name) in each() {
        for cause in Cause::ALL {
            let ended = shards.counter(|cells| &cells.listeners[index].ended[cause.index()]);
            family.sample(&[("listener", name), ("cause", cause.as_str())], ended);
        }
    }
    let mut family = families.counter(
        "lockgate_connections_empty_total",
        "Connections that ended without a byte; they are not logged.",
    );
    for (index, name) in each() {
        family.sample(&[("listener", name)], counter(index, |cells| &cells.empty));
    }
    let mut family = families.counter(
        "lockgate_connection_bytes_total",
        "Application data, as seen from Lockgate's clients.",
    );
    for (index, name) in each() {
        family.sample(
            &[("listener", name), ("direction", "received")],
            counter(index, |cells| &cells.received),
        );
        family.sample(
            &[("listener", name), ("direction", "sent")],
            counter(index, |cells| &cells.sent),
        );
    }
    let mut family = families.counter(
        "lockgate_connection_shaped_seconds_total",
        "Time for which connections waited because of their rates, each direction on its own.",
    );
    for (index, name) in each() {
        let nanos = counter(index, |cells| &cells.held_nanos);
        family.sample(&[("listener", name)], nanos as f64 / 1e9);
    }
    handshakes(families, shards, listeners);
    histograms(families, shards, listeners);
}

fn handshakes(
    families: &mut MetricFamilies<'_>,
    shards: &Shards<WorkerCells>,
    listeners: &[String],
) {
    let mut family = families.counter(
        "lockgate_tls_handshakes_total",
        "Finished handshakes with clients.",
    );
    for (index, name) in listeners.iter().enumerate() {
        let mut sums: BTreeMap<(usize, usize, String), u64> = BTreeMap::new();
        for by_alpn in shards
            .iter()
            .map(|cells| cells.listeners[index].by_alpn.load())
        {
            for cells in by_alpn.iter() {
                let protocol = match cells.protocol.as_str() {
                    "" => "none",
                    protocol => protocol,
                };
                for (version, by_resumed) in cells.handshakes.iter().enumerate() {
                    for (resumed, counter) in by_resumed.iter().enumerate() {
                        let sum = sums.entry((version, resumed, protocol.to_owned()));
                        *sum.or_default() += counter.value();
                    }
                }
            }
        }
        for ((version, resumed, alpn), sum) in sums.into_iter().filter(|(_, sum)| *sum > 0) {
            let labels = [
                ("listener", name.as_str()),
                ("version", VERSIONS[version]),
                ("alpn", &alpn),
                ("resumed", RESUMED[resumed]),
            ];
            family.sample(&labels, sum);
        }
    }
    let mut family = families.counter(
        "lockgate_tls_handshake_failures_total",
        "Handshakes with clients that failed, by reason.",
    );
    for (index, name) in listeners.iter().enumerate() {
        for (reason, label) in HANDSHAKE_REASONS.iter().enumerate() {
            let failed = shards.counter(|cells| &cells.listeners[index].failures[reason]);
            if failed > 0 {
                family.sample(&[("listener", name), ("reason", label)], failed);
            }
        }
    }
    let mut family = families.counter(
        "lockgate_http2_violations_total",
        "Clients that were disconnected for abuse of HTTP/2, by reason.",
    );
    for (index, name) in listeners.iter().enumerate() {
        for (reason, label) in VIOLATIONS.iter().enumerate() {
            let violated = shards.counter(|cells| &cells.listeners[index].violations[reason]);
            if violated > 0 {
                family.sample(&[("listener", name), ("reason", label)], violated);
            }
        }
    }
}

fn histograms(
    families: &mut MetricFamilies<'_>,
    shards: &Shards<WorkerCells>,
    listeners: &[String],
) {
    let mut family = families.histogram(
        "lockgate_tls_handshake_duration_seconds",
        "Time from the acceptance of a connection to the end of its handshake.",
    );
    for (index, name) in listeners.iter().enumerate() {
        if let Some(sum) = shards.histogram(|cells| &cells.listeners[index].handshake) {
            family.sample(&[("listener", name)], &sum);
        }
    }
    let mut family = families.histogram(
        "lockgate_upstream_connect_duration_seconds",
        "Time to connect to an endpoint, fail-over included.",
    );
    for (index, name) in listeners.iter().enumerate() {
        if let Some(sum) = shards.histogram(|cells| &cells.listeners[index].connect) {
            family.sample(&[("listener", name)], &sum);
        }
    }
}
