//! Sites: their addresses, certificates and logs, and the places of their paths.

use std::collections::{BTreeMap, BTreeSet};

use super::addresses::{self, CaddyAddress};
use super::blocks::{self, CaddyStatement};
use super::emit::{self, CaddyPools};
use super::evaluate::CaddyEvaluator;
use super::log;
use super::matchers::{self, CaddyRequests, CaddyScope};
use super::options::CaddyOptions;
use super::outcome::{CaddyAction, CaddyFlow, CaddyOutcome};
use super::paths::{CaddyPattern, CaddyPlace};
use super::tests_of::CaddyTests;
use crate::{ConversionReport, Draft, DraftTable, DraftValue, StatementId, Verdict};

/// How many directives are run for all places of all sites.
const MOST_STEPS: usize = 4_000_000;
/// How many directives are run for one place besides those of the site, because of conditions.
const MOST_STEPS_OF_PLACE: usize = 5_000;
/// The most places of one site.
const MOST_PLACES: usize = 6_000;

/// The outcomes of all places of a site, for one host.
pub(super) type CaddyOutcomes = BTreeMap<CaddyPlace, CaddyOutcome>;

/// The places of a site, with the statements that have their patterns.
#[derive(Debug, Default)]
pub(super) struct CaddyPlaces {
    /// The places.
    pub(super) all: BTreeSet<CaddyPlace>,
    /// The statements with a pattern of a place.
    pub(super) of: BTreeMap<CaddyPlace, BTreeSet<StatementId>>,
    /// Whether a pattern has a letter.
    pub(super) has_letter: bool,
}

/// Writes the sites of a source.
pub(super) struct CaddySites<'r> {
    pub(super) options: CaddyOptions,
    pub(super) report: &'r mut ConversionReport,
    pub(super) draft: Draft,
    pub(super) pools: CaddyPools,
    pub(super) tests: CaddyTests,
    pub(super) needs_acme: bool,
    pub(super) has_tls: bool,
    pub(super) has_files: bool,
    pub(super) has_proxy: bool,
    pub(super) has_letter: bool,
    pub(super) steps: usize,
    pub(super) keys: BTreeSet<String>,
}

/// How a listener of a site ends TLS.
#[derive(Debug, Clone, PartialEq)]
enum CaddyTls {
    Automatic,
    Internal,
    Table(Vec<(String, DraftValue)>),
}

impl<'r> CaddySites<'r> {
    /// No site yet.
    pub(super) fn new(report: &'r mut ConversionReport) -> Self {
        Self {
            options: CaddyOptions::default(),
            report,
            draft: Draft::default(),
            pools: CaddyPools::default(),
            tests: CaddyTests::default(),
            needs_acme: false,
            has_tls: false,
            has_files: false,
            has_proxy: false,
            has_letter: false,
            steps: MOST_STEPS,
            keys: BTreeSet::new(),
        }
    }

    /// Writes one site.
    pub(super) fn site(&mut self, site: &CaddyStatement) {
        let has_tls = site
            .inner()
            .iter()
            .any(|one| one.name() == "tls" && one.arg() != Some("off"));
        let mut addresses = Vec::new();
        for word in site.words.iter().flat_map(|word| word.split(',')) {
            if word.is_empty() {
                continue;
            }
            match addresses::parse(word, has_tls, &self.options) {
                Ok(address) => {
                    if let Some(because) = &address.differs {
                        self.report.set(site.id, Verdict::differs(because.clone()));
                    }
                    addresses.push(address);
                }
                Err(because) => {
                    let verdict = Verdict::not_supported(because, None);
                    self.report.set(site.id, verdict);
                }
            }
        }
        if addresses.is_empty() {
            let because = "the address of its site could not be converted";
            for inner in site.inner() {
                inner.fill(self.report, &Verdict::not_supported(because, None));
            }
            return;
        }
        let settings = self.settings(site);
        let places = self.places(site);
        if places.all.len() > MOST_PLACES
            || places.all.len().saturating_mul(site.size()) > self.steps
        {
            let because = "it has too many paths to work out";
            site.set_all(self.report, &Verdict::not_supported(because, None));
            return;
        }
        self.has_letter |= places.has_letter;
        let mut listeners: Vec<(Option<u16>, bool, CaddyTls, Vec<String>)> = Vec::new();
        for address in &addresses {
            let tls = self.tls_of(site, address, settings.tls.clone());
            let host = address.host.clone().unwrap_or_default();
            let known = listeners.iter_mut().find(|(port, secure, known, hosts)| {
                *port == address.port
                    && *secure == address.secure
                    && (*known == tls || !*secure)
                    && hosts.iter().all(|host| !host.is_empty())
                    && !host.is_empty()
            });
            match known {
                Some((.., hosts)) => {
                    if !hosts.contains(&host) {
                        hosts.push(host);
                    }
                }
                None => listeners.push((address.port, address.secure, tls, vec![host])),
            }
        }
        let mut written = false;
        for (port, secure, tls, hosts) in listeners {
            let tls = secure.then_some(tls);
            written |= self.listener(site, port, tls, hosts, &settings, &places);
        }
        let unused = Verdict::Converted;
        for inner in site.inner() {
            let known = matchers_or_known(inner, &self.options);
            if known && !self.report.has_verdict(inner.id) {
                // No request reaches it, or it is a matcher that nothing uses.
                inner.fill(self.report, &unused);
            }
            fill_matchers(inner, &self.options, self.report);
        }
        let verdict = match written {
            true => Verdict::Converted,
            false => Verdict::not_supported("nothing of the site could be converted", None),
        };
        self.report.set(site.id, verdict);
    }

