//! Sites as tables: what all routes have stands in the site, and the tests that pin them.

use std::collections::BTreeSet;

use super::route::{NginxAction, NginxRoute};
use crate::draft::EVERY_CLIENT;
use crate::{Draft, DraftTable, DraftValue};

/// The most `[[test]]` tables of a file.
const MOST_TESTS: usize = 50;

/// What a comment says about a rule that could not be converted.
const CLOSED: &str = "Refuses all clients until this rule is written anew";

/// Keys that `false` removes from a path.
const REMOVABLE: &[&str] = &["auth", "allow", "deny", "limit", "cache", "compress"];

/// A site that is ready to be written.
pub(super) struct NginxSiteDraft {
    /// The table's name.
    pub(super) key: String,
    /// The URL of its first host, without a path.
    pub(super) origin: String,
    /// The keys that belong to the site alone: `listen`, `tls`.
    pub(super) head: NginxRoute,
    pub(super) routes: Vec<NginxRoute>,
}

/// Writes a site.
pub(super) fn write_site(draft: &mut Draft, mut site: NginxSiteDraft, tests: &mut usize) {
    for route in &mut site.routes {
        if !site.head.closed.is_empty() {
            route.closed.extend(site.head.closed.iter().cloned());
        }
        for reason in std::mem::take(&mut route.closed) {
            let text = format!("{CLOSED}: {reason}");
            if !route.comments.contains(&text) {
                route.comments.push(text);
            }
            // What is denied or allowed besides stays, for when this is taken out.
            let mut all = EVERY_CLIENT.map(DraftValue::from).to_vec();
            if let Some(DraftValue::List(known)) = route.get("deny") {
                all.extend(
                    known
                        .iter()
                        .filter(|net| !all.contains(net))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
            }
            route.set("deny", DraftValue::List(all));
        }
        // A route that serves none needs no action of its own.
        let closed = refuses_all(route.get("deny"));
        let unwritten = route.get("respond") == Some(&DraftValue::Number(501));
        let by_own_rule = !route.comments.iter().any(|text| text.starts_with(CLOSED));
        if closed && by_own_rule && unwritten {
            route.comments.truncate(1);
        }
        if closed
            && route.comments.len() == 1
            && (unwritten || !matches!(route.get("respond"), Some(DraftValue::Number(_))))
        {
            route.keys.clear();
            route.action = NginxAction::Respond;
            route.set("respond", 403_i64);
        }
    }
    let mut table = DraftTable::default();
    let mut head = site.head;
    table.comments.append(&mut head.comments);
    let base = site.routes.iter().position(|route| route.key == "/*");
    let mut common = head.clone_empty();
    common.keys = std::mem::take(&mut head.keys);
    let base_fits = hoist(&mut site.routes, base, &mut common);
    // A path with the same action and nothing else is the site.
    if let Some(at) = base
        && base_fits
        && let Some((verb, root)) = site.routes.get(at).and_then(|base| {
            let verb = if base.action == NginxAction::Files {
                "root"
            } else {
                "proxy"
            };
            Some((verb, base.get(verb).cloned()?))
        })
    {
        let plain = |route: &NginxRoute| {
            route.key != "/*" && route.keys.len() == 1 && route.get(verb) == Some(&root)
        };
        // Without its own route, a path below another route would be under that one's rules.
        let kept: BTreeSet<String> = site
            .routes
            .iter()
            .filter(|route| route.key != "/*" && !plain(route))
            .filter_map(|route| path_of(&route.key).strip_suffix("/*").map(str::to_owned))
            .collect();
        site.routes
            .retain(|route| !plain(route) || lies_below(path_of(&route.key), &kept));
    }
    if refuses_all(common.get("deny")) {
        for route in &mut site.routes {
            let (mut closing, own) = std::mem::take(&mut route.comments)
                .into_iter()
                .partition(|text| text.starts_with(CLOSED));
            route.comments = own;
            closing.retain(|text| !table.comments.contains(text));
            table.comments.append(&mut closing);
        }
    }
    for route in &site.routes {
        if *tests >= MOST_TESTS {
            break;
        }
        let unknowable = site.key.starts_with(':')
            && (is_internal(common.get("tls")) || common.get("listen").is_some());
        if unknowable {
            break;
        }
        if let Some(test) = pin(&site.key, &site.origin, &site.routes, route, &common) {
            draft.top.push("test", test);
            *tests += 1;
        }
    }
    let base = site.routes.iter().position(|route| route.key == "/*");
    if let Some(base) = base {
        let base = site.routes.remove(base);
        if base_fits {
            let mut comments = base.comments.clone();
            comments.retain(|text| !table.comments.contains(text) && !is_place(text));
            table.comments.append(&mut comments);
            common.keys.extend(base.keys);
        } else {
            site.routes.insert(0, base);
        }
    }
    if common.keys.is_empty() {
        // The site has no header of its own then.
        table.comments.retain(|text| !is_place(text));
    }
    common.write(&mut table);
    let mut paths = DraftTable::default();
    for route in site.routes {
        let mut inner = DraftTable::default();
        inner.comments.clone_from(&route.comments);
        let key = route.key.clone();
        route.write(&mut inner);
        paths.append_table(&key, inner);
    }
    if !paths.is_empty() {
        *table.table("path") = paths;
    }
    draft.top.table("site").append_table(&site.key, table);
}

impl NginxRoute {
    fn clone_empty(&self) -> Self {
        Self {
            key: "/*".to_owned(),
            action: self.action,
            comments: Vec::new(),
            keys: Vec::new(),
            closed: Vec::new(),
            origin: self.origin,
        }
    }
}

/// The path of a key, without its method.
fn path_of(key: &str) -> &str {
    key.rsplit_once(' ').map_or(key, |(_, path)| path)
}

/// Whether one of the prefixes, which are written without `/*`, covers a path.
fn lies_below(path: &str, prefixes: &BTreeSet<String>) -> bool {
    let path = path.strip_suffix("/*").unwrap_or(path);
    let ends = path.match_indices('/').map(|(at, _)| at);
    ends.chain([path.len()]).any(|end| {
        path.get(..end)
            .is_some_and(|start| prefixes.contains(start))
    })
}

/// Whether `tls` has certificates of Lockgate's own authority, which a site for every host gets for
/// no host.
fn is_internal(tls: Option<&DraftValue>) -> bool {
    match tls {
        Some(DraftValue::Text(text)) => text == "internal",
        Some(DraftValue::Inline(keys)) => keys.iter().any(|(key, _)| key == "issuer"),
        _ => false,
    }
}

/// Whether a `deny` refuses every client.
fn refuses_all(deny: Option<&DraftValue>) -> bool {
    matches!(deny, Some(DraftValue::List(list)) if EVERY_CLIENT.iter().all(|&net| list.contains(&net.into())))
}

/// Whether a comment only names a line.
fn is_place(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(_, line)| line.parse::<usize>().is_ok())
}

