//! Middlewares, as what they change in a route.

use super::access::{allow, basic_auth, forward_auth};
use super::node::{TraefikNode, is_known};
use super::route_parts::{
    RouteContext, RouteParts, TraefikPathStep, TraefikRedirect, TraefikRedirectStep,
};
use super::source::{TraefikItem, TraefikSource};
use super::values::{duration, unreadable};
use super::{fields, headers};
use crate::{ConversionReport, DraftValue, Verdict};

/// How deep chains may be nested.
const MAX_CHAIN: usize = 16;
/// How many middlewares one router may have, those of chains included.
const MAX_LINKS: usize = 200;

/// Reads the middlewares of a router.
pub(super) fn read(
    names: &[String],
    provider: &str,
    context: RouteContext<'_>,
    source: &TraefikSource,
    report: &mut ConversionReport,
) -> RouteParts {
    let mut parts = RouteParts::default();
    let mut left = MAX_LINKS;
    chain(
        names,
        provider,
        context,
        source,
        report,
        &mut parts,
        (&mut left, 0),
    );
    parts
}

fn chain(
    names: &[String],
    provider: &str,
    context: RouteContext<'_>,
    source: &TraefikSource,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
    (left, depth): (&mut usize, usize),
) {
    for name in names {
        let name = name.trim();
        if *left == 0 || depth > MAX_CHAIN {
            parts.refuse("its chain of middlewares has no end");
            return;
        }
        *left -= 1;
        let Some(item) = source.middlewares.find(name, provider) else {
            parts.guards.insert(name.to_owned());
            parts.refuse(format!("no file here defines the middleware {name}"));
            continue;
        };
        if let Some(statement) = item.node.statement {
            report.set(statement, Verdict::Converted);
        }
        let mut any = false;
        for (kind, node) in item.node.fields() {
            any = true;
            if kind.eq_ignore_ascii_case("chain") {
                let list = node
                    .field("middlewares")
                    .or(Some(node))
                    .map(TraefikNode::items);
                node.mark(report, &Verdict::Converted);
                let inner = list.unwrap_or_default();
                chain(
                    &inner,
                    item.provider,
                    context,
                    source,
                    report,
                    parts,
                    (left, depth + 1),
                );
            } else {
                one(kind, node, item, context, report, parts);
            }
        }
        if !any {
            parts.guards.insert(name.to_owned());
            parts.refuse(format!("the middleware {name} says nothing"));
            item.node
                .mark(report, &Verdict::not_supported("it has no kind", None));
        }
    }
}

