//! What is counted, per worker and listener, and its names in Prometheus text.
//!
//! Labels come from closed sets: listeners and ALPN names of the configuration, reasons of this
//! page.

pub mod http;
pub mod relay;

use std::collections::BTreeMap;
use std::time::Duration;

use lockgate_limits::{ListenerIndex, RelayIndex};
use lockgate_metrics::{Bounds, Counter, ExpositionText, Gauge, Histogram, Shards};
use lockgate_net::tls::handshake::Negotiated;

use crate::access_log::Cause;

/// Reasons of a failed handshake, as [`lockgate_net::tls::handshake::HandshakeError::reason`] gives
/// them and this crate.
pub const HANDSHAKE_REASONS: [&str; 14] = [
    "alert",
    "bad_certificate",
    "closed",
    "malformed",
    "no_application_protocol",
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
/// use, for updates of windows; by the h2 crate, for excess (`calm`) or a breach of the protocol
/// (`protocol`).
pub const VIOLATIONS: [&str; 6] = [
    "resets", "control", "updates", "sections", "calm", "protocol",
];

const VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];
const RESUMED: [&str; 2] = ["false", "true"];

/// The cells that one worker writes.
#[derive(Debug)]
pub struct WorkerCells {
    /// In the order of the listeners.
    pub listeners: Vec<ListenerCells>,
    /// In the order of the relays.
    pub relays: Vec<relay::RelayCells>,
    /// Attempts to accept that failed for want of descriptors or memory.
    pub accept_failures: Counter,
    /// Connections that clients closed before there was a slot for them.
    pub abandoned: Counter,
    /// Connections that were cut because memory had run out.
    pub memory_cut: Counter,
    /// Requests and handshakes that were refused for the same reason.
    pub memory_refused: Counter,
    /// The counters of HTTP.
    pub http: http::HttpCells,
}

impl WorkerCells {
    /// The cells of a listener.
    pub fn listener(&self, listener: ListenerIndex) -> Option<&ListenerCells> {
        self.listeners.get(listener.get())
    }

    /// The cells of a relay.
    pub fn relay(&self, relay: RelayIndex) -> Option<&relay::RelayCells> {
        self.relays.get(relay.get())
    }
}

/// The counters of one listener in one worker.
#[derive(Debug)]
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
    alpn: Vec<String>,
    handshakes: Vec<Counter>,
    failures: [Counter; HANDSHAKE_REASONS.len()],
    violations: [Counter; VIOLATIONS.len()],
}

