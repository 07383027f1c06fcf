//! The middleware `headers`: fields of requests and responses, and what browsers are told.

use super::cors;
use super::fields::is_name;
use super::node::TraefikNode;
use super::route_parts::{RouteContext, RouteParts};
use super::values::unreadable;
use crate::field_names::is_of_connection;
use crate::{ConversionReport, DraftValue, Verdict};

/// How many fields of requests, and of responses, a route may change.
const MAX_FIELDS: usize = 500;
/// How many hosts are compared with those that a middleware allows.
const MAX_COMPARED: usize = 1_000_000;

/// A value without what Lockgate would replace in it.
fn literal(text: &str) -> Option<DraftValue> {
    let placeholders = [
        "{host}",
        "{path}",
        "{query}",
        "{client}",
        "{scheme}",
        "{method}",
        "{id}",
        "{*}",
        "{time}",
        "{counter}",
    ];
    let plain = text.chars().all(|c| !c.is_control())
        && !placeholders.iter().any(|name| text.contains(name))
        && !text.contains("{value:")
        && text.trim() == text;
    plain.then(|| text.into())
}

fn put(list: &mut Vec<(String, DraftValue)>, name: &str, value: DraftValue) {
    list.retain(|(known, _)| known != name);
    list.push((name.to_owned(), value));
}

/// Reads the middleware.
pub(super) fn read(
    node: &TraefikNode,
    context: RouteContext<'_>,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
) {
    let get = |key: &str| node.field(key);
    let text = |key: &str| {
        get(key)
            .and_then(TraefikNode::text)
            .filter(|text| !text.is_empty())
    };
    let on = |key: &str| get(key).and_then(TraefikNode::flag) == Some(true);
    let set = |key: &str, verdict: Verdict, report: &mut ConversionReport| {
        if let Some(node) = node.field(key) {
            node.mark(report, &verdict);
        }
    };
    // It concerns allowed hosts, redirects to TLS and Strict-Transport-Security alone.
    let development = on("isDevelopment");
    for (key, request) in [
        ("customRequestHeaders", true),
        ("customResponseHeaders", false),
    ] {
        for (name, value) in get(key).iter().flat_map(|node| node.fields()) {
            custom(name, value, request, report, parts);
        }
    }
    sts(node, context, development, report, parts);
    let secure: [(&str, &str, Option<&str>); 10] = [
        (
            "contentTypeNosniff",
            "x-content-type-options",
            Some("nosniff"),
        ),
        (
            "browserXssFilter",
            "x-xss-protection",
            Some("1; mode=block"),
        ),
        ("customBrowserXSSValue", "x-xss-protection", None),
        ("frameDeny", "x-frame-options", Some("DENY")),
        ("customFrameOptionsValue", "x-frame-options", None),
        ("contentSecurityPolicy", "content-security-policy", None),
        (
            "contentSecurityPolicyReportOnly",
            "content-security-policy-report-only",
            None,
        ),
        ("referrerPolicy", "referrer-policy", None),
        ("permissionsPolicy", "permissions-policy", None),
        ("featurePolicy", "feature-policy", None),
    ];
    for (key, name, fixed) in secure {
        let Some(field) = get(key) else { continue };
        let value = match fixed {
            Some(_) if field.flag() == Some(false) => {
                field.set(report, Verdict::Default);
                continue;
            }
            Some(fixed) => on(key).then_some(fixed),
            None if field.text() == Some("") => {
                field.set(report, Verdict::Default);
                continue;
            }
            None => text(key),
        };
        match value.and_then(literal) {
            // Traefik would write a new number for each response.
            Some(_) if text(key).is_some_and(|text| text.contains("$NONCE")) => field.set(
                report,
                Verdict::not_supported("Lockgate makes no nonces for each response", None),
            ),
            Some(value) => {
                put(&mut parts.headers, name, value);
                field.set(report, Verdict::Converted);
            }
            None => field.set(report, unreadable()),
        }
    }
    // What applies on plain listeners alone has no effect over TLS.
    for key in ["sslRedirect", "sslTemporaryRedirect"] {
        let verdict = match (on(key), context.tls || development) {
            (true, false) => Verdict::differs(
                "a site with TLS redirects plain requests by itself; this route serves them",
            ),
            _ => Verdict::Default,
        };
        set(key, verdict, report);
    }
    set("sslProxyHeaders", Verdict::Default, report);
    set("hostsProxyHeaders", Verdict::Default, report);
    set("isDevelopment", Verdict::Converted, report);
    set(
        "publicKey",
        Verdict::not_supported("browsers have no pins of keys any more", None),
        report,
    );
    for key in ["sslHost", "sslForceHost"] {
        let verdict = match get(key).and_then(TraefikNode::flag) == Some(false)
            || get(key).and_then(TraefikNode::text) == Some("")
        {
            true => Verdict::Default,
            false => Verdict::not_supported(
                "Lockgate redirects to the host that was asked for",
                Some("redirect = \"https://HOST{path}\" in a site of its own"),
            ),
        };
        set(key, verdict, report);
    }
    if let Some(hosts) = get("allowedHosts") {
        let list = hosts.items();
        let all = !context.hosts.is_empty()
            && context.hosts.len().saturating_mul(list.len()) < MAX_COMPARED
            && context
                .hosts
                .iter()
                .all(|host| list.iter().any(|known| known.eq_ignore_ascii_case(host)));
        if all || development {
            hosts.set(report, Verdict::Default);
        } else {
            parts.refuse("it serves some of its hosts alone");
            hosts.set(
                report,
                Verdict::not_supported("name the hosts in rules: its routes are refused", None),
            );
        }
    }
    cors::read(node, report, parts);
}