fn one(
    kind: &str,
    node: &TraefikNode,
    item: &TraefikItem,
    context: RouteContext<'_>,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
) {
    let place = || node.place.to_string();
    match kind.to_ascii_lowercase().as_str() {
        "redirectscheme" | "redirectregex" => redirect(kind, node, report, parts),
        "stripprefix" => {
            let prefixes = node.field("prefixes").map(TraefikNode::items).unwrap_or_default();
            node.mark(report, &Verdict::Converted);
            if node.field("forceSlash").and_then(TraefikNode::flag) == Some(false) {
                node.mark(report, &Verdict::differs("the path always begins with a slash"));
            }
            parts.path.push((TraefikPathStep::Strip(prefixes), node.clone()));
        }
        "addprefix" | "replacepath" => {
            let key = if kind.eq_ignore_ascii_case("addPrefix") { "prefix" } else { "path" };
            match node.field(key).and_then(TraefikNode::text) {
                Some(text) => {
                    node.mark(report, &Verdict::Converted);
                    let text = text.to_owned();
                    let step = match key {
                        "prefix" => TraefikPathStep::Add(text),
                        _ => TraefikPathStep::Replace(text),
                    };
                    parts.path.push((step, node.clone()));
                }
                None => {
                    node.mark(report, &unreadable());
                    parts.refuse(format!("the path of {} is not known", place()));
                }
            }
        }
        "replacepathregex" => {
            let text = |key| node.field(key).and_then(TraefikNode::text).map(str::to_owned);
            node.mark(report, &Verdict::Converted);
            match text("regex").zip(text("replacement")) {
                Some((regex, with)) => parts.path.push((TraefikPathStep::Pattern(regex, with), node.clone())),
                None => {
                    node.mark(report, &unreadable());
                    parts.refuse(format!("the pattern of {} is not known", place()));
                }
            }
        }
        "headers" => headers::read(node, context, report, parts),
        "basicauth" => basic_auth(node, item, report, parts),
        "forwardauth" => forward_auth(node, item, report, parts),
        "ipallowlist" | "ipwhitelist" => allow(node, item, context, report, parts),
        "ratelimit" => rate_limit(node, report, parts),
        "buffering" => buffering(node, report, parts),
        "compress" => compress(node, report, parts),
        "retry" => retry(node, report, parts),
        "contenttype" => node.mark(report, &Verdict::Default),
        "inflightreq" => node.mark(
            report,
            &Verdict::not_supported(
                "Lockgate does not limit the requests in flight of a route",
                Some("limits = { per_client = 100 } limits connections; `max` of an endpoint its requests"),
            ),
        ),
        "circuitbreaker" => node.mark(
            report,
            &Verdict::not_supported(
                "Lockgate ejects endpoints that fail, it does not judge by expressions",
                Some("eject = { errors = 5, for = \"10s\" } in the pool is the default"),
            ),
        ),
        "errors" => node.mark(
            report,
            &Verdict::not_supported(
                "Lockgate takes no error pages from services, nor replaces those of applications",
                Some("error_pages = { 502 = \"FILE\" } replaces its own"),
            ),
        ),
        "passtlsclientcert" => {
            // The application must not believe these fields of a client.
            for name in ["x-forwarded-tls-client-cert", "x-forwarded-tls-client-cert-info"] {
                parts.request_headers.push((name.to_owned(), false.into()));
            }
            node.mark(
                report,
                &Verdict::not_supported("applications do not learn the client's certificate: its fields are removed", None),
            );
        }
        "digestauth" => {
            parts.guards.insert(item.name.clone());
            parts.refuse("Lockgate has no digest authentication");
            node.mark(
                report,
                &Verdict::not_supported("Lockgate has no digest authentication: its routes are refused", Some("auth = { basic = \"FILE\" } over TLS")),
            );
        }
        _ => {
            parts.guards.insert(item.name.clone());
            parts.refuse(format!("the middleware {} is not known here", item.name));
            node.mark(
                report,
                &Verdict::not_supported(
                    format!("Lockgate has no counterpart of {kind}: the routes with it are refused, since it may keep requests out"),
                    None,
                ),
            );
        }
    }
}

fn redirect(kind: &str, node: &TraefikNode, report: &mut ConversionReport, parts: &mut RouteParts) {
    let text = |key| {
        node.field(key)
            .and_then(TraefikNode::text)
            .map(str::to_owned)
    };
    let permanent = node.field("permanent").and_then(TraefikNode::flag) == Some(true);
    let redirect = if kind.eq_ignore_ascii_case("redirectScheme") {
        let port = text("port").map(|port| port.parse::<u16>());
        let scheme = text("scheme").filter(|scheme| matches!(scheme.as_str(), "http" | "https"));
        match (scheme, port) {
            (Some(scheme), None) => Some(TraefikRedirect::Scheme(scheme, None)),
            (Some(scheme), Some(Ok(port))) => Some(TraefikRedirect::Scheme(scheme, Some(port))),
            _ => None,
        }
    } else {
        text("regex")
            .zip(text("replacement"))
            .map(|(regex, with)| TraefikRedirect::Pattern(regex, with))
    };
    match redirect {
        Some(redirect) => {
            node.mark(report, &Verdict::Default);
            parts.redirects.push(TraefikRedirectStep {
                redirect,
                permanent,
                node: node.clone(),
                before: parts.keys.clone(),
            });
        }
        None => {
            node.mark(
                report,
                &Verdict::not_supported(
                    "its values cannot be read, or are not known here: its routes are refused",
                    None,
                ),
            );
            parts.refuse("the target of its redirect is not known");
        }
    }
}