/// Moves to the site what holds for all routes. Says whether the route `"/*"` may be the site.
fn hoist(routes: &mut [NginxRoute], base: Option<usize>, common: &mut NginxRoute) -> bool {
    const OWN: &[&str] = &[
        "proxy",
        "root",
        "redirect",
        "respond",
        "strip_prefix",
        "rewrite",
        "try",
        "index",
        "types",
        "not_found",
    ];
    if routes.len() < 2 {
        return true;
    }
    let mut keys: Vec<String> = Vec::new();
    for route in routes.iter() {
        for (key, ..) in &route.keys {
            if !keys.contains(key) && !OWN.contains(&key.as_str()) {
                keys.push(key.clone());
            }
        }
    }
    for key in keys {
        let caring = |route: &NginxRoute| route.cares(&key);
        let values: Vec<Option<DraftValue>> = routes
            .iter()
            .filter(|route| caring(route))
            .map(|route| route.get(&key).cloned())
            .collect();
        let value = match base
            .and_then(|at| routes.get(at))
            .filter(|route| caring(route))
        {
            Some(route) => route.get(&key).cloned(),
            None => values.first().cloned().flatten(),
        };
        let Some(value) = value else {
            continue;
        };
        let of_base = base.and_then(|at| routes.get(at)).is_some_and(caring);
        if values.len() < 2 && !of_base {
            continue;
        }
        let same = values.iter().filter(|v| v.as_ref() == Some(&value)).count();
        let missing = values.iter().filter(|v| v.is_none()).count();
        let removable = REMOVABLE.contains(&key.as_str());
        let all = same == values.len();
        // A redirect of `/x` to `/x/` says nothing about what most routes have.
        let redirects = routes.iter().filter(|route| {
            route.action == NginxAction::Redirect && caring(route) && route.get(&key).is_none()
        });
        let is_usual = missing - redirects.count() <= same;
        let most = removable && is_usual && base.is_some() && same + missing == values.len();
        if !all && !most {
            continue;
        }
        let mut comment = None;
        for route in routes.iter_mut() {
            if route.get(&key).is_some() {
                comment = comment.or_else(|| {
                    let found = route.keys.iter().find(|(k, ..)| *k == key);
                    found.and_then(|(.., comment)| comment.clone())
                });
                route.remove(&key);
            } else if most && route.cares(&key) {
                route.set(&key, false);
            }
        }
        common.set(&key, value);
        if let Some(comment) = comment {
            common.comment_key(&key, &comment);
        }
    }
    // What the site has, its paths inherit: what is left must not reach them.
    let Some(base_route) = base.and_then(|at| routes.get(at)) else {
        return true;
    };
    let left: Vec<String> = base_route
        .keys
        .iter()
        .map(|(key, ..)| key.clone())
        .filter(|key| !matches!(key.as_str(), "proxy" | "root" | "redirect" | "respond"))
        .collect();
    let action = base_route.action;
    routes.iter().enumerate().all(|(at, route)| {
        Some(at) == base
            || left.iter().all(|key| {
                !route.cares(key) && !matches!(key.as_str(), "strip_prefix" | "rewrite")
                    || route.action != action
                        && matches!(key.as_str(), "strip_prefix" | "rewrite")
                        && route.action != NginxAction::Proxy
                        && route.action != NginxAction::Files
                    || route.get(key).is_some()
                        && !matches!(
                            key.as_str(),
                            "headers" | "request_headers" | "timeouts" | "error_pages" | "types"
                        )
            })
    })
}

