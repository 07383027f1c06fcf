//! The report for a terminal: plain, aligned text.

pub mod table;

use std::fmt::Write;

use crate::escape::{shell, terminal};
use crate::summary::StageSummary;
use crate::units::{self, NONE};
use crate::{rows, words};
use lockgate_load::result::{FailureKind, RunResult, StageResult};
use table::aligned;

/// The options of the run, whether its figures are valid, one line a stage where there are several,
/// and all figures of the last stage.
pub fn render(report: &RunResult) -> String {
    let mut out = heading(report);
    out.push_str(&doubts(report));
    if report.stages.len() > 1 {
        out.push_str("\nstages\n");
        out.push_str(&stages(report));
        if let Some(note) = words::successes_only(report) {
            writeln!(out, "  {note}").expect("memory");
        }
        out.push_str(&rounds(report));
    }
    if let Some(last) = report.stages.last() {
        out.push_str(&details(report, last));
    }
    out
}

fn heading(report: &RunResult) -> String {
    let mut out = format!("{}\n", terminal(&shell(&report.run.command)));
    let mut say =
        |name: &str, text: &str| writeln!(out, "  {name:<13}{}", terminal(text)).expect("memory");
    for target in &report.run.targets {
        let first = report.first.iter().find(|first| first.target == *target);
        match first {
            Some(first) => say("target", &format!("{target} → {}", words::first(first))),
            None => say("target", target),
        }
    }
    say("model", words::model(report.run.model));
    say("load", &words::load(&report.run));
    if report.uncounted > 0 {
        let requests = units::counted(report.uncounted, "request", "requests");
        say(
            "not counted",
            &format!("{requests} before the first stage (warm-up, the first of each target)"),
        );
    }
    out
}

/// Reasons to doubt the figures, before the figures.
fn doubts(report: &RunResult) -> String {
    let mut out = String::new();
    if let Some(end) = words::end(&report.end) {
        writeln!(out, "\n*** {end}").expect("memory");
    }
    if let Some(verdict) = words::verdict(report) {
        writeln!(out, "\n*** {verdict}").expect("memory");
        for (stage, reason) in words::invalid(report) {
            writeln!(out, "***   {}: {}", terminal(&stage), terminal(reason)).expect("memory");
        }
    }
    let notes = words::notes(report);
    if !notes.is_empty() {
        out.push('\n');
    }
    for (stage, note) in notes {
        writeln!(out, "note: {}: {}", terminal(&stage), terminal(note)).expect("memory");
    }
    out
}

fn stages(report: &RunResult) -> String {
    let several = report
        .stages
        .iter()
        .any(|stage| stage.round != report.stages[0].round);
    let mut lines = vec![row([
        "stage", "time", "ok/s", "failed", "p50", "p90", "p99", "p99.9", "max", "",
    ])];
    for stage in &report.stages {
        let summary = StageSummary::of(stage, report.run.connections);
        let [p50, p90, p99, p99_9, max, _] = rows::latencies(stage);
        let mark = if stage.invalid.is_empty() {
            ""
        } else {
            "INVALID"
        };
        lines.push(row([
            &terminal(&stage.name),
            &units::span(stage.elapsed),
            &units::number(summary.rate),
            &units::count(stage.counts.failed()),
            &p50,
            &p90,
            &p99,
            &p99_9,
            &max,
            mark,
        ]));
    }
    if several {
        lines[0].insert(1, "round".to_owned());
        for (line, stage) in lines.iter_mut().skip(1).zip(&report.stages) {
            line.insert(1, stage.round.to_string());
        }
    }
    aligned(2, &lines)
}

/// Stages that were run more than once.
fn rounds(report: &RunResult) -> String {
    let rounds = words::rounds(report)
        .into_iter()
        .map(|[name, figures @ ..]| {
            let mut cells = vec![terminal(&name)];
            cells.extend(figures);
            cells
        });
    let mut rows = vec![row(words::ROUNDS)];
    rows.extend(rounds);
    if rows.len() > 1 {
        format!("\n{}", aligned(2, &rows))
    } else {
        String::new()
    }
}

