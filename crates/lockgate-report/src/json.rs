//! The JSON report of a run: `lockgate load` writes it, `lockgate compare` reads it.
//!
//! Keys keep their names and their meaning; new ones may come, and a report without them is read. A figure that cannot be had is
//! `null`. Keys that end in `_us` hold microseconds, in `_s` seconds. The whole distributions are
//! in the log that [`crate::hdr`] writes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lockgate_load::cpu_times::CpuTime;
use lockgate_load::result::{
    Bottleneck, CpuSource, FailureKind, FirstResponse, LoadModel, NanosecondHistogram, RunEnd,
    RunResult, Second, StageResult, TargetCounts,
};
use serde::{Deserialize, Serialize};

use crate::summary::{FIGURES, StageSummary, Summary, is_valid};

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Words of the command line.
    pub command: Vec<String>,
    /// URLs of the targets, as written.
    pub targets: Vec<String>,
    /// `"closed"` or `"open"`: whether latency counts from when a request was sent or was due.
    #[serde(with = "LoadModelName")]
    pub model: LoadModel,
    /// Connections at once, over all threads.
    pub connections: usize,
    /// Streams of each connection at once; `null` but for HTTP/2.
    pub streams: Option<usize>,
    /// Number of threads of the generator.
    pub threads: usize,
    /// CPUs that the threads are pinned to.
    pub cpus: Vec<usize>,
    /// Timeout of one exchange, from its due time.
    pub timeout_s: f64,
    /// When the first stage began, since 1970.
    pub began_unix_s: f64,
    /// How the run ended: as planned or early.
    pub end: EndReport,
    /// Whether there is a stage and none is invalid.
    pub valid: bool,
    /// Requests before the first stage.
    pub uncounted: u64,
    /// The first response of each target.
    pub first: Vec<FirstReport>,
    /// Stages in their order, without the warm-up.
    pub stages: Vec<StageReport>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LoadModel", rename_all = "lowercase")]
enum LoadModelName {
    Closed,
    Open,
}

/// How a run ended: as planned or early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum EndReport {
    /// The run ended as planned.
    Complete,
    /// A signal ended it: Ctrl-C or TERM.
    Interrupted,
    /// A response had a status of `--stop-on`.
    Stopped {
        /// The status of that response.
        status: u16,
    },
}

/// The first response of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstReport {
    /// URL of the target, as written.
    pub target: String,
    /// HTTP status, where HTTP is spoken.
    pub status: Option<u16>,
    /// Length of the body in bytes.
    pub length_bytes: u64,
    /// `HTTP/1.1`, `HTTP/2`, `gRPC`, `WebSocket` or `bytes`.
    pub protocol: String,
    /// Streams that the server takes at once on an HTTP/2 connection, where it says so.
    pub streams_allowed: Option<usize>,
    /// TLS version and suite, with TLS.
    pub tls: Option<String>,
}

/// One stage of a run: a rate of a ladder, a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Round of the stage, from 1 on.
    pub round: usize,
    /// Name among the stages: `"3000/s"`.
    pub name: String,
    /// Requests a second that were due, where there was one rate.
    pub rate: Option<f64>,
    /// Duration that the rates count by.
    pub elapsed_s: f64,
    /// Exchanges that met the expectations.
    pub succeeded: u64,
    /// Successes a second, without late ones.
    pub succeeded_per_s: f64,
    /// Failed exchanges, of all kinds.
    pub failed: u64,
    /// Share of failures among ended exchanges, 0 to 1.
    pub failed_share: Option<f64>,
    /// Failures of each kind, all kinds.
    pub failures: BTreeMap<String, u64>,
    /// Text of the first failure of a kind.
    pub examples: BTreeMap<String, String>,
    /// Number of responses of each status.
    pub statuses: BTreeMap<u16, u64>,
    /// Successes after the end of the stage's time.
    pub late: u64,
    /// Requests cut at the end of the stage: neither successes nor failures.
    pub cut: u64,
    /// Latency of successes, from when they were due.
    pub latency_us: HistogramReport,
    /// Latency of successes, from when they were sent.
    pub service_us: HistogramReport,
    /// Latency of failures, from when they were due.
    pub failed_us: HistogramReport,
    /// Lateness of the generator's own, where a connection was free.
    pub lateness_us: HistogramReport,
    /// Time to open connections, TLS included.
    pub connect_us: HistogramReport,
    /// Time of TLS handshakes, a part of `connect_us`.
    #[serde(default)]
    pub tls_us: HistogramReport,
    /// Time from when a request was sent to the first byte of its response, of successes.
    #[serde(default)]
    pub first_byte_us: HistogramReport,
    /// Counts of each target; empty where there is one target.
    #[serde(default)]
    pub targets: Vec<TargetReport>,
    /// Connections that were opened in this stage.
    pub connections_opened: u64,
    /// Connections that resumed a TLS session.
    pub connections_resumed: u64,
    /// Exchanges on connections that had had one before.
    pub exchanges_reused: u64,
    /// Requests sent again, because the server had not processed them.
    #[serde(default)]
    pub requests_retried: u64,
    /// Bytes of messages sent, heads included.
    pub bytes_sent: u64,
    /// Bytes of messages received, heads included.
    pub bytes_received: u64,
    /// Bytes sent a second, without late ones.
    pub bytes_sent_per_s: f64,
    /// Bytes received a second, without late ones.
    pub bytes_received_per_s: f64,
    /// CPU time of the generator itself.
    pub generator: GeneratorReport,
    /// Watched programs, in the order of the options.
    pub watched: Vec<WatchedReport>,
    /// CPUs of the machine, with the load of all processes.
    pub cpus: Vec<CpuReport>,
    /// Why the figures are not the target's.
    pub invalid: Vec<InvalidReport>,
    /// Notes for the reader, such as that the link was the limit.
    pub notes: Vec<String>,
    /// Seconds of the stage, by the end of exchanges.
    pub seconds: Vec<SecondReport>,
}

