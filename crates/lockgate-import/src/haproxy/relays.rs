//! Frontends of TCP become relays, by server name where their rules say so.

use std::collections::BTreeSet;

use super::Importer;
use super::backends::HaproxyTarget;
use super::binds::HaproxyListener;
use super::conditions::{HaproxyAtom, HaproxyCondition, HaproxyPart};
use super::patterns::HostPattern;
use super::plan::HaproxyPlan;
use super::rules::{HaproxyOutcome, HaproxyStage};
use super::sites::HaproxyRules;
use super::words::{haproxy_time, lockgate_time};
use crate::{DraftTable, DraftValue, Verdict};

/// How many names and rules a relay may have together: more take too long.
const MOST_PARTS: usize = 20_000_000;

impl Importer<'_> {
    /// Converts a frontend or listen section of TCP.
    pub(super) fn relays(&mut self, at: usize, listeners: &[HaproxyListener]) {
        let source = self.source;
        let Some(section) = source.sections.get(at) else {
            return;
        };
        self.report.set(section.opening.id, Verdict::Converted);
        let plain = self.rules_of(at, None, true);
        let with = |tls: bool| HaproxyRules {
            rules: plain
                .rules
                .iter()
                .map(|rule| {
                    let mut rule = rule.clone();
                    rule.condition = with_hello(&rule.condition, tls);
                    rule
                })
                .collect(),
        };
        let front = with(true);
        let without_tls = with(false);
        let mut names: BTreeSet<HostPattern> = BTreeSet::new();
        for rule in &front.rules {
            let mut atoms = Vec::new();
            rule.condition.atoms(&mut atoms);
            for atom in atoms {
                if let HaproxyAtom::Host(name) = atom {
                    names.insert(name.clone());
                }
            }
        }
        let size: usize = front
            .rules
            .iter()
            .map(|rule| rule.condition.size())
            .sum::<usize>()
            + source.lines(at).len();
        if (names.len() + 1)
            .saturating_mul(size)
            .saturating_mul(listeners.len())
            > MOST_PARTS
        {
            self.report.set(
                section.opening.id,
                Verdict::not_supported(
                    "it has too many names and rules to be converted, so that it is left out",
                    None,
                ),
            );
            return;
        }
        for listener in listeners {
            self.relay(at, &front, &without_tls, &names, listener);
        }
        for rule in &front.rules {
            if !self.report.has_verdict(rule.id) {
                self.report.set(rule.id, Verdict::Default);
            }
        }
        for line in source.lines(at) {
            let verdict = match line.word(0) {
                "tcp-request" if line.is("tcp-request inspect-delay") => Verdict::Default,
                "mode" => Verdict::Converted,
                "http-request" | "http-response" | "redirect" | "compression" => {
                    Verdict::not_supported(
                        "the section relays bytes, so that HAProxy ignores this too: it lacks mode http",
                        None,
                    )
                }
                _ => continue,
            };
            self.report.set(line.id, verdict);
        }
    }

    fn relay(
        &mut self,
        at: usize,
        front: &HaproxyRules,
        without_tls: &HaproxyRules,
        names: &BTreeSet<HostPattern>,
        listener: &HaproxyListener,
    ) {
        let source = self.source;
        let place = source.sections.get(at).map(|s| s.opening.place.to_string());
        let every = self.relayed(at, front, listener, None);
        let mut sni = Vec::new();
        let plain = self.relayed(at, without_tls, listener, None);
        let mut refused = every.is_err() || plain.is_err();
        if plain != every
            && !refused
            && let Some(section) = source.sections.get(at)
        {
            self.report.set(
                section.opening.id,
                Verdict::differs(
                    "clients that do not speak TLS go where those without a known server name go",
                ),
            );
        }
        for name in names {
            match self.relayed(at, front, listener, Some(name)) {
                Ok(target) => sni.push((name, target)),
                Err(()) => refused = true,
            }
        }
        let opening = source.sections.get(at).map(|s| s.opening.id);
        let leave_out = |importer: &mut Self, because: &str| {
            if let Some(id) = opening {
                importer.report.set(
                    id,
                    Verdict::not_supported(because, Some("write its [tcp] table by hand")),
                );
            }
        };
        if refused {
            leave_out(
                self,
                "a relay refuses no clients by rules, so that it is left out",
            );
            return;
        }
        if listener.tls.as_ref().is_some_and(|tls| tls.refused) {
            leave_out(
                self,
                "its clients cannot be let in as safely as before, so that it is left out",
            );
            return;
        }
        let every = every.ok().flatten();
        let mut table = DraftTable::default();
        table.comments.extend(place);
        let mut entries = DraftTable::default();
        // PROXY headers are a key of the table where all entries agree.
        let protocols: BTreeSet<Option<&str>> = sni
            .iter()
            .filter_map(|(_, target)| target.as_ref())
            .chain(every.as_ref())
            .map(|target| target.proxy_protocol)
            .collect();
        let common = match protocols.iter().next() {
            Some(first) if protocols.len() == 1 => *first,
            _ => None,
        };
        let entry = |target: &HaproxyTarget| -> Option<DraftValue> {
            let proxy = target.proxy.clone()?;
            Some(match target.proxy_protocol.filter(|_| common.is_none()) {
                Some(version) => DraftValue::Inline(vec![
                    ("proxy".to_owned(), proxy),
                    ("proxy_protocol".to_owned(), version.into()),
                ]),
                None => proxy,
            })
        };
        for (name, target) in sni {
            let around = names
                .iter()
                .filter(|other| *other != name && other.covers(name))
                .count()
                > 0;
            if target == every && !around {
                continue;
            }
            match target.as_ref().and_then(&entry) {
                Some(proxy) => entries.set(&name.key(), proxy),
                None if every.is_some() => {
                    leave_out(
                        self,
                        "a server name without a backend would go to the default, so that it is left out",
                    );
                    return;
                }
                None => {}
            }
        }
        let default = every.as_ref().and_then(&entry);
        if entries.is_empty() {
            match default {
                Some(proxy) => table.set("proxy", proxy),
                None => {
                    leave_out(
                        self,
                        "no backend with endpoints takes its connections, so that it is left out",
                    );
                    return;
                }
            }
        } else if let Some(proxy) = default {
            table.set("default", proxy);
        }
        if let Some(tls) = &listener.tls {
            let value = self.tls_value(tls, true);
            if entries.is_empty() {
                table.set("tls", value);
            } else {
                leave_out(
                    self,
                    "TLS that ends here with routes by server name is left out",
                );
                return;
            }
        }
        if let Some(protocol) = common {
            table.set("proxy_protocol", protocol);
        }
        if listener.accept_proxy {
            table.set("accept_proxy", "require");
            self.needs_trusted = true;
        }
        self.relay_timeouts(at, front, &mut table);
        if !entries.is_empty() {
            *table.table("sni") = entries;
        }
        let addresses: Vec<String> = if listener.addresses.is_empty() || listener.socket.is_some() {
            vec![listener.key(None)]
        } else {
            let port = listener.port.unwrap_or(0);
            listener
                .addresses
                .iter()
                .map(|address| format!("{address}:{port}"))
                .collect()
        };
        for key in addresses {
            self.tcp.push((key, table.clone(), opening));
        }
    }

    /// Where connections go: `Err` if clients would have to be refused by a rule that is not known.
    fn relayed(
        &mut self,
        at: usize,
        front: &HaproxyRules,
        listener: &HaproxyListener,
        name: Option<&HostPattern>,
    ) -> Result<Option<HaproxyTarget>, ()> {
        let source = self.source;
        let part = HaproxyPart {
            host: name,
            path: None,
            tls: listener.tls.is_some(),
            port: listener.port.unwrap_or(0),
        };
        let mut plan = HaproxyPlan::new();
        let rules: Vec<_> = front
            .rules
            .iter()
            .filter(|rule| matches!(rule.stage, HaproxyStage::Connection | HaproxyStage::Backend))
            .cloned()
            .collect();
        let outcome = self.apply(&rules, &part, &mut plan);
        if plan.refused || plan.allow.is_some() || !plan.deny.is_empty() || plan.limit.is_some() {
            for rule in rules
                .iter()
                .filter(|rule| rule.stage == HaproxyStage::Connection)
            {
                if rule.words.first().is_some_and(|word| word == "reject") {
                    self.report.set(
                        rule.id,
                        Verdict::not_supported(
                            "a relay refuses no clients by rules",
                            Some("let a firewall do it, or write a site"),
                        ),
                    );
                }
            }
            return Err(());
        }
        let backend = match outcome {
            // Refused with certainty: no relay for this name.
            HaproxyOutcome::Done => return Ok(None),
            HaproxyOutcome::Backend(name) => {
                let found = source.backend(&name);
                if found.is_none() {
                    for rule in front.rules.iter().filter(|r| r.words.get(1) == Some(&name)) {
                        self.report.set(
                            rule.id,
                            Verdict::not_supported("there is no backend of this name", None),
                        );
                    }
                    return Ok(None);
                }
                found
            }
            HaproxyOutcome::Further => match source.setting(at, "default_backend") {
                Some(line) => {
                    let found = source.backend(line.word(1));
                    self.report.set(
                        line.id,
                        match found {
                            Some(_) => Verdict::Converted,
                            None => {
                                Verdict::not_supported("there is no backend of this name", None)
                            }
                        },
                    );
                    found
                }
                None => super::servers::has_servers(&source.lines(at)).then_some(at),
            },
        };
        let Some(backend) = backend else {
            return Ok(None);
        };
        if !source.is_tcp(backend) {
            // HAProxy does not start with a frontend of TCP and a backend of HTTP.
            self.report_mode(backend);
        }
        // Rules of the backend hold for the connections that come to it.
        let own = if backend == at {
            HaproxyRules { rules: Vec::new() }
        } else {
            self.rules_of(backend, None, true)
        };
        for rule in own
            .rules
            .iter()
            .filter(|rule| rule.stage == HaproxyStage::Connection)
        {
            let action = rule.words.first().map_or("", String::as_str);
            let condition = with_hello(&rule.condition, true);
            if action == "reject" && condition != HaproxyCondition::Always(false) {
                self.report.set(
                    rule.id,
                    Verdict::not_supported("a relay refuses no clients by rules", None),
                );
                return Err(());
            }
            self.report.set(
                rule.id,
                if action == "accept" {
                    Verdict::Default
                } else {
                    Verdict::not_supported("this rule for connections has no counterpart", None)
                },
            );
        }
        let target = self.target(backend, listener.port, true);
        Ok(target.proxy.is_some().then_some(target))
    }

    fn report_mode(&mut self, backend: usize) {
        if let Some(line) = self.source.setting(backend, "mode") {
            self.report.set(
                line.id,
                Verdict::differs("the frontend relays bytes, and so does this backend"),
            );
        }
    }

    fn relay_timeouts(&mut self, at: usize, front: &HaproxyRules, table: &mut DraftTable) {
        let source = self.source;
        let backend = front
            .rules
            .iter()
            .find(|rule| rule.stage == HaproxyStage::Backend)
            .and_then(|rule| source.backend(rule.words.get(1)?))
            .or_else(|| {
                source
                    .setting(at, "default_backend")
                    .and_then(|line| source.backend(line.word(1)))
            })
            .unwrap_or(at);
        let mut time = |section: usize, name: &str| {
            let line = source.setting(section, name)?;
            let time = haproxy_time(line.word(2)).filter(|time| *time > 0);
            self.report.set(
                line.id,
                match time {
                    Some(_) => Verdict::Converted,
                    None => Verdict::not_supported("this is not a time", None),
                },
            );
            time
        };
        let client = time(at, "timeout client");
        let server = time(backend, "timeout server");
        let tunnel = time(backend, "timeout tunnel");
        let connect = time(backend, "timeout connect");
        // A relay that moves no byte ends with the shorter of both times.
        let idle = tunnel.or(match (client, server) {
            (Some(client), Some(server)) => Some(client.min(server)),
            (one, other) => one.or(other),
        });
        let mut keys: Vec<(String, DraftValue)> = Vec::new();
        for (key, time, usual) in [("connect", connect, 5000), ("tunnel_idle", idle, 3_600_000)] {
            let top = self.top_timeouts.get(key).copied().unwrap_or(usual);
            // Without a time of its own, that of another `defaults` is not its time.
            let time = time.unwrap_or(usual);
            if time != top {
                keys.push((key.to_owned(), lockgate_time(time).into()));
            }
        }
        if !keys.is_empty() {
            table.set("timeouts", DraftValue::Inline(keys));
        }
    }
}

/// A condition for clients that speak TLS, or for those that do not.
fn with_hello(condition: &HaproxyCondition, tls: bool) -> HaproxyCondition {
    use HaproxyCondition as C;
    match condition {
        C::Atom(HaproxyAtom::Opaque { text, .. })
            if matches!(
                text.as_str(),
                "req.ssl_hello_type 1"
                    | "req_ssl_hello_type 1"
                    | "req.ssl_hello_type eq 1"
                    | "req.ssl_sni -m found"
                    | "req_ssl_sni -m found"
            ) =>
        {
            C::Always(tls)
        }
        C::Not(inner) => with_hello(inner, tls).not(),
        C::All(parts) => C::all(parts.iter().map(|part| with_hello(part, tls)).collect()),
        C::Any(parts) => C::any(parts.iter().map(|part| with_hello(part, tls)).collect()),
        other => other.clone(),
    }
}
