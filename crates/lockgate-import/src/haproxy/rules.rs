//! Rules of HTTP: what the lines of a frontend and its backend do with a part of all requests.

use super::Importer;
use super::acls::HaproxyAcls;
use super::changes::HaproxyChanges;
use super::conditions::{HaproxyAtom, HaproxyCondition, HaproxyPart};
use super::fields::{field_change, location, respond};
use super::plan::{HaproxyAction, HaproxyPlan};
use super::rewrites::{old_rewrite, rewrite};
use super::sections::HaproxyLine;
use super::words::has_variable;
use crate::{StatementId, Verdict};

/// A rule: what it does, and when.
#[derive(Debug, Clone)]
pub(super) struct HaproxyRule {
    pub(super) id: StatementId,
    pub(super) place: String,
    /// The words before `if` and `unless`, without `http-request`.
    pub(super) words: Vec<String>,
    /// `request`, `response`, `redirect`, `use_backend`.
    pub(super) stage: HaproxyStage,
    pub(super) condition: HaproxyCondition,
}

/// When a rule acts: in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HaproxyStage {
    Connection,
    Request,
    Redirect,
    Backend,
    Response,
}

/// The rules of a section, in the order in which they act.
pub(super) fn rules(
    lines: &[&HaproxyLine],
    acls: &HaproxyAcls,
    importer: &mut Importer<'_>,
) -> Vec<HaproxyRule> {
    let mut rules = Vec::new();
    let mut used = std::collections::HashSet::new();
    for line in lines {
        let (stage, skip) = match (line.word(0), line.word(1)) {
            ("http-request", _) => (HaproxyStage::Request, 1),
            ("http-response" | "http-after-response", _) => (HaproxyStage::Response, 1),
            ("redirect", _) => (HaproxyStage::Redirect, 0),
            ("use_backend", _) => (HaproxyStage::Backend, 0),
            ("tcp-request", "content" | "connection" | "session") => (HaproxyStage::Connection, 2),
            ("reqadd" | "reqidel" | "reqdel", _) => (HaproxyStage::Request, 0),
            ("rspadd" | "rspidel" | "rspdel", _) => (HaproxyStage::Response, 0),
            (
                "block" | "reqrep" | "reqirep" | "reqdeny" | "reqideny" | "reqtarpit"
                | "reqitarpit" | "reqallow" | "reqiallow" | "reqpass" | "reqipass",
                _,
            ) => (HaproxyStage::Request, 0),
            ("rspdeny" | "rspideny", _) => (HaproxyStage::Response, 0),
            _ => continue,
        };
        let end = line
            .words
            .iter()
            .position(|word| word == "if" || word == "unless")
            .unwrap_or(line.words.len());
        let (mut condition, verdict) = acls.condition(line.from(end), &mut used);
        if line.uncertain {
            condition = HaproxyCondition::all(vec![
                condition,
                HaproxyCondition::Atom(HaproxyAtom::Opaque {
                    text: ".if".to_owned(),
                    access: true,
                }),
            ]);
        }
        // The old rules compare a regular expression with the head.
        if matches!(
            line.word(0).trim_start_matches("req"),
            "deny" | "ideny" | "tarpit" | "itarpit" | "allow" | "iallow" | "pass" | "ipass"
        ) {
            condition = HaproxyCondition::all(vec![
                condition,
                HaproxyCondition::Atom(HaproxyAtom::Opaque {
                    text: line.word(1).chars().take(80).collect(),
                    access: true,
                }),
            ]);
        }
        // An unknown part of a condition counts where it decides; an inexact one here.
        if matches!(verdict, Verdict::Differs { .. }) {
            importer.report.set(line.id, verdict);
        }
        rules.push(HaproxyRule {
            id: line.id,
            place: line.place.to_string(),
            words: line.words.get(skip..end).unwrap_or_default().to_vec(),
            stage,
            condition,
        });
    }
    acls.settle(&used, importer.report);
    // The sort is stable: rules of one stage keep their order.
    rules.sort_by_key(|rule| rule.stage);
    rules
}

/// What a walk through rules has come to.
pub(super) enum HaproxyOutcome {
    /// The next section decides.
    Further,
    /// A backend of this name.
    Backend(String),
    Done,
}

