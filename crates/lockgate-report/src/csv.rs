//! The report as comma-separated values (RFC 4180): one line a stage, or one line a second.
//!
//! Columns have the names of [`crate::json`]'s keys, the inner ones behind the outer:
//! `latency_us_p99_9`. A figure that cannot be had is an empty field.

use crate::escape::csv;
use crate::summary::{FIGURES, StageSummary, Summary};
use lockgate_load::result::{FailureKind, NanosecondHistogram, RunResult, StageResult};

/// Name and text of each field of a line.
type CsvRecord = Vec<(String, String)>;

/// One line a stage below a header.
pub fn stages(report: &RunResult) -> String {
    let mut programs: Vec<&str> = Vec::new();
    for program in report.stages.iter().flat_map(|stage| &stage.watched) {
        if !programs.contains(&program.name.as_str()) {
            programs.push(&program.name);
        }
    }
    table(
        report
            .stages
            .iter()
            .map(|each| stage(each, report.run.connections, &programs))
            .collect(),
    )
}

/// One line for each second of each stage below a header.
pub fn seconds(report: &RunResult) -> String {
    let mut lines = Vec::new();
    for stage in &report.stages {
        for (at, second) in stage.seconds.iter().enumerate() {
            let latency = |nanoseconds: u64| {
                if second.succeeded > 0 {
                    (nanoseconds as f64 / 1e3).to_string()
                } else {
                    String::new()
                }
            };
            lines.push(named([
                ("round", stage.round.to_string()),
                ("stage", stage.name.clone()),
                ("second", (at + 1).to_string()),
                ("succeeded", second.succeeded.to_string()),
                ("failed", second.failed.to_string()),
                ("bytes_received", second.received.to_string()),
                ("p50_us", latency(second.p50)),
                ("p99_us", latency(second.p99)),
                ("max_us", latency(second.max)),
                ("length_s", second.length.as_secs_f64().to_string()),
            ]));
        }
    }
    table(lines)
}

fn stage(stage: &StageResult, connections: usize, programs: &[&str]) -> CsvRecord {
    let counts = &stage.counts;
    let summary = StageSummary::of(stage, connections);
    let mut line = named([
        ("round", stage.round.to_string()),
        ("stage", stage.name.clone()),
        ("rate", optional(stage.rate)),
        ("elapsed_s", stage.elapsed.as_secs_f64().to_string()),
        ("succeeded", counts.succeeded().to_string()),
        ("succeeded_per_s", summary.rate.to_string()),
        ("failed", counts.failed().to_string()),
    ]);
    for (kind, number) in FailureKind::ALL.into_iter().zip(counts.failures) {
        line.push((format!("failures_{}", kind.name()), number.to_string()));
    }
    line.extend(named([
        ("late", counts.late.to_string()),
        ("cut", counts.cut.to_string()),
    ]));
    line.extend(microseconds("latency_us", &counts.latency));
    line.extend(microseconds("service_us", &counts.service));
    line.extend(named([
        ("connections_opened", counts.opened.to_string()),
        ("connections_resumed", counts.resumed.to_string()),
        ("exchanges_reused", counts.reused.to_string()),
        ("requests_retried", counts.retried.to_string()),
        ("bytes_sent", counts.sent.to_string()),
        ("bytes_received", counts.received.to_string()),
        (
            "generator_user_s",
            stage.generator.user.as_secs_f64().to_string(),
        ),
        (
            "generator_system_s",
            stage.generator.system.as_secs_f64().to_string(),
        ),
        ("generator_busiest", stage.generator.busiest.to_string()),
    ]));
    for program in programs {
        line.extend(watched(stage, &summary, program));
    }
    line.push((
        "invalid".to_owned(),
        stage
            .invalid
            .iter()
            .map(|invalid| invalid.text.as_str())
            .collect::<Vec<_>>()
            .join("; "),
    ));
    line
}