    /// A listener of a site, for each host that has an outcome of its own.
    fn listener(
        &mut self,
        site: &CaddyStatement,
        port: Option<u16>,
        tls: Option<CaddyTls>,
        mut hosts: Vec<String>,
        settings: &CaddySettings,
        places: &CaddyPlaces,
    ) -> bool {
        let mut named = BTreeSet::new();
        let scope = CaddyScope::new(site.inner().iter(), None);
        collect_hosts(site.inner(), &scope, &mut named, 0);
        for host in named {
            let literal = !host.contains(['*', '{', ':', '[', '/']) && host.is_ascii();
            let below = hosts.iter().any(|known| {
                known.is_empty()
                    || known.strip_prefix('*').is_some_and(|end| {
                        host.strip_suffix(end)
                            .is_some_and(|label| !label.contains('.') && !label.is_empty())
                    })
            });
            if literal
                && below
                && !hosts.contains(&host)
                && host.contains(|c: char| c.is_ascii_alphanumeric())
            {
                hosts.push(host);
            }
        }
        let mut groups: Vec<(Vec<String>, CaddyOutcomes)> = Vec::new();
        for host in hosts {
            let outcomes = self.outcomes(site, &host, port, tls.is_some(), places, settings);
            let joins = |known: &str| known.is_empty() == host.is_empty();
            match groups
                .iter_mut()
                .find(|(hosts, known)| *known == outcomes && hosts.iter().all(|one| joins(one)))
            {
                Some((hosts, _)) => hosts.push(host),
                None => groups.push((vec![host], outcomes)),
            }
        }
        let mut written = false;
        for (hosts, outcomes) in groups {
            written |= self.table(site, port, tls.as_ref(), &hosts, outcomes, settings, places);
        }
        written
    }

    fn outcomes(
        &mut self,
        site: &CaddyStatement,
        host: &str,
        port: Option<u16>,
        secure: bool,
        places: &CaddyPlaces,
        settings: &CaddySettings,
    ) -> CaddyOutcomes {
        let implied = match secure {
            true => self.options.https_port,
            false => self.options.http_port,
        };
        let mut outcomes = CaddyOutcomes::new();
        let size = site.size();
        for place in &places.all {
            let budget = self.steps.min(size.saturating_add(MOST_STEPS_OF_PLACE));
            let mut left = budget;
            let mut evaluator = CaddyEvaluator {
                report: self.report,
                order: &self.options.order,
                requests: CaddyRequests {
                    host: (!host.is_empty()).then_some(host),
                    secure,
                    port: port.unwrap_or(implied),
                    place,
                },
                trusts: self.draft.top.get("trusted").is_some(),
                steps: &mut left,
            };
            let mut flow = CaddyFlow::default();
            if let Some(page) = &settings.not_found {
                flow.keys.insert("not_found", page.as_str().into());
            }
            outcomes.insert(place.clone(), evaluator.site(site.inner(), flow));
            self.steps -= budget - left;
        }
        outcomes
    }

