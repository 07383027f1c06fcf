//! `stream`: relays of TCP, by port or by server name.

use std::collections::BTreeMap;

use super::listen::{NginxListen, NginxTlsKind, add_tls, listens};
use super::route::{NginxAction, NginxRoute, inline};
use super::scope::{NginxScope, NginxVerdicts, nginx_level};
use super::syntax::NginxDirective;
use super::upstream::{NginxUpstream, address};
use super::values::{duration, nginx_millis};
use crate::{Draft, DraftTable, DraftValue, Verdict};

/// Converts a `stream` block.
pub(super) fn stream(verdicts: &NginxVerdicts, block: &NginxDirective, draft: &mut Draft) {
    verdicts.converted(block);
    let scope = NginxScope {
        levels: vec![nginx_level(block.children())],
    };
    let mut upstreams: BTreeMap<&str, NginxUpstream<'_>> = BTreeMap::new();
    for directive in block.children().iter().filter(|d| d.name == "upstream") {
        verdicts.converted(directive);
        upstreams.insert(
            directive.arg(0),
            NginxUpstream::read(verdicts, directive, 0),
        );
    }
    for server in block.children().iter().filter(|d| d.name == "server") {
        verdicts.converted(server);
        let inner = scope.inner(server.children());
        for listen in listens(verdicts, &inner) {
            relay(verdicts, &inner, &upstreams, server, &listen, draft);
        }
    }
    for upstream in upstreams.values() {
        upstream.write(verdicts, draft);
    }
}

/// What a connection may not be relayed without.
const RULES: &[&str] = &[
    "allow",
    "deny",
    "js_access",
    "js_preread",
    "ssl_verify_client",
];

