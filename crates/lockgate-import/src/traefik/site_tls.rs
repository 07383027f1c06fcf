//! Certificates and options of TLS: `[tls]`, `[acme]`, and the `tls` of sites.

use std::collections::HashMap;

use super::acme::{TraefikResolver, is_private};
use super::node::{TraefikNode, is_known};
use super::routes::{RouteListener, RouterTls, TraefikRoutes};
use super::rows::RouteRow;
use super::rule::{RuleHost, stand_in};
use super::source::TraefikSource;
use super::statics::TraefikStatics;
use super::tls_options::{self, TraefikTlsOptions};
use crate::{ConversionReport, Draft, DraftTable, DraftValue, Verdict};

/// Certificates and options, as far as sites need them.
pub(super) struct SiteTls<'a> {
    resolvers: &'a [TraefikResolver],
    /// The resolver that `[acme]` has the keys of.
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
    let relays = source.tcp_routers.items.iter();
    let names: Vec<String> = relays
        .filter_map(|item| item.node.at(&["tls", "certResolver"])?.text())
        .map(str::to_ascii_lowercase)
        .collect();
    for name in &names {
        *uses.entry(name).or_default() += 1;
    }
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

/// Writes the keys of a site's TLS; false if it cannot have any.
#[expect(
    clippy::too_many_arguments,
    reason = "one caller, which has them all at hand"
)]
pub(super) fn site_tls(
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
    let mut settings: Vec<&(RouterTls, Option<TraefikNode>)> = Vec::new();
    let mut numbers: Vec<usize> = rows.iter().map(|row| row.router).collect();
    numbers.sort_unstable();
    numbers.dedup();
    settings.extend(numbers.iter().filter_map(|number| routes.tls.get(number)));
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
    let parent = name.split_once('.').map_or("", |(_, parent)| parent);
    let covered = |one: &String| {
        let plain = match is_known(one) {
            true => one.clone(),
            false => stand_in(one),
        };
        match plain.strip_prefix("*.") {
            Some(rest) => rest == parent || rest == name,
            None => plain == *name || plain == parent,
        }
    };
    let lists: Vec<_> = domains
        .nodes()
        .iter()
        .flat_map(TraefikNode::fields)
        .collect();
    let any = lists
        .iter()
        .any(|(_, names)| names.items().iter().any(covered));
    let verdict = match any {
        // The host has its certificate either way.
        true => Verdict::Default,
        false => Verdict::differs("each site has a certificate for its own hosts"),
    };
    for (_, names) in lists {
        names.mark(report, &verdict);
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
