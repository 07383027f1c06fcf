//! Document of a comparison: sections of tables and notes, before it is text, Markdown or a page.

mod data;
mod html;
mod markdown;
mod text;

use crate::comparison::{Case, Compared, ProgramRow, SampleMetric};
use crate::comparison_run::Findings;
use crate::plan::ComparisonPlan;
use crate::statistics::RatioVerdict;
use lockgate_report::summary::Spread;

/// The result of a comparison, ready for all formats.
#[derive(Debug)]
pub struct ComparisonDocument {
    title: String,
    facts: Vec<(&'static str, String)>,
    /// Warnings, shown before all figures.
    warnings: Vec<String>,
    /// Whether the run ended as planned.
    complete: bool,
    cases: Vec<Case>,
    sections: Vec<DocumentSection>,
}

/// Section of one case, or of published figures.
#[derive(Debug)]
struct DocumentSection {
    title: String,
    /// The command line of the load.
    command: String,
    sheets: Vec<Sheet>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Sheet {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl ComparisonDocument {
    /// A document of the findings.
    pub fn of(
        plan: &ComparisonPlan,
        findings: &Findings,
        facts: Vec<(&'static str, String)>,
        warnings: Vec<String>,
        complete: bool,
    ) -> Self {
        let cases = Case::all(plan, findings);
        let mut sections: Vec<_> = cases.iter().map(section).collect();
        sections.extend(plan.papers.iter().map(|paper| DocumentSection {
            title: format!("Published figures: {}", paper.source),
            command: String::new(),
            sheets: vec![Sheet {
                head: paper.columns.clone(),
                rows: paper.rows.clone(),
            }],
            notes: Vec::new(),
        }));
        let mut facts = facts;
        facts.push((
            "layout",
            format!(
                "programs on CPU {}, origins and generator on CPU {}",
                plan.programs_on, plan.others_on
            ),
        ));
        Self {
            title: plan.title.clone(),
            facts,
            warnings,
            complete,
            cases,
            sections,
        }
    }

    /// The title, with a word about a partial result.
    fn headline(&self) -> String {
        if self.complete {
            self.title.clone()
        } else {
            format!("{} (partial: it was stopped early)", self.title)
        }
    }

    /// The document as text for a terminal.
    pub fn text(&self) -> String {
        text::render(self)
    }

    /// The document as Markdown, for other documents.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// The document as an HTML page without other files.
    pub fn html(&self) -> String {
        html::render(self)
    }

    /// The document as one JSON object; see `data`.
    pub fn json(&self) -> String {
        data::json(self)
    }

    /// The document as CSV: a line for each program, case and round.
    pub fn csv(&self) -> String {
        data::csv(self)
    }
}

fn section(case: &Case) -> DocumentSection {
    let mut notes = Vec::new();
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    let mut added = Vec::new();
    let many = case.has_many_connections();
    let compared_here: Vec<_> = SampleMetric::COMPARED
        .into_iter()
        .filter(|metric| *metric != SampleMetric::PerConnection || many)
        .collect();
    let over_tls = case.rows.iter().any(|row| !row.tls().is_empty());
    let shown: Vec<_> = SampleMetric::ALL
        .into_iter()
        .filter(|metric| *metric != SampleMetric::Resumed || over_tls)
        .collect();
    for row in &case.rows {
        let mut cells = vec![row.program.clone(), version(&row.version).to_owned()];
        if let Some(why) = &row.skipped {
            notes.push(format!("{} was left out: {why}", row.program));
            continue;
        }
        cells.extend(over_tls.then(|| row.tls().join(", ")));
        cells.extend(shown.iter().map(|metric| cell(row, *metric)));
        rows.push(cells);
        notes.extend(
            row.errors
                .iter()
                .map(|error| format!("{}: {error}", row.program)),
        );
        notes.extend(
            row.failures()
                .map(|what| format!("{} had failures, {what}", row.program)),
        );
        notes.extend(
            row.invalid()
                .iter()
                .map(|why| format!("* {}: {why}", row.program)),
        );
        let against = |other: Option<&ProgramRow>| case.pair(&row.program, &other?.program);
        if row.baseline {
            continue;
        }
        if let Some(pair) = against(case.best_other(&row.program)) {
            let mut cells = vec![format!("{} ÷ {}", pair.program, pair.other)];
            let told = pair
                .ratios
                .iter()
                .filter(|compared| compared_here.contains(&compared.metric));
            cells.extend(told.map(statement));
            ratios.push(cells);
        }
        if let Some(pair) = against(case.baseline()) {
            let mut cells = vec![format!("{} ÷ {}", pair.program, pair.other)];
            cells.extend(
                pair.ratios
                    .iter()
                    .filter(|compared| is_of_the_baseline(compared.metric))
                    .map(statement),
            );
            let latencies = pair
                .ratios
                .iter()
                .filter(|compared| compared.metric.is_latency());
            cells.extend(
                latencies
                    .map(|compared| compared.added.as_ref().map_or("–".to_owned(), difference)),
            );
            added.push(cells);
        }
    }
    let mut head = ["program", "version"].map(str::to_owned).to_vec();
    head.extend(over_tls.then(|| "TLS".to_owned()));
    head.extend(shown.iter().map(|metric| title(*metric).to_owned()));
    let mut sheets = vec![Sheet { head, rows }];
    if !ratios.is_empty() {
        let mut head = vec!["÷ the best other by CPU".to_owned()];
        head.extend(compared_here.iter().map(|metric| title(*metric).to_owned()));
        sheets.push(Sheet { head, rows: ratios });
    }
    if !added.is_empty() {
        let mut head = vec!["÷ the baseline".to_owned()];
        let figures = || {
            SampleMetric::COMPARED
                .into_iter()
                .filter(|metric| is_of_the_baseline(*metric))
        };
        head.extend(figures().map(|metric| title(metric).to_owned()));
        head.extend(
            figures()
                .filter(|metric| metric.is_latency())
                .map(|metric| format!("added {}", title(metric))),
        );
        sheets.push(Sheet { head, rows: added });
    }
    let rounds = case
        .rows
        .iter()
        .map(|row| row.rounds.len())
        .max()
        .unwrap_or(0);
    let command = format!("lockgate load {}", case.arguments.join(" "));
    let rounds = format!("{rounds} round{}", if rounds == 1 { "" } else { "s" });
    DocumentSection {
        title: format!("{} ({rounds})", case.name()),
        command,
        sheets,
        notes,
    }
}

/// The version number in a program's words: `2.6.12-1` of `HAProxy version 2.6.12-1 2026/10/17 -
/// https://…`.
fn version(said: &str) -> &str {
    let words = said.split([' ', '/', ',']);
    let number = |word: &&str| {
        word.contains('.')
            && word
                .trim_start_matches('v')
                .starts_with(|c: char| c.is_ascii_digit())
    };
    words.into_iter().find(number).unwrap_or(said)
}

fn title(metric: SampleMetric) -> &'static str {
    match metric {
        SampleMetric::Rate => "requests/s",
        SampleMetric::Cpu => "CPU µs/request",
        SampleMetric::System => "system",
        SampleMetric::P50 => "p50",
        SampleMetric::P99 => "p99",
        SampleMetric::P99_9 => "p99.9",
        SampleMetric::P99_99 => "p99.99",
        SampleMetric::Max => "max",
        SampleMetric::Failed => "failed",
        SampleMetric::Resumed => "resumed",
        SampleMetric::Peak => "peak MB",
        SampleMetric::PerConnection => "KB/connection",
    }
}

/// The median, with the range where there are several rounds.
fn cell(row: &ProgramRow, metric: SampleMetric) -> String {
    if metric == SampleMetric::Failed {
        return if row.rounds.is_empty() {
            "–".to_owned()
        } else {
            row.failed().to_string()
        };
    }
    let Some(spread) = row.spread(metric) else {
        return "–".to_owned();
    };
    let mark = if row.is_invalid(metric) { "*" } else { "" };
    let Spread {
        median,
        min,
        max,
        count: rounds,
    } = spread;
    match metric {
        SampleMetric::Rate if rounds > 1 => format!("{median:.0} ({min:.0}–{max:.0}){mark}"),
        SampleMetric::Rate => format!("{median:.0}{mark}"),
        SampleMetric::Cpu if rounds > 1 => format!("{median:.1} ({min:.1}–{max:.1}){mark}"),
        SampleMetric::Cpu => format!("{median:.1}{mark}"),
        SampleMetric::System | SampleMetric::Resumed => format!("{:.0} %{mark}", median * 100.0),
        SampleMetric::Peak => format!("{:.1}{mark}", median / 1e6),
        SampleMetric::PerConnection => format!("{:.1}{mark}", median / 1e3),
        _ => format!("{}{mark}", microseconds(median)),
    }
}

/// An added latency, which may be negative.
fn difference(added: &Spread) -> String {
    let sign = if added.median < 0.0 { "−" } else { "" };
    format!("{sign}{}", microseconds(added.median.abs()))
}

/// Whether the metric is compared with the baseline: CPU time and memory are not, since the
/// baseline has no proxy's work.
fn is_of_the_baseline(metric: SampleMetric) -> bool {
    metric == SampleMetric::Rate || metric.is_latency()
}

fn microseconds(time: f64) -> String {
    match time {
        ..1000.0 => format!("{time:.0} µs"),
        ..100_000.0 => format!("{:.2} ms", time / 1e3),
        ..1e6 => format!("{:.0} ms", time / 1e3),
        _ => format!("{:.2} s", time / 1e6),
    }
}

/// A ratio, its interval, and its verdict.
fn statement(compared: &Compared) -> String {
    let Some(ratio) = &compared.ratio else {
        return "–".to_owned();
    };
    let median = ratio.spread.median;
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        format!(" [{low:.2}–{high:.2}]")
    });
    let verdict = match &compared.verdict {
        Ok(RatioVerdict::Less) => "less".to_owned(),
        Ok(RatioVerdict::More) => "more".to_owned(),
        Ok(RatioVerdict::NotShown) => {
            let (rounds, relative) = (ratio.spread.count, ratio.spread.relative());
            let percent = relative.unwrap_or(0.0) * 100.0;
            format!("no difference shown ({rounds} rounds, spread {percent:.0} %)")
        }
        Err(why) => format!("no verdict: {why}"),
    };
    format!("{median:.2}{interval} {verdict}")
}

/// Legend below all tables.
const LEGEND: &str = "Medians over the rounds, and from the least to the most; of failures their sum. A ratio is the median of the ratios of each \
round, with the interval that holds the true one with 95 % confidence by the sign test; the words “less” and “more” appear only where 1 is outside it. Memory is the proportional set size of the whole process tree.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{findings, plan};
    use lockgate_load::result::Bottleneck;

