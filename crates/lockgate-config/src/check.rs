//! The check of a configuration against the tables of keys.
//!
//! The notation of values is in `values`, the relations between keys in `resolve`.

use crate::codes::Code;
use crate::document::{Branch, Integrity, TomlEntry, TomlValue};
use crate::foreign_names::{self, Meaning};
use crate::key_paths::{join, place_name, unknown_key_cure};
use crate::language::{KeyRow, TreeChecker, Unset, find};
use crate::sorted_map::SortedMap;
use crate::source::SourceSpan;
use crate::spelling::nearest;
use crate::table::{CheckedTable, UnknownKeys};

mod mismatch;
pub(crate) mod unquoted;

impl TreeChecker<'_> {
    /// Checks a table. `path` is that of the table in the reference: empty, `tls`, `tcp.*.proxy`.
    pub(crate) fn table(
        &mut self,
        keys: &'static [KeyRow],
        branch: &Branch,
        path: &str,
        at: Option<&SourceSpan>,
    ) -> CheckedTable {
        let lost = self.syntax == Integrity::Damaged;
        let mut table = CheckedTable {
            entries: SortedMap::with_capacity(branch.entries.len()),
            ..CheckedTable::default()
        };
        let mut strange = UnknownKeys {
            any: lost,
            lost,
            ..UnknownKeys::default()
        };
        for (name, written) in &branch.entries {
            let is_table = matches!(written.item.node, TomlValue::Table(_));
            if let Some(key) = find(keys, name) {
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

    fn required(&mut self, keys: &'static [KeyRow], table: &CheckedTable, at: &SourceSpan) {
        // What was meant by a strange key is not missing.
        let missing = |key: &&KeyRow| {
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

    /// Reports an unknown key; returns the key that it probably stands for, if that is known.
    fn unknown(
        &mut self,
        keys: &'static [KeyRow],
        name: &str,
        entry: &TomlEntry,
        path: &str,
    ) -> Option<&'static str> {
        let place = place_name(path);
        let unknown = format!("no key is called `{name}` {place}");
        let later = format!("`{name}` is not in this version");
        let is_path = name.starts_with('/');
        // A key of the site behind the header of a path is no other name for itself.
        let is_ours = |meaning: &Meaning| path == "site.*.path.*" && meaning.key() == Some(name);
        let meaning = foreign_names::meaning(|key| find(keys, key).is_some(), name)
            .filter(|meaning| !is_path && !is_ours(meaning));
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
                let cure = cure.unwrap_or_else(|| unknown_key_cure(self.root, keys, name, path));
                (Code::UnknownKey, unknown, "unknown key", cure)
            }
        };
        self.report.push_at(code, &entry.key_at, message, why, cure);
        match meaning {
            Some(meaning) => meaning.key(),
            None if is_path => Some("to"),
            None => nearest(name, keys.iter().map(|key| key.name)),
        }
    }
}