/// Figures of one histogram; `null` where it is empty, and percentiles of fewer values than 1 / (1 -
/// p): p99.9 needs 1,000.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HistogramReport {
    /// Number of values in the histogram.
    pub count: u64,
    /// Minimum of the values.
    pub min: Option<f64>,
    /// 50th percentile: the median.
    pub p50: Option<f64>,
    /// 75th percentile of the values.
    pub p75: Option<f64>,
    /// 90th percentile of the values.
    pub p90: Option<f64>,
    /// 95th percentile of the values.
    pub p95: Option<f64>,
    /// 99th percentile of the values.
    pub p99: Option<f64>,
    /// 99.9th percentile of the values.
    pub p99_9: Option<f64>,
    /// 99.99th percentile of the values.
    pub p99_99: Option<f64>,
    /// Maximum of the values.
    pub max: Option<f64>,
    /// Mean of all values.
    pub mean: Option<f64>,
    /// Standard deviation of all values.
    pub sd: Option<f64>,
    /// Mean of the smallest 95 %.
    pub tm95: Option<f64>,
    /// Mean of the smallest 99 %.
    pub tm99: Option<f64>,
    /// Mean of the smallest 99.9 %.
    pub tm99_9: Option<f64>,
}

/// Counts of the requests to one target in a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// URL of the target, as written.
    pub target: String,
    /// Requests that met the expectations.
    pub succeeded: u64,
    /// Failed requests, of all kinds; those that were never sent have no target.
    pub failed: u64,
    /// Failures of each kind that there was.
    pub failures: BTreeMap<String, u64>,
    /// Latency of successes, from when they were due.
    pub latency_us: HistogramReport,
    /// Sum of the latencies of successes and failures.
    pub time_s: f64,
}

/// CPU time of the generator during a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorReport {
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
    /// Share of one CPU that the busiest thread used, 0 to 1.
    pub busiest: f64,
    /// Longest share of the time that a thread was ready and had no CPU.
    pub waited: f64,
    /// CPU time for each success.
    pub cpu_us_per_success: Option<f64>,
}

/// CPU time and memory of a watched program during a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedReport {
    /// Name that `--watch` gave it.
    pub name: String,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
    /// `"cgroup"`: the time of all processes; `"processes"`: without that of ended children that
    /// were never waited for.
    #[serde(with = "SourceName", default = "processes")]
    pub cpu_source: CpuSource,
    /// CPUs that its threads might run on at the end of the stage.
    #[serde(default)]
    pub allowed_cpus: Vec<usize>,
    /// CPU time for each success.
    pub cpu_us_per_success: Option<f64>,
    /// Memory before the first connection.
    pub before_bytes: Option<u64>,
    /// Peak memory during the stage.
    pub peak_bytes: Option<u64>,
    /// Memory that each connection added; negative where the program shrank.
    pub bytes_per_connection: Option<f64>,
}

