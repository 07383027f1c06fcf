//! The path `/x` beside `location /x/`: `"/x/*"` takes it here, nginx gives it elsewhere.

use std::collections::BTreeMap;

use super::fields::add_fields;
use super::locations::NginxPlace;
use super::pattern::NginxMatch;
use super::route::{NginxAction, NginxRoute, inline};
use super::shared::NginxSite;
use super::verify::{NginxTable, access_of};
use super::winner::{NginxSearch, example};
use crate::StatementId;

/// The handlers with which nginx redirects `/x` to `/x/`.
const REDIRECTING: &[&str] = &[
    "proxy_pass",
    "grpc_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
];

/// Adds the routes of such paths: the redirect of nginx, or what the location around it answers.
pub(super) fn paths_themselves<'a>(
    site: &NginxSite<'a, '_>,
    places: &[NginxPlace<'a>],
    search: &NginxSearch,
    routes: &mut Vec<NginxRoute>,
) {
    let by_id: BTreeMap<StatementId, &NginxPlace<'a>> =
        places.iter().map(|p| (p.location.id, p)).collect();
    let mut added = Vec::new();
    let table = NginxTable::new(routes);
    for route in routes.iter() {
        let Some(base) = route.key.strip_suffix("/*").filter(|b| b.starts_with('/')) else {
            continue;
        };
        let Some(place) = by_id.get(&route.origin) else {
            continue;
        };
        let winner = search.winner(places, base).and_then(|at| places.get(at));
        let below = search.winner(places, &example(&route.key));
        let is_own = |found: Option<&NginxPlace<'_>>| {
            found.is_some_and(|found| found.location.id == route.origin)
        };
        let is_named = table.find(base).and_then(|at| routes.get(at));
        if is_own(winner)
            || !is_own(below.and_then(|at| places.get(at)))
            || is_named.is_some_and(|named| named.key == base)
        {
            continue;
        }
        let redirects = |name: &&str| !place.scope.own(name).is_empty();
        if is_slash_location(place, base) && REDIRECTING.iter().any(redirects) {
            let mut own = NginxRoute::new(base, NginxAction::Redirect, place.location);
            let to = format!("{base}/");
            own.set(
                "redirect",
                inline(vec![("to", to.into()), ("status", 301_i64.into())]),
            );
            add_fields(site, &site.scope, &mut own);
            added.push(own);
            continue;
        }
        let outer = match winner {
            Some(winner) => routes.iter().find(|r| r.origin == winner.location.id),
            None => routes.iter().find(|r| r.key == "/*"),
        };
        let Some(outer) = outer else {
            note(site);
            continue;
        };
        let is_changed = ["strip_prefix", "rewrite"]
            .iter()
            .any(|key| outer.get(key).is_some());
        let is_guarded = access_of(outer) != access_of(route) || outer.closed != route.closed;
        let is_application = outer.action == NginxAction::Proxy
            && route.action != NginxAction::Proxy
            && !base.starts_with("/.well-known/");
        if is_guarded || is_application && !is_changed {
            let mut own = outer.clone();
            base.clone_into(&mut own.key);
            if is_changed {
                own.closed.push(format!("{base} itself"));
            }
            added.push(own);
        } else if outer.action != NginxAction::Files || outer.get("root") != route.get("root") {
            note(site);
        }
    }
    routes.append(&mut added);
}

/// Whether a location is `location /x/` or `location ^~ /x/`.
fn is_slash_location(place: &NginxPlace<'_>, base: &str) -> bool {
    let NginxMatch::Paths(paths) = &place.pattern.what else {
        return false;
    };
    !place.pattern.regex && paths.iter().any(|path| !path.loose && path.base() == base)
}

fn note(site: &NginxSite<'_, '_>) {
    site.verdicts().note(
        "A path \"/x/*\" is also about /x itself, which nginx gives to the location around `location /x/`.",
    );
}
