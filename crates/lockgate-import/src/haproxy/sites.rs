//! Frontends of HTTP: their rules for each host and path become sites.

use std::collections::{BTreeSet, HashMap};

use super::binds::HaproxyListener;
use super::conditions::{HaproxyAcls, HaproxyAtom, HaproxyCondition, HaproxyPart};
use super::patterns::{HostPattern, PathPattern};
use super::plan::{HaproxyAction, HaproxyPlan, below};
use super::rules::{HaproxyOutcome, HaproxyRule, HaproxyStage, rules};
use super::words::{haproxy_time, lockgate_time};
use super::{Importer, LISTS_OF_ACL};
use crate::{DraftTable, DraftValue, StatementId, Verdict};

/// How many parts of all requests a frontend may have: more take too long.
const MOST_PARTS: usize = 3_000_000;

/// The rules of a section, ready to be asked.
pub(super) struct HaproxyRules {
    pub(super) rules: Vec<HaproxyRule>,
}

/// A site before it is written.
pub(super) struct HaproxySite {
    /// The key without a port; none for every host.
    pub(super) host: Option<HostPattern>,
    aliases: Vec<HostPattern>,
    /// The plan of the site itself, and of its paths.
    plans: Vec<(Option<PathPattern>, HaproxyPlan)>,
}

