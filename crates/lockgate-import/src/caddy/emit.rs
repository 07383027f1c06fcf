//! The tables of a site: what its paths have in common, and what they have not.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{self, CaddyStatement};
use super::outcome::{CaddyAction, CaddyAnswers, CaddyOutcome, CaddyOutcomes, CaddyUpstream};
use super::paths::CaddyPlace;
use super::places::CaddyPlaces;
use super::tests_of::{CaddyTableNames, CaddyTests};
use crate::draft::EVERY_CLIENT;
use crate::{ConversionReport, DraftTable, DraftValue, Verdict};

/// The keys of a table in the order in which they are written.
const KEYS: [&str; 27] = [
    "proxy",
    "root",
    "redirect",
    "respond",
    "strip_prefix",
    "rewrite",
    "index",
    "try",
    "not_found",
    "listing",
    "hidden",
    "precompressed",
    "cache",
    "compress",
    "headers",
    "request_headers",
    "trace",
    "auth",
    "allow",
    "deny",
    "limit",
    "body",
    "timeouts",
    "rewrite_location",
    "error_pages",
    "access_log",
    "shape",
];

/// The pools of the draft.
#[derive(Debug, Default)]
pub(super) struct CaddyPools {
    pools: Vec<(String, CaddyUpstream)>,
}

impl CaddyPools {
    /// The value of `proxy`, with a pool where there are several endpoints or options.
    fn value(&mut self, upstream: &CaddyUpstream) -> DraftValue {
        let simple = |name: &str| matches!(name, "tls" | "protocol" | "proxy_protocol");
        match upstream.endpoints.as_slice() {
            [one @ DraftValue::Text(_)] if upstream.options.is_empty() => return one.clone(),
            [one @ DraftValue::Text(_)]
                if upstream.options.iter().all(|(name, _)| simple(name)) =>
            {
                let mut value = vec![("to".to_owned(), one.clone())];
                value.extend(upstream.options.iter().cloned());
                return DraftValue::Inline(value);
            }
            _ => {}
        }
        format!("pool:{}", self.name(upstream)).into()
    }

