//! A comparison for a Markdown document.

use super::{ComparisonDocument, LEGEND, Sheet};
use lockgate_report::escape::terminal;

pub(super) fn render(document: &ComparisonDocument) -> String {
    let mut out = format!("## {}\n\n", plain(&document.headline()));
    for (name, value) in &document.facts {
        out += &format!("- {name}: {}\n", plain(value));
    }
    for warning in &document.warnings {
        out += &format!("- **warning: {}**\n", plain(warning));
    }
    for section in &document.sections {
        out += &format!("\n### {}\n\n", plain(&section.title));
        if !section.command.is_empty() {
            out += &format!("`{}`\n\n", section.command.replace('`', "'"));
        }
        for sheet in &section.sheets {
            out += &table(sheet);
            out += "\n";
        }
        for note in &section.notes {
            out += &format!(
                "- {}\n",
                note.lines().map(plain).collect::<Vec<_>>().join("\n  ")
            );
        }
    }
    out + &format!("\n{LEGEND}\n")
}

/// Text without characters that Markdown takes for HTML.
fn plain(text: &str) -> String {
    terminal(text).replace('&', "&amp;").replace('<', "&lt;")
}

fn table(sheet: &Sheet) -> String {
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row
            .iter()
            .map(|cell| plain(cell).replace('|', "\\|"))
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", "---|".repeat(sheet.head.len()));
    let rows: String = sheet.rows.iter().map(line).collect();
    line(&sheet.head) + &rule + &rows
}
