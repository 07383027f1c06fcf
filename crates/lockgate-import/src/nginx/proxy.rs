//! `proxy_pass` and `grpc_pass`: the endpoint, the path that it sees, its Host, TLS and deadlines.

use super::pattern::NginxPath;
use super::route::{NginxAction, NginxRoute, inline};
use super::scope::{NginxPart, NginxScope, NginxVerdicts, parts_of};
use super::shared::NginxSite;
use super::syntax::NginxDirective;
use super::upstream::{NginxEndpointTls, address};
use super::values::{duration, nginx_millis, with_placeholders};
use crate::{DraftValue, Verdict};

/// Where requests go.
pub(super) struct NginxTarget {
    /// The value of `proxy`.
    pub(super) endpoint: DraftValue,
    pub(super) tls: bool,
    grpc: bool,
    pool: bool,
    /// What nginx sends as Host unless told otherwise.
    host: String,
    /// The path that replaces that of the location.
    pub(super) uri: Option<String>,
}

/// Reads the target of a `proxy_pass`. `None` if it is not constant.
pub(super) fn proxy_target<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    pass: &NginxDirective,
) -> Option<NginxTarget> {
    let text = scope.fold(pass.arg(0), site.verdicts());
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None if pass.name == "grpc_pass" => ("grpc", text.as_str()),
        None => return None,
    };
    let (tls, grpc) = match scheme {
        "http" => (false, false),
        "https" => (true, false),
        "grpc" => (false, true),
        "grpcs" => (true, true),
        _ => return None,
    };
    let (authority, uri) = match rest.strip_prefix("unix:") {
        Some(path) => match path.split_once(':') {
            Some((path, uri)) => (format!("unix:{path}"), uri),
            None => (rest.to_owned(), ""),
        },
        None => {
            let end = rest.find(['/', '?', '$']).unwrap_or(rest.len());
            let (authority, uri) = rest.split_at(end);
            (authority.to_owned(), uri)
        }
    };
    // Variables for the whole address of the request leave the path as it is.
    let same = matches!(
        parts_of(uri).as_slice(),
        [] | [NginxPart::Variable("request_uri" | "uri")]
            | [
                NginxPart::Variable("uri"),
                NginxPart::Variable("is_args"),
                NginxPart::Variable("args" | "query_string")
            ]
    );
    let uri = match uri {
        _ if same => None,
        uri if uri.contains('$') || uri.contains('?') => return None,
        uri if uri.starts_with('/') => Some(uri.to_owned()),
        _ => return None,
    };
    let kind = usize::from(tls) + 2 * usize::from(grpc);
    let (endpoint, pool) = match site.shared.upstreams.get(authority.as_str()) {
        Some(_) if kind > 2 => return None,
        Some(upstream) => {
            let value = upstream.value(kind, false)?;
            let pool = matches!(&value, DraftValue::Text(text) if text.starts_with("pool:"));
            (value, pool)
        }
        None => (
            address(&authority, if tls { 443 } else { 80 })?.into(),
            false,
        ),
    };
    let host = match authority.starts_with("unix:") {
        true => "localhost".to_owned(),
        false => {
            let usual = if tls { ":443" } else { ":80" };
            authority
                .strip_suffix(usual)
                .unwrap_or(&authority)
                .to_owned()
        }
    };
    Some(NginxTarget {
        endpoint,
        tls,
        grpc,
        pool,
        host,
        uri,
    })
}

/// Of an endpoint that nginx does not verify.
const VERIFIED: &str =
    "the endpoint's certificate is verified: `tls.ca` takes an authority of your own";

/// `tls` to endpoints, and whether nginx verifies their certificates too.
fn endpoint_tls(scope: &NginxScope<'_>, verdicts: &NginxVerdicts) -> (NginxEndpointTls, bool) {
    let mut tls = NginxEndpointTls::new();
    if let Some(name) = scope.last("proxy_ssl_name") {
        let folded = scope.fold(name.arg(0), verdicts);
        if folded.contains('$') {
            verdicts.differs(name, "the name is that of the endpoint");
        } else {
            verdicts.converted(name);
            tls.push(("name", folded.into()));
        }
    }
    let verify = scope.last("proxy_ssl_verify");
    let is_verified = verify.is_some_and(|verify| verify.arg(0) == "on");
    if let Some(verify) = verify {
        match is_verified {
            true => verdicts.converted(verify),
            false => verdicts.differs(verify, VERIFIED),
        }
    }
    if let Some(ca) = scope.last("proxy_ssl_trusted_certificate") {
        if is_verified {
            tls.push(("ca", ca.arg(0).into()));
            verdicts.converted(ca);
        } else {
            verdicts.default(ca);
        }
    }
    (tls, is_verified)
}