/// Time of one CPU of the machine during a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuReport {
    /// Number of the CPU, from 0 on.
    pub cpu: usize,
    /// Time of processes, interrupts not included.
    pub processes_s: f64,
    /// Time of processes and interrupts.
    pub busy_s: f64,
    /// Whole time, idle time included.
    pub whole_s: f64,
}

/// A reason why the figures of a stage are not the target's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidReport {
    /// `"generator"`, `"lateness"` or `"link"`: the limit instead of the target.
    #[serde(with = "LimitName")]
    pub limit: Bottleneck,
    /// Explanation for the reader, with the measured figures.
    pub why: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Bottleneck", rename_all = "lowercase")]
enum LimitName {
    Generator,
    Lateness,
    Link,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CpuSource", rename_all = "lowercase")]
enum SourceName {
    Cgroup,
    Processes,
}

/// The source in reports of versions that did not name it.
fn processes() -> CpuSource {
    CpuSource::Processes
}

/// One second of a stage; its latencies are `null` without a success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecondReport {
    /// Length: 1, or less for the last second of a stage.
    #[serde(default = "whole_second")]
    pub length_s: f64,
    /// Exchanges that met the expectations, in this second.
    pub succeeded: u64,
    /// Failed exchanges in this second, of all kinds.
    pub failed: u64,
    /// Bytes received in this second.
    pub bytes_received: u64,
    /// Median latency in this second.
    pub p50_us: Option<f64>,
    /// 99th percentile of latency in this second.
    pub p99_us: Option<f64>,
    /// Maximum latency in this second.
    pub max_us: Option<f64>,
}

/// The length of seconds in reports that do not have it.
fn whole_second() -> f64 {
    1.0
}

/// The report as one JSON object on several lines, with a line end.
pub fn render(report: &RunResult) -> String {
    // A value sorts its keys, so that two reports can be compared line by line.
    let value = serde_json::to_value(RunReport::of(report)).expect("all keys are strings");
    format!("{value:#}\n")
}

impl RunReport {
    /// The JSON report of a run's result.
    pub fn of(report: &RunResult) -> Self {
        let run = &report.run;
        let began = report.began.duration_since(SystemTime::UNIX_EPOCH);
        Self {
            command: run.command.clone(),
            targets: run.targets.clone(),
            model: run.model,
            connections: run.connections,
            streams: run.streams,
            threads: run.threads,
            cpus: run.cpus.clone(),
            timeout_s: run.timeout.as_secs_f64(),
            began_unix_s: began.map_or(0.0, |since| since.as_secs_f64()),
            end: EndReport::of(&report.end),
            valid: is_valid(report),
            uncounted: report.uncounted,
            first: report.first.iter().map(FirstReport::of).collect(),
            stages: report
                .stages
                .iter()
                .map(|stage| StageReport::of(stage, run.connections, &run.targets))
                .collect(),
        }
    }
}

impl EndReport {
    fn of(end: &RunEnd) -> Self {
        match *end {
            RunEnd::Complete => Self::Complete,
            RunEnd::Interrupted => Self::Interrupted,
            RunEnd::Stopped(status) => Self::Stopped { status },
        }
    }
}

impl FirstReport {
    fn of(first: &FirstResponse) -> Self {
        Self {
            target: first.target.clone(),
            status: first.status,
            length_bytes: first.length,
            protocol: first.protocol.to_owned(),
            streams_allowed: first.streams,
            tls: first.tls.clone(),
        }
    }
}

