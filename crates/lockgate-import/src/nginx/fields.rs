//! Response fields, caching, compression, bodies and error pages of a route.

use super::proxy::valid_field;
use super::route::{NginxAction, NginxRoute, inline};
use super::scope::NginxScope;
use super::shared::NginxSite;
use super::syntax::NginxDirective;
use super::values::{nginx_millis, size, with_placeholders};
use crate::{DraftValue, Verdict};

/// Adds what modifies the responses of a route.
pub(super) fn add_fields<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    route: &mut NginxRoute,
) {
    for header in scope.nearest("add_header") {
        response_field(site, scope, header, route);
        site.verdicts().note("`headers` sets a field, for every status; add_header of nginx adds one beside that of the application, and to errors only with `always`.");
    }
    more_fields(site, scope, route);
    expires(site, scope, route);
    let verdicts = site.verdicts();
    if let Some(max) = scope.last("client_max_body_size") {
        match size(max.arg(0)) {
            Some(text) if text.starts_with("0") => verdicts.default(max),
            Some(text) => {
                if route.action == NginxAction::Proxy {
                    route.set("body", inline(vec![("max", text.into())]));
                }
                verdicts.converted(max);
            }
            None => verdicts.refuse(max, "this size cannot be read", None),
        }
    }
    if route.action == NginxAction::Proxy && scope.last("client_max_body_size").is_none() {
        verdicts.note("nginx refuses request bodies over 1 MiB unless told otherwise; here they have no limit: body = { max = \"1MiB\" } keeps it.");
    }
    let on = |name: &str| scope.last(name).is_some_and(|d| d.arg(0) == "on");
    for name in ["gzip", "brotli", "zstd"] {
        if let Some(directive) = scope.last(name) {
            verdicts.converted(directive);
        }
    }
    match route.action {
        NginxAction::Proxy if on("gzip") || on("brotli") || on("zstd") => {
            route.set("compress", true);
        }
        NginxAction::Files
            if scope.last("gzip").is_some_and(|d| d.arg(0) == "off")
                && !on("brotli")
                && !on("zstd") =>
        {
            route.set("compress", false);
        }
        _ => {}
    }
    error_pages(site, scope, route);
}

/// `add_header`
fn response_field<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    header: &NginxDirective,
    route: &mut NginxRoute,
) {
    let verdicts = site.verdicts();
    let field = header.arg(0).to_ascii_lowercase();
    let value = scope.fold(header.arg(1), verdicts);
    if value.is_empty() {
        verdicts.default(header);
        return;
    }
    if field == "cache-control"
        && route.action == NginxAction::Files
        && let Some(policy) = cache_policy(&value)
    {
        verdicts.converted(header);
        match (route.get("cache"), policy) {
            // `expires 1y` beside `Cache-Control: public, immutable`
            (Some(DraftValue::Text(known)), CachePolicy::Words(words)) => {
                let text = format!("{known} {words}");
                route.set("cache", text);
            }
            (_, CachePolicy::Whole(text)) => route.set("cache", text),
            (_, CachePolicy::Words(_)) => {
                route.set_in("headers", "cache-control", value.clone());
            }
        }
        return;
    }
    if is_old_cache_field(scope, &field, &value) && route.action == NginxAction::Files {
        verdicts.default(header);
        return;
    }
    if field == "content-type" && route.action == NginxAction::Respond {
        if let Some(DraftValue::Inline(keys)) = route.get("respond") {
            let mut keys = keys.clone();
            keys.retain(|(key, _)| key != "type");
            keys.push(("type".to_owned(), value.clone().into()));
            route.set("respond", DraftValue::Inline(keys));
        }
        verdicts.converted(header);
        return;
    }
    match with_placeholders(&value, &site.words) {
        Some(text) if valid_field(&field) && !text.contains(['\n', '\r']) => {
            verdicts.converted(header);
            let several = matches!(field.as_str(), "link" | "set-cookie" | "vary");
            if several {
                route.set_in("headers", &field, inline(vec![("add", text.into())]));
            } else {
                route.set_in("headers", &field, text);
            }
        }
        Some(_) => verdicts.refuse(header, "this field cannot be set", None),
        None => verdicts.refuse(
            header,
            "a variable in it has no counterpart",
            Some("headers takes texts with {host}, {path}, {client}, {scheme}, {id}; `cors` answers the origin of a request"),
        ),
    }
}

/// Whether a field only repeats, for caches of HTTP/1.0, the `Cache-Control` beside it.
pub(super) fn is_old_cache_field(scope: &NginxScope<'_>, field: &str, value: &str) -> bool {
    let beside = scope.nearest("add_header").iter().any(|header| {
        header.arg(0).eq_ignore_ascii_case("cache-control") && cache_policy(header.arg(1)).is_some()
    });
    beside
        && (field == "pragma" && value.eq_ignore_ascii_case("no-cache")
            || field == "expires" && matches!(value, "0" | "-1"))
}