/// Columns of one program, empty where it was not watched: every line has as many fields (RFC 4180
/// §2, rule 4).
fn watched(stage: &StageResult, summary: &StageSummary, name: &str) -> CsvRecord {
    let at = stage
        .watched
        .iter()
        .position(|program| program.name == name);
    let program = at.map(|at| &stage.watched[at]);
    let figures = at.map(|at| summary.watched[at]);
    let columns = [
        (
            "user_s",
            optional(program.map(|program| program.user.as_secs_f64())),
        ),
        (
            "system_s",
            optional(program.map(|program| program.system.as_secs_f64())),
        ),
        (
            "cpu_us_per_success",
            optional(figures.and_then(|figures| figures.cpu)),
        ),
        (
            "before_bytes",
            optional(program.and_then(|program| program.before)),
        ),
        (
            "peak_bytes",
            optional(program.and_then(|program| program.peak)),
        ),
        (
            "bytes_per_connection",
            optional(figures.and_then(|figures| figures.memory)),
        ),
    ];
    columns
        .into_iter()
        .map(|(column, text)| (format!("{name}_{column}"), text))
        .collect()
}

fn microseconds(name: &str, histogram: &NanosecondHistogram) -> CsvRecord {
    let figures = Summary::of(histogram).map(|summary| summary.figures());
    let field = |at: usize| optional(figures.and_then(|figures| Some(figures[at]? / 1e3)));
    FIGURES
        .iter()
        .enumerate()
        .map(|(at, (_, key))| (format!("{name}_{key}"), field(at)))
        .collect()
}

fn named<const N: usize>(fields: [(&str, String); N]) -> CsvRecord {
    fields.map(|(name, text)| (name.to_owned(), text)).to_vec()
}

fn optional<T: ToString>(figure: Option<T>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

fn table(lines: Vec<CsvRecord>) -> String {
    let header = lines
        .first()
        .map(|line| line.iter().map(|(name, _)| csv(name)).collect::<Vec<_>>());
    let lines = lines
        .iter()
        .map(|line| line.iter().map(|(_, text)| csv(text)).collect());
    header
        .into_iter()
        .chain(lines)
        .map(|fields: Vec<String>| fields.join(",") + "\r\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn column<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        let mut lines = text
            .split_terminator("\r\n")
            .map(|line| line.split(',').collect::<Vec<_>>());
        let at = lines
            .next()
            .unwrap()
            .iter()
            .position(|header| *header == name)
            .unwrap();
        lines.map(|line| line[at]).collect()
    }

    #[test]
    fn each_stage_is_a_line_of_as_many_fields_as_the_header() {
        let mut report = sample::ladder(3);
        sample::fail(&mut report.stages[1], FailureKind::Body, 2, "other bytes");
        report.stages[2].watched.clear();
        report.stages.push(sample::stage("4000/s", 0, 1e6));
        let text = stages(&report);
        let fields: Vec<_> = text
            .split_terminator("\r\n")
            .map(|line| line.split(',').count())
            .collect();
        assert_eq!(fields, [fields[0]; 5]);
        assert_eq!(column(&text, "rate"), ["1000", "2000", "3000", ""]);
        assert_eq!(column(&text, "failures_body"), ["0", "2", "0", "0"]);
        assert_eq!(
            column(&text, "lockgate_peak_bytes"),
            ["9280000", "9280000", "", "9280000"]
        );
        let p99_9 = column(&text, "latency_us_p99_9");
        assert!(
            p99_9[0].parse::<f64>().unwrap() > 100.0 && p99_9[3].is_empty(),
            "{p99_9:?}"
        );
    }

    #[test]
    fn each_second_is_a_line_without_latency_where_nothing_succeeded() {
        let mut report = sample::report(&["a, \"b\""]);
        report.stages[0].seconds.truncate(2);
        report.stages[0].seconds[1].succeeded = 0;
        let text = seconds(&report);
        let lines: Vec<_> = text.split_terminator("\r\n").collect();
        assert_eq!(
            lines[0],
            "round,stage,second,succeeded,failed,bytes_received,p50_us,p99_us,max_us,length_s"
        );
        assert_eq!(
            lines[1],
            "1,\"a, \"\"b\"\"\",1,100,0,42000,1000,1500,4000,1"
        );
        assert_eq!(lines[2], "1,\"a, \"\"b\"\"\",2,0,0,42000,,,,1");
    }

    #[test]
    fn without_stages_there_is_no_line() {
        assert_eq!(stages(&sample::report(&[])), "");
        assert_eq!(seconds(&sample::report(&[])), "");
    }
}
