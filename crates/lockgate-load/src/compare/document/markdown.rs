//! A comparison for a Markdown document.

use super::{Document, LEGEND, Sheet};

pub(super) fn render(document: &Document) -> String {
    let mut out = format!("## {}\n\n", document.headline());
    for (name, value) in &document.facts {
        out += &format!("- {name}: {value}\n");
    }
    for warning in &document.warnings {
        out += &format!("- **warning: {warning}**\n");
    }
    for section in &document.sections {
        out += &format!("\n### {}\n\n", section.title);
        if !section.command.is_empty() {
            out += &format!("`{}`\n\n", section.command.replace('`', "'"));
        }
        for sheet in &section.sheets {
            out += &table(sheet);
            out += "\n";
        }
        for note in &section.notes {
            out += &format!("- {}\n", note.replace('\n', "\n  "));
        }
    }
    out + &format!("\n{LEGEND}\n")
}

fn table(sheet: &Sheet) -> String {
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", "---|".repeat(sheet.head.len()));
    let rows: String = sheet.rows.iter().map(line).collect();
    line(&sheet.head) + &rule + &rows
}
