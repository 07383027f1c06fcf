//! Tables of the page: stages, rounds, failures, programs, and all figures of each stage.

use std::fmt::Write;

use crate::escape::html;
use crate::summary::{FIGURES, StageSummary, Summary};
use crate::units::{self, NONE};
use crate::words;
use lockgate_load::result::{Failure, Report, StageResult};

/// One row a stage.
pub(super) fn stages(report: &Report) -> String {
    let head = [
        "stage",
        "round",
        "time",
        "ok/s",
        "succeeded",
        "failed",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "mean",
    ];
    let rows = report.stages.iter().map(|stage| {
        let summary = Summary::of(&stage.counts.latency);
        let latency = |of: fn(&Summary) -> f64| figure(summary.as_ref().map(of));
        let valid = stage.invalid.is_empty();
        // Beside the name, where it is seen however narrow the page is.
        let mark = if valid {
            ""
        } else {
            " <span class=\"mark\">INVALID</span>"
        };
        let cells = [
            format!("{}{mark}", html(&stage.name)),
            stage.round.to_string(),
            units::span(stage.elapsed),
            units::number(StageSummary::of(stage, report.run.connections).rate),
            units::count(stage.counts.succeeded()),
            marked(stage.counts.failed()),
            latency(Summary::p50),
            latency(|summary| summary.percentiles[2]),
            latency(Summary::p99),
            latency(|summary| summary.percentiles[5]),
            latency(|summary| summary.max),
            latency(|summary| summary.mean),
        ];
        (cells.to_vec(), valid)
    });
    table("", &head, rows)
}

/// Stages that were run more than once, or nothing.
pub(super) fn rounds(report: &Report) -> Option<String> {
    let rounds = words::rounds(report);
    let rows = rounds
        .into_iter()
        .map(|cells| (cells.map(|cell| html(&cell)).to_vec(), true));
    (rows.len() > 0).then(|| table("", &words::ROUNDS, rows))
}

/// Failures of all stages by their kind, or nothing.
pub(super) fn failures(report: &Report) -> Option<String> {
    let mut rows = Vec::new();
    for (at, kind) in Failure::ALL.into_iter().enumerate() {
        let with: Vec<&StageResult> = report
            .stages
            .iter()
            .filter(|stage| stage.counts.failures[at] > 0)
            .collect();
        let Some(first) = with.first() else { continue };
        let number = with.iter().map(|stage| stage.counts.failures[at]).sum();
        let example = with
            .iter()
            .find_map(|stage| stage.counts.examples[at].as_deref());
        let cells = [
            kind.name().to_owned(),
            units::count(number),
            html(&words::stage(first, report)),
            html(example.unwrap_or(NONE)),
        ];
        rows.push((cells.to_vec(), true));
    }
    let head = [
        "kind",
        "failures",
        "first in stage",
        "what the first one was",
    ];
    (!rows.is_empty()).then(|| table("words", &head, rows.into_iter()))
}

/// What the generator and programs that were watched took, a row for each stage.
pub(super) fn programs(report: &Report) -> String {
    let head = [
        "program",
        "stage",
        "user",
        "system",
        "CPU a success",
        "before",
        "peak",
        "memory a connection",
    ];
    let mut rows = Vec::new();
    for stage in &report.stages {
        let name = html(&words::stage(stage, report));
        let summary = StageSummary::of(stage, report.run.connections);
        let cpu = |microseconds: Option<f64>| figure(microseconds.map(|each| each * 1e3));
        let busiest = units::percent(stage.generator.busiest);
        let generator = [
            format!("generator, busiest thread {busiest}"),
            name.clone(),
            units::span(stage.generator.user),
            units::span(stage.generator.system),
            cpu(summary.generator_cpu),
            String::new(),
            String::new(),
            String::new(),
        ];
        rows.push((generator.to_vec(), true));
        let bytes = |bytes: Option<f64>| bytes.map_or(NONE.to_owned(), units::bytes);
        for (program, figures) in stage.watched.iter().zip(&summary.watched) {
            let cells = [
                html(&program.name),
                name.clone(),
                units::span(program.user),
                units::span(program.system),
                cpu(figures.cpu),
                bytes(program.before.map(|bytes| bytes as f64)),
                bytes(program.peak.map(|bytes| bytes as f64)),
                bytes(figures.memory),
            ];
            rows.push((cells.to_vec(), true));
        }
    }
    table("", &head, rows.into_iter())
}