    #[allow(clippy::too_many_arguments)] // They are the parts of one table.
    fn table(
        &mut self,
        site: &CaddyStatement,
        port: Option<u16>,
        tls: Option<&CaddyTls>,
        hosts: &[String],
        outcomes: CaddyOutcomes,
        settings: &CaddySettings,
        places: &CaddyPlaces,
    ) -> bool {
        let Some((first, aliases)) = hosts.split_first() else {
            return false;
        };
        if !outcomes.values().any(CaddyOutcome::serves) {
            return false;
        }
        let key = match port {
            Some(port) => format!("{first}:{port}"),
            None => first.clone(),
        };
        let mut hosts_taken = false;
        for host in hosts {
            let key = match port {
                Some(port) => format!("{host}:{port}"),
                None => host.clone(),
            };
            hosts_taken |= !self.keys.insert(key);
        }
        if hosts_taken {
            let because = "another site of the file has this address";
            self.report
                .set(site.id, Verdict::not_supported(because, None));
            return false;
        }
        let mut table = DraftTable::default();
        blocks::come_from(&mut table, &site.place);
        if !aliases.is_empty() {
            table.set("alias", aliases.to_vec());
        }
        let listen = match settings.bind.is_empty() {
            true => &self.options.bind,
            false => &settings.bind,
        };
        if !listen.is_empty() {
            table.set("listen", listen.clone());
        }
        match tls {
            None => {}
            Some(CaddyTls::Automatic) => {
                self.needs_acme = true;
                if port.is_some() {
                    table.set("tls", DraftValue::Inline(Vec::new()));
                }
            }
            Some(CaddyTls::Internal) => table.set("tls", "internal"),
            Some(CaddyTls::Table(keys)) => {
                let only_cert = keys.iter().all(|(name, _)| name == "cert" || name == "key");
                if !only_cert && !keys.iter().any(|(name, _)| name == "cert") {
                    self.needs_acme = true;
                }
                table.set("tls", DraftValue::Inline(keys.clone()));
            }
        }
        self.has_tls |= tls.is_some();
        if tls.is_some() && self.options.only_http1 {
            table.set("protocols", vec!["http1"]);
        }
        if let Some(log) = &settings.access_log {
            table.set("access_log", log.clone());
        }
        for outcome in outcomes.values() {
            self.has_files |= matches!(outcome.action, CaddyAction::Files(_));
            self.has_proxy |= matches!(outcome.action, CaddyAction::Proxy(_));
        }
        let names = emit::CaddyTableNames {
            key: &key,
            secure: tls.is_some(),
        };
        emit::routes(
            &mut table,
            site,
            names,
            outcomes,
            places,
            &mut self.pools,
            &mut self.tests,
            self.report,
        );
        self.draft.top.table("site").append_table(&key, table);
        true
    }

    fn tls_of(
        &mut self,
        site: &CaddyStatement,
        address: &CaddyAddress,
        keys: Option<CaddyTls>,
    ) -> CaddyTls {
        if !address.secure {
            return CaddyTls::Automatic;
        }
        match keys {
            Some(CaddyTls::Table(keys)) if keys.iter().any(|(name, _)| name == "cert") => {
                return CaddyTls::Table(keys);
            }
            Some(CaddyTls::Internal) => return CaddyTls::Internal,
            _ => {}
        }
        if self.options.local_certs || address.is_own() {
            return with_internal(keys);
        }
        let wildcard = address
            .host
            .as_deref()
            .is_some_and(|host| host.starts_with('*'));
        let has = |name: &str| self.options.acme.iter().any(|(key, _)| key == name);
        let because = match () {
            () if address.host.is_none() && has("on_demand") => {
                return keys.unwrap_or(CaddyTls::Automatic);
            }
            () if address.host.is_none() => {
                "it has no host to get a certificate for: Lockgate's own authority certifies it, \
                 which clients must trust"
            }
            () if address.is_private() && !has("directory") => {
                "no public authority certifies this name: Lockgate's own authority does, which \
                 clients must trust"
            }
            () if wildcard && !has("dns") && !has("on_demand") => {
                "a certificate for every name below it needs `acme.dns`: until then Lockgate's own \
                 authority certifies it, which clients must trust"
            }
            () if self.options.auto_https_off => {
                "its certificate is not named: Lockgate's own authority certifies it, which \
                 clients must trust"
            }
            () => return keys.unwrap_or(CaddyTls::Automatic),
        };
        self.report.set(site.id, Verdict::differs(because));
        with_internal(keys)
    }

