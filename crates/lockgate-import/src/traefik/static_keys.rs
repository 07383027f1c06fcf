//! The keys of the static configuration: entry points, logs, metrics, timeouts, providers.

use super::entry_points::{entry_point, redirections};
use super::node::TraefikNode;
use super::static_logs::{access_log, log};
use super::statics::{PAGE, TraefikStatics};
use super::values::duration;
use crate::{ConversionReport, DraftTable, Verdict};

/// Reads the static configuration and writes the keys at the top.
pub(super) fn read(
    root: &TraefikNode,
    top: &mut DraftTable,
    report: &mut ConversionReport,
) -> TraefikStatics {
    let mut statics = TraefikStatics {
        exposed_by_default: true,
        ..TraefikStatics::default()
    };
    for (name, node) in root
        .field("entryPoints")
        .iter()
        .flat_map(|node| node.fields())
    {
        entry_point(name, node, &mut statics, top, report);
    }
    redirections(&mut statics, report);
    for (key, node) in root.fields() {
        match key.to_ascii_lowercase().as_str() {
            "global" => global(node, report),
            "log" => log(node, top, report),
            "accesslog" => access_log(node, top, report),
            "providers" => providers(node, &mut statics, top, report),
            "api" => api(node, &mut statics, report),
            "ping" => {
                needs_metrics(node, &mut statics);
                node.mark(
                    report,
                    &Verdict::differs("Lockgate answers /health and /ready at the address of `metrics`, on this machine alone"),
                );
            }
            "metrics" => metrics(node, &mut statics, report),
            "serverstransport" => transport_of_all(node, top, report),
            "tracing" => node.mark(
                report,
                &Verdict::not_supported(
                    "Lockgate does not send traces",
                    Some("trace = true in a site begins traces that the applications record"),
                ),
            ),
            "experimental" => {
                for (key, node) in node.fields() {
                    let verdict = if key.eq_ignore_ascii_case("http3") {
                        Verdict::not_supported("this version has no HTTP/3", None)
                    } else {
                        Verdict::not_supported("Lockgate has no plugins", None)
                    };
                    node.mark(report, &verdict);
                }
            }
            "pilot" | "configfile" => node.mark(report, &Verdict::Default),
            "frontends" | "backends" | "defaultentrypoints" | "acme" | "docker" | "file" => node.mark(
                report,
                &Verdict::not_supported(
                    "it is a key of Traefik 1",
                    Some("let Traefik's migration guide bring the configuration to version 2 first"),
                ),
            ),
            _ => {}
        }
    }
    statics
}

/// Settings of all endpoints.
fn transport_of_all(node: &TraefikNode, top: &mut DraftTable, report: &mut ConversionReport) {
    for (key, node) in node.fields() {
        let verdict = match key.to_ascii_lowercase().as_str() {
            "insecureskipverify" if node.flag() == Some(false) => Verdict::Default,
            "insecureskipverify" => Verdict::differs(
                "endpoints with TLS are always verified: name their authority in the pool, tls = { ca = \"FILE\" }",
            ),
            "maxidleconnsperhost" => {
                Verdict::differs("each worker keeps up to 256 idle connections to an endpoint")
            }
            "forwardingtimeouts" => {
                for (key, node) in node.fields() {
                    let time = node.text().and_then(duration);
                    let verdict = match (key.to_ascii_lowercase().as_str(), time) {
                        ("dialtimeout", Some(time)) if time != "0s" => {
                            top.table("timeouts").set("connect", time);
                            Verdict::Converted
                        }
                        ("responseheadertimeout", Some(time)) => {
                            let time = if time == "0s" { "off".to_owned() } else { time };
                            top.table("timeouts").set("response", time);
                            Verdict::Converted
                        }
                        _ => Verdict::not_supported(
                            "idle connections are a matter of pools",
                            Some("idle = { for = \"90s\" } in the pool"),
                        ),
                    };
                    node.set(report, verdict);
                }
                continue;
            }
            _ => Verdict::not_supported(
                "Lockgate has no settings for all endpoints together",
                Some("write them in the pools: tls = { ca = \"FILE\" }"),
            ),
        };
        node.mark(report, &verdict);
    }
}

fn global(node: &TraefikNode, report: &mut ConversionReport) {
    for (key, node) in node.fields() {
        let verdict = match key.to_ascii_lowercase().as_str() {
            "checknewversion" if node.flag() == Some(true) => {
                Verdict::differs("Lockgate does not look for new versions")
            }
            "sendanonymoususage" if node.flag() == Some(true) => {
                Verdict::differs("Lockgate sends no statistics anywhere")
            }
            "checknewversion" | "sendanonymoususage" => Verdict::Default,
            _ => continue,
        };
        node.set(report, verdict);
    }
    node.set_own(report, Verdict::Default);
}

