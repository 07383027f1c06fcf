//! Routers for TCP, as `[tcp]` relays.

use super::acme::is_private;
use super::node::{TraefikNode, is_known};
use super::rule;
use super::source::{TraefikItem, TraefikSource};
use super::statics::TraefikStatics;
use super::values::{endpoint, unreadable};
use crate::{ConversionReport, Draft, DraftValue, Verdict};

/// Reads all routers for TCP.
pub(super) fn write(
    source: &TraefikSource,
    statics: &TraefikStatics,
    draft: &mut Draft,
    report: &mut ConversionReport,
) {
    for item in &source.tcp_routers.items {
        if let Err(why) = router(item, source, statics, draft, report) {
            item.node.mark(report, &Verdict::not_supported(why, None));
        }
    }
}

fn router(
    item: &TraefikItem,
    source: &TraefikSource,
    statics: &TraefikStatics,
    draft: &mut Draft,
    report: &mut ConversionReport,
) -> Result<(), String> {
    let node = &item.node;
    let text = node
        .field("rule")
        .and_then(TraefikNode::raw)
        .ok_or("it has no rule that is known here")?;
    let mut rule = rule::read_tcp(text)?;
    let mut stand_ins = Vec::new();
    for name in rule.names.iter_mut().filter(|name| !is_known(name)) {
        *name = rule::stand_in(name);
        stand_ins.push(name.clone());
    }
    if node
        .field("middlewares")
        .is_some_and(|list| !list.items().is_empty())
    {
        return Err(
            "a relay has no middlewares: it is left out, since they may keep clients out"
                .to_owned(),
        );
    }
    let names = node
        .field("entryPoints")
        .map(TraefikNode::items)
        .unwrap_or_default();
    let entries: Vec<_> = names
        .iter()
        .filter_map(|name| statics.entry_point(name))
        .collect();
    if entries.is_empty() || entries.len() != names.len() {
        return Err("its entry points are not all defined in these files".to_owned());
    }
    let tls = node.field("tls").filter(|tls| tls.flag() != Some(false));
    let passthrough =
        tls.is_some_and(|tls| tls.field("passthrough").and_then(TraefikNode::flag) == Some(true));
    if tls.is_some_and(|tls| tls.field("options").is_some()) && !passthrough {
        return Err("options of TLS for relays are not converted".to_owned());
    }
    let service = node
        .field("service")
        .and_then(TraefikNode::text)
        .ok_or("its service is not known here")?;
    let found = source
        .tcp_services
        .find(service, item.provider)
        .ok_or("no file here defines its service")?;
    let (proxy, version) = read_service(found, source, report)?;
    let every = rule.names.iter().any(|name| name == "*");
    let plain_host = |name: &String| {
        let name = name.strip_prefix("*.").unwrap_or(name);
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    if !every && !rule.names.iter().all(plain_host) {
        return Err("a server name of it cannot be read".to_owned());
    }
    if tls.is_none() && !every {
        return Err("without TLS there is no server name to choose by".to_owned());
    }
    let terminates = tls.is_some() && !passthrough;
    if terminates && every {
        let certs = draft
            .top
            .find_table("tls")
            .is_some_and(|tls| tls.get("certs").is_some() || tls.get("default").is_some());
        if !certs {
            return Err("a relay that ends TLS for every name needs a certificate file".to_owned());
        }
    }
    let resolver = tls.and_then(|tls| tls.field("certResolver")).is_some();
    let top = &draft.top;
    let certs = top
        .find_table("tls")
        .is_some_and(|tls| tls.get("certs").is_some());
    let public = rule.names.iter().all(|name| {
        !is_private(name.strip_prefix("*.").unwrap_or(name)) && !name.starts_with("*.")
    });
    let acme = resolver && public && top.find_table("acme").is_some();
    let certified = every || certs || acme;
    let own = terminates && !certified;
    for entry in &entries {
        shared(
            entry.port,
            tls.is_some(),
            every,
            &rule.names,
            statics,
            draft,
        )?;
    }
    // What no authority and no file certifies has a certificate of Lockgate's own authority.
    let ends = match own {
        true => DraftValue::from("internal"),
        false => DraftValue::Inline(Vec::new()),
    };
    if let (true, Some(tls)) = (own, tls) {
        tls.set(
            report,
            Verdict::differs("its certificate is one of Lockgate's own authority"),
        );
    }
    node.mark_rest(report, &Verdict::Converted);
    if let (Some(rule), false) = (node.field("rule"), stand_ins.is_empty()) {
        rule.set(
            report,
            Verdict::differs(format!(
                "a name is not known here: write the real one in place of {}",
                stand_ins.join(", ")
            )),
        );
    }
    for entry in entries {
        let key = match entry.address {
            Some(address) => std::net::SocketAddr::new(address, entry.port).to_string(),
            None => format!(":{}", entry.port),
        };
        let table = draft.top.table("tcp").table(&key);
        let place = node.place.to_string();
        if !table.comments.contains(&place) {
            table.comments.push(place);
        }
        if entry.accept_proxy {
            table.set("accept_proxy", "optional");
        }
        let known = table.get("proxy_protocol").cloned();
        let wanted = version.map(DraftValue::from);
        if known != wanted
            && !table.is_empty()
            && (table.get("proxy").is_some()
                || table.find_table("sni").is_some()
                || table.get("default").is_some())
        {
            return Err("the PROXY header is the same for all relays of an address".to_owned());
        }
        if let Some(version) = version {
            table.set("proxy_protocol", version);
        }
        let value = match terminates {
            false => proxy.clone(),
            true => DraftValue::Inline(vec![
                ("proxy".to_owned(), proxy.clone()),
                ("tls".to_owned(), ends.clone()),
            ]),
        };
        if tls.is_none() {
            if table.get("proxy").is_some() {
                return Err("another router has all connections of its entry point".to_owned());
            }
            table.set("proxy", proxy.clone());
            continue;
        }
        if every {
            table.set("default", value.clone());
        }
        for name in rule.names.iter().filter(|name| *name != "*") {
            table
                .table("sni")
                .set(&name.to_ascii_lowercase(), value.clone());
        }
        for name in &rule.alpn {
            table.table("alpn").set(name, value.clone());
        }
    }
    Ok(())
}

/// Whether a relay can share its address with the sites there.
fn shared(
    port: u16,
    tls: bool,
    every: bool,
    names: &[String],
    statics: &TraefikStatics,
    draft: &Draft,
) -> Result<(), String> {
    let sites = draft.top.find_table("site");
    for (key, site) in sites.iter().flat_map(|sites| sites.tables()) {
        let (host, on) = match key.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().unwrap_or(0)),
            None => (key, statics.https_port),
        };
        let implied = !key.contains(':') && port == statics.http_port;
        if implied || (on == port && !tls) {
            return Err("sites have its address".to_owned());
        }
        if on != port {
            continue;
        }
        if host.is_empty() && every {
            return Err("a site has every host of its address".to_owned());
        }
        let mut hosts = vec![DraftValue::from(host)];
        if let Some(DraftValue::List(alias)) = site.get("alias") {
            hosts.extend(alias.iter().cloned());
        }
        let taken = names
            .iter()
            .find(|name| hosts.contains(&name.to_ascii_lowercase().into()));
        if let Some(name) = taken {
            return Err(format!("a site has {name}"));
        }
    }
    Ok(())
}