    fn document(complete: bool) -> ComparisonDocument {
        let findings = findings(|program, _, sample| {
            if program == "b" {
                sample.limit(Bottleneck::Generator, "the generator <was> the limit");
            }
        });
        let facts = vec![("cpu", "Some & CPU".to_owned())];
        ComparisonDocument::of(
            &plan(),
            &findings,
            facts,
            vec!["CPU 0 was busy".to_owned()],
            complete,
        )
    }

    #[test]
    fn text_has_medians_spreads_ratios_verdicts_and_why_there_is_none() {
        let text = document(true).text();
        for part in [
            "T <1>\n",
            "warning: CPU 0 was busy",
            "a        1.0",
            "250 (156–625)",
            "0.64 [0.64–0.64] less",
            "1.25 [1.25–1.25] no verdict: invalid for b",
            "200 (125–500)*",
            "* b: the generator <was> the limit",
            "c was left out: c is not installed",
            "2.00 ms",
            "Published figures: S & T",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(
            document(false)
                .text()
                .starts_with("T <1> (partial: it was stopped early)\n")
        );
    }

    #[test]
    fn differences_from_the_baseline_have_a_table_of_their_own() {
        let mut plan = plan();
        plan.programs[1].baseline = true;
        let findings = findings(|program, _, sample| {
            if program == "b" {
                sample.p50 = Some(75.0);
            }
        });
        let markdown =
            ComparisonDocument::of(&plan, &findings, Vec::new(), Vec::new(), true).markdown();
        let head = "| ÷ the baseline | requests/s | p50 | p99 | p99.99 | added p50 | added p99 | added p99.99 |";
        assert!(markdown.contains(head), "{markdown}");
        assert!(
            markdown.contains("| a ÷ b | 1.25 [1.25–1.25] more | 1.33 [1.33–1.33] more |"),
            "{markdown}"
        );
        assert!(markdown.contains("| 25 µs | 0 µs | 0 µs |"), "{markdown}");
        assert!(
            !markdown.contains("b ÷ a") && !markdown.contains("best other"),
            "{markdown}"
        );
    }

    #[test]
    fn over_tls_there_is_what_was_agreed_upon_and_how_much_was_resumed() {
        let findings = findings(|_, _, sample| {
            (sample.tls, sample.resumed) = (Some("TLSv1.3 X".to_owned()), 75.0);
        });
        let markdown =
            ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).markdown();
        assert!(
            markdown.contains("| program | version | TLS |") && markdown.contains("| resumed |"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| a | 1.0 | TLSv1.3 X |") && markdown.contains("| 75 % |"),
            "{markdown}"
        );
        assert!(!document(true).markdown().contains("resumed"));
    }

    #[test]
    fn memory_is_compared_where_many_connections_share_what_was_added() {
        let with = |connections| {
            let findings = findings(|program, _, sample| {
                sample.connections = connections;
                sample.memory = Some((1e6, if program == "a" { 2e6 } else { 3e6 }));
            });
            ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).markdown()
        };
        assert!(
            with(100.0).contains("| 0.50 [0.50–0.50] less |"),
            "{}",
            with(100.0)
        );
        assert!(!with(99.0).contains("| 0.50 [0.50–0.50] less |"));
    }