/// The route of a `proxy_pass`.
pub(super) fn proxy_route<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    pass: &'a NginxDirective,
    path: &NginxPath,
    origin: &NginxDirective,
) -> Option<NginxRoute> {
    let verdicts = site.verdicts();
    let Some(target) = proxy_target(site, scope, pass) else {
        verdicts.refuse(
            pass,
            "its target has variables, or is no address: it cannot be known before the request",
            Some("write the address in `proxy`"),
        );
        return None;
    };
    let mut route = NginxRoute::new(&path.key, NginxAction::Proxy, origin);
    let mut verdict = Verdict::Converted;
    let mut keys = vec![("to", target.endpoint.clone())];
    if target.tls && !target.pool {
        let (mut tls, is_verified) = endpoint_tls(scope, verdicts);
        if !is_verified {
            verdict = Verdict::differs(VERIFIED);
        }
        if matches!(&target.endpoint, DraftValue::Text(text) if text.starts_with("unix:"))
            && tls.is_empty()
        {
            tls.push(("name", "localhost".into()));
        }
        keys.push(("tls", inline(tls)));
    } else if target.tls {
        let (tls, is_verified) = endpoint_tls(scope, verdicts);
        let has_name = tls.iter().any(|(key, _)| *key == "name");
        let upstream = site.shared.upstreams.get(target.host.as_str());
        if !upstream.is_some_and(|upstream| upstream.take_tls(&tls)) {
            verdict = Verdict::not_supported(
                "another route has other settings of TLS for the same endpoints: it counts here too",
                Some("write a [pool] of its own for it"),
            );
        } else if !is_verified {
            verdict = Verdict::differs(VERIFIED);
        } else if !has_name {
            verdict = Verdict::differs(
                "the certificate of an endpoint is verified for its own name, not for that of the upstream",
            );
        }
    }
    if target.grpc && !target.pool {
        keys.push(("protocol", if target.tls { "h2" } else { "h2c" }.into()));
    }
    match keys.len() {
        1 => route.set("proxy", target.endpoint.clone()),
        _ => route.set("proxy", inline(keys)),
    }
    // The path that the endpoint sees.
    let mut rewritten = false;
    for rewrite in scope.own("rewrite") {
        if path_rewrite(site, rewrite, path, &mut route) {
            rewritten = true;
        }
    }
    if let Some(uri) = target.uri.as_deref().filter(|_| !rewritten) {
        let folded = scope.fold(pass.arg(0), verdicts) != pass.arg(0);
        if folded && uri != "/" {
            verdicts.refuse(
                pass,
                "with variables nginx sends every request to the same path",
                None,
            );
            return None;
        }
        replace_path(path, uri, &mut route, &mut verdict);
    }
    verdicts.set(pass, verdict);
    request_fields(site, scope, &target, &mut route);
    deadlines(site, scope, &mut route);
    Some(route)
}

/// `proxy_pass http://x/uri`: the part of the path that the location matches becomes `/uri`.
fn replace_path(path: &NginxPath, uri: &str, route: &mut NginxRoute, verdict: &mut Verdict) {
    let base = path.base();
    if !path.is_prefix() {
        if uri != base {
            route.set("rewrite", uri);
        }
        return;
    }
    // What the location matches, as nginx has it: with its slash if it ends in one.
    let matched = if path.loose {
        base.to_owned()
    } else {
        format!("{base}/")
    };
    if matched == uri {
        return;
    }
    if matched.ends_with('/') == uri.ends_with('/') || base.is_empty() {
        let stem = uri.strip_suffix('/').unwrap_or(uri);
        if !uri.ends_with('/') && base.is_empty() {
            // `location / { proxy_pass http://x/a; }` joins without a slash.
            *verdict = Verdict::differs(format!(
                "the path goes below {uri}/, nginx leaves out the slash"
            ));
        }
        if stem.is_empty() {
            route.set("strip_prefix", true);
        } else {
            route.set("rewrite", format!("{stem}/{{*}}"));
        }
        return;
    }
    let stem = uri.strip_suffix('/').unwrap_or(uri);
    *verdict = Verdict::differs(format!(
        "the endpoint sees one slash where nginx, which puts {uri} in the place of {matched}, sends none or two"
    ));
    if stem.is_empty() {
        route.set("strip_prefix", true);
    } else {
        route.set("rewrite", format!("{stem}/{{*}}"));
    }
}

