//! Rows of tables that the text and HTML reports share; names are not escaped yet.

use std::time::Duration;

use crate::summary::{FIGURES, StageSummary, Summary, WatchedSummary};
use crate::units::{self, NONE};
use crate::words;
use lockgate_load::result::{LoadModel, NanosecondHistogram, RunResult, StageResult, Watched};

/// Latencies of a stage in a line: p50, p90, p99, p99.9, max, mean.
pub(crate) fn latencies(stage: &StageResult) -> [String; 6] {
    let Some(summary) = Summary::of(&stage.counts.latency) else {
        return [NONE; 6].map(str::to_owned);
    };
    ["p50", "p90", "p99", "p99.9", "max", "mean"].map(|name| duration(summary.figure(name)))
}

/// p50 and p99 of a histogram that is not empty.
pub(crate) fn medians(values: &NanosecondHistogram) -> Option<[String; 2]> {
    let summary = Summary::of(values)?;
    Some([summary.p50(), summary.p99()].map(duration))
}

/// Heads of the columns of [`targets`].
pub(crate) const TARGETS: [&str; 7] = ["target", "requests", "failed", "p50", "p99", "max", "time"];

/// A row for each target of a stage; `time` is the share of the time of all requests.
pub(crate) fn targets(report: &RunResult, stage: &StageResult) -> Vec<[String; 7]> {
    let all: f64 = stage.targets.iter().map(|one| one.time.as_secs_f64()).sum();
    let urls = report.run.targets.iter().zip(&stage.targets);
    let rows = urls.map(|(url, counts)| {
        let summary = Summary::of(&counts.latency);
        let figure = |name| duration(summary.as_ref().and_then(|summary| summary.figure(name)));
        let share = counts.time.as_secs_f64() / all;
        let share = if share.is_finite() {
            units::percent(share)
        } else {
            NONE.to_owned()
        };
        [
            url.clone(),
            units::count(counts.latency.len() + counts.failed()),
            units::count(counts.failed()),
            figure("p50"),
            figure("p99"),
            figure("max"),
            format!("{} ({share})", units::span(counts.time)),
        ]
    });
    rows.collect()
}

/// All figures of a stage's histograms, below a row of their names.
pub(crate) fn histograms(model: LoadModel, stage: &StageResult) -> Vec<Vec<String>> {
    let histograms = words::histograms(model, stage);
    let summaries = histograms.iter().map(|(_, values)| Summary::of(values));
    let summaries: Vec<_> = summaries.collect();
    let row = |name: &str, of: &dyn Fn(&Summary) -> String| {
        let cells = summaries.iter().map(|summary| cell(summary.as_ref(), of));
        [name.to_owned()].into_iter().chain(cells).collect()
    };
    let names = histograms.iter().map(|(name, _)| (*name).to_owned());
    let head = [String::new()].into_iter().chain(names).collect();
    let count = row("count", &|summary| units::count(summary.count));
    let mut rows = vec![head, count];
    for (index, (name, _)) in FIGURES.iter().enumerate() {
        rows.push(row(name, &|summary| duration(summary.figures()[index])));
    }
    rows
}

/// Name and text of a stage's statuses, connections and bytes; without a status the text is empty.
pub(crate) fn traffic(stage: &StageResult, summary: &StageSummary) -> [(&'static str, String); 4] {
    let counts = &stage.counts;
    let statuses = counts.statuses.iter();
    let statuses = statuses.map(|(status, number)| format!("{status}: {}", units::count(*number)));
    let retried = match counts.retried {
        0 => String::new(),
        retried => format!(
            "; {} sent again, because the server had not processed them",
            units::counted(retried, "request", "requests")
        ),
    };
    let connections = format!(
        "{} opened, {} of them resumed a TLS session; {} on one that had been used{retried}",
        units::count(counts.opened),
        units::count(counts.resumed),
        units::counted(counts.reused, "exchange", "exchanges")
    );
    let bytes =
        |bytes: u64, rate: f64| format!("{}, {}/s", units::bytes(bytes as f64), units::bytes(rate));
    [
        ("statuses", statuses.collect::<Vec<_>>().join(", ")),
        ("connections", connections),
        ("sent", bytes(counts.sent, summary.sent_rate)),
        ("received", bytes(counts.received, summary.received_rate)),
    ]
}

/// CPU time of the generator: user, system, a success.
pub(crate) fn generator(stage: &StageResult, summary: &StageSummary) -> [String; 3] {
    [
        cpu_time(stage.generator.user),
        cpu_time(stage.generator.system),
        microseconds(summary.generator_cpu),
    ]
}

/// CPU time and memory of a watched program: user, system, a success, before, peak, a connection.
pub(crate) fn program(program: &Watched, figures: &WatchedSummary) -> [String; 6] {
    let bytes = |bytes: Option<f64>| bytes.map_or(NONE.to_owned(), units::bytes);
    [
        cpu_time(program.user),
        cpu_time(program.system),
        microseconds(figures.cpu),
        bytes(program.before.map(|bytes| bytes as f64)),
        bytes(program.peak.map(|bytes| bytes as f64)),
        bytes(figures.memory),
    ]
}

fn duration(nanoseconds: Option<f64>) -> String {
    nanoseconds.map_or(NONE.to_owned(), units::duration)
}

/// The kernel counts the modes of a CPU by its ticks: none of them is not no time.
fn cpu_time(time: Duration) -> String {
    if time.is_zero() {
        NONE.to_owned()
    } else {
        units::span(time)
    }
}

fn microseconds(time: Option<f64>) -> String {
    time.map_or(NONE.to_owned(), |time| units::duration(time * 1e3))
}

fn cell<T>(figures: Option<&T>, of: &dyn Fn(&T) -> String) -> String {
    figures.map_or(NONE.to_owned(), of)
}
