//! Document of a comparison: sections of tables and notes, before it is text, Markdown or a page.

mod data;
mod html;
mod markdown;
mod text;
mod verdicts;

use crate::comparison::{Case, Compared, ProgramRow, SampleMetric};
use crate::comparison_run::Findings;
use crate::plan::ComparisonPlan;
use crate::statistics::RatioVerdict;
use lockgate_report::summary::Spread;
use verdicts::{ProgramVerdict, verdicts};

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
        let best = |metric| case.pair_with_best(&row.program, metric);
        let Some(usual) = metrics.iter().find_map(|metric| best(*metric)) else {
            continue;
        };
        let usual = &usual.other;
        let name = format!("{} ÷ {usual}", row.program);
        let mut cells = vec![SheetCell::from(name.clone())];
        cells.extend(metrics.iter().map(|metric| {
            let pair = best(*metric).and_then(|pair| Some((pair, pair.ratio(*metric)?)));
            let Some((pair, compared)) = pair else {
                return SheetCell::from("–".to_owned());
            };
            let mut cell = statement(compared);
            if pair.other != *usual {
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

/// Legend below all tables.
const LEGEND: &str = "Medians over the rounds, and from the least to the most; of failures their sum. A ratio is the median of the ratios of each \
round, with the interval that holds the true one with 95 % confidence by the sign test; the words “less” and “more” appear only where 1 is outside it. \
“No verdict” means that the ratio shows nothing about the programs; the notes below its table say why. The best other is the program with the least CPU \
time of those with valid figures for the same work. A percentile p needs 1/(1−p) successes in a round. Memory is the proportional set size of the whole process tree.";

#[cfg(test)]
mod tests;
