//! Responses to run-time changes as text.

use serde_json::Value;

use super::units::plain;

/// The text of the response to a change at `path`.
pub(super) fn text(path: &str, value: &Value) -> String {
    match path {
        "/v1/endpoints/weight" => {
            let [weight, configured] = [&value["weight"], &value["weight_configured"]].map(plain);
            endpoint(
                value,
                &format!("has the weight {weight} (configured: {configured})"),
            )
        }
        _ => endpoint(value, &in_or_out(value)),
    }
}

fn in_or_out(value: &Value) -> String {
    let left = match (value["in_flight"].as_u64(), value["connections"].as_u64()) {
        (Some(0), Some(0)) => "no request and no connection is left".to_owned(),
        _ => format!(
            "requests left: {}, connections: {}",
            value["in_flight"], value["connections"]
        ),
    };
    match value["admin"].as_str() {
        Some("drain") => format!("is drained: {left}"),
        Some(_) => format!("is in maintenance: {left}"),
        None => "is ready".to_owned(),
    }
}

fn endpoint(value: &Value, what: &str) -> String {
    let [pool, endpoint] = [&value["pool"], &value["endpoint"]].map(plain);
    let mut text = format!("{endpoint} of {pool} {what}");
    if value["kept"] == true {
        text.push_str("\nthe next start takes this up");
    }
    let others = value["other_pools"].as_array().into_iter().flatten();
    let others: Vec<_> = others.map(plain).collect();
    if !others.is_empty() {
        text.push_str(&format!("\nother pools use it: {}", others.join(", ")));
    }
    text
}
