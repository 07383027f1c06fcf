//! `/v1/sites`: the requests of each site, and `/v1/clients`: the clients with the most traffic.

use std::time::Instant;

use super::super::request::{AdminRequest, AdminResult, AdminText};
use crate::views;

/// All sites, and at the end what has none.
pub(super) async fn show(request: AdminRequest) -> AdminResult<AdminText> {
    let state = &*request.state;
    let exposition = state.exposition();
    let sites = exposition.site_figures();
    let recent = &state.recent_sites;
    let recent = recent.observe_sites(&sites, Instant::now(), exposition.uptime());
    Ok(AdminText::of(&views::sites(&sites, &recent)))
}

/// The clients with the most traffic.
pub(super) async fn show_clients(request: AdminRequest) -> AdminResult {
    Ok(request.state.exposition().client_traffic())
}
