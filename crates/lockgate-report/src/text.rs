//! The report for a terminal: plain, aligned text.

pub(crate) mod table;

use std::fmt::Write;

use crate::escape::terminal;
use crate::summary::{FIGURES, StageSummary, Summary};
use crate::units::{self, NONE};
use crate::words;
use lockgate_load::result::{Failure, LoadModel, Report, StageResult};
use table::aligned;

/// What was run, whether its figures hold, one line a stage where there are several, and all of the
/// last stage.
pub fn render(report: &Report) -> String {
    let mut out = heading(report);
    out.push_str(&doubts(report));
    if report.stages.len() > 1 {
        out.push_str("\nstages\n");
        out.push_str(&stages(report));
        out.push_str(&rounds(report));
    }
    if let Some(last) = report.stages.last() {
        out.push_str(&details(report, last));
    }
    out
}

fn heading(report: &Report) -> String {
    let mut out = format!("{}\n", terminal(&report.run.command.join(" ")));
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

/// Whatever makes the figures less than they seem, before the figures.
fn doubts(report: &Report) -> String {
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

fn stages(report: &Report) -> String {
    let several = report
        .stages
        .iter()
        .any(|stage| stage.round != report.stages[0].round);
    let mut rows = vec![row([
        "stage", "time", "ok/s", "failed", "p50", "p90", "p99", "p99.9", "max", "",
    ])];
    for stage in &report.stages {
        let summary = Summary::of(&stage.counts.latency);
        let latency = |of: fn(&Summary) -> f64| figure(summary.as_ref().map(of));
        rows.push(row([
            &terminal(&stage.name),
            &units::span(stage.elapsed),
            &units::number(StageSummary::of(stage, report.run.connections).rate),
            &units::count(stage.counts.failed()),
            &latency(Summary::p50),
            &latency(|summary| summary.percentiles[2]),
            &latency(Summary::p99),
            &latency(|summary| summary.percentiles[5]),
            &latency(|summary| summary.max),
            if stage.invalid.is_empty() {
                ""
            } else {
                "INVALID"
            },
        ]));
    }
    if several {
        rows[0].insert(1, "round".to_owned());
        for (row, stage) in rows.iter_mut().skip(1).zip(&report.stages) {
            row.insert(1, stage.round.to_string());
        }
    }
    aligned(2, &rows)
}

/// Stages that were run more than once.
fn rounds(report: &Report) -> String {
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

fn details(report: &Report, stage: &StageResult) -> String {
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
    out.push_str(&latency(report.run.model, stage));
    out.push_str(&traffic(stage, &summary));
    out.push_str(&programs(stage, &summary));
    out
}

fn failures(stage: &StageResult) -> String {
    let mut out = String::new();
    for (at, kind) in Failure::ALL.into_iter().enumerate() {
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

fn latency(model: LoadModel, stage: &StageResult) -> String {
    let histograms = words::histograms(model, stage);
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(histograms.iter().map(|(name, _)| (*name).to_owned()));
    let summaries: Vec<_> = histograms
        .iter()
        .map(|(_, histogram)| Summary::of(histogram))
        .collect();
    let line = |name: &str, of: &dyn Fn(&Summary) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(
            summaries
                .iter()
                .map(|summary| summary.as_ref().map_or(NONE.to_owned(), of)),
        );
        cells
    };
    rows.push(line("count", &|summary| units::count(summary.count)));
    for (at, (name, _)) in FIGURES.iter().enumerate() {
        rows.push(line(name, &|summary| {
            units::duration(summary.figures()[at])
        }));
    }
    format!("\n{}", aligned(2, &rows))
}

fn traffic(stage: &StageResult, summary: &StageSummary) -> String {
    let counts = &stage.counts;
    let mut out = String::from("\n");
    let statuses: Vec<_> = counts
        .statuses
        .iter()
        .map(|(status, number)| format!("{status}: {}", units::count(*number)))
        .collect();
    let mut say = |name: &str, text: &str| writeln!(out, "  {name:<13}{text}").expect("memory");
    if !statuses.is_empty() {
        say("statuses", &statuses.join(", "));
    }
    let connections = format!(
        "{} opened, {} of them resumed a TLS session; {} on one that had been used",
        units::count(counts.opened),
        units::count(counts.resumed),
        units::counted(counts.reused, "exchange", "exchanges")
    );
    say("connections", &connections);
    for (name, bytes, rate) in [
        ("sent", counts.sent, summary.sent_rate),
        ("received", counts.received, summary.received_rate),
    ] {
        say(
            name,
            &format!("{}, {}/s", units::bytes(bytes as f64), units::bytes(rate)),
        );
    }
    out
}

fn programs(stage: &StageResult, summary: &StageSummary) -> String {
    let cpu = |microseconds: Option<f64>| figure(microseconds.map(|each| each * 1e3));
    let busiest = units::percent(stage.generator.busiest);
    let mut rows = vec![
        row([
            "CPU",
            "user",
            "system",
            "a success",
            "before",
            "peak",
            "a connection",
        ]),
        row([
            "generator",
            &units::span(stage.generator.user),
            &units::span(stage.generator.system),
            &cpu(summary.generator_cpu),
        ]),
    ];
    let bytes = |bytes: Option<f64>| bytes.map_or(NONE.to_owned(), units::bytes);
    for (program, figures) in stage.watched.iter().zip(&summary.watched) {
        rows.push(row([
            &terminal(&program.name),
            &units::span(program.user),
            &units::span(program.system),
            &cpu(figures.cpu),
            &bytes(program.before.map(|bytes| bytes as f64)),
            &bytes(program.peak.map(|bytes| bytes as f64)),
            &bytes(figures.memory),
        ]));
    }
    if stage.watched.is_empty() {
        rows[0].truncate(4);
    }
    let table = aligned(2, &rows);
    format!("\n{table}  the generator's busiest thread took {busiest} of a CPU\n")
}

fn figure(nanoseconds: Option<f64>) -> String {
    nanoseconds.map_or(NONE.to_owned(), units::duration)
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests;
