//! One measurement: the figures of a stage from the report of `lockgate load`.

use std::fmt;

use lockgate_load::result::{Bottleneck, CpuSource, LoadModel};
use lockgate_report::json::{EndReport, FirstReport, RunReport, StageReport, WatchedReport};

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
    /// What the CPU time was read from.
    pub cpu_source: CpuSource,
    /// Median latency in microseconds; `None` for too few successes, as the next three: of fewer
    /// than 1/(1−p) a percentile p is the maximum.
    pub p50: Option<f64>,
    /// 99th percentile of latency, in microseconds.
    pub p99: Option<f64>,
    /// 99.9th percentile of latency, in microseconds.
    pub p99_9: Option<f64>,
    /// 99.99th percentile of latency, in microseconds.
    pub p99_99: Option<f64>,
    /// Maximum latency, in microseconds; `None` without a success.
    pub max: Option<f64>,
    /// Memory before the first connection and peak memory, in bytes.
    pub memory: Option<(f64, f64)>,
    /// Connections at once, over all threads.
    pub connections: f64,
    /// Connections that were opened in the stage.
    pub opened: f64,
    /// Opened connections that resumed a TLS session.
    pub resumed: f64,
    /// Bytes of messages that were received, heads included.
    pub received: f64,
    /// The first answer of each target.
    pub answers: Vec<FirstAnswer>,
    /// Version and suite of TLS, of the first response.
    pub tls: Option<String>,
    /// Whether the loop is open: then the schedule gives the rate, not the program.
    pub open: bool,
    /// Marks of figures that are not the program's.
    pub marks: Vec<InvalidMark>,
}

/// The first answer of a target: all the others are held against it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirstAnswer {
    /// Protocol: `HTTP/1.1`, `HTTP/2`, `gRPC`, `WebSocket`, `bytes`.
    pub protocol: String,
    /// HTTP status, where HTTP is spoken.
    pub status: Option<u16>,
    /// Length of the body in bytes; `None` where the load takes any length.
    pub length: Option<u64>,
}

impl fmt::Display for FirstAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.protocol)?;
        if let Some(status) = self.status {
            write!(f, " {status}")?;
        }
        if let Some(length) = self.length {
            write!(f, " of {length} bytes")?;
        }
        Ok(())
    }
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
    /// Rate, latency and CPU time.
    PaceAndCpu,
}

/// CPUs of the programs, and of the others.
#[derive(Debug, Clone, Copy)]
pub struct CpuLayout<'a> {
    /// CPUs of the program that is measured.
    pub program: &'a Cpus,
    /// CPUs of origins and of the generator; `None` for a program that runs on the same, such as a
    /// baseline: then there is no check for other processes on its CPUs.
    pub others: Option<&'a Cpus>,
}

