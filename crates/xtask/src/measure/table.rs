//! The table of figures, as Markdown.

use std::fmt::Write;

use super::FileFigures;
use super::imports::Component;
use super::items::{Function, SharedNames};

const LONG_FILE: usize = 400;

/// A column: one crate, or all of them.
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    pub(super) files: Vec<&'a FileFigures>,
    pub(super) cycles: Vec<&'a Component>,
}

type Figure = fn(&Column<'_>) -> String;

const ROWS: [(&str, Figure); 21] = [
    ("files", |column| column.files.len().to_string()),
    ("lines", |column| column.sum(|file| file.lines).to_string()),
    ("tokens", |column| column.tokens().to_string()),
    ("file lines p50/p90/max", |column| column.file_lines()),
    ("files > 400 lines", |column| column.long_files()),
    ("fn lines p50/p90/p99/max", |column| {
        Spread::of(column.functions().map(|function| function.lines)).four()
    }),
    ("fn tokens p50/p90/p99/max", |column| {
        Spread::of(column.functions().map(|function| function.tokens)).four()
    }),
    ("fn lines p50, > 1 statement", |column| {
        Spread::of(column.longer_functions().map(|function| function.lines))
            .at(50)
            .to_string()
    }),
    ("fn tokens p50, > 1 statement", |column| {
        Spread::of(column.longer_functions().map(|function| function.tokens))
            .at(50)
            .to_string()
    }),
    ("functions per 1,000 tokens", |column| {
        ratio(1000 * column.functions().count(), column.tokens())
    }),
    ("comment lines / lines not blank", |column| {
        let comments = column.sum(|file| file.comments.lines);
        percent(comments, comments + column.sum(|file| file.code_lines))
    }),
    ("pub items documented", |column| {
        percent(
            column.sum(|file| file.items.documented),
            column.sum(|file| file.items.public),
        )
    }),
    ("unsafe sites (files)", |column| {
        let sites = column.sum(|file| file.lexemes.unsafe_sites());
        let files = column
            .files
            .iter()
            .filter(|file| file.lexemes.unsafe_sites() > 0);
        format!("{sites} ({})", files.count())
    }),
    ("unwrap/expect per 1k code lines", |column| {
        let unwraps = column.sum(|file| file.lexemes.unwraps());
        ratio(1000 * unwraps, column.sum(|file| file.code_lines))
    }),
    ("structs with 10+ fields", |column| {
        let wide = column.sum(|file| file.items.wide_structs);
        format!(
            "{wide} ({})",
            percent(wide, column.sum(|file| file.items.structs))
        )
    }),
    ("fns with > 5 params besides self", |column| {
        column.sum(|file| file.items.long_signatures).to_string()
    }),
    ("files in import cycles (largest)", |column| {
        column.files_in_cycles()
    }),
    ("type names defined more than once", |column| {
        column.shared_names().names.len().to_string()
    }),
    ("types that share their name", |column| {
        let shared = column.shared_names();
        percent(shared.definitions(), shared.types)
    }),
    ("comment lines with vague words", |column| {
        let vague = column.sum(|file| file.comments.vague.len());
        format!(
            "{vague} ({})",
            percent(vague, column.sum(|file| file.comments.lines))
        )
    }),
    ("one-line docs of ≤ 4 words / doc lines", |column| {
        percent(
            column.sum(|file| file.comments.short_docs),
            column.sum(|file| file.comments.doc_lines),
        )
    }),
];

/// The figures of each column, a row per figure.
pub(super) fn markdown(columns: &[Column<'_>]) -> String {
    let mut text = String::from("| |");
    for column in columns {
        let _ = write!(text, " {} |", column.name);
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len()));
    for (name, figure) in ROWS {
        let _ = write!(text, "| {name} |");
        for column in columns {
            let _ = write!(text, " {} |", figure(column));
        }
        text.push('\n');
    }
    text
}

impl Column<'_> {
    fn sum(&self, figure: impl Fn(&FileFigures) -> usize) -> usize {
        self.files.iter().map(|file| figure(file)).sum()
    }

    fn tokens(&self) -> usize {
        self.sum(|file| file.lexemes.len())
    }

    fn functions(&self) -> impl Iterator<Item = &Function> {
        self.files.iter().flat_map(|file| &file.items.functions)
    }

    fn longer_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions().filter(|function| function.statements > 1)
    }

    fn file_lines(&self) -> String {
        let lines = Spread::of(self.files.iter().map(|file| file.lines));
        format!("{}/{}/{}", lines.at(50), lines.at(90), lines.at(100))
    }

    fn long_files(&self) -> String {
        let long = self.files.iter().filter(|file| file.lines > LONG_FILE);
        percent(long.count(), self.files.len())
    }

    fn files_in_cycles(&self) -> String {
        let sizes = self.cycles.iter().map(|component| component.files.len());
        format!(
            "{} ({})",
            sizes.clone().sum::<usize>(),
            sizes.max().unwrap_or(0)
        )
    }

    fn shared_names(&self) -> SharedNames<'_> {
        SharedNames::of(self.files.iter().flat_map(|file| {
            let names = file.items.types.iter();
            names.map(move |name| (name.as_str(), file.path.as_str()))
        }))
    }
}

/// Sizes in ascending order.
struct Spread(Vec<usize>);

impl Spread {
    fn of(sizes: impl Iterator<Item = usize>) -> Spread {
        let mut sizes: Vec<_> = sizes.collect();
        sizes.sort_unstable();
        Spread(sizes)
    }

    /// The smallest size that `percent` of all sizes do not exceed; 0 without sizes.
    fn at(&self, percent: usize) -> usize {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }

    fn four(&self) -> String {
        format!(
            "{}/{}/{}/{}",
            self.at(50),
            self.at(90),
            self.at(99),
            self.at(100)
        )
    }
}

/// A share; nothing has no share.
fn percent(part: usize, all: usize) -> String {
    match all {
        0 => "–".to_owned(),
        _ => format!("{} %", ratio(100 * part, all)),
    }
}

fn ratio(part: usize, all: usize) -> String {
    format!("{:.1}", part as f64 / all.max(1) as f64)
}
