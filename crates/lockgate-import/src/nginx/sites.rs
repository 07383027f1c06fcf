//! The routes of a server: its locations in nginx's order, its conditions and rewrites.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{answer, foreign_handler, matches_all, options_route, redirecting};
use super::fields::add_fields;
use super::finish::finish;
use super::itself::paths_themselves;
use super::locations::{NginxPlace, places, restricts};
use super::pattern::{NginxMatch, NginxPath, pattern_of, regex};
use super::regexes::{MOST_REGEXES, MOST_RIVALS, extensions, hidden, other};
use super::route::{NginxAction, NginxRoute, place_of};
use super::scope::NginxScope;
use super::shared::NginxSite;
use super::syntax::NginxDirective;
use super::values::{NginxWords, redirect_target};
use super::verify::{inner_requests, verify};
use super::winner::{NginxSearch, example};
use crate::{DraftValue, Verdict};

/// Whether scripts of PHP are run for a server: they lie among its files.
pub(super) fn runs_php(block: &[NginxDirective]) -> bool {
    let mut all: Vec<&NginxDirective> = block.iter().collect();
    while let Some(directive) = all.pop() {
        if directive.name == "fastcgi_pass"
            || matches!(
                directive.name.as_str(),
                "try_files" | "index" | "rewrite" | "include"
            ) && directive
                .args
                .iter()
                .any(|a| a.contains(".php") || a.contains("fastcgi"))
        {
            return true;
        }
        all.extend(directive.children());
    }
    false
}

/// Routes in their order, found by key.
struct NginxRoutes {
    list: Vec<NginxRoute>,
    index: BTreeMap<String, usize>,
}

impl NginxRoutes {
    fn new(list: Vec<NginxRoute>) -> Self {
        let index = list
            .iter()
            .enumerate()
            .map(|(at, route)| (route.key.clone(), at));
        Self {
            index: index.collect(),
            list,
        }
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.index.get(key).copied()
    }

    fn push(&mut self, route: NginxRoute) {
        self.index.insert(route.key.clone(), self.list.len());
        self.list.push(route);
    }

    fn rename(&mut self, at: usize, key: String) {
        if let Some(route) = self.list.get_mut(at) {
            self.index.remove(&route.key);
            self.index.insert(key.clone(), at);
            route.key = key;
        }
    }
}

/// The routes of a server.
pub(super) fn routes_of<'a>(
    site: &NginxSite<'a, '_>,
    server: &'a NginxDirective,
    host_names: &[String],
) -> Vec<NginxRoute> {
    let verdicts = site.verdicts();
    let mut routes: Vec<NginxRoute> = Vec::new();
    let mut closed: Vec<String> = Vec::new();
    let base_path = NginxPath::all();
    let mut methods: Vec<NginxRoute> = Vec::new();
    conditions(
        site,
        &site.scope,
        None,
        host_names,
        &mut closed,
        &mut methods,
    );
    // A return of the server answers before any location.
    if !site.scope.own("return").is_empty() {
        let mut route = answer(site, &site.scope, &base_path, server);
        finish(site, &site.scope, &mut route);
        route.closed.append(&mut closed);
        for (_, location) in &site.locations {
            verdicts.rest(
                location,
                &Verdict::not_supported("the server's `return` answers first", None),
            );
        }
        routes.push(route);
        for_all_paths(site, methods, &mut routes);
        return routes;
    }
    server_rewrites(site, server, &mut routes);
    if routes.iter().any(|route| route.key == "/*") {
        for route in &mut routes {
            route.closed.extend(closed.iter().cloned());
        }
        for_all_paths(site, methods, &mut routes);
        return routes;
    }
    let places = places(site, server);
    let search = NginxSearch::new(&places);
    let mut routes = NginxRoutes::new(routes);
    for place in &places {
        match &place.pattern.what {
            NginxMatch::Paths(paths) => {
                for path in paths {
                    add_paths(
                        site,
                        place,
                        (&places, &search),
                        path,
                        host_names,
                        &mut routes,
                    );
                }
            }
            NginxMatch::Named => {
                let known = site
                    .shared
                    .verdicts
                    .report
                    .borrow()
                    .has_verdict(place.location.id);
                if !known {
                    verdicts.rest(
                        place.location,
                        &Verdict::not_supported("nothing that is converted leads to it", None),
                    );
                }
            }
            _ => {}
        }
    }
    let mut routes = routes.list;
    if !routes.iter().any(|route| route.key == "/*")
        && (site.scope.last("root").is_some() || site.scope.last("try_files").is_some())
    {
        let mut route = answer(site, &site.scope, &base_path, server);
        finish(site, &site.scope, &mut route);
        routes.push(route);
    } else if !routes.iter().any(|route| route.key == "/*")
        && let Some((handler, instead)) = foreign_handler(&site.scope)
    {
        verdicts.refuse(
            handler,
            "Lockgate forwards HTTP and serves files, nothing else",
            Some(instead),
        );
    }
    let regexes = places.iter().filter(|place| place.pattern.regex).count();
    if regexes > MOST_REGEXES {
        // To tell which of them restricts which route would take too long.
        let because = "there are too many regular expressions: all routes refuse all clients";
        for place in places.iter().filter(|place| place.pattern.regex) {
            verdicts.rest(place.location, &Verdict::not_supported(because, None));
        }
        closed.push(because.to_owned());
    }
    for place in places.iter().filter(|_| regexes <= MOST_REGEXES) {
        match &place.pattern.what {
            NginxMatch::Extensions(list) => extensions(site, place, list, &mut routes, &places),
            NginxMatch::Hidden(names) => hidden(site, place, names, &mut routes, &places),
            NginxMatch::Other => other(site, place, &mut routes, &places),
            _ => {}
        }
    }
    verify(site, &places, &search, &mut routes);
    inner_requests(site, &places, &mut routes);
    paths_themselves(site, &places, &search, &mut routes);
    for_all_paths(site, methods, &mut routes);
    for route in &mut routes {
        route.closed.extend(closed.iter().cloned());
    }
    routes
}