fn relay<'a>(
    verdicts: &NginxVerdicts,
    scope: &NginxScope<'a>,
    upstreams: &BTreeMap<&str, NginxUpstream<'a>>,
    server: &'a NginxDirective,
    listen: &NginxListen<'a>,
    draft: &mut Draft,
) {
    let key = match (&listen.unix, listen.ip) {
        (Some(path), _) => format!("unix:{path}"),
        (None, Some(std::net::IpAddr::V6(ip))) => format!("[{ip}]:{}", listen.port),
        (None, Some(ip)) => format!("{ip}:{}", listen.port),
        (None, None) => format!(":{}", listen.port),
    };
    if draft
        .top
        .find_table("tcp")
        .is_some_and(|tcp| tcp.find_table(&key).is_some())
    {
        return; // `listen 443` beside `listen [::]:443`
    }
    let rules: Vec<_> = RULES.iter().flat_map(|name| scope.nearest(name)).collect();
    let verify_only = listen.tls && rules.iter().all(|rule| rule.name == "ssl_verify_client");
    if rules.iter().any(|rule| !matches!(rule.arg(0), "off")) && !verify_only {
        let because = "a relay lets in every client: it is left out, as this rule cannot be kept";
        for rule in &rules {
            verdicts.refuse(rule, because, Some("filter in front, with nftables"));
        }
        verdicts.refuse(server, because, Some("filter in front, with nftables"));
        return;
    }
    let Some(pass) = scope.own("proxy_pass").last() else {
        verdicts.refuse(server, "a relay needs an address to go to", None);
        return;
    };
    let mut table = NginxRoute::new(&key, NginxAction::Proxy, server);
    let proxy_tls = scope.last("proxy_ssl").is_some_and(|d| d.arg(0) == "on");
    let place = |text: &str| -> Option<DraftValue> {
        match upstreams.get(text) {
            Some(upstream) => upstream.value(usize::from(proxy_tls), true),
            None if text.contains('$') => None,
            None => address(text, 0)
                .filter(|a| !a.ends_with(":0"))
                .map(Into::into),
        }
    };
    let target = pass.arg(0);
    if let Some(variable) = target.strip_prefix('$') {
        if !by_name(verdicts, scope, variable, &place, &mut table) {
            verdicts.refuse(pass, "where it goes is not known", None);
            verdicts.refuse(server, "a relay needs an address to go to", None);
            return;
        }
        verdicts.converted(pass);
    } else {
        let Some(value) = place(target) else {
            verdicts.refuse(pass, "this address cannot be read", None);
            verdicts.refuse(server, "a relay needs an address to go to", None);
            return;
        };
        verdicts.converted(pass);
        let pool = matches!(&value, DraftValue::Text(text) if text.starts_with("pool:"));
        if proxy_tls && !pool {
            let name = scope.last("proxy_ssl_name").map(|n| n.arg(0));
            let tls = name
                .filter(|n| !n.contains('$'))
                .map_or(Vec::new(), |n| vec![("name", n.into())]);
            table.set("proxy", inline(vec![("to", value), ("tls", inline(tls))]));
        } else {
            table.set("proxy", value);
        }
    }
    for directive in scope.nearest("proxy_ssl") {
        if proxy_tls {
            verdicts.differs(directive, "the endpoint's certificate is verified");
        } else {
            verdicts.default(directive);
        }
    }
    for directive in scope.nearest("ssl_preread") {
        verdicts.default(directive);
    }
    if listen.tls {
        add_tls(verdicts, scope, listen, NginxTlsKind::Plain, &mut table);
        if table.get("tls") == Some(&"internal".into()) {
            table.remove("tls");
            verdicts.refuse(server, "a relay on TLS needs a certificate", None);
            return;
        }
        if !table.closed.is_empty() {
            verdicts.refuse(
                server,
                "its clients cannot be verified: it is left out",
                None,
            );
            return;
        }
    }
    if scope
        .last("proxy_protocol")
        .is_some_and(|d| d.arg(0) == "on")
    {
        table.set("proxy_protocol", "v1");
    }
    for directive in scope.nearest("proxy_protocol") {
        verdicts.converted(directive);
    }
    if listen.proxy_protocol
        && let Some(directive) = listen.directive
    {
        verdicts.refuse(
            directive,
            "PROXY headers are believed from `trusted` addresses alone: the relay is left out until they are named",
            Some("write trusted = [\"10.0.0.0/8\"] at the top and accept_proxy = \"require\""),
        );
        return;
    }
    for (name, key, usual) in [
        ("proxy_connect_timeout", "connect", 5000),
        ("proxy_timeout", "tunnel_idle", 3_600_000),
    ] {
        if let Some(timeout) = scope.last(name) {
            match nginx_millis(timeout.arg(0)).filter(|millis| *millis > 0) {
                Some(millis) => {
                    if millis != usual {
                        table.set_in("timeouts", key, duration(millis));
                    }
                    verdicts.converted(timeout);
                }
                None => verdicts.refuse(timeout, "this time cannot be read", None),
            }
        }
    }
    let mut out = DraftTable::default();
    out.comments.clone_from(&table.comments);
    table.write(&mut out);
    *draft.top.table("tcp").table(&key) = out;
}

/// `map $ssl_preread_server_name $x`: the addresses by server name.
fn by_name<'a>(
    verdicts: &NginxVerdicts,
    scope: &NginxScope<'a>,
    variable: &str,
    place: &dyn Fn(&str) -> Option<DraftValue>,
    table: &mut NginxRoute,
) -> bool {
    let Some(map) = scope.nearest("map").iter().find(|map| {
        map.arg(0) == "$ssl_preread_server_name" && map.arg(1).strip_prefix('$') == Some(variable)
    }) else {
        return false;
    };
    verdicts.converted(map);
    let mut any = false;
    for entry in map.children() {
        let name = entry.name.to_ascii_lowercase();
        if name == "hostnames" || name == "volatile" {
            verdicts.default(entry);
            continue;
        }
        let Some(value) = place(entry.arg(0)) else {
            verdicts.refuse(entry, "where it goes is not known", None);
            continue;
        };
        let plain = name.split('.').all(|part| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        });
        let wild = name
            .strip_prefix("*.")
            .is_some_and(|rest| !rest.contains('*'))
            && map.children().iter().any(|d| d.name == "hostnames");
        match name.as_str() {
            "default" => table.set("default", value),
            name if plain || wild => table.set_in("sni", name, value),
            _ => {
                verdicts.set(
                    entry,
                    Verdict::not_supported("a server name is exact or begins with *.", None),
                );
                continue;
            }
        }
        any = true;
        verdicts.converted(entry);
    }
    any
}
