//! Pools: each endpoint with its state, and its figures of the last seconds.

use lockgate_upstream::AdminMode;
use serde_json::{Map, Value, json};

use super::recent::{EndpointSpan, RecentSpan};
use super::rounded;
use crate::exposition::{EndpointCondition, EndpointFigures, PoolFigures};

/// All pools.
pub(crate) fn pools(pools: &[PoolFigures], recent: &RecentSpan) -> Value {
    let shown = pools.iter().map(|pool| shown(pool, recent));
    json!({
        "recent_seconds": rounded(recent.time),
        "pools": shown.collect::<Vec<_>>(),
    })
}

fn shown(pool: &PoolFigures, recent: &RecentSpan) -> Value {
    let endpoints = pool.endpoints.iter();
    let endpoints = endpoints.map(|one| endpoint(one, recent.of(&pool.name, &one.endpoint)));
    json!({
        "pool": pool.name,
        "added": pool.added,
        "removed": pool.removed,
        "endpoints": endpoints.collect::<Vec<_>>(),
    })
}

fn endpoint(figures: &EndpointFigures, recent: Option<&EndpointSpan>) -> Value {
    let state = match figures.condition {
        EndpointCondition::Up => "up",
        EndpointCondition::Down => "down",
        EndpointCondition::Ejected => "ejected",
        EndpointCondition::Avoided => "avoided",
    };
    let counts = figures.counts.as_ref();
    let errors = counts.map(|counts| {
        let named = counts.failures.iter();
        let named = named.map(|(reason, count)| ((*reason).to_owned(), json!(count)));
        named.collect::<Map<_, _>>()
    });
    let check = figures.check.as_ref().map(|check| {
        json!({
            "seconds": check.took.as_secs_f64(),
            "ago_seconds": rounded(check.age),
            "error": check.error,
        })
    });
    json!({
        "endpoint": figures.endpoint,
        "state": state,
        "why": figures.why,
        "admin": mode_name(figures.mode),
        "weight": figures.weight,
        "weight_configured": figures.weight_configured,
        "backup": figures.backup,
        "connections": figures.connections,
        "idle": counts.map(|counts| counts.idle),
        "in_flight": figures.in_flight,
        "latency_seconds": figures.latency.map(|latency| latency.as_secs_f64()),
        "ejections": figures.ejections,
        "requests": counts.map(|counts| counts.requests()),
        "retries": counts.map(|counts| counts.retries),
        "errors": errors,
        "requests_per_second": recent.map(|span| span.rate),
        "p50_seconds": recent.and_then(|span| span.p50),
        "p99_seconds": recent.and_then(|span| span.p99),
        "check": check,
    })
}

/// The administrative mode; nothing where an endpoint is as configured.
pub(crate) fn mode_name(mode: AdminMode) -> Option<&'static str> {
    match mode {
        AdminMode::Ready => None,
        AdminMode::Drain => Some("drain"),
        AdminMode::Maintenance => Some("maintenance"),
    }
}