/// `rewrite ^/x/(.*) /y/$1 break;` in a location that is forwarded.
fn path_rewrite(
    site: &NginxSite<'_, '_>,
    rewrite: &NginxDirective,
    path: &NginxPath,
    route: &mut NginxRoute,
) -> bool {
    let verdicts = site.verdicts();
    let base = path.base();
    let from = rewrite.arg(0).replace("\\/", "/").replace("\\.", ".");
    let to = rewrite.arg(1);
    let starts = [
        format!("^{base}/(.*)$"),
        format!("^{base}/(.*)"),
        format!("{base}/(.*)"),
        format!("{base}/(.*)$"),
        format!("^{base}(/.*)$"),
        format!("^{base}/?(.*)$"),
        format!("^{base}/(.+)$"),
        format!("^{base}/(.+)"),
        format!("^{base}(.*)$"),
    ];
    let group_has_slash = from.contains("(/.*)") || from == format!("^{base}(.*)$");
    let stem = if group_has_slash {
        to.strip_suffix("$1")
    } else {
        to.strip_suffix("/$1")
    };
    let fits = path.is_prefix() && starts.contains(&from) && rewrite.arg(2) == "break";
    match stem.filter(|stem| fits && !stem.contains('$') && !stem.contains('?')) {
        Some("") if !base.is_empty() => route.set("strip_prefix", true),
        Some("") => {}
        Some(stem) if stem.starts_with('/') => route.set("rewrite", format!("{stem}/{{*}}")),
        _ => {
            verdicts.refuse(
                rewrite,
                "paths are changed by prefix alone: the endpoint sees the path of the request",
                Some("write rewrite = \"/v1/{*}\" or strip_prefix = true in a path table"),
            );
            return false;
        }
    }
    verdicts.converted(rewrite);
    true
}

