//! Tables by keys that the user chooses: addresses, hosts, paths, names.

use std::fmt::Debug;
use std::marker::PhantomData;

use serde_json::{Value as Json, json};
use lockgate_rules::PathKey;
use lockgate_rules::pattern::is_param;

use crate::address::ListenAddr;
use crate::check::{Checker, means_every, path_cure, unquoted};
use crate::codes::Code;
use crate::document::{Entry, Item, Node, Text};
use crate::host::SiteKey;
use crate::keys::{self, By, Row};
use crate::place::At;
use crate::schema;

use super::address::listener;
use super::host::host_cure;
use super::{Language, Syntax, Table};

/// A table of these keys for each key of the user.
pub(crate) struct Tables<K> {
    keys: &'static [Row],
    by: PhantomData<K>,
}

/// One table and the key that it has.
#[derive(Debug, Clone)]
pub(crate) struct Keyed<K> {
    /// The key as written.
    pub(crate) name: String,
    pub(crate) key: K,
    pub(crate) at: At,
    pub(crate) table: Table,
}

/// The key of a table.
pub(crate) trait TableKey: Clone + Debug + 'static {
    const BY: By;

    /// Reads a key; nothing where it is a mistake, which has been reported then.
    fn read(name: &str, at: &At, checker: &mut Checker<'_>) -> Option<Self>;

    /// The key of a table whose name lacks its quotes: others may name a pool, but a site without
    /// quotes serves nothing that could be looked at.
    fn unquoted() -> Option<Self> {
        None
    }
}

/// A name of letters, digits, `-`, `_` and dots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableName;

impl<K> Tables<K> {
    pub(crate) const fn of(keys: &'static [Row]) -> Self {
        Self {
            keys,
            by: PhantomData,
        }
    }
}

impl<K: TableKey> Syntax for Tables<K> {
    fn expected(&self) -> String {
        let each = match K::BY {
            By::Address => "address",
            By::Site => "host",
            By::Path => "path",
            By::Name => "name",
        };
        format!("a table for each {each}")
    }

    fn reference(&self) -> String {
        crate::reference::names("tables of ", self.keys.iter().map(|key| key.name))
    }

    fn schema(&self) -> Json {
        json!({ "type": "object", "additionalProperties": schema::table(self.keys) })
    }

    fn takes(&self, node: &Node) -> bool {
        matches!(node, Node::Table(_))
    }

    fn table(&self) -> Option<&'static [Row]> {
        Some(self.keys)
    }

    fn by(&self) -> Option<By> {
        Some(K::BY)
    }
}

impl<K: TableKey> Language for Tables<K> {
    type Value = Vec<Keyed<K>>;

    fn read(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Self::Value> {
        let Node::Table(branch) = &item.node else {
            return checker.wrong_type(self, item, path);
        };
        let keys = self.keys;
        let inside = format!("{path}.*");
        let mut tables = Vec::new();
        for (name, entry) in &branch.entries {
            let Node::Table(inner) = &entry.item.node else {
                not_a_table(K::BY, keys, name, entry, path, checker);
                continue;
            };
            let dotted = unquoted::dotted(keys, inner);
            for one in &dotted {
                let table = checker.unquoted_table(K::BY, keys, one, path);
                if let (Some(table), Some(key)) = (table, K::unquoted()) {
                    let (name, at) = (one.name().to_owned(), one.at().clone());
                    tables.push(Keyed {
                        name,
                        key,
                        at,
                        table,
                    });
                }
            }
            let others = (!dotted.is_empty()).then(|| unquoted::others(keys, inner));
            let inner = others.as_ref().unwrap_or(inner);
            if !dotted.is_empty() && inner.entries.is_empty() {
                continue;
            }
            // The keys inside are checked even when that of the table cannot be read.
            let at = &entry.key_at;
            let table = checker.table(keys, inner, &inside, Some(at));
            if let Some(key) = key(name, at, checker) {
                let (name, at) = (name.clone(), at.clone());
                tables.push(Keyed {
                    name,
                    key,
                    at,
                    table,
                });
            }
        }
        Some(tables)
    }
}

fn key<K: TableKey>(name: &str, at: &At, checker: &mut Checker<'_>) -> Option<K> {
    if !name.contains("${") {
        return K::read(name, at, checker);
    }
    let message = format!("{name:?} is kept as text");
    let why = "`${…}` is replaced in values, not in keys";
    let cure = "write the host, port or name itself";
    checker.invalid(Code::BadText, at, message, why, cure)
}

fn not_a_table(
    by: By,
    keys: &'static [Row],
    name: &str,
    entry: &Entry,
    path: &str,
    checker: &mut Checker<'_>,
) {
    if matches!(entry.item.node, Node::Broken) {
        return;
    }
    let section = path.rsplit('.').next().unwrap_or(path);
    let (table, key) = match by {
        By::Address => ("listener", "address"),
        By::Site => ("site", "host or port"),
        By::Path => ("path", "path"),
        By::Name if section == "pool" => ("pool", "name"),
        By::Name => ("value", "name"),
    };
    let known = keys::find(keys, name).is_some();
    let message = match known {
        true => format!("`{name}` stands in no {table}"),
        false => format!("`{name}` is not a table"),
    };
    let header = path.replace('*', "\"example.com\"");
    // A name that no key has may be the one that belongs there.
    let sample = match known {
        false if is_surely(by, name) => format!("{name:?}"),
        _ => by.sample().to_owned(),
    };
    let cure = format!("write the {key} into the header: [{header}.{sample}]");
    let why = format!("[{section}] holds one table for each {key}");
    checker
        .report
        .push_at(Code::WrongType, &entry.key_at, message, why, cure);
}

/// Whether a name is surely the key of a table.
fn is_surely(by: By, name: &str) -> bool {
    match by {
        By::Address => ListenAddr::parse(name).is_ok(),
        By::Site => name.contains(['.', ':']) && SiteKey::parse(name).is_ok(),
        By::Path => PathKey::parse(name).is_ok(),
        By::Name => false,
    }
}

impl TableKey for ListenAddr {
    const BY: By = By::Address;

