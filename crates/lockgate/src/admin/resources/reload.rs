//! `/v1/reload`, `/v1/rollback`, `/v1/confirm`: another configuration is taken over while the process
//! serves.

use std::time::Duration;

use hyper::StatusCode;
use lockgate_config::Report;
use serde_json::{Value, json};

use super::super::body::unusable;
use super::super::command::{AdminCommand, ReloadOutcome, ReloadRequest, ReloadSource};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};

/// Takes over the file, or the `text` of the body. With `confirm_seconds` the configuration before
/// is taken over again after that time, unless this one is confirmed. With `dry_run` nothing
/// changes: the answer is what would be wrong.
pub(super) async fn reload(request: AdminRequest) -> AdminResult {
    let object = request.object()?;
    let source = match object.get("text") {
        None => ReloadSource::File,
        Some(Value::String(text)) => ReloadSource::Text(text.clone()),
        Some(_) => {
            return Err(unusable(
                "`text` is no string",
                "send the configuration as one text",
            ));
        }
    };
    let confirm = match object.get("confirm_seconds") {
        None => None,
        Some(seconds) => match seconds
            .as_u64()
            .filter(|seconds| (1..=86_400).contains(seconds))
        {
            Some(seconds) => Some(Duration::from_secs(seconds)),
            None => {
                let message = "`confirm_seconds` is no number from 1 to 86400";
                return Err(unusable(message, "send { \"confirm_seconds\": 300 }"));
            }
        },
    };
    let dry_run = match object.get("dry_run") {
        None => false,
        Some(Value::Bool(dry_run)) => *dry_run,
        Some(_) => return Err(unusable("`dry_run` is no boolean", "send true or false")),
    };
    take_over(request, source, dry_run, confirm).await
}

/// Takes over the configuration that ran before the present one.
pub(super) async fn roll_back(request: AdminRequest) -> AdminResult {
    take_over(request, ReloadSource::Earlier, false, None).await
}

/// Confirms the configuration that runs.
pub(super) async fn confirm(request: AdminRequest) -> AdminResult {
    if request.ask(AdminCommand::Confirm).await? {
        return Ok(json!({ "confirmed": true }));
    }
    Err(AdminError::new(
        StatusCode::CONFLICT,
        "nothing_to_confirm",
        "the configuration that runs needs no confirmation",
        "it was confirmed before, or taken over without `--confirm`",
    ))
}

async fn take_over(
    request: AdminRequest,
    source: ReloadSource,
    dry_run: bool,
    confirm: Option<Duration>,
) -> AdminResult {
    let command = |reply| {
        AdminCommand::Reload(ReloadRequest {
            source,
            dry_run,
            confirm,
            reply: Some(reply),
        })
    };
    match request.ask(command).await? {
        ReloadOutcome::Done(generation, report) => {
            Ok(json!({ "generation": generation, "warnings": diagnostics(&report) }))
        }
        ReloadOutcome::Failed(report) => {
            let error = AdminError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "mistakes",
                "the configuration has mistakes: the running configuration stays",
                "`lockgate check` shows all of them",
            );
            Err(error.with("mistakes", diagnostics(&report)))
        }
        ReloadOutcome::Refused(why) => Err(AdminError::new(
            StatusCode::CONFLICT,
            "reload_refused",
            why,
            "try again afterwards; `lockgate confirm` or `lockgate rollback` end the wait for a confirmation",
        )),
    }
}

fn diagnostics(report: &Report) -> Value {
    report.to_json()["diagnostics"].take()
}
