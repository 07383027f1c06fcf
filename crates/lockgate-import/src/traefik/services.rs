//! Services: where requests go, as an address, a list or a pool.

use std::collections::HashMap;
use std::rc::Rc;

use super::node::TraefikNode;
use super::service_options::{health, label_server, transport};
use super::source::{TraefikItem, TraefikSource};
use super::upstream::{TraefikEndpoint, TraefikUpstream};
use super::values::{unreadable, url};
use crate::{ConversionReport, DraftTable, DraftValue, Verdict};

/// What a service is.
#[derive(Debug, Clone)]
pub(super) enum TraefikService {
    /// Endpoints.
    Upstream(Rc<TraefikUpstream>),
    /// A service of Traefik itself, without `@internal`.
    Internal(String),
    /// It cannot be reached: why.
    Broken(String),
}

/// The services that were read, and the pools that were written.
#[derive(Debug, Default)]
pub(super) struct TraefikServices {
    known: HashMap<String, TraefikService>,
    pools: HashMap<String, String>,
    names: std::collections::HashSet<String>,
}

/// How deep services may refer to other ones.
const MAX_REFERENCES: usize = 16;

impl TraefikServices {
    /// The service of a name.
    pub(super) fn find(
        &mut self,
        name: &str,
        provider: &str,
        source: &TraefikSource,
        report: &mut ConversionReport,
    ) -> TraefikService {
        if let Some(internal) = name.strip_suffix("@internal") {
            return TraefikService::Internal(internal.to_ascii_lowercase());
        }
        let Some(item) = source.services.find(name, provider) else {
            return TraefikService::Broken(format!("no file here defines the service {name}"));
        };
        let key = format!("{}@{}", item.name, item.provider);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = match read(item, source, report, 0) {
            Ok(mut upstream) => {
                upstream.place = item.node.place.to_string();
                TraefikService::Upstream(Rc::new(upstream))
            }
            Err(why) => TraefikService::Broken(why),
        };
        self.known.insert(key, found.clone());
        found
    }

    /// A service of a container without labels of services: its port is not known for certain.
    pub(super) fn container(&self, item: &TraefikItem) -> (TraefikService, Option<Verdict>) {
        let Some(container) = &item.container else {
            return (TraefikService::Broken("it has no service".to_owned()), None);
        };
        let (port, verdict) = match container.ports.as_slice() {
            [port] => (*port, None),
            [port, ..] => (
                *port,
                Some(Verdict::differs(format!(
                    "Traefik takes the lowest port of the image: {port} is the lowest in this file"
                ))),
            ),
            [] => (
                80,
                Some(Verdict::differs(format!(
                    "Traefik takes the port that the image exposes, which this file does not say: correct {}:80 if it is another",
                    container.name
                ))),
            ),
        };
        let upstream = TraefikUpstream {
            endpoints: vec![TraefikEndpoint {
                address: format!("{}:{port}", container.name),
                weight: 1,
                backup: false,
            }],
            ..TraefikUpstream::default()
        };
        (TraefikService::Upstream(Rc::new(upstream)), verdict)
    }

    /// The value of `proxy`; a pool that it needs is written.
    pub(super) fn proxy(
        &mut self,
        name: &str,
        upstream: &TraefikUpstream,
        more: &[(String, DraftValue)],
        pools: &mut DraftTable,
    ) -> DraftValue {
        let mut tls: Vec<(String, DraftValue)> = Vec::new();
        tls.extend(
            upstream
                .tls
                .clone()
                .map(|tls| ("tls".to_owned(), DraftValue::Inline(tls))),
        );
        tls.extend(
            upstream
                .protocol
                .map(|protocol| ("protocol".to_owned(), protocol.into())),
        );
        let plain = |endpoint: &TraefikEndpoint| endpoint.weight == 1 && !endpoint.backup;
        let endpoints: Vec<DraftValue> = upstream
            .endpoints
            .iter()
            .map(|endpoint| match plain(endpoint) {
                true => endpoint.address.as_str().into(),
                false => {
                    let mut keys = vec![("addr".to_owned(), endpoint.address.as_str().into())];
                    if endpoint.weight != 1 {
                        keys.push(("weight".to_owned(), endpoint.weight.into()));
                    }
                    if endpoint.backup {
                        keys.push(("backup".to_owned(), true.into()));
                    }
                    DraftValue::Inline(keys)
                }
            })
            .collect();
        if let ([endpoint @ DraftValue::Text(_)], true, true) = (
            endpoints.as_slice(),
            upstream.pool.is_empty(),
            more.is_empty(),
        ) {
            if tls.is_empty() {
                return endpoint.clone();
            }
            let mut keys = vec![("to".to_owned(), endpoint.clone())];
            keys.extend(tls);
            return DraftValue::Inline(keys);
        }
        let mut table = DraftTable::default();
        table.set("endpoints", DraftValue::List(endpoints));
        for (key, value) in tls.iter().chain(&upstream.pool).chain(more) {
            table.set(key, value.clone());
        }
        // One text for each pool: the same one is written once.
        let written = format!("{table:?}");
        if let Some(known) = self.pools.get(&written) {
            return format!("pool:{known}").into();
        }
        if !upstream.place.is_empty() {
            table.comments.push(upstream.place.clone());
        }
        let base: String = name
            .split('@')
            .next()
            .unwrap_or("")
            .chars()
            .map(
                |c| match c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                    true => c,
                    false => '-',
                },
            )
            .collect();
        let base = match base.is_empty() {
            true => "app".to_owned(),
            false => base,
        };
        let mut unique = base.clone();
        let mut number = 2;
        while self.names.contains(&unique) {
            unique = format!("{base}-{number}");
            number += 1;
        }
        self.names.insert(unique.clone());
        pools.append_table(&unique, table);
        self.pools.insert(written, unique.clone());
        format!("pool:{unique}").into()
    }
}

