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
        let itself = paths
            .iter()
            .filter(|path| path.loose && !path.base().is_empty());
        let itself = itself.map(|path| path.base());
        for key in paths.iter().map(|path| path.key.as_str()).chain(itself) {
            let path_text = example(key);
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
                closing.push((key.to_owned(), at));
                let because = format!(
                    "line {line} takes these requests in nginx, another path here: they are refused for all clients"
                );
                site.verdicts()
                    .set(place.location, Verdict::not_supported(because, None));
            }
        }
    }
    let NginxTable(mut by_key) = table;
    for (key, at) in closing {
        let Some(winner) = places.get(at) else {
            continue;
        };
        let reason = format!(
            "{}: location {}",
            place_of(winner.location),
            winner.location.args.join(" ")
        );
        if let Some(route) = by_key.get(&key).and_then(|at| routes.get_mut(*at)) {
            route.closed.push(reason);
            continue;
        }
        by_key.insert(key.clone(), routes.len());
        let mut route = NginxRoute::new(&key, NginxAction::Respond, winner.location);
        route.set("respond", 501_i64);
        route.closed.push(reason);
        routes.push(route);
    }
}

/// The most paths that are looked through for names of `index`.
const MOST_FOLDERS: usize = 2000;

/// The last path of `try_files`, and `index`, are requests of their own in nginx, under the rules
/// of their own location. Here the route that names them serves them.
pub(super) fn inner_requests<'a>(
    site: &NginxSite<'a, '_>,
    places: &[NginxPlace<'a>],
    routes: &mut Vec<NginxRoute>,
) {
    let verdicts = site.verdicts();
    let by_id: BTreeMap<StatementId, &NginxPlace<'a>> =
        places.iter().map(|p| (p.location.id, p)).collect();
    let scope_of = |route: &NginxRoute| {
        let place = by_id.get(&route.origin);
        place.map_or_else(|| site.scope.clone(), |place| place.scope.clone())
    };
    let internal = |route: &NginxRoute| {
        let place = by_id.get(&route.origin);
        place.is_some_and(|place| !place.scope.own("internal").is_empty())
    };
    let table = NginxTable::new(routes);
    let mut closing: Vec<(usize, usize)> = Vec::new();
    let mut folders: Vec<(String, usize)> = Vec::new();
    for (at, route) in routes.iter().enumerate() {
        if route.action != NginxAction::Files {
            continue;
        }
        let scope = scope_of(route);
        let Some(tries) = scope.last("try_files").filter(|tries| tries.args.len() > 1) else {
            continue;
        };
        let last = scope.fold(tries.args.last().map_or("", String::as_str), verdicts);
        let last = last.split(['?', '$']).next().unwrap_or_default();
        let target = table
            .find(last)
            .filter(|target| last.starts_with('/') && *target != at);
        let Some((target_at, target)) = target.and_then(|t| Some((t, routes.get(t)?))) else {
            continue;
        };
        match compare(route, target, internal(target)) {
            NginxInner::Same => {}
            NginxInner::Differs => verdicts.differs(
                tries,
                format!("{last} is sent with the fields of the route that names it, not with those of {}", target.key),
            ),
            NginxInner::Restricted => {
                closing.push((at, target_at));
                verdicts.refuse(
                    tries,
                    format!("{last} would be sent without the rules of {}: the route refuses all clients", target.key),
                    None,
                );
            }
        }
    }
    // Folders with a name of `index` that another route is about: those with paths in them.
    for (at, route) in routes.iter().enumerate() {
        let path = route.key.strip_suffix("/*").unwrap_or(&route.key);
        if path.contains(' ') || folders.len() > MOST_FOLDERS {
            continue;
        }
        if route.key.ends_with("/*") {
            folders.push((format!("{path}/"), at));
        }
        if let Some((folder, _)) = path.rsplit_once('/') {
            folders.push((format!("{folder}/"), at));
        }
    }
    folders.sort();
    folders.dedup_by(|one, two| one.0 == two.0);
    let mut below: Vec<(String, usize, usize)> = Vec::new();
    for (folder, _) in folders {
        let Some((at, route)) = table
            .find(&folder)
            .and_then(|at| Some((at, routes.get(at)?)))
        else {
            continue;
        };
        if route.action != NginxAction::Files {
            continue;
        }
        let scope = scope_of(route);
        let index = scope.last("index");
        let names: Vec<String> = match index {
            Some(index) => index.args.iter().map(|n| scope.fold(n, verdicts)).collect(),
            None => vec!["index.html".to_owned()],
        };
        for name in names {
            let path = format!("{folder}{}", name.trim_start_matches('/'));
            let target = table.find(&path).filter(|target| *target != at);
            let Some((target_at, target)) = target.and_then(|t| Some((t, routes.get(t)?))) else {
                continue;
            };
            let Some(place) = by_id.get(&target.origin) else {
                continue;
            };
            match compare(route, target, internal(target)) {
                NginxInner::Same => {}
                NginxInner::Differs => verdicts.differs(
                    place.location,
                    format!(
                        "for {folder}, {path} is sent with the fields of {}",
                        route.key
                    ),
                ),
                NginxInner::Restricted => {
                    below.push((folder.clone(), at, target_at));
                    verdicts.differs(
                        place.location,
                        format!("for {folder}, {path} would be sent without its rules: that path refuses all clients"),
                    );
                }
            }
        }
    }
    let reason = |route: Option<&NginxRoute>| {
        let place = route.and_then(|route| by_id.get(&route.origin));
        place.map_or_else(
            || "try_files or index".to_owned(),
            |p| {
                format!(
                    "{}: location {}",
                    place_of(p.location),
                    p.location.args.join(" ")
                )
            },
        )
    };
    for (at, target) in closing {
        let text = reason(routes.get(target));
        if let Some(route) = routes.get_mut(at) {
            route.closed.push(text);
        }
    }
    for (folder, at, target) in below {
        let text = reason(routes.get(target));
        // What is below a folder that has no route of its own stays open.
        let own = routes.get(at).is_some_and(|route| {
            route.key == folder || folder != "/" && route.key == format!("{folder}*")
        });
        if let Some(route) = routes.get_mut(at).filter(|_| own) {
            route.closed.push(text);
        } else if let Some(route) = routes.iter_mut().find(|route| route.key == folder) {
            route.closed.push(text);
        } else if let Some(place) = routes.get(target).and_then(|t| by_id.get(&t.origin)) {
            let mut route = NginxRoute::new(&folder, NginxAction::Respond, place.location);
            route.set("respond", 501_i64);
            route.closed.push(text);
            routes.push(route);
        }
    }
}

/// How a route differs from that of the path that it sends.
enum NginxInner {
    Same,
    Differs,
    Restricted,
}

/// `internal`: whether nginx answers only its own requests of the target.
fn compare(route: &NginxRoute, target: &NginxRoute, internal: bool) -> NginxInner {
    let rules = access_of(target);
    let refuses = target.get("respond").is_some_and(|respond| match respond {
        DraftValue::Number(status) => *status >= 400,
        DraftValue::Inline(keys) => keys
            .iter()
            .any(|(key, value)| key == "status" && matches!(value, DraftValue::Number(400..))),
        _ => false,
    });
    if rules != access_of(route) && rules.iter().any(Option::is_some)
        || target
            .closed
            .iter()
            .any(|reason| !route.closed.contains(reason))
        || refuses && !internal
    {
        return NginxInner::Restricted;
    }
    let keys = ["root", "headers", "cache", "limit", "types", "charset"];
    if target.action == route.action && keys.iter().all(|key| target.get(key) == route.get(key)) {
        return NginxInner::Same;
    }
    NginxInner::Differs
}
