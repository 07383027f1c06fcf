//! The hosts and paths that the matchers of a site name.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::CaddyStatement;
use super::matchers::{self, CaddyPathChange, CaddyScope};
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

/// The most methods of a site that have routes of their own.
const MOST_METHODS: usize = 8;

/// The methods that matchers of a site name, as far as Lockgate can tell them apart: none where it
/// cannot. A route for GET is one for HEAD too, so that HEAD is looked at beside it.
pub(super) fn methods_of(site: &CaddyStatement) -> Vec<String> {
    let scope = CaddyScope::new(site.inner().iter(), None);
    let mut methods = BTreeSet::new();
    collect_methods(site.inner(), &scope, &mut methods, 0);
    let plain = |method: &String| {
        method != "CONNECT" && !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase())
    };
    if methods.len() > MOST_METHODS || !methods.iter().all(plain) {
        return Vec::new();
    }
    if methods.contains("GET") {
        methods.insert("HEAD".to_owned());
    }
    methods.into_iter().collect()
}

fn collect_methods(
    statements: &[CaddyStatement],
    scope: &CaddyScope<'_>,
    methods: &mut BTreeSet<String>,
    depth: usize,
) {
    for statement in statements {
        matchers::methods(statement, scope, methods);
        if depth < 64 && matches!(statement.name(), "handle" | "handle_path" | "route") {
            let inner = CaddyScope::new(statement.inner().iter(), Some(scope));
            collect_methods(statement.inner(), &inner, methods, depth + 1);
        }
    }
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

/// Where a request of a place may go after a `try_files`, besides staying as it is.
///
/// Where a path is not known as a text, a place stands for it. Some may be among them that no
/// request goes to.
pub(super) fn fallbacks(
    tried: &[String],
    place: &CaddyPlace,
    change: &CaddyPathChange,
    places: &CaddyPlaces,
) -> Vec<(CaddyPlace, CaddyPathChange)> {
    let mut found: Vec<(CaddyPlace, CaddyPathChange)> = Vec::new();
    let mut add = |place: CaddyPlace, change: CaddyPathChange| {
        let one = (place, change);
        if !found.contains(&one) {
            found.push(one);
        }
    };
    for path in tried {
        let end = match path.strip_prefix("{path}") {
            None => {
                add(place.clone(), CaddyPathChange::Rewritten(path.clone()));
                continue;
            }
            Some("") => continue,
            Some(end) => end,
        };
        if let CaddyPathChange::Rewritten(before) = change {
            let path = format!("{before}{end}");
            add(place.clone(), CaddyPathChange::Rewritten(path));
            continue;
        }
        let own = place.path();
        if let CaddyPlace::Exact(_) = place {
            let longer = format!("{own}{end}");
            let segments = longer.split('/').skip(1).map(str::to_owned).collect();
            add(CaddyPlace::Exact(segments), change.clone());
            if !own.contains('{') {
                continue;
            }
        }
        // Other places have many paths: with the end, some may be in a more specific place.
        let begin = own.split('{').next().unwrap_or_default();
        for other in places.all.iter().filter(|other| *other != place) {
            let path = other.path();
            let leads = (1..=end.len()).any(|length| {
                let whole = length == end.len() || !matches!(other, CaddyPlace::Exact(_));
                whole
                    && end
                        .get(..length)
                        .and_then(|end| path.strip_suffix(end))
                        .is_some_and(|before| before.starts_with(begin))
            });
            if leads || (path.contains('{') && end.contains('/') && end != "/") {
                add(other.clone(), change.clone());
            }
        }
    }
    found
}
