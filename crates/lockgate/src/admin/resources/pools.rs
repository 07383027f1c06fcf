//! `/v1/pools`: each endpoint of each pool, with its state, and its figures of the last seconds.

use std::time::Instant;

use super::super::request::{AdminRequest, AdminResult, AdminText};
use crate::views;

/// All pools.
pub(super) async fn show(request: AdminRequest) -> AdminResult<AdminText> {
    let state = &*request.state;
    let exposition = state.exposition();
    let pools = exposition.pool_figures(usize::MAX);
    let uptime = exposition.uptime();
    let recent = state.recent.observe(&pools, Instant::now(), uptime);
    Ok(AdminText::of(&views::pools(&pools, &recent)))
}
