//! `[[test]]`: what the configuration makes of a request, beside what is expected.

use lockgate_config::{Code, Expectation, ExpectedFact, LoadedConfig, Report, RequestTest};
use lockgate_proxy::downstream::explain::ExplanationDepth;
use serde_json::Value;

use crate::assemble::Assembly;
use crate::explain::{AskedUrl, ExplainRequest, GivenField, Question};

/// Runs all tests of a configuration, and reports those that fail.
pub(super) fn run(loaded: &LoadedConfig, assembly: &Assembly, report: &mut Report) {
    for test in &loaded.config.tests {
        match answer(loaded, assembly, test) {
            Ok(answer) => {
                let asked = format!("{} {}", test.request.method, test.request.url);
                for expectation in &test.expected {
                    compare(&asked, &answer, expectation, report);
                }
            }
            Err(why) => report.push_at(
                Code::TestFailed,
                &test.at,
                "this test fails: nothing becomes of its request",
                why.replace("by --listener", "by the key `listener`"),
                "correct the request",
            ),
        }
    }
}

fn answer(loaded: &LoadedConfig, assembly: &Assembly, test: &RequestTest) -> Result<Value, String> {
    let url: AskedUrl = test.request.url.parse()?;
    let fields = test.fields.iter().map(|(name, value)| GivenField {
        name: name.clone(),
        value: value.clone(),
    });
    let request = ExplainRequest {
        url,
        method: test.request.method.clone(),
        fields: fields.collect(),
        from: test.from.unwrap_or(ExplainRequest::FROM),
        sni: test.sni.clone(),
        listener: test.listener.clone(),
        via: None,
        addresses: Vec::new(),
    };
    let question = Question {
        loaded,
        assembly,
        ports: None,
        request: &request,
        depth: ExplanationDepth::Outcome,
    };
    question.answer()
}

fn compare(asked: &str, answer: &Value, expectation: &Expectation, report: &mut Report) {
    let Some(found) = difference(answer, &expectation.of) else {
        return;
    };
    let cure = format!(
        "correct it, or the configuration: `lockgate explain` says what becomes of {asked}"
    );
    let message = format!("this test fails: {found}");
    report.push_at(Code::TestFailed, &expectation.at, message, "", cure);
}

/// What is there instead of what is expected.
fn difference(answer: &Value, expected: &ExpectedFact) -> Option<String> {
    let outcome = &answer["outcome"];
    let kind = outcome["kind"].as_str().unwrap_or_default();
    match expected {
        ExpectedFact::Site(name) => differs("site", &text(&answer["site"]["name"]), name),
        ExpectedFact::Route(path) => differs("route", &route(&answer["route"]), path),
        ExpectedFact::Outcome(word) => differs("outcome", &Some(kind.to_owned()), word.word()),
        ExpectedFact::Status(status) => {
            let found = outcome["status"].as_u64().map(|found| found.to_string());
            differs("status", &found, &status.to_string())
        }
        ExpectedFact::Location(url) => differs("Location", &text(&outcome["location"]), url),
        ExpectedFact::Pool(name) => differs("pool", &text(&outcome["to"]["pool"]), name),
        ExpectedFact::Endpoint(address) => {
            let endpoints = outcome["to"]["endpoints"].as_array();
            let all: Vec<_> = endpoints
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(|endpoint| endpoint.trim_end_matches(" (backup)"))
                .collect();
            (!all.contains(&&**address)).then(|| match &*all {
                [] => format!("it is {kind}, and has no endpoint"),
                all => format!("its endpoints are {}", all.join(", ")),
            })
        }
        ExpectedFact::Target(target) => {
            differs("target", &text(&outcome["sent"]["target"]), target)
        }
        ExpectedFact::Sent(name, value) => sent(&outcome["sent"], kind, name, value.as_deref()),
    }
}

fn differs(what: &str, found: &Option<String>, expected: &str) -> Option<String> {
    match found {
        Some(found) if found == expected => None,
        Some(found) => Some(format!("the {what} is {found}")),
        None => Some(format!("there is no {what}")),
    }
}

/// A field that an endpoint gets, or one that it does not get.
fn sent(head: &Value, kind: &str, name: &str, expected: Option<&str>) -> Option<String> {
    let Some(fields) = head["fields"].as_array() else {
        return Some(format!("it is {kind}, and no endpoint gets fields"));
    };
    let host = head["host"].as_str().map(|host| ("Host", host));
    let lines = fields.iter().filter_map(Value::as_str);
    let found = host
        .into_iter()
        .chain(lines.filter_map(|line| line.split_once(": ")));
    let values: Vec<_> = found
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect();
    match expected {
        Some(value) if values == [value] => None,
        None if values.is_empty() => None,
        _ if values.is_empty() => Some(format!("no field {name} is sent")),
        _ => Some(format!("the field {name} is {}", values.join(" and "))),
    }
}

/// A route as it is written.
fn route(route: &Value) -> Option<String> {
    let path = route["path"].as_str()?;
    Some(match route["method"].as_str() {
        Some(method) => format!("{method} {path}"),
        None => path.to_owned(),
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