impl StageReport {
    /// The report of a stage that had so many connections at once.
    fn of(stage: &StageResult, connections: usize, targets: &[String]) -> Self {
        let counts = &stage.counts;
        let summary = StageSummary::of(stage, connections);
        let failures = FailureKind::ALL.iter().zip(counts.failures);
        let examples = FailureKind::ALL.iter().zip(&counts.examples);
        Self {
            round: stage.round,
            name: stage.name.clone(),
            rate: stage.rate,
            elapsed_s: stage.elapsed.as_secs_f64(),
            succeeded: counts.succeeded(),
            succeeded_per_s: summary.rate,
            failed: counts.failed(),
            failed_share: summary.failed_share,
            failures: failures
                .map(|(kind, number)| (kind.name().to_owned(), number))
                .collect(),
            examples: examples
                .filter_map(|(kind, text)| Some((kind.name().to_owned(), text.clone()?)))
                .collect(),
            statuses: counts.statuses.clone(),
            late: counts.late,
            cut: counts.cut,
            latency_us: HistogramReport::of(&counts.latency),
            service_us: HistogramReport::of(&counts.service),
            failed_us: HistogramReport::of(&counts.failed),
            lateness_us: HistogramReport::of(&counts.lateness),
            connect_us: HistogramReport::of(&counts.connect),
            tls_us: HistogramReport::of(&counts.tls),
            first_byte_us: HistogramReport::of(&counts.first_byte),
            targets: targets
                .iter()
                .zip(&stage.targets)
                .map(|(target, counts)| TargetReport::of(target, counts))
                .collect(),
            connections_opened: counts.opened,
            connections_resumed: counts.resumed,
            exchanges_reused: counts.reused,
            requests_retried: counts.retried,
            bytes_sent: counts.sent,
            bytes_received: counts.received,
            bytes_sent_per_s: summary.sent_rate,
            bytes_received_per_s: summary.received_rate,
            generator: GeneratorReport {
                user_s: stage.generator.user.as_secs_f64(),
                system_s: stage.generator.system.as_secs_f64(),
                busiest: stage.generator.busiest,
                waited: stage.generator.waited,
                cpu_us_per_success: summary.generator_cpu,
            },
            watched: watched(stage, &summary),
            cpus: stage.cpus.iter().map(CpuReport::of).collect(),
            invalid: stage
                .invalid
                .iter()
                .map(|invalid| InvalidReport {
                    limit: invalid.limit,
                    why: invalid.text.clone(),
                })
                .collect(),
            notes: stage.notes.clone(),
            seconds: stage.seconds.iter().map(SecondReport::of).collect(),
        }
    }
}

impl TargetReport {
    fn of(target: &str, counts: &TargetCounts) -> Self {
        let failures = FailureKind::ALL.iter().zip(counts.failures);
        let failures = failures.filter(|(_, number)| *number > 0);
        Self {
            target: target.to_owned(),
            succeeded: counts.latency.len(),
            failed: counts.failed(),
            failures: failures
                .map(|(kind, number)| (kind.name().to_owned(), number))
                .collect(),
            latency_us: HistogramReport::of(&counts.latency),
            time_s: counts.time.as_secs_f64(),
        }
    }
}

fn watched(stage: &StageResult, summary: &StageSummary) -> Vec<WatchedReport> {
    let programs = stage.watched.iter().zip(&summary.watched);
    programs
        .map(|(program, figures)| WatchedReport {
            name: program.name.clone(),
            user_s: program.user.as_secs_f64(),
            system_s: program.system.as_secs_f64(),
            cpu_source: program.source,
            allowed_cpus: program.allowed_cpus.clone(),
            cpu_us_per_success: figures.cpu,
            before_bytes: program.before,
            peak_bytes: program.peak,
            bytes_per_connection: figures.memory,
        })
        .collect()
}

impl HistogramReport {
    fn of(histogram: &NanosecondHistogram) -> Self {
        let figures = Summary::of(histogram).map_or([None; FIGURES.len()], |summary| {
            summary
                .figures()
                .map(|figure| figure.map(|nanoseconds| nanoseconds / 1e3))
        });
        let [
            min,
            p50,
            p75,
            p90,
            p95,
            p99,
            p99_9,
            p99_99,
            max,
            mean,
            sd,
            tm95,
            tm99,
            tm99_9,
        ] = figures;
        Self {
            count: histogram.len(),
            min,
            p50,
            p75,
            p90,
            p95,
            p99,
            p99_9,
            p99_99,
            max,
            mean,
            sd,
            tm95,
            tm99,
            tm99_9,
        }
    }
}

impl CpuReport {
    fn of(time: &CpuTime) -> Self {
        Self {
            cpu: time.cpu,
            processes_s: time.processes.as_secs_f64(),
            busy_s: time.busy.as_secs_f64(),
            whole_s: time.whole.as_secs_f64(),
        }
    }
}

