//! The hosts and paths that the matchers of a site name.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::CaddyStatement;
use super::matchers::{self, CaddyScope};
use super::paths::{CaddyPattern, CaddyPlace};
use crate::StatementId;

/// The places of a site, with the statements that have their patterns.
#[derive(Debug, Default)]
pub(super) struct CaddyPlaces {
    /// The places.
    pub(super) all: BTreeSet<CaddyPlace>,
    /// The statements with a pattern of a place.
    pub(super) of: BTreeMap<CaddyPlace, BTreeSet<StatementId>>,
    /// Whether a pattern has a letter.
    pub(super) has_letter: bool,
}

/// All hosts that matchers of the statements name.
pub(super) fn collect_hosts(
    statements: &[CaddyStatement],
    scope: &CaddyScope<'_>,
    hosts: &mut BTreeSet<String>,
    depth: usize,
) {
    for statement in statements {
        matchers::hosts(statement, scope, hosts);
        if depth < 64 && matches!(statement.name(), "handle" | "handle_path" | "route") {
            let inner = CaddyScope::new(statement.inner().iter(), Some(scope));
            collect_hosts(statement.inner(), &inner, hosts, depth + 1);
        }
    }
}

/// The places that the patterns of the statements divide paths into.
pub(super) fn collect_places(
    statements: &[CaddyStatement],
    scope: &CaddyScope<'_>,
    places: &mut CaddyPlaces,
    stripped: &str,
    depth: usize,
) {
    let mut below = vec![stripped.to_owned()];
    for statement in statements {
        if let ("uri", Some("strip_prefix")) = (statement.name(), statement.arg())
            && let Some(prefix) = statement.args().get(1)
        {
            let prefix = prefix.trim_end_matches('/');
            let more = format!("{stripped}{prefix}");
            CaddyPattern::parse(&format!("{more}/*"), "").places(&mut places.all);
            below.push(more);
        }
    }
    for statement in statements {
        if statement.name().starts_with('@') {
            continue;
        }
        for (text, id) in matchers::patterns(statement, scope) {
            for stripped in &below {
                let pattern = CaddyPattern::parse(&text, stripped);
                places.has_letter |= pattern.has_letter();
                let mut own = BTreeSet::new();
                pattern.places(&mut own);
                for place in own {
                    places.of.entry(place.clone()).or_default().insert(id);
                    places.all.insert(place);
                }
            }
        }
        if depth < 64 && matches!(statement.name(), "handle" | "handle_path" | "route") {
            let inner = CaddyScope::new(statement.inner().iter(), Some(scope));
            let stripped = match statement.name() {
                "handle_path" => {
                    let pattern = statement.arg().unwrap_or_default();
                    let prefix = pattern.trim_end_matches('*').trim_end_matches('/');
                    format!("{stripped}{prefix}")
                }
                _ => stripped.to_owned(),
            };
            collect_places(statement.inner(), &inner, places, &stripped, depth + 1);
        }
    }
}
