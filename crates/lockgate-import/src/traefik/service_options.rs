//! Options of services: active checks, TLS and timeouts of their servers.

use super::node::{TraefikNode, is_known};
use super::source::TraefikItem;
use super::upstream::TraefikUpstream;
use super::values::{duration, unreadable, url};
use crate::{ConversionReport, DraftValue, Verdict};

/// Reads active checks.
pub(super) fn health(
    node: &TraefikNode,
    upstream: &mut TraefikUpstream,
    report: &mut ConversionReport,
) {
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    let path = node
        .field("path")
        .and_then(TraefikNode::text)
        .filter(|path| path.starts_with('/'));
    let Some(path) = path else {
        node.mark(report, &unreadable());
        return;
    };
    keys.push(("path".to_owned(), path.into()));
    let (mut every, mut timeout) = ("30s".to_owned(), "5s".to_owned());
    for (key, node) in node.fields() {
        let time = node.text().and_then(duration);
        let verdict = match key.to_ascii_lowercase().as_str() {
            "path" => Verdict::Converted,
            "interval" | "timeout" => match time {
                Some(time) if time != "0s" => {
                    match key.eq_ignore_ascii_case("interval") {
                        true => every = time,
                        false => timeout = time,
                    }
                    Verdict::Converted
                }
                _ => unreadable(),
            },
            "port" => match node.number().filter(|port| (1..=65535).contains(port)) {
                Some(port) => {
                    keys.push(("port".to_owned(), port.into()));
                    Verdict::Converted
                }
                None => unreadable(),
            },
            "method" => match node.text() {
                Some("GET" | "") => Verdict::Default,
                Some(method) if method.bytes().all(|b| b.is_ascii_uppercase()) => {
                    keys.push(("method".to_owned(), method.into()));
                    Verdict::Converted
                }
                _ => unreadable(),
            },
            "status" => match node.number().filter(|status| (100..600).contains(status)) {
                Some(status) => {
                    keys.push(("expect".to_owned(), vec![status.to_string()].into()));
                    Verdict::Converted
                }
                None => unreadable(),
            },
            "followredirects" | "unhealthyinterval" => Verdict::differs(
                "a redirect counts as a success, and an endpoint that is down is asked as often",
            ),
            "scheme" if node.text() == Some("http") && upstream.tls.is_none() => Verdict::Default,
            "mode" if matches!(node.text(), Some("http" | "")) => Verdict::Default,
            "scheme" | "hostname" | "headers" | "mode" => {
                node.mark(
                    report,
                    &Verdict::not_supported(
                        "checks are sent as the requests of the pool, with the endpoint as Host",
                        None,
                    ),
                );
                continue;
            }
            _ => continue,
        };
        node.set(report, verdict);
    }
    keys.push(("every".to_owned(), every.into()));
    keys.push(("timeout".to_owned(), timeout.into()));
    // Traefik takes a server out after one failure, and back after one success.
    keys.push(("fall".to_owned(), 1_i64.into()));
    keys.push(("rise".to_owned(), 1_i64.into()));
    upstream
        .pool
        .push(("health".to_owned(), DraftValue::Inline(keys)));
}

/// Sets a key of TLS to servers of https; for those of http it has no effect.
fn tls_key(tls: &mut Option<Vec<(String, DraftValue)>>, key: &str, value: DraftValue) -> Verdict {
    match tls {
        Some(keys) => {
            keys.push((key.to_owned(), value));
            Verdict::Converted
        }
        None => Verdict::Default,
    }
}