/// The endpoints of a service, and the version of the PROXY header that they get.
fn read_service(
    item: &TraefikItem,
    source: &TraefikSource,
    report: &mut ConversionReport,
) -> Result<(DraftValue, Option<&'static str>), String> {
    if let Some(statement) = item.node.statement {
        report.set(statement, Verdict::Converted);
    }
    let balancer = item
        .node
        .field("loadBalancer")
        .ok_or("its service is no loadBalancer")?;
    let mut addresses: Vec<DraftValue> = Vec::new();
    let mut tls = 0;
    for server in balancer
        .field("servers")
        .map(TraefikNode::nodes)
        .unwrap_or(&[])
    {
        let address = server.field("address").and_then(TraefikNode::text);
        let address = address
            .filter(|text| text.contains(':'))
            .and_then(|text| endpoint(text, 0));
        match address {
            Some(address) => addresses.push(address.into()),
            None => server.mark(report, &unreadable()),
        }
        if server.field("tls").and_then(TraefikNode::flag) == Some(true) {
            tls += 1;
        }
        server.mark_rest(report, &Verdict::Converted);
    }
    if let Some(server) = balancer.field("server") {
        let port = server
            .field("port")
            .and_then(TraefikNode::number)
            .and_then(|port| u16::try_from(port).ok());
        if let (Some(port), Some(container)) = (port, &item.container) {
            addresses.push(format!("{}:{port}", container.name).into());
            server.mark_rest(report, &Verdict::Converted);
        }
    }
    if addresses.is_empty() {
        return Err("its service has no server that is known here".to_owned());
    }
    let mut version = None;
    for (key, node) in balancer.fields() {
        match key.to_ascii_lowercase().as_str() {
            "terminationdelay" => node.set(report, Verdict::Default),
            "proxyprotocol" => {
                version = header(node, report);
            }
            "serverstransport" => {
                let name = node.text().unwrap_or("");
                let found = source
                    .tcp_transports
                    .find(name, item.provider)
                    .ok_or("no file here defines its transport")?;
                if found.node.field("tls").is_some() {
                    return Err("TLS to the servers of a relay is not converted".to_owned());
                }
                node.set(report, Verdict::Converted);
                if let Some(statement) = found.node.statement {
                    report.set(statement, Verdict::Converted);
                }
                if let Some(node) = found.node.field("proxyProtocol") {
                    version = header(node, report);
                }
            }
            _ => {}
        }
    }
    let value = match addresses.len() {
        1 => addresses.swap_remove(0),
        _ => DraftValue::List(addresses),
    };
    match tls {
        0 => Ok((value, version)),
        _ => Ok((
            DraftValue::Inline(vec![
                ("to".to_owned(), value),
                ("tls".to_owned(), DraftValue::Inline(Vec::new())),
            ]),
            version,
        )),
    }
}

fn header(node: &TraefikNode, report: &mut ConversionReport) -> Option<&'static str> {
    let version = node.field("version").map_or(Some(2), TraefikNode::number);
    node.mark(report, &Verdict::Converted);
    match version {
        Some(1) => Some("v1"),
        _ => Some("v2"),
    }
}
