//! Responses of the admin socket as text.

use std::fmt::Write as _;

use serde_json::Value;

use super::cert_text::managed;
use super::change;
use super::endpoint_state::{is_up, shown_state};
use super::units::{bytes, items, latency, plain, plain_lines, span};
use crate::cli::admin::AdminVerb;
use crate::text_table::TextTable;

/// The digits that are shown of the hash of a configuration.
const HASH_DIGITS: usize = 12;

/// The text of a response.
pub(super) fn text(verb: &AdminVerb, value: &Value) -> String {
    match verb {
        AdminVerb::Status => status(value),
        AdminVerb::Pools => pools(value),
        AdminVerb::Endpoints => endpoints(value),
        AdminVerb::Certs => certs(value),
        AdminVerb::LogLevel(_) => plain(&value["level"]),
        AdminVerb::Reload { confirm, .. } => reload(value, *confirm),
        AdminVerb::Check => {
            let mut text = "a reload would take the file over\n".to_owned();
            diagnostics(&mut text, &value["warnings"]);
            // They ask many requests of the file: the thread that supervises has no time for that.
            text + "[[test]] and doubts (W0113 to W0117) are not looked at by the running process: `lockgate check` does it\n"
        }
        AdminVerb::Rollback => reload(value, None),
        AdminVerb::Confirm => "the configuration is confirmed".to_owned(),
        AdminVerb::Upgrade(_) => format!(
            "the new process {} serves; the one before finishes what it has begun",
            value["pid"]
        ),
        AdminVerb::Change(request) => change::text(request, value),
        AdminVerb::Reopen => format!("access logs that were opened again: {}", value["reopened"]),
        AdminVerb::Drain | AdminVerb::Stop => match value["drain"].as_str() {
            Some("begins") => "the drain begins".to_owned(),
            Some("goes_on") => "the drain has begun before, and goes on".to_owned(),
            _ => "open connections are cut".to_owned(),
        },
    }
}

/// The text of an error: its message, its cure, and mistakes of a configuration.
pub(super) fn error(value: &Value) -> String {
    let error = &value["error"];
    let mut text = format!("lockgate: {}", plain_lines(&error["message"]));
    let cure = plain_lines(&error["cure"]);
    if !cure.is_empty() {
        let _ = write!(text, ": {cure}"); // writing to a String cannot fail
    }
    text.push('\n');
    for line in items(&value["output"]) {
        let _ = writeln!(text, "  {}", plain(line));
    }
    diagnostics(&mut text, &value["mistakes"]);
    text
}

/// The mistakes or warnings of a configuration.
fn diagnostics(text: &mut String, found: &Value) {
    for mistake in items(found) {
        let place = match (&mistake["file"], mistake["line"].as_u64()) {
            (file, Some(line)) if !file.is_null() => format!("{}:{line}: ", plain(file)),
            _ => String::new(),
        };
        let [code, message, cure] =
            ["code", "message", "cure"].map(|name| plain_lines(&mistake[name]));
        let cure = if cure.is_empty() {
            cure
        } else {
            format!(": {cure}")
        };
        let _ = writeln!(text, "  {place}[{code}] {message}{cure}");
    }
}

fn reload(value: &Value, confirm: Option<u64>) -> String {
    let mut text = format!(
        "the configuration runs, as generation {}\n",
        value["generation"]
    );
    if let Some(seconds) = confirm {
        let _ = writeln!(
            text,
            "without `lockgate confirm` the one before runs again in {}",
            span(seconds)
        );
    }
    diagnostics(&mut text, &value["warnings"]);
    text
}

/// A name that is kept at this machine's address, on a line.
fn kept_name(name: &Value) -> String {
    let addresses = ["ipv4", "ipv6"].map(|family| &name[family]);
    let addresses = addresses.into_iter().filter(|address| !address.is_null());
    let addresses: Vec<_> = addresses.map(plain).collect();
    let addresses = match addresses.is_empty() {
        true => "no address yet".to_owned(),
        false => addresses.join(", "),
    };
    let failure = match name["failure"].is_null() {
        true => String::new(),
        false => format!("; {}", plain_lines(&name["failure"])),
    };
    format!("name {}: {addresses}{failure}\n", plain(&name["name"]))
}