/// The most paths of a site that get a route for one method.
const MOST_METHOD_PATHS: usize = 200;

/// A server's conditions about a method come before its locations: each path has a route for it.
fn for_all_paths(site: &NginxSite<'_, '_>, methods: Vec<NginxRoute>, routes: &mut Vec<NginxRoute>) {
    let mut paths: Vec<String> = vec!["/*".to_owned()];
    for route in routes.iter() {
        let path = route.key.rsplit(' ').next().unwrap_or_default();
        if path != "/*" {
            paths.push(path.to_owned());
        }
    }
    paths.sort();
    paths.dedup();
    let mut seen = BTreeSet::new();
    // Of two conditions about a method the first answers.
    for route in methods {
        if !seen.insert(route.key.clone()) {
            continue;
        }
        let Some(method) = route.key.strip_suffix(" /*") else {
            continue;
        };
        if paths.len() > MOST_METHOD_PATHS {
            let because = "the site has too many paths to give each a route for one method";
            let verdict = Verdict::not_supported(because, None);
            let mut report = site.verdicts().report.borrow_mut();
            report.set(route.origin, verdict);
            let place = route.comments.first().cloned().unwrap_or_default();
            for known in routes.iter_mut().filter(|_| method != "OPTIONS") {
                known.closed.push(format!("{place}: if"));
            }
            continue;
        }
        for path in &paths {
            let key = format!("{method} {path}");
            let own = NginxRoute {
                key: key.clone(),
                ..route.clone()
            };
            match routes.iter_mut().find(|known| known.key == key) {
                Some(known) => *known = own,
                None => routes.push(own),
            }
        }
    }
}