fn read(
    item: &TraefikItem,
    source: &TraefikSource,
    report: &mut ConversionReport,
    depth: usize,
) -> Result<TraefikUpstream, String> {
    if depth > MAX_REFERENCES {
        return Err("its services refer to each other without end".to_owned());
    }
    if let Some(statement) = item.node.statement {
        report.set(statement, Verdict::Converted);
    }
    for (kind, node) in item.node.fields() {
        match kind.to_ascii_lowercase().as_str() {
            "loadbalancer" => return balancer(node, item, source, report),
            "weighted" => return weighted(node, item, source, report, depth),
            "failover" => {
                let named = |key| node.field(key).and_then(TraefikNode::text);
                let (main, spare) = (named("service"), named("fallback"));
                let (Some(main), Some(spare)) = (main, spare) else {
                    return Err("its failover names no two services".to_owned());
                };
                let mut upstream = referred(main, item, source, report, depth)?;
                let spare = referred(spare, item, source, report, depth)?;
                if (&spare.tls, spare.protocol, &spare.host)
                    != (&upstream.tls, upstream.protocol, &upstream.host)
                {
                    return Err("its two services differ in TLS or protocol".to_owned());
                }
                upstream
                    .endpoints
                    .extend(spare.endpoints.into_iter().map(|endpoint| TraefikEndpoint {
                        backup: true,
                        ..endpoint
                    }));
                node.mark_rest(report, &Verdict::Converted);
                return unique(upstream);
            }
            "mirroring" => {
                let main = node.field("service").and_then(TraefikNode::text);
                let main = main.ok_or_else(|| "its mirroring names no service".to_owned())?;
                let upstream = referred(main, item, source, report, depth)?;
                for (key, node) in node.fields() {
                    let verdict = match key.eq_ignore_ascii_case("service") {
                        true => Verdict::Converted,
                        false => Verdict::not_supported(
                            "Lockgate does not copy requests to other services",
                            None,
                        ),
                    };
                    node.mark(report, &verdict);
                }
                return Ok(upstream);
            }
            _ => {}
        }
    }
    Err("its kind is not known".to_owned())
}

fn referred(
    name: &str,
    item: &TraefikItem,
    source: &TraefikSource,
    report: &mut ConversionReport,
    depth: usize,
) -> Result<TraefikUpstream, String> {
    let found = source.services.find(name, item.provider);
    let found = found.ok_or_else(|| format!("no file here defines the service {name}"))?;
    read(found, source, report, depth + 1)
}

/// The greatest weight of an endpoint.
const MOST_WEIGHT: i64 = 256;

/// An upstream of which each address stands once, with the weight of all its places: Traefik gives a
/// server that stands twice twice the requests.
fn unique(mut upstream: TraefikUpstream) -> Result<TraefikUpstream, String> {
    let mut weights: HashMap<String, i64> = HashMap::new();
    for endpoint in &mut upstream.endpoints {
        let weight = weights.entry(endpoint.address.clone()).or_default();
        // A fallback that serves already is none.
        if *weight == 0 || !endpoint.backup {
            *weight = weight.saturating_add(endpoint.weight);
        }
    }
    upstream.endpoints.retain_mut(|endpoint| {
        let Some(weight) = weights.remove(&endpoint.address) else {
            return false;
        };
        endpoint.weight = weight.clamp(1, MOST_WEIGHT);
        true
    });
    match upstream.endpoints.is_empty() {
        true => Err("it has no server that is known here".to_owned()),
        false => Ok(upstream),
    }
}

