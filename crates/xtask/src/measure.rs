//! Figures about the sources of a checkout: sizes, comments, names, import cycles, floors.
//!
//! Tests, benches, fixtures and `#[cfg(test)]` modules are left out. Nothing is compiled: macros
//! are not expanded and names are resolved as far as syntax allows.

mod comments;
mod components;
mod floors;
mod imports;
mod items;
mod sources;
mod table;
mod tokens;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use comments::Comments;
use imports::Component;
use items::{Items, SharedNames};
use sources::{Crate, SourceFile};
use table::Column;
use tokens::Lexemes;

/// The measured crates of one checkout.
pub(crate) struct Workspace {
    crates: Vec<CrateFigures>,
}

/// The figures of one crate.
struct CrateFigures {
    name: String,
    files: Vec<FileFigures>,
    cycles: Vec<Component>,
    /// What breaks its floors.
    breaches: Vec<String>,
}

/// The figures of one file.
struct FileFigures {
    path: String,
    lines: usize,
    /// Lines that are neither blank nor comments.
    code_lines: usize,
    lexemes: Lexemes,
    comments: Comments,
    items: Items,
}

impl Workspace {
    /// Measures every crate below `root`.
    pub(crate) fn read(root: &Path) -> Result<Workspace, Box<dyn Error>> {
        let crates = sources::crates(root)?;
        Ok(Workspace {
            crates: crates.iter().map(CrateFigures::of).collect(),
        })
    }

    /// A Markdown table: a row per figure, a column for all crates and one per crate.
    pub(crate) fn table(&self) -> String {
        let total = Column {
            name: "total",
            files: self.files().collect(),
            cycles: self.crates.iter().flat_map(|one| &one.cycles).collect(),
        };
        let each = self.crates.iter().map(|one| Column {
            name: &one.name,
            files: one.files.iter().collect(),
            cycles: one.cycles.iter().collect(),
        });
        table::markdown(&std::iter::once(total).chain(each).collect::<Vec<_>>())
    }

    /// The components of import cycles, with the edges within each.
    pub(crate) fn list_cycles(&self) -> String {
        let mut text = String::from("import cycles\n");
        for one in &self.crates {
            for component in &one.cycles {
                let _ = writeln!(text, "{}: {} files", one.name, component.files.len());
                for (from, to) in &component.edges {
                    let _ = writeln!(text, "  {from} -> {to}");
                }
            }
        }
        text
    }

    /// The imports and dependencies that break the floors of modules and crates.
    pub(crate) fn list_floors(&self) -> String {
        let mut text = String::from("imports from the same floor or a higher one\n");
        for line in self.crates.iter().flat_map(|one| &one.breaches) {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// The type names that more than one type has, with the files that define them.
    pub(crate) fn list_names(&self) -> String {
        let types = self.files().flat_map(|file| {
            let names = file.items.types.iter();
            names.map(move |name| (name.as_str(), file.path.as_str()))
        });
        let mut text = String::from("type names that are defined more than once\n");
        for (name, paths) in SharedNames::of(types).names {
            let _ = writeln!(text, "{name}: {}", paths.join(" "));
        }
        text
    }

    /// The comment lines with a word that names no thing.
    pub(crate) fn list_words(&self) -> String {
        let mut text = String::from("comment lines with a word that names no thing\n");
        for file in self.files() {
            for (number, line) in &file.comments.vague {
                let _ = writeln!(text, "{}:{number}: {line}", file.path);
            }
        }
        text
    }

    fn files(&self) -> impl Iterator<Item = &FileFigures> {
        self.crates.iter().flat_map(|one| &one.files)
    }
}

impl CrateFigures {
    fn of(source: &Crate) -> CrateFigures {
        CrateFigures {
            name: source.name.clone(),
            files: source.files.iter().map(FileFigures::of).collect(),
            cycles: imports::cycles(&source.files),
            breaches: floors::breaches(source),
        }
    }
}

impl FileFigures {
    fn of(file: &SourceFile) -> FileFigures {
        let comments = Comments::of(&file.lines);
        let blank = file.lines.iter().filter(|(_, line)| line.trim().is_empty());
        FileFigures {
            path: file.path.clone(),
            lines: file.lines.len(),
            code_lines: file.lines.len() - comments.lines - blank.count(),
            lexemes: Lexemes::of(&file.syntax),
            comments,
            items: Items::of(&file.syntax),
        }
    }
}
