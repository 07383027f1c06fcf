//! A comparison as one page: tables, and bars for CPU time and requests, without scripts and
//! without other files.

use super::{ComparisonDocument, LEGEND, SampleMetric, Sheet, title};
use crate::comparison::Case;
use lockgate_report::escape::html as escape;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:90rem;margin:2rem auto;padding:0 1rem;color:#111}\
table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .6rem;border-bottom:1px solid #bbb;text-align:left;white-space:nowrap}\
th{border-bottom:2px solid #444}.wide{overflow-x:auto}.warning{font-weight:bold}code{overflow-wrap:anywhere}\
svg text{font:13px system-ui,sans-serif;fill:#111}figure{margin:.8rem 0}figcaption{font-weight:600}li{white-space:pre-wrap}\
@media print{body{font-size:10px}.wide{overflow:visible}th,td{padding:.15rem .3rem}}";

/// Pixels of a row of bars, and of the names at its left.
const ROW: usize = 24;
const LABELS: usize = 180;
const BARS: f64 = 420.0;

pub(super) fn render(document: &ComparisonDocument) -> String {
    let headline = escape(&document.headline());
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{headline}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n<h1>{headline}</h1>\n<ul>\n"
    );
    for (name, value) in &document.facts {
        out += &format!("<li>{}: {}</li>\n", escape(name), escape(value));
    }
    for warning in &document.warnings {
        out += &format!("<li class=\"warning\">warning: {}</li>\n", escape(warning));
    }
    out += "</ul>\n";
    for (at, section) in document.sections.iter().enumerate() {
        out += &format!("<h2>{}</h2>\n", escape(&section.title));
        if !section.command.is_empty() {
            out += &format!("<p><code>{}</code></p>\n", escape(&section.command));
        }
        if let Some(case) = document.cases.get(at) {
            out += &bars(case, SampleMetric::Cpu);
            out += &bars(case, SampleMetric::Rate);
        }
        for sheet in &section.sheets {
            out += &table(sheet);
        }
        if !section.notes.is_empty() {
            let notes: String = section
                .notes
                .iter()
                .map(|note| format!("<li>{}</li>\n", escape(note)))
                .collect();
            out += &format!("<ul>\n{notes}</ul>\n");
        }
    }
    out + &format!("<p>{}</p>\n</body></html>\n", escape(LEGEND))
}

/// A bar to the median for each program, and a line from the least to the most.
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
    let height = with.len() * ROW;
    let width = LABELS + 620;
    let what = escape(title(metric));
    let mut out = format!(
        "<figure><figcaption>{what}</figcaption><svg role=\"img\" aria-label=\"{what}\" width=\"{width}\" height=\"{height}\">\n"
    );
    for (at, (row, spread)) in with.iter().enumerate() {
        let (top, middle, base) = (at * ROW + 4, at * ROW + ROW / 2, at * ROW + 17);
        let pixels = |value: f64| value / most * BARS;
        let left = LABELS as f64;
        let (from, to) = (left + pixels(spread.min), left + pixels(spread.max));
        let mark = if row.is_invalid(metric) { "*" } else { "" };
        let digits = usize::from(metric == SampleMetric::Cpu);
        out += &format!(
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABELS}\" y=\"{top}\" width=\"{:.1}\" height=\"16\" fill=\"#8fb3d9\"/>\
             <path d=\"M{from:.1} {middle}H{to:.1}M{from:.1} {top}v16M{to:.1} {top}v16\" stroke=\"#111\" fill=\"none\"/>\
             <text x=\"{:.1}\" y=\"{base}\">{:.digits$}{mark}</text>\n",
            LABELS - 8,
            escape(&shortened(&row.program)),
            pixels(spread.median),
            to + 8.0,
            spread.median,
        );
    }
    out + "</svg></figure>\n"
}

/// A name shortened to the room beside a bar; the table below has all of it.
fn shortened(name: &str) -> String {
    const MOST: usize = 22;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['…']).collect()
}

fn table(sheet: &Sheet) -> String {
    let line = |row: &Vec<String>, cell: &str| {
        let cells: String = row
            .iter()
            .map(|text| format!("<{cell}>{}</{cell}>", escape(text)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = sheet.rows.iter().map(|row| line(row, "td")).collect();
    format!(
        "<div class=\"wide\"><table><thead>{}</thead><tbody>\n{rows}</tbody></table></div>\n",
        line(&sheet.head, "th")
    )
}
