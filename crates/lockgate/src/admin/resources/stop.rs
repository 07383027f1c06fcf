//! `/v1/drain` and `/v1/stop`: the orderly end.

use serde_json::{Value, json};

use super::super::command::{AdminCommand, DrainAnswer};
use super::super::request::{AdminRequest, AdminResult};

/// Drains and stops; nothing more while it drains.
pub(super) async fn drain(request: AdminRequest) -> AdminResult {
    request.object(&[])?;
    request.ask(AdminCommand::Drain).await.map(shown)
}

/// Drains and stops, at once if it drains already.
pub(super) async fn stop(request: AdminRequest) -> AdminResult {
    request.object(&[])?;
    request.ask(AdminCommand::Stop).await.map(shown)
}

fn shown(answer: DrainAnswer) -> Value {
    let drain = match answer {
        DrainAnswer::Begins => "begins",
        DrainAnswer::GoesOn => "goes_on",
        DrainAnswer::Cut => "cut",
    };
    json!({ "drain": drain })
}
