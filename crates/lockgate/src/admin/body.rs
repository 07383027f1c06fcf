//! The members of a request's JSON body, and names in it that must exist. A member without a meaning,
//! or of another type, is an error: what was to narrow a change must not be taken as absent.

use std::ops::RangeInclusive;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Map, Value};

use super::error::AdminError;

/// The most names that an error lists.
const LISTED: usize = 5;

/// Refuses a body with a member that is none of `names`.
pub(super) fn known(body: &Map<String, Value>, names: &[&str]) -> Result<(), AdminError> {
    let Some(name) = body.keys().find(|name| !names.contains(&name.as_str())) else {
        return Ok(());
    };
    let cure = match names {
        [] => "send no body".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    Err(unusable(format!("there is no member `{name}`"), &cure))
}

/// The value of a member; null is none.
pub(super) fn given<'b>(body: &'b Map<String, Value>, name: &str) -> Option<&'b Value> {
    body.get(name).filter(|value| !value.is_null())
}

/// The text of a member of the body.
pub(super) fn text<'b>(body: &'b Map<String, Value>, name: &str) -> Result<&'b str, AdminError> {
    let value = given(body, name).and_then(Value::as_str);
    value.ok_or_else(|| unusable(format!("`{name}` is missing, or no string"), ""))
}

/// The text of a member of the body, if it is there.
pub(super) fn optional_text<'b>(
    body: &'b Map<String, Value>,
    name: &str,
) -> Result<Option<&'b str>, AdminError> {
    given(body, name).map(|_| text(body, name)).transpose()
}

/// A time in seconds, if it is there.
pub(super) fn seconds(
    body: &Map<String, Value>,
    name: &str,
) -> Result<Option<Duration>, AdminError> {
    let read = given(body, name).map(|value| {
        let time = value.as_f64().map(Duration::try_from_secs_f64);
        let wrong = || unusable(format!("`{name}` is no time in seconds"), "send 1.5");
        time.and_then(Result::ok).ok_or_else(wrong)
    });
    read.transpose()
}

/// Whether a member of the body is true; without it, it is not.
pub(super) fn flag(body: &Map<String, Value>, name: &str) -> Result<bool, AdminError> {
    match given(body, name) {
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
    let Some(value) = given(body, name) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_member_without_a_meaning_is_refused() {
        let names = ["pool", "wait_seconds"];
        for body in [json!({}), json!({ "pool": 1, "wait_seconds": null })] {
            assert!(known(&map(body.clone()), &names).is_ok(), "{body}");
        }
        for (body, names) in [
            (json!({ "pool": "app", "wait": 30 }), &names[..]),
            (json!({ "Pool": "app" }), &names),
            (json!({ "wait": null }), &names),
            (json!({ "pool": "app" }), &[]),
        ] {
            assert!(known(&map(body.clone()), names).is_err(), "{body}");
        }
    }

    #[test]
    fn a_member_of_another_type_is_refused_and_null_is_none() {
        let body =
            map(json!({ "text": "a", "true": true, "number": 1.5, "null": null, "list": [] }));
        assert_eq!(optional_text(&body, "text").unwrap(), Some("a"));
        assert!(flag(&body, "true").unwrap());
        assert_eq!(
            seconds(&body, "number").unwrap(),
            Some(Duration::from_millis(1_500))
        );
        for none in ["null", "absent"] {
            assert_eq!(optional_text(&body, none).unwrap(), None);
            assert_eq!(seconds(&body, none).unwrap(), None);
            assert_eq!(number(&body, none, 0..=9).unwrap(), None);
            assert!(!flag(&body, none).unwrap());
            assert!(text(&body, none).is_err());
        }
        for (name, is_text, is_flag, is_time) in [
            ("text", true, false, false),
            ("true", false, true, false),
            ("number", false, false, true),
            ("list", false, false, false),
        ] {
            assert_eq!(optional_text(&body, name).is_ok(), is_text, "{name}");
            assert_eq!(flag(&body, name).is_ok(), is_flag, "{name}");
            assert_eq!(seconds(&body, name).is_ok(), is_time, "{name}");
            assert!(number(&body, name, 0..=9).is_err(), "{name}");
        }
        let late = map(json!({ "less": -1, "most": 1e300 }));
        assert!(seconds(&late, "less").is_err() && seconds(&late, "most").is_err());
    }
}
