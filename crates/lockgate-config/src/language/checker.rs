//! The checker: reads values, reports mistakes, and notes what the merged file needs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::codes::Code;
use crate::document::{Integrity, TomlEntry, TomlItem, TomlValue};
use crate::report::Report;
use crate::source::SourceSpan;
use crate::table::CheckedEntry;

use super::{KeyRow, Language};

/// The absolute forms of relative paths, by file and offset.
pub(crate) type AbsolutePaths = HashMap<(usize, usize), String>;

/// The state of one walk over the configuration.
///
/// Every mistake is reported and the walk goes on; a value with a mistake is left out, so that it
/// causes no second mistake.
pub(crate) struct TreeChecker<'a> {
    pub(crate) report: &'a mut Report,
    pub(crate) syntax: Integrity,
    /// The keys at the top of a file, for messages that send a key to its place.
    pub(crate) root: &'static [KeyRow],
    absolute: AbsolutePaths,
    /// The number of values with mistakes so far.
    broken: usize,
}

impl<'a> TreeChecker<'a> {
    pub(crate) fn new(report: &'a mut Report, syntax: Integrity, root: &'static [KeyRow]) -> Self {
        TreeChecker {
            report,
            syntax,
            root,
            absolute: AbsolutePaths::default(),
            broken: 0,
        }
    }

    /// The relative paths of the configuration, with their absolute forms.
    pub(crate) fn into_absolute(self) -> AbsolutePaths {
        self.absolute
    }

    /// Checks one entry of a table.
    pub(crate) fn entry(&mut self, key: &KeyRow, written: &TomlEntry, path: &str) -> CheckedEntry {
        let before = self.broken;
        let value = key.language.read_any(&written.item, path, self);
        CheckedEntry {
            key_at: written.key_at.clone(),
            at: written.item.at.clone(),
            value,
            broken: self.broken > before,
        }
    }

    /// Reads a value; `None` for a mistake.
    pub(crate) fn value<L: Language>(
        &mut self,
        language: &L,
        item: &TomlItem,
        path: &str,
    ) -> Option<L::Value> {
        let value = match item.node {
            TomlValue::Broken => None,
            _ => language.read(item, path, self),
        };
        self.broken += usize::from(value.is_none());
        value
    }

    /// Reports a mistake and returns no value.
    pub(crate) fn invalid<T>(
        &mut self,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) -> Option<T> {
        self.report.push_at(code, at, message, why, cure);
        None
    }

    /// The absolute path; noted for the stored configuration.
    pub(crate) fn rooted(
        &mut self,
        raw: &str,
        path: &Path,
        scheme: &str,
        at: &SourceSpan,
    ) -> PathBuf {
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

    /// Notes the text that makes a relative path absolute.
    pub(crate) fn write_before(&mut self, at: &SourceSpan, before: &str) {
        if let Some(absolute) = self.absolute.get_mut(&at.start()) {
            absolute.insert_str(0, before);
        }
    }
}