/// `more_set_headers` and `more_clear_headers` of the headers-more module.
fn more_fields<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    for name in ["more_set_headers", "more_clear_headers"] {
        for directive in scope.nearest(name) {
            let mut whole = true;
            for arg in &directive.args {
                let (field, value) = arg.split_once(':').unwrap_or((arg, ""));
                let field = field.trim().to_ascii_lowercase();
                let text = with_placeholders(&scope.fold(value.trim(), verdicts), &site.words);
                match text {
                    Some(text) if valid_field(&field) => {
                        if text.is_empty() {
                            route.set_in("headers", &field, false);
                        } else {
                            route.set_in("headers", &field, text);
                        }
                    }
                    _ => whole = false,
                }
            }
            if whole {
                verdicts.converted(directive);
            } else {
                verdicts.refuse(
                    directive,
                    "its options and variables have no counterpart",
                    None,
                );
            }
        }
    }
}

enum CachePolicy {
    Whole(String),
    /// Words that follow the time of `expires`.
    Words(String),
}

/// A `Cache-Control` as a policy of Lockgate.
fn cache_policy(value: &str) -> Option<CachePolicy> {
    let mut age = None;
    let mut words = Vec::new();
    let mut parts = Vec::new();
    for part in value.split(',') {
        let part = part.trim().to_ascii_lowercase();
        match part.as_str() {
            "proxy-revalidate" | "s-maxage=0" => {}
            "public" | "private" | "immutable" | "must-revalidate" | "no-transform" => {
                words.push(part.clone());
            }
            part => match part.strip_prefix("max-age=") {
                Some(seconds) => age = Some(seconds.parse::<u64>().ok()?),
                None if matches!(part, "no-cache" | "no-store") => {}
                None => return None,
            },
        }
        parts.push(part);
    }
    // What may not be stored needs no further word.
    if parts.iter().any(|part| part == "no-store") {
        return Some(CachePolicy::Whole("no-store".to_owned()));
    }
    match (parts.as_slice(), age) {
        ([only], None) if matches!(only.as_str(), "no-cache" | "no-store") => {
            Some(CachePolicy::Whole(only.clone()))
        }
        (_, None) if words.len() == parts.len() => Some(CachePolicy::Words(words.join(" "))),
        (_, Some(age)) if words.len() + 1 == parts.len() && age > 0 => {
            let mut text = cache_time(age);
            for word in words {
                text.push(' ');
                text.push_str(&word);
            }
            Some(CachePolicy::Whole(text))
        }
        _ => None,
    }
}

/// Seconds as a time of `cache`.
fn cache_time(seconds: u64) -> String {
    for (unit, factor) in [("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("m", 60)] {
        if seconds.is_multiple_of(factor) {
            return format!("{}{unit}", seconds / factor);
        }
    }
    format!("{seconds}s")
}

/// `map $sent_http_content_type $expires`: policies by media type.
fn by_media_type(site: &NginxSite<'_, '_>, map: &NginxDirective, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    verdicts.converted(map);
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    for entry in map.children() {
        let policy = match entry.arg(0) {
            "off" => None,
            "max" => Some("10y".to_owned()),
            "epoch" | "-1" | "0" => Some("no-cache".to_owned()),
            text => match nginx_millis(text).filter(|millis| *millis >= 1000) {
                Some(millis) => Some(cache_time(millis / 1000)),
                None => {
                    verdicts.refuse(entry, "this time cannot be read", None);
                    continue;
                }
            },
        };
        let name = entry
            .name
            .trim_start_matches(['~', '*', '^'])
            .trim_end_matches('$');
        let name = name
            .replace("\\+", "+")
            .replace("\\.", ".")
            .replace("\\/", "/")
            .to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/+-.".contains(c);
        let kind = match name.split_once('/') {
            _ if entry.name == "default" => "*".to_owned(),
            _ if entry.name.is_empty() => {
                verdicts.default(entry); // a response without a type
                continue;
            }
            Some((kind, "")) if entry.name.starts_with('~') && kind.chars().all(plain) => {
                format!("{kind}/*")
            }
            Some((_, rest))
                if !rest.is_empty() && !rest.contains('/') && name.chars().all(plain) =>
            {
                name.clone()
            }
            _ => {
                verdicts.refuse(entry, "`cache` chooses by a whole media type", None);
                continue;
            }
        };
        verdicts.converted(entry);
        let value = policy.map_or(DraftValue::Flag(false), DraftValue::from);
        if !keys.iter().any(|(known, _)| *known == kind) {
            keys.push((kind, value));
        }
    }
    // Off for the rest is what a file or an application says by itself.
    keys.retain(|(kind, value)| {
        kind != "*" || *value != DraftValue::Flag(false) || route.action == NginxAction::Files
    });
    if !keys.is_empty() && matches!(route.action, NginxAction::Files | NginxAction::Proxy) {
        route.set("cache", DraftValue::Inline(keys));
    }
}

/// `expires`
fn expires<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    let Some(expires) = scope.last("expires") else {
        return;
    };
    if let Some(variable) = expires.arg(0).strip_prefix('$')
        && let Some(map) = scope.nearest("map").iter().find(|map| {
            map.arg(0) == "$sent_http_content_type"
                && map.arg(1).strip_prefix('$') == Some(variable)
        })
    {
        by_media_type(site, map, route);
        verdicts.converted(expires);
        return;
    }
    let policy = match expires.arg(0) {
        "off" => {
            verdicts.default(expires);
            return;
        }
        "max" => Some("10y".to_owned()),
        "epoch" | "-1" | "0" => Some("no-cache".to_owned()),
        text if text.starts_with('-') => Some("no-cache".to_owned()),
        text => nginx_millis(text)
            .filter(|millis| *millis >= 1000 && expires.args.len() == 1)
            .map(|millis| cache_time(millis / 1000)),
    };
    match policy {
        Some(policy) => {
            verdicts.converted(expires);
            if matches!(route.action, NginxAction::Redirect | NginxAction::Respond) {
                return;
            }
            // `Cache-Control: public` beside it is already there, as a field.
            let words = match route.get("headers") {
                Some(DraftValue::Inline(fields)) => fields
                    .iter()
                    .find(|(name, _)| name == "cache-control")
                    .map(|(_, value)| value.clone()),
                _ => None,
            };
            match words {
                Some(DraftValue::Text(text)) => {
                    if let Some(CachePolicy::Words(words)) = cache_policy(&text) {
                        drop_field(route, "cache-control");
                        route.set("cache", format!("{policy} {words}"));
                    }
                }
                _ if route.get("cache").is_none() => route.set("cache", policy),
                _ => {}
            }
        }
        None => verdicts.refuse(
            expires,
            "a time of day or a variable has no counterpart",
            Some("write cache = { \"text/html\" = \"no-cache\", \"image/*\" = \"30d\" }"),
        ),
    }
}

