//! A request that was served, as an operator follows it: explained as one that is not sent, beside what
//! happened to it.

use std::net::IpAddr;

use lockgate_http::fields::Known;
use lockgate_proxy::downstream::explain::ExplanationDepth;
use lockgate_proxy::request_traces::TracedRequest;
use lockgate_rules::ClientAddress;
use serde_json::{Value, json};

use super::place::place;
use super::question::{ExplainedConfig, ExplainedConnection, Question, ReachedService};
use super::request::{AskedUrl, ExplainRequest, UrlScheme};

/// Fields with values that no log has.
const SECRET: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "lockgate-trace",
];

impl ExplainedConfig {
    /// What became of a request, and why; `generation` is the number of this configuration.
    pub(crate) fn traced(&self, traced: &TracedRequest, generation: u64) -> Value {
        let mut answer = self.explained(traced).unwrap_or_else(|| json!({}));
        answer["request"] = json!({
            "method": shown(traced.head.method_name()),
            "url": url_of(traced).to_string(),
            "from": match traced.peer {
                ClientAddress::Ip(ip) => json!(ip),
                ClientAddress::Unix | ClientAddress::Unknown => json!("unix"),
            },
        });
        // It tells which endpoint was next; which one is next now is of no use.
        if let Some(outcome) = answer["outcome"].as_object_mut() {
            outcome.remove("choice");
        }
        for list in ["fields", "added", "removed"] {
            let fields = answer["outcome"]["sent"].get_mut(list);
            for field in fields.and_then(Value::as_array_mut).into_iter().flatten() {
                *field = without_secret(field.as_str().unwrap_or_default()).into();
            }
        }
        if traced.generation != generation {
            answer["earlier_generation"] = json!(traced.generation);
        }
        answer["happened"] = serde_json::from_slice(&traced.line).unwrap_or(Value::Null);
        answer
    }

    /// None where the configuration that runs now has no such listener.
    fn explained(&self, traced: &TracedRequest) -> Option<Value> {
        let mut listeners = self.assembly.listeners.iter();
        let planned = listeners.find(|planned| planned.listener.name == traced.listener)?;
        let server_name = traced.server_name.as_deref();
        let ReachedService::Sites(sites, _) = ReachedService::of(planned, server_name) else {
            return None;
        };
        let request = ExplainRequest {
            url: url_of(traced),
            method: shown(traced.head.method_name()),
            fields: Vec::new(),
            from: match traced.peer {
                ClientAddress::Ip(ip) => ip,
                ClientAddress::Unix | ClientAddress::Unknown => ExplainRequest::FROM,
            },
            sni: traced.server_name.clone(),
            listener: Some(traced.listener.clone()),
            via: None,
            addresses: Vec::<IpAddr>::new(),
        };
        let question = Question {
            loaded: &self.loaded,
            assembly: &self.assembly,
            ports: Some(&[]),
            request: &request,
            depth: ExplanationDepth::Losses,
        };
        let mut answer = json!({
            "listener": { "name": traced.listener, "at": place(&planned.at) },
        });
        let connection = ExplainedConnection {
            peer: traced.peer,
            local: traced.local,
            acceptor: traced.acceptor,
            server_name,
            id: Some(&traced.id),
        };
        question.explain((planned, sites), &connection, &traced.head, &mut answer);
        Some(answer)
    }
}

/// The URL of the request.
fn url_of(traced: &TracedRequest) -> AskedUrl {
    let target = shown(traced.head.target());
    let host = traced.head.fields.first(Known::Host).unwrap_or_default();
    AskedUrl {
        scheme: if traced.secure {
            UrlScheme::Https
        } else {
            UrlScheme::Http
        },
        authority: shown(host),
        target,
    }
}

/// A field without its value, if that is a secret.
fn without_secret(field: &str) -> String {
    match field.split_once(':') {
        Some((name, _)) if SECRET.iter().any(|one| name.eq_ignore_ascii_case(one)) => {
            format!("{name}: …")
        }
        _ => field.to_owned(),
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