/// Reads a transport: TLS, timeouts and idle connections of the endpoints.
pub(super) fn transport(
    node: &TraefikNode,
    upstream: &mut TraefikUpstream,
    report: &mut ConversionReport,
) -> Result<(), String> {
    let mut broken = None;
    if let Some(statement) = node.statement {
        report.set(statement, Verdict::Converted);
    }
    for (key, node) in node.fields() {
        let text = node.text().unwrap_or("").to_owned();
        let verdict = match key.to_ascii_lowercase().as_str() {
            "servername" if !text.is_empty() => tls_key(&mut upstream.tls, "name", text.into()),
            "insecureskipverify" if node.flag() == Some(true) && upstream.tls.is_some() => {
                Verdict::differs(
                    "Lockgate always verifies: name the authority, tls = { ca = \"FILE\" }, and perhaps the `name`",
                )
            }
            "insecureskipverify" => Verdict::Default,
            "rootcas" => match node.items().as_slice() {
                [ca] if is_known(ca) && !ca.contains("-----") => {
                    tls_key(&mut upstream.tls, "ca", ca.as_str().into())
                }
                _ => Verdict::not_supported("Lockgate takes one file of authorities", None),
            },
            "certificates" => {
                broken = Some("its servers ask for a certificate of the proxy".to_owned());
                node.mark(
                    report,
                    &Verdict::not_supported("Lockgate shows endpoints no certificate", None),
                );
                continue;
            }
            "forwardingtimeouts" => {
                for (key, node) in node.fields() {
                    let time = node.text().and_then(duration);
                    let verdict = match (key.to_ascii_lowercase().as_str(), time) {
                        (_, None) => unreadable(),
                        ("dialtimeout", Some(time)) if time != "0s" => {
                            upstream.timeouts.push(("connect".to_owned(), time.into()));
                            Verdict::Converted
                        }
                        ("responseheadertimeout", Some(time)) => {
                            let time = if time == "0s" { "off".to_owned() } else { time };
                            upstream.timeouts.push(("response".to_owned(), time.into()));
                            Verdict::Converted
                        }
                        ("idleconntimeout", Some(time)) if time != "0s" => {
                            let keys = vec![("for".to_owned(), time.into())];
                            upstream
                                .pool
                                .push(("idle".to_owned(), DraftValue::Inline(keys)));
                            Verdict::Converted
                        }
                        _ => Verdict::not_supported("Lockgate has no such limit", None),
                    };
                    node.set(report, verdict);
                }
                continue;
            }
            "maxidleconnsperhost" => {
                Verdict::differs("each worker keeps up to 256 idle connections to an endpoint")
            }
            "disablehttp2" => Verdict::Default,
            _ => continue,
        };
        node.set(report, verdict);
    }
    broken.map_or(Ok(()), Err)
}

/// The server of a container's labels.
pub(super) fn label_server(
    node: &TraefikNode,
    item: &TraefikItem,
    report: &mut ConversionReport,
) -> Result<(String, String), String> {
    if let Some((scheme, address, _)) = node.field("url").and_then(TraefikNode::text).and_then(url)
    {
        node.mark(report, &Verdict::Converted);
        return Ok((scheme.to_owned(), address));
    }
    let scheme = node.field("scheme").map_or(Some("http"), TraefikNode::text);
    let scheme = scheme.filter(|scheme| matches!(*scheme, "http" | "https" | "h2c"));
    let port = node
        .field("port")
        .map(|node| node.number().and_then(|port| u16::try_from(port).ok()));
    let container = item
        .container
        .as_ref()
        .ok_or_else(|| "it is no container".to_owned())?;
    let port = match port {
        Some(port) => port.filter(|port| *port > 0),
        None => Some(container.ports.first().copied().unwrap_or(80)),
    };
    let (Some(scheme), Some(port)) = (scheme, port) else {
        node.mark(report, &unreadable());
        return Err("the port or scheme of its container is not known here".to_owned());
    };
    let verdict = match node.field("port") {
        Some(_) => Verdict::Converted,
        None => Verdict::differs(format!(
            "Traefik takes the port of the image: correct {}:{port} if it is another",
            container.name
        )),
    };
    node.mark(report, &verdict);
    Ok((scheme.to_owned(), format!("{}:{port}", container.name)))
}
