//! The part of the middleware `headers` that lets other origins read responses.

use super::fields::is_name;
use super::node::{TraefikNode, is_known};
use super::route_parts::RouteParts;
use crate::{ConversionReport, DraftValue, Verdict};

const KEYS: [&str; 8] = [
    "accessControlAllowCredentials",
    "accessControlAllowHeaders",
    "accessControlAllowMethods",
    "accessControlAllowOriginList",
    "accessControlAllowOriginListRegex",
    "accessControlExposeHeaders",
    "accessControlMaxAge",
    "addVaryHeader",
];

/// Reads it.
pub(super) fn read(node: &TraefikNode, report: &mut ConversionReport, parts: &mut RouteParts) {
    let items = |key: &str| node.field(key).map(TraefikNode::items).unwrap_or_default();
    let mark = |key: &str, verdict: Verdict, report: &mut ConversionReport| {
        if let Some(field) = node.field(key) {
            field.set(report, verdict);
        }
    };
    let all = |verdict: &Verdict, report: &mut ConversionReport| {
        for key in KEYS {
            if let Some(field) = node.field(key) {
                field.mark_rest(report, verdict);
            }
        }
    };
    if let Some(field) = node.field("accessControlAllowOriginListRegex")
        && !field.items().is_empty()
    {
        all(
            &Verdict::not_supported(
                "origins are no patterns: none may read responses",
                Some("cors = [\"https://*.example.org\"]"),
            ),
            report,
        );
        return;
    }
    let origins = items("accessControlAllowOriginList");
    if origins.is_empty() {
        all(
            &Verdict::differs(
                "without accessControlAllowOriginList no origin may read responses, so nothing is written",
            ),
            report,
        );
        return;
    }
    if !origins.iter().all(|origin| is_origin(origin)) {
        all(
            &Verdict::not_supported("an origin cannot be read, or is not known here", None),
            report,
        );
        return;
    }
    let every = origins.iter().any(|origin| origin == "*");
    let mut keys: Vec<(String, DraftValue)> = vec![match origins.as_slice() {
        _ if every => ("origins".to_owned(), "*".into()),
        [origin] => ("origins".to_owned(), origin.as_str().into()),
        _ => ("origins".to_owned(), origins.into()),
    }];
    let methods: Vec<String> = items("accessControlAllowMethods");
    let is_method = |method: &String| method.bytes().all(|b| b.is_ascii_alphabetic());
    let any_method = methods.iter().any(|method| method == "*");
    let mut methods_verdict = Verdict::Converted;
    if any_method {
        methods_verdict = Verdict::differs("GET, HEAD, POST, PUT, PATCH and DELETE");
    } else if methods.iter().all(is_method) {
        let mut named: Vec<String> = methods
            .iter()
            .map(|method| method.to_ascii_uppercase())
            .collect();
        named.retain(|method| method != "OPTIONS");
        // Browsers need no permission for these.
        for method in ["GET", "HEAD", "POST"] {
            if methods.is_empty() && !named.iter().any(|known| known == method) {
                named.push(method.to_owned());
            }
        }
        if !named.is_empty() {
            keys.push(("methods".to_owned(), named.into()));
        }
    } else {
        methods_verdict = Verdict::not_supported("a method of it cannot be read", None);
    }
    mark("accessControlAllowOriginList", Verdict::Converted, report);
    mark("accessControlAllowMethods", methods_verdict, report);
    let allowed = items("accessControlAllowHeaders");
    if !allowed.iter().any(|name| name == "*") {
        let named: Vec<String> = allowed
            .iter()
            .filter(|name| is_name(name))
            .cloned()
            .collect();
        keys.push((
            "headers".to_owned(),
            if named.is_empty() {
                false.into()
            } else {
                named.into()
            },
        ));
    }
    mark("accessControlAllowHeaders", Verdict::Converted, report);
    let exposed: Vec<String> = items("accessControlExposeHeaders");
    let exposed: Vec<String> = exposed
        .into_iter()
        .filter(|name| is_name(name) && name != "*")
        .collect();
    if !exposed.is_empty() {
        keys.push(("expose".to_owned(), exposed.into()));
    }
    mark("accessControlExposeHeaders", Verdict::Converted, report);
    let credentials = node.field("accessControlAllowCredentials");
    if let Some(field) = credentials {
        let verdict = match (field.flag(), every) {
            (Some(true), true) => {
                Verdict::differs("browsers refuse credentials where every origin is allowed")
            }
            (Some(true), false) => {
                keys.push(("credentials".to_owned(), true.into()));
                Verdict::Converted
            }
            _ => Verdict::Default,
        };
        field.set(report, verdict);
    }
    let age = node
        .field("accessControlMaxAge")
        .and_then(TraefikNode::number)
        .filter(|age| *age > 0);
    // Browsers keep an answer without a time for five seconds.
    keys.push((
        "max_age".to_owned(),
        format!("{}s", age.unwrap_or(5)).into(),
    ));
    mark("accessControlMaxAge", Verdict::Converted, report);
    mark("addVaryHeader", Verdict::Default, report);
    parts.keys.retain(|(key, _)| key != "cors");
    parts
        .keys
        .push(("cors".to_owned(), DraftValue::Inline(keys)));
}

fn is_origin(text: &str) -> bool {
    let host = |rest: &str| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.:".contains(&b))
    };
    is_known(text)
        && (text == "*"
            || text.strip_prefix("https://").is_some_and(host)
            || text.strip_prefix("http://").is_some_and(host))
}
