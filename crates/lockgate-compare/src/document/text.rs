//! A comparison for a terminal: columns as wide as their widest cell.

use super::verdicts::VERDICT;
use super::{ComparisonDocument, LEGEND, Sheet, SheetCell};
use lockgate_report::escape::terminal;
use lockgate_report::text::table::columns;

pub(super) fn render(document: &ComparisonDocument) -> String {
    let mut out = format!("{}\n", terminal(&document.headline()));
    for (name, value) in &document.facts {
        out += &format!("{name}: {}\n", terminal(value));
    }
    for warning in &document.warnings {
        out += &format!("warning: {}\n", terminal(warning));
    }
    for verdict in &document.verdicts {
        let (program, text) = (terminal(&verdict.program), verdict.text());
        out += &format!("{VERDICT}, {program}: {text}\n");
    }
    for section in &document.sections {
        out += &format!("\n{}\n", terminal(&section.title));
        if !section.command.is_empty() {
            out += &format!("  {}\n", terminal(&section.command));
        }
        for sheet in &section.sheets {
            out += "\n";
            out += &table(sheet);
        }
        for note in &section.notes {
            // The last lines of a program's output stay lines.
            let lines: Vec<_> = note.lines().map(terminal).collect();
            out += &format!("  {}\n", lines.join("\n"));
        }
    }
    out + &format!("\n{LEGEND}\n")
}

/// A table with its first column to the left, and columns of figures to the right.
fn table(sheet: &Sheet) -> String {
    let head = sheet.head.iter().map(|cell| terminal(cell)).collect();
    let plain = |row: &Vec<SheetCell>| row.iter().map(|cell| terminal(&cell.text)).collect();
    let rows: Vec<Vec<_>> = [head]
        .into_iter()
        .chain(sheet.rows.iter().map(plain))
        .collect();
    // A figure with its unit or its spread, not a statement.
    let is_figure = |cell: &String| {
        cell == "–"
            || (cell.starts_with(|c: char| c.is_ascii_digit()) && cell.split(' ').count() <= 2)
    };
    columns(2, &rows, |column| {
        let mut cells = rows.iter().skip(1).filter_map(|row| row.get(column));
        column > 0 && cells.all(is_figure)
    })
}
