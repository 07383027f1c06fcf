//! The static configuration: entry points, trusted proxies, timeouts and redirects.

use std::net::IpAddr;

use super::node::TraefikNode;
use super::statics::{TraefikEntryPoint, TraefikStatics};
use super::values::{duration, is_network, unreadable};
use crate::{ConversionReport, DraftTable, DraftValue, Verdict};

/// The port and address of a text such as `:443` or `127.0.0.1:80/tcp`.
fn address(text: &str) -> Option<(Option<IpAddr>, u16)> {
    let text = text.strip_suffix("/tcp").unwrap_or(text);
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host {
        "" | "*" | "0.0.0.0" => Some((None, port)),
        host => Some((Some(host.parse().ok()?), port)),
    }
}

/// Reads an entry point.
pub(super) fn entry_point(
    name: &str,
    node: &TraefikNode,
    statics: &mut TraefikStatics,
    top: &mut DraftTable,
    report: &mut ConversionReport,
) {
    let at = node
        .field("address")
        .or(Some(node).filter(|node| node.raw().is_some()));
    let parsed = at.and_then(TraefikNode::text).and_then(address);
    if let Some(at) = at {
        at.set(
            report,
            match (&parsed, at.raw()) {
                (Some(_), _) => Verdict::Converted,
                (None, Some(text)) if text.ends_with("/udp") => {
                    Verdict::not_supported("Lockgate does not relay UDP", None)
                }
                _ => unreadable(),
            },
        );
    }
    let Some((address, port)) = parsed else {
        if let Some(statement) = node.statement {
            report.set(
                statement,
                Verdict::not_supported("it has no address that Lockgate can listen on", None),
            );
        }
        return;
    };
    if let Some(statement) = node.statement {
        report.set(statement, Verdict::Converted);
    }
    let mut entry = TraefikEntryPoint {
        name: name.to_ascii_lowercase(),
        port,
        address,
        standard: false,
        redirect: None,
        tls: None,
        middlewares: Vec::new(),
        accept_proxy: false,
        node: Some(node.clone()),
    };
    for (key, node) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "asdefault" => {
                entry.standard = node.flag() == Some(true);
                node.set(report, Verdict::Converted);
            }
            "http" => {
                for (key, node) in node.fields() {
                    match key.to_ascii_lowercase().as_str() {
                        "tls" => {
                            entry.tls = Some(node.clone());
                        }
                        "middlewares" => {
                            entry.middlewares = node.items();
                            node.set(report, Verdict::Converted);
                        }
                        "encodequerysemicolons" | "sanitizepath" => {}
                        _ => {}
                    }
                }
            }
            "forwardedheaders" | "proxyprotocol" => {
                trust(key, node, &mut entry, statics, top, report);
            }
            "transport" => transport(node, top, report),
            "http3" | "enablehttp3" => node.mark(
                report,
                &Verdict::not_supported("this version has no HTTP/3", None),
            ),
            "http2" => {
                if let Some(streams) = node.field("maxConcurrentStreams") {
                    match streams.number().filter(|n| (1..=10_000).contains(n)) {
                        Some(128) => streams.set(report, Verdict::Default),
                        Some(number) => {
                            top.table("http2").set("streams", number);
                            streams.set(report, Verdict::Converted);
                        }
                        None => streams.set(report, unreadable()),
                    }
                }
            }
            "reuseport" | "allowacmebypass" => node.set(report, Verdict::Default),
            "udp" => node.mark(
                report,
                &Verdict::not_supported("Lockgate does not relay UDP", None),
            ),
            _ => {}
        }
    }
    statics.entry_points.push(entry);
}

