//! The members of a request's JSON body, and names in it that must exist.

use std::ops::RangeInclusive;

use hyper::StatusCode;
use serde_json::{Map, Value};

use super::error::AdminError;

/// The most names that an error lists.
const LISTED: usize = 5;

/// The text of a member of the body.
pub(super) fn text<'b>(body: &'b Map<String, Value>, name: &str) -> Result<&'b str, AdminError> {
    let value = body.get(name).and_then(Value::as_str);
    value.ok_or_else(|| unusable(format!("`{name}` is missing, or no string"), ""))
}

/// Whether a member of the body is true; without it, it is not.
pub(super) fn flag(body: &Map<String, Value>, name: &str) -> Result<bool, AdminError> {
    match body.get(name) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(unusable(format!("`{name}` is neither true nor false"), "")),
    }
}

/// A number of the body, if it is there.
pub(super) fn number(
    body: &Map<String, Value>,
    name: &str,
    range: RangeInclusive<u64>,
) -> Result<Option<u64>, AdminError> {
    let Some(value) = body.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = value.as_u64().filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| {
        AdminError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "out_of_range",
            format!("`{name}` is no number or out of range"),
            format!("it is from {} to {}", range.start(), range.end()),
        )
    })
}

/// The error for a body that cannot be used.
pub(super) fn unusable(message: impl Into<String>, cure: &str) -> AdminError {
    AdminError::new(StatusCode::UNPROCESSABLE_ENTITY, "unusable", message, cure)
}

/// The error for a name that is none of `known`, with the nearest ones.
pub(super) fn unknown<'k>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'k str>,
) -> AdminError {
    let mut known: Vec<_> = known
        .map(|other| (strsim::osa_distance(name, other), other))
        .collect();
    known.sort_unstable();
    let nearest: Vec<_> = known.iter().take(LISTED).map(|(_, name)| *name).collect();
    let cure = if nearest.is_empty() {
        "there is none".to_owned()
    } else {
        format!("the nearest names are {}", nearest.join(", "))
    };
    AdminError::new(
        StatusCode::NOT_FOUND,
        "unknown_name",
        format!("there is no {what} `{name}`"),
        cure,
    )
}