impl Importer<'_> {
    /// The rules of a section, read once.
    pub(super) fn rules_of(&mut self, at: usize, port: Option<u16>, tcp: bool) -> HaproxyRules {
        let lines = self.source.lines(at);
        let mut acls = HaproxyAcls {
            port,
            tcp,
            rates: self.rates.clone(),
            ..HaproxyAcls::default()
        };
        let own = self
            .source
            .sections
            .get(at)
            .and_then(|s| self.rates.get(&s.name))
            .copied();
        if let Some(own) = own {
            acls.rates.insert(LISTS_OF_ACL.to_owned(), own);
        } else {
            acls.rates.remove(LISTS_OF_ACL);
        }
        acls.read(&lines);
        let rules = rules(&lines, &acls, self);
        HaproxyRules { rules }
    }

    /// Whether a backend answers no request: it has no servers.
    pub(super) fn refusing(&mut self, name: &str) -> bool {
        match self.source.backend(name) {
            Some(at) => !super::servers::has_servers(&self.source.lines(at)),
            None => false,
        }
    }

    /// Converts a frontend or listen section of HTTP.
    pub(super) fn sites(&mut self, at: usize, listeners: &[HaproxyListener]) {
        let source = self.source;
        let Some(section) = source.sections.get(at) else {
            return;
        };
        self.report.set(section.opening.id, Verdict::Converted);
        let port = match listeners {
            [one] => one.port,
            _ => None,
        };
        let front = self.rules_of(at, port, false);
        let backends = self.backend_rules(at, &front);
        let hosts = hosts_of(
            front
                .rules
                .iter()
                .chain(backends.values().flat_map(|b| &b.rules)),
        );
        let count = front.rules.len() + backends.values().map(|b| b.rules.len()).sum::<usize>();
        if hosts
            .len()
            .saturating_mul(count + 1)
            .saturating_mul(listeners.len())
            > MOST_PARTS
        {
            self.report.set(
                section.opening.id,
                Verdict::not_supported(
                    "it has too many hosts and rules to be converted, so that it is left out",
                    None,
                ),
            );
            return;
        }
        let mut all: Vec<(usize, Vec<HaproxySite>)> = Vec::new();
        for (index, listener) in listeners.iter().enumerate() {
            let mut sites: Vec<HaproxySite> = Vec::new();
            let every = self.site(at, &front, &backends, listener, None);
            // Sites with the same rules are one with aliases.
            let mut by_rules: HashMap<String, usize> = HashMap::new();
            for host in &hosts {
                let site = self.site(at, &front, &backends, listener, Some(host));
                let covered = hosts
                    .iter()
                    .any(|other| other != host && other.covers(host));
                if !covered && same_plans(&site, &every) {
                    continue;
                }
                let key = format!(
                    "{:?}",
                    site.plans
                        .iter()
                        .map(|(p, plan)| (p, plan.table()))
                        .collect::<Vec<_>>()
                );
                match by_rules.get(&key).and_then(|at| sites.get_mut(*at)) {
                    Some(known) => known.aliases.push(host.clone()),
                    None => {
                        by_rules.insert(key, sites.len());
                        sites.push(site);
                    }
                }
            }
            let nothing = every
                .plans
                .iter()
                .all(|(_, plan)| plan.action == HaproxyAction::Nothing && !plan.refused);
            if !nothing {
                sites.push(every);
            }
            all.push((index, sites));
        }
        self.settle_front(at, &front, &backends);
        self.write_sites(at, listeners, all);
    }

    /// The rules of all backends that a frontend may send requests to.
    fn backend_rules(&mut self, at: usize, front: &HaproxyRules) -> HashMap<usize, HaproxyRules> {
        let source = self.source;
        let mut names: BTreeSet<String> = front
            .rules
            .iter()
            .filter(|rule| rule.stage == HaproxyStage::Backend)
            .filter_map(|rule| rule.words.get(1).cloned())
            .collect();
        if let Some(line) = source.setting(at, "default_backend") {
            names.insert(line.word(1).to_owned());
        }
        let mut found = HashMap::new();
        for name in names {
            if let Some(backend) = source.backend(&name).filter(|backend| *backend != at) {
                let rules = self.rules_of(backend, None, false);
                found.insert(backend, rules);
            }
        }
        found
    }

    /// The rules of one host on one listener.
    fn site(
        &mut self,
        at: usize,
        front: &HaproxyRules,
        backends: &HashMap<usize, HaproxyRules>,
        listener: &HaproxyListener,
        host: Option<&HostPattern>,
    ) -> HaproxySite {
        let part = HaproxyPart {
            host,
            path: None,
            tls: listener.tls.is_some(),
            port: listener.port.unwrap_or(0),
        };
        let relevant = front
            .rules
            .iter()
            .chain(backends.values().flat_map(|b| &b.rules));
        let mut paths = BTreeSet::new();
        for rule in relevant {
            let mut atoms = Vec::new();
            rule.condition.atoms(&mut atoms);
            let some = atoms
                .iter()
                .any(|atom| matches!(atom, HaproxyAtom::Path(p) if !p.is_every()));
            // A rule for other hosts says nothing about paths of this one.
            if !some || impossible(&rule.condition, &part) {
                continue;
            }
            for atom in atoms {
                if let HaproxyAtom::Path(path) = atom {
                    if !path.is_every() {
                        paths.insert(path.clone());
                    }
                }
            }
        }
        if let Some(line) = self.source.setting(at, "monitor-uri") {
            match PathPattern::exact(line.word(1)) {
                Some(path) => {
                    paths.insert(path);
                }
                None => self.report.set(
                    line.id,
                    Verdict::not_supported("this is not a plain path", None),
                ),
            }
        }
        let mut plans = vec![(None, self.plan(at, front, backends, listener, &part))];
        let mut budget = MOST_PARTS / (front.rules.len() + 1);
        let paths: Vec<PathPattern> = paths.into_iter().collect();
        for path in &paths {
            budget = budget.saturating_sub(1);
            if budget == 0 {
                break;
            }
            let part = HaproxyPart {
                path: Some(path),
                ..part
            };
            let plan = self.plan(at, front, backends, listener, &part);
            plans.push((Some(path.clone()), plan));
        }
        HaproxySite {
            host: host.cloned(),
            aliases: Vec::new(),
            plans: without_repetition(plans),
        }
    }

    /// What becomes of a part of all requests.
    fn plan(
        &mut self,
        at: usize,
        front: &HaproxyRules,
        backends: &HashMap<usize, HaproxyRules>,
        listener: &HaproxyListener,
        part: &HaproxyPart<'_>,
    ) -> HaproxyPlan {
        let source = self.source;
        let mut plan = HaproxyPlan::new();
        plan.refused = listener.tls.as_ref().is_some_and(|tls| tls.refused);
        let monitor = source.setting(at, "monitor-uri");
        if let (Some(PathPattern::Exact(path)), Some(line)) = (part.path, monitor) {
            if path == line.word(1) {
                plan.action = HaproxyAction::Respond(200_i64.into(), 200);
                plan.place = Some(line.place.to_string());
                return plan;
            }
        }
        let mut backend = match self.apply(&front.rules, part, &mut plan) {
            HaproxyOutcome::Done => return plan,
            HaproxyOutcome::Backend(name) => Some((name, None)),
            HaproxyOutcome::Further => None,
        };
        if backend.is_none() {
            backend = source
                .setting(at, "default_backend")
                .map(|line| (line.word(1).to_owned(), Some(line.id)));
        }
        let target = match backend {
            Some((name, line)) => {
                let found = source.backend(&name);
                if let (None, Some(id)) = (found, line) {
                    self.report.set(
                        id,
                        Verdict::not_supported("there is no backend of this name", None),
                    );
                } else if let Some(id) = line {
                    self.report.set(id, Verdict::Converted);
                }
                if found.is_none() && line.is_none() {
                    plan.action = HaproxyAction::Respond(503_i64.into(), 503);
                    self.missing_backend(front, &name);
                }
                found
            }
            // A listen section is its own backend.
            None => super::servers::has_servers(&source.lines(at)).then_some(at),
        };
        let Some(target) = target else {
            return plan;
        };
        if let Some(rules) = backends.get(&target) {
            if let HaproxyOutcome::Done = self.apply(&rules.rules, part, &mut plan) {
                return plan;
            }
        }
        if let Some(rules) = backends.get(&target) {
            self.apply_to_responses(&rules.rules, part, &mut plan);
        }
        self.apply_to_responses(&front.rules, part, &mut plan);
        let found = self.target(target, listener.port, false);
        if matches!(plan.action, HaproxyAction::Respond(..)) {
            return plan;
        }
        match found.proxy {
            Some(proxy) => plan.action = HaproxyAction::Proxy(proxy, found.pool),
            None => plan.action = HaproxyAction::Respond(503_i64.into(), 503),
        }
        if plan.place.is_none() {
            plan.place = source.sections.get(at).map(|s| s.opening.place.to_string());
        }
        self.forwarded(at, target, &mut plan);
        self.compression(at, target, &mut plan);
        self.site_timeouts(at, target, &mut plan);
        plan
    }

    fn missing_backend(&mut self, front: &HaproxyRules, name: &str) {
        for rule in &front.rules {
            if rule.stage == HaproxyStage::Backend
                && rule.words.get(1).is_some_and(|word| word == name)
            {
                self.report.set(
                    rule.id,
                    Verdict::not_supported(
                        "there is no backend of this name, so that the route answers with 503",
                        None,
                    ),
                );
            }
        }
    }

    /// `option forwardfor`.
    fn forwarded(&mut self, at: usize, backend: usize, plan: &mut HaproxyPlan) {
        for section in [at, backend] {
            let Some(line) = self.source.option(section, "forwardfor") else {
                continue;
            };
            let mut words = line.from(2).iter();
            let mut verdict = Verdict::Default;
            while let Some(word) = words.next() {
                match word.as_str() {
                    "except" => {
                        words.next();
                        verdict = Verdict::differs(
                            "X-Forwarded-For is made anew for these clients too: name proxies that run there in `trusted`",
                        );
                    }
                    "header" => {
                        let name = words.next().map_or("", String::as_str).to_ascii_lowercase();
                        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                            && !name.is_empty();
                        if name == "x-forwarded-for" {
                            continue;
                        }
                        if plain {
                            plan.request_headers.retain(|(known, _)| *known != name);
                            plan.request_headers.push((name, "{client}".into()));
                            verdict = Verdict::Converted;
                        } else {
                            verdict =
                                Verdict::not_supported("this is not the name of a field", None);
                        }
                    }
                    "if-none" => {
                        verdict = Verdict::differs(
                            "X-Forwarded-For of a client is kept only from `trusted` addresses",
                        );
                    }
                    _ => verdict = Verdict::not_supported("this option is not known", None),
                }
            }
            self.report.set(line.id, verdict);
        }
    }

    /// `compression`.
    fn compression(&mut self, at: usize, backend: usize, plan: &mut HaproxyPlan) {
        let source = self.source;
        let sections = if at == backend {
            vec![at]
        } else {
            vec![at, backend]
        };
        let mut codings = false;
        let mut keys = Vec::new();
        for section in sections {
            let lines: Vec<_> = source
                .lines(section)
                .into_iter()
                .filter(|l| l.is("compression"))
                .collect();
            let algo = lines
                .iter()
                .rev()
                .find(|line| matches!(line.word(1), "algo" | "algo-res"));
            let Some(algo) = algo.map(|line| line.id) else {
                continue;
            };
            codings = true;
            for line in lines {
                let verdict = match line.word(1) {
                    "algo" | "algo-res" if line.id == algo => {
                        if line.from(2).iter().any(|word| word == "gzip") {
                            keys.retain(|(key, _): &(String, DraftValue)| key != "codings");
                            keys.push(("codings".to_owned(), vec!["gzip"].into()));
                            Verdict::Converted
                        } else {
                            Verdict::differs("zstd, br and gzip are offered")
                        }
                    }
                    "type" | "type-res" => {
                        let types: Vec<String> = line
                            .from(2)
                            .iter()
                            .map(|kind| match kind.strip_suffix('/') {
                                Some(main) => format!("{main}/*"),
                                None => kind.to_ascii_lowercase(),
                            })
                            .collect();
                        let good = |kind: &String| {
                            kind.split_once('/').is_some_and(|(main, sub)| {
                                let token = |t: &str| {
                                    !t.is_empty()
                                        && t.bytes().all(|b| {
                                            b.is_ascii_alphanumeric() || b"-+._".contains(&b)
                                        })
                                };
                                token(main) && (sub == "*" || token(sub))
                            })
                        };
                        if types.iter().all(good) && !types.is_empty() {
                            keys.retain(|(key, _)| key != "types");
                            keys.push(("types".to_owned(), types.into()));
                            Verdict::Converted
                        } else {
                            Verdict::differs(
                                "some of these are not media types; Lockgate's own list is used",
                            )
                        }
                    }
                    "offload" => {
                        if !plan
                            .request_headers
                            .iter()
                            .any(|(name, _)| name == "accept-encoding")
                        {
                            plan.request_headers
                                .push(("accept-encoding".to_owned(), false.into()));
                        }
                        Verdict::Converted
                    }
                    "minsize-res" => match line.word(2).parse::<u64>() {
                        Ok(size) if size <= 1 << 30 => {
                            keys.retain(|(key, _)| key != "min");
                            keys.push(("min".to_owned(), format!("{size}B").into()));
                            Verdict::Converted
                        }
                        _ => Verdict::differs("responses from 1KB on are compressed"),
                    },
                    "direction" if line.word(2) == "response" => Verdict::Default,
                    _ => Verdict::not_supported("only responses are compressed", None),
                };
                self.report.set(line.id, verdict);
            }
        }
        if codings {
            plan.compress = Some(if keys.is_empty() {
                true.into()
            } else {
                DraftValue::Inline(keys)
            });
        }
    }

    /// `timeout server` and `connect` of the backend, where they are not those at the top.
    fn site_timeouts(&mut self, at: usize, backend: usize, plan: &mut HaproxyPlan) {
        for (name, key, usual) in [
            ("timeout connect", "connect", 5000),
            ("timeout server", "response", 60_000),
            ("timeout tunnel", "tunnel_idle", 3_600_000),
        ] {
            let Some(line) = self.source.setting(backend, name) else {
                continue;
            };
            let Some(time) = haproxy_time(line.word(2)) else {
                self.report
                    .set(line.id, Verdict::not_supported("this is not a time", None));
                continue;
            };
            self.report.set(line.id, Verdict::Converted);
            let top = self.top_timeouts.get(key).copied().unwrap_or(usual);
            if time != top && time > 0 {
                plan.timeouts
                    .push((key.to_owned(), lockgate_time(time).into()));
            }
        }
        if let Some(line) = self.source.setting(at, "timeout client") {
            self.report.set(line.id, Verdict::differs(
                "a client that reads or sends too slowly is disconnected by its rate (rates), not by a time",
            ));
        }
        for name in ["timeout http-request", "timeout http-keep-alive"] {
            if let Some(line) = self.source.setting(at, name) {
                let known = self.top_lines.contains(&line.id);
                self.report.set(
                    line.id,
                    if known {
                        Verdict::Converted
                    } else {
                        Verdict::differs(
                            "this time is one for all listeners: that of the first section",
                        )
                    },
                );
            }
        }
    }

    /// Rules that no part of all requests has met.
    fn settle_front(
        &mut self,
        at: usize,
        front: &HaproxyRules,
        backends: &HashMap<usize, HaproxyRules>,
    ) {
        for rule in front
            .rules
            .iter()
            .chain(backends.values().flat_map(|b| &b.rules))
        {
            if !self.report.has_verdict(rule.id) {
                self.report.set(rule.id, Verdict::Default);
            }
        }
        let source = self.source;
        for line in source.lines(at) {
            let verdict = match line.word(0) {
                "tcp-request" if line.is("tcp-request inspect-delay") => Verdict::Default,
                "default_backend" if !self.report.has_verdict(line.id) => Verdict::Default,
                "monitor-uri" => Verdict::Converted,
                "mode" => Verdict::Converted,
                _ => continue,
            };
            self.report.set(line.id, verdict);
        }
    }

    fn write_sites(
        &mut self,
        at: usize,
        listeners: &[HaproxyListener],
        all: Vec<(usize, Vec<HaproxySite>)>,
    ) {
        for (index, sites) in all {
            let Some(listener) = listeners.get(index) else {
                continue;
            };
            if listener.socket.is_some() && sites.iter().any(|site| site.host.is_some()) {
                if let Some(section) = self.source.sections.get(at) {
                    self.report.set(section.opening.id, Verdict::not_supported(
                        "a Unix socket has one site for every host, so that this listener is left out",
                        Some("write sites with their hosts, on a port of 127.0.0.1"),
                    ));
                }
                continue;
            }
            for site in sites {
                self.finished.push((listener.clone(), site));
            }
        }
    }
}