/// The route of one path of a location.
fn add_paths<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    (places, search): (&[NginxPlace<'a>], &NginxSearch),
    path: &NginxPath,
    host_names: &[String],
    routes: &mut NginxRoutes,
) {
    let verdicts = site.verdicts();
    let winner_of = |path: &str| places.get(search.winner(places, path)?);
    let winner = winner_of(&example(&path.key));
    // `/x` beside `/x/`, or beside an expression for what is below: the path itself is its own.
    let only_itself = NginxPath {
        key: path.base().to_owned(),
        ..path.clone()
    };
    let own = |found: Option<&NginxPlace<'_>>| {
        found.is_some_and(|found| found.location.id == place.location.id)
    };
    let (winner, path) = match path.loose && !own(winner) && own(winner_of(path.base())) {
        true => (Some(place), &only_itself),
        false => (winner, path),
    };
    let rules = restricts(place.location.children());
    if place.in_pattern {
        if !rules {
            let because = "it lies in a location that is no path: these requests go where the other paths lead";
            verdicts.rest(place.location, &Verdict::not_supported(because, None));
            return;
        }
    } else if let Some(winner) = winner.filter(|winner| winner.location.id != place.location.id) {
        let because = format!("line {} takes these requests", winner.location.place.line);
        verdicts.rest(place.location, &Verdict::not_supported(because, None));
        return;
    }
    verdicts.converted(place.location);
    if place.pattern.any_case {
        verdicts.differs(
            place.location,
            if rules {
                "paths are matched as they are written: in other letters, upper or lower case, they are not under its rules"
            } else {
                "paths are matched as they are written: upper and lower case differ"
            },
        );
    }
    if path.loose && !path.base().is_empty() {
        verdicts.differs(
            place.location,
            format!(
                "paths such as {base}xyz, which begin with it without a slash, do not belong to it{}: only {base} and what is below",
                if rules { ", and are not under its rules" } else { "" },
                base = path.base()
            ),
        );
    }
    let mut route = answer(site, &place.scope, path, place.location);
    let mut closed = Vec::new();
    let mut more = Vec::new();
    conditions(
        site,
        &place.scope,
        Some(path),
        host_names,
        &mut closed,
        &mut more,
    );
    finish(site, &place.scope, &mut route);
    if place.in_pattern {
        closed.push(format!(
            "{}: location {}",
            place_of(place.location),
            place.location.args.join(" ")
        ));
        let because = "it lies in a location that is no path: its paths refuse all clients";
        verdicts.set(place.location, Verdict::not_supported(because, None));
    }
    let closed_by = closed.clone();
    route.closed.append(&mut closed);
    for log in place.scope.own("access_log") {
        verdicts.differs(log, "a path has the access log of its site");
    }
    for extra in more.iter_mut() {
        extra.closed.extend(route.closed.iter().cloned());
    }
    // `location /a { proxy_pass http://x/b; }` sends /a itself to /b, not to /b/.
    let twin = path.loose
        && matches!(route.get("rewrite"), Some(DraftValue::Text(text)) if text.ends_with("/{*}"))
        && routes.find(path.base()).is_none();
    if twin {
        let exact = NginxPath {
            key: path.base().to_owned(),
            loose: false,
            ..path.clone()
        };
        let mut route = answer(site, &place.scope, &exact, place.location);
        finish(site, &place.scope, &mut route);
        route.closed.extend(closed_by.iter().cloned());
        routes.push(route);
    }
    insert(site, place, route, path, routes);
    for extra in more {
        if routes.find(&extra.key).is_none() {
            routes.push(extra);
        }
    }
}

/// Adds a route. Of `/x` and `/x/`, the first keeps the path itself.
fn insert(
    site: &NginxSite<'_, '_>,
    place: &NginxPlace<'_>,
    mut route: NginxRoute,
    path: &NginxPath,
    routes: &mut NginxRoutes,
) {
    let Some(at) = routes.find(&route.key) else {
        routes.push(route);
        return;
    };
    let exact = path.base().to_owned();
    if exact.is_empty() || routes.find(&exact).is_some() {
        let because = "another location matches the same paths";
        site.verdicts()
            .set(place.location, Verdict::not_supported(because, None));
        return;
    }
    if path.loose {
        route.key = exact;
    } else {
        routes.rename(at, exact);
    }
    routes.push(route);
}

