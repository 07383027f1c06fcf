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
    verdicts: Vec<ProgramVerdict>,
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
    rows: Vec<Vec<SheetCell>>,
}

/// Text of a cell, and how a page shows it.
#[derive(Debug, Clone)]
struct SheetCell {
    text: String,
    tone: CellTone,
}

/// How a page shows a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellTone {
    Plain,
    /// A verdict for the program.
    Better,
    /// A verdict against it.
    Worse,
    /// A ratio without a verdict.
    Quiet,
}

impl From<String> for SheetCell {
    fn from(text: String) -> Self {
        Self {
            text,
            tone: CellTone::Plain,
        }
    }
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
                rows: paper
                    .rows
                    .iter()
                    .map(|row| row.iter().cloned().map(SheetCell::from).collect())
                    .collect(),
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
            verdicts: verdicts(&cases),
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
    let many = case.has_many_connections();
    let compared_here: Vec<_> = SampleMetric::COMPARED
        .into_iter()
        .filter(|metric| *metric != SampleMetric::PerConnection || many)
        .filter(|metric| has_figures(case, *metric))
        .collect();
    let (figures, mut notes) = figures(case);
    let mut sheets = vec![figures];
    let mut reasons = NoVerdicts::default();
    sheets.extend(ratios(case, &compared_here, &mut reasons));
    sheets.extend(added(case, &compared_here, &mut reasons));
    notes.extend(case.passed_over());
    notes.extend(reasons.notes());
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

/// Whether any program has this metric: percentiles need many successes.
fn has_figures(case: &Case, metric: SampleMetric) -> bool {
    case.rows.iter().any(|row| row.spread(metric).is_some())
}

/// The table of all programs' figures, with notes about them.
fn figures(case: &Case) -> (Sheet, Vec<String>) {
    let over_tls = case.rows.iter().any(|row| !row.tls().is_empty());
    let shown: Vec<_> = SampleMetric::ALL
        .into_iter()
        .filter(|metric| *metric != SampleMetric::Resumed || over_tls)
        .filter(|metric| *metric == SampleMetric::Failed || has_figures(case, *metric))
        .collect();
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for row in &case.rows {
        if let Some(why) = &row.skipped {
            notes.push(format!("{} was left out: {why}", row.program));
            continue;
        }
        let mut cells = vec![row.program.clone(), version(&row.version).to_owned()];
        cells.extend(over_tls.then(|| row.tls().join(", ")));
        cells.extend(shown.iter().map(|metric| cell(row, *metric)));
        rows.push(cells.into_iter().map(SheetCell::from).collect());
        let errors = row.errors.iter();
        notes.extend(errors.map(|error| format!("{}: {error}", row.program)));
        let failures = row.failures();
        notes.extend(failures.map(|what| format!("{} had failures, {what}", row.program)));
        let invalid = row.invalid();
        notes.extend(
            invalid
                .iter()
                .map(|why| format!("* {}: {why}", row.program)),
        );
    }
    let mut head = ["program", "version"].map(str::to_owned).to_vec();
    head.extend(over_tls.then(|| "TLS".to_owned()));
    head.extend(shown.iter().map(|metric| metric.title().to_owned()));
    (Sheet { head, rows }, notes)
}

/// The table of ratios to the best other program.
fn ratios(case: &Case, metrics: &[SampleMetric], reasons: &mut NoVerdicts) -> Option<Sheet> {
    let mut rows = Vec::new();
    let measured = case.rows.iter().filter(|row| !row.rounds.is_empty());
    for row in measured.filter(|row| !row.baseline) {
        let best = |metric| Some(case.best_other(&row.program, metric)?.program.as_str());
        let Some(usual) = metrics.iter().find_map(|metric| best(*metric)) else {
            continue;
        };
        let name = format!("{} ÷ {usual}", row.program);
        let mut cells = vec![SheetCell::from(name.clone())];
        cells.extend(metrics.iter().map(|metric| {
            let pair = best(*metric).and_then(|other| case.pair(&row.program, other));
            let Some((pair, compared)) = pair.and_then(|pair| Some((pair, pair.ratio(*metric)?)))
            else {
                return SheetCell::from("–".to_owned());
            };
            let mut cell = statement(compared);
            if pair.other != usual {
                cell.text += &format!(" (÷ {})", pair.other);
            }
            reasons.add(compared, &name);
            cell
        }));
        rows.push(cells);
    }
    let mut head = vec!["÷ the best other by CPU".to_owned()];
    head.extend(metrics.iter().map(|metric| metric.title().to_owned()));
    (!rows.is_empty()).then_some(Sheet { head, rows })
}

/// The table of ratios to the baseline, and of the latency that is added to it.
fn added(case: &Case, metrics: &[SampleMetric], reasons: &mut NoVerdicts) -> Option<Sheet> {
    let baseline = case.baseline()?;
    let metrics: Vec<_> = metrics
        .iter()
        .filter(|metric| is_of_the_baseline(**metric))
        .collect();
    let mut rows = Vec::new();
    for row in case.rows.iter().filter(|row| !row.baseline) {
        let Some(pair) = case.pair(&row.program, &baseline.program) else {
            continue;
        };
        let name = format!("{} ÷ {}", pair.program, pair.other);
        let mut cells = vec![SheetCell::from(name.clone())];
        let compared = || metrics.iter().filter_map(|metric| pair.ratio(**metric));
        cells.extend(compared().map(|compared| {
            reasons.add(compared, &name);
            statement(compared)
        }));
        let latencies = compared().filter(|compared| compared.metric.is_latency());
        let differences =
            latencies.map(|one| one.added.as_ref().map_or("–".to_owned(), difference));
        cells.extend(differences.map(SheetCell::from));
        rows.push(cells);
    }
    let mut head = vec!["÷ the baseline".to_owned()];
    head.extend(metrics.iter().map(|metric| metric.title().to_owned()));
    let latencies = metrics.iter().filter(|metric| metric.is_latency());
    head.extend(latencies.map(|metric| format!("added {}", metric.title())));
    (!rows.is_empty()).then_some(Sheet { head, rows })
}

/// Reasons why ratios of a case have no verdict: each once, with the ratios.
#[derive(Default)]
struct NoVerdicts {
    /// Reason, and the ratios.
    reasons: Vec<(String, Vec<RatioMetrics>)>,
}

/// Name of a ratio, and titles of its metrics.
type RatioMetrics = (String, Vec<&'static str>);

impl NoVerdicts {
    fn add(&mut self, compared: &Compared, name: &str) {
        // Without a ratio there is nothing that looks like a verdict.
        let (Err(why), Some(_)) = (&compared.verdict, &compared.ratio) else {
            return;
        };
        let metric = compared.metric.title();
        if !self.reasons.iter().any(|(reason, _)| reason == why) {
            self.reasons.push((why.clone(), Vec::new()));
        }
        let ratios = self.reasons.iter_mut().find(|(reason, _)| reason == why);
        let Some((_, ratios)) = ratios else { return };
        match ratios.iter_mut().find(|(ratio, _)| ratio == name) {
            Some((_, metrics)) => metrics.push(metric),
            None => ratios.push((name.to_owned(), vec![metric])),
        }
    }

    fn notes(&self) -> impl Iterator<Item = String> {
        self.reasons.iter().map(|(why, ratios)| {
            let ratios = ratios
                .iter()
                .map(|(name, metrics)| format!("{name} ({})", metrics.join(", ")));
            let ratios: Vec<_> = ratios.collect();
            format!("no verdict, {why}: {}", ratios.join("; "))
        })
    }
}

/// Verdicts on the programs' CPU time in all cases: a sentence for each program.
fn verdicts(cases: &[Case]) -> Vec<ProgramVerdict> {
    let mut programs: Vec<&str> = Vec::new();
    for row in cases.iter().flat_map(|case| &case.rows) {
        let counts = !row.baseline && row.skipped.is_none();
        if counts && !programs.contains(&row.program.as_str()) {
            programs.push(&row.program);
        }
    }
    // One alone has no other: the baseline is none.
    if programs.len() < 2 {
        return Vec::new();
    }
    let verdict = |program: &&str| {
        let ratios = cases.iter().map(|case| {
            let other = case.best_other(program, SampleMetric::Cpu)?;
            case.pair(program, &other.program)?.ratio(SampleMetric::Cpu)
        });
        ProgramVerdict::of(program, ratios)
    };
    programs.iter().map(verdict).collect()
}

/// All verdicts on CPU time, a row for each case; nothing for one case, which its section shows.
fn overview(cases: &[Case]) -> Option<Sheet> {
    let programs = verdicts(cases);
    let mut head = vec!["CPU time ÷ the best other".to_owned()];
    head.extend(programs.iter().map(|verdict| verdict.program.clone()));
    let rows = cases.iter().map(|case| {
        let cells = programs.iter().map(|verdict| {
            let program = &verdict.program;
            let compared = case
                .best_other(program, SampleMetric::Cpu)
                .and_then(|other| case.pair(program, &other.program)?.ratio(SampleMetric::Cpu));
            compared.map_or_else(|| SheetCell::from("–".to_owned()), statement)
        });
        [SheetCell::from(case.name())]
            .into_iter()
            .chain(cells)
            .collect()
    });
    let rows: Vec<_> = rows.collect();
    (rows.len() > 1 && !programs.is_empty()).then_some(Sheet { head, rows })
}

/// How often a program took less or more CPU time than the best other.
#[derive(Debug)]
struct ProgramVerdict {
    program: String,
    /// Cases with each verdict, with the least and the greatest ratio in them.
    less: CaseCount,
    more: CaseCount,
    not_shown: CaseCount,
    /// Cases without a verdict.
    none: usize,
}

/// Number of cases, and the range of their ratios.
#[derive(Debug, Clone, Copy)]
struct CaseCount {
    number: usize,
    least: f64,
    most: f64,
}

impl CaseCount {
    const NONE: Self = Self {
        number: 0,
        least: f64::INFINITY,
        most: 0.0,
    };

    fn add(&mut self, ratio: f64) {
        self.number += 1;
        (self.least, self.most) = (self.least.min(ratio), self.most.max(ratio));
    }

    /// `less in 3 of 4 loads (0.64–0.81 ×)`; nothing for none.
    fn text(&self, word: &str, of: usize) -> Option<String> {
        let Self {
            number,
            least,
            most,
        } = self;
        let range = format!("{least:.2}–{most:.2}");
        let range = if least == most {
            format!("{least:.2}")
        } else {
            range
        };
        (*number > 0).then(|| format!("{word} in {number} of {of} ({range} ×)"))
    }
}

impl ProgramVerdict {
    fn of<'a>(program: &str, ratios: impl Iterator<Item = Option<&'a Compared>>) -> Self {
        let mut own = Self {
            program: program.to_owned(),
            less: CaseCount::NONE,
            more: CaseCount::NONE,
            not_shown: CaseCount::NONE,
            none: 0,
        };
        for compared in ratios {
            let ratio = compared.and_then(|compared| compared.ratio);
            let verdict = compared.and_then(|compared| compared.verdict.as_ref().ok());
            let (Some(ratio), Some(verdict)) = (ratio, verdict) else {
                own.none += 1;
                continue;
            };
            let count = match verdict {
                RatioVerdict::Less => &mut own.less,
                RatioVerdict::More => &mut own.more,
                RatioVerdict::NotShown => &mut own.not_shown,
            };
            count.add(ratio.spread.median);
        }
        own
    }

    /// Whether there is a verdict on it in any case.
    fn has_any(&self) -> bool {
        self.less.number + self.more.number + self.not_shown.number > 0
    }

    /// The counts in words: `less in 3 of 4 (0.64–0.81 ×), no verdict in 1 of 4`.
    fn text(&self) -> String {
        let all = self.less.number + self.more.number + self.not_shown.number + self.none;
        let none = (self.none > 0).then(|| format!("no verdict in {} of {all}", self.none));
        let parts = [
            self.less.text("less", all),
            self.more.text("more", all),
            self.not_shown.text("no difference shown", all),
            none,
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
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

/// A ratio, its interval, and its verdict; notes below the tables say why there is none.
fn statement(compared: &Compared) -> SheetCell {
    let Some(ratio) = &compared.ratio else {
        return SheetCell::from("–".to_owned());
    };
    let median = ratio.spread.median;
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        format!(" [{low:.2}–{high:.2}]")
    });
    let better_higher = compared.metric.is_better_higher();
    let (verdict, tone) = match &compared.verdict {
        Ok(RatioVerdict::Less) if better_higher => ("less".to_owned(), CellTone::Worse),
        Ok(RatioVerdict::Less) => ("less".to_owned(), CellTone::Better),
        Ok(RatioVerdict::More) if better_higher => ("more".to_owned(), CellTone::Better),
        Ok(RatioVerdict::More) => ("more".to_owned(), CellTone::Worse),
        Ok(RatioVerdict::NotShown) => {
            let (rounds, relative) = (ratio.spread.count, ratio.spread.relative());
            let percent = relative.unwrap_or(0.0) * 100.0;
            let text = format!("no difference shown ({rounds} rounds, spread {percent:.0} %)");
            (text, CellTone::Plain)
        }
        Err(_) => ("no verdict".to_owned(), CellTone::Quiet),
    };
    SheetCell {
        text: format!("{median:.2}{interval} {verdict}"),
        tone,
    }
}

/// Title of the verdicts above all tables.
const VERDICT: &str = "CPU time a request beside the best other";

/// Legend below all tables.
const LEGEND: &str = "Medians over the rounds, and from the least to the most; of failures their sum. A ratio is the median of the ratios of each \
round, with the interval that holds the true one with 95 % confidence by the sign test; the words “less” and “more” appear only where 1 is outside it. \
“No verdict” means that the ratio shows nothing about the programs; the notes below its table say why. The best other is the program with the least CPU \
time of those with valid figures for the same work. A percentile p needs 1/(1−p) successes in a round. Memory is the proportional set size of the whole process tree.";

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
            "0.80 [0.80–0.80] no verdict",
            "no verdict, invalid for b: b ÷ a (requests/s, p50, p99, p99.99)",
            "b is not “the best other” by requests/s, p50, p99, p99.99: marked with *",
            "CPU time a request beside the best other, a: less in 1 of 1 (0.64 ×)",
            "CPU time a request beside the best other, b: more in 1 of 1 (1.56 ×)",
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
            !markdown.contains("b ÷ a") && !markdown.contains("÷ the best other"),
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
        for word in [
            "<script", " style=", " href=", " src=", "url(", "NaN", "inf%",
        ] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn a_page_has_verdict_and_warnings_above_all_figures_and_a_dark_scheme() {
        let page = document(true).html();
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
        assert!(at("<li><b>a</b>: less in 1 of 1 (0.64 ×)</li>") < at("<svg"));
        assert!(at("warning: CPU 0 was busy") < at("<svg"));
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(page.contains("<td class=\"better\">0.64 [0.64–0.64] less</td>"));
        assert!(page.contains("<td class=\"quiet\">"));
        assert_eq!(page.matches("“No verdict” means").count(), 1);
    }

    #[test]
    fn several_cases_have_an_overview_of_their_verdicts() {
        let mut findings = findings(|_, _, _| ());
        for measured in &mut findings.measured {
            let samples = measured.outcome.as_mut().unwrap();
            let mut other = samples[0].clone();
            (samples[0].stage, other.stage) = ("1000/s".to_owned(), "2000/s".to_owned());
            samples.push(other);
        }
        let page = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).html();
        let row = "<th scope=\"row\">l, 2000/s</th><td class=\"better\">0.64 [0.64–0.64] less</td>";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("<b>a</b>: less in 2 of 2 (0.64 ×)"), "{page}");
    }

    #[test]
    fn programs_that_are_not_compared_are_named_with_the_reason() {
        let findings = findings(|program, _, sample| {
            if program == "b" {
                sample.answers[0].length = Some(10);
            }
        });
        let text = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).text();
        let why = "a and b did other work, and are not compared: a answered HTTP/1.1 200 of 100 bytes, b answered HTTP/1.1 200 of 10 bytes";
        assert!(text.contains(why), "{text}");
        assert!(!text.contains("less") || !text.contains(" ÷ b"), "{text}");
        assert!(text.contains("a: no verdict in 1 of 1"), "{text}");
    }

    #[test]
    fn percentiles_of_too_few_requests_have_no_column() {
        let few = findings(|_, _, sample| (sample.p99_9, sample.p99_99) = (None, None));
        let markdown =
            ComparisonDocument::of(&plan(), &few, Vec::new(), Vec::new(), true).markdown();
        assert!(markdown.contains("| p99 | max |"), "{markdown}");
        assert!(!markdown.contains("| p99.9"), "{markdown}");
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