fn drop_field(route: &mut NginxRoute, field: &str) {
    if let Some(DraftValue::Inline(mut fields)) = route.remove("headers") {
        fields.retain(|(name, _)| name != field);
        if !fields.is_empty() {
            route.set("headers", DraftValue::Inline(fields));
        }
    }
}

/// `error_page`
fn error_pages<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    for page in scope.nearest("error_page") {
        let Some((target, statuses)) = page.args.split_last() else {
            continue;
        };
        let numbers: Option<Vec<u16>> = statuses.iter().map(|s| s.parse().ok()).collect();
        let file = numbers
            .filter(|numbers| {
                let errors = numbers.iter().all(|n| (400..600).contains(n));
                errors
                    && target.starts_with('/')
                    && !target.contains(['$', '?'])
                    && !target.contains(".php")
            })
            .and_then(|numbers| Some((numbers, error_file(site, scope, target)?)));
        let Some((numbers, (root, file))) = file else {
            verdicts.refuse(
                page,
                "an error is answered by a file with the status of the error, not by another status, address or route",
                Some("write error_pages = { 502 = \"/etc/lockgate/502.html\" }"),
            );
            continue;
        };
        verdicts.converted(page);
        for number in numbers {
            let own_root = matches!(route.get("root"), Some(DraftValue::Text(r)) if *r == root);
            if number == 404 && route.action == NginxAction::Files && own_root {
                route.set("not_found", file.clone());
            } else if (400..600).contains(&number) && number != 404
                || number == 404 && route.action != NginxAction::Proxy
            {
                let path = format!("{}{file}", root.strip_suffix('/').unwrap_or(&root));
                route.set_in("error_pages", &number.to_string(), path);
            }
        }
    }
    if let Some(intercept) = scope.last("proxy_intercept_errors") {
        if intercept.arg(0) == "on" && !scope.nearest("error_page").is_empty() {
            verdicts.differs(
                intercept,
                "`error_pages` replace Lockgate's own errors; an error that the endpoint sends is forwarded",
            );
        } else {
            verdicts.default(intercept);
        }
    }
}

/// The root and the path of an error page: by its location, or that of the scope.
fn error_file<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    target: &str,
) -> Option<(String, String)> {
    let location = site.location_of(target);
    let (scope, block) = match location {
        Some((inner, location)) => (inner, Some(*location)),
        None => (scope, None),
    };
    let plain = |name: &str| {
        matches!(
            name,
            "root"
                | "internal"
                | "access_log"
                | "log_not_found"
                | "allow"
                | "expires"
                | "add_header"
        )
    };
    if block.is_some_and(|block| !block.children().iter().all(|child| plain(&child.name))) {
        return None;
    }
    if scope.own("alias").last().is_some() || !target.contains('.') {
        return None;
    }
    let root = scope.last("root")?;
    let folded = scope.fold(root.arg(0), site.verdicts());
    if folded.contains('$') {
        return None;
    }
    if let Some(block) = block {
        site.verdicts().rest(block, &Verdict::Converted);
    }
    Some((folded, target.to_owned()))
}
