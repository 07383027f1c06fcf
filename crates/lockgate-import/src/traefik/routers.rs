//! Routers for HTTP, as routes of hosts on listeners.

use std::collections::BTreeSet;

use super::node::TraefikNode;
use super::route_parts::{RouteContext, TraefikRedirect};
use super::routes::{RouteListener, RouterReader, RouterTls, TraefikRoutes};
use super::rows::{RouteRow, respond};
use super::rule::{self, RuleHost, RuleMatch, RulePath};
use super::services::{TraefikService, TraefikServices};
use super::source::TraefikSource;
use super::statics::{TraefikEntryPoint, TraefikStatics};
use super::{middlewares, pages};
use crate::{ConversionReport, Draft, DraftValue, Verdict};

/// Reads all routers.
pub(super) fn read(
    source: &TraefikSource,
    statics: &mut TraefikStatics,
    services: &mut TraefikServices,
    draft: &mut Draft,
    report: &mut ConversionReport,
) -> TraefikRoutes {
    let mut routes = TraefikRoutes::default();
    let tls_ports = tls_ports(source, statics);
    let metrics = statics.metrics.clone();
    for (number, item) in source.routers.items.iter().enumerate() {
        let mut reader = RouterReader {
            number,
            item,
            source,
            statics,
            services,
            draft,
            report,
            routes: &mut routes,
        };
        if let Err(why) = reader.router(&tls_ports) {
            let verdict = Verdict::not_supported(why, None);
            if let Some(statement) = item.node.statement {
                report.set(statement, verdict.clone());
            }
            if let Some(rule) = item.node.field("rule") {
                rule.set(report, verdict.clone());
            }
            item.node.mark_rest(report, &verdict);
        }
    }
    pages::alone(&mut routes, source, statics, metrics, report);
    routes
}

/// The ports on which routers have TLS.
fn tls_ports(source: &TraefikSource, statics: &TraefikStatics) -> BTreeSet<u16> {
    let mut ports: BTreeSet<u16> = [443].into();
    ports.extend(
        statics
            .entry_points
            .iter()
            .filter(|entry| entry.tls.is_some())
            .map(|entry| entry.port),
    );
    for item in &source.routers.items {
        let tls = item
            .node
            .field("tls")
            .is_some_and(|tls| tls.flag() != Some(false));
        for name in item
            .node
            .field("entryPoints")
            .filter(|_| tls)
            .map(TraefikNode::items)
            .unwrap_or_default()
        {
            ports.extend(statics.entry_point(&name).map(|entry| entry.port));
        }
    }
    ports.remove(&80);
    ports.remove(&statics.http_port);
    ports
}

