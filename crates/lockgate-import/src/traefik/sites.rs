//! Sites of the routes, with their certificates and tests.

use std::collections::{BTreeSet, HashMap};

use super::routes::{RouteListener, TraefikRoutes};
use super::rows::{self, MAX_ROWS, RouteRow};
use super::rule::{RuleHost, RulePath};
use super::site_tls::{SiteTls, site_tls};
use super::source::TraefikSource;
use super::statics::TraefikStatics;
use crate::{ConversionReport, Draft, DraftTable, DraftValue, Verdict};

/// The most tests that are written.
const MAX_TESTS: usize = 50;
/// How many routers for every host are compared with those of each host.
const MAX_EVERYWHERE: usize = 50;

/// A site that is being written: hosts with the same routes.
struct Site {
    listener: RouteListener,
    hosts: Vec<RuleHost>,
    table: DraftTable,
    rows: Vec<RouteRow>,
}

/// Writes all sites.
pub(super) fn write(
    source: &TraefikSource,
    statics: &TraefikStatics,
    routes: &TraefikRoutes,
    tls: &SiteTls<'_>,
    draft: &mut Draft,
    report: &mut ConversionReport,
) {
    let mut sites: Vec<Site> = Vec::new();
    let mut reached: BTreeSet<usize> = BTreeSet::new();
    let mut same: HashMap<String, usize> = HashMap::new();
    let secured: BTreeSet<&RuleHost> = routes
        .hosts
        .iter()
        .filter(|(listener, _)| listener.tls && listener.port == statics.https_port)
        .flat_map(|(_, hosts)| hosts.iter().map(|(host, _)| host))
        .collect();
    for (listener, hosts) in &routes.hosts {
        let everywhere: Vec<&RouteRow> = hosts
            .iter()
            .filter(|(host, _)| *host == RuleHost::Any)
            .flat_map(|(_, rows)| rows)
            .take(MAX_EVERYWHERE)
            .collect();
        let below: Vec<(&str, &Vec<RouteRow>)> = hosts
            .iter()
            .filter_map(|(host, rows)| match host {
                RuleHost::Below(name) => Some((name.as_str(), rows)),
                _ => None,
            })
            .take(MAX_EVERYWHERE)
            .collect();
        for (host, own) in hosts {
            let mut all: Vec<RouteRow> = own.iter().take(MAX_ROWS + 1).cloned().collect();
            if own.len() > MAX_ROWS {
                too_many(own, source, report);
            }
            if *host != RuleHost::Any {
                all.extend(everywhere.iter().map(|row| (*row).clone()));
            }
            if let RuleHost::Exact(name) | RuleHost::Below(name) = host {
                for (suffix, rows) in &below {
                    let inside = name
                        .strip_suffix(*suffix)
                        .is_some_and(|rest| rest.ends_with('.'));
                    all.extend(rows.iter().filter(|_| inside).take(MAX_ROWS).cloned());
                }
            }
            let resolved = rows::resolve(all);
            told(&resolved, source, report);
            reached.extend(resolved.rows.iter().map(|row| row.router));
            // A site with TLS redirects its plain requests by itself.
            let to_tls = |row: &RouteRow| {
                row.keys.iter().any(|(key, value)| match value {
                    DraftValue::Inline(keys) if key == "redirect" => keys
                        .iter()
                        .any(|(_, value)| *value == "https://{host}{path}".into()),
                    _ => false,
                })
            };
            if !listener.tls
                && listener.port == statics.http_port
                && secured.contains(host)
                && resolved.rows.iter().all(to_tls)
            {
                continue;
            }
            // A host without routes of its own must not be one of a broader site either.
            let alone = below.is_empty() && everywhere.is_empty();
            let refuses = resolved
                .rows
                .iter()
                .any(|row| row.keys == rows::respond(403));
            let void = resolved.rows.iter().all(|row| row.void);
            if resolved.rows.is_empty() || (void && alone && !refuses) {
                continue;
            }
            if *host == RuleHost::Any && void {
                continue;
            }
            let mut table = DraftTable::default();
            if !site_tls(
                listener,
                host,
                &resolved.rows,
                statics,
                routes,
                tls,
                &mut table,
                source,
                report,
            ) {
                continue;
            }
            rows::write(&resolved.rows, &mut table);
            let key = format!("{listener:?}{table:?}");
            match same
                .get(&key)
                .and_then(|at| sites.get_mut(*at))
                .filter(|_| *host != RuleHost::Any)
            {
                Some(site) if !site.hosts.contains(&RuleHost::Any) => site.hosts.push(host.clone()),
                _ => {
                    same.insert(key, sites.len());
                    sites.push(Site {
                        listener: listener.clone(),
                        hosts: vec![host.clone()],
                        table,
                        rows: resolved.rows,
                    });
                }
            }
        }
    }
    // A redirect of every host is needed only where no site has TLS.
    if secured.is_empty() {
        for listener in &routes.redirected {
            let mut table = DraftTable::default();
            table.set("redirect", "https://{host}{path}");
            sites.push(Site {
                listener: listener.clone(),
                hosts: vec![RuleHost::Any],
                table,
                rows: Vec::new(),
            });
        }
    }
    let rows = routes.hosts.values().flatten().flat_map(|(_, rows)| rows);
    let written: BTreeSet<usize> = rows
        .filter(|row| !row.conditional)
        .map(|row| row.router)
        .collect();
    for number in written.difference(&reached) {
        let item = source.routers.items.get(*number);
        let Some(item) = item else { continue };
        let verdict =
            Verdict::differs("no request reaches it: routers of higher priority take them all");
        if let Some(rule) = item.node.field("rule") {
            rule.set(report, verdict);
        }
        item.node.mark_rest(report, &Verdict::Default);
    }
    let mut tests = Vec::new();
    let mut keys = std::collections::HashSet::new();
    let mut all = DraftTable::default();
    for site in sites {
        let Some(first) = site.hosts.first() else {
            continue;
        };
        let key = site_key(&site.listener, first, statics);
        if keys.insert(key.clone()) {
            all.append_table(&key, emit(&site, &key, &mut tests));
        }
    }
    if !all.is_empty() {
        *draft.top.table("site") = all;
    }
    for test in tests.into_iter().take(MAX_TESTS) {
        draft.top.push("test", test);
    }
}

