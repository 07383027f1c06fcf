//! The locations of a server: where they stand, what they match and whether they restrict it.

use super::pattern::{NginxMatch, NginxPattern, pattern_of};
use super::scope::NginxScope;
use super::shared::NginxSite;
use super::syntax::NginxDirective;
use crate::StatementId;

/// A location with its scope and what it matches.
pub(super) struct NginxPlace<'a> {
    pub(super) scope: NginxScope<'a>,
    pub(super) location: &'a NginxDirective,
    pub(super) pattern: NginxPattern,
    /// The path of the location around it.
    pub(super) inside: Option<String>,
    /// The location around it.
    pub(super) around: Option<StatementId>,
    /// Whether a location around it is no path.
    pub(super) in_pattern: bool,
}

/// Where a location stands: itself, the one around it and its path, and whether one is no path.
type NginxAround = (StatementId, Option<StatementId>, Option<String>, bool);

/// All locations of a block, those in locations too.
pub(super) fn locations<'a>(
    scope: &NginxScope<'a>,
    block: &'a [NginxDirective],
    all: &mut Vec<(NginxScope<'a>, &'a NginxDirective)>,
) {
    for directive in block
        .iter()
        .filter(|d| d.name == "location" && d.block.is_some())
    {
        let inner = scope.inner(directive.children());
        all.push((inner.clone(), directive));
        locations(&inner, directive.children(), all);
    }
}

/// Whether a block restricts what it is about.
pub(super) fn restricts(block: &[NginxDirective]) -> bool {
    block.iter().any(|d| match d.name.as_str() {
        "deny" | "auth_request" | "auth_jwt" | "internal" | "limit_except" | "secure_link" => {
            d.arg(0) != "off"
        }
        "auth_basic" => d.arg(0) != "off",
        "return" => d.arg(0).starts_with(['4', '5']),
        name if name.starts_with("access_by_lua") => true,
        "if" => restricts(d.children()),
        _ => false,
    })
}

/// The locations of a server, each with the path of the one around it.
pub(super) fn places<'a>(
    site: &NginxSite<'a, '_>,
    server: &'a NginxDirective,
) -> Vec<NginxPlace<'a>> {
    let mut parents: Vec<(
        &'a NginxDirective,
        Option<StatementId>,
        Option<String>,
        bool,
    )> = vec![(server, None, None, false)];
    let mut found: Vec<NginxAround> = Vec::new();
    while let Some((parent, around, base, in_pattern)) = parents.pop() {
        for child in parent.children().iter().filter(|d| d.name == "location") {
            found.push((child.id, around, base.clone(), in_pattern));
            let (own, is_path) = match pattern_of(child).what {
                NginxMatch::Paths(paths) => (paths.first().map(|p| p.base().to_owned()), true),
                _ => (base.clone(), false),
            };
            parents.push((child, Some(child.id), own, in_pattern || !is_path));
        }
    }
    found.sort();
    site.locations
        .iter()
        .map(|(scope, location)| {
            let at = found
                .binary_search_by_key(&location.id, |(id, ..)| *id)
                .ok();
            let own = at.and_then(|at| found.get(at));
            NginxPlace {
                scope: scope.clone(),
                location,
                pattern: pattern_of(location),
                inside: own.and_then(|(_, _, base, _)| base.clone()),
                around: own.and_then(|(_, around, ..)| *around),
                in_pattern: own.is_some_and(|(.., in_pattern)| *in_pattern),
            }
        })
        .collect()
}
