//! `/v1/sites`: the requests of each site, and `/v1/clients`: the clients with the most traffic.

use std::time::Instant;

use serde_json::{Value, json};

use super::super::recent::RecentSpan;
use super::super::request::{AdminRequest, AdminResult};
use super::pools::rounded;
use crate::exposition::SiteFigures;

/// All sites, and at the end what has none.
pub(super) async fn show(request: AdminRequest) -> AdminResult {
    let state = &*request.state;
    let exposition = state.exposition();
    let sites = exposition.site_figures();
    let since = exposition.started().elapsed().unwrap_or_default();
    let recent = &state.recent_sites;
    let recent = recent.observe_sites(&sites, Instant::now(), since);
    let shown = sites.iter().map(|site| shown(site, &recent));
    Ok(json!({
        "recent_seconds": rounded(recent.time),
        "sites": shown.collect::<Vec<_>>(),
    }))
}

/// The clients with the most traffic.
pub(super) async fn show_clients(request: AdminRequest) -> AdminResult {
    Ok(request.state.exposition().client_traffic())
}

fn shown(site: &SiteFigures, recent: &RecentSpan) -> Value {
    let (counts, span) = (&site.counts, recent.of("", &site.name));
    json!({
        "site": site.name,
        "in_flight": counts.in_flight,
        "queued": counts.queued,
        "requests": counts.responses.values().sum::<u64>(),
        "responses": counts.responses,
        "errors": counts.failures,
        "received_bytes": counts.received,
        "sent_bytes": counts.sent,
        "requests_per_second": span.map(|span| span.rate),
        "p50_seconds": span.and_then(|span| span.p50),
        "p99_seconds": span.and_then(|span| span.p99),
    })
}
