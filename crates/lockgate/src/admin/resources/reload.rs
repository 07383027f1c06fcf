//! `/v1/reload`: certificates, keys and users are read again, and the configuration is checked.

use hyper::StatusCode;
use serde_json::json;

use super::super::command::{AdminCommand, ReloadAnswer};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};

/// Reloads, as HUP does.
pub(super) async fn reload(request: AdminRequest) -> AdminResult {
    let conflict = |code, message: &str, cure: &str| {
        let error = AdminError::new(StatusCode::CONFLICT, code, message, cure);
        Err(error.with("changed", json!([])).with("mistakes", json!([])))
    };
    match request.ask(AdminCommand::Reload).await? {
        ReloadAnswer::Same => Ok(json!({ "changed": [], "mistakes": [] })),
        ReloadAnswer::Differs => conflict(
            "restart_needed",
            "the configuration file differs from the running configuration; certificates, keys and users were read again",
            "restart to use it",
        ),
        ReloadAnswer::Draining => conflict("draining", "the process drains", "start it again"),
        ReloadAnswer::Mistakes(mistakes) => {
            let error = AdminError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "mistakes",
                "the configuration file has mistakes: the running configuration stays",
                "`lockgate check` shows all of them",
            );
            Err(error.with("changed", json!([])).with("mistakes", mistakes))
        }
    }
}
