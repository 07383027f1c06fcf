//! The whole file: what stands at the top, statistics, users, and the keys of sites.

use std::collections::HashSet;

use super::binds::{HaproxyBindTls, HaproxyListener};
use super::site_table::HaproxySite;
use super::{Importer, inline};
use crate::{Draft, DraftTable, DraftValue, Verdict};

/// How many tests a file gets.
const MOST_TESTS: usize = 50;

impl Importer<'_> {
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
            many => {
                keys.push(("certs".to_owned(), many.to_vec().into()));
                if let Some(first) = tls.first_cert() {
                    keys.push(("default".to_owned(), first.into()));
                }
            }
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
            if let Some(tls) = &listener.tls
                && certs.len() < 2
                && !certs.contains(&tls)
            {
                certs.push(tls);
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
                        if let Some(first) = shared.first_cert() {
                            tls.set("default", first);
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
                self.report.set(
                    listener.statement,
                    Verdict::not_supported(
                        format!("another section has the site {key} already, so that this one is left out"),
                        Some("an address has one site for a host: merge them by hand"),
                    ),
                );
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
            self.draft.top.set("trusted", vec!["192.0.2.1/32"]);
            self.draft.top.comment_key(
                "trusted",
                "an example: write the addresses of the proxies that send PROXY headers",
            );
        }
        let sites = self.draft.top.table("site");
        for (key, table) in tables {
            sites.append_table(&key, table);
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
            self.draft.top.table("tcp").append_table(&key, table);
        }
        for (name, table) in std::mem::take(&mut self.pools) {
            self.draft.top.table("pool").append_table(&name, table);
        }
        if self
            .draft
            .top
            .find_table("site")
            .is_some_and(DraftTable::is_empty)
        {
            self.draft.top.remove_table("site");
        }
        if self
            .draft
            .top
            .tables()
            .all(|(name, _)| name != "site" && name != "tcp")
        {
            let mut table = DraftTable::default();
            table
                .comments
                .push("no listener of the source could be converted".to_owned());
            table.set("respond", 503_i64);
            self.draft
                .top
                .table("site")
                .append_table("localhost:8080", table);
        }
        self.preface();
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
