//! The whole file: what stands at the top, statistics, users, and the keys of sites.

use std::collections::HashSet;

use super::binds::{HaproxyBindTls, HaproxyListener};
use super::sections::HaproxyKind;
use super::servers::has_servers;
use super::sites::HaproxySite;
use super::words::{haproxy_time, lockgate_time};
use super::{Importer, LISTS_OF_ACL, inline};
use crate::{Draft, DraftTable, DraftValue, Verdict};

/// How many tests a file gets.
const MOST_TESTS: usize = 50;

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
        let http = fronts.clone().any(|(at, _)| !source.is_tcp(at));
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
        if let [only] = fronts.as_slice() {
            if let Some(line) = source.setting(*only, "maxconn") {
                if let Ok(number) = line.word(1).parse::<i64>() {
                    if number > 0 {
                        self.connections.push(number);
                        self.report.set(line.id, Verdict::Converted);
                    }
                }
            }
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
        let lines = source.lines(at);
        let stats = lines
            .iter()
            .any(|line| line.is("stats enable") || line.is("stats uri"));
        let exporter = section
            .lines
            .iter()
            .any(|line| line.is("http-request use-service prometheus-exporter"));
        let answers = has_servers(&lines)
            || source.setting(at, "default_backend").is_some()
            || lines
                .iter()
                .any(|line| matches!(line.word(0), "use_backend" | "redirect" | "monitor-uri"));
        if (stats || exporter) && !answers && !source.is_tcp(at) {
            self.statistics(at, &listeners);
            return;
        }
        if source.is_tcp(at) {
            self.relays(at, &listeners);
        } else {
            self.sites(at, &listeners);
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
            "the live page is at / and the metrics are at /metrics there"
        };
        let because = Verdict::differs(because);
        for line in section.lines.iter().chain([&section.opening]) {
            let verdict = match (line.word(0), line.word(1)) {
                ("stats", "admin") => Verdict::not_supported(
                    "the live page changes nothing",
                    Some("lockgate drain and lockgate endpoints do"),
                ),
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

    /// Backends that no rule names: they are left out.
    pub(super) fn unused_backends(&mut self) {
        let source = self.source;
        for section in &source.sections {
            if section.kind == HaproxyKind::Backend && !self.report.has_verdict(section.opening.id)
            {
                let only_table = !section
                    .lines
                    .iter()
                    .any(|line| line.is("server") || line.is("server-template"));
                let verdict = if only_table {
                    Verdict::Default
                } else {
                    Verdict::differs(
                        "no rule sends anything to this backend, so that it is left out",
                    )
                };
                self.report.set(section.opening.id, verdict.clone());
                for line in &section.lines {
                    if !self.report.has_verdict(line.id) && !(only_table && line.is("http-request"))
                    {
                        self.report.set(
                            line.id,
                            if matches!(
                                line.word(0),
                                "server" | "server-template" | "http-request" | "acl"
                            ) {
                                verdict.clone()
                            } else {
                                Verdict::Default
                            },
                        );
                    }
                }
            }
            if section.kind == HaproxyKind::Backend {
                for line in section.lines.iter().filter(|line| line.is("mode")) {
                    self.report.set(line.id, Verdict::Converted);
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

    /// The value of `tls` of a table with its own certificates.
    pub(super) fn tls_value(&self, tls: &HaproxyBindTls, relay: bool) -> DraftValue {
        let mut keys = Vec::new();
        match tls.certs.as_slice() {
            [] => {
                if !relay && tls.keys.is_empty() {
                    return "internal".into();
                }
                keys.push(("issuer".to_owned(), "internal".into()));
            }
            [one] if !one.contains('*') => {
                if tls.keys.is_empty() {
                    return one.as_str().into();
                }
                keys.push(("cert".to_owned(), one.as_str().into()));
            }
            many => keys.push(("certs".to_owned(), many.to_vec().into())),
        }
        keys.extend(tls.keys.iter().cloned());
        DraftValue::Inline(keys)
    }

    /// Writes the file.
    pub(super) fn assemble(mut self) -> Draft {
        let finished = std::mem::take(&mut self.finished);
        let relay_on_80 = self.tcp.iter().any(|(key, ..)| key.ends_with(":80"));
        let (implied, dropped) = if relay_on_80 {
            Default::default()
        } else {
            implied_redirects(&finished)
        };
        for (_, site) in finished
            .iter()
            .enumerate()
            .filter(|(at, _)| dropped.contains(at))
            .map(|(_, one)| one)
        {
            if let Some((id, status)) = site.redirect().filter(|(_, status)| *status != 308) {
                self.report.set(
                    id,
                    Verdict::differs(format!(
                        "a site redirects from port 80 by itself, with 308 rather than {status}"
                    )),
                );
            }
        }
        let mut certs: Vec<&HaproxyBindTls> = Vec::new();
        for (listener, _) in &finished {
            if let Some(tls) = &listener.tls {
                if !certs.contains(&tls) {
                    certs.push(tls);
                }
            }
        }
        let tls_sites = finished
            .iter()
            .filter(|(listener, _)| listener.tls.is_some())
            .count();
        let global = self.tls.keys(&self.suites);
        let shared = match certs.as_slice() {
            [only] if tls_sites > 1 && !only.certs.is_empty() => Some((*only).clone()),
            _ => None,
        };
        if shared.is_some() || (!global.is_empty() && tls_sites > 0) {
            let tls = self.draft.top.table("tls");
            if let Some(shared) = &shared {
                let files: Vec<String> = shared.certs.clone();
                match files.as_slice() {
                    [one] if !one.contains('*') => tls.set("default", one.as_str()),
                    _ => {
                        tls.set("certs", files.clone());
                        if let Some(first) = files
                            .first()
                            .filter(|first| !shared.strict && !first.contains('*'))
                        {
                            tls.set("default", first.as_str());
                        }
                    }
                }
            }
            for (key, value) in global {
                tls.set(&key, value);
            }
        }
        let mut seen: HashSet<String> = HashSet::new();
        let mut tables: Vec<(String, DraftTable)> = Vec::new();
        for (listener, site) in finished
            .iter()
            .enumerate()
            .filter(|(at, _)| !dropped.contains(at))
            .map(|(_, one)| one)
        {
            let host = site.host.as_ref().map(super::patterns::HostPattern::key);
            let tls = listener.tls.is_some();
            let name = host.clone().unwrap_or_default();
            let key = match (&host, listener.port) {
                (Some(host), Some(443)) if tls && implied.contains(host) => host.clone(),
                (host, _) => listener.key(host.as_deref()),
            };
            if !seen.insert(key.clone()) {
                self.draft.preface.push(format!(
                    "{}: a second table for {key} is left out",
                    listener.place
                ));
                continue;
            }
            let scheme = if tls { "https" } else { "http" };
            let port = match (listener.port, tls) {
                (Some(443), true) | (Some(80), false) | (None, _) => String::new(),
                (Some(port), _) => format!(":{port}"),
            };
            let (written, tests) = site.write(&key, &format!("{scheme}://{{host}}{port}"));
            let mut table = DraftTable::default();
            table.comments = written.comments.clone();
            if !listener.addresses.is_empty() {
                table.set("listen", listener.addresses.clone());
            }
            if let Some(tls) = &listener.tls {
                let value = match &shared {
                    Some(_) if tls.keys.is_empty() => DraftValue::Inline(Vec::new()),
                    Some(_) => DraftValue::Inline(tls.keys.clone()),
                    None => self.tls_value(tls, false),
                };
                // A site without a port has TLS without being told.
                if !(key == name && matches!(&value, DraftValue::Inline(keys) if keys.is_empty())) {
                    table.set("tls", value);
                }
                if tls.http1_only {
                    table.set("protocols", vec!["http1"]);
                }
            } else if listener.h2c {
                table.set("protocols", vec!["http1", "h2c"]);
            }
            if listener.accept_proxy {
                table.set("accept_proxy", "require");
                self.needs_trusted = true;
            }
            table.append(written);
            if listener.socket.is_none() {
                self.tests.extend(tests);
            }
            tables.push((key, table));
        }
        if let Some(most) = self.per_client {
            inline(&mut self.draft.top, "limits", "per_client", most);
        }
        let used = self.used_ports(&tables);
        if let Some(DraftValue::Text(metrics)) = self.draft.top.get("metrics") {
            let port = metrics.rsplit(':').next().unwrap_or_default();
            if used.contains(port) {
                self.draft.top.remove("metrics");
            }
        }
        if self.needs_trusted {
            self.draft.top.set("trusted", vec!["127.0.0.1/32"]);
            self.draft.top.comment_key(
                "trusted",
                "write the addresses of the proxies that send PROXY headers",
            );
        }
        let sites = self.draft.top.table("site");
        for (key, table) in tables {
            sites.add_table(&key, table);
        }
        let mut listening: HashSet<String> = HashSet::new();
        for (key, table, id) in std::mem::take(&mut self.tcp) {
            if used.contains(key.rsplit(':').next().unwrap_or_default())
                && !key.starts_with("unix:")
                || !listening.insert(key.clone())
            {
                if let Some(id) = id {
                    self.report.set(
                        id,
                        Verdict::not_supported(
                            format!(
                                "another section listens on {key} too, so that this one is left out"
                            ),
                            None,
                        ),
                    );
                }
                continue;
            }
            self.draft.top.table("tcp").add_table(&key, table);
        }
        for (name, table) in std::mem::take(&mut self.pools) {
            self.draft.top.table("pool").add_table(&name, table);
        }
        if self
            .draft
            .top
            .find_table("site")
            .is_some_and(DraftTable::is_empty)
        {
            self.draft.top.remove_table("site");
        }
        let tests = std::mem::take(&mut self.tests);
        for test in tests.into_iter().take(MOST_TESTS) {
            self.draft.top.push("test", test);
        }
        self.draft
    }

    /// The ports of sites.
    fn used_ports(&self, tables: &[(String, DraftTable)]) -> HashSet<String> {
        let mut ports = HashSet::new();
        for (key, _) in tables {
            match key.rsplit_once(':') {
                Some((_, port)) if !key.starts_with("unix:") => {
                    ports.insert(port.to_owned());
                }
                None => {
                    ports.insert("443".to_owned());
                    ports.insert("80".to_owned());
                }
                _ => {}
            }
        }
        ports
    }
}

/// The hosts of TLS sites that redirect from port 80 by themselves, and the places of the sites that
/// need no table because of it.
fn implied_redirects(
    finished: &[(HaproxyListener, HaproxySite)],
) -> (HashSet<String>, HashSet<usize>) {
    let plain = |port: u16, tls: bool| {
        move |(_, (listener, _)): &(usize, &(HaproxyListener, HaproxySite))| {
            listener.port == Some(port)
                && listener.tls.is_some() == tls
                && listener.addresses.is_empty()
                && !listener.accept_proxy
        }
    };
    let on = |port: u16| {
        finished
            .iter()
            .filter(move |(listener, _)| listener.port == Some(port))
            .count()
    };
    let secure: Vec<_> = finished
        .iter()
        .enumerate()
        .filter(plain(443, true))
        .collect();
    let open: Vec<_> = finished
        .iter()
        .enumerate()
        .filter(plain(80, false))
        .collect();
    if open.len() != on(80) || secure.len() != on(443) {
        return Default::default();
    }
    let named: HashSet<String> = open
        .iter()
        .flat_map(|(_, (_, site))| site.hosts())
        .collect();
    let every = secure.iter().any(|(_, (_, site))| site.host.is_none());
    // A site for every host takes the place of those that are not named, unless TLS has one too.
    let rest = !secure.is_empty()
        && !every
        && open
            .iter()
            .any(|(_, (_, site))| site.host.is_none() && site.is_redirect_to_tls());
    let mut implied: HashSet<String> = open
        .iter()
        .filter(|(_, (_, site))| site.host.is_some() && site.is_redirect_to_tls())
        .flat_map(|(_, (_, site))| site.hosts())
        .collect();
    if rest {
        implied.extend(
            secure
                .iter()
                .flat_map(|(_, (_, site))| site.hosts())
                .filter(|host| !named.contains(host)),
        );
    }
    // Sites with one table are implied together or not at all.
    let kept: HashSet<String> = secure
        .iter()
        .filter(|(_, (_, site))| {
            site.host.is_some() && site.hosts().all(|host| implied.contains(&host))
        })
        .flat_map(|(_, (_, site))| site.hosts())
        .collect();
    let complete = kept.len()
        == secure
            .iter()
            .map(|(_, (_, site))| site.hosts().count())
            .sum::<usize>();
    let dropped: HashSet<usize> = open
        .iter()
        .filter(|(_, (_, site))| {
            site.is_redirect_to_tls()
                && if site.host.is_none() {
                    rest && complete
                } else {
                    site.hosts().all(|host| kept.contains(&host))
                }
        })
        .map(|(at, _)| *at)
        .collect();
    let gone: HashSet<String> = dropped
        .iter()
        .filter_map(|at| finished.get(*at))
        .flat_map(|(_, site)| site.hosts())
        .collect();
    let kept = kept
        .into_iter()
        .filter(|host| gone.contains(host) || (!named.contains(host) && gone.contains("")))
        .collect();
    (kept, dropped)
}
