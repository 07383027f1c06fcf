//! `/v1/config`: the configuration that runs.

use serde_json::json;

use super::super::request::{AdminRequest, AdminResult};

/// Shows it as one file.
pub(super) async fn show(request: AdminRequest) -> AdminResult {
    let exposition = request.state.exposition();
    Ok(json!({
        "generation": exposition.generation(),
        "toml": exposition.merged_toml(),
    }))
}
