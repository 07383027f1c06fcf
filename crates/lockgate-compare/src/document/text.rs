//! A comparison for a terminal: columns as wide as their widest cell.

use super::{ComparisonDocument, LEGEND, Sheet};
use lockgate_report::escape::terminal;

pub(super) fn render(document: &ComparisonDocument) -> String {
    let mut out = format!("{}\n", terminal(&document.headline()));
    for (name, value) in &document.facts {
        out += &format!("{name}: {}\n", terminal(value));
    }
    for warning in &document.warnings {
        out += &format!("warning: {}\n", terminal(warning));
    }
    for section in &document.sections {
        out += &format!("\n{}\n", terminal(&section.title));
        if !section.command.is_empty() {
            out += &format!("  {}\n", terminal(&section.command));
        }
        for sheet in &section.sheets {
            out += "\n";
            out += &columns(sheet);
        }
        for note in &section.notes {
            // Lines of what a program said last stay lines.
            let lines: Vec<_> = note.lines().map(terminal).collect();
            out += &format!("  {}\n", lines.join("\n"));
        }
    }
    out + &format!("\n{LEGEND}\n")
}

/// The first column to the left, and the others where all are figures to the right.
fn columns(sheet: &Sheet) -> String {
    let plain = |row: &Vec<String>| row.iter().map(|cell| terminal(cell)).collect::<Vec<_>>();
    let sheet = &Sheet {
        head: plain(&sheet.head),
        rows: sheet.rows.iter().map(plain).collect(),
    };
    let all = || std::iter::once(&sheet.head).chain(&sheet.rows);
    let width = |at: usize| {
        all()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    // A figure with its unit or its spread, not a statement.
    let is_figure = |cell: &String| {
        cell == "–"
            || (cell.starts_with(|c: char| c.is_ascii_digit()) && cell.split(' ').count() <= 2)
    };
    let right = |at: usize| {
        at > 0
            && sheet
                .rows
                .iter()
                .filter_map(|row| row.get(at))
                .all(is_figure)
    };
    let mut out = String::new();
    for row in all() {
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let blanks = " ".repeat(width(at) - cell.chars().count());
            if right(at) {
                format!("{blanks}{cell}")
            } else {
                format!("{cell}{blanks}")
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        out += &format!("  {}\n", line.trim_end());
    }
    out
}