/// Every stage with all that is known of it, the last one unfolded.
pub(super) fn details(report: &Report) -> String {
    let mut out = String::new();
    for (at, stage) in report.stages.iter().enumerate() {
        let open = if at + 1 == report.stages.len() {
            " open"
        } else {
            ""
        };
        let name = html(&words::stage(stage, report));
        let (latency, traffic) = (latency(report, stage), traffic(report, stage));
        write!(
            out,
            "<details{open}><summary>{name}</summary>\n{latency}{traffic}</details>\n"
        )
        .expect("memory");
    }
    out
}

fn latency(report: &Report, stage: &StageResult) -> String {
    let histograms = words::histograms(report.run.model, stage);
    let summaries: Vec<_> = histograms
        .iter()
        .map(|(_, histogram)| Summary::of(histogram))
        .collect();
    let row = |name: &str, of: &dyn Fn(&Summary) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(
            summaries
                .iter()
                .map(|summary| summary.as_ref().map_or(NONE.to_owned(), of)),
        );
        (cells, true)
    };
    let mut rows = vec![row("count", &|summary| units::count(summary.count))];
    for (at, (name, _)) in FIGURES.iter().enumerate() {
        rows.push(row(name, &|summary| units::duration(summary.figures()[at])));
    }
    let mut head = vec![""];
    head.extend(histograms.iter().map(|(name, _)| *name));
    table("", &head, rows.into_iter())
}

fn traffic(report: &Report, stage: &StageResult) -> String {
    let counts = &stage.counts;
    let summary = StageSummary::of(stage, report.run.connections);
    let bytes =
        |bytes: u64, rate: f64| format!("{}, {}/s", units::bytes(bytes as f64), units::bytes(rate));
    let statuses = counts
        .statuses
        .iter()
        .map(|(status, number)| format!("{status}: {}", units::count(*number)));
    let statuses = statuses.collect::<Vec<_>>().join(", ");
    let rows = [
        (
            "succeeded",
            format!(
                "{}, {}",
                units::count(counts.succeeded()),
                units::rate(summary.rate)
            ),
        ),
        (
            "failed",
            format!(
                "{}, {}",
                units::count(counts.failed()),
                summary.failed_share.map_or(NONE.to_owned(), units::percent)
            ),
        ),
        (
            "late",
            format!(
                "{}: successes after the end of the stage, not counted in its rate",
                units::count(counts.late)
            ),
        ),
        (
            "cut",
            format!(
                "{}: unfinished at the end, counted neither as success nor as failure",
                units::count(counts.cut)
            ),
        ),
        (
            "statuses",
            if statuses.is_empty() {
                NONE.to_owned()
            } else {
                statuses
            },
        ),
        (
            "connections",
            format!(
                "{} opened, {} of them resumed a TLS session; {} on one that had been used",
                units::count(counts.opened),
                units::count(counts.resumed),
                units::counted(counts.reused, "exchange", "exchanges")
            ),
        ),
        ("sent", bytes(counts.sent, summary.sent_rate)),
        ("received", bytes(counts.received, summary.received_rate)),
    ];
    let rows = rows
        .into_iter()
        .fold(String::new(), |mut out, (name, text)| {
            write!(out, "<dt>{name}</dt><dd>{text}</dd>").expect("memory");
            out
        });
    format!("<dl>{rows}</dl>\n")
}

/// Cells are HTML already; the first is what its row is of.
fn table(class: &str, head: &[&str], rows: impl Iterator<Item = (Vec<String>, bool)>) -> String {
    let head = head.iter().fold(String::new(), |out, name| {
        out + "<th scope=\"col\">" + name + "</th>"
    });
    let mut body = String::new();
    for (cells, valid) in rows {
        body.push_str(if valid { "<tr>" } else { "<tr class=\"bad\">" });
        for (at, cell) in cells.iter().enumerate() {
            let (open, close) = if at == 0 {
                ("<th scope=\"row\">", "</th>")
            } else {
                ("<td>", "</td>")
            };
            write!(body, "{open}{cell}{close}").expect("memory");
        }
        body.push_str("</tr>\n");
    }
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"{class}\"><thead><tr>{head}</tr></thead><tbody>\n\
         {body}</tbody></table></div>\n"
    )
}

fn marked(number: u64) -> String {
    let text = units::count(number);
    if number > 0 {
        format!("<span class=\"mark\">{text}</span>")
    } else {
        text
    }
}

fn figure(nanoseconds: Option<f64>) -> String {
    nanoseconds.map_or(NONE.to_owned(), units::duration)
}
