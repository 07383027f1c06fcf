//! A site with its paths, and the table and tests that are written of it.

use super::patterns::{HostPattern, PathPattern};
use super::plan::{HaproxyAction, HaproxyPlan, below};
use crate::{DraftTable, DraftValue, StatementId};

/// A site before it is written.
pub(super) struct HaproxySite {
    /// The key without a port; none for every host.
    pub(super) host: Option<HostPattern>,
    pub(super) aliases: Vec<HostPattern>,
    /// The plan of the site itself, and of its paths.
    pub(super) plans: Vec<(Option<PathPattern>, HaproxyPlan)>,
}

impl HaproxySite {
    /// Whether every request is redirected to `https`.
    pub(super) fn is_redirect_to_tls(&self) -> bool {
        matches!(self.plans.as_slice(), [(None, plan)] if !plan.refused
            && matches!(&plan.action, HaproxyAction::Redirect { to, .. } if to == "https://{host}{path}")
            && plan.deny.is_empty() && plan.allow.is_none())
    }

    /// The statement of its redirect, and the status.
    pub(super) fn redirect(&self) -> Option<(StatementId, u16)> {
        match self.plans.first() {
            Some((
                _,
                HaproxyPlan {
                    action: HaproxyAction::Redirect { status, .. },
                    statement,
                    ..
                },
            )) => Some(((*statement)?, *status)),
            _ => None,
        }
    }

    /// Its rules as a text, to compare.
    pub(super) fn rules(&self) -> String {
        let plans = self.plans.iter().map(|(path, plan)| (path, plan.table()));
        format!("{:?}", plans.collect::<Vec<_>>())
    }

    /// All its hosts as keys; an empty one for every host.
    pub(super) fn hosts(&self) -> impl Iterator<Item = String> {
        let first = self.host.as_ref().map_or(String::new(), HostPattern::key);
        std::iter::once(first).chain(self.aliases.iter().map(HostPattern::key))
    }

    /// Its table, and the tests of its routes.
    pub(super) fn write(&self, key: &str, url: &str) -> (DraftTable, Vec<DraftTable>) {
        let mut table = DraftTable::default();
        let mut tests = Vec::new();
        if let Some((_, plan)) = self.plans.first() {
            table.comments.extend(plan.place.clone());
        }
        if !self.aliases.is_empty() {
            table.set(
                "alias",
                self.aliases
                    .iter()
                    .map(HostPattern::key)
                    .collect::<Vec<_>>(),
            );
        }
        let host = self
            .host
            .as_ref()
            .map_or("any.example".to_owned(), HostPattern::example);
        let url = url.replace("{host}", &host);
        let site = self
            .plans
            .first()
            .map(|(_, plan)| plan.table())
            .unwrap_or_default();
        let nothing = self
            .plans
            .first()
            .is_some_and(|(_, plan)| plan.action == HaproxyAction::Nothing && !plan.refused);
        let mut paths = Vec::new();
        let mut flat = false;
        for (path, plan) in self.plans.iter().skip(1) {
            let own = plan.table();
            let left = if nothing {
                Some(own.clone())
            } else {
                below(&site, &own)
            };
            flat |= left.is_none();
            paths.push((path, plan, own, left));
        }
        if !nothing || paths.is_empty() {
            if flat {
                table.table("path").table("/*").append(site);
            } else {
                table.append(site);
            }
            if let Some((_, plan)) = self.plans.first() {
                tests.push(test(key, "/*", &format!("{url}/"), &host, "/", plan));
            }
        }
        for (path, plan, own, left) in paths {
            let Some(path) = path else {
                continue;
            };
            let mut child = left.filter(|_| !flat).unwrap_or(own);
            child.comments.extend(plan.place.clone());
            table.table("path").append_table(&path.key(), child);
            let example = path.example();
            tests.push(test(
                key,
                &path.key(),
                &format!("{url}{example}"),
                &host,
                &example,
                plan,
            ));
        }
        (table, tests)
    }
}

/// The test of a route.
fn test(
    site: &str,
    route: &str,
    url: &str,
    host: &str,
    path: &str,
    plan: &HaproxyPlan,
) -> DraftTable {
    let mut expect: Vec<(String, DraftValue)> = vec![
        ("site".to_owned(), site.into()),
        ("route".to_owned(), route.into()),
    ];
    let guarded = plan.refused || plan.allow.is_some() || plan.auth.is_some();
    match &plan.action {
        _ if guarded => {}
        HaproxyAction::Redirect { to, status } => {
            expect.push(("status".to_owned(), i64::from(*status).into()));
            let to = to.replace("{host}", host).replace("{path}", path);
            if !to.contains('{') {
                expect.push(("location".to_owned(), to.into()));
            }
        }
        HaproxyAction::Respond(_, status) => {
            expect.push(("status".to_owned(), i64::from(*status).into()))
        }
        HaproxyAction::Nothing => expect.push(("status".to_owned(), 503_i64.into())),
        HaproxyAction::Proxy(_, Some(pool)) => {
            expect.push(("pool".to_owned(), pool.as_str().into()))
        }
        HaproxyAction::Proxy(_, None) => {}
    }
    let mut table = DraftTable::default();
    table.set("request", format!("GET {url}"));
    table.set("expect", DraftValue::Inline(expect));
    table
}

/// Leaves out paths that are answered as the requests around them.
pub(super) fn without_repetition(
    plans: Vec<(Option<PathPattern>, HaproxyPlan)>,
) -> Vec<(Option<PathPattern>, HaproxyPlan)> {
    let mut kept: Vec<(Option<PathPattern>, HaproxyPlan)> = Vec::new();
    // Shorter patterns come first, so that what is around a path is known.
    let mut plans = plans;
    plans.sort_by_key(|(path, _)| path.as_ref().map_or(0, |path| path.key().len()));
    for (path, plan) in plans {
        let around = path.as_ref().and_then(|path| {
            kept.iter()
                .rev()
                .find(|(other, _)| other.as_ref().is_none_or(|other| other.covers(path)))
        });
        if around.is_some_and(|(_, around)| around.same(&plan)) {
            continue;
        }
        kept.push((path, plan));
    }
    kept
}
