//! The routes of a server: its locations in nginx's order, its conditions and rewrites.

use std::collections::{BTreeMap, BTreeSet};

use super::access::add_access;
use super::answer::{answer, foreign_handler, matches_all, options_route, redirecting};
use super::fields::add_fields;
use super::pattern::{NginxMatch, NginxPath, NginxPattern, media_type, pattern_of, regex};
use super::route::{NginxAction, NginxRoute, NginxSite, place_of};
use super::scope::NginxScope;
use super::syntax::NginxDirective;
use super::values::{NginxWords, redirect_target};
use crate::{DraftValue, Verdict};

/// A location with its scope and what it matches.
struct NginxPlace<'a> {
    scope: NginxScope<'a>,
    location: &'a NginxDirective,
    pattern: NginxPattern,
    /// The path of the location around it.
    inside: Option<String>,
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

/// Whether scripts of PHP are run for a server: they lie among its files.
pub(super) fn runs_php(block: &[NginxDirective]) -> bool {
    let mut all: Vec<&NginxDirective> = block.iter().collect();
    while let Some(directive) = all.pop() {
        if directive.name == "fastcgi_pass"
            || directive.name == "try_files" && directive.args.iter().any(|a| a.contains(".php"))
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
    conditions(
        site,
        &site.scope,
        None,
        host_names,
        &mut closed,
        &mut routes,
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
        return vec![route];
    }
    server_rewrites(site, server, &mut routes);
    if routes.iter().any(|route| route.key == "/*") {
        return routes;
    }
    let places = places(site, server);
    let rivals = rivals_of(&places);
    let mut routes = NginxRoutes::new(routes);
    for place in &places {
        match &place.pattern.what {
            NginxMatch::Paths(paths) => {
                for path in paths {
                    add_paths(
                        site,
                        place,
                        (&places, &rivals),
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
    if regexes > MOST_RIVALS {
        // To tell which of them restricts which route would take too long.
        let because = "there are too many regular expressions: all routes refuse all clients";
        for place in places.iter().filter(|place| place.pattern.regex) {
            verdicts.rest(place.location, &Verdict::not_supported(because, None));
        }
        closed.push(because.to_owned());
    }
    for place in places.iter().filter(|_| regexes <= MOST_RIVALS) {
        match &place.pattern.what {
            NginxMatch::Extensions(list) => extensions(site, place, list, &mut routes, &places),
            NginxMatch::Hidden(names) => hidden(site, place, names, &mut routes, &places),
            NginxMatch::Other => other(site, place, &mut routes, &places),
            _ => {}
        }
    }
    for route in &mut routes {
        route.closed.extend(closed.iter().cloned());
    }
    routes
}

fn places<'a>(site: &NginxSite<'a, '_>, server: &'a NginxDirective) -> Vec<NginxPlace<'a>> {
    let mut parents: Vec<(&'a NginxDirective, Option<String>)> = vec![(server, None)];
    let mut inside: Vec<(crate::StatementId, Option<String>)> = Vec::new();
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

/// Access, fields and what else modifies a route.
fn finish<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    add_access(site, scope, route);
    add_fields(site, scope, route);
    if matches!(route.get("respond"), Some(DraftValue::Number(501))) {
        route.remove("cache");
    }
}

/// The route of one path of a location.
fn add_paths<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    (places, rivals): (&[NginxPlace<'a>], &NginxRivals),
    path: &NginxPath,
    host_names: &[String],
    routes: &mut NginxRoutes,
) {
    let verdicts = site.verdicts();
    if let Some(winner) = shadowed(place, places, rivals, path) {
        let because = format!("line {} takes these requests", winner.location.place.line);
        verdicts.rest(place.location, &Verdict::not_supported(because, None));
        return;
    }
    verdicts.converted(place.location);
    if place.pattern.any_case {
        verdicts.differs(
            place.location,
            "paths are matched as they are written: upper and lower case differ",
        );
    }
    if path.loose && !path.base().is_empty() {
        verdicts.differs(
            place.location,
            format!(
                "paths such as {base}xyz, which begin with it without a slash, do not belong to it: only {base} and what is below",
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
    let closed_by = closed.clone();
    route.closed.append(&mut closed);
    for log in place.scope.own("access_log") {
        verdicts.differs(log, "a path has the access log of its site");
    }
    for extra in more.iter_mut() {
        extra.closed.extend(route.closed.iter().cloned());
        for key in ["auth", "allow", "deny"] {
            if let Some(value) = route.get(key) {
                extra.set(key, value.clone());
            }
        }
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

/// The locations that may win over another one: those with `^~`, `=` and regular expressions.
struct NginxRivals {
    regex: Vec<usize>,
    all: Vec<usize>,
}

/// The most rivals that are looked through for each location.
const MOST_RIVALS: usize = 2000;

fn rivals_of(places: &[NginxPlace<'_>]) -> NginxRivals {
    let of = |wanted: &dyn Fn(&NginxPattern) -> bool| {
        let all = places.iter().enumerate();
        let found = all.filter(|(_, place)| {
            wanted(&place.pattern) && matches!(place.pattern.what, NginxMatch::Paths(_))
        });
        found.map(|(at, _)| at).take(MOST_RIVALS).collect()
    };
    NginxRivals {
        regex: of(&|pattern| pattern.regex),
        all: of(&|pattern| pattern.regex || pattern.strong),
    }
}

/// The location that nginx asks first for all paths of this one.
fn shadowed<'p, 'a>(
    place: &NginxPlace<'a>,
    places: &'p [NginxPlace<'a>],
    rivals: &NginxRivals,
    path: &NginxPath,
) -> Option<&'p NginxPlace<'a>> {
    if place.pattern.strong && !place.pattern.regex {
        return None;
    }
    let rivals = if place.pattern.regex {
        &rivals.all
    } else {
        &rivals.regex
    };
    rivals
        .iter()
        .filter_map(|at| places.get(*at))
        .find(|other| {
            if other.location.id == place.location.id {
                return false;
            }
            let NginxMatch::Paths(theirs) = &other.pattern.what else {
                return false;
            };
            let wins = if place.pattern.regex {
                // `^~` before a regular expression; of two regular expressions the first.
                other.pattern.strong || other.pattern.regex && other.location.id < place.location.id
            } else {
                other.pattern.regex && !other.pattern.any_case
            };
            wins && theirs.iter().any(|their| {
                their.is_prefix()
                    && path.base().strip_prefix(their.base()).is_some_and(|r| {
                        (r.is_empty() || r.starts_with('/'))
                            && !(their.base().is_empty() && !other.pattern.regex)
                    })
            })
        })
}

/// The routes that a location with a regular expression may take requests from.
fn affected<'r>(
    place: &NginxPlace<'_>,
    places: &[NginxPlace<'_>],
    routes: &'r mut [NginxRoute],
) -> impl Iterator<Item = &'r mut NginxRoute> {
    let strong: BTreeSet<String> = places
        .iter()
        .filter(|other| other.pattern.strong)
        .filter_map(|other| match &other.pattern.what {
            NginxMatch::Paths(paths) => paths.first().map(|path| path.key.clone()),
            _ => None,
        })
        .collect();
    let inside = place.inside.clone();
    routes.iter_mut().filter(move |route| {
        let within = inside.as_deref().is_none_or(|base| {
            let path = route.key.strip_suffix("/*").unwrap_or(&route.key);
            path == base || path.starts_with(&format!("{base}/")) || base.is_empty()
        });
        within
            && (!strong.contains(&route.key) || inside.is_some())
            && matches!(route.action, NginxAction::Proxy | NginxAction::Files)
    })
}

/// `\.(css|js)$`: caching by media type, if nothing else differs.
fn extensions<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    list: &[String],
    routes: &mut Vec<NginxRoute>,
    places: &[NginxPlace<'a>],
) {
    let verdicts = site.verdicts();
    let php = list.iter().any(|e| e.starts_with("php") || e == "phtml");
    if restricts(place.location.children()) {
        // Where no file is served and PHP is not run, a rule about scripts is moot for files only.
        return other(site, place, routes, places);
    }
    let harmless = place.location.children().iter().all(|d| {
        matches!(
            d.name.as_str(),
            "expires"
                | "add_header"
                | "access_log"
                | "log_not_found"
                | "etag"
                | "try_files"
                | "root"
                | "proxy_pass"
                | "proxy_set_header"
                | "proxy_http_version"
                | "tcp_nodelay"
                | "sendfile"
                | "gzip_static"
                | "open_file_cache"
                | "tcp_nopush"
                | "gzip"
                | "proxy_redirect"
                | "gzip_types"
                | "include"
                | "brotli_static"
                | "index"
                | "default_type"
                | "allow"
        ) || d.name.starts_with("proxy_cache")
            || d.name.starts_with("open_file_cache")
            || d.name.starts_with("more_set")
    });
    let base = NginxPath::all();
    let types: Vec<&str> = list.iter().filter_map(|e| media_type(e)).collect();
    let from_root = place.inside.as_deref().unwrap_or("").is_empty();
    let target = routes.iter().position(|route| route.key == "/*");
    let fits = harmless && !php && from_root && !types.is_empty();
    if let (true, Some(at)) = (fits, target) {
        let mut trial = answer(site, &place.scope, &base, place.location);
        add_fields(site, &place.scope, &mut trial);
        let same = routes.get(at).is_some_and(|route| {
            trial.action == route.action
                && matches!(trial.action, NginxAction::Files | NginxAction::Proxy)
                && trial.get("root") == route.get("root")
                && trial.get("proxy") == route.get("proxy")
        });
        if same {
            let policy = match trial.get("cache") {
                Some(DraftValue::Text(policy)) => Some(policy.clone()),
                _ => None,
            };

            let mut because = "files are chosen by media type here, not by extension".to_owned();
            if types.len() < list.len() {
                because.push_str(", and those of unknown extensions are left out");
            }

            for header in place.scope.own("add_header") {
                let field = header.arg(0).to_ascii_lowercase();
                let of_all = routes.get(at).and_then(|route| field_of(route, &field));
                let same = of_all.is_some() && of_all == field_of(&trial, &field);
                if !same && (policy.is_none() || field != "cache-control") {
                    verdicts.differs(
                        header,
                        "a field is set for all paths or for one, not by extension: it is left out",
                    );
                }
            }
            if policy.is_none() {
                because = "these files are served as all others are".to_owned();
            }
            verdicts.differs(place.location, because);
            for log in place.scope.own("access_log") {
                verdicts.differs(log, "a path has the access log of its site");
            }
            if let (Some(policy), Some(route)) = (policy, routes.get_mut(at)) {
                let mut keys = match route.get("cache") {
                    Some(DraftValue::Inline(keys)) => keys.clone(),
                    Some(value) => vec![("*".to_owned(), value.clone())],
                    None => Vec::new(),
                };
                for kind in types {
                    if !keys.iter().any(|(known, _)| known == kind) {
                        keys.push((kind.to_owned(), policy.clone().into()));
                    }
                }
                route.set("cache", DraftValue::Inline(keys));
            }
            return;
        }
    }
    other(site, place, routes, places);
}

/// The value of a response field that a route sets.
fn field_of<'r>(route: &'r NginxRoute, field: &str) -> Option<&'r DraftValue> {
    match route.get("headers") {
        Some(DraftValue::Inline(fields)) => fields
            .iter()
            .find(|(name, _)| name == field)
            .map(|(_, value)| value),
        _ => None,
    }
}

/// `/\.`: names that begin with a dot.
fn hidden<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    _names: &[String],
    routes: &mut Vec<NginxRoute>,
    places: &[NginxPlace<'a>],
) {
    let verdicts = site.verdicts();
    let denies = place.location.children().iter().any(|d| {
        d.name == "deny" && d.arg(0) == "all" || d.name == "return" && d.arg(0).starts_with('4')
    });
    let proxied = affected(place, places, routes).any(|route| route.action == NginxAction::Proxy);
    if denies && !proxied {
        // Of files, Lockgate serves no such name.
        verdicts.rest(place.location, &Verdict::Default);
    } else if denies {
        for route in affected(place, places, routes).filter(|r| r.action == NginxAction::Proxy) {
            let rule = place.location.args.join(" ");
            route
                .closed
                .push(format!("{}: location {rule}", place_of(place.location)));
        }
        verdicts.rest(
            place.location,
            &Verdict::not_supported(
                "names that begin with a dot are refused among files, not for an application: its routes refuse all clients",
                Some("remove `deny` where the application has nothing to hide below such names"),
            ),
        );
    } else {
        other(site, place, routes, places);
    }
}

/// A regular expression that is neither a path nor an extension.
fn other<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    routes: &mut Vec<NginxRoute>,
    places: &[NginxPlace<'a>],
) {
    let verdicts = site.verdicts();
    if restricts(place.location.children()) && foreign_handler(&place.scope).is_none() {
        let mut hit = false;
        for route in affected(place, places, routes) {
            route.closed.push(format!(
                "{}: location {}",
                place_of(place.location),
                place.location.args.join(" ")
            ));
            hit = true;
        }
        let because = if hit {
            "paths are not matched by regular expressions: the routes that it restricts refuse all clients"
        } else {
            "paths are not matched by regular expressions; nothing here serves what it restricts"
        };
        let instead = "write path tables for these paths, and remove `deny`";
        verdicts.rest(
            place.location,
            &Verdict::not_supported(because, Some(instead)),
        );
        return;
    }
    if let Some((handler, instead)) = foreign_handler(&place.scope) {
        let because = "Lockgate forwards HTTP and serves files, nothing else";
        verdicts.refuse(handler, because, Some(instead));
        verdicts.rest(
            place.location,
            &Verdict::not_supported("it belongs to what Lockgate cannot make", Some(instead)),
        );
        return;
    }
    verdicts.rest(
        place.location,
        &Verdict::not_supported(
            if place.pattern.regex {
                "paths are not matched by regular expressions: these requests go where the other paths lead"
            } else {
                "its path cannot be the name of a table: these requests go where the other paths lead"
            },
            Some("write a path table, such as [site.\"example.com\".path.\"/x/*\"]"),
        ),
    );
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