impl SecondReport {
    fn of(second: &Second) -> Self {
        let latency = |nanoseconds: u64| (second.succeeded > 0).then_some(nanoseconds as f64 / 1e3);
        Self {
            length_s: second.length.as_secs_f64(),
            succeeded: second.succeeded,
            failed: second.failed,
            bytes_received: second.received,
            p50_us: latency(second.p50),
            p99_us: latency(second.p99),
            max_us: latency(second.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::{Value, json};

    #[test]
    fn every_stage_has_the_keys_that_comparisons_read() {
        let mut report = sample::ladder(2);
        sample::fail(
            &mut report.stages[1],
            FailureKind::Closed,
            40,
            "after 17 of 170 bytes",
        );
        report.stages[1].invalid.push(sample::late("late"));
        let whole: Value = serde_json::from_str(&render(&report)).unwrap();
        assert_eq!(
            (&whole["model"], &whole["valid"], &whole["end"]["kind"]),
            (&json!("open"), &json!(false), &json!("complete"))
        );
        assert_eq!(whole["began_unix_s"], 1_700_000_000.0);
        assert_eq!(whole["first"][0]["length_bytes"], 170);
        let stage = &whole["stages"][1];
        assert_eq!(
            (&stage["round"], &stage["rate"], &stage["elapsed_s"]),
            (&json!(1), &json!(2000.0), &json!(10.0))
        );
        assert_eq!(
            (&stage["succeeded"], &stage["failed"]),
            (&json!(2000), &json!(40))
        );
        assert_eq!(
            (&stage["failures"]["closed"], &stage["failures"]["tls"]),
            (&json!(40), &json!(0))
        );
        assert_eq!(
            stage["examples"],
            json!({ "closed": "after 17 of 170 bytes" })
        );
        assert_eq!(stage["statuses"], json!({ "200": 2000 }));
        assert_eq!(
            stage["invalid"],
            json!([{ "limit": "lateness", "why": "late" }])
        );
        assert_eq!(stage["watched"][0]["peak_bytes"], 9_280_000);
        assert_eq!(stage["watched"][0]["cpu_source"], "processes");
        assert_eq!(stage["watched"][0]["allowed_cpus"], json!([3]));
        assert_eq!(stage["generator"]["busiest"], 0.45);
        let cpus = json!([{ "cpu": 3, "processes_s": 6.0, "busy_s": 7.0, "whole_s": 10.0 }]);
        assert_eq!(stage["cpus"], cpus);
        assert_eq!(stage["seconds"].as_array().unwrap().len(), 10);
        for part in [
            "latency_us",
            "service_us",
            "failed_us",
            "lateness_us",
            "connect_us",
            "tls_us",
            "first_byte_us",
        ] {
            for key in [
                "min", "max", "mean", "sd", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99",
                "tm95", "tm99", "tm99_9",
            ] {
                // Of 2,000 requests 2 are above p99.9, of 64 connections none is above p99.
                let needed = match key {
                    "p99" => 100,
                    "p99_9" => 1_000,
                    "p99_99" => 10_000,
                    _ => 0,
                };
                let is_figure = stage[part]["count"].as_u64().unwrap() >= needed;
                assert_eq!(
                    stage[part][key].is_f64(),
                    is_figure,
                    "{part} {key}: {}",
                    stage[part][key]
                );
            }
        }
        let p50 = stage["latency_us"]["p50"].as_f64().unwrap();
        assert!(
            (250.0..350.0).contains(&p50),
            "{p50} is not in microseconds"
        );
    }

    #[test]
    fn unmeasured_figures_are_null_and_never_zero() {
        let mut report = sample::report(&[]);
        let mut stage = sample::stage("closed loop", 0, 1e6);
        stage.elapsed = std::time::Duration::ZERO;
        stage.seconds[0].succeeded = 0;
        report.stages.push(stage);
        report.end = RunEnd::Stopped(503);
        let whole: Value = serde_json::from_str(&render(&report)).unwrap();
        assert_eq!(whole["end"], json!({ "kind": "stopped", "status": 503 }));
        let stage = &whole["stages"][0];
        assert_eq!(
            (&stage["latency_us"]["count"], &stage["latency_us"]["p99"]),
            (&json!(0), &Value::Null)
        );
        assert_eq!(
            (&stage["rate"], &stage["failed_share"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(stage["seconds"][0]["p99_us"], Value::Null);
    }

    #[test]
    fn json_report_is_read_back_as_written() {
        let mut report = sample::ladder(2);
        sample::fail(&mut report.stages[1], FailureKind::Closed, 4, "closed");
        report.stages[1].invalid.push(sample::late("late"));
        report.end = RunEnd::Stopped(503);
        let read: RunReport = serde_json::from_str(&render(&report)).unwrap();
        let mut written = RunReport::of(&report);
        // The last bit of a float may differ.
        for (read, written) in read.stages.iter().zip(&mut written.stages) {
            assert_eq!(read.latency_us.p99, written.latency_us.p99);
            written.latency_us = read.latency_us.clone();
            written.service_us = read.service_us.clone();
            written.lateness_us = read.lateness_us.clone();
        }
        assert_eq!(read, written);
    }
}
