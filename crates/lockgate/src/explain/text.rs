//! The explanation of a request as text.

use std::fmt::Write as _;

use serde_json::Value;

use crate::check::text::pool;
use crate::check::units;

/// Sites with another host that are listed; of more, only their number is told.
const LISTED: usize = 10;

/// The text of an explanation.
pub(super) fn of(answer: &Value) -> String {
    let mut lines = Lines::default();
    lines.explain(answer);
    lines.0
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn explain(&mut self, answer: &Value) {
        let request = &answer["request"];
        let via = request["via"].as_str().map(|via| format!(" via {via}"));
        let _ = writeln!(
            self.0,
            "{} {}{} from {}",
            text(&request["method"]),
            text(&request["url"]),
            via.unwrap_or_default(),
            text(&request["from"])
        );
        let listener = &answer["listener"];
        self.row("listener", text(&listener["name"]), &listener["at"]);
        for certificate in list(&answer["certificates"]) {
            let names: Vec<_> = list(&certificate["names"]).map(text).collect();
            let default = if certificate["default"] == true {
                " (default)"
            } else {
                ""
            };
            self.row(
                "certificate",
                &format!("{}{default}", names.join(", ")),
                &certificate["path"],
            );
        }
        if let Some(client) = answer.get("client")
            && *client != request["from"]
        {
            let client = client.as_str().unwrap_or("unknown");
            self.row("client", client, &Value::Null);
        }
        if answer["site"].is_object() {
            self.row("site", text(&answer["site"]["name"]), &answer["site"]["at"]);
        }
        self.lost_sites(answer);
        if answer["route"].is_object() {
            let route = &answer["route"];
            self.row("route", &matched(route), &route["at"]);
            for modifier in list(&route["modifiers"]) {
                self.row("", text(modifier), &Value::Null);
            }
        }
        for lost in list(&answer["lost_routes"]) {
            self.row(
                "  not",
                &format!("{}: {}", matched(lost), text(&lost["because"])),
                &lost["at"],
            );
        }
        for condition in list(&answer["conditions"]) {
            self.row("if", text(condition), &Value::Null);
        }
        self.outcome(&answer["outcome"]);
        self.happened(&answer["happened"]);
        for limit in list(&answer["limits"]) {
            let told = format!("{} {}", text(&limit["key"]), text(&limit["value"]));
            let at = match &limit["at"] {
                Value::Null => Value::from("default"),
                at => at.clone(),
            };
            self.row("holds", &told, &at);
        }
    }

    /// What happened to a request that was served: the entry of a JSON access log.
    fn happened(&mut self, entry: &Value) {
        const TOLD: [&str; 17] = [
            "status",
            "grpc_status",
            "endpoint",
            "reused",
            "tried",
            "retries",
            "cause",
            "side",
            "detail",
            "duration_seconds",
            "wait_seconds",
            "connect_seconds",
            "first_byte_seconds",
            "body_seconds",
            "received_bytes",
            "sent_bytes",
            "id",
        ];
        for name in TOLD {
            let value = match &entry[name] {
                Value::Null => continue,
                Value::String(value) if value.is_empty() => continue,
                Value::String(value) => value.clone(),
                value => value.to_string(),
            };
            self.row("happened", &format!("{name} {value}"), &Value::Null);
        }
    }

    fn lost_sites(&mut self, answer: &Value) {
        let is_near = |lost: &&Value| lost["matches"] == true;
        let (near, others): (Vec<_>, Vec<_>) = list(&answer["lost_sites"]).partition(is_near);
        let hidden = others.len().saturating_sub(LISTED);
        for lost in near.into_iter().chain(others.into_iter().take(LISTED)) {
            let because = format!("{}: {}", text(&lost["name"]), text(&lost["because"]));
            self.row("  not", &because, &lost["at"]);
        }
        if hidden > 0 {
            self.row(
                "  not",
                &format!("{hidden} more with another host"),
                &Value::Null,
            );
        }
    }

    fn outcome(&mut self, outcome: &Value) {
        match text(&outcome["kind"]) {
            "refused" => {
                self.told(&format!(
                    "status {}: {}",
                    outcome["status"],
                    text(&outcome["reason"])
                ));
                if let Some(allow) = outcome["allow"].as_str() {
                    self.row("", &format!("Allow: {allow}"), &Value::Null);
                }
            }
            "responded" => {
                self.told(&format!("status {}", outcome["status"]));
                if let Some(location) = outcome["location"].as_str() {
                    self.row("", &format!("Location: {location}"), &Value::Null);
                }
            }
            "files" => self.told(&format!("a file below {}", text(&outcome["root"]))),
            "proxied" => {
                self.told(&format!("proxied to {}", pool(&outcome["to"])));
                self.sent(&outcome["sent"]);
                self.choice(&outcome["choice"]);
            }
            "relayed" => {
                let how = if outcome["tls"] == true {
                    "TLS terminated, "
                } else {
                    ""
                };
                self.told(&format!("{how}relayed to {}", pool(&outcome["to"])));
                self.choice(&outcome["choice"]);
            }
            "tunnel" => {
                self.told(&format!("a tunnel to {}", text(&outcome["target"])));
                self.dialled(outcome);
            }
            "forwarded" => {
                self.told(&format!("forwarded to {}", text(&outcome["target"])));
                self.dialled(outcome);
                self.sent(&outcome["sent"]);
            }
            _ => self.told(text(&outcome["reason"])),
        }
    }

    /// The head that is sent on.
    fn sent(&mut self, sent: &Value) {
        let line = format!("  {} {}", text(&sent["method"]), text(&sent["target"]));
        self.row("", &line, &Value::Null);
        let host = format!("  Host: {}", text(&sent["host"]));
        self.row("", &host, &Value::Null);
        for (sign, key) in [("+", "added"), ("-", "removed")] {
            for field in list(&sent[key]) {
                self.row("", &format!("{sign} {}", text(field)), &Value::Null);
            }
        }
    }

    /// The addresses of a target that are dialled.
    fn dialled(&mut self, outcome: &Value) {
        if outcome["addresses"].is_array() {
            let addresses = list_of(&outcome["addresses"]).join(", ");
            self.row("dialled", &addresses, &Value::Null);
        }
    }

    /// The endpoint that is next, and what is compared of each.
    fn choice(&mut self, choice: &Value) {
        let Some(members) = choice["members"].as_array() else {
            return;
        };
        let names = |list: &str| list_of(&choice[list]).join(", ");
        let by = |told: &str| match choice["method"].as_str() {
            Some(_) if members.len() < 2 => told.to_owned(),
            Some(method) => format!("{told}, by {method}"),
            None => told.to_owned(),
        };
        let next = match (choice["next"].as_str(), choice["reason"].as_str()) {
            (Some(next), _) => by(next),
            (None, Some(reason)) => reason.to_owned(),
            (None, None) if !list_of(&choice["one_of"]).is_empty() => {
                by(&format!("one of {}", names("one_of")))
            }
            (None, None) => format!("the first with room again of {}", names("first_free")),
        };
        self.row("next", &next, &Value::Null);
        for member in members.iter().take(LISTED) {
            self.row("  of", &compared(member), &Value::Null);
        }
        if let Some(hidden) = members.len().checked_sub(LISTED + 1) {
            self.row("  of", &format!("{} more", hidden + 1), &Value::Null);
        }
    }

    fn told(&mut self, word: &str) {
        self.row("outcome", word, &Value::Null);
    }

    /// A line: what it is about, the text, and where that is written.
    fn row(&mut self, name: &str, told: &str, at: &Value) {
        let at = at.as_str().map(|at| format!("  ({at})"));
        let _ = writeln!(self.0, "{name:<12} {told}{}", at.unwrap_or_default());
    }
}