    fn name(&mut self, upstream: &CaddyUpstream) -> String {
        if let Some((name, _)) = self.pools.iter().find(|(_, known)| known == upstream) {
            return name.clone();
        }
        let first = match upstream.endpoints.first() {
            Some(DraftValue::Text(address)) => address.clone(),
            Some(DraftValue::Inline(keys)) => match keys.first() {
                Some((_, DraftValue::Text(address))) => address.clone(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        let host = first.split(':').next().unwrap_or_default();
        let label = host.split('.').next().unwrap_or_default();
        let base: String = label
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .trim_end_matches(['-', '_'])
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_')
            .collect();
        let base = match base.as_str() {
            "" | "localhost" | "unix" | "env" => "app".to_owned(),
            _ => base,
        };
        let mut name = base.clone();
        let mut number = 2;
        while self.pools.iter().any(|(known, _)| *known == name) {
            name = format!("{base}-{number}");
            number += 1;
        }
        self.pools.push((name.clone(), upstream.clone()));
        name
    }

    /// Writes the tables of the pools.
    pub(super) fn write(self, top: &mut DraftTable) {
        for (name, upstream) in self.pools {
            let table = top.table("pool").table(&name);
            table.set("endpoints", DraftValue::List(upstream.endpoints));
            for (key, value) in upstream.options {
                table.set(&key, value);
            }
        }
    }
}

type CaddyKeys = BTreeMap<&'static str, DraftValue>;

/// Writes the routes of a site.
#[allow(clippy::too_many_arguments)] // They are what a site is made of.
pub(super) fn routes(
    table: &mut DraftTable,
    site: &CaddyStatement,
    names: CaddyTableNames<'_>,
    mut answers: CaddyAnswers,
    places: &CaddyPlaces,
    pools: &mut CaddyPools,
    tests: &mut CaddyTests,
    report: &mut ConversionReport,
) {
    compare(&mut answers.others, places, report);
    for (_, outcomes) in &mut answers.methods {
        compare(outcomes, places, report);
    }
    let root_place = CaddyPlace::Below(Vec::new());
    let Some(root) = answers.others.get(&root_place).cloned() else {
        return;
    };
    if root.action == CaddyAction::Nothing {
        let because = "a path without a route gets 404, and Caddy sends an empty page with 200";
        report.set(site.id, Verdict::differs(because));
    }
    let mut kept: Vec<(CaddyPlace, CaddyOutcome)> = Vec::new();
    let mut of_methods: Vec<(CaddyPlace, &str, CaddyOutcome)> = Vec::new();
    for (place, outcome) in &answers.others {
        if matches!(place, CaddyPlace::GoesOn(_)) {
            continue;
        }
        let parent = place.parent(&places.all);
        let of_parent = answers.others.get(&parent).unwrap_or(&root);
        let mut differs = outcome != of_parent;
        let mut serves = outcome.serves() || of_parent.serves();
        for (_, own) in &answers.methods {
            differs |= own.get(place) != own.get(&parent);
            serves |= [own.get(place), own.get(&parent)]
                .into_iter()
                .flatten()
                .any(CaddyOutcome::serves);
        }
        if !place.is_root() {
            if !differs || !serves {
                continue;
            }
            kept.push((place.clone(), outcome.clone()));
        }
        // HEAD belongs to the route of GET, where it has none of its own.
        let mut of_get = outcome;
        for (method, own) in &answers.methods {
            let Some(own) = own.get(place) else { continue };
            let known = if method == "HEAD" { of_get } else { outcome };
            if own != known {
                of_methods.push((place.clone(), method, own.clone()));
            }
            if method == "GET" {
                of_get = own;
            }
        }
    }
    // The specific ones after the general ones, and otherwise by their paths.
    kept.sort_by_key(|(place, _)| (place.path(), matches!(place, CaddyPlace::Exact(_))));
    let root_keys = keys_of(&root, &root_place, pools);
    let of_paths: Vec<CaddyKeys> = kept
        .iter()
        .map(|(place, outcome)| keys_of(outcome, place, pools))
        .collect();
    let keys_of_methods: Vec<CaddyKeys> = of_methods
        .iter()
        .map(|(place, _, outcome)| keys_of(outcome, place, pools))
        .collect();
    let mut below = of_paths.iter().chain(&keys_of_methods);
    let split = root.serves() && below.any(|keys| is_lost(&root_keys, keys));
    table.comments.extend(root.flow.comments.iter().cloned());
    if split {
        let below = table.table("path").table("/*");
        write_keys(below, &root_keys);
    } else if root.serves() {
        write_keys(table, &root_keys);
    }
    // A test sends GET.
    let has_get = |place: &CaddyPlace| {
        let mut all = of_methods.iter();
        all.any(|(known, method, _)| known == place && *method == "GET")
    };
    if root.serves() && !has_get(&root_place) {
        tests.add(names, &root_place, &root, &root_keys, "/*", &kept);
    }
    for ((place, outcome), keys) in kept.iter().zip(of_paths) {
        let own = match split || !root.serves() {
            true => keys.clone(),
            false => difference(&root_keys, &keys),
        };
        let path = table.table("path").table(&place.key());
        if let Some(origin) = &outcome.origin.0 {
            blocks::come_from(path, origin);
        }
        path.comments.extend(
            outcome
                .flow
                .comments
                .iter()
                .filter(|_| outcome.flow.auth != root.flow.auth)
                .cloned(),
        );
        if own.is_empty() {
            path.comments.push(format!(
                "{}/* of Caddy does not have {} itself.",
                place.path(),
                place.path()
            ));
        }
        write_keys(path, &own);
        if !has_get(place) {
            tests.add(names, place, outcome, &keys, &place.key(), &kept);
        }
    }
    for ((place, method, outcome), keys) in of_methods.iter().zip(keys_of_methods) {
        let own = match split || !root.serves() {
            true => keys.clone(),
            false => difference(&root_keys, &keys),
        };
        let key = format!("{method} {}", place.key());
        let path = table.table("path").table(&key);
        if let Some(origin) = &outcome.origin.0 {
            blocks::come_from(path, origin);
        }
        write_keys(path, &own);
        tests.add(names, place, outcome, &keys, &key, &kept);
    }
}

/// Compares what Caddy does at places that are no routes of Lockgate with what Lockgate does there.
fn compare(outcomes: &mut CaddyOutcomes, places: &CaddyPlaces, report: &mut ConversionReport) {
    let all: Vec<CaddyPlace> = outcomes.keys().cloned().collect();
    let mut closed = BTreeSet::new();
    for place in &all {
        let parent = place.parent(&places.all);
        let Some(outcome) = outcomes.get(place) else {
            continue;
        };
        let Some(of_parent) = outcomes.get(&parent) else {
            continue;
        };
        if place.is_root() || outcome == of_parent {
            continue;
        }
        let ids = places.of.get(place).into_iter().flatten();
        match place {
            CaddyPlace::GoesOn(_) => {
                let like = place.path();
                let stricter = outcome.is_stricter(of_parent) && of_parent.serves();
                let verdict = match stricter {
                    true => {
                        closed.insert(parent.clone());
                        Verdict::not_supported(
                            format!(
                                "Lockgate has no route for paths that go on without `/`, such as \
                                 `{like}x`: so that they are not let in, all of the site that is \
                                 not below `{like}/` refuses every client until it is decided: \
                                 remove `deny` there"
                            ),
                            None,
                        )
                    }
                    false => Verdict::differs(format!(
                        "paths that go on without `/`, such as `{like}x`, are not part of the route"
                    )),
                };
                for id in ids {
                    report.set(*id, verdict.clone());
                }
            }
            _ if around(place, &parent, outcomes, places)
                .is_some_and(|around| outcome.is_stricter(around)) =>
            {
                let letters = place.path().contains(|c: char| c.is_ascii_alphabetic());
                for id in ids.filter(|_| letters) {
                    let because = "Caddy compares the path in any case, Lockgate as it is written";
                    report.set(*id, Verdict::differs(because));
                }
            }
            // `/a` beside `/a/*`, to which Caddy sends an empty page.
            CaddyPlace::Exact(path)
                if !outcome.serves()
                    && of_parent.serves()
                    && parent == CaddyPlace::Below(path.clone()) =>
            {
                for id in ids {
                    let because = format!("`{}` itself is part of the route", place.path());
                    report.set(*id, Verdict::differs(because));
                }
            }
            _ => {}
        }
    }
    let empty: Vec<(CaddyPlace, CaddyPlace)> = all
        .iter()
        .filter_map(|place| match place {
            CaddyPlace::Exact(path) => {
                let below = CaddyPlace::Below(path.clone());
                let nothing = !outcomes.get(place)?.serves();
                (nothing && outcomes.contains_key(&below)).then(|| (place.clone(), below))
            }
            _ => None,
        })
        .collect();
    for (place, below) in empty {
        if let Some(outcome) = outcomes.get(&below).cloned() {
            outcomes.insert(place, outcome);
        }
    }
    for place in closed {
        if let Some(outcome) = outcomes.get_mut(&place) {
            outcome.flow.closed = true;
        }
    }
}

/// What Lockgate does where the path is written in another case.
fn around<'o>(
    place: &CaddyPlace,
    parent: &CaddyPlace,
    outcomes: &'o CaddyOutcomes,
    places: &CaddyPlaces,
) -> Option<&'o CaddyOutcome> {
    let above = match parent.segments() == place.segments() {
        true => parent.parent(&places.all),
        false => parent.clone(),
    };
    outcomes.get(&above)
}

fn keys_of(outcome: &CaddyOutcome, place: &CaddyPlace, pools: &mut CaddyPools) -> CaddyKeys {
    let mut keys = match outcome.keys(place) {
        Ok(keys) => keys,
        Err(_) => CaddyKeys::from([("respond", 404_i64.into())]),
    };
    match &outcome.action {
        CaddyAction::Proxy(upstream) => {
            keys.insert("proxy", pools.value(upstream));
        }
        CaddyAction::Nothing => {
            keys.insert("respond", 200_i64.into());
        }
        // What is not converted must not be answered by the route around it.
        CaddyAction::Absent => {
            keys.insert("respond", 404_i64.into());
        }
        _ => {}
    }
    // A service of `auth` with options has a pool of its own.
    if let Some(DraftValue::Inline(auth)) = keys.get_mut("auth") {
        for (name, value) in auth.iter_mut() {
            if name == "forward"
                && let DraftValue::Inline(parts) = value
            {
                let mut upstream = CaddyUpstream::default();
                for (name, part) in parts.drain(..) {
                    match (name.as_str(), part) {
                        ("endpoints", DraftValue::List(list)) => upstream.endpoints = list,
                        (_, DraftValue::Inline(options)) => upstream.options = options,
                        _ => {}
                    }
                }
                *value = format!("pool:{}", pools.name(&upstream)).into();
            }
        }
    }
    keys
}

/// Whether a path would inherit something from the site that it must not have, and that `false`
/// does not undo.
fn is_lost(root: &CaddyKeys, path: &CaddyKeys) -> bool {
    let fields = |keys: &CaddyKeys, name: &str| match keys.get(name) {
        Some(DraftValue::Inline(fields)) => fields.clone(),
        _ => Vec::new(),
    };
    for name in ["headers", "request_headers"] {
        if name == "request_headers" && !path.contains_key("proxy") {
            continue;
        }
        let own = fields(path, name);
        for (field, value) in fields(root, name) {
            // Removing a field matters for an application alone.
            let removed = value == DraftValue::Flag(false) && !path.contains_key("proxy");
            if !removed && !own.iter().any(|(known, _)| *known == field) {
                return true;
            }
        }
    }
    if path.contains_key("proxy") {
        for name in ["timeouts", "rewrite_location"] {
            if root.contains_key(name) && root.get(name) != path.get(name) {
                return true;
            }
        }
    }
    false
}

/// The keys of a path's table beside its site's.
fn difference(root: &CaddyKeys, path: &CaddyKeys) -> CaddyKeys {
    let mut own = CaddyKeys::new();
    for (key, value) in path {
        match (root.get(key), value) {
            (Some(known), _) if known == value => {}
            (Some(DraftValue::Inline(known)), DraftValue::Inline(fields))
                if matches!(*key, "headers" | "request_headers") =>
            {
                let mut fields = fields.clone();
                fields.retain(|field| !known.contains(field));
                if !fields.is_empty() {
                    own.insert(key, DraftValue::Inline(fields));
                }
            }
            _ => {
                own.insert(key, value.clone());
            }
        }
    }
    let is_files = path.contains_key("root");
    let is_proxy = path.contains_key("proxy");
    for key in root.keys().filter(|key| !path.contains_key(*key)) {
        let value: Option<DraftValue> = match *key {
            "auth" | "allow" | "deny" => Some(false.into()),
            "rewrite" | "compress" if is_proxy => Some(false.into()),
            "body" if is_proxy => Some(DraftValue::Inline(vec![("max".to_owned(), "off".into())])),
            "listing" | "not_found" if is_files => Some(false.into()),
            "try" if is_files && path.contains_key("strip_prefix") => Some(vec!["/{*}"].into()),
            "try" if is_files => Some(vec!["{path}"].into()),
            "index" if is_files => Some(vec!["index.html"].into()),
            _ => None,
        };
        if let Some(value) = value {
            own.insert(key, value);
        }
    }
    own
}

fn write_keys(table: &mut DraftTable, keys: &CaddyKeys) {
    for key in KEYS {
        let Some(value) = keys.get(key) else {
            continue;
        };
        match value {
            // Many fields are easier to read on lines of their own.
            DraftValue::Inline(fields) if key == "headers" && fields.len() > 2 => {
                let inner = table.table("headers");
                for (name, value) in fields {
                    inner.set(name, value.clone());
                }
            }
            _ => table.set(key, value.clone()),
        }
    }
    if keys.get("deny") == Some(&EVERY_CLIENT.to_vec().into()) {
        table.comment_key("deny", "closed by the import: see its report");
    }
}