/// `proxy_set_header`, and the Host that nginx sends without one.
fn request_fields<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    target: &NginxTarget,
    route: &mut NginxRoute,
) {
    let verdicts = site.verdicts();
    let name = if target.grpc {
        "grpc_set_header"
    } else {
        "proxy_set_header"
    };
    let mut host_is_set = false;
    for header in scope.nearest(name) {
        let field = header.arg(0).to_ascii_lowercase();
        let value = scope.fold(header.arg(1), verdicts);
        let variable = value
            .strip_prefix("${")
            .and_then(|v| v.strip_suffix('}'))
            .or_else(|| value.strip_prefix('$'))
            .filter(|v| v.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or("");
        host_is_set |= field == "host";
        match (field.as_str(), variable) {
            ("host", "http_host") => verdicts.default(header),
            ("host", "host") if matches!(site.words.port, 80 | 443) => verdicts.default(header),
            ("host", "host") => {
                verdicts.differs(
                    header,
                    "the endpoint gets Host as the client sent it, with the port",
                );
            }
            ("host", "server_name") if site.words.one_name => verdicts.default(header),
            ("host", "proxy_host") => {
                verdicts.converted(header);
                route.set_in("request_headers", "host", target.host.clone());
            }
            ("host", "")
                if matches!(
                    value.as_str(),
                    "${host}:${server_port}" | "$host:$server_port"
                ) =>
            {
                verdicts.differs(
                    header,
                    "the endpoint gets Host as the client sent it, without the usual port",
                );
            }
            ("x-forwarded-for", "proxy_add_x_forwarded_for" | "remote_addr") => {
                verdicts.default(header);
            }
            ("x-forwarded-proto", "scheme") | ("x-request-id", "request_id") => {
                verdicts.default(header);
            }
            ("x-forwarded-host", "server_name") if !site.words.one_name => verdicts.differs(
                header,
                "the endpoint gets the host that the client asked for, not the first name of the server",
            ),
            ("x-forwarded-host", "host" | "http_host" | "server_name") => verdicts.default(header),
            ("upgrade", "http_upgrade")
            | ("connection", "connection_upgrade" | "http_connection" | "connection_header") => {
                verdicts.default(header);
            }
            ("connection", "")
                if matches!(
                    value.to_ascii_lowercase().as_str(),
                    "" | "upgrade" | "keep-alive"
                ) =>
            {
                verdicts.default(header);
            }
            ("upgrade", "") if value.eq_ignore_ascii_case("websocket") => verdicts.default(header),
            ("content-length" | "transfer-encoding" | "te" | "trailer" | "keep-alive", _) => {
                verdicts.refuse(header, "Lockgate sets this field by itself", None);
            }
            ("x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host", variable)
                if variable.starts_with("http_") || variable.contains("forwarded") =>
            {
                verdicts.differs(
                    header,
                    "the client's own value is believed only if the client is in `trusted`",
                );
            }
            ("x-forwarded-proto", "") if value == "https" && site.words.tls => {
                verdicts.default(header);
            }
            (_, variable) if variable.strip_prefix("http_") == Some(&field.replace('-', "_")) => {
                verdicts.default(header); // forwarded as it came
            }
            (_, _) if value.is_empty() => {
                verdicts.converted(header);
                route.set_in("request_headers", &field, false);
            }
            _ => match with_placeholders(&value, &site.words) {
                Some(text) if valid_field(&field) => {
                    verdicts.converted(header);
                    route.set_in("request_headers", &field, text);
                }
                _ if scope.nearest("auth_request_set").iter().any(|set| {
                    set.arg(0).trim_start_matches('$') == variable && !variable.is_empty()
                }) =>
                {
                    // `auth.copy` has it.
                    if field.replace('-', "_") == upstream_field(scope, variable) {
                        verdicts.converted(header);
                    } else {
                        verdicts.refuse(header, "a field of the answer keeps its name", None);
                        route.set_in("request_headers", &field, false);
                    }
                }
                _ => {
                    // The client's own value must not pass for it.
                    if valid_field(&field) && field != "host" {
                        route.set_in("request_headers", &field, false);
                    }
                    verdicts.refuse(
                        header,
                        "this variable has no counterpart: the field is removed from requests",
                        Some("request_headers takes texts with {client}, {host}, {path}, {scheme}, {id}"),
                    );
                }
            },
        }
    }
    if !host_is_set {
        if target
            .host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
        {
            route.set_in("request_headers", "host", target.host.clone());
        } else {
            verdicts.note("An endpoint gets the Host of the request where nginx sends the name of the upstream.");
        }
    }
    for hide in scope.nearest("proxy_hide_header") {
        let field = hide.arg(0).to_ascii_lowercase();
        if valid_field(&field) {
            verdicts.converted(hide);
            if route.get("headers").is_none_or(|headers| {
                !matches!(headers, DraftValue::Inline(keys) if keys.iter().any(|(k, _)| *k == field))
            }) {
                route.set_in("headers", &field, false);
            }
        } else {
            verdicts.refuse(hide, "this field cannot be removed", None);
        }
    }
}

fn upstream_field(scope: &NginxScope<'_>, variable: &str) -> String {
    scope
        .nearest("auth_request_set")
        .iter()
        .find(|set| set.arg(0).trim_start_matches('$') == variable)
        .and_then(|set| set.arg(1).strip_prefix("$upstream_http_"))
        .unwrap_or_default()
        .to_owned()
}

/// Whether a field may be changed by a configuration.
pub(super) fn valid_field(name: &str) -> bool {
    const FIXED: &[&str] = &[
        "connection",
        "content-length",
        "transfer-encoding",
        "upgrade",
        "te",
        "trailer",
        "keep-alive",
        "proxy-connection",
        "date",
        "via",
    ];
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(plain) && !FIXED.contains(&name)
}

/// `proxy_connect_timeout` and `proxy_read_timeout`.
fn deadlines<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    for (name, key, usual) in [
        ("proxy_connect_timeout", "connect", 5_000),
        ("proxy_read_timeout", "response", 60_000),
        ("grpc_read_timeout", "response", 60_000),
    ] {
        let Some(timeout) = scope.last(name) else {
            continue;
        };
        match nginx_millis(timeout.arg(0)).filter(|millis| *millis > 0) {
            Some(millis) => {
                if millis != usual {
                    route.set_in("timeouts", key, duration(millis));
                }
                // Of an upgraded connection this is the time of silence.
                if key == "response" && millis > 3_600_000 {
                    route.set_in("timeouts", "tunnel_idle", duration(millis));
                }
                verdicts.converted(timeout);
            }
            None => verdicts.refuse(timeout, "this time cannot be read", None),
        }
    }
}
