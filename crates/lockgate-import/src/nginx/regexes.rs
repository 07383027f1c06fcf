//! Locations with regular expressions: which of them nginx asks first, and what becomes of those
//! that are no paths.

use std::collections::BTreeSet;

use super::answer::{answer, foreign_handler};
use super::fields::{add_fields, is_old_cache_field};
use super::finish::finish;
use super::locations::{NginxPlace, restricts};
use super::pattern::{NginxMatch, NginxPath, media_type};
use super::route::{NginxAction, NginxRoute, place_of};
use super::shared::NginxSite;
use crate::{DraftValue, Verdict};

/// The most regular expressions of a server that are looked at one by one.
pub(super) const MOST_REGEXES: usize = 300;

/// The most locations that are looked through for each rewrite.
pub(super) const MOST_RIVALS: usize = 2000;

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
pub(super) fn extensions<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    list: &[String],
    routes: &mut [NginxRoute],
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
    let saved = (fits && target.is_some()).then(|| verdicts.report.borrow().clone());
    if let (true, Some(at)) = (fits, target) {
        let mut trial = answer(site, &place.scope, &base, place.location);
        add_fields(site, &place.scope, &mut trial);
        let same = routes.get(at).is_some_and(|route| {
            trial.action == route.action
                && matches!(trial.action, NginxAction::Files | NginxAction::Proxy)
                && [
                    "root",
                    "proxy",
                    "strip_prefix",
                    "rewrite",
                    "request_headers",
                ]
                .iter()
                .all(|key| trial.get(key) == route.get(key))
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

            if routes
                .get(at)
                .is_some_and(|route| trial.get("try") != route.get("try"))
            {
                because.push_str("; a file that is missing is answered as other paths are");
            }
            for header in place.scope.own("add_header") {
                let field = header.arg(0).to_ascii_lowercase();
                let of_all = routes.get(at).and_then(|route| field_of(route, &field));
                let same = of_all.is_some() && of_all == field_of(&trial, &field);
                let old =
                    policy.is_some() && is_old_cache_field(&place.scope, &field, header.arg(1));
                if !same && !old && (policy.is_none() || field != "cache-control") {
                    verdicts.differs(
                        header,
                        "a field is set for all paths or for one, not by extension: it is left out",
                    );
                }
            }
            if policy.is_none() {
                because = "these files are served as all files are".to_owned();
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
    if let Some(saved) = saved {
        // What was tried is not in the new file.
        verdicts.report.replace(saved);
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
pub(super) fn hidden<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    _names: &[String],
    routes: &mut [NginxRoute],
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

/// Whether a location does what all routes that it may take requests from do anyway.
fn same_as_all<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    routes: &mut [NginxRoute],
    places: &[NginxPlace<'a>],
) -> bool {
    let simple = ["rewrite", "if", "internal", "access_log"];
    if simple.iter().any(|name| !place.scope.own(name).is_empty())
        || foreign_handler(&place.scope).is_some()
        || routes
            .iter()
            .any(|route| !matches!(route.action, NginxAction::Proxy | NginxAction::Files))
    {
        return false;
    }
    let verdicts = site.verdicts();
    let saved = verdicts.report.borrow().clone();
    let mut trial = answer(site, &place.scope, &NginxPath::all(), place.location);
    finish(site, &place.scope, &mut trial);
    let keys = |route: &NginxRoute| {
        let mut keys: Vec<_> = route
            .keys
            .iter()
            .map(|(k, v, _)| (k.clone(), format!("{v:?}")))
            .collect();
        keys.sort();
        keys
    };
    let wanted = keys(&trial);
    let mut any = false;
    let same = affected(place, places, routes).all(|route| {
        any = true;
        route.closed == trial.closed && keys(route) == wanted
    });
    if same && any && trial.closed.is_empty() {
        verdicts.converted(place.location);
        return true;
    }
    verdicts.report.replace(saved);
    false
}

/// A regular expression that is neither a path nor an extension.
pub(super) fn other<'a>(
    site: &NginxSite<'a, '_>,
    place: &NginxPlace<'a>,
    routes: &mut [NginxRoute],
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
    if place.pattern.regex && same_as_all(site, place, routes, places) {
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
