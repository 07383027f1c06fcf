//! The static configuration: entry points, logs, metrics, timeouts, providers.

use std::net::IpAddr;

use super::node::TraefikNode;
use crate::{ConversionReport, DraftTable, DraftValue, Verdict};

/// A listener of Traefik.
#[derive(Debug, Clone)]
pub(super) struct TraefikEntryPoint {
    /// Its name, in lower case.
    pub(super) name: String,
    /// Its port.
    pub(super) port: u16,
    /// Its address, if it is not every one.
    pub(super) address: Option<IpAddr>,
    /// Whether a router without entry points is on it.
    pub(super) standard: bool,
    /// The port of TLS that it redirects everything to.
    pub(super) redirect: Option<u16>,
    /// TLS of all its routers.
    pub(super) tls: Option<TraefikNode>,
    /// Middlewares of all its routers.
    pub(super) middlewares: Vec<String>,
    /// Whether clients may send a PROXY header.
    pub(super) accept_proxy: bool,
    /// Where it is defined.
    pub(super) node: Option<TraefikNode>,
}

/// What later steps need of the static configuration.
#[derive(Debug, Default)]
pub(super) struct TraefikStatics {
    /// The entry points.
    pub(super) entry_points: Vec<TraefikEntryPoint>,
    /// Whether every container with labels counts.
    pub(super) exposed_by_default: bool,
    /// The address of metrics, once something needs it.
    pub(super) metrics: Option<String>,
    /// Whether proxies in front are trusted.
    pub(super) trusted: bool,
    /// `ports` that are not 80 and 443.
    pub(super) http_port: u16,
    /// Likewise, for TLS.
    pub(super) https_port: u16,
}

/// What is said of a value that cannot be read.
pub(super) fn unreadable() -> Verdict {
    Verdict::not_supported("its value cannot be read, or is not known here", None)
}

/// A duration of Go, or seconds, in Lockgate's units.
pub(super) fn duration(text: &str) -> Option<String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(format!("{seconds}s"));
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let unit = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let factor = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = after;
    }
    Some(match total {
        total if text.is_empty() || total > 366 * 86_400_000 => return None,
        total if total % 3_600_000 == 0 && total > 0 => format!("{}h", total / 3_600_000),
        total if total % 60_000 == 0 && total > 0 => format!("{}m", total / 60_000),
        total if total % 1_000 == 0 => format!("{}s", total / 1_000),
        total => format!("{total}ms"),
    })
}

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
                    &Verdict::differs("Lockgate answers /health and /ready at the address of `metrics`"),
                );
            }
            "metrics" => metrics(node, &mut statics, report),
            "serverstransport" => node.mark_rest(
                report,
                &Verdict::not_supported(
                    "Lockgate has no settings for all endpoints together",
                    Some("write them in the pools: tls = { ca = \"…\" }, idle = { max = 100 }"),
                ),
            ),
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
            "pilot" => node.mark(report, &Verdict::Default),
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
    node.set_if_leaf(report, Verdict::Default);
}

fn log(node: &TraefikNode, top: &mut DraftTable, report: &mut ConversionReport) {
    node.set_if_leaf(report, Verdict::Default);
    let (mut level, mut format) = (None, None);
    for (key, node) in node.fields() {
        let text = node.text().unwrap_or("").to_ascii_lowercase();
        let verdict = match (key.to_ascii_lowercase().as_str(), text.as_str()) {
            ("level", "debug" | "warn" | "error") => {
                level = Some(text);
                Verdict::Converted
            }
            ("level", "warning") => {
                level = Some("warn".to_owned());
                Verdict::Converted
            }
            ("level", "info") => Verdict::Default,
            ("level", "fatal" | "panic") => {
                level = Some("error".to_owned());
                Verdict::differs("the least that Lockgate logs are errors")
            }
            ("level", "trace") => {
                level = Some("debug".to_owned());
                Verdict::differs("the most that Lockgate logs is the level debug")
            }
            ("format", "json") => {
                format = Some("json");
                Verdict::Converted
            }
            ("format", "common" | "text") | ("nocolor", _) => Verdict::Default,
            ("filepath", "/proc/self/fd/1" | "/dev/stdout" | "/dev/stderr" | "")
                if node.text().is_some() =>
            {
                Verdict::Default
            }
            ("filepath", _) => Verdict::differs(
                "the operator log goes to stderr, which journald or the container's log keeps",
            ),
            ("maxsize" | "maxage" | "maxbackups" | "compress", _) => {
                Verdict::not_supported("the operator log is no file that could be rotated", None)
            }
            _ => unreadable(),
        };
        node.set(report, verdict);
    }
    match (level, format) {
        (Some(level), None) => top.set("log", level),
        (level, Some(format)) => {
            let mut keys: Vec<(String, DraftValue)> = Vec::new();
            keys.extend(level.map(|level| ("level".to_owned(), level.into())));
            keys.push(("format".to_owned(), format.into()));
            top.set("log", DraftValue::Inline(keys));
        }
        (None, None) => {}
    }
}

