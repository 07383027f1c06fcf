//! Works out what becomes of the requests of a place, directive by directive, as Caddy runs them.

use super::blocks::CaddyStatement;
use super::directives;
use super::matchers::{self, CaddyMatch, CaddyPathChange, CaddyRequests, CaddyScope};
use super::order::CaddyOrder;
use super::outcome::{self, CLOSED, CaddyAction, CaddyFlow, CaddyOrigin, CaddyOutcome};
use super::places::{self, CaddyPlaces};
use super::texts::CaddyTextPlace;
use crate::{ConversionReport, DraftValue, Verdict};

/// The most conditions that are followed within each other.
const DEEPEST_CONDITION: usize = 64;
/// The most paths that a `try_files` may lead to from one place.
const MOST_FALLBACKS: usize = 32;

/// Runs the directives of a site for one place.
pub(super) struct CaddyEvaluator<'a, 'r> {
    /// The verdicts.
    pub(super) report: &'r mut ConversionReport,
    /// The order of directives.
    pub(super) order: &'a CaddyOrder,
    /// The requests.
    pub(super) requests: CaddyRequests<'a>,
    /// The places of the site.
    pub(super) places: &'a CaddyPlaces,
    /// Whether there are proxies in front that name the client.
    pub(super) trusts: bool,
    /// How many directives may still be run for the whole source.
    pub(super) steps: &'r mut usize,
}

/// What runs after a block.
#[derive(Clone, Copy)]
struct CaddyRest<'b> {
    list: &'b [&'b CaddyStatement],
    scope: &'b CaddyScope<'b>,
    next: Option<&'b CaddyRest<'b>>,
}

impl CaddyEvaluator<'_, '_> {
    /// The outcome of a block of directives.
    pub(super) fn site(&mut self, statements: &[CaddyStatement], flow: CaddyFlow) -> CaddyOutcome {
        let scope = CaddyScope::new(statements.iter(), None);
        let flow = directives::close_if_unknown(statements, self.order, flow, self.report);
        let sorted = self.sorted(statements, &scope);
        self.run(&sorted, false, &scope, flow, None, 0)
    }

