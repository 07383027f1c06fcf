//! One measurement: the figures of a stage from the report of `lockgate load`.

use lockgate_load::result::{Bottleneck, LoadModel};
use lockgate_report::json::{CpuReport, EndReport, RunReport, StageReport};

use crate::cpus::Cpus;

/// Sample of a program under one stage of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSample {
    /// Name of the stage; empty where it is the only one.
    pub stage: String,
    /// Number of successes, late ones included.
    pub succeeded: f64,
    /// Successes that came after the stage's time.
    pub late: f64,
    /// Number of failed exchanges, of all kinds.
    pub failed: f64,
    /// Kinds of failures, each with the text of its first.
    pub failures: Vec<String>,
    /// Duration of the stage, in seconds.
    pub elapsed: f64,
    /// CPU time of the whole tree in user mode, in seconds.
    pub user: f64,
    /// CPU time of the whole tree in the kernel, in seconds.
    pub system: f64,
    /// Median latency in microseconds; `None` without a success, as the next four.
    pub p50: Option<f64>,
    /// 99th percentile of latency, in microseconds.
    pub p99: Option<f64>,
    /// 99.9th percentile of latency, in microseconds.
    pub p99_9: Option<f64>,
    /// 99.99th percentile of latency, in microseconds.
    pub p99_99: Option<f64>,
    /// Maximum latency, in microseconds.
    pub max: Option<f64>,
    /// Memory before the first connection and peak memory, in bytes.
    pub memory: Option<(f64, f64)>,
    /// Connections at once, over all threads.
    pub connections: f64,
    /// Connections that were opened in the stage.
    pub opened: f64,
    /// Opened connections that resumed a TLS session.
    pub resumed: f64,
    /// Version and suite of TLS, of the first response.
    pub tls: Option<String>,
    /// Whether the loop is open: then the schedule gives the rate, not the program.
    pub open: bool,
    /// Marks of figures that are not the program's.
    pub marks: Vec<InvalidMark>,
}

/// Mark of figures that are not the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidMark {
    /// The reason, with figures, for people.
    pub why: String,
    /// The metrics that are invalid.
    pub affects: AffectedMetrics,
}

/// Metrics that a mark makes invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AffectedMetrics {
    /// All metrics of the stage.
    All,
    /// Rate and latency; CPU time is still the program's own.
    Pace,
    /// CPU time of the program.
    Cpu,
}

/// CPUs of the programs, and of the others.
#[derive(Debug, Clone, Copy)]
pub struct CpuLayout<'a> {
    /// CPUs of the program that is measured.
    pub program: &'a Cpus,
    /// CPUs of origins and of the generator.
    pub others: &'a Cpus,
}

/// Share of the program's CPUs that other processes may take before the rate is theirs too.
const FOREIGN: f64 = 0.05;
/// The least counted time of other processes in seconds; less may be due to the ticks.
const FOREIGN_SECONDS: f64 = 0.05;
/// CPU time in seconds from which on ticks are exact enough.
const ENOUGH: f64 = 1.0;
/// From this busy share on a CPU is saturated.
const FULL: f64 = 0.95;

impl LoadSample {
    /// The sample of a stage, if `program` was watched in it.
    fn of(
        report: &RunReport,
        stage: &StageReport,
        program: &str,
        layout: Option<CpuLayout<'_>>,
    ) -> Option<Self> {
        let watched = stage.watched.iter().find(|each| each.name == program)?;
        let memory = watched.before_bytes.zip(watched.peak_bytes);
        let latency = &stage.latency_us;
        Some(Self {
            stage: stage_name(report, stage),
            succeeded: stage.succeeded as f64,
            late: stage.late as f64,
            failed: stage.failed as f64,
            failures: failures(stage),
            elapsed: stage.elapsed_s,
            user: watched.user_s,
            system: watched.system_s,
            p50: latency.p50,
            p99: latency.p99,
            p99_9: latency.p99_9,
            p99_99: latency.p99_99,
            max: latency.max,
            memory: memory.map(|(before, peak)| (before as f64, peak as f64)),
            connections: report.connections as f64,
            opened: stage.connections_opened as f64,
            resumed: stage.connections_resumed as f64,
            tls: report.first.first().and_then(|first| first.tls.clone()),
            open: report.model == LoadModel::Open,
            marks: marks(stage, watched.user_s + watched.system_s, layout),
        })
    }

    /// Successes a second, without late ones.
    pub fn rate(&self) -> Option<f64> {
        (self.elapsed > 0.0).then(|| (self.succeeded - self.late) / self.elapsed)
    }

    /// Microseconds of CPU time for each success.
    pub fn cpu(&self) -> Option<f64> {
        (self.succeeded > 0.0).then(|| (self.user + self.system) * 1e6 / self.succeeded)
    }

    /// Share of connections that resumed a session, with TLS.
    pub fn resumed_share(&self) -> Option<f64> {
        (self.tls.is_some() && self.opened > 0.0).then(|| self.resumed / self.opened)
    }

    #[cfg(test)]
    pub(crate) fn limit(&mut self, limit: Bottleneck, why: &str) {
        self.marks = vec![InvalidMark {
            why: why.to_owned(),
            affects: affects(limit),
        }];
    }