    /// What the statements of a site say about all of it.
    fn settings(&mut self, site: &CaddyStatement) -> CaddySettings {
        let mut settings = CaddySettings::default();
        for statement in site.inner() {
            match statement.name() {
                "tls" => {
                    let tls = self.tls(statement);
                    settings.tls = tls.or(settings.tls.take());
                }
                "log" => settings.access_log = log::of_site(statement, self.report),
                "skip_log" | "log_skip" if statement.args().is_empty() => {
                    settings.access_log = Some(false.into());
                }
                "bind" => {
                    let is_address = |one: &String| one.parse::<std::net::IpAddr>().is_ok();
                    let verdict = match statement.args().iter().all(is_address) {
                        true => {
                            settings.bind = statement.args().to_vec();
                            Verdict::Converted
                        }
                        false => Verdict::not_supported(
                            "Lockgate binds addresses, not names or interfaces",
                            Some("listen = [\"127.0.0.1\"]"),
                        ),
                    };
                    self.report.set(statement.id, verdict);
                }
                "handle_errors" => self.errors(statement, &mut settings),
                _ => {}
            }
        }
        settings
    }

    /// `handle_errors`: the page for what does not exist, if it is one file.
    fn errors(&mut self, statement: &CaddyStatement, settings: &mut CaddySettings) {
        let not_found = statement.args() == ["404"];
        let mut page = None;
        let mut simple = true;
        for line in statement.inner() {
            match (line.name(), line.args().last()) {
                ("rewrite", Some(path)) if path.starts_with('/') && !path.contains('{') => {
                    page = Some(path.clone());
                }
                ("rewrite", Some(path)) if path == "/{err.status_code}.html" => {
                    page = Some("/404.html".to_owned());
                }
                ("file_server", _) if line.inner().is_empty() => {}
                _ => simple = false,
            }
        }
        if let (true, true, Some(page)) = (simple, not_found, page) {
            settings.not_found = Some(page);
            statement.set_all(self.report, &Verdict::Converted);
            return;
        }
        let responds = statement.inner().iter().all(|line| {
            matches!(line.name(), "respond" | "header") || line.name().starts_with('@')
        });
        let verdict = match responds {
            true => Verdict::differs("errors of Lockgate have Lockgate's own page"),
            false => Verdict::not_supported(
                "errors have Lockgate's own pages, or files of `error_pages` that are read at the start",
                Some("not_found = \"/404.html\", or error_pages = { 502 = \"FILE\" }"),
            ),
        };
        statement.set_all(self.report, &verdict);
    }