/// The method and path of a route.
fn matched(route: &Value) -> String {
    match route["method"].as_str() {
        Some(method) => format!("{method} {}", text(&route["path"])),
        None => text(&route["path"]).to_owned(),
    }
}

/// What is compared of an endpoint.
fn compared(member: &Value) -> String {
    let mut told = vec![text(&member["state"]).to_owned()];
    told.extend(member["admin"].as_str().map(str::to_owned));
    told.push(format!("weight {}", member["weight"]));
    for flag in ["backup", "full"] {
        told.extend((member[flag] == true).then(|| flag.to_owned()));
    }
    if member["state"] != "unknown" {
        told.push(format!("{} in flight", member["in_flight"]));
        let connections = member["connections"].as_u64().unwrap_or_default();
        told.push(units::counted(
            usize::try_from(connections).unwrap_or(usize::MAX),
            "connection",
        ));
    }
    let score = &member["score"];
    let figures = [("latency_seconds", " s"), ("in_flight", ""), ("hash", "")];
    let score = figures.iter().find_map(|(name, unit)| {
        let figure = score[name].as_f64()?;
        Some(format!("score {}{unit}", (figure * 1e4).round() / 1e4))
    });
    told.extend(score);
    if let Some(chance) = member["chance"].as_f64().filter(|chance| *chance < 1.0) {
        told.push(format!("chance {} %", (chance * 100.0).round()));
    }
    format!("{}: {}", text(&member["endpoint"]), told.join(", "))
}

fn list_of(value: &Value) -> Vec<&str> {
    list(value).map(text).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
