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
}

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
    let mut parents: Vec<(&'a NginxDirective, Option<String>)> = vec![(server, None)];
    let mut inside: Vec<(StatementId, Option<String>)> = Vec::new();
    while let Some((parent, base)) = parents.pop() {
        for child in parent.children().iter().filter(|d| d.name == "location") {
            inside.push((child.id, base.clone()));
            let own = match pattern_of(child).what {
                NginxMatch::Paths(paths) => paths.first().map(|p| p.base().to_owned()),
                _ => base.clone(),
            };
            parents.push((child, own));
        }
    }
    inside.sort();
    site.locations
        .iter()
        .map(|(scope, location)| NginxPlace {
            scope: scope.clone(),
            location,
            pattern: pattern_of(location),
            inside: inside
                .binary_search_by_key(&location.id, |(id, _)| *id)
                .ok()
                .and_then(|at| inside.get(at))
                .and_then(|(_, base)| base.clone()),
        })
        .collect()
}
