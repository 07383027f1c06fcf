//! What stands beside sites and relays: times, limits, statistics, users, backends without use.

use std::collections::HashSet;

use super::binds::HaproxyListener;
use super::sections::HaproxyKind;
use super::servers::has_servers;
use super::words::{haproxy_time, has_variable, lockgate_time};
use super::{Importer, LISTS_OF_ACL, inline};
use crate::Verdict;

impl Importer<'_> {
    /// The `timeouts` at the top: those of the first `defaults`, or of the first section.
    pub(super) fn top_level(&mut self) {
        let source = self.source;
        let first = source
            .sections
            .iter()
            .position(|s| s.kind == HaproxyKind::Defaults);
        let front = source
            .sections
            .iter()
            .position(|s| matches!(s.kind, HaproxyKind::Frontend | HaproxyKind::Listen));
        let fronts = source
            .sections
            .iter()
            .enumerate()
            .filter(|(_, s)| matches!(s.kind, HaproxyKind::Frontend | HaproxyKind::Listen));
        let http = fronts
            .clone()
            .any(|(at, _)| !source.is_tcp(at) && !self.is_statistics(at));
        self.any_http = http;
        if let Some(first) = first.filter(|_| !http) {
            // Without HTTP, the time of a relay is one for the file.
            let time = |name: &str| {
                source
                    .setting(first, name)
                    .and_then(|line| haproxy_time(line.word(2)))
                    .filter(|time| *time > 0)
            };
            let idle = match (time("timeout client"), time("timeout server")) {
                (Some(client), Some(server)) => Some(client.min(server)),
                (one, other) => one.or(other),
            };
            if let Some(idle) = idle.filter(|_| time("timeout tunnel").is_none()) {
                self.top_timeouts.insert("tunnel_idle", idle);
                if idle != 3_600_000 {
                    inline(
                        &mut self.draft.top,
                        "timeouts",
                        "tunnel_idle",
                        lockgate_time(idle).as_str(),
                    );
                }
            }
        }
        let names = [
            ("timeout http-request", "head", 10_000),
            ("timeout http-keep-alive", "idle", 75_000),
            ("timeout connect", "connect", 5000),
            ("timeout server", "response", 60_000),
            ("timeout tunnel", "tunnel_idle", 3_600_000),
        ];
        for (name, key, usual) in names {
            let at_front = matches!(key, "head" | "idle");
            if (at_front || key == "response") && !http {
                continue;
            }
            let place = first.or(front.filter(|_| at_front));
            let line = place.and_then(|at| source.setting(at, name)).or_else(|| {
                front
                    .filter(|_| at_front)
                    .and_then(|at| source.setting(at, name))
            });
            let Some(line) = line else {
                continue;
            };
            if let Some(time) = haproxy_time(line.word(2)).filter(|time| *time > 0) {
                self.top_timeouts.insert(key, time);
                self.top_lines.insert(line.id);
                if time != usual {
                    inline(
                        &mut self.draft.top,
                        "timeouts",
                        key,
                        lockgate_time(time).as_str(),
                    );
                }
            }
        }
        let fronts: Vec<usize> = fronts.map(|(at, _)| at).collect();
        if let [only] = fronts.as_slice()
            && let Some(line) = source.setting(*only, "maxconn")
            && let Ok(number) = line.word(1).parse::<i64>()
            && number > 0
        {
            self.connections.push(number);
            self.report.set(line.id, Verdict::Converted);
        }
        if let Some(least) = self.connections.iter().min() {
            inline(&mut self.draft.top, "limits", "connections", *least);
        }
    }

    /// Stick tables that count requests by the client's address.
    pub(super) fn stick_tables(&mut self) {
        for (at, section) in self.source.sections.iter().enumerate() {
            if !matches!(
                section.kind,
                HaproxyKind::Frontend | HaproxyKind::Listen | HaproxyKind::Backend
            ) {
                continue;
            }
            let Some(line) = self.source.setting(at, "stick-table") else {
                continue;
            };
            let by_address = line.words.windows(2).any(
                |pair| matches!(pair, [a, b] if a == "type" && matches!(b.as_str(), "ip" | "ipv6")),
            );
            let period = line
                .words
                .iter()
                .find_map(|word| word.split_once("http_req_rate(")?.1.split_once(')'))
                .and_then(|(time, _)| haproxy_time(time));
            if let Some(period) = period.filter(|_| by_address) {
                self.rates.insert(section.name.clone(), period);
                self.report.set(line.id, Verdict::Converted);
            } else if section.lines.iter().any(|line| line.is("stick")) {
                // `stick on` says what becomes of it.
            } else {
                self.report.set(
                    line.id,
                    Verdict::not_supported(
                        "Lockgate counts requests of clients (limit), and nothing else",
                        None,
                    ),
                );
            }
        }
        self.rates.remove(LISTS_OF_ACL);
    }

    /// Converts a frontend or listen section.
    pub(super) fn front(&mut self, at: usize) {
        let source = self.source;
        let Some(section) = source.sections.get(at) else {
            return;
        };
        if section.lines.iter().any(|line| line.is("disabled")) {
            for line in section.lines.iter().chain([&section.opening]) {
                self.report.set(
                    line.id,
                    Verdict::differs("the section is disabled, so that it is left out"),
                );
            }
            return;
        }
        let listeners = self.listeners(at);
        if listeners.is_empty() {
            self.left_out(at);
            return;
        }
        if self.is_statistics(at) {
            self.statistics(at, &listeners);
            return;
        }
        if source.is_tcp(at) {
            self.relays(at, &listeners);
        } else {
            self.sites(at, &listeners);
        }
    }

    /// Whether a section only shows statistics.
    fn is_statistics(&self, at: usize) -> bool {
        let source = self.source;
        let lines = source.lines(at);
        let stats = lines
            .iter()
            .any(|line| line.is("stats enable") || line.is("stats uri"));
        let exporter = lines
            .iter()
            .any(|line| line.is("http-request use-service prometheus-exporter"));
        let answers = has_servers(&lines)
            || source.setting(at, "default_backend").is_some()
            || lines
                .iter()
                .any(|line| matches!(line.word(0), "use_backend" | "redirect" | "monitor-uri"));
        (stats || exporter) && !answers && !source.is_tcp(at)
    }

    /// A section that listens nowhere: all that it does is left out.
    fn left_out(&mut self, at: usize) {
        let Some(section) = self.source.sections.get(at) else {
            return;
        };
        for line in section.lines.iter().chain([&section.opening]) {
            if matches!(
                line.word(0),
                "listen"
                    | "frontend"
                    | "acl"
                    | "use_backend"
                    | "default_backend"
                    | "redirect"
                    | "server"
                    | "server-template"
                    | "http-request"
                    | "http-response"
                    | "tcp-request"
            ) {
                self.report.set(
                    line.id,
                    Verdict::not_supported(
                        "the section has no listener that can be converted",
                        None,
                    ),
                );
            }
        }
    }

    /// A section for statistics alone: the live page.
    fn statistics(&mut self, at: usize, listeners: &[HaproxyListener]) {
        let source = self.source;
        let lines = source.lines(at);
        let Some(section) = source.sections.get(at) else {
            return;
        };
        let guarded = lines.iter().any(|line| {
            line.is("stats auth")
                || line.is("stats http-request")
                || line.is("http-request deny")
                || line.is("http-request auth")
                || line.is("tcp-request")
                || line.is("stats admin") && line.word(3) != "TRUE"
        }) || listeners.iter().any(|l| l.tls.is_some());
        let first = listeners.first();
        let free = self.draft.top.get("metrics").is_none();
        if let Some(port) = first.and_then(|listener| listener.port).filter(|_| free) {
            let address = match first.and_then(|l| l.addresses.first()) {
                _ if guarded => "127.0.0.1",
                Some(address) => address.as_str(),
                None => "",
            };
            self.draft.top.set("metrics", format!("{address}:{port}"));
        }
        let because = if guarded {
            "the live page and /metrics are at this port of 127.0.0.1 alone, because they ask for no password"
        } else {
            "Lockgate's live page is at / and the metrics are at /metrics there, for names in metrics.hosts and for addresses"
        };
        let because = Verdict::differs(because);
        // The place of the page is said once.
        let uri = lines.iter().any(|line| line.is("stats uri"));
        for line in section.lines.iter().chain([&section.opening]) {
            let verdict = match (line.word(0), line.word(1)) {
                ("stats", "admin") => Verdict::not_supported(
                    "the live page changes nothing",
                    Some("lockgate drain and lockgate endpoints do"),
                ),
                ("stats", "enable") if uri => Verdict::Converted,
                ("stats", "uri" | "enable" | "auth" | "http-request")
                | ("http-request" | "tcp-request", _) => because.clone(),
                ("bind" | "acl", _) if guarded => because.clone(),
                ("bind", _) => Verdict::Converted,
                ("listen" | "frontend", _) => Verdict::Converted,
                ("stats" | "mode" | "timeout" | "balance" | "acl", _) => Verdict::Default,
                _ => continue,
            };
            self.report.set(line.id, verdict);
        }
    }

    /// Backends that no rule has sent anything to.
    pub(super) fn unused_backends(&mut self) {
        let source = self.source;
        let named: HashSet<&str> = source
            .sections
            .iter()
            .flat_map(|section| &section.lines)
            .filter(|line| matches!(line.word(0), "use_backend" | "default_backend"))
            .map(|line| line.word(1))
            .collect();
        let dynamic = named.iter().any(|name| has_variable(name));
        for section in source
            .sections
            .iter()
            .filter(|section| section.kind == HaproxyKind::Backend)
        {
            for line in section.lines.iter().filter(|line| line.is("mode")) {
                self.report.set(line.id, Verdict::Converted);
            }
            if self.report.has_verdict(section.opening.id) {
                continue;
            }
            if !dynamic && !named.contains(section.name.as_str()) {
                // Nothing in the source uses it.
                for line in section.lines.iter().chain([&section.opening]) {
                    if !self.report.has_verdict(line.id) {
                        self.report.set(line.id, Verdict::Default);
                    }
                }
                continue;
            }
            let verdict = Verdict::not_supported(
                "the rules that send requests to this backend are left out, and so is it",
                None,
            );
            for line in section.lines.iter().chain([&section.opening]) {
                if matches!(
                    line.word(0),
                    "backend"
                        | "server"
                        | "server-template"
                        | "http-request"
                        | "http-response"
                        | "acl"
                ) && !self.report.has_verdict(line.id)
                {
                    self.report.set(line.id, verdict.clone());
                }
            }
        }
        for section in source
            .sections
            .iter()
            .filter(|s| s.kind == HaproxyKind::Defaults)
        {
            for line in section.lines.iter().filter(|line| line.is("mode")) {
                self.report.set(line.id, Verdict::Converted);
            }
        }
    }

    /// Whether passwords of a list can be asked for; the list is then used.
    pub(super) fn users(&mut self, list: &str) -> bool {
        let plain = list
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !list.is_empty();
        let found = plain && self.source.userlist(list).is_some();
        if found {
            self.users.insert(list.to_owned());
        }
        found
    }

    /// Lists of users become files, which the user must write.
    pub(super) fn userlists(&mut self) {
        let source = self.source;
        for section in source
            .sections
            .iter()
            .filter(|s| s.kind == HaproxyKind::Userlist)
        {
            let used = self.users.contains(&section.name);
            let verdict = if used {
                Verdict::differs(format!(
                    "write the users to /etc/lockgate/{}.htpasswd, one `user:hash` a line",
                    section.name
                ))
            } else {
                Verdict::differs("no route asks for these users, so that they are left out")
            };
            self.report.set(section.opening.id, verdict.clone());
            for line in &section.lines {
                let hash = line.word(3);
                let good = ["$2", "$5$", "$6$"]
                    .iter()
                    .any(|prefix| hash.starts_with(prefix));
                let verdict = match (line.word(0), line.word(2)) {
                    ("user", "password") if good => verdict.clone(),
                    ("user", "password") => Verdict::not_supported(
                        "this kind of hash is not taken",
                        Some("htpasswd -B makes one that is"),
                    ),
                    ("user", _) => Verdict::not_supported(
                        "passwords are stored as hashes",
                        Some("htpasswd -B makes them"),
                    ),
                    _ => Verdict::not_supported("there are no groups of users", None),
                };
                self.report.set(line.id, verdict);
            }
        }
    }
}
