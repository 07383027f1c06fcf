//! The process, its listeners, its limits and its configuration.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::ddns::{KeptNameView, kept_names};
use super::managed_certs::{ManagedCountsView, managed_counts};
use super::timestamp::timestamp;
use crate::admin::LimitPeaks;
use crate::configuration::Configuration;
use crate::exposition::{Exposition, LimitFigures, Usage};
use crate::metrics_server::Phase;

/// The state of the process.
#[derive(Serialize)]
pub(crate) struct StatusView {
    version: &'static str,
    pid: u32,
    started: String,
    uptime_seconds: u64,
    phase: &'static str,
    workers: usize,
    generation: u64,
    earlier_generations: usize,
    /// Only the workers know them, and are not asked for each view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_to_earlier_generations: Option<usize>,
    endpoints_added: usize,
    endpoints_removed: usize,
    listeners: Vec<ListenerView>,
    limits: LimitsView,
    /// Those that the program obtains.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificates: Option<ManagedCountsView>,
    /// Names that are kept at this machine's address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<KeptNameView>,
    configuration: Option<ConfigurationView>,
}

#[derive(Serialize)]
struct ListenerView {
    name: String,
    address: String,
    kind: &'static str,
    connections: i64,
    accepted: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

#[derive(Serialize)]
struct LimitsView {
    connections: UsageView,
    sockets: SocketsView,
    handshakes: HandshakesView,
    memory: MemoryView,
    clients: usize,
    /// The span of the peaks; they are not kept for each view.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_seconds: Option<u64>,
}

#[derive(Serialize)]
struct UsageView {
    used: usize,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<usize>,
}

#[derive(Serialize)]
struct SocketsView {
    #[serde(flatten)]
    usage: UsageView,
    idle: usize,
    waiting: usize,
}

#[derive(Serialize)]
struct HandshakesView {
    #[serde(flatten)]
    usage: UsageView,
    waiting: usize,
}

#[derive(Serialize)]
struct MemoryView {
    used: usize,
    size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<usize>,
    level: &'static str,
}

#[derive(Serialize)]
struct ConfigurationView {
    file: String,
    hash: String,
    read: String,
    reloads: ReloadsView,
    checked: String,
    differs: bool,
    mistakes: usize,
}

#[derive(Serialize)]
struct ReloadsView {
    succeeded: u64,
    failed: u64,
}

impl StatusView {
    /// Adds the peaks of a span of time.
    pub(crate) fn set_peaks(&mut self, (peaks, span): (LimitPeaks, Duration)) {
        let limits = &mut self.limits;
        limits.connections.peak = Some(peaks.connections);
        limits.sockets.usage.peak = Some(peaks.sockets);
        limits.handshakes.usage.peak = Some(peaks.handshakes);
        limits.memory.peak = Some(peaks.memory);
        limits.peak_seconds = Some(span.as_secs());
    }
}

/// The state of a process with so many `workers`.
pub(crate) fn status(exposition: &Exposition, phase: Phase, workers: usize) -> StatusView {
    let (added, removed) = exposition.changes().counts();
    StatusView {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        started: timestamp(exposition.started()),
        uptime_seconds: exposition.uptime().as_secs(),
        phase: match phase {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Draining => "draining",
        },
        workers,
        generation: exposition.generation(),
        earlier_generations: exposition.earlier_generations(),
        held_to_earlier_generations: None,
        endpoints_added: added,
        endpoints_removed: removed,
        listeners: listeners(exposition),
        limits: limits(&exposition.limits()),
        certificates: managed_counts(&exposition.managed_certs(), SystemTime::now()),
        names: kept_names(exposition.kept_names()),
        configuration: exposition.configuration_file().map(configuration),
    }
}

fn listeners(exposition: &Exposition) -> Vec<ListenerView> {
    let figures = exposition.listeners().into_iter();
    let listeners = figures.zip(exposition.bound());
    let shown = listeners.map(|(figures, bound)| ListenerView {
        name: figures.name,
        address: bound.address.clone(),
        kind: bound.kind,
        connections: figures.open,
        accepted: figures.accepted,
        received_bytes: figures.received,
        sent_bytes: figures.sent,
    });
    shown.collect()
}

fn limits(limits: &LimitFigures) -> LimitsView {
    let usage = |Usage { used, size }| UsageView {
        used,
        size,
        peak: None,
    };
    LimitsView {
        connections: usage(limits.connections),
        sockets: SocketsView {
            usage: usage(limits.sockets),
            idle: limits.sockets_idle,
            waiting: limits.sockets_waiting,
        },
        handshakes: HandshakesView {
            usage: usage(limits.handshakes),
            waiting: limits.handshakes_waiting,
        },
        memory: MemoryView {
            used: limits.memory_used,
            size: limits.memory_size,
            peak: None,
            level: limits.memory_level,
        },
        clients: limits.clients,
        peak_seconds: None,
    }
}

fn configuration(file: &Configuration) -> ConfigurationView {
    let (last, running) = (file.last_check(), file.running());
    let reloads = file.reloads();
    ConfigurationView {
        file: file.file.display().to_string(),
        hash: running.hash.clone(),
        read: timestamp(running.read),
        reloads: ReloadsView {
            succeeded: reloads.succeeded,
            failed: reloads.failed,
        },
        checked: timestamp(last.time),
        differs: last.differs,
        mistakes: last.errors,
    }
}