/// A request that hits exactly one route.
fn pin(
    site: &str,
    origin: &str,
    routes: &[NginxRoute],
    route: &NginxRoute,
    common: &NginxRoute,
) -> Option<DraftTable> {
    let (method, key) = route.key.split_once(' ').unwrap_or(("GET", &route.key));
    let rest: Vec<&str> = routes
        .iter()
        .map(|other| other.key.as_str())
        .filter(|other| *other != route.key)
        .collect();
    let path = match key.strip_suffix("/*") {
        None => key.to_owned(),
        Some(base) => ["x", "index.html", "x1", "lockgate"]
            .iter()
            .map(|last| format!("{base}/{last}"))
            .find(|path| {
                !rest.iter().any(|other| match other.strip_suffix("/*") {
                    Some(other) => {
                        other.len() > base.len()
                            && path
                                .strip_prefix(other)
                                .is_some_and(|r| r.is_empty() || r.starts_with('/'))
                    }
                    None => other == path,
                })
            })?,
    };
    let mut expect = vec![
        ("site".to_owned(), site.into()),
        ("route".to_owned(), route.key.as_str().into()),
    ];
    let rule = |key: &str| route.get(key).or_else(|| common.get(key)).cloned();
    let off = |value: Option<DraftValue>| value.is_none_or(|v| v == DraftValue::Flag(false));
    let free = ["auth", "allow", "limit", "deny"]
        .iter()
        .all(|key| off(rule(key)));
    if refuses_all(rule("deny").as_ref()) {
        expect.push(("status".to_owned(), 403_i64.into()));
    } else if free {
        expectation(origin, route, &path, &mut expect);
    }
    let mut test = DraftTable::default();
    test.set("request", format!("{method} {origin}{path}"));
    test.set("expect", DraftValue::Inline(expect));
    Some(test)
}

fn expectation(
    origin: &str,
    route: &NginxRoute,
    path: &str,
    expect: &mut Vec<(String, DraftValue)>,
) {
    let status = |keys: &[(String, DraftValue)]| {
        keys.iter()
            .find(|(key, _)| key == "status")
            .map(|(_, value)| value.clone())
    };
    if let Some(respond) = route.get("respond") {
        let value = match respond {
            DraftValue::Inline(keys) => status(keys),
            number => Some(number.clone()),
        };
        if let Some(value) = value {
            expect.push(("status".to_owned(), value));
        }
    }
    if let Some(redirect) = route.get("redirect") {
        let (to, number) = match redirect {
            DraftValue::Inline(keys) => (
                keys.iter()
                    .find(|(key, _)| key == "to")
                    .map(|(_, to)| to.clone()),
                status(keys),
            ),
            to => (Some(to.clone()), None),
        };
        expect.push((
            "status".to_owned(),
            number.unwrap_or_else(|| 308_i64.into()),
        ));
        if let Some(DraftValue::Text(to)) = to {
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            let host = host.split_once(':').map_or(host, |(host, _)| host);
            let star = path
                .strip_prefix(route.key.strip_suffix('*').unwrap_or(&route.key))
                .unwrap_or_default();
            let to = to
                .replace("{host}", host)
                .replace("{path}", path)
                .replace("{*}", star);
            expect.push(("location".to_owned(), to.into()));
        }
    }
    let pool = match route.get("proxy") {
        Some(DraftValue::Text(text)) => text.strip_prefix("pool:"),
        Some(DraftValue::Inline(keys)) => keys.iter().find_map(|(key, value)| match value {
            DraftValue::Text(text) if key == "to" => text.strip_prefix("pool:"),
            _ => None,
        }),
        _ => None,
    };
    if let Some(pool) = pool {
        expect.push(("pool".to_owned(), pool.into()));
    }
}
