//! The routes of one host: which of them requests reach, and in which order Lockgate tries them.

use std::collections::BTreeSet;

use super::rule::RulePath;
use crate::{DraftTable, DraftValue};

/// A route of a host.
#[derive(Debug, Clone)]
pub(super) struct RouteRow {
    /// The number of its router.
    pub(super) router: usize,
    /// Its path.
    pub(super) path: RulePath,
    /// Its methods; none for all.
    pub(super) methods: Vec<String>,
    /// The priority in Traefik: higher comes first.
    pub(super) priority: i64,
    /// Keys of its table, the action first.
    pub(super) keys: Vec<(String, DraftValue)>,
    /// Comments of its table.
    pub(super) comments: Vec<String>,
    /// What keeps requests out.
    pub(super) guards: BTreeSet<String>,
    /// Whether conditions of it cannot be written.
    pub(super) conditional: bool,
    /// Whether these conditions name clients by the addresses that they do not have.
    pub(super) outsiders: bool,
    /// Paths that are not its own.
    pub(super) except: Vec<RulePath>,
    /// Whether it serves nothing.
    pub(super) void: bool,
    /// The path of its rule, if it is Lockgate's live page, which takes all of a host.
    pub(super) page: Option<RulePath>,
}

/// The most routes of one host that are compared.
pub(super) const MAX_ROWS: usize = 1500;

/// What became of the routes of a host.
#[derive(Debug, Default)]
pub(super) struct ResolvedRows {
    /// The routes that requests reach.
    pub(super) rows: Vec<RouteRow>,
    /// Routers that conditions kept from being written, which are refused here.
    pub(super) refused: BTreeSet<usize>,
    /// Routers with a prefix, of which similar paths lose what kept requests out.
    pub(super) exposed: BTreeSet<usize>,
}

fn covers(one: &RouteRow, other: &RouteRow) -> bool {
    one.path.covers(&other.path)
        && (one.methods.is_empty()
            || (!other.methods.is_empty()
                && other
                    .methods
                    .iter()
                    .all(|method| one.methods.contains(method))))
}

fn touches(one: &RouteRow, other: &RouteRow) -> bool {
    one.path.covers(&other.path) || other.path.covers(&one.path)
}

/// A response that serves nothing.
pub(super) fn respond(status: i64) -> Vec<(String, DraftValue)> {
    vec![("respond".to_owned(), status.into())]
}

/// Orders the routes of a host.
pub(super) fn resolve(mut rows: Vec<RouteRow>) -> ResolvedRows {
    let mut resolved = ResolvedRows::default();
    rows.sort_by_key(|row| std::cmp::Reverse(row.priority));
    rows.truncate(MAX_ROWS);
    // Conditions: a route is left out only if no other one lets in what it kept out.
    let mut at = 0;
    while let Some(row) = rows.get(at) {
        if !row.conditional {
            at += 1;
            continue;
        }
        let lower = rows.iter().skip(at + 1).filter(|other| touches(row, other));
        let refusal = refuses(row);
        let safe = lower.clone().all(|other| {
            let same = !row.outsiders || action(row) == action(other);
            other.void
                || refuses(other)
                || (!refusal && same && row.guards.is_subset(&other.guards))
        });
        if safe {
            rows.remove(at);
        } else {
            resolved.refused.insert(row.router);
            if let Some(row) = rows.get_mut(at) {
                row.keys = respond(403);
                row.comments
                    .push("a condition of it is not known to Lockgate".to_owned());
                row.conditional = false;
                row.void = true;
            }
            at += 1;
        }
    }
    // Exceptions become routes of their own, as the next router would have them.
    let mut except = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for path in &row.except {
            let mut probe = RouteRow {
                path: path.clone(),
                except: Vec::new(),
                ..row.clone()
            };
            let next = rows.iter().enumerate().find(|(other, candidate)| {
                *other != index
                    && candidate.methods.is_empty()
                    && covers(candidate, &probe)
                    && !candidate.except.iter().any(|path| path.covers(&probe.path))
            });
            match next {
                Some((_, next)) => {
                    probe.keys.clone_from(&next.keys);
                    probe.comments.clone_from(&next.comments);
                    probe.guards.clone_from(&next.guards);
                    probe.router = next.router;
                    probe.void = next.void;
                }
                None => {
                    probe.keys = respond(404);
                    probe.comments = vec!["no router has it".to_owned()];
                    probe.guards = BTreeSet::new();
                    probe.void = true;
                }
            }
            probe.priority = probe.priority.saturating_add(1);
            probe.methods = row.methods.clone();
            except.push(probe);
        }
    }
    rows.extend(except);
    rows.sort_by_key(|row| std::cmp::Reverse(row.priority));
    let mut kept: Vec<RouteRow> = Vec::new();
    for row in rows {
        if kept.iter().any(|higher| covers(higher, &row)) {
            continue;
        }
        // A higher route for some methods of a broader path comes first in Traefik.
        let partial: Vec<RouteRow> = kept
            .iter()
            .filter(|higher| {
                !higher.methods.is_empty()
                    && higher.path != row.path
                    && higher.path.covers(&row.path)
            })
            .map(|higher| RouteRow {
                path: row.path.clone(),
                ..higher.clone()
            })
            .collect();
        for more in partial {
            // Lockgate looks at the path first: what covers it by a broader path is not enough.
            let known = kept
                .iter()
                .any(|known| known.path == more.path && covers(known, &more));
            if kept.len() < 2 * MAX_ROWS && !known {
                kept.push(more);
            }
        }
        kept.push(row);
    }
    for row in &kept {
        let RulePath::Prefix(prefix) = &row.path else {
            continue;
        };
        let similar = RulePath::Exact(format!("{prefix}x"));
        // Not one that is refused only because Lockgate lacks a part of it.
        let refusal = refuses(row) && (!row.void || resolved.refused.contains(&row.router));
        let exposed = kept.iter().any(|other| {
            let open = refusal || !row.guards.is_subset(&other.guards);
            let lower = other.priority <= row.priority && other.path.covers(&similar);
            lower && open && !other.void && !refuses(other)
        });
        if exposed {
            resolved.exposed.insert(row.router);
        }
    }
    resolved.rows = kept;
    resolved
}

