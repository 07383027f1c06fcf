//! The routes of a site beside the locations that nginx chooses: where they are not the same, the
//! paths are closed or the report says so.

use std::collections::{BTreeMap, BTreeSet};

use super::locations::NginxPlace;
use super::pattern::NginxMatch;
use super::route::{NginxAction, NginxRoute, place_of};
use super::shared::NginxSite;
use super::winner::{NginxSearch, example};
use crate::{DraftValue, StatementId, Verdict};

/// Routes by their keys.
pub(super) struct NginxTable(BTreeMap<String, usize>);

impl NginxTable {
    pub(super) fn new(routes: &[NginxRoute]) -> Self {
        let all = routes.iter().enumerate();
        Self(all.map(|(at, route)| (route.key.clone(), at)).collect())
    }

    /// The route that Lockgate chooses for a path, of those for all methods.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        if let Some(at) = self.0.get(path) {
            return Some(*at);
        }
        let ends = path.match_indices('/').map(|(at, _)| at).rev();
        [path.len()]
            .into_iter()
            .chain(ends)
            .filter_map(|end| path.get(..end))
            .find_map(|base| self.0.get(&format!("{base}/*")))
            .copied()
    }
}

/// The rules of access of a route.
pub(super) fn access_of(route: &NginxRoute) -> [Option<&DraftValue>; 3] {
    ["auth", "allow", "deny"].map(|key| route.get(key))
}

/// Whether two routes answer alike.
fn same_answer(one: &NginxRoute, two: &NginxRoute) -> bool {
    let keys = |route: &NginxRoute| {
        let keys = route.keys.iter();
        keys.map(|(key, value, _)| (key.clone(), format!("{value:?}")))
            .collect::<BTreeSet<_>>()
    };
    one.closed == two.closed && keys(one) == keys(two)
}

/// Compares the route of each location's paths with the location that nginx chooses.
pub(super) fn verify<'a>(
    site: &NginxSite<'a, '_>,
    places: &[NginxPlace<'a>],
    search: &NginxSearch,
    routes: &mut Vec<NginxRoute>,
) {
    let known: BTreeSet<StatementId> = places.iter().map(|place| place.location.id).collect();
    let table = NginxTable::new(routes);
    let mut first: BTreeMap<StatementId, usize> = BTreeMap::new();
    for (at, route) in routes.iter().enumerate() {
        first.entry(route.origin).or_insert(at);
    }
    let mut closing: Vec<(String, usize)> = Vec::new();
    for place in places.iter().filter(|place| !place.in_pattern) {
        let NginxMatch::Paths(paths) = &place.pattern.what else {
            continue;
        };
        for path in paths {
            let path_text = example(&path.key);
            let chosen = search.winner(places, &path_text);
            let Some((at, winner)) = chosen.and_then(|at| Some((at, places.get(at)?))) else {
                continue;
            };
            let Some(route) = table.find(&path_text).and_then(|at| routes.get(at)) else {
                continue; // nothing answers
            };
            if route.origin == winner.location.id
                || !known.contains(&route.origin) && route.key != "/*"
            {
                continue;
            }
            let wanted = first
                .get(&winner.location.id)
                .and_then(|at| routes.get(*at));
            if wanted.is_some_and(|wanted| same_answer(wanted, route)) {
                continue;
            }
            let alike = wanted.is_some_and(|wanted| {
                access_of(wanted) == access_of(route)
                    && wanted.closed == route.closed
                    && !matches!(wanted.get("respond"), Some(DraftValue::Number(400..)))
            });
            let line = winner.location.place.line;
            if alike {
                let because = format!(
                    "nginx gives these requests to line {line}, another path takes them here"
                );
                site.verdicts()
                    .set(place.location, Verdict::not_supported(because, None));
            } else {
                closing.push((path.key.clone(), at));
                let because = format!(
                    "line {line} takes these requests in nginx, another path here: they are refused for all clients"
                );
                site.verdicts()
                    .set(place.location, Verdict::not_supported(because, None));
            }
        }
    }
    for (key, at) in closing {
        let Some(winner) = places.get(at) else {
            continue;
        };
        let reason = format!(
            "{}: location {}",
            place_of(winner.location),
            winner.location.args.join(" ")
        );
        if let Some(route) = routes.iter_mut().find(|route| route.key == key) {
            route.closed.push(reason);
            continue;
        }
        let mut route = NginxRoute::new(&key, NginxAction::Respond, winner.location);
        route.set("respond", 501_i64);
        route.closed.push(reason);
        routes.push(route);
    }
}
