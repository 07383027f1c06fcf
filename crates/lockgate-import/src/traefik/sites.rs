//! Sites of the routes, with their certificates and tests.

use std::collections::{BTreeSet, HashMap};

use super::acme::{TraefikResolver, is_private};
use super::node::TraefikNode;
use super::routers::{RouteListener, RouterTls, TraefikRoutes};
use super::rows::{self, MAX_ROWS, RouteRow};
use super::rule::{RuleHost, RulePath};
use super::source::TraefikSource;
use super::statics::TraefikStatics;
use super::tls_options::{self, TraefikTlsOptions};
use crate::{ConversionReport, Draft, DraftTable, DraftValue, Verdict};

/// The most tests that are written.
const MAX_TESTS: usize = 50;
/// How many routers for every host are compared with those of each host.
const MAX_EVERYWHERE: usize = 50;

/// Certificates and options, as far as sites need them.
pub(super) struct SiteTls<'a> {
    resolvers: &'a [TraefikResolver],
    /// The resolver whose keys are those of `[acme]`.
    main: Option<String>,
    options: HashMap<(String, &'static str), TraefikTlsOptions>,
    has_certs: bool,
}

/// Writes `[tls]` and `[acme]`, and reads the options of TLS.
pub(super) fn tls<'a>(
    source: &TraefikSource,
    resolvers: &'a [TraefikResolver],
    routes: &TraefikRoutes,
    draft: &mut Draft,
    report: &mut ConversionReport,
) -> SiteTls<'a> {
    let mut certs = Vec::new();
    for node in &source.certificates {
        certs.extend(tls_options::certificate(node, report));
    }
    let mut top = DraftTable::default();
    let has_certs = !certs.is_empty();
    if has_certs {
        top.set("certs", DraftValue::List(certs));
    }
    let mut has_default = false;
    for store in source.stores.iter().flat_map(|node| node.fields()) {
        let (name, node) = store;
        if let Some(statement) = node.statement {
            report.set(statement, Verdict::Converted);
        }
        for (key, node) in node.fields() {
            if key.eq_ignore_ascii_case("defaultCertificate") && name == "default" {
                if let Some(cert) = tls_options::certificate(node, report) {
                    top.set("default", cert);
                    has_default = true;
                }
            } else {
                node.mark(
                    report,
                    &Verdict::not_supported(
                        "names without a certificate are refused, or have one of ACME",
                        None,
                    ),
                );
            }
        }
    }
    let mut options = HashMap::new();
    for item in &source.tls_options.items {
        let read = tls_options::read(&item.node, report);
        if item.name == "default" && read.refuse.is_none() {
            for (key, value) in &read.keys {
                top.set(key, value.clone());
            }
        }
        options.insert((item.name.clone(), item.provider), read);
    }
    // The resolver of most routers is that of `[acme]`.
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for (tls, _) in routes.tls.values() {
        if let Some(name) = &tls.resolver {
            *uses.entry(name).or_default() += 1;
        }
    }
    let usable = resolvers.iter().filter(|resolver| resolver.usable);
    let main = usable.max_by_key(|resolver| uses.get(resolver.name.as_str()).copied().unwrap_or(0));
    let main = main.map(|resolver| {
        if uses.contains_key(resolver.name.as_str()) {
            let table = draft.top.table("acme");
            table.comments.push(resolver.place.clone());
            for (key, value) in &resolver.keys {
                table.set(key, value.clone());
            }
        }
        resolver.name.clone()
    });
    if main.is_none() && !uses.is_empty() {
        draft
            .top
            .table("acme")
            .comments
            .push("no file has the certificate resolver: this is Let's Encrypt".to_owned());
    }
    if !top.is_empty() {
        *draft.top.table("tls") = top;
    }
    SiteTls {
        resolvers,
        main,
        options,
        has_certs: has_certs || has_default,
    }
}

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
            if let RuleHost::Exact(name) = host {
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
                row.keys.iter().any(|(key, value)| {
                    key == "redirect" && *value == "https://{host}{path}".into()
                })
            };
            if !listener.tls
                && listener.port == statics.http_port
                && secured.contains(host)
                && resolved.rows.iter().all(to_tls)
            {
                continue;
            }
            if resolved.rows.is_empty()
                || resolved
                    .rows
                    .iter()
                    .all(|row| row.void && row.guards.is_empty())
            {
                continue;
            }
            if *host == RuleHost::Any && resolved.rows.iter().all(|row| row.void) {
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
    for (number, item) in source.routers.items.iter().enumerate() {
        if !reached.contains(&number)
            && routes.hosts.values().flatten().any(|(_, rows)| {
                rows.iter()
                    .any(|row| row.router == number && !row.conditional)
            })
        {
            if let Some(rule) = item.node.field("rule") {
                rule.set(
                    report,
                    Verdict::differs(
                        "no request reaches it: routers of higher priority take them all",
                    ),
                );
            }
        }
    }
    let mut tests = Vec::new();
    for site in sites {
        emit(site, statics, draft, &mut tests);
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
    for number in &resolved.exposed {
        if let Some(rule) = rule(*number) {
            rule.set(
                report,
                Verdict::differs("similar paths, with more letters before the next slash, are served by another router without the access control of this one"),
            );
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

fn emit(site: Site, statics: &TraefikStatics, draft: &mut Draft, tests: &mut Vec<DraftTable>) {
    let Some(first) = site.hosts.first() else {
        return;
    };
    let key = site_key(&site.listener, first, statics);
    if draft
        .top
        .find_table("site")
        .is_some_and(|sites| sites.find_table(&key).is_some())
    {
        return;
    }
    for row in &site.rows {
        if tests.len() >= MAX_TESTS {
            break;
        }
        tests.push(test(&site.listener, first, row, &key));
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
    table.append(site.table);
    *draft.top.table("site").table(&key) = table;
}

fn test(listener: &RouteListener, host: &RuleHost, row: &RouteRow, key: &str) -> DraftTable {
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
    let path = match &row.path {
        RulePath::All => "/".to_owned(),
        RulePath::Prefix(prefix) => format!("{prefix}/x"),
        RulePath::Exact(path) => path.clone(),
    };
    let method = row.methods.first().map_or("GET", String::as_str);
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
    table
}

/// Writes the keys of a site's TLS; false if it cannot have any.
#[expect(
    clippy::too_many_arguments,
    reason = "one caller, which has them all at hand"
)]
fn site_tls(
    listener: &RouteListener,
    host: &RuleHost,
    rows: &[RouteRow],
    statics: &TraefikStatics,
    routes: &TraefikRoutes,
    tls: &SiteTls<'_>,
    table: &mut DraftTable,
    source: &TraefikSource,
    report: &mut ConversionReport,
) -> bool {
    if !listener.tls {
        return true;
    }
    let implied = listener.port == statics.https_port && *host != RuleHost::Any;
    let own = rows.iter().filter_map(|row| routes.tls.get(&row.router));
    let mut settings: Vec<&(RouterTls, Option<TraefikNode>)> = own.collect();
    settings.dedup_by(|one, other| one.0 == other.0);
    let Some((first, _)) = settings.first() else {
        table.set("tls", "internal");
        return true;
    };
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    // Options of TLS.
    let chosen = settings.iter().find_map(|(tls, _)| tls.options.as_ref());
    let mut options = None;
    if let Some((name, provider)) = chosen {
        let (name, provider) = match name.rsplit_once('@') {
            Some((name, "docker")) => (name, "docker"),
            Some((name, _)) => (name, "file"),
            None => (name.as_str(), *provider),
        };
        let fallback = tls.options.get(&(name.to_owned(), "file"));
        options = tls.options.get(&(name.to_owned(), provider)).or(fallback);
        if options.is_none() && name != "default" {
            refuse(
                rows,
                source,
                report,
                "no file here defines its options of TLS, which may ask for client certificates",
            );
            return false;
        }
        if name == "default" {
            options = None;
        }
    }
    let default = tls.options.get(&("default".to_owned(), "file"));
    if let Some(why) = options
        .or(default)
        .and_then(|options| options.refuse.as_deref())
    {
        refuse(rows, source, report, why);
        return false;
    }
    if let Some(options) = options {
        keys.extend(options.keys.iter().cloned());
    }
    if let Some(protocols) = options
        .or(default)
        .and_then(|options| options.protocols.clone())
    {
        table.set("protocols", protocols);
    }
    let mark = |verdict: &Verdict, report: &mut ConversionReport| {
        for (_, node) in &settings {
            if let Some(node) = node {
                node.mark_rest(report, verdict);
            }
        }
    };
    // Certificates.
    let mut internal = None;
    match &first.resolver {
        Some(name) => {
            let found = tls
                .resolvers
                .iter()
                .find(|resolver| resolver.name == *name && resolver.usable);
            let names_private = match host {
                RuleHost::Exact(name) => is_private(name),
                RuleHost::Below(name) => is_private(name) || !found.is_some_and(|found| found.dns),
                RuleHost::Any => true,
            };
            let verdict = match found {
                _ if names_private && tls.has_certs && *host != RuleHost::Any => {
                    table.set("acme", false);
                    Verdict::differs(
                        "no public authority certifies it: the certificates of `tls` are used",
                    )
                }
                _ if names_private => {
                    internal = Some(
                        "no public authority certifies it by ACME without DNS: the certificate is one of Lockgate's own authority",
                    );
                    Verdict::Converted
                }
                Some(found) => {
                    if tls.main.as_deref() != Some(found.name.as_str()) {
                        let keys = found.keys.clone();
                        match keys.is_empty() {
                            true => {}
                            false => table.set("acme", DraftValue::Inline(keys)),
                        }
                    }
                    Verdict::Converted
                }
                None => Verdict::differs(format!(
                    "no file here defines the resolver {name}: the certificate is one of [acme]"
                )),
            };
            for (_, node) in &settings {
                let Some(node) = node else { continue };
                if let Some(resolver) = node.field("certResolver") {
                    resolver.set(report, verdict.clone());
                }
                domains(node, host, report);
            }
        }
        None if tls.has_certs => {
            if tls.main.is_some() && matches!(host, RuleHost::Exact(name) if is_private(name)) {
                table.set("acme", false);
            }
            if matches!(host, RuleHost::Below(_)) && tls.main.is_some() {
                table.set("acme", false);
            }
        }
        None => {
            internal =
                Some("Traefik's self-signed certificate becomes one of Lockgate's own authority")
        }
    }
    if let Some(why) = internal {
        if *host == RuleHost::Any {
            refuse(
                rows,
                source,
                report,
                "a site for every host needs a certificate file: name one in [tls]",
            );
            return false;
        }
        keys.push(("issuer".to_owned(), "internal".into()));
        for (_, node) in &settings {
            if let Some(node) = node {
                let at = node.field("certResolver").unwrap_or(node);
                match at.statement {
                    Some(statement) => report.set(statement, Verdict::differs(why)),
                    None => node.mark(report, &Verdict::differs(why)),
                }
            }
        }
    }
    mark(&Verdict::Converted, report);
    match keys.as_slice() {
        [] if implied => {}
        [(key, value)] if key == "issuer" => table.set("tls", value.clone()),
        _ => table.set("tls", DraftValue::Inline(keys)),
    }
    true
}

/// The names that a certificate should have.
fn domains(node: &TraefikNode, host: &RuleHost, report: &mut ConversionReport) {
    let Some(domains) = node.field("domains") else {
        return;
    };
    let RuleHost::Exact(name) = host else { return };
    for domain in domains.nodes() {
        for (_, names) in domain.fields() {
            let verdict = match names.items().iter().all(|one| one == name) {
                true => Verdict::Converted,
                false => Verdict::differs("each site has a certificate for its own hosts"),
            };
            names.mark(report, &verdict);
        }
    }
}

fn refuse(rows: &[RouteRow], source: &TraefikSource, report: &mut ConversionReport, why: &str) {
    for row in rows {
        let Some(item) = source.routers.items.get(row.router) else {
            continue;
        };
        let verdict = Verdict::not_supported(format!("its site is left out: {why}"), None);
        if let Some(rule) = item.node.field("rule") {
            rule.set(report, verdict.clone());
        }
        if let Some(tls) = item.node.field("tls") {
            tls.mark(report, &verdict);
        }
    }
}