fn status(value: &Value) -> String {
    let up = span(value["uptime_seconds"].as_u64().unwrap_or_default());
    let mut text = format!(
        "lockgate {}, pid {}, {}, started {} ({up} ago), workers: {}\n",
        plain(&value["version"]),
        value["pid"],
        plain(&value["phase"]),
        plain(&value["started"]),
        value["workers"],
    );
    let configuration = &value["configuration"];
    if !configuration.is_null() {
        let [file, hash, read] = ["file", "hash", "read"].map(|name| plain(&configuration[name]));
        let hash = hash.get(..HASH_DIGITS).unwrap_or(&hash);
        let generation = &value["generation"];
        let _ = write!(
            text,
            "configuration {file}, generation {generation}, hash {hash}, read {read}"
        );
        if configuration["mistakes"].as_u64().unwrap_or_default() > 0 {
            text.push_str("; the file has mistakes now");
        } else if configuration["differs"] == true {
            text.push_str("; the file differs now");
        }
        text.push('\n');
    }
    let changed = ["endpoints_added", "endpoints_removed"].map(|name| value[name].as_u64());
    if let [Some(added), Some(removed)] = changed
        && added + removed > 0
    {
        let _ = writeln!(
            text,
            "endpoints added by operators: {added}, removed: {removed}"
        );
    }
    let held = value["held_to_earlier_generations"].as_u64();
    if let Some(held) = held.filter(|held| *held > 0) {
        let _ = writeln!(text, "connections held by earlier generations: {held}");
    }
    for name in items(&value["names"]) {
        text.push_str(&kept_name(name));
    }
    let certificates = &value["certificates"];
    let counts = ["awaited", "late"].map(|name| certificates[name].as_u64().unwrap_or_default());
    if let [awaited, late] = counts
        && awaited + late > 0
    {
        let _ = writeln!(text, "certificates awaited: {awaited}, late: {late}");
    }
    let mut listeners = TextTable::new(&[
        "LISTENER", "ADDRESS", "KIND", "OPEN", "ACCEPTED", "RECEIVED", "SENT",
    ]);
    for one in items(&value["listeners"]) {
        listeners.row([
            plain(&one["name"]),
            plain(&one["address"]),
            plain(&one["kind"]),
            plain(&one["connections"]),
            plain(&one["accepted"]),
            bytes(&one["received_bytes"]),
            bytes(&one["sent_bytes"]),
        ]);
    }
    let limits = &value["limits"];
    let mut used = TextTable::new(&["LIMIT", "USED", "SIZE"]);
    for name in ["connections", "sockets", "handshakes"] {
        let limit = &limits[name];
        used.row([
            name.to_owned(),
            plain(&limit["used"]),
            plain(&limit["size"]),
        ]);
    }
    let memory = &limits["memory"];
    used.row([
        "memory".to_owned(),
        bytes(&memory["used"]),
        bytes(&memory["size"]),
    ]);
    format!("{text}\n{}\n{}", listeners.render(), used.render())
}

/// The state of an endpoint, and what an operator has set.
fn state(endpoint: &Value) -> (&str, Option<&str>) {
    let state = endpoint["state"].as_str().unwrap_or_default();
    (state, endpoint["admin"].as_str())
}

fn pools(value: &Value) -> String {
    let head = [
        "POOL",
        "UP",
        "ENDPOINTS",
        "CONNECTIONS",
        "IN FLIGHT",
        "REQ/S",
        "REQUESTS",
        "ERRORS",
    ];
    let mut table = TextTable::new(&head);
    for pool in items(&value["pools"]) {
        let endpoints: Vec<&Value> = items(&pool["endpoints"]).collect();
        let up = endpoints.iter().filter(|one| is_up(state(one))).count();
        let sum = |name: &str| {
            let figures = endpoints.iter().filter_map(|one| one[name].as_u64());
            figures.reduce(|sum, more| sum + more)
        };
        let shown = |sum: Option<u64>| sum.map_or_else(String::new, |sum| sum.to_string());
        let rates = endpoints
            .iter()
            .filter_map(|one| one["requests_per_second"].as_f64());
        let rate = rates.reduce(|sum, more| sum + more);
        let errors = endpoints.iter().filter_map(|one| errors(one));
        table.row([
            plain(&pool["pool"]),
            up.to_string(),
            endpoints.len().to_string(),
            shown(sum("connections")),
            shown(sum("in_flight")),
            rate.map_or_else(String::new, |rate| format!("{rate:.1}")),
            shown(sum("requests")),
            shown(errors.reduce(|sum, more| sum + more)),
        ]);
    }
    table.render()
}