/// More than the whole time of its CPUs, by this share, is CPU time from elsewhere.
const ELSEWHERE: f64 = 0.03;
/// Share of the program's CPUs that other processes may take before the rate is theirs too.
const FOREIGN: f64 = 0.05;
/// The least counted time in seconds; less may be due to the ticks.
const LEAST_SECONDS: f64 = 0.05;
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
        layout: CpuLayout<'_>,
    ) -> Option<Self> {
        let watched = stage.watched.iter().find(|each| each.name == program)?;
        let memory = watched.before_bytes.zip(watched.peak_bytes);
        let latency = &stage.latency_us;
        let at_least = |count: u64, figure: Option<f64>| figure.filter(|_| latency.count >= count);
        Some(Self {
            stage: stage_name(report, stage),
            succeeded: stage.succeeded as f64,
            late: stage.late as f64,
            failed: stage.failed as f64,
            failures: failures(stage),
            elapsed: stage.elapsed_s,
            user: watched.user_s,
            system: watched.system_s,
            cpu_source: watched.cpu_source,
            p50: at_least(2, latency.p50),
            p99: at_least(100, latency.p99),
            p99_9: at_least(1_000, latency.p99_9),
            p99_99: at_least(10_000, latency.p99_99),
            max: latency.max,
            memory: memory.map(|(before, peak)| (before as f64, peak as f64)),
            connections: report.connections as f64,
            opened: stage.connections_opened as f64,
            resumed: stage.connections_resumed as f64,
            received: stage.bytes_received as f64,
            answers: answers(report),
            tls: report.first.first().and_then(|first| first.tls.clone()),
            open: report.model == LoadModel::Open,
            marks: marks(stage, watched, layout),
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

    /// Bytes received for each success.
    pub fn received_each(&self) -> Option<f64> {
        (self.succeeded > 0.0).then(|| self.received / self.succeeded)
    }

    /// Connections opened for each success.
    pub fn opened_each(&self) -> Option<f64> {
        (self.succeeded > 0.0).then(|| self.opened / self.succeeded)
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

/// The samples of `program` under a load, one a stage.
///
/// # Errors
/// The load was interrupted, has measured nothing, or has not watched the program.
pub fn read(
    report: &RunReport,
    program: &str,
    layout: CpuLayout<'_>,
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

/// The first answers of all targets. Targets differ in their ports, not in their order.
fn answers(report: &RunReport) -> Vec<FirstAnswer> {
    // `lockgate load` then does not hold the other answers against the length of the first.
    let any_length = report.command.windows(2).any(|words| {
        let [option, value] = words else { return false };
        option == "--expect-length" && value == "any"
    });
    let any_length = any_length || report.command.iter().any(|w| w == "--expect-length=any");
    let answer = |first: &FirstReport| FirstAnswer {
        protocol: first.protocol.clone(),
        status: first.status,
        length: (!any_length).then_some(first.length_bytes),
    };
    report.first.iter().map(answer).collect()
}

/// Marks of a stage's figures.
fn marks(stage: &StageReport, watched: &WatchedReport, layout: CpuLayout<'_>) -> Vec<InvalidMark> {
    let mut marks: Vec<_> = stage
        .invalid
        .iter()
        .map(|invalid| InvalidMark {
            why: invalid.why.clone(),
            affects: affects(invalid.limit),
        })
        .collect();
    let mut mark = |affects, why| marks.push(InvalidMark { why, affects });
    let cpu_time = watched.user_s + watched.system_s;
    if cpu_time < ENOUGH {
        mark(
            AffectedMetrics::Cpu,
            format!(
                "less than {ENOUGH} s of CPU time in a stage, which is measured in ticks of 10 ms"
            ),
        );
    }
    let times = CpuShares::of(stage, layout);
    if times.own_whole > 0.0 && cpu_time > times.own_whole * (1.0 + ELSEWHERE) + LEAST_SECONDS {
        mark(
            AffectedMetrics::All,
            format!(
                "it took {cpu_time:.1} s of CPU time in {:.1} s of CPU {}: it ran on others too",
                times.own_whole, layout.program
            ),
        );
    }
    let own = layout.program.numbers();
    let left = watched.allowed_cpus.iter().filter(|cpu| !own.contains(cpu));
    let left: Vec<_> = left.map(ToString::to_string).collect();
    if !left.is_empty() {
        mark(
            AffectedMetrics::All,
            format!(
                "it has left its CPUs: at the end of the stage it might run on {}, and its own are {}",
                left.join(","),
                layout.program
            ),
        );
    }
    if layout.others.is_some() {
        if let Some(why) = times.foreign(cpu_time) {
            // Children that were never waited for are others too, where there is no control group.
            let affects = match watched.cpu_source {
                CpuSource::Cgroup => AffectedMetrics::Pace,
                CpuSource::Processes => AffectedMetrics::PaceAndCpu,
            };
            mark(affects, why);
        }
        if let Some(why) = times.other_limit() {
            mark(AffectedMetrics::Pace, why);
        }
    }
    marks
}

/// Times of the CPUs of a layout during a stage.
struct CpuShares {
    /// Whole time of the program's CPUs in seconds, idle time included.
    own_whole: f64,
    /// Time of processes on them in seconds, the program's own included.
    own_processes: f64,
    /// Busy share of the program's fullest CPU.
    own_fullest: f64,
    /// Busy share of the fullest CPU of the origins and the generator.
    others_fullest: f64,
}

impl CpuShares {
    fn of(stage: &StageReport, layout: CpuLayout<'_>) -> Self {
        let of = |wanted: &Cpus| {
            let wanted = wanted.numbers().to_vec();
            stage
                .cpus
                .iter()
                .filter(move |cpu| wanted.contains(&cpu.cpu))
        };
        let fullest = |cpus: &Cpus| {
            let shares = of(cpus).map(|cpu| cpu.busy_s / cpu.whole_s);
            shares.fold(0.0, f64::max)
        };
        Self {
            own_whole: of(layout.program).map(|cpu| cpu.whole_s).sum(),
            own_processes: of(layout.program).map(|cpu| cpu.processes_s).sum(),
            own_fullest: fullest(layout.program),
            others_fullest: layout.others.map_or(0.0, fullest),
        }
    }

    /// Whether other processes took time of the CPUs of a program that took `own` seconds.
    fn foreign(&self, own: f64) -> Option<String> {
        let foreign = self.own_processes - own;
        let share = foreign / self.own_whole;
        (foreign > LEAST_SECONDS && share > FOREIGN).then(|| {
            let percent = share * 100.0;
            format!("others took {percent:.0} % of the program's CPU time")
        })
    }

    /// Whether the origin or the generator was the limit.
    fn other_limit(&self) -> Option<String> {
        (self.others_fullest >= FULL && self.own_fullest < FULL).then(|| {
            format!(
                "the origin or the generator was the limit: a CPU of theirs was {:.0} % busy, and the program's {:.0} %",
                self.others_fullest * 100.0,
                self.own_fullest * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_report::json::{CpuReport, HistogramReport};

    fn cpus(list: &str) -> Cpus {
        list.parse().unwrap()
    }

    fn layout<'a>(program: &'a Cpus, others: Option<&'a Cpus>) -> CpuLayout<'a> {
        CpuLayout { program, others }
    }

    /// The marks of this report, of a program on CPU 0 and others on CPU 1 and 2.
    fn marks_of(report: &RunReport) -> Vec<(String, AffectedMetrics)> {
        let (program, others) = (cpus("0"), cpus("1-2"));
        let samples = read(report, "a", layout(&program, Some(&others))).unwrap();
        let marks = samples[0].marks.iter();
        marks.map(|mark| (mark.why.clone(), mark.affects)).collect()
    }

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
                "connections_opened": 20, "connections_resumed": 15, "exchanges_reused": 0, "requests_retried": 0, "bytes_sent": 0,
                "bytes_received": 0, "bytes_sent_per_s": 0, "bytes_received_per_s": 0,
                "generator": { "user_s": 0, "system_s": 0, "busiest": 0, "waited": 0 },
                "watched": [{ "name": "a", "cpu_source": "cgroup", "allowed_cpus": [0], "user_s": 0.01, "system_s": 0.03, "before_bytes": 1000, "peak_bytes": 6000 }],
                "cpus": [], "invalid": [{ "limit": "generator", "why": "the generator was the limit" }],
                "notes": [], "seconds": []
            }]
        }"#;
        serde_json::from_str(report).unwrap()
    }

    #[test]
    fn a_stage_is_read_and_its_figures_follow() {
        let samples = read(&report(), "a", layout(&cpus("0"), None)).unwrap();
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

    /// A stage of 2 s in which processes took so much time of CPU 0, which was so busy, as CPU 2.
    fn crowded(source: CpuSource, processes: f64, busy: f64, other: f64) -> RunReport {
        let mut report = report();
        let stage = &mut report.stages[0];
        stage.invalid.clear();
        (stage.watched[0].user_s, stage.watched[0].cpu_source) = (1.0, source);
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
        report
    }

    #[test]
    fn other_busy_processes_are_noted_beside_the_pace() {
        let told = |processes, busy, other| {
            let marks = marks_of(&crowded(CpuSource::Cgroup, processes, busy, other));
            let pace = |(why, affects)| (affects == AffectedMetrics::Pace).then_some(why);
            let told: Option<Vec<_>> = marks.into_iter().map(pace).collect();
            told.unwrap().join("; ")
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
    fn cpu_time_of_others_may_be_unreaped_children_without_a_cgroup() {
        let why = "others took 10 % of the program's CPU time".to_owned();
        assert_eq!(
            marks_of(&crowded(CpuSource::Processes, 1.23, 1.5, 1.8)),
            [(why, AffectedMetrics::PaceAndCpu)]
        );
    }

    #[test]
    fn more_cpu_time_than_its_cpus_had_is_time_on_others() {
        let mut report = crowded(CpuSource::Cgroup, 2.0, 2.0, 1.0);
        report.stages[0].watched[0].user_s = 2.05;
        assert_eq!(marks_of(&report), []);
        report.stages[0].watched[0].user_s = 3.1;
        let why = "it took 3.1 s of CPU time in 2.0 s of CPU 0: it ran on others too".to_owned();
        assert_eq!(marks_of(&report), [(why, AffectedMetrics::All)]);
    }

    #[test]
    fn a_program_with_affinity_beyond_its_cpus_is_marked() {
        let mut report = crowded(CpuSource::Cgroup, 1.1, 1.5, 1.0);
        report.stages[0].watched[0].allowed_cpus = vec![0, 1, 3];
        let why =
            "it has left its CPUs: at the end of the stage it might run on 1,3, and its own are 0";
        assert_eq!(marks_of(&report), [(why.to_owned(), AffectedMetrics::All)]);
    }

    #[test]
    fn percentiles_need_as_many_successes_as_they_divide() {
        let with = |count: u64| {
            let mut report = report();
            let latency = &mut report.stages[0].latency_us;
            (latency.count, latency.p99_99) = (count, Some(4.0));
            let sample = read(&report, "a", layout(&cpus("0"), None))
                .unwrap()
                .remove(0);
            [
                sample.p50,
                sample.p99,
                sample.p99_9,
                sample.p99_99,
                sample.max,
            ]
            .map(|figure| figure.is_some())
        };
        for (count, has) in [
            (1, [false, false, false, false, true]),
            (99, [true, false, false, false, true]),
            (999, [true, true, false, false, true]),
            (9_999, [true, true, true, false, true]),
            (10_000, [true, true, true, true, true]),
        ] {
            assert_eq!(with(count), has, "{count}");
        }
    }

    #[test]
    fn first_answers_have_a_length_unless_any_is_expected() {
        let answer = |command: &[&str]| {
            let mut report = report();
            report.command = command.iter().map(ToString::to_string).collect();
            (report.first[0].status, report.first[0].length_bytes) = (Some(200), 12);
            let sample = read(&report, "a", layout(&cpus("0"), None))
                .unwrap()
                .remove(0);
            sample.answers[0].to_string()
        };
        assert_eq!(answer(&["load"]), "HTTP/1.1 200 of 12 bytes");
        assert_eq!(answer(&["load", "--expect-length", "any"]), "HTTP/1.1 200");
        assert_eq!(answer(&["load", "--expect-length=any"]), "HTTP/1.1 200");
    }

    #[test]
    fn a_program_that_shrank_is_not_said_to_have_stayed_as_it_was() {
        let mut shrank = report();
        shrank.stages[0].watched[0].peak_bytes = Some(500);
        assert_eq!(
            read(&shrank, "a", layout(&cpus("0"), None)).unwrap()[0].per_connection(),
            Some(-5.0)
        );
    }

    #[test]
    fn without_successes_there_are_no_figures() {
        let mut none = report();
        none.stages[0].succeeded = 0;
        none.stages[0].latency_us = HistogramReport::default();
        none.stages[0].watched[0].before_bytes = None;
        let sample = &read(&none, "a", layout(&cpus("0"), None)).unwrap()[0];
        assert_eq!(
            (sample.cpu(), sample.p50, sample.per_connection()),
            (None, None, None)
        );
    }

    #[test]
    fn a_report_of_another_form_is_refused() {
        assert!(read(&report(), "b", layout(&cpus("0"), None)).is_err());
        assert!(serde_json::from_str::<RunReport>("{}").is_err());
        let mut interrupted = report();
        interrupted.end = EndReport::Interrupted;
        assert!(
            read(&interrupted, "a", layout(&cpus("0"), None))
                .unwrap_err()
                .contains("interrupted")
        );
    }
}
