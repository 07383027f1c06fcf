//! The process, its listeners, its limits and its configuration.

use serde_json::{Value, json};

use super::timestamp::timestamp;
use crate::configuration::Configuration;
use crate::exposition::{Exposition, LimitFigures};
use crate::metrics_server::Phase;

/// The state of a process with so many `workers`.
pub(crate) fn status(exposition: &Exposition, phase: Phase, workers: usize) -> Value {
    let phase = match phase {
        Phase::Starting => "starting",
        Phase::Ready => "ready",
        Phase::Draining => "draining",
    };
    let (added, removed) = exposition.changes().counts();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started": timestamp(exposition.started()),
        "uptime_seconds": exposition.uptime().as_secs(),
        "phase": phase,
        "workers": workers,
        "generation": exposition.generation(),
        "earlier_generations": exposition.earlier_generations(),
        "endpoints_added": added,
        "endpoints_removed": removed,
        "listeners": listeners(exposition),
        "limits": limits(&exposition.limits()),
        "configuration": exposition.configuration_file().map(configuration),
    })
}

fn listeners(exposition: &Exposition) -> Vec<Value> {
    let figures = exposition.listeners();
    let listeners = figures.iter().zip(exposition.bound());
    let shown = listeners.map(|(figures, bound)| {
        json!({
            "name": figures.name,
            "address": bound.address,
            "kind": bound.kind,
            "connections": figures.open,
            "accepted": figures.accepted,
            "received_bytes": figures.received,
            "sent_bytes": figures.sent,
        })
    });
    shown.collect()
}

fn limits(limits: &LimitFigures) -> Value {
    json!({
        "connections": { "used": limits.connections.used, "size": limits.connections.size },
        "sockets": {
            "used": limits.sockets.used,
            "size": limits.sockets.size,
            "idle": limits.sockets_idle,
            "waiting": limits.sockets_waiting,
        },
        "handshakes": {
            "used": limits.handshakes.used,
            "size": limits.handshakes.size,
            "waiting": limits.handshakes_waiting,
        },
        "memory": {
            "used": limits.memory_used,
            "size": limits.memory_size,
            "level": limits.memory_level,
        },
        "clients": limits.clients,
    })
}

fn configuration(file: &Configuration) -> Value {
    let (last, running) = (file.last_check(), file.running());
    let reloads = file.reloads();
    json!({
        "file": file.file,
        "hash": running.hash,
        "read": timestamp(running.read),
        "reloads": { "succeeded": reloads.succeeded, "failed": reloads.failed },
        "checked": timestamp(last.time),
        "differs": last.differs,
        "mistakes": last.errors,
    })
}