fn endpoints(value: &Value) -> String {
    let head = [
        "POOL",
        "ENDPOINT",
        "STATE",
        "WEIGHT",
        "CONNECTIONS",
        "IN FLIGHT",
        "REQ/S",
        "P50",
        "P99",
        "REQUESTS",
        "ERRORS",
        "WHY",
    ];
    let mut table = TextTable::new(&head);
    for pool in items(&value["pools"]) {
        for one in items(&pool["endpoints"]) {
            let backup = if one["backup"] == true {
                ", backup"
            } else {
                ""
            };
            let is_added = items(&pool["added"]).any(|added| *added == one["endpoint"]);
            let added = if is_added { ", added" } else { "" };
            table.row([
                plain(&pool["pool"]),
                plain(&one["endpoint"]),
                format!("{}{backup}{added}", shown_state(state(one))),
                shown_weight(one),
                plain(&one["connections"]),
                plain(&one["in_flight"]),
                plain(&one["requests_per_second"]),
                latency(&one["p50_seconds"]),
                latency(&one["p99_seconds"]),
                plain(&one["requests"]),
                errors(one).map_or_else(String::new, |sum| sum.to_string()),
                plain(&one["why"]),
            ]);
        }
        for removed in items(&pool["removed"]) {
            let [pool, endpoint] = [&pool["pool"], removed].map(plain);
            let mut row: [String; 12] = Default::default();
            (row[0], row[1], row[2]) = (pool, endpoint, "removed".to_owned());
            table.row(row);
        }
    }
    let seconds = value["recent_seconds"].as_f64().unwrap_or_default();
    let seconds = span(seconds.round() as u64);
    format!(
        "{}\nREQ/S, P50 and P99 are of the last {seconds}.\n",
        table.render()
    )
}

/// The weight of an endpoint, with the configured one where that is another.
fn shown_weight(endpoint: &Value) -> String {
    let [weight, configured] = ["weight", "weight_configured"].map(|name| plain(&endpoint[name]));
    if weight == configured {
        weight
    } else {
        format!("{weight} (of {configured})")
    }
}

/// The sum of an endpoint's errors.
fn errors(endpoint: &Value) -> Option<u64> {
    let errors = endpoint["errors"].as_object()?;
    Some(errors.values().filter_map(Value::as_u64).sum())
}

fn certs(value: &Value) -> String {
    let mut table = TextTable::new(&[
        "DAYS",
        "NAMES",
        "LISTENER",
        "KEY",
        "NOT AFTER",
        "ISSUER",
        "FILE",
    ]);
    for one in items(&value["certs"]) {
        let names: Vec<_> = items(&one["names"])
            .chain(items(&one["addresses"]))
            .map(plain)
            .collect();
        table.row([
            plain(&one["days_left"]),
            names.join(","),
            plain(&one["listener"]),
            plain(&one["key"]),
            plain(&one["not_after"]),
            plain(&one["issuer"]),
            plain(&one["file"]),
        ]);
    }
    let managed = managed(&value["managed"]);
    if managed.is_empty() {
        return table.render();
    }
    format!("{}\nobtained by Lockgate:\n{managed}", table.render())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_text_of_a_response_steers_the_terminal() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\r";
        let error = error(&json!({
            "error": { "message": hostile, "cure": format!("{hostile}\n[pool.app]") },
            "output": [hostile],
            "mistakes": [{ "file": hostile, "line": 1, "code": "E0010", "message": hostile, "cure": "" }],
        }));
        // A cure may have lines of its own.
        assert!(error.contains("\n[pool.app]\n"), "{error:?}");
        let certs = certs(&json!({ "certs": [{
            "names": [hostile], "addresses": [], "listener": ":443", "issuer": hostile,
        }] }));
        let bans =
            json!({ "bans": [{ "client": "10.0.0.1", "seconds_left": 1, "reason": hostile }] });
        let request = crate::cli::admin::ChangeRequest {
            method: "GET",
            path: "/v1/clients/bans",
            body: Value::Null,
        };
        let bans = change::text(&request, &bans);
        for text in [error, certs, bans] {
            let lines: String = text.lines().collect();
            assert_eq!(crate::printable::printable(&lines), lines);
        }
    }
}
