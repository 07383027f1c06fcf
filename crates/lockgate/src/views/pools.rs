//! Pools: each endpoint with its state, and its figures of the last seconds.

use std::collections::BTreeMap;

use lockgate_upstream::AdminMode;
use serde::Serialize;

use super::recent::{EndpointSpan, RecentSpan};
use super::{ListView, rounded};
use crate::exposition::{CheckFigures, EndpointCondition, EndpointFigures, PoolFigures};

#[derive(Serialize)]
struct PoolsView<L> {
    recent_seconds: f64,
    pools: L,
}

#[derive(Serialize)]
struct PoolView<'a, L> {
    pool: &'a str,
    added: &'a [String],
    removed: &'a [String],
    endpoints: L,
}

#[derive(Serialize)]
struct EndpointView<'a> {
    endpoint: &'a str,
    state: &'static str,
    why: Option<&'a str>,
    admin: Option<&'static str>,
    weight: u32,
    weight_configured: u32,
    backup: bool,
    connections: usize,
    idle: Option<i64>,
    in_flight: usize,
    latency_seconds: Option<f64>,
    ejections: u64,
    requests: Option<u64>,
    retries: Option<u64>,
    errors: Option<&'a BTreeMap<&'static str, u64>>,
    requests_per_second: Option<f64>,
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    check: Option<CheckView<'a>>,
}

#[derive(Serialize)]
struct CheckView<'a> {
    seconds: f64,
    ago_seconds: f64,
    error: Option<&'a str>,
}

/// All pools.
pub(crate) fn pools<'a>(pools: &'a [PoolFigures], recent: &'a RecentSpan) -> impl Serialize + 'a {
    let shown = recent.by_pool(pools).map(|(pool, spans)| PoolView {
        pool: &pool.name,
        added: &pool.added,
        removed: &pool.removed,
        endpoints: {
            let endpoints = pool.endpoints.iter().zip(spans);
            ListView(endpoints.map(|(one, span)| endpoint(one, span.as_ref())))
        },
    });
    PoolsView {
        recent_seconds: rounded(recent.time),
        pools: ListView(shown),
    }
}

fn endpoint<'a>(figures: &'a EndpointFigures, recent: Option<&EndpointSpan>) -> EndpointView<'a> {
    let counts = figures.counts.as_ref();
    EndpointView {
        endpoint: &figures.endpoint,
        state: state_name(figures.condition),
        why: figures.why.as_deref(),
        admin: mode_name(figures.mode),
        weight: figures.weight,
        weight_configured: figures.weight_configured,
        backup: figures.backup,
        connections: figures.connections,
        idle: counts.map(|counts| counts.idle),
        in_flight: figures.in_flight,
        latency_seconds: figures.latency.map(|latency| latency.as_secs_f64()),
        ejections: figures.ejections,
        requests: counts.map(|counts| counts.requests()),
        retries: counts.map(|counts| counts.retries),
        errors: counts.map(|counts| &counts.failures),
        requests_per_second: recent.map(|span| span.rate),
        p50_seconds: recent.and_then(|span| span.p50),
        p99_seconds: recent.and_then(|span| span.p99),
        check: figures.check.as_ref().map(check),
    }
}

fn check(figures: &CheckFigures) -> CheckView<'_> {
    CheckView {
        seconds: figures.took.as_secs_f64(),
        ago_seconds: rounded(figures.age),
        error: figures.error.as_deref(),
    }
}

/// The state of an endpoint, as its health has it.
pub(crate) fn state_name(condition: EndpointCondition) -> &'static str {
    match condition {
        EndpointCondition::Up => "up",
        EndpointCondition::Down => "down",
        EndpointCondition::Ejected => "ejected",
        EndpointCondition::Avoided => "avoided",
    }
}

/// The administrative mode; nothing where an endpoint is as configured.
pub(crate) fn mode_name(mode: AdminMode) -> Option<&'static str> {
    match mode {
        AdminMode::Ready => None,
        AdminMode::Drain => Some("drain"),
        AdminMode::Maintenance => Some("maintenance"),
    }
}
