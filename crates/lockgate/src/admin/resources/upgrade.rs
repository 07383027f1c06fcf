//! `/v1/upgrade`: a new program takes over.

use std::path::PathBuf;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::super::body::{given, unusable};
use super::super::command::{AdminCommand, UpgradeOutcome, UpgradeRequest};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};

/// The time within which a new program must be ready.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts the `program` of the body, or the file of the present one, and waits until it serves or
/// `limit_seconds` are over.
pub(super) async fn upgrade(request: AdminRequest) -> AdminResult {
    let object = request.object(&["program", "limit_seconds"])?;
    let program = match given(&object, "program") {
        None => None,
        Some(Value::String(path)) if path.starts_with('/') => Some(PathBuf::from(path)),
        Some(_) => {
            return Err(unusable(
                "`program` is no path from the root",
                "send { \"program\": \"/usr/bin/lockgate\" }",
            ));
        }
    };
    if program.is_some() && !request.may_start_programs {
        return Err(AdminError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "only root and the user of Lockgate may name a program",
            "leave the program out: the file of the present one is started again",
        ));
    }
    let limit = match given(&object, "limit_seconds") {
        None => LIMIT,
        Some(seconds) => match seconds
            .as_u64()
            .filter(|seconds| (1..=3600).contains(seconds))
        {
            Some(seconds) => Duration::from_secs(seconds),
            None => {
                return Err(unusable(
                    "`limit_seconds` is no number from 1 to 3600",
                    "send { \"limit_seconds\": 60 }",
                ));
            }
        },
    };
    let command = |reply| {
        AdminCommand::Upgrade(UpgradeRequest {
            program,
            limit,
            reply: Some(reply),
        })
    };
    match request.ask(command).await? {
        UpgradeOutcome::Serving(pid) => Ok(json!({ "pid": pid })),
        UpgradeOutcome::Failed(failure) => {
            let error = AdminError::new(
                StatusCode::BAD_GATEWAY,
                "upgrade_failed",
                failure.why,
                "the running program goes on",
            );
            Err(error.with("output", json!(failure.output)))
        }
        UpgradeOutcome::Refused(why, cure) => Err(AdminError::new(
            StatusCode::CONFLICT,
            "upgrade_refused",
            why,
            cure,
        )),
    }
}
