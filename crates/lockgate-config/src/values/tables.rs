//! Tables by keys that the user chooses: addresses, hosts, paths, names.

use std::fmt::Debug;
use std::marker::PhantomData;

use lockgate_rules::PathKey;
use lockgate_rules::pattern::is_param;
use serde_json::{Value as Json, json};

use crate::address::ListenAddr;
use crate::check::unquoted;
use crate::codes::Code;
use crate::document::{TomlEntry, TomlItem, TomlString, TomlValue};
use crate::host::SiteKey;
use crate::language::{
    KeyRow, Language, Notation, TableNaming, TreeChecker, find, names, table_schema,
};
use crate::source::SourceSpan;
use crate::table::CheckedTable;

use super::cures::{means_every, path_cure};
use super::host::not_a_host;
use super::{BindAddress, InvalidText, TextLanguage};

/// A table of these keys for each key of the user.
pub(crate) struct Tables<K> {
    keys: &'static [KeyRow],
    by: PhantomData<K>,
}

/// One table and the key that it has.
#[derive(Debug, Clone)]
pub(crate) struct Keyed<K> {
    /// The key of the table as it was written.
    pub(crate) name: String,
    pub(crate) key: K,
    pub(crate) at: SourceSpan,
    pub(crate) table: CheckedTable,
}

/// The key of a table.
pub(crate) trait TableKey: Clone + Debug + 'static {
    const BY: TableNaming;

    /// The key that a name is.
    fn parse(name: &TomlString) -> Result<Self, InvalidText>;

    /// The key at its place, where it may be looked at once more.
    fn rooted(self, _name: &TomlString, _at: &SourceSpan, _checker: &mut TreeChecker<'_>) -> Self {
        self
    }

    /// The key of a table that lacks its quotes. Other tables may name such a pool, but a site
    /// without quotes cannot be resolved.
    fn unquoted() -> Option<Self> {
        None
    }
}

/// A name of letters, digits, `-`, `_` and dots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableName;

impl<K> Tables<K> {
    pub(crate) const fn of(keys: &'static [KeyRow]) -> Self {
        Self {
            keys,
            by: PhantomData,
        }
    }
}

impl<K: TableKey> Notation for Tables<K> {
    fn expected(&self) -> String {
        let each = match K::BY {
            TableNaming::Address => "address",
            TableNaming::Site => "host",
            TableNaming::Path => "path",
            TableNaming::Name => "name",
        };
        format!("a table for each {each}")
    }

    fn reference(&self) -> String {
        names("tables of ", self.keys.iter().map(|key| key.name))
    }

    fn schema(&self) -> Json {
        json!({ "type": "object", "additionalProperties": table_schema(self.keys) })
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Table(_))
    }

    fn table(&self) -> Option<&'static [KeyRow]> {
        Some(self.keys)
    }

    fn by(&self) -> Option<TableNaming> {
        Some(K::BY)
    }
}

