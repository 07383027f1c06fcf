//! `/v1/log-level`: the level of the operator log, until the next start.

use hyper::StatusCode;
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};
use crate::operator_log;

/// Levels by their names, the most severe first.
const LEVELS: [(&str, LevelFilter); 4] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
];

/// The level that holds now.
pub(super) async fn show(_: AdminRequest) -> AdminResult {
    Ok(shown())
}

/// Sets the level of the body, `{ "level": "debug" }`.
pub(super) async fn set(request: AdminRequest) -> AdminResult {
    let object = request.object(&["level"])?;
    let written = object.get("level").and_then(Value::as_str);
    let Some((name, level)) = written.and_then(|name| Some((name, level_named(name)?))) else {
        return Err(AdminError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unknown_level",
            "the body names no level",
            "send { \"level\": \"error\" }, or \"warn\", \"info\" or \"debug\"",
        ));
    };
    // It is logged where the old level or the new one lets it through.
    let announce = || tracing::info!(level = name, "the level of the operator log is set");
    if LevelFilter::current() >= LevelFilter::INFO {
        announce();
        operator_log::set_level(level);
    } else {
        operator_log::set_level(level);
        announce();
    }
    Ok(shown())
}

fn shown() -> Value {
    json!({ "level": level_name(LevelFilter::current()) })
}

/// The name of a level.
pub(in crate::admin) fn level_name(level: LevelFilter) -> Option<&'static str> {
    let mut levels = LEVELS.iter();
    levels
        .find(|(_, known)| *known == level)
        .map(|(name, _)| *name)
}

/// The level with this name.
pub(in crate::admin) fn level_named(name: &str) -> Option<LevelFilter> {
    let mut levels = LEVELS.iter();
    levels
        .find(|(known, _)| *known == name)
        .map(|(_, level)| *level)
}
