//! A plan for people.

use std::fmt::Write as _;

use serde_json::Value;

/// The text of a plan.
pub(super) fn of(plan: &Value) -> String {
    let mut text = String::new();
    let changes = list(&plan["changes"]);
    if changes.is_empty() {
        let _ = writeln!(
            text,
            "{} and {} say the same",
            word(&plan["before"]),
            word(&plan["after"])
        );
    }
    for change in changes {
        table(change, &mut text);
    }
    if plan["listeners"].is_null() {
        let _ = writeln!(
            text,
            "listeners are not compared: {} does not work here (`lockgate check` says why)",
            word(&plan["before"])
        );
    }
    for (sign, which) in [('+', "opened"), ('-', "closed")] {
        for listener in list(&plan["listeners"][which]) {
            let _ = writeln!(text, "{sign} listener {}", word(listener));
        }
    }
    if plan.get("log").is_some() {
        log(&plan["log"], &mut text);
    }
    text
}

fn table(change: &Value, text: &mut String) {
    let kind = word(&change["change"]);
    let sign = match kind {
        "added" => '+',
        "removed" => '-',
        _ => '~',
    };
    let header: Vec<_> = list(&change["table"]).iter().map(word).collect();
    let _ = match header.as_slice() {
        [] => writeln!(text, "{sign} keys at the top"),
        ["site", site, "path", path] => writeln!(text, "{sign} site {site}, path {path}"),
        [section, name] => writeln!(text, "{sign} {section} {name}"),
        other => writeln!(text, "{sign} {}", other.join(" ")),
    };
    for key in list(&change["keys"]) {
        let name = word(&key["key"]);
        let _ = match (key["before"].as_str(), key["after"].as_str()) {
            (Some(before), Some(after)) => writeln!(text, "    {name}: {before} -> {after}"),
            (None, Some(after)) if kind == "added" => writeln!(text, "    {name} = {after}"),
            (None, Some(after)) => writeln!(text, "    + {name} = {after}"),
            (Some(before), None) if kind == "removed" => writeln!(text, "    {name} = {before}"),
            (Some(before), None) => writeln!(text, "    - {name} = {before}"),
            (None, None) => Ok(()),
        };
    }
}

fn log(log: &Value, text: &mut String) {
    let number = |name: &str| log[name].as_u64().unwrap_or_default();
    let (requests, different) = (number("requests"), number("different"));
    let share = if requests == 0 {
        0.0
    } else {
        different as f64 / requests as f64 * 100.0
    };
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{different} of {requests} requests ({share:.2} %) would meet something else"
    );
    for one in list(&log["differences"]) {
        let part = |which: &str| word(&one[which]["text"]).to_owned();
        let _ = writeln!(
            text,
            "{:>9}  {}\n        -> {}",
            one["requests"].as_u64().unwrap_or_default(),
            part("before"),
            part("after")
        );
        for sample in list(&one["samples"]) {
            let _ = writeln!(text, "             {}", word(sample));
        }
    }
    for (name, what) in [
        ("other_differences", "with other differences"),
        (
            "connections",
            "lines of connections and tunnels, which are not compared",
        ),
        (
            "incomplete",
            "requests of which the log does not have enough",
        ),
        ("unreadable", "lines that cannot be read"),
    ] {
        if number(name) > 0 {
            let _ = writeln!(text, "{:>9}  {what}", number(name));
        }
    }
    let first = &log["first_unreadable"];
    if !first.is_null() {
        let _ = writeln!(
            text,
            "             {}, line {}: {}",
            word(&first["file"]),
            first["line"],
            word(&first["why"])
        );
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