impl ListenerCells {
    /// Cells of a listener that can negotiate the protocols `alpn`.
    pub fn new(alpn: &[String]) -> Self {
        let alpn: Vec<String> = alpn.iter().cloned().chain(["none".to_owned()]).collect();
        let combinations = VERSIONS.len() * RESUMED.len() * alpn.len();
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
            handshakes: (0..combinations).map(|_| Counter::new()).collect(),
            alpn,
            failures: Default::default(),
            violations: Default::default(),
        }
    }

    /// Counts a finished handshake.
    pub fn handshake_finished(&self, negotiated: &Negotiated, took: Duration) {
        let version = usize::from(negotiated.version == VERSIONS[1]);
        let resumed = usize::from(negotiated.resumed);
        let none = self.alpn.len() - 1;
        let alpn = negotiated.alpn.as_deref().map_or(none, |chosen| {
            self.alpn
                .iter()
                .position(|name| name.as_bytes() == chosen)
                .unwrap_or(none)
        });
        if let Some(counter) = self
            .handshakes
            .get(self.combination(version, resumed, alpn))
        {
            counter.inc();
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

    fn combination(&self, version: usize, resumed: usize, alpn: usize) -> usize {
        (version * RESUMED.len() + resumed) * self.alpn.len() + alpn
    }
}

/// Writes everything that the workers count, for the listeners with these names.
pub fn write(text: &mut ExpositionText, shards: &Shards<WorkerCells>, listeners: &[String]) {
    per_listener(text, shards, listeners);
    per_worker(text, shards);
    let mut family = text.counter(
        "lockgate_accept_failures_total",
        "Attempts to accept that failed for want of descriptors or memory.",
    );
    family.sample(&[], shards.counter(|cells| &cells.accept_failures));
    text.counter(
        "lockgate_connections_abandoned_total",
        "Connections that clients closed before there was a slot for them.",
    )
    .sample(&[], shards.counter(|cells| &cells.abandoned));
    text.counter(
        "lockgate_memory_cut_total",
        "Connections that were cut because memory had run out.",
    )
    .sample(&[], shards.counter(|cells| &cells.memory_cut));
    text.counter(
        "lockgate_memory_refused_total",
        "Requests and handshakes that were refused because memory had run out.",
    )
    .sample(&[], shards.counter(|cells| &cells.memory_refused));
}

fn per_worker(text: &mut ExpositionText, shards: &Shards<WorkerCells>) {
    let mut family = text.counter(
        "lockgate_worker_connections_accepted_total",
        "Connections accepted, by worker.",
    );
    for (worker, cells) in shards.iter().enumerate() {
        let accepted: u64 = cells
            .listeners
            .iter()
            .map(|listener| listener.accepted.value())
            .sum();
        family.sample(&[("worker", &worker.to_string())], accepted);
    }
}

fn per_listener(text: &mut ExpositionText, shards: &Shards<WorkerCells>, listeners: &[String]) {
    let counter = |listener: usize, cell: fn(&ListenerCells) -> &Counter| {
        shards.counter(|cells| cell(&cells.listeners[listener]))
    };
    let each = || listeners.iter().map(String::as_str).enumerate();
    let mut family = text.counter(
        "lockgate_connections_accepted_total",
        "Connections accepted.",
    );
    for (index, name) in each() {
        family.sample(
            &[("listener", name)],
            counter(index, |cells| &cells.accepted),
        );
    }
    let mut family = text.gauge("lockgate_connections", "Connections that are open.");
    for (index, name) in each() {
        family.sample(
            &[("listener", name)],
            shards.gauge(|cells| &cells.listeners[index].open),
        );
    }
    let mut family = text.counter(
        "lockgate_connections_ended_total",
        "Connections that ended, by cause.",
    );
    for (index, name) in each() {
        for cause in Cause::ALL {
            let ended = shards.counter(|cells| &cells.listeners[index].ended[cause.index()]);
            family.sample(&[("listener", name), ("cause", cause.as_str())], ended);
        }
    }
    let mut family = text.counter(
        "lockgate_connections_empty_total",
        "Connections that ended without a byte; they are not logged.",
    );
    for (index, name) in each() {
        family.sample(&[("listener", name)], counter(index, |cells| &cells.empty));
    }
    let mut family = text.counter(
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
    let mut family = text.counter(
        "lockgate_connection_shaped_seconds_total",
        "Time for which connections waited because of their rates, each direction on its own.",
    );
    for (index, name) in each() {
        let nanos = counter(index, |cells| &cells.held_nanos);
        family.sample(&[("listener", name)], nanos as f64 / 1e9);
    }
    handshakes(text, shards, listeners);
    histograms(text, shards, listeners);
}

fn handshakes(text: &mut ExpositionText, shards: &Shards<WorkerCells>, listeners: &[String]) {
    let mut family = text.counter(
        "lockgate_tls_handshakes_total",
        "Finished handshakes with clients.",
    );
    for (index, name) in listeners.iter().enumerate() {
        let mut sums: BTreeMap<(usize, usize, &str), u64> = BTreeMap::new();
        for cells in shards.iter().map(|cells| &cells.listeners[index]) {
            for version in 0..VERSIONS.len() {
                for resumed in 0..RESUMED.len() {
                    for (alpn, protocol) in cells.alpn.iter().enumerate() {
                        let value =
                            cells.handshakes[cells.combination(version, resumed, alpn)].value();
                        *sums.entry((version, resumed, protocol)).or_default() += value;
                    }
                }
            }
        }
        for ((version, resumed, alpn), sum) in sums.into_iter().filter(|&(_, sum)| sum > 0) {
            let labels = [
                ("listener", name.as_str()),
                ("version", VERSIONS[version]),
                ("alpn", alpn),
                ("resumed", RESUMED[resumed]),
            ];
            family.sample(&labels, sum);
        }
    }
    let mut family = text.counter(
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
    let mut family = text.counter(
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

fn histograms(text: &mut ExpositionText, shards: &Shards<WorkerCells>, listeners: &[String]) {
    let mut family = text.histogram(
        "lockgate_tls_handshake_duration_seconds",
        "Time from the acceptance of a connection to the end of its handshake.",
    );
    for (index, name) in listeners.iter().enumerate() {
        if let Some(sum) = shards.histogram(|cells| &cells.listeners[index].handshake) {
            family.sample(&[("listener", name)], &sum);
        }
    }
    let mut family = text.histogram(
        "lockgate_upstream_connect_duration_seconds",
        "Time to connect to an endpoint, fail-over included.",
    );
    for (index, name) in listeners.iter().enumerate() {
        if let Some(sum) = shards.histogram(|cells| &cells.listeners[index].connect) {
            family.sample(&[("listener", name)], &sum);
        }
    }
}
