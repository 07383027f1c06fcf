//! `/v1/reload`, `/v1/rollback`, `/v1/confirm`: another configuration is taken over while the process
//! serves.

use std::time::Duration;

use hyper::StatusCode;
use lockgate_config::Report;
use serde_json::{Value, json};

use super::super::body::{flag, given, optional_text, unusable};
use super::super::command::{AdminCommand, ReloadOutcome, ReloadRequest, ReloadSource};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};

/// Takes over the file, or the `text` of the body. With `confirm_seconds` the configuration before
/// is taken over again after that time, unless this one is confirmed. With `dry_run` nothing
/// changes: the answer is what would be wrong.
pub(super) async fn reload(request: AdminRequest) -> AdminResult {
    let object = request.object(&["text", "confirm_seconds", "dry_run"])?;
    let source = match optional_text(&object, "text")? {
        None => ReloadSource::File,
        Some(text) => ReloadSource::Text(text.to_owned()),
    };
    let confirm = match given(&object, "confirm_seconds") {
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
    let dry_run = flag(&object, "dry_run")?;
    take_over(request, source, dry_run, confirm).await
}

/// Takes over the configuration that ran before the present one.
pub(super) async fn roll_back(request: AdminRequest) -> AdminResult {
    request.object(&[])?;
    take_over(request, ReloadSource::Earlier, false, None).await
}

/// Confirms the configuration that runs.
pub(super) async fn confirm(request: AdminRequest) -> AdminResult {
    request.object(&[])?;
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
        ReloadOutcome::Refused(why) => Err(refused(why)),
        ReloadOutcome::UnderWay | ReloadOutcome::Overtaken => Err(under_way()),
    }
}

/// The answer where a reload was not looked at.
pub(super) fn refused(why: &str) -> AdminError {
    let cure = "try again afterwards; `lockgate confirm` or `lockgate rollback` end the wait for a confirmation";
    AdminError::new(StatusCode::CONFLICT, "reload_refused", why, cure)
}

/// The answer during another reload.
pub(super) fn under_way() -> AdminError {
    AdminError::new(
        StatusCode::CONFLICT,
        "reload_refused",
        "another reload is under way",
        "try again once it has ended",
    )
}

/// The mistakes and warnings of a reload.
pub(super) fn diagnostics(report: &Report) -> Value {
    report.to_json()["diagnostics"].take()
}