fn rate_limit(node: &TraefikNode, report: &mut ConversionReport, parts: &mut RouteParts) {
    let number = |key| node.field(key).map(TraefikNode::number);
    let period = node
        .field("period")
        .map_or(Some("1s".to_owned()), |node| node.text().and_then(duration));
    let average = number("average").unwrap_or(Some(0));
    let burst = number("burst").unwrap_or(Some(1));
    let (Some(average), Some(burst), Some(period)) = (average, burst, period) else {
        node.mark(report, &unreadable());
        return;
    };
    node.mark(report, &Verdict::Converted);
    if average <= 0 {
        node.mark(report, &Verdict::Default);
        return;
    }
    let rate = match period.as_str() {
        "1s" => format!("{average}/s"),
        "1m" => format!("{average}/m"),
        "1h" => format!("{average}/h"),
        _ => {
            let seconds = match (
                period.strip_suffix("ms"),
                period.strip_suffix('s'),
                period.strip_suffix('m'),
                period.strip_suffix('h'),
            ) {
                (Some(ms), ..) => ms.parse::<i64>().ok().map(|ms| (ms / 1000).max(1)),
                (_, Some(s), ..) => s.parse().ok(),
                (_, _, Some(m), _) => m.parse::<i64>().ok().and_then(|m| m.checked_mul(60)),
                (.., Some(h)) => h.parse::<i64>().ok().and_then(|h| h.checked_mul(3600)),
                _ => None,
            };
            match seconds.and_then(|s| average.checked_mul(3600).map(|n| (n / s.max(1)).max(1))) {
                Some(hourly) => format!("{hourly}/h"),
                None => {
                    node.mark(report, &unreadable());
                    return;
                }
            }
        }
    };
    let mut keys: Vec<(String, DraftValue)> = vec![("rate".to_owned(), rate.into())];
    if let Some(criterion) = node.field("sourceCriterion") {
        if let Some(name) = criterion
            .field("requestHeaderName")
            .and_then(TraefikNode::text)
            .filter(|name| fields::is_name(name))
        {
            keys.push((
                "per".to_owned(),
                format!("header:{}", name.to_ascii_lowercase()).into(),
            ));
        } else if criterion.field("requestHost").and_then(TraefikNode::flag) == Some(true) {
            keys.push(("per".to_owned(), "route".into()));
            criterion.mark(
                report,
                &Verdict::differs(
                    "all requests of the route are counted together, of all its hosts",
                ),
            );
        } else if criterion.is_map() {
            criterion.mark(
                report,
                &Verdict::differs(
                    "clients are told apart by the address that `trusted` proxies name",
                ),
            );
        }
    }
    keys.push(("burst".to_owned(), burst.clamp(1, 1_000_000).into()));
    if !parts.set("limit", DraftValue::Inline(keys)) {
        node.mark(
            report,
            &Verdict::not_supported(
                "a route has one limit: that of the middleware before it",
                None,
            ),
        );
    }
}

fn buffering(node: &TraefikNode, report: &mut ConversionReport, parts: &mut RouteParts) {
    for (key, node) in node.fields() {
        let verdict = match (key.to_ascii_lowercase().as_str(), node.number()) {
            ("maxrequestbodybytes", Some(0)) => Verdict::Default,
            ("maxrequestbodybytes", Some(most)) if most > 0 => {
                let keys = vec![("max".to_owned(), format!("{most}B").into())];
                match parts.set("body", DraftValue::Inline(keys)) {
                    true => Verdict::Converted,
                    false => Verdict::not_supported("a route has one limit of bodies", None),
                }
            }
            ("memrequestbodybytes" | "memresponsebodybytes", _) => {
                Verdict::differs("bodies are streamed, not buffered")
            }
            ("maxresponsebodybytes", Some(0)) => Verdict::Default,
            ("maxresponsebodybytes", _) => {
                Verdict::not_supported("Lockgate does not limit bodies of responses", None)
            }
            ("retryexpression", _) => Verdict::not_supported(
                "requests are retried when an endpoint gave no response, not by an expression",
                None,
            ),
            _ => unreadable(),
        };
        node.set(report, verdict);
    }
}

