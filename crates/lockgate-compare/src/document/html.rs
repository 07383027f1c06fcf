//! A comparison as one page: verdicts, tables, and bars for CPU time and requests. In the frame
//! and style of the load's page, without scripts and without other files.

use super::verdicts::{VERDICT, overview};
use super::{CellTone, ComparisonDocument, DocumentSection, LEGEND, Sheet, SheetCell};
use crate::comparison::{Case, SampleMetric};
use lockgate_report::escape::html as escape;
use lockgate_report::html::frame;

const STYLE: &str = include_str!("page.css");

pub(super) fn render(document: &ComparisonDocument) -> String {
    let mut out = verdict(document);
    let overview = overview(&document.cases, &document.verdicts);
    out += &overview.map_or(String::new(), |sheet| table(&sheet));
    out += &format!("<p class=\"legend\">{}</p>\n", escape(LEGEND));
    for (at, section) in document.sections.iter().enumerate() {
        out += &part(section, document.cases.get(at));
    }
    out += "<h2>Machine and run</h2>\n<dl>\n";
    for (name, value) in &document.facts {
        out += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
    }
    out += "</dl>\n";
    frame(&escape(&document.headline()), STYLE, &out)
}

/// The verdicts on all programs, and the warnings.
fn verdict(document: &ComparisonDocument) -> String {
    let verdicts = &document.verdicts;
    let has_verdict = verdicts.is_empty() || verdicts.iter().any(|verdict| verdict.has_any());
    let is_bad = !document.complete || !has_verdict || !document.warnings.is_empty();
    if verdicts.is_empty() && !is_bad {
        return String::new();
    }
    let class = if is_bad { "verdict bad" } else { "verdict" };
    let mut out = format!("<div class=\"{class}\">\n");
    if !document.verdicts.is_empty() {
        let verdicts = document.verdicts.iter().map(|verdict| {
            let (program, text) = (escape(&verdict.program), escape(&verdict.text()));
            format!("<li><b>{program}</b>: {text}</li>\n")
        });
        let verdicts: String = verdicts.collect();
        out += &format!("<p>{}</p>\n<ul>\n{verdicts}</ul>\n", escape(VERDICT));
    }
    for warning in &document.warnings {
        out += &format!("<p><strong>warning: {}</strong></p>\n", escape(warning));
    }
    out + "</div>\n"
}

fn part(section: &DocumentSection, case: Option<&Case>) -> String {
    let mut out = format!("<h2>{}</h2>\n", escape(&section.title));
    if !section.command.is_empty() {
        out += &format!("<p><code>{}</code></p>\n", escape(&section.command));
    }
    if let Some(case) = case {
        let figures = [SampleMetric::Cpu, SampleMetric::Rate].map(|metric| bars(case, metric));
        out += &format!("<div class=\"bars\">\n{}</div>\n", figures.concat());
    }
    for sheet in &section.sheets {
        out += &table(sheet);
    }
    if !section.notes.is_empty() {
        let notes = section.notes.iter();
        let notes: String = notes
            .map(|note| format!("<li>{}</li>\n", escape(note)))
            .collect();
        out += &format!("<ul class=\"notes\">\n{notes}</ul>\n");
    }
    out
}

/// A bar to the median for each program, and below it a line from the least to the most.
///
/// Lengths are shares of any width.
fn bars(case: &Case, metric: SampleMetric) -> String {
    let with: Vec<_> = case
        .rows
        .iter()
        .filter_map(|row| Some((row, row.spread(metric)?)))
        .collect();
    let most = with
        .iter()
        .map(|(_, spread)| spread.max)
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let what = escape(metric.title());
    let mut out = format!("<figure><figcaption>{what}</figcaption>\n");
    for (row, spread) in &with {
        let share = |value: f64| value / most * 100.0;
        let (from, to) = (share(spread.min), share(spread.max));
        let (class, mark) = if row.is_invalid(metric) {
            ("fill invalid", "*")
        } else {
            ("fill", "")
        };
        let digits = usize::from(metric == SampleMetric::Cpu);
        let figure = format!("{:.digits$}{mark}", spread.median);
        let label = format!(
            "{figure}, from {:.digits$} to {:.digits$}",
            spread.min, spread.max
        );
        out += &format!(
            "<div class=\"bar\"><span>{}</span><span class=\"figure\">{figure}</span>\
             <svg role=\"img\" aria-label=\"{label}\">\
             <rect class=\"track\" width=\"100%\" height=\"8\"/>\
             <rect class=\"{class}\" width=\"{:.2}%\" height=\"8\"/>",
            escape(&row.program),
            share(spread.median),
        );
        if spread.count > 1 {
            out += &format!(
                "<line x1=\"{from:.2}%\" x2=\"{to:.2}%\" y1=\"12\" y2=\"12\"/>\
                 <line x1=\"{from:.2}%\" x2=\"{from:.2}%\" y1=\"9.5\" y2=\"14.5\"/>\
                 <line x1=\"{to:.2}%\" x2=\"{to:.2}%\" y1=\"9.5\" y2=\"14.5\"/>"
            );
        }
        out += "</svg></div>\n";
    }
    out + "</figure>\n"
}

fn table(sheet: &Sheet) -> String {
    let head = sheet
        .head
        .iter()
        .map(|text| format!("<th scope=\"col\">{}</th>", escape(text)));
    let head: String = head.collect();
    let row = |row: &Vec<SheetCell>| {
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let text = escape(&cell.text);
            match (at, cell.tone) {
                (0, _) => format!("<th scope=\"row\">{text}</th>"),
                (_, CellTone::Plain) => format!("<td>{text}</td>"),
                (_, CellTone::Better) => format!("<td class=\"better\">{text}</td>"),
                (_, CellTone::Worse) => format!("<td class=\"worse\">{text}</td>"),
                (_, CellTone::Quiet) => format!("<td class=\"quiet\">{text}</td>"),
            }
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = sheet.rows.iter().map(row).collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}
