//! Words that the text and HTML reports share: how load was made, how the run ended, notes about a
//! stage.

use crate::summary::{self, Spread, StageSummary, Summary};
use crate::units;
use lockgate_load::result::{
    FirstResponse, LoadModel, NanosecondHistogram, RunDescription, RunEnd, RunResult, StageResult,
};

/// Meaning of the latencies of a run.
pub(crate) fn model(model: LoadModel) -> &'static str {
    match model {
        LoadModel::Closed => {
            "closed loop: a slow response delays the next request, so the wait in a queue is not counted"
        }
        LoadModel::Open => "open loop: latency from when each request was due",
    }
}

/// Why a run is no whole run, if it is none.
pub(crate) fn end(end: &RunEnd) -> Option<String> {
    match end {
        RunEnd::Complete => None,
        RunEnd::Interrupted => {
            Some("INTERRUPTED: these are the measurements until then".to_owned())
        }
        RunEnd::Stopped(status) => Some(format!("STOPPED by a response with status {status}")),
    }
}

/// `64 connections on 2 threads, pinned to CPUs 0, 1; a request may take 10.0 s`; with streams for
/// HTTP/2.
pub(crate) fn load(run: &RunDescription) -> String {
    let cpus: Vec<_> = run.cpus.iter().map(usize::to_string).collect();
    let pinned = match cpus.len() {
        0 => String::new(),
        1 => format!(", pinned to CPU {}", cpus[0]),
        _ => format!(", pinned to CPUs {}", cpus.join(", ")),
    };
    let streams = run.streams.map(|streams| {
        let streams = units::counted(streams as u64, "stream", "streams");
        if run.connections == 1 {
            format!(" of {streams}")
        } else {
            format!(" of {streams} each")
        }
    });
    format!(
        "{}{} on {}{pinned}; time limit of a request {}",
        units::counted(run.connections as u64, "connection", "connections"),
        streams.unwrap_or_default(),
        units::counted(run.threads as u64, "thread", "threads"),
        units::span(run.timeout)
    )
}

/// `status 200, 170 bytes, HTTP/1.1, TLS 1.3`: the first response, which the others are compared
/// with.
pub(crate) fn first(answer: &FirstResponse) -> String {
    let mut parts = Vec::new();
    parts.extend(answer.status.map(|status| format!("status {status}")));
    parts.push(units::counted(answer.length, "byte", "bytes"));
    parts.push(match answer.streams {
        None => answer.protocol.to_owned(),
        Some(streams) => format!("{} with {streams} streams at the most", answer.protocol),
    });
    parts.extend(answer.tls.clone());
    parts.join(", ")
}

/// The name of a stage, with its round where there are several.
pub(crate) fn stage(stage: &StageResult, report: &RunResult) -> String {
    let rounds = report
        .stages
        .iter()
        .any(|other| other.round != report.stages[0].round);
    if rounds {
        format!("{}, round {}", stage.name, stage.round)
    } else {
        stage.name.clone()
    }
}

/// Each stage that is invalid with each reason.
pub(crate) fn invalid(report: &RunResult) -> Vec<(String, &str)> {
    let reasons = report.stages.iter().flat_map(|each| {
        let name = stage(each, report);
        each.invalid
            .iter()
            .map(move |reason| (name.clone(), reason.text.as_str()))
    });
    reasons.collect()
}

/// Each note with the name of its stage.
pub(crate) fn notes(report: &RunResult) -> Vec<(String, &str)> {
    let notes = report.stages.iter().flat_map(|each| {
        let name = stage(each, report);
        each.notes
            .iter()
            .map(move |note| (name.clone(), note.as_str()))
    });
    notes.collect()
}