fn compress(node: &TraefikNode, report: &mut ConversionReport, parts: &mut RouteParts) {
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    if !node.is_map() && node.flag() == Some(false) {
        node.set(report, Verdict::Default);
        return;
    }
    node.set_own(report, Verdict::Converted);
    for (key, node) in node.fields() {
        let items = node.items();
        let verdict = match key.to_ascii_lowercase().as_str() {
            "excludedcontenttypes" => {
                let usual = |kind: &String| {
                    kind.starts_with("text/event-stream")
                        || kind.starts_with("image/")
                        || kind.starts_with("video/")
                        || kind.starts_with("audio/")
                };
                match items.iter().all(usual) {
                    true => Verdict::differs(
                        "the compressed types are those of Lockgate, which name text/* with text/event-stream",
                    ),
                    false => Verdict::differs(
                        "the compressed types are those of Lockgate: see compress.types",
                    ),
                }
            }
            "includedcontenttypes"
                if items
                    .iter()
                    .all(|kind| kind.contains('/') && is_known(kind)) =>
            {
                keys.push(("types".to_owned(), items.into()));
                Verdict::Converted
            }
            "minresponsebodybytes" => {
                match node.number().filter(|most| (0..1 << 30).contains(most)) {
                    Some(1024) => Verdict::Default,
                    Some(least) => {
                        keys.push(("min".to_owned(), format!("{least}B").into()));
                        Verdict::Converted
                    }
                    None => unreadable(),
                }
            }
            "encodings"
                if items
                    .iter()
                    .all(|coding| matches!(coding.as_str(), "zstd" | "br" | "gzip")) =>
            {
                keys.push(("codings".to_owned(), items.into()));
                Verdict::Converted
            }
            "defaultencoding" => {
                Verdict::differs("responses are compressed for clients that ask for it")
            }
            _ => continue,
        };
        node.set(report, verdict);
    }
    let value = if keys.is_empty() {
        true.into()
    } else {
        DraftValue::Inline(keys)
    };
    if !parts.set("compress", value) {
        node.mark(
            report,
            &Verdict::differs("the compression of the middleware before it holds"),
        );
    }
}

fn retry(node: &TraefikNode, report: &mut ConversionReport, parts: &mut RouteParts) {
    for (key, node) in node.fields() {
        let verdict = match (key.to_ascii_lowercase().as_str(), node.number()) {
            ("attempts", Some(attempts)) => {
                parts.retry = Some(attempts.saturating_sub(1).clamp(0, 10));
                match attempts {
                    2 => Verdict::Default,
                    1..=11 => Verdict::Converted,
                    _ => Verdict::differs("a request is retried at most 10 times"),
                }
            }
            ("initialinterval" | "timeout", _) => {
                Verdict::differs("a retry does not wait: it goes to another endpoint")
            }
            _ => unreadable(),
        };
        node.set(report, verdict);
    }
}

/// The middlewares of an entry point before those of a router.
pub(super) fn joined(mut first: RouteParts, second: RouteParts) -> RouteParts {
    for (key, value) in second.keys {
        match first.keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) if *known == value => {}
            Some(_) if matches!(key.as_str(), "auth" | "allow") => {
                first.refuse("its entry point keeps other clients out than it does");
            }
            Some((_, known)) => *known = value,
            None => first.keys.push((key, value)),
        }
    }
    for (list, more) in [
        (&mut first.headers, second.headers),
        (&mut first.request_headers, second.request_headers),
    ] {
        for (name, value) in more {
            list.retain(|(known, _)| *known != name);
            list.push((name, value));
        }
    }
    first.path.extend(second.path);
    let before = first.keys.clone();
    first
        .redirects
        .extend(second.redirects.into_iter().map(|mut step| {
            step.before.extend(before.iter().cloned());
            step
        }));
    first.retry = second.retry.or(first.retry);
    first.refuse = first.refuse.or(second.refuse);
    first.guards.extend(second.guards);
    for comment in second.comments {
        if !first.comments.contains(&comment) {
            first.comments.push(comment);
        }
    }
    first
}