fn too_many(rows: &[RouteRow], source: &TraefikSource, report: &mut ConversionReport) {
    for row in rows.iter().skip(MAX_ROWS) {
        if let Some(item) = source.routers.items.get(row.router) {
            let rule = item.node.field("rule").unwrap_or(&item.node);
            rule.set(
                report,
                Verdict::not_supported("one host has too many routers", None),
            );
        }
    }
}

fn told(resolved: &rows::ResolvedRows, source: &TraefikSource, report: &mut ConversionReport) {
    let rule = |number: usize| {
        source
            .routers
            .items
            .get(number)
            .and_then(|item| item.node.field("rule"))
    };
    for number in &resolved.refused {
        if let Some(rule) = rule(*number) {
            rule.set(
                report,
                Verdict::not_supported("all requests for its hosts and paths get 403, since the routers after it would let in more clients", None),
            );
        }
    }
    const EXPOSED: &str = "similar paths, with more letters before the next slash, are served by another router without the access control of this one";
    for number in &resolved.exposed {
        // The worse verdict alone would keep its reason.
        let closed = |row: &RouteRow| row.router == *number && row.void;
        let verdict = match resolved.rows.iter().any(closed) {
            true => Verdict::not_supported(EXPOSED, None),
            false => Verdict::differs(EXPOSED),
        };
        if let Some(rule) = rule(*number) {
            rule.set(report, verdict);
        }
    }
}

/// The key of a site.
fn site_key(listener: &RouteListener, host: &RuleHost, statics: &TraefikStatics) -> String {
    let name = match host {
        RuleHost::Exact(name) => name.clone(),
        RuleHost::Below(name) => format!("*.{name}"),
        RuleHost::Any => return format!(":{}", listener.port),
    };
    match listener.tls && listener.port == statics.https_port {
        true => name,
        false => format!("{name}:{}", listener.port),
    }
}