    fn sorted<'b>(
        &self,
        statements: &'b [CaddyStatement],
        scope: &CaddyScope<'_>,
    ) -> Vec<&'b CaddyStatement> {
        self.order
            .sorted(statements, &|one| matchers::only_path(one, scope))
    }

    fn run(
        &mut self,
        list: &[&CaddyStatement],
        mut taken: bool,
        scope: &CaddyScope<'_>,
        mut flow: CaddyFlow,
        next: Option<&CaddyRest<'_>>,
        depth: usize,
    ) -> CaddyOutcome {
        let mut rest = list;
        while let Some((statement, after)) = rest.split_first() {
            rest = after;
            if *self.steps == 0 {
                let because = format!("there are too many conditions, so {CLOSED}");
                self.report
                    .set(statement.id, Verdict::not_supported(because, None));
                flow.closed = true;
                return self.finish(CaddyAction::Nothing, flow, None);
            }
            *self.steps -= 1;
            let is_handle = matches!(statement.name(), "handle" | "handle_path");
            if is_handle && taken {
                continue;
            }
            if !self.order.knows(statement.name()) {
                continue;
            }
            let matches = matchers::matches(statement, scope, self.requests, &flow.change);
            if matches == CaddyMatch::No {
                continue;
            }
            let sure = matches == CaddyMatch::Yes;
            if !directives::ends(statement.name()) && !is_handle && statement.name() != "route" {
                if sure {
                    self.apply(statement, &mut flow);
                    if statement.name() == "try_files" && flow.tried.is_some() {
                        let after = CaddyRest {
                            list: rest,
                            scope,
                            next,
                        };
                        return self.tried(statement, after, taken, flow, depth);
                    }
                } else {
                    self.apply_maybe(statement, scope, &mut flow);
                }
                continue;
            }
            if !sure && depth >= DEEPEST_CONDITION {
                let because = format!("there are too many conditions, so {CLOSED}");
                self.report
                    .set(statement.id, Verdict::not_supported(because, None));
                flow.closed = true;
                return self.finish(CaddyAction::Nothing, flow, None);
            }
            let matched = if is_handle || statement.name() == "route" {
                let rest_here = CaddyRest {
                    list: rest,
                    scope,
                    next,
                };
                self.block(
                    statement,
                    scope,
                    flow.clone(),
                    is_handle,
                    taken,
                    &rest_here,
                    depth,
                )
            } else {
                self.end(statement, flow.clone())
            };
            if sure {
                return matched;
            }
            let unmatched = self.run(rest, taken, scope, flow, next, depth + 1);
            return self.join(matched, unmatched, matches, statement, scope);
        }
        match next {
            Some(next) => {
                taken = true;
                self.run(next.list, taken, next.scope, flow, next.next, depth)
            }
            None => self.finish(CaddyAction::Nothing, flow, None),
        }
    }

    /// What follows a `try_files`: for the path as it is, and for those that it falls back to.
    fn tried(
        &mut self,
        statement: &CaddyStatement,
        after: CaddyRest<'_>,
        taken: bool,
        flow: CaddyFlow,
        depth: usize,
    ) -> CaddyOutcome {
        let tried = flow.tried.clone().unwrap_or_default();
        let requests = self.requests;
        let fallbacks = places::fallbacks(&tried, requests.place, &flow.change, self.places);
        if depth >= DEEPEST_CONDITION || fallbacks.len() > MOST_FALLBACKS {
            let because = format!("it tries too many paths, so {CLOSED}");
            self.report
                .set(statement.id, Verdict::not_supported(because, None));
            let flow = CaddyFlow {
                closed: true,
                ..flow
            };
            return self.finish(CaddyAction::Nothing, flow, None);
        }
        let CaddyRest { list, scope, next } = after;
        let change = flow.change.clone();
        let mut outcome = self.run(list, taken, scope, flow.clone(), next, depth + 1);
        if outcome.flow.closed || outcome.action == CaddyAction::Absent {
            return outcome;
        }
        let is_files = matches!(outcome.action, CaddyAction::Files(_));
        let mut differs = is_files && outcome.flow.change != change;
        let mut closed = false;
        for (place, change) in &fallbacks {
            let mut evaluator = CaddyEvaluator {
                report: self.report,
                order: self.order,
                requests: CaddyRequests { place, ..requests },
                places: self.places,
                trusts: self.trusts,
                steps: self.steps,
            };
            let flow = CaddyFlow {
                change: change.clone(),
                tried: None,
                ..flow.clone()
            };
            let fallback = evaluator.run(list, taken, scope, flow, next, depth + 1);
            // What is answered without the file must not send it.
            closed |= fallback.is_stricter(&outcome)
                || (is_files && !matches!(fallback.action, CaddyAction::Files(_)));
            differs |= fallback.flow.change != *change || !fallback.answers_like(&outcome);
        }
        if closed {
            let because = format!(
                "other directives are for a path that it falls back to and do not send the file \
                 to every client, and Lockgate goes by the path of the request, so {CLOSED}"
            );
            self.report
                .set(statement.id, Verdict::not_supported(because, None));
            outcome.flow.closed = true;
        } else if differs {
            let because = "directives after it see the path of the file that it finds, and \
                           Lockgate goes by the path of the request";
            self.report.set(statement.id, Verdict::differs(because));
        }
        outcome
    }

    /// The block of a `handle`, `handle_path` or `route`, and what runs after it.
    #[allow(clippy::too_many_arguments)] // They are the state of one run.
    fn block(
        &mut self,
        statement: &CaddyStatement,
        scope: &CaddyScope<'_>,
        mut flow: CaddyFlow,
        is_handle: bool,
        taken: bool,
        rest: &CaddyRest<'_>,
        depth: usize,
    ) -> CaddyOutcome {
        self.report.set(statement.id, Verdict::Converted);
        let inner_scope = CaddyScope::new(statement.inner().iter(), Some(scope));
        if statement.name() == "handle_path" {
            let pattern = statement.arg().unwrap_or_default();
            let prefix = pattern.trim_end_matches('*').trim_end_matches('/');
            flow.change = match flow.change {
                CaddyPathChange::None => CaddyPathChange::Stripped(prefix.to_owned()),
                CaddyPathChange::Stripped(before) => {
                    CaddyPathChange::Stripped(format!("{before}{prefix}"))
                }
                CaddyPathChange::Rewritten(path) => match path.strip_prefix(prefix) {
                    Some(rest) => CaddyPathChange::Rewritten(rest.to_owned()),
                    None => CaddyPathChange::Rewritten(path),
                },
            };
        }
        flow = directives::close_if_unknown(statement.inner(), self.order, flow, self.report);
        let list = match statement.name() {
            "route" => statement.inner().iter().collect(),
            _ => self.sorted(statement.inner(), &inner_scope),
        };
        // After a `route`, other `handle` blocks beside it are still open.
        let open: Vec<&CaddyStatement> = rest
            .list
            .iter()
            .filter(|one| !(is_handle || taken) || !matches!(one.name(), "handle" | "handle_path"))
            .copied()
            .collect();
        let rest = CaddyRest {
            list: &open,
            ..*rest
        };
        self.run_inner(&list, &inner_scope, flow, &rest, depth)
    }

    fn run_inner(
        &mut self,
        list: &[&CaddyStatement],
        scope: &CaddyScope<'_>,
        flow: CaddyFlow,
        rest: &CaddyRest<'_>,
        depth: usize,
    ) -> CaddyOutcome {
        if depth >= DEEPEST_CONDITION * 2 {
            for statement in list {
                let because = format!("blocks and conditions are nested too deeply, so {CLOSED}");
                self.report
                    .set(statement.id, Verdict::not_supported(because, None));
            }
            let flow = CaddyFlow {
                closed: true,
                ..flow
            };
            return self.finish(CaddyAction::Nothing, flow, None);
        }
        self.run(list, false, scope, flow, Some(rest), depth + 1)
    }

    fn apply(&mut self, statement: &CaddyStatement, flow: &mut CaddyFlow) {
        let change = flow.change.clone();
        let requests = self.requests;
        let place = CaddyTextPlace {
            requests,
            change: &change,
        };
        if flow.vars.is_empty() {
            directives::apply(statement, flow, place, self.report);
        } else {
            let filled = directives::with_vars(statement, flow);
            directives::apply(&filled, flow, place, self.report);
        }
    }

    /// A directive that is only for some requests of the place, and not an answer.
    fn apply_maybe(
        &mut self,
        statement: &CaddyStatement,
        scope: &CaddyScope<'_>,
        flow: &mut CaddyFlow,
    ) {
        if matches!(
            statement.name(),
            "basic_auth" | "basicauth" | "forward_auth"
        ) {
            self.apply(statement, flow);
            let because = "it is asked of every client here: the condition cannot be expressed";
            self.report.set(statement.id, Verdict::differs(because));
            matchers::refuse(statement, scope, self.report);
            return;
        }
        match statement.name() {
            "templates" => {
                self.apply(statement, flow);
                return;
            }
            // What they are is not known from here on.
            "vars" => flow.vars.clear(),
            _ => {}
        }
        let because = "it is only for some requests, by a condition that routes do not have";
        let instead = match statement.name() {
            "header" => Some("cache = { \"text/css\" = \"1d\" } sets Cache-Control by media type"),
            _ => None,
        };
        statement.set_all(self.report, &Verdict::not_supported(because, instead));
        matchers::refuse(statement, scope, self.report);
    }

    /// A directive that answers.
    fn end(&mut self, statement: &CaddyStatement, mut flow: CaddyFlow) -> CaddyOutcome {
        let change = flow.change.clone();
        let place = CaddyTextPlace {
            requests: self.requests,
            change: &change,
        };
        let action = if flow.vars.is_empty() {
            directives::end(statement, &mut flow, place, self.report)
        } else {
            let filled = directives::with_vars(statement, &flow);
            directives::end(&filled, &mut flow, place, self.report)
        };
        self.finish(action, flow, Some(statement))
    }

    fn finish(
        &mut self,
        action: CaddyAction,
        flow: CaddyFlow,
        statement: Option<&CaddyStatement>,
    ) -> CaddyOutcome {
        let is_proxy = matches!(action, CaddyAction::Proxy(_));
        for (name, id) in &flow.defaults.0 {
            let mut set = flow.fields.iter().chain(&flow.late_fields);
            if !set.any(|(known, value)| known == name && *value != DraftValue::Flag(false)) {
                self.report.set(*id, outcome::of_default(name, is_proxy));
            }
        }
        let origin = CaddyOrigin(statement.map(|statement| statement.place.clone()));
        let outcome = CaddyOutcome {
            action,
            flow,
            origin,
            ..CaddyOutcome::default()
        };
        if let (Err(because), Some(statement)) = (outcome.keys(self.requests.place), statement) {
            self.report
                .set(statement.id, Verdict::not_supported(because, None));
            return CaddyOutcome {
                action: CaddyAction::Absent,
                ..outcome
            };
        }
        outcome
    }

    /// One outcome of two, of which a condition chooses.
    fn join(
        &mut self,
        matched: CaddyOutcome,
        unmatched: CaddyOutcome,
        matches: CaddyMatch,
        statement: &CaddyStatement,
        scope: &CaddyScope<'_>,
    ) -> CaddyOutcome {
        if matched == unmatched {
            return unmatched;
        }
        if let CaddyMatch::Clients { networks, inverted } = matches {
            let (inside, outside) = match inverted {
                true => (&unmatched, &matched),
                false => (&matched, &unmatched),
            };
            if let Some(outcome) = self.by_client(inside, outside, networks, statement) {
                return outcome;
            }
        }
        matchers::refuse(statement, scope, self.report);
        let sets_auth = matched.flow.auth.is_some() && unmatched.flow.auth.is_none();
        if (matched.refuses() || sets_auth) && !unmatched.refuses() && unmatched.serves() {
            if directives::only_hides_dots(statement, scope, &unmatched) {
                self.report.set(statement.id, Verdict::Default);
                return unmatched;
            }
            let because = format!("the requests that it refuses cannot be expressed, so {CLOSED}");
            self.report
                .set(statement.id, Verdict::not_supported(because, None));
            let mut outcome = unmatched;
            outcome.flow.closed = true;
            return outcome;
        }
        let because = match unmatched.serves() {
            true => {
                "it is only for some requests, by a condition that routes do not have: \
                     these are treated as the rest of the path"
            }
            false => {
                "it is only for some requests, by a condition that routes do not have: \
                      the route is left out"
            }
        };
        // A statement of the block that is converted elsewhere is not converted here.
        statement.set_all(self.report, &Verdict::not_supported(because, None));
        unmatched
    }

    /// The outcome where clients outside, or inside, of networks are refused.
    fn by_client(
        &mut self,
        inside: &CaddyOutcome,
        outside: &CaddyOutcome,
        networks: Vec<String>,
        statement: &CaddyStatement,
    ) -> Option<CaddyOutcome> {
        let nothing = |outcome: &CaddyOutcome| outcome.action == CaddyAction::Nothing;
        let refused = |outcome: &CaddyOutcome| outcome.refuses() || nothing(outcome);
        let mut outcome = match (refused(inside), refused(outside)) {
            (false, true) if inside.allow.is_none() => {
                let mut outcome = inside.clone();
                outcome.allow = Some(networks);
                outcome
            }
            (true, false) => {
                let mut outcome = outside.clone();
                outcome.deny.extend(networks);
                outcome
            }
            _ => return None,
        };
        let answer = if refused(inside) { inside } else { outside };
        if answer.flow.closed {
            outcome.flow.closed = true;
        }
        let verdict = match &answer.action {
            CaddyAction::Respond(403, body, _) if body.is_empty() && !self.trusts => {
                Verdict::Converted
            }
            _ if self.trusts => Verdict::differs(
                "clients that are refused get 403, by the address that proxies in `trusted` name",
            ),
            _ => Verdict::differs("clients that are refused get 403 and Lockgate's own page"),
        };
        self.report.set(statement.id, verdict);
        Some(outcome)
    }
}
