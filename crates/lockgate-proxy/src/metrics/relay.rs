//! What is counted of relays, by listener and pool.

use lockgate_limits::clock::TrafficCounter;
use lockgate_metrics::{Bounds, Counter, Gauge, Histogram, MetricFamilies, Shards};
use lockgate_net::nanos::Nanos;

use super::WorkerCells;
use crate::access_log::Cause;

/// The counters of one relay in one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct RelayCells {
    /// Connections that were to be relayed.
    pub begun: Counter,
    /// The open connections.
    pub open: Gauge,
    /// The ended connections, by cause.
    pub ended: [Counter; Cause::ALL.len()],
    /// Bytes from clients.
    pub received: Counter,
    /// Bytes to clients.
    pub sent: Counter,
    /// Durations of connecting to an endpoint.
    pub connect: Histogram,
}

impl Default for RelayCells {
    fn default() -> Self {
        Self {
            begun: Counter::new(),
            open: Gauge::new(),
            ended: Default::default(),
            received: Counter::new(),
            sent: Counter::new(),
            connect: Histogram::new(Bounds::CONNECT),
        }
    }
}

impl TrafficCounter for RelayCells {
    fn add_traffic(&self, received: u64, sent: u64, _: Nanos) {
        self.received.add(received);
        self.sent.add(sent);
    }
}

/// A relay as metrics name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelayName {
    /// The listener.
    pub listener: String,
    /// The pool.
    pub pool: String,
}

impl RelayName {
    fn labels(&self) -> [(&'static str, &str); 2] {
        [("listener", &self.listener), ("pool", &self.pool)]
    }

    fn with<'a>(&'a self, name: &'static str, value: &'a str) -> [(&'static str, &'a str); 3] {
        let [listener, pool] = self.labels();
        [listener, pool, (name, value)]
    }
}

/// Writes what the workers count of relays with these names, in the order of their cells.
pub fn write(
    families: &mut MetricFamilies<'_>,
    shards: &Shards<WorkerCells>,
    relays: &[RelayName],
) {
    let counter = |index: usize, cell: fn(&RelayCells) -> &Counter| {
        shards.counter(|cells| cell(&cells.relays[index]))
    };
    let each = || relays.iter().enumerate();
    let mut family = families.counter(
        "lockgate_relays_total",
        "Connections that began to be relayed.",
    );
    for (index, relay) in each() {
        family.sample(&relay.labels(), counter(index, |cells| &cells.begun));
    }
    let mut family = families.gauge("lockgate_relays", "Relayed connections that are open.");
    for (index, relay) in each() {
        family.sample(
            &relay.labels(),
            shards.gauge(|cells| &cells.relays[index].open),
        );
    }
    let mut family = families.counter(
        "lockgate_relays_ended_total",
        "Relayed connections that ended, by cause.",
    );
    for (index, relay) in each() {
        for cause in Cause::ALL {
            let ended = shards.counter(|cells| &cells.relays[index].ended[cause.index()]);
            if ended > 0 {
                family.sample(&relay.with("cause", cause.as_str()), ended);
            }
        }
    }
    let mut family = families.counter(
        "lockgate_relay_bytes_total",
        "Relayed bytes, as seen from Lockgate's clients.",
    );
    for (index, relay) in each() {
        family.sample(
            &relay.with("direction", "received"),
            counter(index, |cells| &cells.received),
        );
        family.sample(
            &relay.with("direction", "sent"),
            counter(index, |cells| &cells.sent),
        );
    }
    let mut family = families.histogram(
        "lockgate_relay_connect_duration_seconds",
        "Time to connect to an endpoint of a relay, fail-over included.",
    );
    for (index, relay) in each() {
        if let Some(sum) = shards.histogram(|cells| &cells.relays[index].connect) {
            family.sample(&relay.labels(), &sum);
        }
    }
}
