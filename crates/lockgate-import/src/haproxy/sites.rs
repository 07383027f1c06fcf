//! Frontends of HTTP: their rules for each host and path become sites.

use std::collections::{BTreeSet, HashMap};

use super::acls::HaproxyAcls;
use super::binds::HaproxyListener;
use super::changes::HaproxyChanges;
use super::conditions::{HaproxyAtom, HaproxyCondition, HaproxyPart};
use super::patterns::{HostPattern, PathPattern};
use super::plan::{HaproxyAction, HaproxyPlan};
use super::rules::{HaproxyOutcome, HaproxyRule, HaproxyStage, rules};
use super::sections::HaproxyLine;
use super::site_table::{HaproxySite, without_repetition};
use super::{Importer, LISTS_OF_ACL};
use crate::Verdict;

/// How many atoms of conditions and lines a frontend may be asked for: more take too long.
const MOST_WORK: usize = 100_000_000;

/// The rules of a section, ready to be asked.
pub(super) struct HaproxyRules {
    pub(super) rules: Vec<HaproxyRule>,
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
        acls.tracked = self.tracked_period(&lines, own);
        acls.read(&lines);
        let rules = rules(&lines, &acls, self);
        HaproxyRules { rules }
    }

    /// The period of the table in which all `track-sc0` rules count clients by address.
    fn tracked_period(&self, lines: &[&HaproxyLine], own: Option<u64>) -> Option<u64> {
        let mut found = None;
        for line in lines {
            let Some(at) = line.words.iter().position(|word| word == "track-sc0") else {
                continue;
            };
            if line.word(at + 1) != "src" {
                return None;
            }
            let period = match line.words.iter().position(|word| word == "table") {
                Some(table) => *self.rates.get(line.word(table + 1))?,
                None => own?,
            };
            if found.is_some_and(|known| known != period) {
                return None;
            }
            found = Some(period);
        }
        found.or(own)
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
        let mut hosts = hosts_of(
            front
                .rules
                .iter()
                .chain(backends.values().flat_map(|b| &b.rules)),
        );
        let rules = front
            .rules
            .iter()
            .chain(backends.values().flat_map(|b| &b.rules));
        let size: usize = rules.map(|rule| rule.condition.size()).sum();
        self.work = Some(MOST_WORK);
        self.cost = size + source.lines(at).len() + 1;
        let order: HashMap<HostPattern, usize> = hosts
            .iter()
            .cloned()
            .enumerate()
            .map(|(n, host)| (host, n))
            .collect();
        hosts.sort_by_key(|host| match host {
            HostPattern::Below(suffix) => suffix.len(),
            HostPattern::Exact(_) => usize::MAX,
        });
        let mut all: Vec<(usize, Vec<HaproxySite>)> = Vec::new();
        for (index, listener) in listeners.iter().enumerate() {
            if self.work.is_none() {
                break;
            }
            let mut sites: Vec<HaproxySite> = Vec::new();
            let every = self.site(at, &front, &backends, listener, None);
            // Sites with the same rules are one with aliases.
            let mut by_rules: HashMap<String, usize> = HashMap::new();
            // Wider patterns come first, so that what is around a host is known.
            let mut around: Vec<(&HostPattern, String)> = Vec::new();
            let rest = every.rules();
            for host in &hosts {
                if self.work.is_none() {
                    break;
                }
                let site = self.site(at, &front, &backends, listener, Some(host));
                let key = site.rules();
                let outside = around
                    .iter()
                    .rev()
                    .find(|(other, _)| other.covers(host))
                    .map_or(&rest, |(_, rules)| rules);
                if *outside == key {
                    continue;
                }
                if matches!(host, HostPattern::Below(_)) {
                    around.push((host, key.clone()));
                }
                match by_rules.get(&key).and_then(|at| sites.get_mut(*at)) {
                    Some(known) => known.aliases.push(host.clone()),
                    None => {
                        by_rules.insert(key, sites.len());
                        sites.push(site);
                    }
                }
            }
            sites.sort_by_key(|site| site.host.as_ref().and_then(|host| order.get(host)).copied());
            let nothing = every
                .plans
                .iter()
                .all(|(_, plan)| plan.action == HaproxyAction::Nothing && !plan.refused);
            if !nothing {
                sites.push(every);
            }
            all.push((index, sites));
        }
        if self.work.is_none() {
            for line in section.lines.iter().chain([&section.opening]) {
                if matches!(
                    line.word(0),
                    "frontend"
                        | "listen"
                        | "bind"
                        | "use_backend"
                        | "http-request"
                        | "redirect"
                        | "default_backend"
                        | "server"
                        | "acl"
                ) {
                    self.report.set(
                        line.id,
                        Verdict::not_supported(
                            "the section has too many hosts, paths and rules, so that it is left out",
                            None,
                        ),
                    );
                }
            }
            return;
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
        self.work = self.work.and_then(|left| left.checked_sub(self.cost));
        for rule in relevant.filter(|_| self.work.is_some()) {
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
                if let HaproxyAtom::Path(path) = atom
                    && !path.is_every()
                {
                    paths.insert(path.clone());
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
        let paths: Vec<PathPattern> = paths.into_iter().collect();
        for path in &paths {
            if self.work.is_none() {
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
        self.work = self.work.and_then(|left| left.checked_sub(self.cost));
        if self.work.is_none() {
            return plan;
        }
        plan.refused = listener.tls.as_ref().is_some_and(|tls| tls.refused);
        let monitor = source.setting(at, "monitor-uri");
        if let (Some(PathPattern::Exact(path)), Some(line)) = (part.path, monitor)
            && path == line.word(1)
        {
            plan.action = HaproxyAction::Respond(200_i64.into(), 200);
            plan.place = Some(line.place.to_string());
            return plan;
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
        if let Some(rules) = backends.get(&target)
            && let HaproxyOutcome::Done = self.apply(&rules.rules, part, &mut plan)
        {
            return plan;
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

/// Whether a condition holds for no request of a host and listener, on any path.
fn impossible(condition: &HaproxyCondition, part: &HaproxyPart<'_>) -> bool {
    let any_path = HaproxyChanges {
        path: true,
        ..HaproxyChanges::default()
    };
    condition.after(any_path, part) == HaproxyCondition::Always(false)
}

/// All hosts that rules name.
fn hosts_of<'a>(rules: impl Iterator<Item = &'a HaproxyRule>) -> Vec<HostPattern> {
    let mut seen = BTreeSet::new();
    let mut hosts = Vec::new();
    for rule in rules {
        let mut atoms = Vec::new();
        rule.condition.atoms(&mut atoms);
        for atom in atoms {
            if let HaproxyAtom::Host(host) = atom
                && seen.insert(host)
            {
                hosts.push(host.clone());
            }
        }
    }
    hosts
}