    #[test]
    fn output_of_programs_neither_moves_the_cursor_nor_becomes_html() {
        let mut findings = findings(|_, _, _| ());
        findings.measured[0].outcome = Err("it ended:\n    \x1b[2J<b>".to_owned());
        let document = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true);
        assert!(
            document.text().contains("it ended:\n    \\u{1b}[2J<b>"),
            "{}",
            document.text()
        );
        assert!(
            document.markdown().contains("\\u{1b}[2J&lt;b>"),
            "{}",
            document.markdown()
        );
    }

    #[test]
    fn a_program_without_figures_has_a_line_of_its_own_in_csv_and_failures_are_added_up() {
        let mut findings = findings(|_, _, sample| sample.failed = 2.0);
        findings.measured[0].outcome = Err("it ended".to_owned());
        let document = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true);
        let (csv, json) = (document.csv(), document.json());
        assert_eq!(csv.lines().count(), 1 + 13 + 2, "{csv}");
        let line = |start: &str| {
            csv.lines()
                .find(|line| line.starts_with(start))
                .unwrap()
                .to_owned()
        };
        assert!(line("l,,a,a 1.0,,").ends_with(",it ended"), "{csv}");
        assert!(line("l,,c,,,").ends_with(",c is not installed"), "{csv}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["cases"][0]["programs"][1]["figures"]["failed"], 14.0);
    }

    #[test]
    fn markdown_tables_are_whole_whatever_is_in_their_cells() {
        let markdown = document(true).markdown();
        assert!(
            markdown.contains("| x\\|y | z |\n|---|---|\n| 1 | 2 |"),
            "{markdown}"
        );
        assert!(markdown.starts_with("## T &lt;1>\n"), "{markdown}");
    }

    #[test]
    fn a_page_escapes_all_that_was_written_by_others() {
        let page = document(true).html();
        assert!(
            page.contains("T &lt;1&gt;")
                && page.contains("Some &amp; CPU")
                && page.contains("&lt;was&gt;"),
            "{page}"
        );
        assert!(!page.contains("<was>") && !page.contains("T <1>"));
        assert!(page.contains("<svg") && page.contains("</html>"));
    }

    #[test]
    fn json_has_every_round_and_every_pair() {
        let value: serde_json::Value = serde_json::from_str(&document(false).json()).unwrap();
        assert_eq!(value["complete"], false);
        let case = &value["cases"][0];
        assert_eq!(case["programs"][0]["rounds"].as_array().unwrap().len(), 7);
        assert_eq!(case["programs"][2]["skipped"], "c is not installed");
        assert_eq!(
            case["programs"][0]["figures"]["succeeded_per_s"]["rounds"],
            7
        );
        let pair = &case["pairs"][0];
        assert_eq!(
            (&pair["program"], &pair["other"]),
            (&"a".into(), &"b".into())
        );
        assert_eq!(pair["cpu_us_per_success"]["verdict"], "less");
        assert_eq!(pair["succeeded_per_s"]["no_verdict"], "invalid for b");
    }

    #[test]
    fn versions_are_numbers_in_tables() {
        for (said, number) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            (
                "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/",
                "2.6.12-1+deb12u4",
            ),
            ("v2.11.0 h1:abc=", "v2.11.0"),
            ("hitch 1.7.2", "1.7.2"),
            ("newest", "newest"),
            ("", ""),
        ] {
            assert_eq!(version(said), number);
        }
    }

    #[test]
    fn csv_has_a_line_for_each_measurement() {
        let csv = document(true).csv();
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(
            lines.len(),
            16,
            "a head, two programs in seven rounds, one that was left out"
        );
        assert!(
            lines[0].starts_with("load,stage,program,version,round,"),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with("l,,a,a 1.0,1,"), "{}", lines[1]);
        assert!(
            lines[2].ends_with(",the generator <was> the limit,")
                || lines[8].ends_with(",the generator <was> the limit,")
        );
    }
}