/// Whether a condition holds for no request of a host and listener, whatever its path.
fn impossible(condition: &HaproxyCondition, part: &HaproxyPart<'_>) -> bool {
    fn open(condition: &HaproxyCondition, part: &HaproxyPart<'_>) -> HaproxyCondition {
        use HaproxyCondition as C;
        match condition {
            C::Atom(HaproxyAtom::Path(path)) if !path.is_every() => condition.clone(),
            C::Not(inner) => open(inner, part).not(),
            C::All(parts) => C::all(parts.iter().map(|c| open(c, part)).collect()),
            C::Any(parts) => C::any(parts.iter().map(|c| open(c, part)).collect()),
            other => other.within(part),
        }
    }
    open(condition, part) == HaproxyCondition::Always(false)
}

/// All hosts that rules name.
fn hosts_of<'a>(rules: impl Iterator<Item = &'a HaproxyRule>) -> Vec<HostPattern> {
    let mut seen = BTreeSet::new();
    let mut hosts = Vec::new();
    for rule in rules {
        let mut atoms = Vec::new();
        rule.condition.atoms(&mut atoms);
        for atom in atoms {
            if let HaproxyAtom::Host(host) = atom {
                if seen.insert(host) {
                    hosts.push(host.clone());
                }
            }
        }
    }
    hosts
}

/// Leaves out paths that are answered as the requests around them.
fn without_repetition(
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

fn same_plans(one: &HaproxySite, two: &HaproxySite) -> bool {
    one.plans.len() == two.plans.len()
        && one
            .plans
            .iter()
            .zip(&two.plans)
            .all(|((p, a), (q, b))| p == q && a.same(b))
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
            table.table("path").add_table(&path.key(), child);
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
