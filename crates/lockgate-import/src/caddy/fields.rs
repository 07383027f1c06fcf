//! Fields of requests and responses: `header`, `request_header`, `header_up` and `header_down`.

use super::blocks::CaddyStatement;
use super::outcome::{CaddyFields, CaddyFlow};
use super::texts::{self, CaddyTextKind, CaddyTextPlace};
use crate::{ConversionReport, DraftValue, StatementId, Verdict};

fn set(fields: &mut CaddyFields, name: &str, value: DraftValue) {
    fields.retain(|(known, _)| known != name);
    fields.push((name.to_owned(), value));
}

fn add(fields: &mut CaddyFields, name: &str, value: &str) {
    let slot = fields.iter_mut().find(|(known, _)| known == name);
    match slot {
        Some((_, DraftValue::List(list))) => list.push(value.into()),
        Some((_, old @ DraftValue::Text(_))) => {
            *old = DraftValue::List(vec![old.clone(), value.into()]);
        }
        _ => set(
            fields,
            name,
            DraftValue::Inline(vec![("add".to_owned(), value.into())]),
        ),
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_!#$%&'*+.^|~".contains(&b);
    !name.is_empty() && name.bytes().all(allowed)
}

/// Keeps the fields of a statement that are set only where there are none.
fn keep(flow: &mut CaddyFlow, id: StatementId, defaults: CaddyFields) {
    for (name, value) in defaults {
        flow.defaults.0.push((name.clone(), id));
        set(&mut flow.default_fields, &name, value);
    }
}

/// Fields that belong to one connection: Lockgate manages them.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "proxy-connection",
];

/// One operation on a field: `NAME VALUE`, `+NAME VALUE`, `-NAME`, `?NAME VALUE`, `NAME FIND WITH`.
fn change(
    words: &[String],
    place: CaddyTextPlace<'_>,
    fields: &mut CaddyFields,
    defaults: &mut CaddyFields,
) -> Verdict {
    let Some((name, values)) = words.split_first() else {
        return Verdict::not_supported("it names no field", None);
    };
    let name = name.trim_end_matches(':').to_lowercase();
    let (operation, name) = match name.split_at_checked(1) {
        Some((sign @ ("+" | "-" | "?" | ">"), name)) => (sign, name),
        _ => ("", name.as_str()),
    };
    if name.contains('*') && operation == "-" {
        return Verdict::not_supported("fields are removed by their whole name", None);
    }
    if !is_name(name) {
        return Verdict::not_supported("this is no name of a field", None);
    }
    if OF_CONNECTION.contains(&name) {
        return Verdict::differs("this field belongs to a connection: Lockgate sets it");
    }
    if operation == "-" {
        set(fields, name, false.into());
        return Verdict::Converted;
    }
    let value = match values {
        [value] => value,
        [] => return Verdict::not_supported("the field has no value", None),
        _ => return Verdict::not_supported("Lockgate replaces no part of a field", None),
    };
    let text = match texts::convert(value, CaddyTextKind::Body, Some(place)) {
        Ok(text) => text,
        Err(because) => return Verdict::not_supported(because, None),
    };
    let value = text.text.replace(['\n', '\r'], " ");
    if value.trim().is_empty() {
        set(fields, name, false.into());
        return Verdict::differs("the field is removed instead of being sent without a value");
    }
    match operation {
        "+" => add(fields, name, &value),
        "?" => set(defaults, name, value.into()),
        _ => set(fields, name, value.into()),
    }
    text.differs.map_or(Verdict::Converted, Verdict::differs)
}

/// `header`: fields of responses.
pub(super) fn header(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) {
    if statement.inner().iter().any(|line| line.name() == "match") {
        let because = "fields do not depend on the response";
        statement.set_all(report, &Verdict::not_supported(because, None));
        return;
    }
    // Caddy makes some changes only when the response is sent: then those of directives that run
    // first win, and win over all changes that are made at once.
    let late = |words: &[String]| {
        let first = words.first().map_or("", String::as_str);
        first == "defer" || first.starts_with(['-', '>']) || words.len() > 2
    };
    let deferred = late(words) || statement.inner().iter().any(|line| late(&line.words));
    let mut fields = match deferred {
        true => CaddyFields::new(),
        false => std::mem::take(&mut flow.fields),
    };
    if words.is_empty() {
        report.set(statement.id, Verdict::Converted);
    } else {
        let mut defaults = CaddyFields::new();
        let verdict = change(words, place, &mut fields, &mut defaults);
        keep(flow, statement.id, defaults);
        report.set(statement.id, verdict);
    }
    for line in statement.inner() {
        let verdict = match line.name() {
            "defer" => Verdict::Default,
            _ => {
                let mut defaults = CaddyFields::new();
                let verdict = change(&line.words, place, &mut fields, &mut defaults);
                keep(flow, line.id, defaults);
                verdict
            }
        };
        line.set_all(report, &verdict);
    }
    if !deferred {
        flow.fields = fields;
        return;
    }
    for (name, value) in fields {
        if !flow.late_fields.iter().any(|(known, _)| *known == name) {
            flow.late_fields.push((name, value));
        }
    }
}

