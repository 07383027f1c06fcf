//! A comparison for programs: JSON and CSV.
//!
//! JSON is one object: `title`, `complete`, `machine`, `warnings`, `cases`. A case has `load`,
//! `stage`, `arguments`, `programs` and `pairs`. A program has `program`, `version`, `skipped`,
//! `errors`, `figures` (by name: `median`, `min`, `max`, `rounds`; of `failed` the sum) and
//! `rounds` (by name, with `round`, `invalid`, `answers`: the first of each target, and
//! `cpu_source`: "cgroup" or "processes"). A pair has `program`, `other` and by name `median`,
//! `min`, `max`, `rounds`, `low`, `high` (the interval), and either `verdict` ("less", "more", "not
//! shown") or `no_verdict`, why there is none; for latencies `added_us`, how much more it was, as
//! the median of the rounds. Names end in their units; a figure that does not exist is `null`.

use serde_json::{Map, Value, json};

use super::ComparisonDocument;
use crate::comparison::{Case, ProgramPair, ProgramRow, SampleMetric};
use crate::sample::LoadSample;
use crate::statistics::RatioVerdict;
use lockgate_report::escape::csv as quoted;

pub(super) fn json(document: &ComparisonDocument) -> String {
    let machine: Map<_, _> = document
        .facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    let value = json!({
        "title": document.title,
        "complete": document.complete,
        "machine": machine,
        "warnings": document.warnings,
        "cases": document.cases.iter().map(case).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn case(case: &Case) -> Value {
    json!({
        "load": case.load,
        "stage": case.stage,
        "arguments": case.arguments,
        "programs": case.rows.iter().map(program).collect::<Vec<_>>(),
        "pairs": case.pairs.iter().map(pair).collect::<Vec<_>>(),
    })
}

fn program(row: &ProgramRow) -> Value {
    let figures: Map<_, _> = SampleMetric::ALL
        .into_iter()
        .map(|metric| {
            let spread = row.spread(metric).map(|spread| {
            json!({ "median": spread.median, "min": spread.min, "max": spread.max, "rounds": spread.count })
        });
            (metric.key().to_owned(), spread.into())
        })
        .collect();
    let mut figures = figures;
    figures.insert(SampleMetric::Failed.key().to_owned(), row.failed().into());
    let rounds = row
        .rounds
        .iter()
        .map(|(number, sample)| round(*number, sample));
    json!({
        "program": row.program,
        "version": row.version,
        "skipped": row.skipped,
        "errors": row.errors,
        "figures": figures,
        "rounds": rounds.collect::<Vec<_>>(),
    })
}

fn round(number: usize, sample: &LoadSample) -> Value {
    let mut object = Map::new();
    object.insert("round".to_owned(), number.into());
    object.insert("succeeded".to_owned(), sample.succeeded.into());
    object.insert("elapsed_s".to_owned(), sample.elapsed.into());
    object.insert("user_s".to_owned(), sample.user.into());
    object.insert("system_s".to_owned(), sample.system.into());
    object.insert("cpu_source".to_owned(), sample.cpu_source.name().into());
    let answers = sample.answers.iter().map(ToString::to_string);
    object.insert("answers".to_owned(), answers.collect::<Vec<_>>().into());
    for metric in SampleMetric::ALL {
        object.insert(metric.key().to_owned(), metric.of(sample).into());
    }
    object.insert("tls".to_owned(), sample.tls.as_deref().into());
    object.insert("failures".to_owned(), sample.failures.clone().into());
    object.insert("invalid".to_owned(), reasons(sample).into());
    object.into()
}

fn reasons(sample: &LoadSample) -> Vec<&str> {
    sample.marks.iter().map(|mark| mark.why.as_str()).collect()
}

fn pair(pair: &ProgramPair) -> Value {
    let mut object = Map::new();
    object.insert("program".to_owned(), pair.program.as_str().into());
    object.insert("other".to_owned(), pair.other.as_str().into());
    for compared in &pair.ratios {
        let spread = compared.ratio.map(|ratio| ratio.spread);
        let interval = compared.ratio.and_then(|ratio| ratio.interval);
        let verdict = compared.verdict.as_ref().ok().map(|verdict| match verdict {
            RatioVerdict::Less => "less",
            RatioVerdict::More => "more",
            RatioVerdict::NotShown => "not shown",
        });
        let value = json!({
            "median": spread.map(|spread| spread.median),
            "min": spread.map(|spread| spread.min),
            "max": spread.map(|spread| spread.max),
            "rounds": spread.map(|spread| spread.count),
            "low": interval.map(|(low, _)| low),
            "high": interval.map(|(_, high)| high),
            "verdict": verdict,
            "no_verdict": compared.verdict.as_ref().err(),
            "added_us": compared.added.map(|added| added.median),
        });
        object.insert(compared.metric.key().to_owned(), value);
    }
    object.into()
}

pub(super) fn csv(document: &ComparisonDocument) -> String {
    let mut head = [
        "load",
        "stage",
        "program",
        "version",
        "round",
        "succeeded",
        "elapsed_s",
        "user_s",
        "system_s",
    ]
    .to_vec();
    head.extend(SampleMetric::ALL.iter().map(|metric| metric.key()));
    head.extend(["tls", "failures", "invalid", "error"]);
    let columns = head.len();
    let mut out = head.join(",") + "\n";
    for case in &document.cases {
        for row in &case.rows {
            for (number, sample) in &row.rounds {
                let mut cells = [&case.load, &case.stage, &row.program, &row.version]
                    .map(|text| quoted(text))
                    .to_vec();
                cells.push(number.to_string());
                cells.extend(
                    [sample.succeeded, sample.elapsed, sample.user, sample.system]
                        .map(|metric| metric.to_string()),
                );
                let figures = SampleMetric::ALL.iter().map(|metric| metric.of(sample));
                cells.extend(
                    figures.map(|metric| metric.map_or(String::new(), |metric| metric.to_string())),
                );
                cells.push(quoted(sample.tls.as_deref().unwrap_or_default()));
                cells.extend([
                    quoted(&sample.failures.join("; ")),
                    quoted(&reasons(sample).join("; ")),
                ]);
                cells.push(String::new());
                out += &(cells.join(",") + "\n");
            }
            // A program without figures has a line with the reason.
            for why in row.errors.iter().chain(&row.skipped) {
                let mut cells = [&case.load, &case.stage, &row.program, &row.version]
                    .map(|text| quoted(text))
                    .to_vec();
                cells.resize(columns - 1, String::new());
                cells.push(quoted(why));
                out += &(cells.join(",") + "\n");
            }
        }
    }
    out
}