fn trust(
    key: &str,
    node: &TraefikNode,
    entry: &mut TraefikEntryPoint,
    statics: &mut TraefikStatics,
    top: &mut DraftTable,
    report: &mut ConversionReport,
) {
    let proxy = key.eq_ignore_ascii_case("proxyProtocol");
    for (key, node) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "trustedips" => {
                let items = node.items();
                // A network of all addresses would let every client choose the address that rules see.
                let good: Vec<String> = items
                    .iter()
                    .filter(|ip| is_network(ip) && !ip.ends_with("/0"))
                    .cloned()
                    .collect();
                let mut list = match top.get("trusted") {
                    Some(DraftValue::List(list)) => list.clone(),
                    _ => Vec::new(),
                };
                for ip in &good {
                    if list.len() < 2_000 && !list.contains(&ip.as_str().into()) {
                        list.push(ip.as_str().into());
                    }
                }
                if !list.is_empty() {
                    top.set("trusted", DraftValue::List(list));
                    statics.trusted = true;
                    entry.accept_proxy |= proxy;
                }
                node.set(
                    report,
                    match good.len() == items.len() && !good.is_empty() && good.len() < 2_000 {
                        true if proxy => Verdict::differs(
                            "`trusted` holds for all entry points, and for X-Forwarded-For too",
                        ),
                        true => Verdict::Converted,
                        false => Verdict::not_supported(
                            "a network of it cannot be read, or is that of all addresses",
                            None,
                        ),
                    },
                );
            }
            "insecure" if node.flag() == Some(false) => node.set(report, Verdict::Default),
            "insecure" => node.set(
                report,
                Verdict::not_supported(
                    "Lockgate would let every client choose the address that rules see",
                    Some("name the proxies in front: trusted = [\"10.0.0.0/8\"]"),
                ),
            ),
            _ => {}
        }
    }
}

fn transport(node: &TraefikNode, top: &mut DraftTable, report: &mut ConversionReport) {
    let groups = node.fields().flat_map(|(_, group)| group.fields());
    let own = node.fields().filter(|(_, node)| !node.is_map());
    for (key, node) in groups.chain(own) {
        let value = node.text().and_then(duration);
        let verdict = match (key.to_ascii_lowercase().as_str(), value) {
            (_, None) => unreadable(),
            ("idletimeout", Some(time)) if time != "0s" => {
                top.table("timeouts").set("idle", time);
                Verdict::Converted
            }
            ("requestacceptgracetimeout", Some(time)) => {
                if time == "0s" {
                    Verdict::Default
                } else {
                    top.table("drain").set("delay", time);
                    Verdict::Converted
                }
            }
            ("gracetimeout", Some(time)) if time == "30s" => Verdict::Default,
            ("gracetimeout", Some(time)) if time != "0s" => {
                top.table("drain").set("deadline", time);
                Verdict::Converted
            }
            ("readtimeout" | "writetimeout", Some(time)) if time == "0s" => Verdict::Default,
            ("readtimeout" | "writetimeout", Some(_)) => Verdict::differs(
                "Lockgate ends slow clients by minimum rates (`rates`), not requests after a time",
            ),
            ("keepalivemaxrequests", Some(_)) => match node.number() {
                Some(0) | None => Verdict::Default,
                Some(number) => {
                    top.table("limits").set("requests", number);
                    Verdict::Converted
                }
            },
            _ => Verdict::not_supported("Lockgate has no such limit", None),
        };
        node.set(report, verdict);
    }
}

/// Redirects of entry points, once all are known; and the ports of sites.
pub(super) fn redirections(statics: &mut TraefikStatics, report: &mut ConversionReport) {
    let ports: Vec<(String, u16)> = statics
        .entry_points
        .iter()
        .map(|entry| (entry.name.clone(), entry.port))
        .collect();
    for entry in &mut statics.entry_points {
        let Some(node) = entry
            .node
            .as_ref()
            .and_then(|node| node.at(&["http", "redirections", "entryPoint"]))
        else {
            continue;
        };
        let to = node.field("to").and_then(TraefikNode::text).unwrap_or("");
        let lower = to.to_ascii_lowercase();
        let named = ports.iter().find(|(name, _)| *name == lower);
        let port = match to.strip_prefix(':') {
            Some(port) => port.parse().ok(),
            None => named.map(|(_, port)| *port),
        };
        let scheme = node.field("scheme").and_then(TraefikNode::text);
        let https = scheme.is_none_or(|scheme| scheme == "https");
        let Some(port) = port.filter(|_| https && node.field("to").is_some()) else {
            // The routers of this entry point must not be served instead.
            entry.redirect = Some(0);
            node.mark(
                report,
                &Verdict::not_supported(
                    "it redirects to a port that these files do not have: nothing is served there",
                    None,
                ),
            );
            continue;
        };
        entry.redirect = Some(port);
        for (key, node) in node.fields() {
            let verdict = match key.to_ascii_lowercase().as_str() {
                "permanent" if node.flag() == Some(false) => {
                    Verdict::differs("Lockgate redirects with the permanent status 308")
                }
                "to" | "scheme" | "permanent" => Verdict::Default,
                "priority" => Verdict::differs("no router comes before the redirect"),
                _ => continue,
            };
            node.set(report, verdict);
        }
    }
}
