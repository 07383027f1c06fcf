//! Reads a configuration with all files that it includes and merges them into one tree.
//!
//! A duplicate key is an error that names both places. Does not know any key but `include`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codes::Code;
use crate::document::{self, Branch, Integrity, TomlEntry, TomlItem, TomlValue};
use crate::environment::{Environment, is_pattern};
use crate::keys::ROOT;
use crate::keys::top::INCLUDE;
use crate::language::TreeChecker;
use crate::report::Report;
use crate::source::{ConfigFile, SourceSpan};
use crate::values::Items;

/// The tree of all files, and these files.
pub(crate) struct SourceTree {
    pub(crate) root: Branch,
    pub(crate) syntax: Integrity,
    /// The main file, for mistakes that belong to the whole.
    pub(crate) main: Arc<ConfigFile>,
    /// Every file that could be read, the main file first.
    pub(crate) sources: Vec<Arc<ConfigFile>>,
}

/// The maximum number of files; a pattern with more matches is surely a mistake.
const MAX_FILES: usize = 10_000;

/// Reads the files; `name` is the main file's path and `text` its content.
pub(crate) fn read(text: &str, name: &Path, env: &Environment, report: &mut Report) -> SourceTree {
    let path = env.absolute(name);
    let dir = path
        .parent()
        .map_or_else(|| env.absolute(Path::new("")), Path::to_owned);
    let main = Arc::new(ConfigFile {
        name: name.to_owned(),
        dir,
        order: 0,
        text: text.to_owned(),
    });
    let mut files = IncludeReader {
        env,
        report,
        seen: BTreeSet::from([path]),
        syntax: Integrity::Whole,
        sources: Vec::new(),
    };
    let root = files.tree(&main);
    SourceTree {
        root,
        syntax: files.syntax,
        main,
        sources: files.sources,
    }
}

struct IncludeReader<'a> {
    env: &'a Environment,
    report: &'a mut Report,
    seen: BTreeSet<PathBuf>,
    syntax: Integrity,
    sources: Vec<Arc<ConfigFile>>,
}

impl IncludeReader<'_> {
    /// One file, with those that it includes merged in.
    fn tree(&mut self, source: &Arc<ConfigFile>) -> Branch {
        self.sources.push(Arc::clone(source));
        let (mut root, syntax) = document::parse(source, self.env, self.report);
        if syntax == Integrity::Damaged {
            self.syntax = Integrity::Damaged;
        }
        let Some(include) = root.entries.remove("include") else {
            return root;
        };
        for (pattern, at) in self.patterns(&include) {
            for path in self.files(&pattern, &at) {
                if let Some(source) = self.open(&path, source, &at) {
                    let tree = self.tree(&source);
                    merge(&mut root, tree, Depth::Top, self.report);
                }
            }
        }
        root
    }

    fn patterns(&mut self, written: &TomlEntry) -> Vec<(PathBuf, SourceSpan)> {
        let mut checker = TreeChecker::new(self.report, self.syntax, ROOT);
        let entry = checker.entry(&INCLUDE.row(), written, "include");
        let Some(patterns) = entry.written::<Items<PathBuf>>() else {
            return Vec::new();
        };
        let placed = patterns.value.placed();
        placed
            .map(|(path, at)| (path.clone(), at.clone()))
            .collect()
    }

    /// The files that a pattern means, without those that were read already: a pattern may cover
    /// its own file, but a file that is named twice is a mistake.
    fn files(&mut self, pattern: &Path, at: &SourceSpan) -> Vec<PathBuf> {
        if !is_pattern(pattern) {
            if self.seen.contains(pattern) {
                let message = "this file is included already";
                let cure = "remove one of the two; a pattern skips files that were read";
                self.report
                    .push_at(Code::IncludedTwice, at, message, "", cure);
                return Vec::new();
            }
            return vec![pattern.to_owned()];
        }
        let found = self.env.glob(pattern);
        if found.is_empty() {
            let message = "this pattern matches no file";
            let cure =
                "a relative path starts from the folder of this file; `*` does not match `/`";
            self.report.push_at(
                Code::IncludesNothing,
                at,
                message,
                "nothing is included",
                cure,
            );
        }
        found
            .into_iter()
            .filter(|path| !self.seen.contains(path))
            .collect()
    }

    fn open(&mut self, path: &Path, from: &ConfigFile, at: &SourceSpan) -> Option<Arc<ConfigFile>> {
        self.seen.insert(path.to_owned());
        if self.seen.len() > MAX_FILES {
            return None;
        }
        let name = shown_name(path, from, at);
        let dir = path.parent().unwrap_or(&from.dir).to_owned();
        let order = self.seen.len() - 1;
        match self.env.read_file(path) {
            Ok(text) => Some(Arc::new(ConfigFile {
                name,
                dir,
                order,
                text,
            })),
            Err(error) => {
                let message = format!("{} cannot be read", name.display());
                let cure = "correct the path, or remove it from `include`";
                self.report
                    .push_at(Code::FileUnreadable, at, message, error.to_string(), cure);
                None
            }
        }
    }
}

/// The name of an included file in messages: as one would write it from where the main file was
/// named. What `${…}` brought in is not shown.
fn shown_name(path: &Path, from: &ConfigFile, at: &SourceSpan) -> PathBuf {
    let written = at.text().trim_matches(['"', '\'']);
    if written.contains("${") {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let pattern = is_pattern(written);
        return PathBuf::from(if pattern {
            format!("{written} ({file})")
        } else {
            written.to_owned()
        });
    }
    match path.strip_prefix(&from.dir) {
        Ok(below) => from.name.parent().unwrap_or(Path::new("")).join(below),
        Err(_) => path.to_owned(),
    }
}

/// Whether a list was written as tables with headers, `[[name]]`: an empty list was not.
fn are_tables(list: &[TomlItem]) -> bool {
    !list.is_empty()
        && list
            .iter()
            .all(|item| matches!(&item.node, TomlValue::Table(table) if !table.inline))
}

/// The depth of a merge: sections may be spread over files, the tables in them may not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Section,
}

fn merge(into: &mut Branch, from: Branch, depth: Depth, report: &mut Report) {
    for (name, entry) in from.entries {
        let Some(first) = into.entries.get_mut(&name) else {
            into.entries.insert(name, entry);
            continue;
        };
        match (&mut first.item.node, entry.item.node) {
            (TomlValue::Table(into), TomlValue::Table(from))
                if depth == Depth::Top && !into.inline && !from.inline =>
            {
                merge(into, from, Depth::Section, report);
            }
            // The tables of `[[test]]` may stand in several files.
            (TomlValue::List(into), TomlValue::List(from))
                if depth == Depth::Top && are_tables(into) && are_tables(&from) =>
            {
                into.extend(from);
            }
            _ => document::duplicate(report, &entry.key_at, Some(&first.key_at)),
        }
    }
}