fn weighted(
    node: &TraefikNode,
    item: &TraefikItem,
    source: &TraefikSource,
    report: &mut ConversionReport,
    depth: usize,
) -> Result<TraefikUpstream, String> {
    let mut all: Option<TraefikUpstream> = None;
    for part in node
        .field("services")
        .map(TraefikNode::nodes)
        .unwrap_or(&[])
    {
        let name = part.field("name").and_then(TraefikNode::text);
        let name = name.ok_or_else(|| "a weighted service has no name".to_owned())?;
        let weight = part.field("weight").map_or(Some(1), TraefikNode::number);
        let weight = weight.ok_or_else(|| "a weight is not a number".to_owned())?;
        part.mark(report, &Verdict::Converted);
        let mut upstream = referred(name, item, source, report, depth)?;
        if weight == 0 {
            continue;
        }
        let servers = i64::try_from(upstream.endpoints.len()).unwrap_or(1);
        if servers > 1 || !(1..=256).contains(&weight) {
            part.mark(
                report,
                &Verdict::differs("each of its servers has the weight, not all of them together"),
            );
        }
        for endpoint in &mut upstream.endpoints {
            endpoint.weight = weight.clamp(1, 256);
        }
        match &mut all {
            None => all = Some(upstream),
            Some(all) => {
                if (&all.tls, all.protocol, &all.host)
                    != (&upstream.tls, upstream.protocol, &upstream.host)
                {
                    return Err("its services differ in TLS or protocol".to_owned());
                }
                all.endpoints.append(&mut upstream.endpoints);
            }
        }
    }
    let mut all = all.ok_or_else(|| "it has no service with a weight".to_owned())?;
    if let Some(sticky) = node.field("sticky") {
        self::sticky(sticky, &mut all, report);
    }
    unique(all)
}

fn sticky(node: &TraefikNode, upstream: &mut TraefikUpstream, report: &mut ConversionReport) {
    let cookie = node.field("cookie");
    let name = cookie
        .and_then(|node| node.field("name"))
        .and_then(TraefikNode::text);
    let is_token = |name: &&str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let name = name.filter(is_token).unwrap_or("lg");
    let keys = vec![("sticky".to_owned(), format!("cookie:{name}").into())];
    upstream.pool.retain(|(key, _)| key != "balance");
    upstream
        .pool
        .push(("balance".to_owned(), DraftValue::Inline(keys)));
    node.set_own(report, Verdict::Converted);
    let Some(cookie) = cookie else { return };
    cookie.set_own(report, Verdict::Converted);
    for (key, node) in cookie.fields() {
        let verdict = match (key.to_ascii_lowercase().as_str(), node.text().unwrap_or("")) {
            ("name", text) if text == name => Verdict::Converted,
            ("httponly", text) if text != "false" => Verdict::Default,
            ("secure", text) if text != "false" => Verdict::Default,
            ("samesite", text) if text.eq_ignore_ascii_case("lax") => Verdict::Default,
            ("path", "/") | ("maxage", "0") => Verdict::Default,
            _ => Verdict::differs(
                "the cookie has Path=/, HttpOnly, SameSite=Lax, and Secure over TLS",
            ),
        };
        node.set(report, verdict);
    }
}

/// The weight of a server, if it gets requests.
fn server_weight(server: &TraefikNode, report: &mut ConversionReport) -> Option<i64> {
    let Some(node) = server.field("weight") else {
        return Some(1);
    };
    let (weight, verdict) = match node.number() {
        Some(0) => (
            None,
            Verdict::differs("an endpoint that gets no requests is left out"),
        ),
        Some(weight @ 1..=256) => (Some(weight), Verdict::Converted),
        Some(257..) => (
            Some(256),
            Verdict::differs("the greatest weight of an endpoint is 256: its share is smaller"),
        ),
        _ => (Some(1), unreadable()),
    };
    // A server of a file is one statement with its weight.
    let known = if node.statement.is_some() {
        node
    } else {
        server
    };
    known.set(report, verdict);
    weight
}