/// The table of a site; its tests are added.
fn emit(site: &Site, key: &str, tests: &mut Vec<DraftTable>) -> DraftTable {
    for (row, first) in site.rows.iter().zip(std::iter::repeat(site.hosts.first())) {
        let Some(first) = first else { break };
        if tests.len() >= MAX_TESTS {
            break;
        }
        // A route that is the same as that of its site has no table of its own.
        let patterns = rows::patterns(row);
        let paths = site.table.find_table("path");
        let written =
            |pattern: &String| paths.is_some_and(|paths| paths.find_table(pattern).is_some());
        if row.path == RulePath::All && row.methods.is_empty() || patterns.iter().all(written) {
            tests.extend(test(&site.listener, first, row, key, &site.rows));
        }
    }
    let mut table = DraftTable::default();
    table.comments.clone_from(&site.table.comments);
    let alias: Vec<String> = site
        .hosts
        .iter()
        .skip(1)
        .map(|host| match host {
            RuleHost::Below(name) => format!("*.{name}"),
            RuleHost::Exact(name) => name.clone(),
            RuleHost::Any => String::new(),
        })
        .filter(|name| !name.is_empty())
        .collect();
    if !alias.is_empty() {
        table.set("alias", alias);
    }
    if let Some(address) = site.listener.address {
        table.set(
            "listen",
            vec![match address {
                std::net::IpAddr::V6(address) => format!("[{address}]"),
                std::net::IpAddr::V4(address) => address.to_string(),
            }],
        );
    }
    if site.listener.accept_proxy {
        table.set("accept_proxy", "optional");
    }
    table.merge(site.table.clone());
    table
}

/// A path of a request that this route gets, and no other one.
fn request_path(row: &RouteRow, method: &str, rows: &[RouteRow]) -> Option<String> {
    let paths = match &row.path {
        RulePath::All => vec!["/".to_owned(), "/any".to_owned(), "/any/other".to_owned()],
        RulePath::Prefix(prefix) => vec![format!("{prefix}/x"), format!("{prefix}/any/other")],
        RulePath::Exact(path) => vec![path.clone()],
    };
    paths.into_iter().find(|path| {
        let exact = RulePath::Exact(path.clone());
        !rows.iter().any(|other| {
            let narrower = other.path != row.path && row.path.covers(&other.path);
            let by_method =
                other.path == row.path && row.methods.is_empty() && !other.methods.is_empty();
            let methods = other.methods.is_empty() || other.methods.iter().any(|one| one == method);
            (narrower || by_method) && methods && other.path.covers(&exact)
        })
    })
}

/// The test of a route, if there is a request that it alone gets.
fn test(
    listener: &RouteListener,
    host: &RuleHost,
    row: &RouteRow,
    key: &str,
    rows: &[RouteRow],
) -> Option<DraftTable> {
    let name = match host {
        RuleHost::Exact(name) => name.clone(),
        RuleHost::Below(name) => format!("any.{name}"),
        RuleHost::Any => "any.example.com".to_owned(),
    };
    let (scheme, standard) = if listener.tls {
        ("https", 443)
    } else {
        ("http", 80)
    };
    let port = match listener.port == standard {
        true => String::new(),
        false => format!(":{}", listener.port),
    };
    let method = row.methods.first().map_or("GET", String::as_str);
    let path = request_path(row, method, rows)?;
    let pattern = rows::patterns(row).into_iter().next().unwrap_or_default();
    let mut table = DraftTable::default();
    table.set("request", format!("{method} {scheme}://{name}{port}{path}"));
    let mut expect = vec![
        ("site".to_owned(), key.into()),
        ("route".to_owned(), pattern.into()),
    ];
    let guarded = row
        .keys
        .iter()
        .any(|(key, _)| matches!(key.as_str(), "auth" | "allow"));
    for (key, value) in row.keys.iter().filter(|_| !guarded) {
        match (key.as_str(), value) {
            ("proxy", DraftValue::Text(text)) => {
                if let Some(pool) = text.strip_prefix("pool:") {
                    expect.push(("pool".to_owned(), pool.into()));
                }
            }
            ("respond", DraftValue::Number(status)) => {
                expect.push(("status".to_owned(), (*status).into()))
            }
            ("redirect", value) => {
                let (to, status) = match value {
                    DraftValue::Text(to) => (Some(to.clone()), DraftValue::from(308_i64)),
                    DraftValue::Inline(keys) => {
                        let get = |name: &str| {
                            keys.iter()
                                .find(|(key, _)| key == name)
                                .map(|(_, value)| value.clone())
                        };
                        let to = match get("to") {
                            Some(DraftValue::Text(to)) => Some(to),
                            _ => None,
                        };
                        (to, get("status").unwrap_or_else(|| 308_i64.into()))
                    }
                    _ => continue,
                };
                expect.push(("status".to_owned(), status));
                let location = to.map(|to| to.replace("{host}", &name).replace("{path}", &path));
                expect.extend(location.map(|location| ("location".to_owned(), location.into())));
            }
            _ => {}
        }
    }
    table.set("expect", DraftValue::Inline(expect));
    Some(table)
}
