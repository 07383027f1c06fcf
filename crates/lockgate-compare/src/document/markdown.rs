//! A comparison for a Markdown document.

use super::verdicts::VERDICT;
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
    for verdict in &document.verdicts {
        let (program, text) = (plain(&verdict.program), verdict.text());
        out += &format!("- {VERDICT}, **{program}**: {text}\n");
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
    let line = |row: &[&str]| {
        let cells: Vec<_> = row
            .iter()
            .map(|cell| plain(cell).replace('|', "\\|"))
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let head: Vec<_> = sheet.head.iter().map(String::as_str).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let rows = sheet.rows.iter().map(|row| {
        let cells: Vec<_> = row.iter().map(|cell| cell.text.as_str()).collect();
        line(&cells)
    });
    line(&head) + &rule + &rows.collect::<String>()
}