/// Where a page of Traefik is: at an entry point, or at one of our own.
fn needs_metrics(node: &TraefikNode, statics: &mut TraefikStatics) {
    let named = node.field("entryPoint").and_then(TraefikNode::text);
    let entry = named.and_then(|name| statics.entry_point(name));
    let own = entry.filter(|entry| !matches!(entry.port, 80 | 443) && entry.redirect.is_none());
    // Lockgate's page shows clients, so that it is for this machine alone.
    let address = own.map(|entry| format!("127.0.0.1:{}", entry.port));
    match (&statics.metrics, address) {
        (None, address) => {
            statics.metrics = Some(address.unwrap_or_else(|| PAGE.to_owned()));
        }
        (Some(known), Some(address)) if known == PAGE => statics.metrics = Some(address),
        _ => {}
    }
}

fn metrics(node: &TraefikNode, statics: &mut TraefikStatics, report: &mut ConversionReport) {
    for (key, node) in node.fields() {
        if key.eq_ignore_ascii_case("prometheus") {
            needs_metrics(node, statics);
            node.mark(
                report,
                &Verdict::differs(
                    "its metrics have the names of Lockgate, at the address of `metrics`, on this machine alone",
                ),
            );
        } else {
            node.mark(
                report,
                &Verdict::not_supported(
                    "Lockgate does not send metrics",
                    Some("let a collector such as Telegraf read /metrics"),
                ),
            );
        }
    }
}

fn api(node: &TraefikNode, statics: &mut TraefikStatics, report: &mut ConversionReport) {
    let page = "Lockgate's own live page is at the address of `metrics`";
    if node.field("insecure").and_then(TraefikNode::flag) == Some(true) {
        needs_metrics(node, statics);
    }
    for (key, node) in node.fields() {
        let on = node.flag() == Some(true);
        let verdict = match key.to_ascii_lowercase().as_str() {
            "insecure" if on => Verdict::differs(format!("{page}, on this machine alone")),
            "dashboard" if on => continue,
            "insecure" | "dashboard" | "debug" if node.flag() == Some(false) => Verdict::Default,
            "disabledashboardad" => Verdict::Default,
            "debug" => Verdict::not_supported("Lockgate has no profiling addresses", None),
            _ => continue,
        };
        node.set(report, verdict);
    }
}

fn providers(
    node: &TraefikNode,
    statics: &mut TraefikStatics,
    top: &mut DraftTable,
    report: &mut ConversionReport,
) {
    for (key, node) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "docker" | "swarm" => {
                node.set_own(report, Verdict::differs(CONTAINERS));
                for (key, node) in node.fields() {
                    let verdict = match key.to_ascii_lowercase().as_str() {
                        "exposedbydefault" => {
                            statics.exposed_by_default = node.flag() != Some(false);
                            Verdict::Converted
                        }
                        "watch" if node.flag() == Some(false) => Verdict::Default,
                        "watch" => Verdict::differs(CONTAINERS),
                        "endpoint" => Verdict::Default,
                        "network"
                        | "swarmmode"
                        | "swarmmoderefreshseconds"
                        | "refreshseconds"
                        | "httpclienttimeout"
                        | "usebindportip"
                        | "allowemptyservices" => Verdict::Default,
                        "defaultrule" => Verdict::not_supported(
                            "routers without a rule are left out",
                            Some("write a site for each of their containers"),
                        ),
                        "constraints" => Verdict::not_supported(
                            "every container of the Compose files counts that is enabled",
                            None,
                        ),
                        _ => continue,
                    };
                    node.set(report, verdict);
                }
            }
            "file" => {
                for (key, node) in node.fields() {
                    match key.to_ascii_lowercase().as_str() {
                        "watch" if node.flag() == Some(true) => {
                            top.set("reload", "watch");
                            node.set(report, Verdict::Converted);
                        }
                        "watch" | "debugloggeneratedtemplate" => node.set(report, Verdict::Default),
                        _ => {}
                    }
                }
            }
            "providersthrottleduration" => node.set(report, Verdict::Default),
            _ => node.mark(
                report,
                &Verdict::not_supported("Lockgate takes its configuration from files alone", None),
            ),
        }
    }
}

const CONTAINERS: &str = "the containers are those of the Compose files that were imported: Lockgate does not ask Docker for new ones";