impl Importer<'_> {
    /// Applies rules to a part of all requests.
    pub(super) fn apply(
        &mut self,
        rules: &[HaproxyRule],
        part: &HaproxyPart<'_>,
        plan: &mut HaproxyPlan,
    ) -> HaproxyOutcome {
        // What `allow` or `accept` has let through meets no later rule of its kind.
        let mut let_through = HaproxyCondition::Always(false);
        let mut stage = HaproxyStage::Connection;
        for rule in rules
            .iter()
            .filter(|rule| rule.stage != HaproxyStage::Response)
        {
            let mut condition = rule.condition.after(plan.changes, part);
            if stage != rule.stage {
                stage = rule.stage;
                let_through = HaproxyCondition::Always(false);
            }
            if matches!(stage, HaproxyStage::Request | HaproxyStage::Connection) {
                condition = HaproxyCondition::all(vec![condition, let_through.clone().not()]);
            }
            if condition == HaproxyCondition::Always(false) {
                continue;
            }
            if self.unsure(rule, &condition, plan) {
                plan.changes.add(&rule.words);
                continue;
            }
            let certain = condition == HaproxyCondition::Always(true);
            let action = rule.words.first().map_or("", String::as_str);
            match (rule.stage, action) {
                (HaproxyStage::Connection, "accept")
                | (
                    HaproxyStage::Request,
                    "allow" | "reqallow" | "reqiallow" | "reqpass" | "reqipass",
                ) => {
                    let matters = rules.iter().any(|r| {
                        r.stage == rule.stage
                            && r.words.first().is_some_and(|w| {
                                w == "reject" || w.contains("deny") || w.contains("tarpit")
                            })
                    });
                    self.report.set(
                        rule.id,
                        if matters {
                            Verdict::Converted
                        } else {
                            Verdict::Default
                        },
                    );
                    let_through = HaproxyCondition::any(vec![let_through, condition]);
                }
                (
                    _,
                    "deny" | "reject" | "tarpit" | "silent-drop" | "block" | "reqdeny" | "reqideny"
                    | "reqtarpit" | "reqitarpit",
                ) if rule.stage != HaproxyStage::Response => {
                    if self.denied(rule, &condition, plan) {
                        return HaproxyOutcome::Done;
                    }
                }
                (HaproxyStage::Request, "auth") => {
                    if self.authenticated(rule, &condition, plan) {
                        return HaproxyOutcome::Done;
                    }
                }
                (HaproxyStage::Request, "return") => {
                    let (value, status, verdict) = respond(&rule.words);
                    if !certain && status >= 400 {
                        if self.denied(rule, &condition, plan) {
                            return HaproxyOutcome::Done;
                        }
                        continue;
                    }
                    if !certain {
                        self.skipped(rule, &condition, plan);
                        continue;
                    }
                    self.report.set(rule.id, verdict);
                    plan.action = HaproxyAction::Respond(value, status);
                    plan.place = Some(rule.place.clone());
                    return HaproxyOutcome::Done;
                }
                (HaproxyStage::Request | HaproxyStage::Redirect, "redirect") => {
                    if !certain {
                        self.skipped(rule, &condition, plan);
                        continue;
                    }
                    match location(&rule.words, part) {
                        Ok((to, ..)) if plan.changes.in_target(&to) => {
                            self.report.set(rule.id, Verdict::not_supported(
                                "the target has the path or the host as an earlier rule has changed it, so that the route answers with 503",
                                Some("write redirect by hand"),
                            ));
                            plan.action = HaproxyAction::Respond(503_i64.into(), 503);
                        }
                        Ok((to, status, verdict)) => {
                            self.report.set(rule.id, verdict);
                            plan.action = HaproxyAction::Redirect { to, status };
                            plan.statement = Some(rule.id);
                        }
                        Err(because) => {
                            self.report
                                .set(rule.id, Verdict::not_supported(because, None));
                            plan.action = HaproxyAction::Respond(503_i64.into(), 503);
                        }
                    }
                    plan.place = Some(rule.place.clone());
                    return HaproxyOutcome::Done;
                }
                (HaproxyStage::Backend, _) => {
                    let name = rule.words.get(1).cloned().unwrap_or_default();
                    if has_variable(&name) {
                        self.report.set(
                            rule.id,
                            Verdict::not_supported("the name of the backend is computed, so that the route answers with 503", None),
                        );
                        plan.action = HaproxyAction::Respond(503_i64.into(), 503);
                        return HaproxyOutcome::Done;
                    }
                    if !certain {
                        if self.refusing(&name) {
                            if self.denied(rule, &condition, plan) {
                                return HaproxyOutcome::Done;
                            }
                        } else {
                            self.skipped(rule, &condition, plan);
                        }
                        continue;
                    }
                    self.report.set(rule.id, Verdict::Converted);
                    plan.place = Some(rule.place.clone());
                    return HaproxyOutcome::Backend(name);
                }
                (HaproxyStage::Connection, _) => {
                    self.connection_rule(rule);
                    plan.changes.add(&rule.words);
                }
                _ => {
                    self.changed(rule, &condition, part, rules, plan);
                    plan.changes.add(&rule.words);
                }
            }
        }
        HaproxyOutcome::Further
    }

    /// Applies the rules for responses.
    pub(super) fn apply_to_responses(
        &mut self,
        rules: &[HaproxyRule],
        part: &HaproxyPart<'_>,
        plan: &mut HaproxyPlan,
    ) {
        for rule in rules
            .iter()
            .filter(|rule| rule.stage == HaproxyStage::Response)
        {
            let condition = rule.condition.within(part);
            let mut atoms = Vec::new();
            rule.condition.atoms(&mut atoms);
            let everything = HaproxyChanges {
                path: true,
                host: true,
                port: false,
            };
            if atoms.into_iter().any(|atom| atom.touched(everything)) {
                self.report.set(rule.id, Verdict::differs(
                    "HAProxy knows neither path nor Host of the request in this rule; here it acts by those that the client has sent",
                ));
            }
            if condition != HaproxyCondition::Always(false) {
                self.changed(rule, &condition, part, rules, plan);
            }
        }
    }

    fn connection_rule(&mut self, rule: &HaproxyRule) {
        let action = rule.words.first().map_or("", String::as_str);
        let verdict = match action {
            "capture" => Verdict::not_supported("the access log has fixed fields", None),
            "expect-proxy" => Verdict::not_supported(
                "a PROXY header is expected of all clients or none",
                Some("write accept_proxy and trusted"),
            ),
            _ if action.starts_with("track-sc") => self.tracked(rule),
            _ => Verdict::not_supported("this rule for connections has no counterpart", None),
        };
        self.report.set(rule.id, verdict);
    }

    fn tracked(&self, rule: &HaproxyRule) -> Verdict {
        if rule.words.get(1).is_some_and(|key| key == "src")
            && rule.words.first().is_some_and(|word| word.ends_with('0'))
        {
            Verdict::Default
        } else {
            Verdict::not_supported(
                "requests are counted by client, by a header or by route",
                Some("write limit = { rate = …, per = … }"),
            )
        }
    }

    /// A rule about a field is left out: so are those before it about the same field, which would
    /// otherwise be only a part of what was meant.
    fn field_lost(&mut self, rule: &HaproxyRule, rules: &[HaproxyRule], plan: &mut HaproxyPlan) {
        let [_, name, _] = rule.words.as_slice() else {
            return;
        };
        let fields = match rule.stage {
            HaproxyStage::Request => &mut plan.request_headers,
            HaproxyStage::Response => &mut plan.headers,
            _ => return,
        };
        let count = fields.len();
        fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if fields.len() == count {
            return;
        }
        for other in rules.iter().take_while(|other| other.id != rule.id) {
            if other.stage == rule.stage && other.words.get(1) == Some(name) {
                self.report.set(
                    other.id,
                    Verdict::not_supported(
                        "a later rule about the same field is left out, and so is this one",
                        Some("write the field in headers or request_headers as it should be"),
                    ),
                );
            }
        }
    }

    /// Rules that change the head of a request or a response.
    fn changed(
        &mut self,
        rule: &HaproxyRule,
        condition: &HaproxyCondition,
        part: &HaproxyPart<'_>,
        rules: &[HaproxyRule],
        plan: &mut HaproxyPlan,
    ) {
        let action = rule.words.first().map_or("", String::as_str);
        if action.starts_with("track-sc") {
            let verdict = self.tracked(rule);
            self.report.set(rule.id, verdict);
            return;
        }
        if *condition != HaproxyCondition::Always(true) {
            match action {
                "deny" | "rspdeny" | "rspideny" => self.refuse(rule, condition, plan),
                _ if action.starts_with("lua.") => self.refuse(rule, condition, plan),
                _ => {
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
                    self.field_lost(rule, rules, plan);
                }
            }
            return;
        }
        let verdict = match (rule.stage, action) {
            (
                HaproxyStage::Request,
                "set-path" | "replace-path" | "replace-uri" | "set-uri" | "replace-pathq"
                | "set-pathq",
            ) => rewrite(&rule.words, part.path, plan),
            (HaproxyStage::Request, "reqrep" | "reqirep") => {
                old_rewrite(&rule.words, part.path, plan)
            }
            (HaproxyStage::Request, _) if action.starts_with("lua.") => {
                plan.refused = true;
                Verdict::not_supported(
                    "Lockgate runs no Lua",
                    Some(
                        "the routes refuse all clients (deny): do in the application what the script does, and take the deny out",
                    ),
                )
            }
            (HaproxyStage::Request, "use-service")
                if rule
                    .words
                    .get(1)
                    .is_none_or(|word| word != "prometheus-exporter") =>
            {
                plan.action = HaproxyAction::Respond(503_i64.into(), 503);
                Verdict::not_supported(
                    "the service has no counterpart, so that the route answers with 503",
                    None,
                )
            }
            (HaproxyStage::Request, "normalize-uri") => {
                // Routes are chosen by the path with single slashes and without needless
                // percent-encoding: later conditions see the same path.
                let normalizer = rule.words.get(1).map_or("", String::as_str);
                Verdict::differs(match normalizer {
                    "path-strip-dot" | "path-strip-dotdot" => "paths with dot segments are refused",
                    _ => {
                        "routes are chosen by the normalized path, and the endpoint gets the target as the client has written it"
                    }
                })
            }
            (HaproxyStage::Request, "set-src" | "set-src-port") => {
                plan.source_changed = true;
                Verdict::not_supported(
                    "the client's address is that of its connection, or what `trusted` proxies say",
                    Some("write their addresses to trusted"),
                )
            }
            (HaproxyStage::Request, "use-service")
                if rule
                    .words
                    .get(1)
                    .is_some_and(|word| word == "prometheus-exporter") =>
            {
                plan.action = HaproxyAction::Respond(404_i64.into(), 404);
                Verdict::not_supported(
                    "metrics have an address of their own",
                    Some("write metrics = \"127.0.0.1:9090\"; they are at /metrics there"),
                )
            }
            (HaproxyStage::Request, "cache-use") | (HaproxyStage::Response, "cache-store") => {
                Verdict::not_supported("Lockgate does not keep responses of applications", None)
            }
            (_, "capture" | "set-log-level") => {
                Verdict::not_supported("the access log has fixed fields", None)
            }
            (_, "set-var" | "unset-var" | "set-var-fmt") => {
                Verdict::not_supported("Lockgate's file has no variables", None)
            }
            (HaproxyStage::Response, "deny" | "rspdeny" | "rspideny") => {
                plan.refused = true;
                Verdict::not_supported(
                    "responses are not refused by their head",
                    Some("the routes refuse all clients (deny)"),
                )
            }
            (HaproxyStage::Request, _) if plan.changes.in_value(&rule.words) => {
                Verdict::not_supported(
                    "the value has the path or the host as an earlier rule has changed it, so that the rule is left out",
                    None,
                )
            }
            (HaproxyStage::Request | HaproxyStage::Response, _) => {
                let fields = if rule.stage == HaproxyStage::Request {
                    &mut plan.request_headers
                } else {
                    &mut plan.headers
                };
                field_change(
                    &rule.words,
                    rule.stage == HaproxyStage::Request,
                    part,
                    fields,
                )
            }
            _ => Verdict::not_supported("this rule has no counterpart", None),
        };
        self.report.set(rule.id, verdict);
    }
}