impl RouterReader<'_> {
    /// The entry points of the router.
    fn entries(&mut self) -> Result<(Vec<TraefikEntryPoint>, bool), String> {
        let Some(node) = self.item.node.field("entryPoints") else {
            let standard = |entry: &&TraefikEntryPoint| entry.standard;
            let own: Vec<_> = self
                .statics
                .entry_points
                .iter()
                .filter(standard)
                .cloned()
                .collect();
            if !own.is_empty() {
                return Ok((own, false));
            }
            let all: Vec<_> = self
                .statics
                .entry_points
                .iter()
                .filter(|entry| entry.name != "traefik")
                .cloned()
                .collect();
            if !all.is_empty() {
                return Ok((all, false));
            }
            return Ok((vec![guess("web", 80), guess("websecure", 443)], false));
        };
        let mut entries = Vec::new();
        let mut verdict = Verdict::Converted;
        for name in node.items() {
            match self.statics.entry_point(&name) {
                Some(entry) => entries.push(entry.clone()),
                None => {
                    let lower = name.to_ascii_lowercase();
                    let known = match lower.as_str() {
                        "web" | "http" | "insecure" if !self.has_port(80) => Some(80),
                        "websecure" | "web-secure" | "web_secure" | "https" | "secure"
                            if !self.has_port(443) =>
                        {
                            Some(443)
                        }
                        _ => None,
                    };
                    match known {
                        Some(port) => {
                            let with = if port == 443 { " with TLS" } else { "" };
                            entries.push(match port {
                                443 => secure(&lower),
                                _ => guess(&lower, port),
                            });
                            verdict = Verdict::differs(format!(
                                "no file here defines the entry point {name}: it is taken to be port {port}{with}"
                            ));
                        }
                        None => {
                            verdict = Verdict::not_supported(
                                format!("no file here defines the entry point {name}"),
                                None,
                            )
                        }
                    }
                }
            }
        }
        node.set(self.report, verdict);
        match entries.is_empty() {
            true => Err("no file here defines its entry points".to_owned()),
            false => Ok((entries, true)),
        }
    }

    /// Whether an entry point of these files has a port.
    fn has_port(&self, port: u16) -> bool {
        self.statics
            .entry_points
            .iter()
            .any(|entry| entry.port == port)
    }

    fn router(&mut self, tls_ports: &BTreeSet<u16>) -> Result<(), String> {
        let node = &self.item.node;
        if let Some(container) = &self.item.container {
            let enabled = container.enabled.unwrap_or(self.statics.exposed_by_default);
            if !enabled {
                return Err("its container is not enabled (traefik.enable)".to_owned());
            }
        }
        let rule_node = node
            .field("rule")
            .ok_or_else(|| "it has no rule: Traefik takes its default rule".to_owned())?;
        let text = rule_node.raw().unwrap_or("");
        let rule = rule::read(text)?;
        let (entries, explicit) = self.entries()?;
        let own_tls = node.field("tls").filter(|tls| tls.flag() != Some(false));
        if let Some(statement) = node.statement {
            self.report.set(statement, Verdict::Converted);
        }
        rule_node.set(self.report, Verdict::Converted);
        for why in &rule.differs {
            rule_node.set(self.report, Verdict::differs(why.clone()));
        }
        let priority = node.field("priority");
        let given = priority
            .and_then(TraefikNode::number)
            .filter(|number| *number != 0);
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(priority) = priority {
            priority.set(self.report, Verdict::Converted);
        }
        let mut reached = 0;
        let mut redirected = false;
        let has_tls = entries.iter().any(|entry| tls_ports.contains(&entry.port));
        let has_plain = entries.iter().any(|entry| !tls_ports.contains(&entry.port));
        for entry in &entries {
            let tls = own_tls.is_some() || entry.tls.is_some();
            let on_tls_port = tls_ports.contains(&entry.port);
            if tls
                && matches!(entry.port, port if port == 80 || port == self.statics.http_port)
                && !has_tls
            {
                return Err(
                    "TLS on port 80 is not served: sites with TLS are redirected to from there"
                        .to_owned(),
                );
            }
            if tls && !on_tls_port && has_tls {
                if explicit && entry.redirect.is_none() {
                    self.set(
                        "entryPoints",
                        Verdict::differs(format!("port {} redirects to TLS", entry.port)),
                    );
                }
                continue;
            }
            if !tls && on_tls_port {
                if explicit || !has_plain {
                    self.set(
                        "entryPoints",
                        Verdict::differs(format!(
                            "plain HTTP is not served on port {}, which has TLS",
                            entry.port
                        )),
                    );
                }
                continue;
            }
            if !tls && entry.redirect.is_some() {
                redirected = true;
                continue;
            }
            reached += 1;
            self.on_entry(entry, tls, &rule.any_of, given.unwrap_or(length))?;
        }
        if reached == 0 {
            let verdict = match redirected {
                true => {
                    Verdict::differs("no request reaches it: its entry point redirects all of them")
                }
                false => return Err("plain HTTP on a port with TLS is not served".to_owned()),
            };
            // What else it says has no effect in Traefik either.
            node.mark_rest(self.report, &Verdict::Default);
            if let Some(rule) = node.field("rule") {
                rule.set(self.report, verdict);
            }
        }
        if let Some(tls) = node.field("tls")
            && tls.flag() == Some(false)
        {
            tls.set(self.report, Verdict::Default);
        }
        self.set("observability", Verdict::Default);
        self.set("ruleSyntax", Verdict::Default);
        Ok(())
    }

    fn tls(&mut self, entry: &TraefikEntryPoint) {
        let own = self
            .item
            .node
            .field("tls")
            .filter(|tls| tls.flag() != Some(false));
        // The TLS of a router replaces that of its entry point.
        let node = own.or(entry.tls.as_ref());
        let Some(node) = node else { return };
        let text = |key: &str| {
            node.field(key)
                .and_then(TraefikNode::text)
                .filter(|text| !text.is_empty())
        };
        let tls = RouterTls {
            resolver: text("certResolver").map(str::to_ascii_lowercase),
            options: text("options").map(|name| (name.to_owned(), self.item.provider)),
        };
        self.routes
            .tls
            .insert(self.number, (tls, Some(node.clone())));
    }

    fn on_entry(
        &mut self,
        entry: &TraefikEntryPoint,
        tls: bool,
        any_of: &[RuleMatch],
        priority: i64,
    ) -> Result<(), String> {
        if tls {
            self.tls(entry);
        }
        let listener = RouteListener {
            port: entry.port,
            address: entry.address,
            tls,
            accept_proxy: entry.accept_proxy,
        };
        let hosts: Vec<String> = any_of
            .iter()
            .flat_map(|one| &one.hosts)
            .map(|host| match host {
                RuleHost::Exact(name) => name.clone(),
                _ => String::new(),
            })
            .collect();
        let context = RouteContext {
            tls,
            trusted: self.statics.trusted,
            hosts: &hosts,
        };
        let own = self
            .item
            .node
            .field("middlewares")
            .map(TraefikNode::items)
            .unwrap_or_default();
        self.set("middlewares", Verdict::Converted);
        let mut parts =
            middlewares::read(&own, self.item.provider, context, self.source, self.report);
        if !entry.middlewares.is_empty() {
            let names = &entry.middlewares;
            let first = middlewares::read(names, "file", context, self.source, self.report);
            parts = middlewares::joined(first, parts);
        }
        let (service, name) = self.service();
        // A rule that names every host, and only leads to TLS, is what sites with TLS do.
        let mut refused = parts.refuse.clone();
        let step = parts.redirects.first();
        let to_tls = !tls
            && step.is_some_and(|step| matches!(&step.redirect, TraefikRedirect::Scheme(scheme, _) if scheme == "https"));
        if to_tls && refused.is_none() {
            self.lead_to_tls(&listener, any_of, &parts, priority);
            return Ok(());
        }
        let action = match (&service, &name) {
            (TraefikService::Internal(page), _) => self.page(page, &parts, &hosts),
            (TraefikService::Upstream(upstream), name) => {
                let mut more: Vec<(String, DraftValue)> = Vec::new();
                match parts.retry {
                    Some(0) => more.push(("retry".to_owned(), false.into())),
                    Some(1) | None => {}
                    Some(times) => more.push((
                        "retry".to_owned(),
                        DraftValue::Inline(vec![("times".to_owned(), times.into())]),
                    )),
                }
                let pools = self.draft.top.table("pool");
                let value = self.services.proxy(name, upstream, &more, pools);
                if self
                    .draft
                    .top
                    .find_table("pool")
                    .is_some_and(crate::DraftTable::is_empty)
                {
                    self.draft.top.remove_table("pool");
                }
                Ok(vec![("proxy".to_owned(), value)])
            }
            (TraefikService::Broken(why), _) => Err(why.clone()),
        };
        let mut broken = None;
        let action = match action {
            Ok(action) => action,
            Err(why) => {
                let only_redirects = !parts.redirects.is_empty();
                if !only_redirects {
                    self.set("service", Verdict::not_supported(why.clone(), None));
                    broken = Some(why);
                }
                respond(502)
            }
        };
        if let TraefikService::Upstream(upstream) = &service {
            if let Some(host) = &upstream.host
                && !parts.request_headers.iter().any(|(name, _)| name == "host")
            {
                parts
                    .request_headers
                    .push(("host".to_owned(), host.as_str().into()));
            }
            if !upstream.timeouts.is_empty() {
                parts.keys.push((
                    "timeouts".to_owned(),
                    DraftValue::Inline(upstream.timeouts.clone()),
                ));
            }
        }
        // Lockgate's live page takes all of a host, if no other router has a part of it.
        let is_page = matches!(
            &service,
            TraefikService::Internal(name) if matches!(name.as_str(), "api" | "dashboard" | "prometheus")
        ) && refused.is_none()
            && broken.is_none();
        for one in any_of {
            let conditional = !one.foreign.is_empty();
            if conditional {
                self.set(
                    "rule",
                    Verdict::not_supported(
                        format!(
                            "Lockgate chooses by host, path and method, not by {}",
                            one.foreign.join(" and ")
                        ),
                        None,
                    ),
                );
            }
            for host in &one.hosts {
                let path = if is_page { &RulePath::All } else { &one.path };
                let rows = match refused.clone().or_else(|| broken.clone()) {
                    Some(why) => {
                        let status = if refused.is_some() { 403 } else { 502 };
                        vec![(one.path.clone(), respond(status), vec![why], true)]
                    }
                    None => match self.rows(host, &listener, path, &parts, &action) {
                        Ok(rows) => rows,
                        Err(why) => {
                            refused = Some(why.clone());
                            vec![(one.path.clone(), respond(403), vec![why], true)]
                        }
                    },
                };
                for (index, (mut path, keys, comments, void)) in rows.into_iter().enumerate() {
                    let page = (is_page && keys.iter().any(|(key, _)| key == "proxy"))
                        .then(|| one.path.clone());
                    // A redirect is no page: it has the paths of the rule.
                    if is_page && page.is_none() && !one.path.covers(&path) {
                        path = one.path.clone();
                        if index > 0 {
                            continue;
                        }
                    }
                    let row = RouteRow {
                        router: self.number,
                        path,
                        methods: one.methods.clone(),
                        // A narrower pattern of the same router comes before the router's own.
                        priority: priority
                            .saturating_mul(4)
                            .saturating_add(i64::from(index > 0)),
                        keys,
                        comments: std::iter::once(self.item.node.place.to_string())
                            .chain(parts.comments.iter().cloned())
                            .chain(comments)
                            .collect(),
                        guards: parts.guards.clone(),
                        conditional,
                        outsiders: one.outsiders(),
                        except: if index == 0 {
                            one.except.clone()
                        } else {
                            Vec::new()
                        },
                        void,
                        page,
                    };
                    self.routes.add(&listener, host, row);
                }
            }
        }
        if let Some(why) = refused {
            let verdict = Verdict::not_supported(
                format!("it is not served, and its requests are refused: {why}"),
                None,
            );
            self.set("rule", verdict);
        } else if let Some(why) = broken {
            self.set(
                "rule",
                Verdict::not_supported(format!("it is not served: {why}"), None),
            );
        }
        Ok(())
    }

    /// The service of the router, with its name; its statement gets a verdict.
    fn service(&mut self) -> (TraefikService, String) {
        let node = self.item.node.field("service");
        let named = node.and_then(TraefikNode::text).map(str::to_owned);
        let name = match (named, &self.item.container) {
            (Some(name), _) => name,
            (None, Some(container)) if node.is_none() => {
                let names = self.source.service_names.get(&container.name);
                match names.map(Vec::as_slice) {
                    Some([name]) => name.clone(),
                    Some([_, _, ..]) => {
                        return (
                            TraefikService::Broken(
                                "its container has several services, and it names none".to_owned(),
                            ),
                            String::new(),
                        );
                    }
                    _ => {
                        let (service, verdict) = self.services.container(self.item);
                        if let Some(verdict) = verdict {
                            self.set("rule", verdict);
                        }
                        return (service, container.name.clone());
                    }
                }
            }
            _ => {
                return (
                    TraefikService::Broken("its service is not known here".to_owned()),
                    String::new(),
                );
            }
        };
        self.set("service", Verdict::Converted);
        let service = self
            .services
            .find(&name, self.item.provider, self.source, self.report);
        (service, name)
    }
}

fn guess(name: &str, port: u16) -> TraefikEntryPoint {
    TraefikEntryPoint {
        name: name.to_owned(),
        port,
        address: None,
        standard: false,
        redirect: None,
        tls: None,
        middlewares: Vec::new(),
        accept_proxy: false,
        node: None,
    }
}

/// Port 443 of an entry point that no file here defines: with TLS, as its name says.
fn secure(name: &str) -> TraefikEntryPoint {
    let mut entry = guess(name, 443);
    let place = crate::Place {
        file: std::path::Path::new("").into(),
        line: 1,
    };
    entry.tls = Some(TraefikNode::new(&place, super::node::TraefikValue::Empty));
    entry
}