impl<K: TableKey> Language for Tables<K> {
    type Value = Vec<Keyed<K>>;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        let TomlValue::Table(branch) = &item.node else {
            return checker.wrong_type(self, item, path);
        };
        let keys = self.keys;
        let inside = format!("{path}.*");
        let mut tables = Vec::with_capacity(branch.entries.len());
        for (name, entry) in &branch.entries {
            let TomlValue::Table(inner) = &entry.item.node else {
                self.not_a_table(name, entry, path, checker);
                continue;
            };
            let dotted = unquoted::dotted_keys(keys, inner);
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

impl<K: TableKey> Tables<K> {
    /// Reports a value where one table for each key of the user stands.
    fn not_a_table(
        &self,
        name: &str,
        entry: &TomlEntry,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) {
        if matches!(entry.item.node, TomlValue::Broken) {
            return;
        }
        let section = path.rsplit('.').next().unwrap_or(path);
        let (table, key) = match K::BY {
            TableNaming::Address => ("listener", "address"),
            TableNaming::Site => ("site", "host or port"),
            TableNaming::Path => ("path", "path"),
            TableNaming::Name if section == "pool" => ("pool", "name"),
            TableNaming::Name => ("value", "name"),
        };
        let known = find(self.keys, name).is_some();
        let message = match known {
            true => format!("`{name}` stands in no {table}"),
            false => format!("`{name}` is not a table"),
        };
        let header = path.replace('*', "\"example.com\"");
        // A name that no key has may be the one that belongs there.
        let sample = match known {
            false if is_surely(K::BY, name) => format!("{name:?}"),
            _ => K::BY.sample().to_owned(),
        };
        let cure = format!("write the {key} into the header: [{header}.{sample}]");
        let why = format!("[{section}] holds one table for each {key}");
        checker
            .report
            .push_at(Code::WrongType, &entry.key_at, message, why, cure);
    }
}

fn key<K: TableKey>(name: &str, at: &SourceSpan, checker: &mut TreeChecker<'_>) -> Option<K> {
    let name = TomlString::plain(name);
    let key = match name.value.contains("${") {
        false => K::parse(&name),
        true => {
            let why = "`${…}` is replaced in values, not in keys";
            let cure = "write the host, port or name itself";
            Err(name.invalid(Code::BadText, "is kept as text", why, cure))
        }
    };
    match key {
        Ok(key) => Some(key.rooted(&name, at, checker)),
        Err(mistake) => mistake.report(at, checker),
    }
}

/// Whether a name is surely the key of a table.
fn is_surely(by: TableNaming, name: &str) -> bool {
    match by {
        TableNaming::Address => ListenAddr::parse(name).is_ok(),
        TableNaming::Site => name.contains(['.', ':']) && SiteKey::parse(name).is_ok(),
        TableNaming::Path => PathKey::parse(name).is_ok(),
        TableNaming::Name => false,
    }
}

impl TableKey for ListenAddr {
    const BY: TableNaming = TableNaming::Address;

    fn parse(name: &TomlString) -> Result<Self, InvalidText> {
        BindAddress.parse(name)
    }

    fn rooted(self, name: &TomlString, at: &SourceSpan, checker: &mut TreeChecker<'_>) -> Self {
        BindAddress.rooted(self, name, at, checker)
    }
}

impl TableKey for SiteKey {
    const BY: TableNaming = TableNaming::Site;

    fn parse(name: &TomlString) -> Result<Self, InvalidText> {
        let message = "is not the key of a site";
        let key = SiteKey::parse(&name.value).map_err(|error| not_a_host(name, error, message))?;
        match key.host().and_then(means_every) {
            Some(why) => Err(name.invalid(Code::BadHost, message, why, every_host(&name.value))),
            None => Ok(key),
        }
    }

    fn rooted(self, name: &TomlString, at: &SourceSpan, checker: &mut TreeChecker<'_>) -> Self {
        match self {
            SiteKey::Unix(path) => SiteKey::Unix(checker.rooted(&name.raw, &path, "unix:", at)),
            key => key,
        }
    }
}

/// The key for every host, with the port of `name`.
fn every_host(name: &str) -> String {
    let port = name.rsplit_once(':').map(|(_, port)| port);
    match port.filter(|port| port.parse::<u16>().is_ok()) {
        Some(port) => format!("write \":{port}\""),
        None => "write \":443\" with tls, or \":80\"".to_owned(),
    }
}

impl TableKey for PathKey {
    const BY: TableNaming = TableNaming::Path;

    fn parse(name: &TomlString) -> Result<Self, InvalidText> {
        PathKey::parse(&name.value).map_err(|error| {
            let cure = path_cure(error, &name.value);
            name.invalid(
                Code::BadPath,
                "is not a path to route by",
                error.reason(),
                cure,
            )
        })
    }

    fn rooted(self, name: &TomlString, at: &SourceSpan, checker: &mut TreeChecker<'_>) -> Self {
        foreign_parameter(&name.value, at, checker);
        self
    }
}

/// `:id` and `<id>` match themselves, but hardly any path has such a segment.
fn foreign_parameter(name: &str, at: &SourceSpan, checker: &mut TreeChecker<'_>) {
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
    const BY: TableNaming = TableNaming::Name;

    fn parse(name: &TomlString) -> Result<Self, InvalidText> {
        if is_table_name(&name.value) {
            return Ok(TableName);
        }
        let why = "a name has letters, digits, `-`, `_` and dots, at most 64";
        Err(name.invalid(Code::BadText, "is not a name", why, "for example `app`"))
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
