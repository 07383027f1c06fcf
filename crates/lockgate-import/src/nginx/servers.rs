//! The servers of http: which hosts and ports they have, which only lead to HTTPS, and their sites.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::hosts::{
    NginxHosts, NginxServer, NginxWorld, answers_all, bare_host, bare_servers, is_domain,
    leads_to_https, merged_redirects,
};
use super::listen::{NginxListen, NginxTlsKind, add_tls, covers, listens, names};
use super::locations::locations;
use super::route::{NginxAction, NginxRoute};
use super::scope::NginxScope;
use super::shared::{NginxShared, NginxSite};
use super::sites::{routes_of, runs_php};
use super::syntax::NginxDirective;
use super::values::NginxWords;
use super::write::{NginxSiteDraft, write_site};
use crate::{Draft, DraftValue, Verdict};

/// Converts all servers.
pub(super) fn servers<'a>(
    shared: &NginxShared<'a>,
    http: &NginxScope<'a>,
    blocks: &[&'a NginxDirective],
    draft: &mut Draft,
) {
    let verdicts = &shared.verdicts;
    let mut all: Vec<NginxServer<'a>> = blocks
        .iter()
        .map(|block| {
            verdicts.converted(block);
            let scope = http.inner(block.children());
            NginxServer {
                block,
                listens: listens(verdicts, &scope),
                names: names(verdicts, &scope),
                scope,
            }
        })
        .collect();
    // `ssl` of one server holds for the address, and so for all servers on it.
    let secure: BTreeSet<u16> = all
        .iter()
        .flat_map(|server| &server.listens)
        .filter(|listen| listen.tls && listen.unix.is_none())
        .map(|listen| listen.port)
        .collect();
    for listen in all.iter_mut().flat_map(|server| &mut server.listens) {
        listen.tls |= listen.unix.is_none() && secure.contains(&listen.port);
    }
    let listens = || all.iter().flat_map(|server| &server.listens);
    let six =
        |listen: &NginxListen<'_>| listen.directive.is_some_and(|d| d.arg(0).starts_with('['));
    if listens().any(|l| l.ip.is_none() && l.unix.is_none()) && !listens().any(six) {
        verdicts.note("Lockgate listens on IPv4 and IPv6; nginx listens on IPv4 alone here: listen = [\"0.0.0.0\"] keeps that.");
    }
    let mut taken: BTreeSet<(u16, String)> = BTreeSet::new();
    let mut tests = 0;
    // Hosts with a redirect from port 80 to their site on 443, by server.
    let hosts = NginxHosts::new(&all);
    let merged = merged_redirects(&all, &hosts);
    if !merged.is_empty() {
        verdicts.note("Sites redirect from port 80 to HTTPS by themselves, with 308: a request keeps its method, which 301 of nginx does not promise.");
    }
    let bare = bare_servers(&all, &hosts, &merged);
    // Whether one site answers every host on 443, and whether anything listens on 80.
    let catch_needed = hosts
        .default_of(443)
        .is_some_and(|at| answers_all(&all, at, 443));
    let on_80 = hosts.default_of(80).is_some();
    let world = NginxWorld {
        all: &all,
        hosts: &hosts,
        bare: &bare,
        merged: &merged,
        catch_needed,
        on_80,
    };
    for (index, server) in all.iter().enumerate() {
        one_server(shared, &world, index, server, &mut taken, &mut tests, draft);
    }
}

fn one_server<'a>(
    shared: &NginxShared<'a>,
    world: &NginxWorld<'_, 'a>,
    index: usize,
    server: &NginxServer<'a>,
    taken: &mut BTreeSet<(u16, String)>,
    tests: &mut usize,
    draft: &mut Draft,
) {
    let verdicts = &shared.verdicts;
    let NginxWorld {
        all,
        hosts: known,
        bare,
        merged,
        ..
    } = world;
    let has_merged = merged
        .range((index, String::new())..)
        .next()
        .is_some_and(|(at, _)| *at == index);
    let mut groups: Vec<(u16, bool, Vec<&NginxListen<'a>>)> = Vec::new();
    for listen in server.listens.iter().filter(|l| l.unix.is_none()) {
        match groups.iter_mut().find(|(port, ..)| *port == listen.port) {
            Some((_, tls, list)) => {
                *tls |= listen.tls;
                list.push(listen);
            }
            None => groups.push((listen.port, listen.tls, vec![listen])),
        }
    }
    let both = groups.iter().any(|(port, tls, _)| *port == 443 && *tls);
    let mut written = false;
    let mut reached = false;
    let rejects = server
        .scope
        .last("ssl_reject_handshake")
        .filter(|d| d.arg(0) == "on");
    for (port, tls, list) in &groups {
        if let Some(rejects) = rejects.filter(|_| *tls) {
            verdicts.default(rejects); // a host that no site has gets no handshake
            reached = true;
            continue;
        }
        let is_default = known.default_of(*port) == Some(index);
        let explicit = list.iter().any(|listen| listen.default);
        let nameless = !server.names.hosts.iter().any(|host| is_domain(host));
        let catch_all = is_default && (explicit || nameless);
        let mut hosts: Vec<String> = server.names.hosts.clone();
        if *port == 80 && !tls {
            // These hosts' sites redirect by themselves.
            let own = both && !catch_all;
            let before = hosts.len();
            hosts
                .retain(|host| !merged.contains(&(index, host.clone())) || !bare_host(world, host));
            reached |= hosts.len() < before;
            let redirects_all = leads_to_https(server, "\u{0}");
            if catch_all && redirects_all && !world.catch_needed && has_merged {
                verdicts
                    .note("A host that no site has gets 404 on port 80, where nginx redirects it.");
                verdicts.rest(server.block, &Verdict::Default);
                reached = true;
                continue;
            }
            if own && hosts.is_empty() {
                for listen in list {
                    if let Some(directive) = listen.directive
                        && !leads_to_https(
                            server,
                            server.names.hosts.first().map_or("", String::as_str),
                        )
                    {
                        verdicts
                            .differs(directive, "plain HTTP is redirected to HTTPS, not served");
                    }
                }
                continue;
            }
        }
        if !catch_all {
            hosts.retain(|host| taken.insert((*port, host.clone())));
        } else if !taken.insert((*port, String::new())) {
            continue;
        }
        if hosts.is_empty() && !catch_all {
            continue;
        }
        reached = true;
        let is_bare = *tls
            && *port == 443
            && !catch_all
            && bare.get(index).copied().unwrap_or(false)
            && hosts.iter().all(|host| is_host_for_bare(host));
        if is_default && !catch_all {
            let redirect = has_merged && *port == 80;
            match server.names.directive.filter(|_| !redirect) {
                Some(directive) => verdicts.differs(
                    directive,
                    format!("nginx also answers hosts on port {port} that no server names, as this server is the first; Lockgate refuses them"),
                ),
                None => verdicts.note("A host that no site has is refused."),
            }
        }
        if is_bare && !world.on_80 {
            let first = list.first().and_then(|listen| listen.directive);
            if let Some(directive) = first {
                verdicts.differs(
                    directive,
                    "Lockgate also listens on port 80 and redirects to HTTPS; with the port in the site's name it does not",
                );
            }
        }
        let site_key = |host: &str| {
            let host = match host.contains(':') {
                true => format!("[{host}]"),
                false => host.to_owned(),
            };
            if is_bare {
                host
            } else {
                format!("{host}:{port}")
            }
        };
        let key = match (catch_all, hosts.first()) {
            (false, Some(first)) => site_key(first),
            _ => format!(":{port}"),
        };
        let mut head = NginxRoute::new("/*", NginxAction::Respond, server.block);
        let aliases: Vec<String> = if catch_all {
            // An exact host would lose against another site's wildcard.
            hosts
                .iter()
                .filter(|host| {
                    all.iter().enumerate().any(|(at, other)| {
                        at != index
                            && other.on(*port).next().is_some()
                            && other
                                .names
                                .hosts
                                .iter()
                                .any(|n| n.starts_with('*') && covers(n, host))
                    })
                })
                .cloned()
                .collect()
        } else {
            hosts.iter().skip(1).cloned().collect()
        };
        if !aliases.is_empty() {
            head.set("alias", aliases);
        }
        set_listen(list, &mut head);
        if list.iter().any(|listen| listen.proxy_protocol) {
            if draft.top.get("trusted").is_some() {
                head.set("accept_proxy", "require");
            } else {
                for directive in list.iter().filter_map(|listen| listen.directive) {
                    verdicts.refuse(
                        directive,
                        "PROXY headers are believed from `trusted` addresses alone, and none are named",
                        Some("write trusted = [\"10.0.0.0/8\"] at the top and accept_proxy = \"require\""),
                    );
                }
            }
        }
        if *tls {
            if let Some(listen) = list.iter().find(|listen| listen.tls) {
                let kind = match (is_bare, catch_all && world.tls_servers(*port) > 1) {
                    (true, _) => NginxTlsKind::Bare,
                    (false, true) => NginxTlsKind::Default,
                    (false, false) => NginxTlsKind::Plain,
                };
                add_tls(verdicts, &server.scope, listen, kind, &mut head);
            }
        } else {
            for name in ["ssl_certificate", "ssl_certificate_key"] {
                for directive in server.scope.own(name) {
                    verdicts.default(directive);
                }
            }
        }
        access_log(shared, &server.scope, &mut head);
        let words = NginxWords {
            tls: *tls,
            port: *port,
            server_name: hosts.first().filter(|host| !host.starts_with('*')).cloned(),
            one_name: hosts.len() == 1 && !catch_all,
            capture: None,
        };
        let origin_host = match hosts.first().filter(|_| !catch_all) {
            Some(host) => host.replace("*.", "any."),
            None if *tls && !server.names.hosts.is_empty() => {
                server.names.hosts.first().cloned().unwrap_or_default()
            }
            None => unnamed_host(all, *port),
        };
        let usual = if *tls { 443 } else { 80 };
        let origin = format!(
            "{}://{origin_host}{}",
            if *tls { "https" } else { "http" },
            if *port == usual {
                String::new()
            } else {
                format!(":{port}")
            }
        );
        emit(
            shared,
            server,
            head,
            key,
            origin,
            words,
            if catch_all { &[] } else { &hosts },
            tests,
            draft,
        );
        written = true;
    }
    for listen in server.listens.iter().filter(|l| l.unix.is_some()) {
        if written {
            if let Some(directive) = listen.directive {
                verdicts.refuse(
                    directive,
                    "a site on a Unix socket is a table of its own",
                    None,
                );
            }
            continue;
        }
        let Some(path) = &listen.unix else { continue };
        let mut head = NginxRoute::new("/*", NginxAction::Respond, server.block);
        access_log(shared, &server.scope, &mut head);
        let origin = "http://example.com".to_owned();
        emit(
            shared,
            server,
            head,
            format!("unix:{path}"),
            origin,
            NginxWords::default(),
            &[],
            tests,
            draft,
        );
        written = true;
    }
    let verdict = if written {
        return;
    } else if reached
        || server
            .names
            .hosts
            .iter()
            .any(|host| merged.contains(&(index, host.clone())))
    {
        Verdict::Default
    } else if server.names.lost || server.listens.is_empty() {
        Verdict::not_supported("no host or address of this server can be written", None)
    } else {
        Verdict::not_supported(
            "no request reaches this server: another one has its hosts, or none can match its names",
            None,
        )
    };
    if matches!(verdict, Verdict::NotSupported { .. }) {
        verdicts.set(server.block, verdict.clone());
    }
    verdicts.rest(server.block, &verdict);
}

/// A host that no server on the port names, for a test of the site that answers all others.
fn unnamed_host(all: &[NginxServer<'_>], port: u16) -> String {
    let is_named = |host: &str| {
        all.iter()
            .filter(|server| server.on(port).next().is_some())
            .flat_map(|server| &server.names.hosts)
            .any(|name| name == host || covers(name, host))
    };
    let mut candidates = ["example.com", "example.net", "unnamed.invalid"].into_iter();
    let found = candidates.find(|host| !is_named(host));
    found.unwrap_or("unnamed.test").to_owned()
}

fn is_host_for_bare(host: &str) -> bool {
    !host.is_empty()
}

fn set_listen(list: &[&NginxListen<'_>], head: &mut NginxRoute) {
    if list.iter().any(|listen| listen.ip.is_none()) {
        return;
    }
    let mut ips: Vec<String> = Vec::new();
    for ip in list.iter().filter_map(|listen| listen.ip) {
        let text = match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        if !ips.contains(&text) {
            ips.push(text);
        }
    }
    head.set("listen", ips);
}

/// `access_log` of a server.
fn access_log<'a>(shared: &NginxShared<'a>, scope: &NginxScope<'a>, head: &mut NginxRoute) {
    if let Some(value) = log_value(shared, scope.own("access_log")) {
        head.set("access_log", value);
    }
}

/// The value of `access_log` for the directives of one level.
pub(super) fn log_value(
    shared: &NginxShared<'_>,
    directives: &[&NginxDirective],
) -> Option<DraftValue> {
    let verdicts = &shared.verdicts;
    let mut value = None;
    for (index, directive) in directives.iter().enumerate() {
        if index > 0 {
            verdicts.refuse(directive, "a site has one access log", None);
            continue;
        }
        let target = directive.arg(0);
        if target == "off" {
            verdicts.converted(directive);
            value = Some(false.into());
            continue;
        }
        if target.starts_with("syslog:") || target.contains("://") || target.contains('$') {
            verdicts.refuse(
                directive,
                "the log is written to a file, stdout or stderr",
                None,
            );
            continue;
        }
        let format = directive.args.get(1).filter(|arg| !arg.contains('='));
        let options = directive.args.iter().any(|arg| arg.starts_with("if="));
        let stream = match target {
            "/dev/stdout" | "/proc/self/fd/1" => Some("stdout"),
            "/dev/stderr" => Some("stderr"),
            _ => None,
        };
        let place = stream.unwrap_or(target);
        match format.map(String::as_str) {
            None | Some("combined" | "main") if !options => verdicts.converted(directive),
            _ => {
                verdicts.differs(
                    directive,
                    "lines have the combined format, and all requests are logged",
                );
            }
        }
        if let Some(format) = format {
            shared.formats.borrow_mut().push(format.clone());
        }
        if stream.is_some() || place.contains('/') {
            value = Some(format!("combined:{place}").into());
        }
    }
    value
}

#[allow(clippy::too_many_arguments)] // what one site is made of
fn emit<'a>(
    shared: &NginxShared<'a>,
    server: &NginxServer<'a>,
    head: NginxRoute,
    key: String,
    origin: String,
    words: NginxWords,
    hosts: &[String],
    tests: &mut usize,
    draft: &mut Draft,
) {
    let mut list = Vec::new();
    locations(&server.scope, server.block.children(), &mut list);
    let mut by_args = BTreeMap::new();
    for (at, (_, location)) in list.iter().enumerate() {
        by_args.entry(location.args.join(" ")).or_insert(at);
    }
    let site = NginxSite {
        by_args,
        shared,
        scope: server.scope.clone(),
        words,
        locations: list,
        php: runs_php(server.block.children())
            || server
                .scope
                .last("index")
                .is_some_and(|index| index.args.iter().any(|a| a.contains(".php"))),
    };
    let mut routes = routes_of(&site, server.block, hosts);
    if routes.is_empty() {
        let mut route = NginxRoute::new("/*", NginxAction::Respond, server.block);
        route
            .comments
            .push("This could not be converted: write what answers instead.".to_owned());
        route.set("respond", 501_i64);
        routes.push(route);
    }
    write_site(
        draft,
        NginxSiteDraft {
            key,
            origin,
            head,
            routes,
        },
        tests,
    );
}