    fn read(name: &str, at: &At, checker: &mut Checker<'_>) -> Option<Self> {
        let text = Text {
            raw: name.to_owned(),
            value: name.to_owned(),
        };
        listener(&text, at, checker)
    }
}

impl TableKey for SiteKey {
    const BY: By = By::Site;

    fn read(name: &str, at: &At, checker: &mut Checker<'_>) -> Option<Self> {
        let (why, cure) = match SiteKey::parse(name) {
            Ok(SiteKey::Unix(path)) => {
                return Some(SiteKey::Unix(checker.rooted(name, &path, "unix:", at)));
            }
            Ok(key) => match key.host().and_then(means_every) {
                Some(why) => (why, every_host(name)),
                None => return Some(key),
            },
            Err(error) => (error.reason(), host_cure(error, Some(name))),
        };
        let message = format!("{name:?} is not the key of a site");
        checker.invalid(Code::BadHost, at, message, why, cure)
    }
}

/// How every host is written, with the port that stands in `name`.
fn every_host(name: &str) -> String {
    let port = name.rsplit_once(':').map(|(_, port)| port);
    match port.filter(|port| port.parse::<u16>().is_ok()) {
        Some(port) => format!("write \":{port}\""),
        None => "write \":443\" with tls, or \":80\"".to_owned(),
    }
}

impl TableKey for PathKey {
    const BY: By = By::Path;

    fn read(name: &str, at: &At, checker: &mut Checker<'_>) -> Option<Self> {
        match PathKey::parse(name) {
            Ok(key) => {
                foreign_parameter(name, at, checker);
                Some(key)
            }
            Err(error) => {
                let message = format!("{name:?} is not a path to route by");
                let cure = path_cure(error, name);
                checker.invalid(Code::BadPath, at, message, error.reason(), cure)
            }
        }
    }
}

/// `:id` and `<id>` match themselves, but hardly any path has such a segment.
fn foreign_parameter(name: &str, at: &At, checker: &mut Checker<'_>) {
    let Some((segment, param)) = name.split('/').find_map(|segment| {
        let inner = segment
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix('>'));
        let param = inner
            .or_else(|| segment.strip_prefix(':'))
            .filter(|param| is_param(param))?;
        Some((segment, param))
    }) else {
        return;
    };
    let message = format!("`{segment}` matches only itself");
    let cure = format!("write {:?}", name.replace(segment, &format!("{{{param}}}")));
    let why = "a parameter stands in braces";
    checker
        .report
        .push_at(Code::LeftAsItIs, at, message, why, cure);
}

impl TableKey for TableName {
    const BY: By = By::Name;

    fn read(name: &str, at: &At, checker: &mut Checker<'_>) -> Option<Self> {
        if is_table_name(name) {
            return Some(TableName);
        }
        let message = format!("{name:?} is not a name");
        let why = "a name has letters, digits, `-`, `_` and dots, at most 64";
        let cure = "for example `app`";
        checker.invalid(Code::BadText, at, message, why, cure)
    }

    fn unquoted() -> Option<Self> {
        Some(TableName)
    }
}

/// Whether a table can be called so, as `[pool.NAME]` and `[values.NAME]`.
pub(crate) fn is_table_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}
