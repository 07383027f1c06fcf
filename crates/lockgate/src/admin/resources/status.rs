//! `/v1/status`: the process, its listeners, its limits and its configuration.

use super::super::request::{AdminRequest, AdminResult, AdminText};
use super::connections::held_to_earlier;
use crate::views;

/// The state of the process.
pub(super) async fn show(request: AdminRequest) -> AdminResult<AdminText> {
    let state = &*request.state;
    let exposition = state.exposition();
    // The first generation has none before it.
    let held = match exposition.generation() {
        1 => 0,
        _ => held_to_earlier(&request).await?,
    };
    let mut status = views::status(&exposition, state.readiness.phase(), state.workers);
    status.held_to_earlier_generations = Some(held);
    status.set_peaks(state.peaks());
    Ok(AdminText::of(&status))
}
