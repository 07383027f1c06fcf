//! `/v1/logs/reopen`: the access logs are opened again, after a program has moved their files.

use serde_json::json;

use super::super::command::SteadyCommand;
use super::super::request::{AdminRequest, AdminResult};

/// Opens every access log again.
pub(super) async fn reopen(request: AdminRequest) -> AdminResult {
    request.object(&[])?;
    let count = request.ask(SteadyCommand::Reopen).await?;
    Ok(json!({ "reopened": count }))
}
