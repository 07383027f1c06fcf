//! Lockgate's live page in place of pages of Traefik: it takes all of a host, or is left out.

use std::collections::BTreeSet;

use super::routes::TraefikRoutes;
use super::rows::{RouteRow, respond};
use super::rule::{RuleHost, RulePath};
use super::source::TraefikSource;
use super::statics::TraefikStatics;
use crate::{ConversionReport, Verdict};

const WHY: &str = "Lockgate's live page takes all of a host, and this one has another router";

/// Leaves out the pages of hosts with another router; `metrics` is the address before all routers.
pub(super) fn alone(
    routes: &mut TraefikRoutes,
    source: &TraefikSource,
    statics: &mut TraefikStatics,
    metrics: Option<String>,
    report: &mut ConversionReport,
) {
    let rows = || routes.hosts.values().flatten().flat_map(|(_, rows)| rows);
    let pages: BTreeSet<usize> = rows()
        .filter(|row| row.page.is_some())
        .map(|row| row.router)
        .collect();
    if pages.is_empty() {
        return;
    }
    // Nothing for a router of something else; pages have their guards, and must be for the same
    // clients.
    let kinds = |rows: &[RouteRow]| -> BTreeSet<Option<BTreeSet<String>>> {
        rows.iter()
            .filter(|row| row.page.is_some() || !pages.contains(&row.router))
            .map(|row| row.page.as_ref().map(|_| row.guards.clone()))
            .collect()
    };
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let mut any = false;
    let mut left_out: BTreeSet<usize> = BTreeSet::new();
    for hosts in routes.hosts.values_mut() {
        let mut anywhere = BTreeSet::new();
        let mut everywhere = BTreeSet::new();
        for (host, rows) in hosts.iter() {
            let kinds = kinds(rows);
            if !matches!(host, RuleHost::Exact(_)) {
                everywhere.extend(kinds.iter().cloned());
            }
            anywhere.extend(kinds);
        }
        for (host, rows) in hosts {
            let near = match host {
                RuleHost::Exact(_) => kinds(rows),
                _ => BTreeSet::new(),
            };
            let far = match host {
                RuleHost::Exact(_) => &everywhere,
                _ => &anywhere,
            };
            for row in rows.iter_mut() {
                let Some(path) = row.page.take() else {
                    continue;
                };
                let own = Some(row.guards.clone());
                let mut kinds = near.iter().chain(far);
                // What has all paths by its rule takes nothing from another router.
                let shared = path != RulePath::All && kinds.any(|kind| *kind != own);
                if shared {
                    row.path = path;
                    row.keys = respond(502);
                    row.comments.push(WHY.to_owned());
                    row.void = true;
                    left_out.insert(row.router);
                } else if let RuleHost::Exact(name) = host {
                    any = true;
                    kept.insert(name.clone());
                } else {
                    any = true;
                }
            }
        }
    }
    routes.page_hosts.retain(|host| kept.contains(host));
    if !any {
        statics.metrics = metrics;
    }
    for number in left_out {
        let Some(item) = source.routers.items.get(number) else {
            continue;
        };
        for key in ["service", "rule"] {
            if let Some(node) = item.node.field(key) {
                node.set(
                    report,
                    Verdict::not_supported(
                        format!("it is not served: {WHY}"),
                        Some("give the live page a host of its own"),
                    ),
                );
            }
        }
    }
}
