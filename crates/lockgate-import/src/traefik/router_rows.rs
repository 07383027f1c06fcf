//! What one router does for one host: pages, redirects and changed paths, as rows.

use std::collections::BTreeSet;

use super::paths;
use super::redirects::{self, RedirectOutcome};
use super::route_parts::{RouteParts, TraefikPathStep, TraefikRedirect};
use super::routes::{RouteListener, RouterReader};
use super::rows::{RouteRow, respond};
use super::rule::{RuleHost, RuleMatch, RulePath};
use super::statics::PAGE;
use crate::{DraftValue, Verdict};

impl RouterReader<'_> {
    /// A page of Traefik itself.
    pub(super) fn page(
        &mut self,
        page: &str,
        parts: &RouteParts,
        hosts: &[String],
    ) -> Result<Vec<(String, DraftValue)>, String> {
        match page {
            "noop" => {
                self.set("service", Verdict::Converted);
                Ok(respond(418))
            }
            "ping" => {
                self.set("service", Verdict::Converted);
                let keys = vec![("status".to_owned(), 200_i64.into()), ("body".to_owned(), "OK".into())];
                Ok(vec![("respond".to_owned(), DraftValue::Inline(keys))])
            }
            "api" | "dashboard" | "prometheus" if !parts.guards.is_empty() => {
                let at = self
                    .statics
                    .metrics
                    .get_or_insert_with(|| PAGE.to_owned())
                    .clone();
                self.set("service", Verdict::differs("it is Lockgate's live page, with its metrics, instead of Traefik's"));
                for host in hosts.iter().filter(|host| !host.is_empty()) {
                    if !self.routes.page_hosts.contains(host) {
                        self.routes.page_hosts.push(host.clone());
                    }
                }
                Ok(vec![("proxy".to_owned(), at.into())])
            }
            "api" | "dashboard" | "prometheus" => Err(
                "Lockgate's live page shows clients: it is not put on a site without a middleware that asks for a password or an address".to_owned(),
            ),
            _ => Err(format!("{page}@internal is a part of Traefik")),
        }
    }

    /// A router that only leads to TLS.
    pub(super) fn lead_to_tls(
        &mut self,
        listener: &RouteListener,
        any_of: &[RuleMatch],
        parts: &RouteParts,
        priority: i64,
    ) {
        let Some(step) = parts.redirects.first() else {
            return;
        };
        let verdict = match step.permanent {
            true => Verdict::Default,
            false => Verdict::differs(
                "where a site has TLS, Lockgate redirects by itself, with the permanent status 308",
            ),
        };
        step.node.mark(self.report, &verdict);
        for key in ["service", "rule", "middlewares"] {
            if let Some(node) = self.item.node.field(key) {
                node.mark_rest(self.report, &Verdict::Default);
            }
        }
        // What other middlewares of the route do has no part in a redirect.
        let TraefikRedirect::Scheme(_, port) = &step.redirect else {
            return;
        };
        let status: i64 = if step.permanent { 301 } else { 302 };
        let port = port
            .filter(|port| *port != 443)
            .map_or(String::new(), |port| format!(":{port}"));
        for one in any_of {
            let everything = one.path == RulePath::All
                && one.methods.is_empty()
                && one.foreign.is_empty()
                && one.except.is_empty();
            for host in &one.hosts {
                let implied = listener.port == self.statics.http_port && port.is_empty();
                if *host == RuleHost::Any && everything && implied {
                    self.routes.redirected.insert(listener.clone());
                    continue;
                }
                let row = RouteRow {
                    router: self.number,
                    path: one.path.clone(),
                    methods: one.methods.clone(),
                    priority: priority.saturating_mul(4),
                    keys: vec![(
                        "redirect".to_owned(),
                        DraftValue::Inline(vec![
                            (
                                "to".to_owned(),
                                format!("https://{{host}}{port}{{path}}").into(),
                            ),
                            ("status".to_owned(), status.into()),
                        ]),
                    )],
                    comments: vec![self.item.node.place.to_string()],
                    guards: BTreeSet::new(),
                    conditional: !one.foreign.is_empty(),
                    outsiders: false,
                    except: one.except.clone(),
                    void: false,
                    page: None,
                };
                self.routes.add(listener, host, row);
            }
        }
    }

    /// The rows of one alternative for one host.
    #[expect(
        clippy::type_complexity,
        reason = "rows of a table, taken apart at once"
    )]
    pub(super) fn rows(
        &mut self,
        host: &RuleHost,
        listener: &RouteListener,
        path: &RulePath,
        parts: &RouteParts,
        action: &[(String, DraftValue)],
    ) -> Result<Vec<(RulePath, Vec<(String, DraftValue)>, Vec<String>, bool)>, String> {
        let scheme = if listener.tls { "https" } else { "http" };
        let mut some = Vec::new();
        for step in &parts.redirects {
            let outcome = match &step.redirect {
                TraefikRedirect::Scheme(to, port) => {
                    let standard = if to == "https" { 443 } else { 80 };
                    if to == scheme
                        && port.is_none_or(|port| port == listener.port || port == standard)
                    {
                        continue;
                    }
                    let port = port
                        .filter(|port| *port != standard)
                        .map_or(String::new(), |port| format!(":{port}"));
                    RedirectOutcome::All(format!("{to}://{{host}}{port}{{path}}"))
                }
                TraefikRedirect::Pattern(regex, with) => match host {
                    RuleHost::Exact(name) => redirects::apply(regex, with, scheme, name),
                    _ => match redirects::apply(regex, with, scheme, "any.invalid") {
                        RedirectOutcome::All(to) if !to.contains("any.invalid") => {
                            RedirectOutcome::All(to)
                        }
                        _ => RedirectOutcome::Unknown,
                    },
                },
            };
            let value = |to: &str| {
                let keys = vec![
                    ("to".to_owned(), to.into()),
                    (
                        "status".to_owned(),
                        if step.permanent {
                            301_i64.into()
                        } else {
                            302_i64.into()
                        },
                    ),
                ];
                ("redirect".to_owned(), DraftValue::Inline(keys))
            };
            let before: Vec<_> = step
                .before
                .iter()
                .filter(|(key, _)| matches!(key.as_str(), "auth" | "allow" | "limit"))
                .cloned()
                .collect();
            let mut keys: Vec<(String, DraftValue)> = Vec::new();
            match outcome {
                RedirectOutcome::Nothing => {}
                RedirectOutcome::All(to) => {
                    step.node.mark(self.report, &Verdict::Converted);
                    keys.push(value(&to));
                    keys.extend(before);
                    if !parts.headers.is_empty() {
                        keys.push((
                            "headers".to_owned(),
                            DraftValue::Inline(parts.headers.clone()),
                        ));
                    }
                    some.insert(0, (path.clone(), keys, Vec::new(), false));
                    return Ok(some);
                }
                RedirectOutcome::Paths(list, to) => {
                    step.node.mark(
                        self.report,
                        &Verdict::differs(format!(
                            "{} are redirected, not longer paths that begin so",
                            list.join(", ")
                        )),
                    );
                    for exact in list {
                        let exact = RulePath::Exact(exact);
                        if path.covers(&exact) {
                            let mut keys = vec![value(&to)];
                            keys.extend(before.clone());
                            some.push((exact, keys, Vec::new(), false));
                        }
                    }
                }
                RedirectOutcome::Unknown => {
                    step.node.mark(
                        self.report,
                        &Verdict::not_supported(
                            "this pattern of URLs cannot be written: its routes are refused",
                            Some("write redirect = \"https://HOST{path}\" in the site or path"),
                        ),
                    );
                    return Err("its redirect is not converted".to_owned());
                }
            }
        }
        let steps: Vec<TraefikPathStep> = parts.path.iter().map(|(step, _)| step.clone()).collect();
        let changes = match paths::changes(&steps, path) {
            Ok(changes) => changes,
            Err(why) => {
                for (_, node) in &parts.path {
                    node.mark(
                        self.report,
                        &Verdict::not_supported(format!("{why}: its routes are refused"), None),
                    );
                }
                return Err(why);
            }
        };
        let mut rows = Vec::new();
        for change in changes {
            if let Some(why) = &change.differs {
                for (_, node) in &parts.path {
                    node.mark(self.report, &Verdict::differs(why.clone()));
                }
            }
            let mut keys = action.to_vec();
            keys.extend(change.keys);
            keys.extend(parts.keys.iter().cloned());
            let mut fields = change.fields;
            fields
                .retain(|(name, _)| !parts.request_headers.iter().any(|(known, _)| known == name));
            fields.extend(parts.request_headers.iter().cloned());
            if keys.iter().any(|(key, _)| key == "respond") {
                // A fixed response has no endpoint.
                keys.retain(|(key, _)| {
                    !matches!(
                        key.as_str(),
                        "timeouts" | "rewrite" | "strip_prefix" | "body" | "compress"
                    )
                });
                fields.clear();
            }
            if !fields.is_empty() {
                keys.push(("request_headers".to_owned(), DraftValue::Inline(fields)));
            }
            if !parts.headers.is_empty() {
                keys.push((
                    "headers".to_owned(),
                    DraftValue::Inline(parts.headers.clone()),
                ));
            }
            rows.push((change.path, keys, Vec::new(), false));
        }
        rows.extend(some);
        Ok(rows)
    }
}