fn balancer(
    node: &TraefikNode,
    item: &TraefikItem,
    source: &TraefikSource,
    report: &mut ConversionReport,
) -> Result<TraefikUpstream, String> {
    let mut upstream = TraefikUpstream::default();
    let mut broken = None;
    let mut schemes: Vec<String> = Vec::new();
    for server in node.field("servers").map(TraefikNode::nodes).unwrap_or(&[]) {
        match server
            .field("url")
            .and_then(TraefikNode::text)
            .and_then(url)
        {
            Some((scheme, address, path)) => {
                let keeps = server.field("preservePath").and_then(TraefikNode::flag) == Some(true);
                if keeps && !matches!(path, "" | "/") {
                    broken = Some(
                        "the path of a server's URL would come before that of requests".to_owned(),
                    );
                }
                server.mark(report, &Verdict::Converted);
                let Some(weight) = server_weight(server, report) else {
                    continue;
                };
                upstream.endpoints.push(TraefikEndpoint {
                    address,
                    weight,
                    backup: false,
                });
                schemes.push(scheme.to_owned());
            }
            None => {
                broken =
                    Some("the URL of a server cannot be read, or is not known here".to_owned());
                server.mark(report, &unreadable());
            }
        }
    }
    if let Some(server) = node.field("server") {
        match label_server(server, item, report) {
            Ok((scheme, address)) => {
                if let Some(weight) = server_weight(server, report) {
                    upstream.endpoints.push(TraefikEndpoint {
                        address,
                        weight,
                        backup: false,
                    });
                    schemes.push(scheme);
                }
            }
            Err(why) => broken = Some(why),
        }
    } else if let (true, Some(container)) = (
        schemes.is_empty() && broken.is_none() && node.field("servers").is_none(),
        &item.container,
    ) {
        let port = container.ports.first().copied().unwrap_or(80);
        let address = format!("{}:{port}", container.name);
        item.node.mark(
            report,
            &Verdict::differs(format!(
                "Traefik takes the port of the image: correct {address} if it is another"
            )),
        );
        upstream.endpoints.push(TraefikEndpoint {
            address,
            weight: 1,
            backup: false,
        });
        schemes.push("http".to_owned());
    }
    schemes.sort_unstable();
    schemes.dedup();
    match schemes.as_slice() {
        [scheme] => match scheme.as_str() {
            "https" | "wss" => upstream.tls = Some(Vec::new()),
            "h2c" => upstream.protocol = Some("h2c"),
            _ => {}
        },
        [] => {}
        _ => broken = Some("its servers have different schemes".to_owned()),
    }
    for (key, node) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "servers" | "server" => {}
            "passhostheader" => {
                let verdict = match (node.flag(), upstream.endpoints.as_slice()) {
                    (Some(true), _) => Verdict::Default,
                    (Some(false), [endpoint]) => {
                        let port = if upstream.tls.is_some() {
                            ":443"
                        } else {
                            ":80"
                        };
                        let host = endpoint
                            .address
                            .strip_suffix(port)
                            .unwrap_or(&endpoint.address);
                        upstream.host = Some(host.to_owned());
                        Verdict::Converted
                    }
                    (Some(false), _) => {
                        broken = Some("its servers would each need their own Host".to_owned());
                        Verdict::not_supported(
                            "Lockgate sends one Host to all endpoints of a pool",
                            None,
                        )
                    }
                    (None, _) => unreadable(),
                };
                node.set(report, verdict);
            }
            "sticky" => sticky(node, &mut upstream, report),
            "healthcheck" => health(node, &mut upstream, report),
            "serverstransport" => {
                let name = node.text().unwrap_or("").to_owned();
                match source.transports.find(&name, item.provider) {
                    Some(found) => {
                        node.set(report, Verdict::Converted);
                        if let Err(why) = transport(&found.node, &mut upstream, report) {
                            broken = Some(why);
                        }
                    }
                    None => {
                        broken = Some(format!("no file here defines the transport {name}"));
                        node.set(
                            report,
                            Verdict::not_supported("no file here defines it", None),
                        );
                    }
                }
            }
            "responseforwarding" => node.mark(report, &Verdict::Default),
            "strategy" => {
                let verdict = match node.text().unwrap_or("") {
                    "wrr" => {
                        upstream
                            .pool
                            .push(("balance".to_owned(), "round-robin".into()));
                        Verdict::Converted
                    }
                    "p2c" | "leasttime" => Verdict::Default,
                    "hrw" => {
                        let keys = vec![("hash".to_owned(), "client".into())];
                        upstream
                            .pool
                            .push(("balance".to_owned(), DraftValue::Inline(keys)));
                        Verdict::Converted
                    }
                    _ => unreadable(),
                };
                node.set(report, verdict);
            }
            _ => {}
        }
    }
    match broken {
        Some(why) => Err(why),
        None => unique(upstream),
    }
}
