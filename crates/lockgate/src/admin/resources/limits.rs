//! `/v1/limits`: the rate limits of routes and tunnels, how full their buckets are, and buckets that are
//! forgotten.

use std::net::IpAddr;
use std::time::Duration;

use lockgate_limits::clock;
use lockgate_net::nanos::Nanos;
use serde_json::{Value, json};

use super::super::body::{optional_text, text, unknown, unusable};
use super::super::request::{AdminRequest, AdminResult};

/// All rate limits.
pub(super) async fn show(request: AdminRequest) -> AdminResult {
    let exposition = request.state.exposition();
    let named = exposition.rate_limits();
    // All limits of a process have one table.
    let Some(table) = named.first().map(|one| one.limiter.table()) else {
        return Ok(json!({ "limits": [], "buckets": { "used": 0, "size": 0 } }));
    };
    let limiters: Vec<_> = named.iter().map(|one| &one.limiter).collect();
    let figures = table.figures(&limiters, Nanos::from(Duration::from(clock::now())));
    let limits = named.iter().zip(figures).map(|(one, figures)| {
        json!({
            "names": one.names,
            "buckets": figures.buckets,
            "limited": figures.limited,
            "refused": figures.refused,
        })
    });
    Ok(json!({
        "limits": limits.collect::<Vec<_>>(),
        "buckets": { "used": table.len(), "size": table.size() },
    }))
}

/// Forgets the buckets of one limit, or those of one client under every limit.
pub(super) async fn clear(request: AdminRequest) -> AdminResult {
    let body = request.object(&["name", "client"])?;
    let exposition = request.state.exposition();
    let limits = exposition.rate_limits();
    let cleared = if let Some(client) = optional_text(&body, "client")? {
        if optional_text(&body, "name")?.is_some() {
            let message = "the body has a `client` and a `name`";
            return Err(unusable(message, "send one of them"));
        }
        let client: Result<IpAddr, _> = client.parse();
        let client = client.map_err(|_| unusable("`client` is no address", "write 192.0.2.1"))?;
        let forgotten = limits.iter().filter(|one| one.limiter.forget(client));
        let count = forgotten.count();
        tracing::info!(%client, count, "rate-limit buckets of the client are forgotten");
        count
    } else {
        let name = text(&body, "name")?;
        let has_name = |written: &String| written == name;
        let found = limits.iter().find(|one| one.names.iter().any(has_name));
        let names = limits.iter().flat_map(|one| &one.names).map(String::as_str);
        let count = found
            .ok_or_else(|| unknown("rate limit", name, names))?
            .limiter
            .clear();
        tracing::info!(name, count, "the buckets of the rate limit are forgotten");
        count
    };
    let shown = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
    Ok(json!({ "name": shown("name"), "client": shown("client"), "cleared": cleared }))
}
