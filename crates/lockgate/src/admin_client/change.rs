//! Responses to run-time changes as text.

use serde_json::Value;

use super::units::{plain, span};
use crate::cli::admin::ChangeRequest;
use crate::text_table::TextTable;

/// The text of the response to a change.
pub(super) fn text(request: &ChangeRequest, value: &Value) -> String {
    match (request.method, request.path) {
        ("GET", "/v1/clients/bans") => bans(value),
        ("GET", "/v1/limits") => limits(value),
        ("GET", _) => sites(value),
        (_, "/v1/limits/clear") => format!("buckets that were forgotten: {}", value["cleared"]),
        (_, "/v1/clients/ban") => {
            let left = span(value["seconds_left"].as_u64().unwrap_or_default());
            format!("{} is banned for {left}", plain(&value["client"]))
        }
        (_, "/v1/clients/unban") => format!("{} is no longer banned", plain(&value["client"])),
        (_, "/v1/sites/maintenance") => site(value),
        (_, "/v1/endpoints/weight") => {
            let [weight, configured] = [&value["weight"], &value["weight_configured"]].map(plain);
            endpoint(
                value,
                &format!("has the weight {weight} (configured: {configured})"),
            )
        }
        (_, "/v1/endpoints/add" | "/v1/endpoints/remove") => added_or_removed(value),
        _ => endpoint_text(value),
    }
}

/// The text for an endpoint that a pool has got or lost.
fn added_or_removed(value: &Value) -> String {
    if value["in_pool"] != true {
        let left = left(value);
        return endpoint(value, &format!("is removed: {left}"));
    }
    let backup = if value["backup"] == true {
        ", as a backup"
    } else {
        ""
    };
    let weight = plain(&value["weight"]);
    endpoint(
        value,
        &format!("is in the pool with the weight {weight}{backup}"),
    )
}

/// The text for an endpoint that was taken out of its pool, or back.
pub(crate) fn endpoint_text(value: &Value) -> String {
    endpoint(value, &in_or_out(value))
}

fn site(value: &Value) -> String {
    let site = plain(&value["site"]);
    match value["status"].as_u64() {
        Some(status) => format!("{site} is in maintenance: its requests are answered by {status}"),
        None => format!("{site} is not in maintenance"),
    }
}

fn sites(value: &Value) -> String {
    let mut table = TextTable::new(&["SITE", "STATUS", "RETRY AFTER"]);
    for one in value["sites"].as_array().into_iter().flatten() {
        let retry_after = one["retry_after_seconds"].as_u64().unwrap_or_default();
        table.row([
            plain(&one["site"]),
            plain(&one["status"]),
            span(retry_after),
        ]);
    }
    table.render()
}

fn bans(value: &Value) -> String {
    let mut table = TextTable::new(&["CLIENT", "TIME LEFT", "REASON"]);
    for one in value["bans"].as_array().into_iter().flatten() {
        let left = one["seconds_left"].as_u64().unwrap_or_default();
        table.row([plain(&one["client"]), span(left), plain(&one["reason"])]);
    }
    table.render()
}

fn limits(value: &Value) -> String {
    let mut table = TextTable::new(&["LIMIT", "BUCKETS", "LIMITED", "REFUSED"]);
    for one in value["limits"].as_array().into_iter().flatten() {
        let names = one["names"].as_array().into_iter().flatten().map(plain);
        table.row([
            names.collect::<Vec<_>>().join(" "),
            plain(&one["buckets"]),
            plain(&one["limited"]),
            plain(&one["refused"]),
        ]);
    }
    let buckets = &value["buckets"];
    format!(
        "{}\nbuckets: {} of {}\n",
        table.render(),
        buckets["used"],
        buckets["size"]
    )
}

/// What an endpoint without new requests still has.
fn left(value: &Value) -> String {
    match (value["in_flight"].as_u64(), value["connections"].as_u64()) {
        (Some(0), Some(0)) => "no request and no connection is left".to_owned(),
        _ => format!(
            "requests left: {}, connections: {}",
            value["in_flight"], value["connections"]
        ),
    }
}

fn in_or_out(value: &Value) -> String {
    let left = left(value);
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
    if value["kept_otherwise"] == true {
        let next = next_start(&value["next_start"]);
        text.push_str(&format!("\nthe next start {next}: use --keep"));
    }
    let others = value["other_pools"].as_array().into_iter().flatten();
    let others: Vec<_> = others.map(plain).collect();
    if !others.is_empty() {
        text.push_str(&format!("\nother pools use it: {}", others.join(", ")));
    }
    text
}

/// What was kept for an endpoint earlier.
fn next_start(kept: &Value) -> String {
    let mode = kept["admin"].as_str().unwrap_or("ready");
    match (kept["in_pool"].as_bool(), kept["weight"].as_u64()) {
        (Some(true), _) => "adds it".to_owned(),
        (Some(false), _) => "removes it".to_owned(),
        (None, Some(weight)) => format!("sets it to {mode} with the weight {weight}"),
        (None, None) => format!("sets it to {mode}"),
    }
}