fn details(report: &RunResult, stage: &StageResult) -> String {
    let summary = StageSummary::of(stage, report.run.connections);
    let name = terminal(&words::stage(stage, report));
    let mut out = format!("\n{name}: {}\n", units::span(stage.elapsed));
    let ended = [
        row([
            "succeeded",
            &units::count(stage.counts.succeeded()),
            &units::rate(summary.rate),
        ]),
        row([
            "failed",
            &units::count(stage.counts.failed()),
            &summary.failed_share.map_or(NONE.to_owned(), units::percent),
        ]),
    ];
    out.push_str(&aligned(2, &ended));
    out.push_str(&failures(stage));
    if stage.counts.late > 0 {
        let late = units::counted(stage.counts.late, "success", "successes");
        writeln!(
            out,
            "  {late} after the end of the stage, not counted in its rate"
        )
        .expect("memory");
    }
    if stage.counts.cut > 0 {
        let cut = units::counted(stage.counts.cut, "exchange was", "exchanges were");
        writeln!(
            out,
            "  {cut} unfinished at the end, counted neither as success nor as failure"
        )
        .expect("memory");
    }
    let latency = rows::histograms(report.run.model, stage);
    let succeeded = words::succeeded_share(stage);
    let head = succeeded.map_or(String::new(), |share| {
        format!("  latency of the {share} that succeeded\n")
    });
    write!(out, "\n{head}{}", aligned(2, &latency)).expect("memory");
    out.push_str(&parts(stage));
    out.push_str(&targets(report, stage));
    out.push_str(&traffic(stage, &summary));
    out.push_str(&programs(stage, &summary));
    out
}

fn failures(stage: &StageResult) -> String {
    let mut out = String::new();
    for (at, kind) in FailureKind::ALL.into_iter().enumerate() {
        let number = stage.counts.failures[at];
        if number > 0 {
            let example = stage.counts.examples[at].as_deref().unwrap_or_default();
            let line = format!(
                "    {:<9}{:>9}  {}",
                kind.name(),
                units::count(number),
                terminal(example)
            );
            writeln!(out, "{}", line.trim_end()).expect("memory");
        }
    }
    out
}

/// The times that a request consists of, in one line.
fn parts(stage: &StageResult) -> String {
    let parts = words::parts(stage)
        .into_iter()
        .filter_map(|(name, values)| {
            let [p50, p99] = rows::medians(values)?;
            Some(format!("{name} p50 {p50}, p99 {p99}"))
        });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("\n  {:<13}{}\n", "times", parts.join("; "))
}

/// A line for each target, where there are several.
fn targets(report: &RunResult, stage: &StageResult) -> String {
    if stage.targets.is_empty() {
        return String::new();
    }
    let mut lines = vec![row(rows::TARGETS)];
    for [target, cells @ ..] in rows::targets(report, stage) {
        lines.push([&[terminal(&target)][..], &cells].concat());
    }
    format!("\n{}", aligned(2, &lines))
}

fn traffic(stage: &StageResult, summary: &StageSummary) -> String {
    let mut out = String::from("\n");
    for (name, text) in rows::traffic(stage, summary) {
        if !text.is_empty() {
            writeln!(out, "  {name:<13}{text}").expect("memory");
        }
    }
    out
}

fn programs(stage: &StageResult, summary: &StageSummary) -> String {
    let line = |name: &str, cells: &[String]| [&[name.to_owned()][..], cells].concat();
    let mut lines = vec![
        row([
            "CPU",
            "user",
            "system",
            "a success",
            "before",
            "peak",
            "a connection",
        ]),
        line("generator", &rows::generator(stage, summary)),
    ];
    for (program, figures) in stage.watched.iter().zip(&summary.watched) {
        lines.push(line(
            &terminal(&program.name),
            &rows::program(program, figures),
        ));
    }
    if stage.watched.is_empty() {
        lines[0].truncate(4);
    }
    let table = aligned(2, &lines);
    let busiest = units::percent(stage.generator.busiest);
    format!("\n{table}  the generator's busiest thread took {busiest} of a CPU\n")
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests;
