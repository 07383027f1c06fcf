//! Walks what was written against the table of keys.
//!
//! Every mistake is reported and the walk goes on; what was wrong has no value, so that no second
//! mistake is made of it. Does not know how values are written: see `values`; nor what keys mean
//! together: see `resolve`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::codes::Code;
use crate::document::{Branch, Entry as Written, Item, Node, Syntax as Whole};
use crate::keys::{self, Row, Unset};
use crate::newcomers::{self, Meaning};
use crate::place::At;
use crate::report::Report;
use crate::values::{Entry, Language, Strange, Table};

use places::{join, nearby, reading};

pub(crate) use cures::{means_every, path_cure};
pub(crate) use places::FEW;

mod cures;
mod places;
mod quantity;
pub(crate) mod unquoted;
mod wrong;

/// Paths of which the absolute form is known, by the file and offset where they were written.
pub(crate) type Absolute = HashMap<(usize, usize), String>;

/// The walk.
pub(crate) struct Checker<'a> {
    pub(crate) report: &'a mut Report,
    syntax: Whole,
    absolute: Absolute,
    /// How many values were mistakes so far.
    broken: usize,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(report: &'a mut Report, syntax: Whole) -> Self {
        Checker {
            report,
            syntax,
            absolute: Absolute::default(),
            broken: 0,
        }
    }

    /// The paths that were written relatively.
    pub(crate) fn into_absolute(self) -> Absolute {
        self.absolute
    }

    /// Checks a table. `path` is that of the table in the reference: empty, `tls`, `tcp.*.proxy`.
    pub(crate) fn table(
        &mut self,
        keys: &'static [Row],
        branch: &Branch,
        path: &str,
        at: Option<&At>,
    ) -> Table {
        let lost = self.syntax == Whole::Damaged;
        let mut table = Table::default();
        let mut strange = Strange {
            any: lost,
            lost,
            ..Strange::default()
        };
        for (name, written) in &branch.entries {
            let is_table = matches!(written.item.node, Node::Table(_));
            if let Some(key) = keys::find(keys, name) {
                let entry = self.entry(key, written, &join(path, name));
                // A table where none can be was meant as another key.
                strange.any |= entry.value.is_none() && is_table;
                table.entries.insert(key.name, entry);
                continue;
            }
            strange.any = true;
            strange.tables |= is_table;
            strange
                .meant
                .extend(self.unknown(keys, name, written, path));
        }
        table.strange = strange;
        if let Some(at) = at {
            self.required(keys, &table, at);
        }
        table
    }

    /// Checks one entry of a table.
    pub(crate) fn entry(&mut self, key: &Row, written: &Written, path: &str) -> Entry {
        let before = self.broken;
        let value = key.language.read_any(&written.item, path, self);
        Entry {
            key_at: written.key_at.clone(),
            at: written.item.at.clone(),
            value,
            broken: self.broken > before,
        }
    }

    /// Reads a value; nothing where it is a mistake.
    pub(crate) fn value<L: Language>(
        &mut self,
        language: &L,
        item: &Item,
        path: &str,
    ) -> Option<L::Value> {
        let value = match item.node {
            Node::Broken => None,
            _ => language.read(item, path, self),
        };
        self.broken += usize::from(value.is_none());
        value
    }

    /// Reports a mistake: there is no value.
    pub(crate) fn invalid<T>(
        &mut self,
        code: Code,
        at: &At,
        message: impl Into<String>,
        why: &str,
        cure: impl Into<String>,
    ) -> Option<T> {
        self.report.push_at(code, at, message, why, cure);
        None
    }

    /// The path from the root on; notes how to write it so, for the configuration that is kept.
    pub(crate) fn rooted(&mut self, raw: &str, path: &Path, scheme: &str, at: &At) -> PathBuf {
        let dir = &at.source.dir;
        if path.is_relative() {
            let written = raw.strip_prefix(scheme).unwrap_or(raw);
            let written = match scheme {
                "" => written,
                _ => written.trim_start_matches("//"),
            };
            let absolute = format!("{scheme}{}", dir.join(written).display());
            self.absolute.insert(at.start(), absolute);
        }
        dir.join(path)
    }

    /// Notes what stands before a path that was written relatively.
    pub(crate) fn write_before(&mut self, at: &At, before: &str) {
        if let Some(absolute) = self.absolute.get_mut(&at.start()) {
            absolute.insert_str(0, before);
        }
    }

    fn required(&mut self, keys: &'static [Row], table: &Table, at: &At) {
        // What was meant by a strange key is not missing.
        let missing = |key: &&Row| {
            matches!(key.default, Unset::Required)
                && !table.entries.contains_key(key.name)
                && !table.strange.meant_one_of(&[key.name])
        };
        for key in keys.iter().filter(missing) {
            let message = format!("`{}` is missing", key.name);
            let cure = format!("add {} = {}", key.name, key.example);
            self.report
                .push_at(Code::MissingKey, at, message, "this table needs it", cure);
        }
    }

    /// Reports the key; which one was meant by it, if that is known.
    fn unknown(
        &mut self,
        keys: &'static [Row],
        name: &str,
        entry: &Written,
        path: &str,
    ) -> Option<&'static str> {
        let place = reading(path);
        let unknown = format!("no key is called `{name}` {place}");
        let later = format!("`{name}` is not in this version");
        let is_path = name.starts_with('/');
        // A key of the site behind the header of a path is no other name for itself.
        let is_ours = |meaning: &Meaning| path == "site.*.path.*" && meaning.key() == Some(name);
        let meaning =
            newcomers::meaning(keys, name).filter(|meaning| !is_path && !is_ours(meaning));
        let (code, message, why, cure) = match meaning {
            Some(Meaning::Write(cure)) => {
                (Code::UnknownKey, unknown, "unknown key", cure.to_owned())
            }
            Some(Meaning::Later(cure)) => {
                (Code::NotYet, later, "it will come later", cure.to_owned())
            }
            Some(Meaning::Absent(cure)) => (
                Code::NotYet,
                later,
                "Lockgate does not do this",
                cure.to_owned(),
            ),
            None => {
                let cure = match path {
                    "" => unquoted::without_section(name, &entry.item),
                    _ => None,
                };
                let cure = cure.unwrap_or_else(|| nearby(keys, name, path));
                (Code::UnknownKey, unknown, "unknown key", cure)
            }
        };
        self.report.push_at(code, &entry.key_at, message, why, cure);
        match meaning {
            Some(meaning) => meaning.key(),
            None if is_path => Some("to"),
            None => newcomers::nearest(name, keys.iter().map(|key| key.name)),
        }
    }
}

#[cfg(test)]
mod tests;
