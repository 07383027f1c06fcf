//! Rules that say which clients are let in: addresses, passwords, rates. One that no table can say closes the
//! routes that it guards.

use super::Importer;
use super::conditions::{HaproxyAtom, HaproxyCondition};
use super::limits::limit;
use super::plan::{HaproxyAction, HaproxyPlan};
use super::rules::HaproxyRule;
use crate::Verdict;

impl Importer<'_> {
    /// Leaves out a rule with a condition that is not known here. If the condition may say which clients
    /// are let in, every client is refused.
    pub(super) fn skipped(
        &mut self,
        rule: &HaproxyRule,
        condition: &HaproxyCondition,
        plan: &mut HaproxyPlan,
    ) {
        if condition.is_about_access() {
            self.refuse(rule, condition, plan);
        } else {
            self.report.set(
                rule.id,
                Verdict::not_supported(
                    format!(
                        "{} has no counterpart as a condition, so that the rule is left out where that decides",
                        condition.unknown()
                    ),
                    None,
                ),
            );
        }
    }

    pub(super) fn refuse(
        &mut self,
        rule: &HaproxyRule,
        condition: &HaproxyCondition,
        plan: &mut HaproxyPlan,
    ) {
        plan.refused = true;
        self.report.set(
            rule.id,
            Verdict::not_supported(
                format!("{} has no counterpart as a condition here", condition.unknown()),
                Some("the routes that it guards refuse all clients (deny): decide which clients are let in, and take the deny out"),
            ),
        );
    }

    /// A rule that refuses requests. Whether all of this part are refused.
    pub(super) fn denied(
        &mut self,
        rule: &HaproxyRule,
        condition: &HaproxyCondition,
        plan: &mut HaproxyPlan,
    ) -> bool {
        let status: u16 = rule
            .words
            .iter()
            .position(|word| word == "deny_status" || word == "status")
            .and_then(|at| rule.words.get(at + 1)?.parse().ok())
            .filter(|status| (200..600).contains(status))
            .unwrap_or(if rule.words.first().is_some_and(|word| word == "tarpit") {
                500
            } else {
                403
            });
        let quiet = matches!(
            rule.words.first().map(String::as_str),
            Some("reject" | "silent-drop" | "tarpit")
        );
        let answers = |importer: &mut Self| {
            importer.report.set(
                rule.id,
                if quiet {
                    Verdict::differs("the client gets an answer at once")
                } else {
                    Verdict::Converted
                },
            );
        };
        if *condition == HaproxyCondition::Always(true) {
            answers(self);
            plan.place = Some(rule.place.clone());
            plan.action = HaproxyAction::Respond(i64::from(status).into(), status);
            // Nothing more is needed to refuse a client.
            (plan.allow, plan.auth, plan.limit, plan.refused) = (None, None, None, false);
            plan.deny.clear();
            return true;
        }
        let Some(alternatives) = condition.alternatives().filter(|_| !plan.source_changed) else {
            self.refuse(rule, condition, plan);
            return false;
        };
        for alternative in alternatives {
            let mut sources = Vec::new();
            let mut allowed = Vec::new();
            let mut rate = None;
            let mut rest = 0;
            for (negated, atom) in &alternative {
                match atom {
                    HaproxyAtom::Source(networks) if *negated => allowed.push(networks),
                    HaproxyAtom::Source(networks) => sources.push(networks),
                    HaproxyAtom::Rate(most, period) if !negated => rate = Some((*most, *period)),
                    _ => rest += 1,
                }
            }
            let exact = rest == 0;
            if status != 403 && rate.is_none() {
                self.report
                    .set(rule.id, Verdict::differs("refused clients get 403"));
            }
            if let (Some(first), true) = (sources.first(), rate.is_none()) {
                // One of the networks is enough for a refusal; the rest of the condition is not asked.
                if !(exact && sources.len() == 1 && allowed.is_empty()) {
                    self.report.set(
                        rule.id,
                        Verdict::differs(
                            "these clients are refused, whatever the rest of the condition",
                        ),
                    );
                }
                plan.deny.extend(first.iter().cloned());
                plan.deny.sort();
                plan.deny.dedup();
            } else if !allowed.is_empty() && rate.is_none() {
                let mut list: Vec<String> = allowed.into_iter().flatten().cloned().collect();
                list.sort();
                list.dedup();
                match &plan.allow {
                    Some(known) if *known != list => {
                        self.refuse(rule, condition, plan);
                        continue;
                    }
                    _ => plan.allow = Some(list),
                }
                if !exact {
                    self.report.set(
                        rule.id,
                        Verdict::differs(
                            "all other clients are refused, whatever the rest of the condition",
                        ),
                    );
                }
            } else if let Some((most, period)) = rate {
                self.report.set(rule.id, Verdict::differs(
                    "requests of the routes with this limit are counted, by a token bucket rather than a sliding window, and refused ones do not count",
                ));
                if !exact || !allowed.is_empty() || !sources.is_empty() {
                    self.report.set(
                        rule.id,
                        Verdict::differs(
                            "the limit holds for all requests, whatever the rest of the condition",
                        ),
                    );
                }
                let status = if quiet { 429 } else { status };
                plan.limit = match plan.limit {
                    None if limit(most, period, status).is_some() => Some((most, period, status)),
                    // Of two limits over the same time the lower one is enough.
                    Some((known, same, other)) if same == period => Some(if known <= most {
                        (known, same, other)
                    } else {
                        (most, period, status)
                    }),
                    other => {
                        self.refuse(rule, condition, plan);
                        other
                    }
                };
            } else if let [(false, HaproxyAtom::Connections(most))] = alternative.as_slice() {
                self.report.set(rule.id, Verdict::differs(
                    "limits = { per_client = … } holds for all listeners together, and further connections wait",
                ));
                let most = i64::try_from(*most).unwrap_or(i64::MAX).max(1);
                self.per_client = Some(self.per_client.map_or(most, |known| known.min(most)));
            } else {
                self.refuse(rule, condition, plan);
            }
        }
        answers(self);
        false
    }

    /// `http-request auth`. Whether all of this part are refused.
    pub(super) fn authenticated(
        &mut self,
        rule: &HaproxyRule,
        condition: &HaproxyCondition,
        plan: &mut HaproxyPlan,
    ) -> bool {
        let realm = rule
            .words
            .iter()
            .position(|word| word == "realm")
            .and_then(|at| rule.words.get(at + 1).cloned())
            .unwrap_or_default();
        if *condition == HaproxyCondition::Always(true) {
            // No password changes the condition.
            plan.refused = true;
            self.report.set(
                rule.id,
                Verdict::not_supported(
                    "where the condition holds, every client is asked for a password and none is let in",
                    Some("the routes refuse all clients (deny): write auth with the list of users that is meant, and take the deny out"),
                ),
            );
            return false;
        }
        let alternatives = condition.alternatives().unwrap_or_default();
        if alternatives.is_empty() {
            self.refuse(rule, condition, plan);
            return false;
        }
        for alternative in alternatives {
            let list = alternative.iter().find_map(|(negated, atom)| match atom {
                HaproxyAtom::User(list) if *negated => Some(list.clone()),
                _ => None,
            });
            let Some(list) = list.filter(|list| self.users(list)) else {
                self.refuse(rule, condition, plan);
                continue;
            };
            if plan.auth.as_ref().is_some_and(|(known, _)| *known != list) {
                self.refuse(rule, condition, plan);
                continue;
            }
            if alternative.len() > 1 {
                self.report.set(
                    rule.id,
                    Verdict::differs(
                        "the password is asked of all clients, whatever the rest of the condition",
                    ),
                );
            }
            plan.auth = Some((list, realm.clone()));
        }
        self.report.set(rule.id, Verdict::Converted);
        false
    }

    /// Whether it is unknown when a rule acts, because of what was changed before it. Every client is
    /// refused then.
    pub(super) fn unsure(
        &mut self,
        rule: &HaproxyRule,
        condition: &HaproxyCondition,
        plan: &mut HaproxyPlan,
    ) -> bool {
        let mut atoms = Vec::new();
        condition.atoms(&mut atoms);
        let Some(atom) = atoms.into_iter().find(|atom| atom.touched(plan.changes)) else {
            return false;
        };
        let what = match atom {
            HaproxyAtom::Path(_) => "path",
            HaproxyAtom::Port(_) => "port",
            _ => "Host",
        };
        plan.refused = true;
        self.report.set(
            rule.id,
            Verdict::not_supported(
                format!(
                    "an earlier rule changes the {what}, and this one asks for the changed one: routes are chosen by what the client has sent"
                ),
                Some(
                    "the routes refuse all clients (deny): write what is meant by the path and host of the client, and take the deny out",
                ),
            ),
        );
        true
    }
}
