//! Sites: their addresses, certificates and logs, and the places of their paths.

use std::collections::BTreeSet;

use super::addresses;
use super::blocks::{self, CaddyStatement};
use super::certificates::{self, CaddyTls};
use super::emit::{self, CaddyPools};
use super::evaluate::CaddyEvaluator;
use super::listen;
use super::log;
use super::matchers::{CaddyMethod, CaddyRequests, CaddyScope};
use super::options::CaddyOptions;
use super::outcome::{CLOSED, CaddyAction, CaddyAnswers, CaddyFlow, CaddyOutcome, CaddyOutcomes};
use super::paths::CaddyPlace;
use super::places::{CaddyPlaces, collect_hosts, collect_places, methods_of};
use super::tests_of::{CaddyTableNames, CaddyTests};
use crate::{ConversionReport, Draft, DraftTable, DraftValue, Verdict};

/// How many directives are run for all places of all sites.
const MOST_STEPS: usize = 4_000_000;
/// How many directives are run for one place besides those of the site, because of conditions.
const MOST_STEPS_OF_PLACE: usize = 5_000;
/// The most places of one site.
const MOST_PLACES: usize = 6_000;

/// The place of a whole site.
static ROOT: CaddyPlace = CaddyPlace::Below(Vec::new());

/// Writes the sites of a source.
pub(super) struct CaddySites<'r> {
    pub(super) options: CaddyOptions,
    pub(super) report: &'r mut ConversionReport,
    pub(super) draft: Draft,
    pub(super) pools: CaddyPools,
    pub(super) tests: CaddyTests,
    pub(super) needs_acme: bool,
    pub(super) has_tls: bool,
    pub(super) has_default_log: bool,
    pub(super) has_files: bool,
    pub(super) has_proxy: bool,
    pub(super) has_letter: bool,
    steps: usize,
    keys: BTreeSet<String>,
    /// Sites that are not in the draft.
    left_out: Vec<CaddyLeftOut>,
}

