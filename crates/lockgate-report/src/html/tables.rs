//! Tables of the page: stages, rounds, failures, programs, and all figures of each stage.

use std::fmt::Write;

use crate::escape::html;
use crate::summary::StageSummary;
use crate::units::{self, NONE};
use crate::{rows, words};
use lockgate_load::result::{FailureKind, RunResult, StageResult};

/// Table with one row a stage.
pub(super) fn stages(report: &RunResult) -> String {
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
        ];
        ([&cells[..], &rows::latencies(stage)].concat(), valid)
    });
    let note = words::successes_only(report).map_or(String::new(), |note| {
        format!("<p class=\"note\">{}</p>\n", html(&note))
    });
    table("", &head, rows) + &note
}

/// Targets of all stages, where there are several, or nothing.
pub(super) fn targets(report: &RunResult) -> Option<String> {
    let mut lines = Vec::new();
    for stage in &report.stages {
        let name = html(&words::stage(stage, report));
        for [target, requests, failed, cells @ ..] in rows::targets(report, stage) {
            let failed = if failed == "0" {
                failed
            } else {
                format!("<span class=\"mark\">{failed}</span>")
            };
            let target = format!("<code>{}</code>", html(&target));
            let line = [&[target, name.clone(), requests, failed][..], &cells].concat();
            lines.push((line, true));
        }
    }
    let mut head = rows::TARGETS.to_vec();
    head.insert(1, "stage");
    (!lines.is_empty()).then(|| table("urls", &head, lines.into_iter()))
}

/// Stages that were run more than once, or nothing.
pub(super) fn rounds(report: &RunResult) -> Option<String> {
    let rounds = words::rounds(report);
    let rows = rounds
        .into_iter()
        .map(|cells| (cells.map(|cell| html(&cell)).to_vec(), true));
    (rows.len() > 0).then(|| table("", &words::ROUNDS, rows))
}

/// Failures of all stages by their kind, or nothing.
pub(super) fn failures(report: &RunResult) -> Option<String> {
    let mut rows = Vec::new();
    for (at, kind) in FailureKind::ALL.into_iter().enumerate() {
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

/// CPU time and memory of the generator and of watched programs, a row for each stage.
pub(super) fn programs(report: &RunResult) -> String {
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
    let mut lines = Vec::new();
    for stage in &report.stages {
        let name = html(&words::stage(stage, report));
        let summary = StageSummary::of(stage, report.run.connections);
        let mut line = |program: String, cells: &[String]| {
            let mut line = [&[program, name.clone()][..], cells].concat();
            line.resize(head.len(), String::new());
            lines.push((line, true));
        };
        let busiest = units::percent(stage.generator.busiest);
        line(
            format!("generator, busiest thread {busiest}"),
            &rows::generator(stage, &summary),
        );
        for (program, figures) in stage.watched.iter().zip(&summary.watched) {
            line(html(&program.name), &rows::program(program, figures));
        }
    }
    table("", &head, lines.into_iter())
}

/// Every stage with all that is known of it, the last one unfolded.
pub(super) fn details(report: &RunResult) -> String {
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

fn latency(report: &RunResult, stage: &StageResult) -> String {
    let mut rows = rows::histograms(report.run.model, stage).into_iter();
    let head = rows.next().unwrap_or_default();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    table("", &head, rows.map(|cells| (cells, true)))
}

fn traffic(report: &RunResult, stage: &StageResult) -> String {
    let counts = &stage.counts;
    let summary = StageSummary::of(stage, report.run.connections);
    let share = summary.failed_share.map_or(NONE.to_owned(), units::percent);
    let [succeeded, failed, late, cut] =
        [counts.succeeded(), counts.failed(), counts.late, counts.cut].map(units::count);
    let ended = [
        (
            "succeeded",
            format!("{succeeded}, {}", units::rate(summary.rate)),
        ),
        ("failed", format!("{failed}, {share}")),
        (
            "late",
            format!("{late}: successes after the end of the stage, not counted in its rate"),
        ),
        (
            "cut",
            format!("{cut}: unfinished at the end, counted neither as success nor as failure"),
        ),
    ];
    let parts = words::parts(stage)
        .into_iter()
        .filter_map(|(name, values)| {
            let [p50, p99] = rows::medians(values)?;
            Some((name, format!("p50 {p50}, p99 {p99}")))
        });
    let succeeded = words::succeeded_share(stage)
        .map(|share| ("latency", format!("of the {share} that succeeded")));
    let ended = ended.into_iter().chain(succeeded).chain(parts);
    let mut out = String::from("<dl>");
    for (name, text) in ended.chain(rows::traffic(stage, &summary)) {
        let text = if text.is_empty() { NONE } else { &text };
        write!(out, "<dt>{name}</dt><dd>{text}</dd>").expect("memory");
    }
    out + "</dl>\n"
}

/// A table of cells that are HTML already; the first cell heads its row.
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