fn custom(
    name: &str,
    value: &TraefikNode,
    request: bool,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
) {
    let lower = name.to_ascii_lowercase();
    if !is_name(&lower) || is_of_connection(&lower) || (lower == "host" && !request) {
        value.mark(
            report,
            &Verdict::not_supported("Lockgate does not let this field be changed", None),
        );
        return;
    }
    let list = if request {
        &mut parts.request_headers
    } else {
        &mut parts.headers
    };
    if list.len() >= MAX_FIELDS {
        value.mark(
            report,
            &Verdict::not_supported("a route changes too many fields", None),
        );
        parts.refuse("it changes too many fields");
        return;
    }
    let empty = matches!(value.value, super::node::TraefikValue::Empty) || value.text() == Some("");
    if empty && lower != "host" {
        put(list, &lower, false.into());
        value.set(report, Verdict::Converted);
        return;
    }
    match value.text().and_then(literal) {
        Some(text) => {
            put(list, &lower, text);
            value.set(report, Verdict::Converted);
        }
        None => {
            if lower != "host" {
                // A client must not choose what Traefik would have set.
                if request {
                    put(list, &lower, false.into());
                }
            }
            value.set(
                report,
                Verdict::not_supported("its value cannot be written, or is not known here", None),
            );
        }
    }
}

fn sts(
    node: &TraefikNode,
    context: RouteContext<'_>,
    development: bool,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
) {
    let get = |key: &str| node.field(key);
    let on = |key: &str| get(key).and_then(TraefikNode::flag) == Some(true);
    let seconds = get("stsSeconds").map(TraefikNode::number);
    let verdict = match seconds {
        // Without a time nothing is sent.
        None | Some(Some(0)) => Verdict::Default,
        Some(Some(_)) if development || !(context.tls || on("forceSTSHeader")) => Verdict::Default,
        Some(Some(seconds)) if seconds > 0 => {
            let mut value = format!("max-age={seconds}");
            if on("stsIncludeSubdomains") {
                value.push_str("; includeSubDomains");
            }
            if on("stsPreload") {
                value.push_str("; preload");
            }
            put(
                &mut parts.headers,
                "strict-transport-security",
                value.into(),
            );
            Verdict::Converted
        }
        _ => unreadable(),
    };
    for key in [
        "stsSeconds",
        "stsIncludeSubdomains",
        "stsPreload",
        "forceSTSHeader",
    ] {
        if let Some(field) = get(key) {
            field.set(report, verdict.clone());
        }
    }
}