/// `INVALID: no stage was measured`, as how many stages do not describe the target.
pub(crate) fn verdict(report: &RunResult) -> Option<String> {
    let invalid = report
        .stages
        .iter()
        .filter(|stage| !stage.invalid.is_empty())
        .count();
    match (invalid, report.stages.len()) {
        (_, 0) => Some("INVALID: no stage was measured".to_owned()),
        (0, _) => None,
        (_, 1) => Some("INVALID: these figures do not describe the target".to_owned()),
        (some, all) => Some(format!(
            "INVALID: the figures of {some} of {all} stages do not describe the target"
        )),
    }
}

/// Heads of the columns of [`rounds`].
pub(crate) const ROUNDS: [&str; 5] = ["rounds", "median", "lowest", "highest", "spread"];

/// A figure of several rounds: its name, spread and format.
type RoundFigure = (&'static str, Option<Spread>, fn(f64) -> String);

/// Rate and latency of stages that were run more than once: one round is an anecdote.
pub(crate) fn rounds(report: &RunResult) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    for group in summary::rounds(report)
        .iter()
        .filter(|group| group.len() > 1)
    {
        let rates = group
            .iter()
            .map(|stage| StageSummary::of(stage, report.run.connections).rate);
        let latency = |of: fn(&Summary) -> Option<f64>| {
            Spread::of(
                group
                    .iter()
                    .filter_map(|stage| Summary::of(&stage.counts.latency))
                    .filter_map(|each| of(&each)),
            )
        };
        let figures: [RoundFigure; 3] = [
            ("successes", Spread::of(rates), units::rate),
            ("p50", latency(Summary::p50), units::duration),
            ("p99", latency(Summary::p99), units::duration),
        ];
        for (name, spread, show) in figures {
            let Some(spread) = spread else { continue };
            let name = format!("{} × {}, {name}", group.len(), group[0].name);
            let relative = spread
                .relative()
                .map_or(units::NONE.to_owned(), units::percent);
            rows.push([
                name,
                show(spread.median),
                show(spread.min),
                show(spread.max),
                relative,
            ]);
        }
    }
    rows
}

/// The share of successes of a stage, where others failed: latencies are of successes only.
pub(crate) fn succeeded_share(stage: &StageResult) -> Option<String> {
    let (succeeded, failed) = (stage.counts.succeeded(), stage.counts.failed());
    let share = succeeded as f64 / (succeeded + failed) as f64;
    (succeeded > 0 && failed > 0).then(|| units::percent(share))
}

/// The note below a table of stages, where requests failed.
pub(crate) fn successes_only(report: &RunResult) -> Option<String> {
    let shares = report.stages.iter().filter_map(|each| {
        let share = succeeded_share(each)?;
        Some(format!("{share} in {}", stage(each, report)))
    });
    let shares: Vec<_> = shares.collect();
    (!shares.is_empty()).then(|| {
        format!(
            "latencies are of requests that succeeded: {}",
            shares.join(", ")
        )
    })
}

/// The times that a request consists of, with their names: connecting, its part in TLS, and from
/// sending to the first byte of the response.
pub(crate) fn parts(stage: &StageResult) -> [(&'static str, &NanosecondHistogram); 3] {
    let counts = &stage.counts;
    [
        ("connect", &counts.connect),
        ("TLS", &counts.tls),
        ("first byte", &counts.first_byte),
    ]
}

/// Histograms of a stage that matter for this load model, with their names: latency always, others
/// where they have values. A closed loop is never late, and its requests are due when they are
/// sent.
pub(crate) fn histograms(
    model: LoadModel,
    stage: &StageResult,
) -> Vec<(&'static str, &NanosecondHistogram)> {
    let counts = &stage.counts;
    let mut all = vec![("latency", &counts.latency)];
    if model == LoadModel::Open {
        all.push(("service", &counts.service));
    }
    all.extend([("failed", &counts.failed), ("connect", &counts.connect)]);
    if model == LoadModel::Open {
        all.push(("lateness", &counts.lateness));
    }
    all.retain(|(name, held)| *name == "latency" || !held.is_empty());
    all
}