/// `request_header`: fields of requests.
pub(super) fn request_header(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) {
    let mut changed = Vec::new();
    if !words.is_empty() {
        changed.push((statement, words));
    } else {
        report.set(statement.id, Verdict::Converted);
    }
    changed.extend(
        statement
            .inner()
            .iter()
            .map(|line| (line, line.words.as_slice())),
    );
    for (line, words) in changed {
        let verdict = of_request(words, flow, place);
        report.set(line.id, verdict);
    }
}

/// `header_up` of a `reverse_proxy`.
pub(super) fn header_up(
    line: &CaddyStatement,
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) {
    let verdict = of_request(line.args(), flow, place);
    report.set(line.id, verdict);
}

fn of_request(words: &[String], flow: &mut CaddyFlow, place: CaddyTextPlace<'_>) -> Verdict {
    let name = words
        .first()
        .map(|name| name.trim_end_matches(':').to_lowercase());
    let value = words.get(1).map(String::as_str);
    let client = matches!(
        value,
        Some(
            "{remote_host}"
                | "{remote}"
                | "{client_ip}"
                | "{http.request.remote.host}"
                | "{http.request.remote}"
                | "{http.vars.client_ip}"
        )
    );
    let host = matches!(
        value,
        Some("{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}")
    );
    match name.as_deref() {
        Some("host" | "x-forwarded-host") if host => return Verdict::Default,
        Some("x-forwarded-for") if client => return Verdict::Default,
        Some("x-forwarded-proto")
            if matches!(value, Some("{scheme}" | "{http.request.scheme}"))
                || value
                    == Some(if place.requests.secure {
                        "https"
                    } else {
                        "http"
                    }) =>
        {
            return Verdict::Default;
        }
        Some("upgrade" | "connection") if value.is_some_and(|value| value.contains("pgrade")) => {
            return Verdict::Default;
        }
        Some("host")
            if matches!(
                value,
                Some(
                    "{upstream_hostport}"
                        | "{http.reverse_proxy.upstream.hostport}"
                        | "{http.reverse_proxy.upstream.host}"
                )
            ) =>
        {
            set(&mut flow.request_fields, "host", UPSTREAM_HOST.into());
            return Verdict::Converted;
        }
        Some(name) if client && is_name(name) => {
            set(&mut flow.request_fields, name, "{client}".into());
            return Verdict::Converted;
        }
        Some("-x-forwarded-for" | "-x-forwarded-host" | "-x-forwarded-proto" | "-via") => {
            return Verdict::not_supported("Lockgate always sends this field", None);
        }
        Some("+x-forwarded-for") => {
            return Verdict::differs("Lockgate sets this field, and adds to it behind `trusted`");
        }
        Some("x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto")
            if value.is_some_and(|value| value.contains('{')) =>
        {
            return Verdict::not_supported(
                "Lockgate sets this field itself, from what proxies in `trusted` send",
                Some("trusted = [\"NETWORK OF THE PROXY\"]"),
            );
        }
        _ => {}
    }
    if let ("{port}" | "{server_port}" | "{http.request.port}", Some(name)) =
        (value.unwrap_or_default(), name.as_deref())
        && is_name(name)
    {
        let port = place.requests.port.to_string();
        set(&mut flow.request_fields, name, port.into());
        return Verdict::Converted;
    }
    let mut defaults = CaddyFields::new();
    let verdict = change(words, place, &mut flow.request_fields, &mut defaults);
    match defaults.is_empty() {
        true => verdict,
        false => Verdict::not_supported("a field is set for every request, or for none", None),
    }
}

/// Stands for the host of the endpoint until it is known.
pub(super) const UPSTREAM_HOST: &str = "\u{0}upstream";

/// `header_down` of a `reverse_proxy`.
pub(super) fn header_down(
    line: &CaddyStatement,
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) {
    let mut defaults = CaddyFields::new();
    let verdict = change(line.args(), place, &mut flow.fields, &mut defaults);
    keep(flow, line.id, defaults);
    report.set(line.id, verdict);
}
