//! Lockgate's live page in place of pages of Traefik: it takes all of a host, or is left out.

use std::collections::BTreeSet;

use super::routes::TraefikRoutes;
use super::rows::{RouteRow, respond};
use super::rule::RuleHost;
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
    // Two pages must be for the same clients.
    let guards: BTreeSet<BTreeSet<String>> = rows()
        .filter(|row| row.page.is_some())
        .map(|row| row.guards.clone())
        .collect();
    let other = |row: &RouteRow| guards.len() > 1 || !pages.contains(&row.router);
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let mut any = false;
    let mut left_out: BTreeSet<usize> = BTreeSet::new();
    for hosts in routes.hosts.values_mut() {
        let everywhere = hosts
            .iter()
            .any(|(host, rows)| !matches!(host, RuleHost::Exact(_)) && rows.iter().any(other));
        let anywhere = hosts.iter().any(|(_, rows)| rows.iter().any(other));
        for (host, rows) in hosts {
            let shared = match host {
                RuleHost::Exact(_) => everywhere || rows.iter().any(other),
                _ => anywhere,
            };
            for row in rows.iter_mut() {
                let Some(path) = row.page.take() else {
                    continue;
                };
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
