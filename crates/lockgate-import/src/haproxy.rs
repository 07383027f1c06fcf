//! Configurations of HAProxy.
//!
//! # How requests are proven to go where they went
//! HAProxy takes the first rule that matches, Lockgate the most specific table. So all requests are
//! divided into parts, by the hosts and paths that rules name; for each part the rules are walked
//! through in HAProxy's order. A condition about hosts, paths, ports and TLS is true or false for all
//! requests of a part; what is left of a condition, an address or a header, is converted where a
//! table can say it. A restriction that no table can say closes the part: `deny` for every client.

mod acls;
mod assemble;
mod backends;
mod binds;
mod changes;
mod checks;
mod conditions;
mod fields;
mod limits;
mod notes;
mod patterns;
mod plan;
mod proxies;
mod relays;
mod restrictions;
mod rewrites;
mod rules;
mod sections;
mod servers;
mod settings;
mod site_options;
mod site_table;
mod sites;
mod tls_policy;
mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use self::backends::HaproxyTarget;
use self::binds::HaproxyListener;
use self::sections::{HaproxyKind, HaproxySource};
use self::site_table::HaproxySite;
use self::tls_policy::HaproxyTls;
use crate::{
    ConversionReport, Draft, DraftTable, DraftValue, ImportError, Imported, SourceFiles,
    StatementId,
};

/// The name of a section's own stick table.
const LISTS_OF_ACL: &str = "";

/// What is known while a source is converted.
struct Importer<'a> {
    source: &'a HaproxySource,
    files: &'a dyn SourceFiles,
    report: &'a mut ConversionReport,
    draft: Draft,
    pools: Vec<(String, DraftTable)>,
    pool_names: HashMap<String, usize>,
    targets: HashMap<(usize, Option<u16>, bool), HaproxyTarget>,
    /// Sites that are not written yet, because other listeners decide about their keys.
    finished: Vec<(HaproxyListener, HaproxySite)>,
    tcp: Vec<(String, DraftTable, Option<StatementId>)>,
    tests: Vec<DraftTable>,
    /// `ca-base` and `crt-base`.
    bases: HashMap<String, String>,
    /// Periods of stick tables that count requests of clients, by section.
    rates: HashMap<String, u64>,
    suites: Vec<&'static str>,
    tls: HaproxyTls,
    /// Limits of connections of which the least holds.
    connections: Vec<i64>,
    /// Times of the `timeouts` at the top, in milliseconds.
    top_timeouts: HashMap<&'static str, u64>,
    top_lines: HashSet<StatementId>,
    needs_trusted: bool,
    /// What a frontend may still be asked for, and the cost of each question.
    work: Option<usize>,
    cost: usize,
    /// Whether a section answers requests.
    any_http: bool,
    /// The most connections of one client.
    per_client: Option<i64>,
    /// The `max` of each endpoint: it has one.
    max: HashMap<String, i64>,
    /// Lists of users that a route asks for.
    users: HashSet<String>,
    /// Ports that the source binds for IPv4 alone, and those that it binds for IPv6.
    ipv4_ports: HashSet<u16>,
    ipv6_ports: HashSet<u16>,
    /// What the whole file does otherwise: comments at its start.
    notes: BTreeSet<&'static str>,
}

/// As [`crate::import`].
pub(crate) fn import(paths: &[PathBuf], files: &dyn SourceFiles) -> Result<Imported, ImportError> {
    let mut report = ConversionReport::default();
    let source = HaproxySource::read(paths, files, &mut report)?;
    let mut importer = Importer {
        source: &source,
        files,
        report: &mut report,
        draft: Draft::default(),
        pools: Vec::new(),
        pool_names: HashMap::new(),
        targets: HashMap::new(),
        finished: Vec::new(),
        tcp: Vec::new(),
        tests: Vec::new(),
        bases: HashMap::new(),
        rates: HashMap::new(),
        suites: Vec::new(),
        tls: HaproxyTls::default(),
        connections: Vec::new(),
        top_timeouts: HashMap::new(),
        top_lines: HashSet::new(),
        needs_trusted: false,
        work: None,
        cost: 0,
        any_http: false,
        per_client: None,
        max: HashMap::new(),
        users: HashSet::new(),
        ipv4_ports: HashSet::new(),
        ipv6_ports: HashSet::new(),
        notes: BTreeSet::new(),
    };
    for section in &source.sections {
        if section.kind == HaproxyKind::Global {
            settings::global(section, &mut importer);
        }
    }
    importer.top_level();
    importer.stick_tables();
    for (at, section) in source.sections.iter().enumerate() {
        if matches!(section.kind, HaproxyKind::Frontend | HaproxyKind::Listen) {
            importer.front(at);
        }
    }
    importer.unused_backends();
    importer.userlists();
    settings::plain_statements(&source, &mut importer);
    let draft = importer.assemble();
    Ok(Imported { draft, report })
}

/// Sets a key of an inline table.
fn inline(table: &mut DraftTable, name: &str, key: &str, value: impl Into<DraftValue>) {
    let value = value.into();
    match table.get_mut(name) {
        Some(DraftValue::Inline(keys)) => match keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => keys.push((key.to_owned(), value)),
        },
        _ => table.set(name, DraftValue::Inline(vec![(key.to_owned(), value)])),
    }
}