/// The conditions of a level. What restricts closes the route.
fn conditions<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    path: Option<&NginxPath>,
    host_names: &[String],
    closed: &mut Vec<String>,
    more: &mut Vec<NginxRoute>,
) {
    let verdicts = site.verdicts();
    for condition in scope.own("if") {
        let text = condition.args.join(" ");
        let text = text.trim_matches(['(', ')', ' ']).replace(['"', '\''], "");
        let returns = condition
            .children()
            .iter()
            .find(|d| d.name == "return" || d.name == "rewrite");
        let to_https = returns.is_some_and(|d| {
            d.args.iter().any(|arg| arg.starts_with("https://")) && condition.children().len() == 1
        });
        let by_scheme =
            text.contains("$scheme") || text.contains("$https") || text == "$server_port = 80";
        if to_https && by_scheme && site.words.tls {
            verdicts.rest(condition, &Verdict::Default);
            continue;
        }
        // Only these hosts reach the site.
        let of_host = text
            .strip_prefix("$host !=")
            .or_else(|| text.strip_prefix("$http_host !="));
        if let Some(host) = of_host
            && !host_names.is_empty()
            && host_names.iter().all(|name| name == host.trim())
        {
            verdicts.rest(condition, &Verdict::Default);
            continue;
        }
        let whole = NginxPath::all();
        if let Some(mut route) = options_route(site, scope, condition, path.unwrap_or(&whole)) {
            let inner = scope.inner(condition.children());
            add_fields(site, &inner, &mut route);
            more.push(route);
            continue;
        }
        if restricts(condition.children()) {
            closed.push(format!(
                "{}: if {}",
                place_of(condition),
                condition.args.join(" ")
            ));
            verdicts.rest(
                condition,
                &Verdict::not_supported(
                    "there are no conditions: the routes that it restricts refuse all clients",
                    Some("remove `deny` where the application or a path table does the same"),
                ),
            );
            continue;
        }
        verdicts.rest(
            condition,
            &Verdict::not_supported("there are no conditions: it is left out", None),
        );
    }
}

/// Whether a location lies below a path: here it would win over the path, in nginx it does not.
fn covers_location(site: &NginxSite<'_, '_>, path: &NginxPath) -> bool {
    let below = |theirs: &NginxPath| {
        theirs
            .base()
            .strip_prefix(path.base())
            .is_some_and(|rest| rest.starts_with('/'))
    };
    // Of very many locations none is looked at: the rewrite is left out then.
    path.is_prefix()
        && (site.locations.len() > MOST_RIVALS
            || site
                .locations
                .iter()
                .any(|(_, location)| match pattern_of(location).what {
                    NginxMatch::Paths(paths) => paths.iter().any(below),
                    _ => false,
                }))
}

/// The rewrites of a server, which come before its locations.
fn server_rewrites<'a>(
    site: &NginxSite<'a, '_>,
    server: &'a NginxDirective,
    routes: &mut Vec<NginxRoute>,
) {
    let verdicts = site.verdicts();
    for rewrite in site.scope.own("rewrite") {
        let converted = redirecting(rewrite).and_then(|(status, to)| {
            let from = rewrite.arg(0);
            let (paths, to) = match matches_all(from) {
                Some(group) => {
                    let to = if group.is_empty() {
                        to
                    } else {
                        to.replace(group, "$uri")
                    };
                    (vec![NginxPath::all()], to)
                }
                None => match regex(from, false) {
                    NginxMatch::Paths(paths)
                        if paths.iter().all(|p| !p.loose && !covers_location(site, p)) =>
                    {
                        (paths, to)
                    }
                    _ => return None,
                },
            };
            let (to, drops) = match to.strip_suffix('?') {
                Some(to) => (to.to_owned(), true),
                None => (to, false),
            };
            let mut found = Vec::new();
            for path in &paths {
                let words = NginxWords {
                    capture: path.captures.then_some("{*}"),
                    ..site.words.clone()
                };
                let (target, _) = redirect_target(&to, &words)?;
                let mut route = NginxRoute::new(&path.key, NginxAction::Redirect, rewrite);
                route.set(
                    "redirect",
                    super::route::inline(vec![("to", target.into()), ("status", status.into())]),
                );
                found.push(route);
            }
            Some((found, drops && !to.contains("$request_uri")))
        });
        match converted {
            Some((found, drops)) => {
                if drops {
                    verdicts.differs(rewrite, "a query of the request is kept");
                } else {
                    verdicts.converted(rewrite);
                }
                for mut route in found {
                    if !routes.iter().any(|known| known.key == route.key) {
                        finish(site, &site.scope, &mut route);
                        routes.push(route);
                    }
                }
            }
            None => verdicts.refuse(
                rewrite,
                "paths are not rewritten by regular expressions before the route is chosen",
                Some("write a path table with `rewrite` or `redirect`"),
            ),
        }
    }
    let _ = server;
}