/// Keys that a route has for itself: they depend on its pattern.
const OWN: [&str; 8] = [
    "proxy",
    "redirect",
    "respond",
    "root",
    "strip_prefix",
    "rewrite",
    "limit",
    "methods",
];

fn get<'a>(row: &'a RouteRow, key: &str) -> Option<&'a DraftValue> {
    row.keys
        .iter()
        .find(|(known, _)| known == key)
        .map(|(_, value)| value)
}

fn is_action(key: &str) -> bool {
    matches!(key, "proxy" | "redirect" | "respond" | "root")
}

fn action(row: &RouteRow) -> Option<&(String, DraftValue)> {
    row.keys.iter().find(|(key, _)| is_action(key))
}

/// Whether all its requests get an error that Traefik itself makes.
fn refuses(row: &RouteRow) -> bool {
    matches!(action(row), Some((_, DraftValue::Number(400..=499))))
}

/// Writes the routes of a host into its site's table.
pub(super) fn write(rows: &[RouteRow], table: &mut DraftTable) {
    let Some(first) = rows.first() else { return };
    let shared: Vec<(String, DraftValue)> = match rows {
        [_] => Vec::new(),
        _ => first
            .keys
            .iter()
            .filter(|(key, value)| {
                !OWN.contains(&key.as_str()) && rows.iter().all(|row| get(row, key) == Some(value))
            })
            .cloned()
            .collect(),
    };
    let is_shared = |key: &str| shared.iter().any(|(known, _)| known == key);
    let all = rows
        .iter()
        .find(|row| row.path == RulePath::All && row.methods.is_empty());
    // What a site's table holds is inherited by paths: only an action alone may stand there.
    let bare = all.filter(|all| {
        rows.len() == 1
            || all
                .keys
                .iter()
                .all(|(key, _)| is_action(key) || is_shared(key))
    });
    let mut common: Option<&(String, DraftValue)> = None;
    if let Some(row) = bare {
        table.comments.extend(row.comments.iter().cloned());
        for (key, value) in &row.keys {
            table.set(key, value.clone());
        }
        common = action(row);
    }
    for (key, value) in &shared {
        table.set(key, value.clone());
    }
    let own = |row: &'_ RouteRow| -> Vec<(String, DraftValue)> {
        let own = row.keys.iter();
        own.filter(|entry| !is_shared(&entry.0) && Some(*entry) != common)
            .cloned()
            .collect()
    };
    for row in rows {
        if bare.is_some_and(|bare| std::ptr::eq(bare, row)) {
            continue;
        }
        let mut keys = own(row);
        if keys.is_empty() {
            // As the site has it, unless a pattern between the two would get its requests.
            let between = rows.iter().any(|other| {
                !std::ptr::eq(other, row)
                    && !bare.is_some_and(|bare| std::ptr::eq(bare, other))
                    && other.path.covers(&row.path)
                    && !own(other).is_empty()
            });
            if !between {
                continue;
            }
            keys.clone_from(&row.keys);
        }
        for pattern in patterns(row) {
            let path = table.table("path").table(&pattern);
            path.comments.extend(row.comments.iter().cloned());
            for (key, value) in &keys {
                path.set(key, value.clone());
            }
        }
    }
}

/// The patterns of a route, one for each of its methods.
pub(super) fn patterns(row: &RouteRow) -> Vec<String> {
    let pattern = row.path.pattern();
    match row.methods.as_slice() {
        [] => vec![pattern],
        methods => methods
            .iter()
            .map(|method| format!("{method} {pattern}"))
            .collect(),
    }
}