    /// The kernel's part of the CPU time.
    pub fn system_share(&self) -> Option<f64> {
        let all = self.user + self.system;
        (all > 0.0).then(|| self.system / all)
    }

    /// Bytes that each connection added; negative where the program shrank.
    pub fn per_connection(&self) -> Option<f64> {
        let (before, peak) = self.memory?;
        (self.connections > 0.0).then(|| (peak - before) / self.connections)
    }
}

/// The metrics that a bottleneck makes invalid: where only the generator was short of time, the CPU
/// time of a request is the program's own.
fn affects(limit: Bottleneck) -> AffectedMetrics {
    match limit {
        Bottleneck::Generator | Bottleneck::Lateness => AffectedMetrics::Pace,
        Bottleneck::Link => AffectedMetrics::All,
    }
}

/// The samples of `program` under a load, one a stage. Without a `layout` there is no check for
/// other processes on the CPUs.
///
/// # Errors
/// The load was interrupted, has measured nothing, or has not watched the program.
pub fn read(
    report: &RunReport,
    program: &str,
    layout: Option<CpuLayout<'_>>,
) -> Result<Vec<LoadSample>, String> {
    if report.end == EndReport::Interrupted {
        return Err("the load was interrupted".to_owned());
    }
    if report.stages.is_empty() {
        return Err("the load measured nothing".to_owned());
    }
    let samples = report
        .stages
        .iter()
        .map(|stage| LoadSample::of(report, stage, program, layout));
    samples
        .collect::<Option<_>>()
        .ok_or_else(|| format!("the load did not watch {program}"))
}

/// The name of a stage within its load; empty where it is the only one.
fn stage_name(report: &RunReport, stage: &StageReport) -> String {
    if report.stages.len() == 1 {
        return String::new();
    }
    match stage.round {
        round if round > 1 => format!("{}, round {round}", stage.name),
        _ => stage.name.clone(),
    }
}

/// Failures by kind, each with the text of its first.
fn failures(stage: &StageReport) -> Vec<String> {
    let failures = stage.failures.iter().filter(|(_, count)| **count > 0);
    failures
        .map(|(kind, count)| match stage.examples.get(kind) {
            Some(example) => format!("{count} {kind} ({example})"),
            None => format!("{count} {kind}"),
        })
        .collect()
}

/// Marks of a stage's figures.
fn marks(stage: &StageReport, cpu_time: f64, layout: Option<CpuLayout<'_>>) -> Vec<InvalidMark> {
    let mut marks: Vec<_> = stage
        .invalid
        .iter()
        .map(|invalid| InvalidMark {
            why: invalid.why.clone(),
            affects: affects(invalid.limit),
        })
        .collect();
    if cpu_time < ENOUGH {
        marks.push(InvalidMark {
            why: format!(
                "less than {ENOUGH} s of CPU time in a stage, which is measured in ticks of 10 ms"
            ),
            affects: AffectedMetrics::Cpu,
        });
    }
    let contention = layout.map(|layout| contention(&stage.cpus, layout, cpu_time));
    marks.extend(contention.into_iter().flatten().map(|why| InvalidMark {
        why,
        affects: AffectedMetrics::Pace,
    }));
    marks
}