    /// `tls`: certificates of a site.
    fn tls(&mut self, statement: &CaddyStatement) -> Option<CaddyTls> {
        let mut keys: Vec<(String, DraftValue)> = Vec::new();
        let mut internal = false;
        let verdict = match statement.args() {
            [] => Verdict::Converted,
            [one] if one == "internal" => {
                internal = true;
                Verdict::Converted
            }
            [email] if email.contains('@') => self.options.email(Some(email)),
            [one] if one.starts_with('{') => self.options.email(Some(one)),
            [cert, key] => match (
                super::texts::convert(cert, super::texts::CaddyTextKind::Plain, None),
                super::texts::convert(key, super::texts::CaddyTextKind::Plain, None),
            ) {
                (Ok(cert), Ok(key)) => {
                    let differs = cert.differs.clone().or(key.differs.clone());
                    keys.push(("cert".to_owned(), cert.text.into()));
                    keys.push(("key".to_owned(), key.text.into()));
                    differs.map_or(Verdict::Converted, Verdict::differs)
                }
                _ => Verdict::not_supported("the paths have placeholders", None),
            },
            _ => Verdict::not_supported("this is not known of certificates", None),
        };
        self.report.set(statement.id, verdict);
        for line in statement.inner() {
            let arg = line.arg();
            let verdict = match line.name() {
                "dns" => self.options.dns(line.args(), line.inner()),
                "resolvers" => {
                    let resolvers: Vec<String> = line
                        .args()
                        .iter()
                        .map(|one| match one.contains(':') {
                            true => one.clone(),
                            false => format!("{one}:53"),
                        })
                        .collect();
                    if resolvers
                        .iter()
                        .all(|one| one.parse::<std::net::SocketAddr>().is_ok())
                        && let Some((_, DraftValue::Inline(dns))) =
                            self.options.acme.iter_mut().find(|(key, _)| key == "dns")
                    {
                        dns.retain(|(key, _)| key != "resolvers");
                        dns.push(("resolvers".to_owned(), resolvers.into()));
                        Verdict::Converted
                    } else {
                        Verdict::not_supported("name servers are addresses", None)
                    }
                }
                "propagation_timeout"
                | "propagation_delay"
                | "dns_ttl"
                | "dns_challenge_override_domain" => Verdict::differs(
                    "Lockgate looks until the record is there: acme.dns.propagation",
                ),
                "ca" => self.options.directory(arg),
                "email" => self.options.email(arg),
                "on_demand" => match self.options.acme.iter().any(|(key, _)| key == "on_demand") {
                    true => Verdict::Converted,
                    false => {
                        Verdict::differs("certificates on demand need a permission: acme.on_demand")
                    }
                },
                "issuer" if arg == Some("internal") => {
                    internal = true;
                    Verdict::Converted
                }
                "issuer" if arg == Some("acme") && line.inner().is_empty() => Verdict::Default,
                "protocols" => match line.args().first().map(String::as_str) {
                    Some("tls1.3") => {
                        keys.push(("policy".to_owned(), "modern".into()));
                        Verdict::Converted
                    }
                    Some("tls1.2")
                        if line.args().len() == 1
                            || line.args().last().is_some_and(|one| one == "tls1.3") =>
                    {
                        Verdict::Default
                    }
                    Some("tls1.2") => {
                        let versions = vec![("versions".to_owned(), vec!["1.2"].into())];
                        keys.push(("policy".to_owned(), DraftValue::Inline(versions)));
                        Verdict::Converted
                    }
                    _ => Verdict::not_supported("Lockgate speaks TLS 1.2 and 1.3", None),
                },
                "client_auth" => {
                    self.client_auth(line, &mut keys);
                    continue;
                }
                "key_type" if arg == Some("p256") => Verdict::Default,
                "ciphers" | "curves" | "alpn" | "key_type" => Verdict::differs(
                    "the choice is Lockgate's own: `tls.policy` and `protocols` change it",
                ),
                "load" => Verdict::not_supported(
                    "certificates are named one by one, or by a pattern",
                    Some("tls = { certs = [\"/etc/tls/*.pem\"] }"),
                ),
                _ => Verdict::not_supported("this is not known of certificates", None),
            };
            line.set_all(self.report, &verdict);
        }
        match (internal, keys.is_empty()) {
            (true, true) => Some(CaddyTls::Internal),
            (true, false) => Some(with_internal(Some(CaddyTls::Table(keys)))),
            (false, true) => None,
            (false, false) => Some(CaddyTls::Table(keys)),
        }
    }

    fn client_auth(&mut self, statement: &CaddyStatement, keys: &mut Vec<(String, DraftValue)>) {
        let mut mode = "require";
        let mut ca: Vec<&str> = Vec::new();
        let mut known = true;
        for line in statement.inner() {
            match (line.name(), line.arg()) {
                ("mode", Some("require_and_verify")) => {}
                ("mode", Some("verify_if_given")) => mode = "request",
                ("trusted_ca_cert_file", Some(file)) => ca.push(file),
                ("trust_pool", Some("file")) => {
                    ca.extend(line.args().iter().skip(1).map(String::as_str));
                    for inner in line.inner() {
                        ca.extend(inner.args().iter().map(String::as_str));
                    }
                }
                _ => known = false,
            }
        }
        let mut value = Vec::new();
        if mode != "require" {
            value.push(("mode".to_owned(), mode.into()));
        }
        let verdict = match ca.as_slice() {
            [file] if known => {
                value.push(("ca".to_owned(), (*file).into()));
                Verdict::Converted
            }
            // No client has a certificate of this file until it is made.
            _ => {
                value.clear();
                value.push(("ca".to_owned(), "/etc/lockgate/clients.pem".into()));
                Verdict::differs(
                    "a certificate of one file of authorities is asked for: \
                     /etc/lockgate/clients.pem, which you have to write",
                )
            }
        };
        keys.push(("client_auth".to_owned(), DraftValue::Inline(value)));
        statement.set_all(self.report, &verdict);
    }

