//! `/v1/status`: the process, its listeners, its limits and its configuration.

use serde_json::{Value, json};

use super::super::request::{AdminRequest, AdminResult};
use super::super::timestamp::timestamp;
use super::connections::held_to_earlier;
use crate::configuration::Configuration;
use crate::exposition::{Exposition, LimitFigures};
use crate::metrics_server::Phase;

/// The state of the process.
pub(super) async fn show(request: AdminRequest) -> AdminResult {
    let state = &*request.state;
    let exposition = state.exposition();
    let phase = match state.readiness.phase() {
        Phase::Starting => "starting",
        Phase::Ready => "ready",
        Phase::Draining => "draining",
    };
    let started = exposition.started();
    // The first generation has none before it.
    let held = match exposition.generation() {
        1 => 0,
        _ => held_to_earlier(&request).await?,
    };
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started": timestamp(started),
        "uptime_seconds": started.elapsed().unwrap_or_default().as_secs(),
        "phase": phase,
        "workers": state.workers,
        "generation": exposition.generation(),
        "earlier_generations": exposition.earlier_generations(),
        "held_to_earlier_generations": held,
        "listeners": listeners(&exposition),
        "limits": limits(&exposition.limits()),
        "configuration": exposition.configuration_file().map(configuration),
    }))
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