/// A site of which nothing could be converted.
struct CaddyLeftOut {
    hosts: Vec<String>,
    port: Option<u16>,
    usual: u16,
    /// A table that responds with 404 in its place.
    table: DraftTable,
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
            has_default_log: false,
            has_files: false,
            has_proxy: false,
            has_letter: false,
            steps: MOST_STEPS,
            keys: BTreeSet::new(),
            left_out: Vec::new(),
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
            || (places.all.len().saturating_mul(site.size()))
                .saturating_mul(1 + methods_of(site).len())
                > self.steps
        {
            let because = "it has too many paths to work out";
            site.set_all(self.report, &Verdict::not_supported(because, None));
            return;
        }
        self.has_letter |= places.has_letter;
        let mut listeners: Vec<(Option<u16>, bool, CaddyTls, Vec<String>)> = Vec::new();
        for address in &addresses {
            let tls = certificates::of_address(
                site,
                address,
                settings.tls.clone(),
                &self.options,
                self.report,
            );
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

    /// Writes a table that responds with 404 for a site that is left out, where its requests would
    /// go to a wildcard or to a site for every host.
    pub(super) fn finish(&mut self) {
        for site in std::mem::take(&mut self.left_out) {
            let suffix = site.port.map(|port| format!(":{port}")).unwrap_or_default();
            let every = format!(":{}", site.port.unwrap_or(site.usual));
            let around = site.hosts.iter().any(|host| {
                let parent = host.split_once('.').map_or("", |(_, parent)| parent);
                let wildcard = self.keys.contains(&format!("*.{parent}{suffix}"));
                !host.is_empty() && (wildcard || self.keys.contains(&every))
            });
            if let (true, Some(first)) = (around, site.hosts.first()) {
                let key = format!("{first}{suffix}");
                if self.keys.insert(key.clone()) {
                    self.draft.top.table("site").append_table(&key, site.table);
                }
            }
        }
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
                if tls == Some(CaddyTls::Automatic) {
                    let because = "hosts of its matchers get certificates of their own names";
                    self.report.set(site.id, Verdict::differs(because));
                }
                hosts.push(host);
            }
        }
        let implied = match tls.is_some() {
            true => self.options.https_port,
            false => self.options.http_port,
        };
        let methods = methods_of(site);
        let mut groups: Vec<(Vec<String>, CaddyAnswers)> = Vec::new();
        for host in hosts {
            let requests = |method| CaddyRequests {
                host: (!host.is_empty()).then_some(host.as_str()),
                secure: tls.is_some(),
                port: port.unwrap_or(implied),
                place: &ROOT,
                method,
            };
            let unnamed = match methods.is_empty() {
                true => CaddyMethod::All,
                false => CaddyMethod::Unnamed,
            };
            let mut outcomes = CaddyAnswers {
                others: self.outcomes(site, requests(unnamed), places, settings),
                methods: Vec::new(),
            };
            for method in &methods {
                let own = requests(CaddyMethod::Named(method));
                let own = self.outcomes(site, own, places, settings);
                outcomes.methods.push((method.clone(), own));
            }
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
        requests: CaddyRequests<'_>,
        places: &CaddyPlaces,
        settings: &CaddySettings,
    ) -> CaddyOutcomes {
        let mut outcomes = CaddyOutcomes::new();
        let size = site.size();
        for place in &places.all {
            let budget = self.steps.min(size.saturating_add(MOST_STEPS_OF_PLACE));
            let mut left = budget;
            let mut evaluator = CaddyEvaluator {
                report: self.report,
                order: &self.options.order,
                requests: CaddyRequests { place, ..requests },
                places,
                trusts: self.draft.top.get("trusted").is_some(),
                steps: &mut left,
            };
            let mut flow = CaddyFlow {
                closed: settings.closed || self.options.closed,
                ..CaddyFlow::default()
            };
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
        outcomes: CaddyAnswers,
        settings: &CaddySettings,
        places: &CaddyPlaces,
    ) -> bool {
        let Some((first, aliases)) = hosts.split_first() else {
            return false;
        };
        let serves = outcomes.all().any(CaddyOutcome::serves);
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
            hosts_taken |= match serves {
                true => !self.keys.insert(key),
                false => self.keys.contains(&key),
            };
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
                self.needs_acme |= serves;
                if port.is_some() {
                    table.set("tls", DraftValue::Inline(Vec::new()));
                }
            }
            Some(CaddyTls::Internal) => table.set("tls", "internal"),
            Some(CaddyTls::Table(keys)) => {
                let only_cert = keys.iter().all(|(name, _)| name == "cert" || name == "key");
                if !only_cert && !keys.iter().any(|(name, _)| name == "cert") {
                    self.needs_acme |= serves;
                }
                table.set("tls", DraftValue::Inline(keys.clone()));
            }
        }
        if !serves {
            table.set("respond", 404_i64);
            table.comments.push(
                "Nothing of it could be converted: this keeps it from the sites around it."
                    .to_owned(),
            );
            self.left_out.push(CaddyLeftOut {
                hosts: hosts.to_vec(),
                port,
                usual: if tls.is_some() {
                    self.options.https_port
                } else {
                    self.options.http_port
                },
                table,
            });
            let because = format!("nothing of {key} could be converted: it is left out");
            self.report.set(site.id, Verdict::differs(because));
            return false;
        }
        self.has_tls |= tls.is_some();
        if tls.is_some() && self.options.only_http1 {
            table.set("protocols", vec!["http1"]);
        }
        match &settings.access_log {
            Some(log) => table.set("access_log", log.clone()),
            None => self.has_default_log |= !settings.logs,
        }
        for outcome in outcomes.all() {
            self.has_files |= matches!(outcome.action, CaddyAction::Files(_));
            self.has_proxy |= matches!(outcome.action, CaddyAction::Proxy(_));
        }
        let names = CaddyTableNames {
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

    /// What the statements of a site say about all of it.
    fn settings(&mut self, site: &CaddyStatement) -> CaddySettings {
        let mut settings = CaddySettings::default();
        for statement in site.inner() {
            match statement.name() {
                "tls" => {
                    let tls = certificates::of_site(statement, &mut self.options, self.report);
                    settings.tls = tls.or(settings.tls.take());
                }
                "log" => {
                    settings.logs = true;
                    settings.access_log = log::of_site(statement, self.report);
                }
                "skip_log" | "log_skip" if statement.args().is_empty() => {
                    settings.access_log = Some(false.into());
                }
                "bind" => {
                    let verdict = match listen::addresses(statement.args()) {
                        Some((listen, None)) => {
                            settings.bind = listen;
                            Verdict::Converted
                        }
                        Some((listen, Some(because))) => {
                            settings.bind = listen;
                            Verdict::differs(because)
                        }
                        None => {
                            // Other addresses might be open to more clients.
                            settings.closed = true;
                            let because =
                                format!("Lockgate binds addresses, not interfaces, so {CLOSED}");
                            let instead = Some("listen = [\"127.0.0.1\"]");
                            Verdict::not_supported(because, instead)
                        }
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

    /// The places that the patterns of a site divide its paths into.
    fn places(&mut self, site: &CaddyStatement) -> CaddyPlaces {
        let mut places = CaddyPlaces::default();
        places.all.insert(CaddyPlace::Below(Vec::new()));
        let scope = CaddyScope::new(site.inner().iter(), None);
        collect_places(site.inner(), &scope, &mut places, "", 0);
        places
    }
}

/// What the statements of a site say about all of it.
#[derive(Debug, Clone, Default)]
struct CaddySettings {
    tls: Option<CaddyTls>,
    access_log: Option<DraftValue>,
    bind: Vec<String>,
    not_found: Option<String>,
    closed: bool,
    logs: bool,
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