/// Effects of other processes on a program that took `own` seconds of CPU time.
fn contention(cpus: &[CpuReport], layout: CpuLayout<'_>, own: f64) -> Vec<String> {
    let of = |wanted: &Cpus| -> Vec<&CpuReport> {
        let is_wanted = |cpu: &&CpuReport| wanted.numbers().contains(&cpu.cpu);
        cpus.iter().filter(is_wanted).collect()
    };
    let (program, others) = (of(layout.program), of(layout.others));
    let fullest = |cpus: &[&CpuReport]| {
        let shares = cpus.iter().map(|cpu| cpu.busy_s / cpu.whole_s);
        shares.fold(0.0, f64::max)
    };
    let mut reasons = Vec::new();
    let foreign = program.iter().map(|cpu| cpu.processes_s).sum::<f64>() - own;
    let share = foreign / program.iter().map(|cpu| cpu.whole_s).sum::<f64>();
    if foreign > FOREIGN_SECONDS && share > FOREIGN {
        let percent = share * 100.0;
        reasons.push(format!(
            "others took {percent:.0} % of the program's CPU time"
        ));
    }
    let (busy, limit) = (fullest(&program), fullest(&others));
    if limit >= FULL && busy < FULL {
        reasons.push(format!(
            "the origin or the generator was the limit: a CPU of theirs was {:.0} % busy, and the program's {:.0} %",
            limit * 100.0,
            busy * 100.0
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_report::json::HistogramReport;

    fn report() -> RunReport {
        let report = r#"{
            "command": [], "targets": [], "model": "closed", "connections": 100, "threads": 1, "cpus": [],
            "timeout_s": 10, "began_unix_s": 0, "end": { "kind": "complete" }, "valid": false, "uncounted": 0,
            "first": [{ "target": "", "length_bytes": 0, "protocol": "HTTP/1.1", "tls": "TLSv1.3 X" }],
            "stages": [{
                "round": 1, "name": "closed loop", "rate": null, "elapsed_s": 2, "succeeded": 1000, "late": 0,
                "failed": 3, "cut": 0, "succeeded_per_s": 500,
                "failures": { "connect": 0, "status": 3 }, "examples": { "status": "404" }, "statuses": {},
                "latency_us": { "count": 1000, "p50": 1, "p99": 2, "p99_9": 3, "max": 4 },
                "service_us": { "count": 0 }, "failed_us": { "count": 0 }, "lateness_us": { "count": 0 },
                "connect_us": { "count": 0 },
                "connections_opened": 20, "connections_resumed": 15, "exchanges_reused": 0, "bytes_sent": 0,
                "bytes_received": 0, "bytes_sent_per_s": 0, "bytes_received_per_s": 0,
                "generator": { "user_s": 0, "system_s": 0, "busiest": 0, "waited": 0 },
                "watched": [{ "name": "a", "user_s": 0.01, "system_s": 0.03, "before_bytes": 1000, "peak_bytes": 6000 }],
                "cpus": [], "invalid": [{ "limit": "generator", "why": "the generator was the limit" }],
                "notes": [], "seconds": []
            }]
        }"#;
        serde_json::from_str(report).unwrap()
    }

    #[test]
    fn a_stage_is_read_and_its_figures_follow() {
        let samples = read(&report(), "a", None).unwrap();
        let sample = &samples[0];
        assert_eq!(
            (sample.rate(), sample.cpu(), sample.system_share()),
            (Some(500.0), Some(40.0), Some(0.75))
        );
        assert_eq!(
            (sample.per_connection(), sample.p99_9),
            (Some(50.0), Some(3.0))
        );
        assert_eq!(sample.failures, ["3 status (404)"]);
        assert_eq!(
            (sample.resumed_share(), sample.tls.as_deref()),
            (Some(0.75), Some("TLSv1.3 X"))
        );
        let marks: Vec<_> = sample
            .marks
            .iter()
            .map(|mark| (mark.why.as_str(), mark.affects))
            .collect();
        let few = (
            "less than 1 s of CPU time in a stage, which is measured in ticks of 10 ms",
            AffectedMetrics::Cpu,
        );
        assert_eq!(
            marks,
            [("the generator was the limit", AffectedMetrics::Pace), few]
        );
        assert!(sample.stage.is_empty());
    }

    #[test]
    fn other_busy_processes_are_noted_beside_the_pace() {
        let (program, others) = ("0".parse().unwrap(), "1-2".parse().unwrap());
        let told = |processes: f64, busy: f64, other: f64| {
            let mut report = report();
            let stage = &mut report.stages[0];
            stage.invalid.clear();
            stage.watched[0].user_s = 1.0;
            let times = [(processes, busy), (0.0, 0.0), (0.0, other), (2.0, 2.0)];
            stage.cpus = times
                .into_iter()
                .enumerate()
                .map(|(cpu, (processes_s, busy_s))| CpuReport {
                    cpu,
                    processes_s,
                    busy_s,
                    whole_s: 2.0,
                })
                .collect();
            let layout = CpuLayout {
                program: &program,
                others: &others,
            };
            let marks = read(&report, "a", Some(layout)).unwrap().remove(0).marks;
            assert!(
                marks
                    .iter()
                    .all(|mark| mark.affects == AffectedMetrics::Pace)
            );
            marks
                .into_iter()
                .map(|mark| mark.why)
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(told(1.1, 1.5, 1.8), "");
        assert_eq!(
            told(1.23, 1.5, 1.8),
            "others took 10 % of the program's CPU time"
        );
        assert_eq!(
            told(1.1, 1.5, 1.96),
            "the origin or the generator was the limit: a CPU of theirs was 98 % busy, and the program's 75 %"
        );
        assert_eq!(told(1.1, 1.96, 1.96), "");
    }

    #[test]
    fn a_program_that_shrank_is_not_said_to_have_stayed_as_it_was() {
        let mut shrank = report();
        shrank.stages[0].watched[0].peak_bytes = Some(500);
        assert_eq!(
            read(&shrank, "a", None).unwrap()[0].per_connection(),
            Some(-5.0)
        );
    }

    #[test]
    fn without_successes_there_are_no_figures() {
        let mut none = report();
        none.stages[0].succeeded = 0;
        none.stages[0].latency_us = HistogramReport::default();
        none.stages[0].watched[0].before_bytes = None;
        let sample = &read(&none, "a", None).unwrap()[0];
        assert_eq!(
            (sample.cpu(), sample.p50, sample.per_connection()),
            (None, None, None)
        );
    }

    #[test]
    fn a_report_of_another_form_is_refused() {
        assert!(read(&report(), "b", None).is_err());
        assert!(serde_json::from_str::<RunReport>("{}").is_err());
        let mut interrupted = report();
        interrupted.end = EndReport::Interrupted;
        assert!(
            read(&interrupted, "a", None)
                .unwrap_err()
                .contains("interrupted")
        );
    }
}