    /// The places that the patterns of a site divide its paths into.
    fn places(&mut self, site: &CaddyStatement) -> CaddyPlaces {
        let mut places = CaddyPlaces::default();
        places.all.insert(CaddyPlace::Below(Vec::new()));
        let scope = CaddyScope::new(site.inner().iter(), None);
        collect_places(site.inner(), &scope, &mut places, "", 0);
        places
    }
}

fn with_internal(keys: Option<CaddyTls>) -> CaddyTls {
    match keys {
        Some(CaddyTls::Table(mut keys)) => {
            keys.insert(0, ("issuer".to_owned(), "internal".into()));
            CaddyTls::Table(keys)
        }
        _ => CaddyTls::Internal,
    }
}

/// What the statements of a site say about all of it.
#[derive(Debug, Clone, Default)]
pub(super) struct CaddySettings {
    tls: Option<CaddyTls>,
    access_log: Option<DraftValue>,
    bind: Vec<String>,
    not_found: Option<String>,
}

fn matchers_or_known(statement: &CaddyStatement, options: &CaddyOptions) -> bool {
    statement.name().starts_with('@') || options.order.knows(statement.name())
}

fn fill_matchers(
    statement: &CaddyStatement,
    options: &CaddyOptions,
    report: &mut ConversionReport,
) {
    if statement.name().starts_with('@') {
        statement.fill(report, &Verdict::Converted);
        return;
    }
    if matches!(statement.name(), "handle" | "handle_path" | "route") {
        for inner in statement.inner() {
            if matchers_or_known(inner, options) && !report.has_verdict(inner.id) {
                inner.fill(report, &Verdict::Converted);
            }
            fill_matchers(inner, options, report);
        }
    }
}

fn collect_hosts(
    statements: &[CaddyStatement],
    scope: &CaddyScope<'_>,
    hosts: &mut BTreeSet<String>,
    depth: usize,
) {
    for statement in statements {
        matchers::hosts(statement, scope, hosts);
        if depth < 64 && matches!(statement.name(), "handle" | "handle_path" | "route") {
            let inner = CaddyScope::new(statement.inner().iter(), Some(scope));
            collect_hosts(statement.inner(), &inner, hosts, depth + 1);
        }
    }
}

fn collect_places(
    statements: &[CaddyStatement],
    scope: &CaddyScope<'_>,
    places: &mut CaddyPlaces,
    stripped: &str,
    depth: usize,
) {
    let mut below = vec![stripped.to_owned()];
    for statement in statements {
        if let ("uri", Some("strip_prefix")) = (statement.name(), statement.arg())
            && let Some(prefix) = statement.args().get(1)
        {
            let prefix = prefix.trim_end_matches('/');
            let more = format!("{stripped}{prefix}");
            CaddyPattern::parse(&format!("{more}/*"), "").places(&mut places.all);
            below.push(more);
        }
    }
    for statement in statements {
        if statement.name().starts_with('@') {
            continue;
        }
        for (text, id) in matchers::patterns(statement, scope) {
            for stripped in &below {
                let pattern = CaddyPattern::parse(&text, stripped);
                places.has_letter |= pattern.has_letter();
                let mut own = BTreeSet::new();
                pattern.places(&mut own);
                for place in own {
                    places.of.entry(place.clone()).or_default().insert(id);
                    places.all.insert(place);
                }
            }
        }
        if depth < 64 && matches!(statement.name(), "handle" | "handle_path" | "route") {
            let inner = CaddyScope::new(statement.inner().iter(), Some(scope));
            let stripped = match statement.name() {
                "handle_path" => {
                    let pattern = statement.arg().unwrap_or_default();
                    let prefix = pattern.trim_end_matches('*').trim_end_matches('/');
                    format!("{stripped}{prefix}")
                }
                _ => stripped.to_owned(),
            };
            collect_places(statement.inner(), &inner, places, &stripped, depth + 1);
        }
    }
}