fn access_log(node: &TraefikNode, top: &mut DraftTable, report: &mut ConversionReport) {
    node.set_if_leaf(report, Verdict::Converted);
    let (mut to, mut json) = (None, false);
    for (key, node) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "filepath" => match node.text().filter(|text| !text.is_empty()) {
                Some("/dev/stdout" | "/proc/self/fd/1") => node.set(report, Verdict::Default),
                Some(path) => {
                    to = Some(match path.contains('/') {
                        true => path.to_owned(),
                        false => format!("./{path}"),
                    });
                    node.set(report, Verdict::Converted);
                }
                None => node.set(report, unreadable()),
            },
            "format" => match node.text() {
                Some("json") => {
                    json = true;
                    node.set(report, Verdict::Default);
                }
                Some("common" | "genericCLF") => node.set(report, Verdict::Converted),
                _ => node.set(report, unreadable()),
            },
            "bufferingsize" => node.set(report, Verdict::Default),
            "addinternals" => node.set(report, Verdict::Default),
            "fields" => fields(node, report),
            "filters" => node.mark(
                report,
                &Verdict::not_supported(
                    "Lockgate logs every request, or a share of the successful ones",
                    Some("access_log = { sample = \"10%\" } keeps all failures"),
                ),
            ),
            _ => {}
        }
    }
    match (to, json) {
        (None, true) => {}
        (Some(to), true) => top.set("access_log", to),
        (None, false) => top.set(
            "access_log",
            DraftValue::Inline(vec![("format".to_owned(), "combined".into())]),
        ),
        (Some(to), false) => top.set("access_log", format!("combined:{to}")),
    }
}

/// Fields of the access log: Lockgate has a fixed set without secrets.
fn fields(node: &TraefikNode, report: &mut ConversionReport) {
    let keep = |node: &TraefikNode| {
        node.text()
            .is_some_and(|text| text.eq_ignore_ascii_case("keep"))
    };
    for (key, inner) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "defaultmode" if keep(inner) => inner.set(report, Verdict::Default),
            "headers" => {
                for (key, mode) in inner.fields() {
                    if key.eq_ignore_ascii_case("defaultmode") && !keep(mode) {
                        mode.set(report, Verdict::Default);
                    }
                    for (name, mode) in mode.fields() {
                        let name = name.to_ascii_lowercase();
                        let secret =
                            matches!(name.as_str(), "authorization" | "cookie" | "set-cookie");
                        if secret && !keep(mode) {
                            mode.set(report, Verdict::Default);
                        }
                        if keep(mode) && matches!(name.as_str(), "user-agent" | "referer") {
                            mode.set(report, Verdict::Default);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    node.mark_rest(
        report,
        &Verdict::not_supported("the fields of the access log are fixed", None),
    );
}

/// Where a page of Traefik is: at an entry point, or at one of our own.
fn needs_metrics(node: &TraefikNode, statics: &mut TraefikStatics) {
    let named = node.field("entryPoint").and_then(TraefikNode::text);
    let entry = named.and_then(|name| statics.entry_point(name));
    let own = entry.filter(|entry| !matches!(entry.port, 80 | 443) && entry.redirect.is_none());
    let address = own.map(|entry| match entry.address {
        Some(address) => std::net::SocketAddr::new(address, entry.port).to_string(),
        None => format!(":{}", entry.port),
    });
    match (&statics.metrics, address) {
        (None, address) => {
            statics.metrics = Some(address.unwrap_or_else(|| "127.0.0.1:9090".to_owned()));
        }
        (Some(known), Some(address)) if known.starts_with("127.") => {
            statics.metrics = Some(address)
        }
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
                    "its metrics have the names of Lockgate, at the address of `metrics`",
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
    node.set_if_leaf(report, Verdict::differs(page));
    for (key, node) in node.fields() {
        let on = node.flag() == Some(true);
        let verdict = match key.to_ascii_lowercase().as_str() {
            "insecure" if on => Verdict::differs(format!("{page}, on this machine alone")),
            "dashboard" if on => Verdict::differs(page),
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
                node.set_if_leaf(report, Verdict::differs(CONTAINERS));
                for (key, node) in node.fields() {
                    let verdict = match key.to_ascii_lowercase().as_str() {
                        "exposedbydefault" => {
                            statics.exposed_by_default = node.flag() != Some(false);
                            Verdict::Converted
                        }
                        "watch" if node.flag() == Some(false) => Verdict::Default,
                        "watch" => Verdict::differs(CONTAINERS),
                        "endpoint" => Verdict::differs(CONTAINERS),
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

impl TraefikStatics {
    /// The entry point of this name.
    pub(super) fn entry_point(&self, name: &str) -> Option<&TraefikEntryPoint> {
        let name = name.to_ascii_lowercase();
        self.entry_points.iter().find(|entry| entry.name == name)
    }
}

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

fn entry_point(
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
                let good: Vec<String> = items.iter().filter(|ip| is_network(ip)).cloned().collect();
                let mut list = match top.get("trusted") {
                    Some(DraftValue::List(list)) => list.clone(),
                    _ => Vec::new(),
                };
                for ip in &good {
                    if !list.contains(&ip.as_str().into()) {
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
                    match good.len() == items.len() && !good.is_empty() {
                        true if proxy => Verdict::differs(
                            "`trusted` holds for all entry points, and for X-Forwarded-For too",
                        ),
                        true => Verdict::Converted,
                        false => {
                            Verdict::not_supported("not every network of it can be read", None)
                        }
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

/// Whether a text is an address or a network.
pub(super) fn is_network(text: &str) -> bool {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
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
fn redirections(statics: &mut TraefikStatics, report: &mut ConversionReport) {
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
