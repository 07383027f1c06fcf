//! Comparison of measurements: figures of each program, ratios of each two, and verdicts.

use std::collections::BTreeMap;

use crate::comparison_run::Findings;
use crate::plan::ComparisonPlan;
use crate::sample::{AffectedMetrics, FirstAnswer, LoadSample};
use crate::statistics::{Ratio, RatioVerdict};
use lockgate_report::summary::Spread;

/// One case: a stage of a load, with the results of all programs.
#[derive(Debug)]
pub struct Case {
    /// The name of the load.
    pub load: String,
    /// The stage, where the load has several; else empty.
    pub stage: String,
    /// The arguments of `lockgate load`.
    pub arguments: Vec<String>,
    /// The programs, in the order of the file.
    pub rows: Vec<ProgramRow>,
    /// All ordered pairs of programs with figures.
    pub pairs: Vec<ProgramPair>,
}

/// Results of one program in a case.
#[derive(Debug)]
pub struct ProgramRow {
    /// Name of the program, from the file.
    pub program: String,
    /// Version that the program prints.
    pub version: String,
    /// Whether it is the baseline of the others.
    pub baseline: bool,
    /// Its samples, by the number of the round.
    pub rounds: BTreeMap<usize, LoadSample>,
    /// Reasons why rounds are missing, each once.
    pub errors: Vec<String>,
    /// Why it was left out, if it was.
    pub skipped: Option<String>,
}

/// Metric of a sample, in tables and in ratios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleMetric {
    /// Successes a second, without late ones.
    Rate,
    /// CPU time for each success, in microseconds.
    Cpu,
    /// The kernel's share of the CPU time.
    System,
    /// Median latency, in microseconds.
    P50,
    /// 99th percentile of latency, in microseconds.
    P99,
    /// 99.9th percentile of latency, in microseconds.
    P99_9,
    /// 99.99th percentile of latency, in microseconds.
    P99_99,
    /// Maximum latency, in microseconds.
    Max,
    /// Number of failed exchanges, of all kinds.
    Failed,
    /// Share of connections that resumed a TLS session.
    Resumed,
    /// Peak memory of the process tree, in bytes.
    Peak,
    /// Memory that each connection added, in bytes.
    PerConnection,
}

impl SampleMetric {
    /// All metrics, in the order of tables.
    pub const ALL: [Self; 12] = [
        Self::Rate,
        Self::Cpu,
        Self::System,
        Self::P50,
        Self::P99,
        Self::P99_9,
        Self::P99_99,
        Self::Max,
        Self::Failed,
        Self::Resumed,
        Self::Peak,
        Self::PerConnection,
    ];

    /// Metrics with ratios and verdicts.
    pub const COMPARED: [Self; 6] = [
        Self::Cpu,
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::P99_99,
        Self::PerConnection,
    ];

    /// The metric's value in a sample.
    pub fn of(self, sample: &LoadSample) -> Option<f64> {
        match self {
            Self::Rate => sample.rate(),
            Self::Cpu => sample.cpu(),
            Self::System => sample.system_share(),
            Self::P50 => sample.p50,
            Self::P99 => sample.p99,
            Self::P99_9 => sample.p99_9,
            Self::P99_99 => sample.p99_99,
            Self::Max => sample.max,
            Self::Failed => Some(sample.failed),
            Self::Resumed => sample.resumed_share(),
            Self::Peak => sample.memory.map(|(_, peak)| peak),
            Self::PerConnection => sample.per_connection(),
        }
    }

    /// The metric's key in JSON and CSV.
    pub fn key(self) -> &'static str {
        match self {
            Self::Rate => "succeeded_per_s",
            Self::Cpu => "cpu_us_per_success",
            Self::System => "system_share",
            Self::P50 => "p50_us",
            Self::P99 => "p99_us",
            Self::P99_9 => "p99_9_us",
            Self::P99_99 => "p99_99_us",
            Self::Max => "max_us",
            Self::Failed => "failed",
            Self::Resumed => "resumed_share",
            Self::Peak => "peak_bytes",
            Self::PerConnection => "bytes_per_connection",
        }
    }

    /// The metric in heads of tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::Cpu => "CPU µs/request",
            Self::System => "system",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::P99_99 => "p99.99",
            Self::Max => "max",
            Self::Failed => "failed",
            Self::Resumed => "resumed",
            Self::Peak => "peak MB",
            Self::PerConnection => "KB/connection",
        }
    }

    /// Whether it is a latency.
    pub fn is_latency(self) -> bool {
        matches!(
            self,
            Self::P50 | Self::P99 | Self::P99_9 | Self::P99_99 | Self::Max
        )
    }

    /// Whether more of it is better.
    pub fn is_better_higher(self) -> bool {
        self == Self::Rate
    }

    /// Whether a mark makes the metric invalid.
    fn is_affected(self, affects: AffectedMetrics) -> bool {
        match affects {
            AffectedMetrics::All => true,
            AffectedMetrics::Cpu => matches!(self, Self::Cpu | Self::System),
            AffectedMetrics::Pace => self == Self::Rate || self.is_latency(),
            AffectedMetrics::PaceAndCpu => {
                self.is_affected(AffectedMetrics::Pace) || self.is_affected(AffectedMetrics::Cpu)
            }
        }
    }
}

impl ProgramRow {
    /// The spread of a metric over all rounds.
    pub fn spread(&self, metric: SampleMetric) -> Option<Spread> {
        Spread::of(self.rounds.values().filter_map(|sample| metric.of(sample)))
    }

    /// Number of failures in all rounds.
    pub fn failed(&self) -> f64 {
        self.rounds
            .values()
            .map(|sample| sample.failed)
            .fold(0.0, |sum, failed| sum + failed)
    }

    /// Whether any exchange failed in any round, or a round has no figures: then the program did
    /// other work than the others.
    pub fn has_failures(&self) -> bool {
        !self.errors.is_empty() || self.rounds.values().any(|sample| sample.failed > 0.0)
    }

    /// The median of a metric over the rounds, of a program without failures and where no mark
    /// makes the metric invalid.
    fn valid_median(&self, metric: SampleMetric) -> Option<f64> {
        if self.has_failures() || self.is_invalid(metric) {
            return None;
        }
        self.spread(metric).map(|spread| spread.median)
    }

    /// Whether a mark makes the metric invalid in any round.
    pub fn is_invalid(&self, metric: SampleMetric) -> bool {
        self.rounds
            .values()
            .flat_map(|sample| &sample.marks)
            .any(|mark| metric.is_affected(mark.affects))
    }

    /// The first answers of all rounds, each kind once.
    pub fn answers(&self) -> Vec<&[FirstAnswer]> {
        let mut seen: Vec<_> = self
            .rounds
            .values()
            .map(|sample| sample.answers.as_slice())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    /// The median over the rounds of a figure that is no metric.
    fn median(&self, figure: impl Fn(&LoadSample) -> Option<f64>) -> Option<f64> {
        Some(Spread::of(self.rounds.values().filter_map(figure))?.median)
    }

    /// TLS versions and suites of all rounds, each once; empty without TLS.
    pub fn tls(&self) -> Vec<&str> {
        let mut seen: Vec<_> = self
            .rounds
            .values()
            .map(|sample| sample.tls.as_deref().unwrap_or_default())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen.retain(|tls| !tls.is_empty());
        seen
    }

    /// Reasons of marks, each once with its number of rounds; reasons that differ in numbers only
    /// are one.
    pub fn invalid(&self) -> Vec<String> {
        let mut reasons: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        for mark in self.rounds.values().flat_map(|sample| &sample.marks) {
            let kind = mark
                .why
                .chars()
                .filter(|letter| !letter.is_ascii_digit())
                .collect();
            reasons.entry(kind).or_insert((&mark.why, 0)).1 += 1;
        }
        let told = |(why, rounds): (&str, usize)| match rounds {
            1 => why.to_owned(),
            _ => format!("{why}; similar in {rounds} rounds"),
        };
        reasons.into_values().map(told).collect()
    }

    /// The failures of the first round with any.
    pub fn failures(&self) -> Option<String> {
        let failed = self.rounds.iter().find(|(_, sample)| sample.failed > 0.0);
        failed.map(|(round, sample)| format!("round {round}: {}", sample.failures.join(", ")))
    }
}

/// The ratios of one program to another.
#[derive(Debug)]
pub struct ProgramPair {
    /// Program of the numerator.
    pub program: String,
    /// Program of the denominator.
    pub other: String,
    /// The ratios of [`SampleMetric::COMPARED`].
    pub ratios: Vec<Compared>,
}

impl ProgramPair {
    /// The ratio of a metric.
    pub fn ratio(&self, metric: SampleMetric) -> Option<&Compared> {
        self.ratios
            .iter()
            .find(|compared| compared.metric == metric)
    }
}

/// Ratio of one metric, with its verdict.
#[derive(Debug)]
pub struct Compared {
    /// Metric of the ratio.
    pub metric: SampleMetric,
    /// The ratio over the rounds in which both have the metric; `None` after other work.
    pub ratio: Option<Ratio>,
    /// Latency that the program adds to the other's, in microseconds, over the same rounds.
    pub added: Option<Spread>,
    /// The verdict, or why there is none.
    pub verdict: Result<RatioVerdict, String>,
}

impl Case {
    /// The cases of all loads, in the order of the file.
    pub fn all(plan: &ComparisonPlan, findings: &Findings) -> Vec<Self> {
        let mut cases = Vec::new();
        for load in &plan.loads {
            let measured = || {
                findings
                    .measured
                    .iter()
                    .filter(|measured| measured.load == load.name)
            };
            let mut stages: Vec<&str> = Vec::new();
            for sample in measured()
                .filter_map(|measured| measured.outcome.as_ref().ok())
                .flatten()
            {
                if !stages.contains(&sample.stage.as_str()) {
                    stages.push(&sample.stage);
                }
            }
            if stages.is_empty() {
                stages.push("");
            }
            for stage in stages {
                let rows: Vec<_> = plan
                    .programs
                    .iter()
                    .map(|program| {
                        let own = || measured().filter(|measured| measured.program == program.name);
                        let rounds = own().filter_map(|measured| {
                            let samples = measured.outcome.as_ref().ok()?;
                            Some((
                                measured.round,
                                samples.iter().find(|sample| sample.stage == stage)?.clone(),
                            ))
                        });
                        let mut errors: Vec<String> = Vec::new();
                        for error in own().filter_map(|measured| measured.outcome.as_ref().err()) {
                            if !errors.contains(error) {
                                errors.push(error.clone());
                            }
                        }
                        ProgramRow {
                            program: program.name.clone(),
                            version: findings
                                .versions
                                .get(&program.name)
                                .cloned()
                                .unwrap_or_default(),
                            baseline: program.baseline,
                            rounds: rounds.collect(),
                            errors,
                            skipped: findings
                                .skipped
                                .iter()
                                .find(|(name, _)| *name == program.name)
                                .map(|(_, why)| why.clone()),
                        }
                    })
                    .collect();
                let pairs = pairs(&rows);
                let (load, arguments) = (load.name.clone(), load.arguments.clone());
                cases.push(Self {
                    load,
                    stage: stage.to_owned(),
                    arguments,
                    rows,
                    pairs,
                });
            }
        }
        cases
    }

    /// The program that `program` is compared with in this metric: of the others with a valid
    /// figure for the same work, the one with the least valid CPU time a request, by medians. Where
    /// none has a valid CPU time, the one that is best in this metric.
    ///
    /// Never the baseline, which does less, and never a program with failures.
    pub fn best_other(&self, program: &str, metric: SampleMetric) -> Option<&ProgramRow> {
        let own = self.rows.iter().find(|row| row.program == program)?;
        let others = self.rows.iter().filter(|row| {
            row.program != program && !row.baseline && other_work(own, row).is_none()
        });
        let others: Vec<_> = others
            .filter(|row| row.valid_median(metric).is_some())
            .collect();
        let least = |of: &dyn Fn(&ProgramRow) -> Option<f64>| {
            let with = others.iter().filter_map(|row| Some((of(row)?, *row)));
            with.min_by(|(one, _), (other, _)| one.total_cmp(other))
                .map(|(_, row)| row)
        };
        let by_cpu = least(&|row| row.valid_median(SampleMetric::Cpu));
        by_cpu.or_else(|| {
            least(&|row| {
                let median = row.valid_median(metric)?;
                Some(if metric.is_better_higher() {
                    -median
                } else {
                    median
                })
            })
        })
    }

    /// Programs that others are not compared with, and why; each reason once.
    pub fn passed_over(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let rows = self
            .rows
            .iter()
            .filter(|row| !row.baseline && row.skipped.is_none());
        for row in rows.clone() {
            if row.has_failures() {
                reasons.push(format!(
                    "{} is never “the best other”: it had failures",
                    row.program
                ));
                continue;
            }
            let marked = SampleMetric::COMPARED
                .into_iter()
                .filter(|metric| row.spread(*metric).is_some() && row.is_invalid(*metric));
            let marked: Vec<_> = marked.map(SampleMetric::title).collect();
            if !marked.is_empty() {
                reasons.push(format!(
                    "{} is not “the best other” by {}: marked with *",
                    row.program,
                    marked.join(", ")
                ));
            }
        }
        let whole = rows.clone().filter(|row| !row.has_failures());
        let pairs = whole
            .clone()
            .enumerate()
            .flat_map(|(at, row)| whole.clone().skip(at + 1).map(move |other| (row, other)));
        let other_work = pairs.filter_map(|(row, other)| {
            let why = other_work(row, other)?;
            Some(format!(
                "{} and {} did other work, and are not compared: {why}",
                row.program, other.program
            ))
        });
        reasons.extend(other_work);
        reasons
    }

    /// The baseline, if the file has one.
    pub fn baseline(&self) -> Option<&ProgramRow> {
        self.rows.iter().find(|row| row.baseline)
    }

    /// The pair of `program` and `other`.
    pub fn pair(&self, program: &str, other: &str) -> Option<&ProgramPair> {
        self.pairs
            .iter()
            .find(|pair| pair.program == program && pair.other == other)
    }

    /// Whether there were enough connections at once to compare their memory.
    pub fn has_many_connections(&self) -> bool {
        const MANY: f64 = 100.0;
        self.rows
            .iter()
            .flat_map(|row| row.rounds.values())
            .any(|sample| sample.connections >= MANY)
    }

    /// Name of the case: load and stage.
    pub fn name(&self) -> String {
        if self.stage.is_empty() {
            self.load.clone()
        } else {
            format!("{}, {}", self.load, self.stage)
        }
    }
}

fn pairs(rows: &[ProgramRow]) -> Vec<ProgramPair> {
    let with: Vec<_> = rows.iter().filter(|row| !row.rounds.is_empty()).collect();
    let both = with
        .iter()
        .flat_map(|row| with.iter().map(move |other| (*row, *other)));
    let both = both.filter(|(row, other)| row.program != other.program);
    let pairs = both.map(|(row, other)| {
        let ratios = SampleMetric::COMPARED
            .into_iter()
            .map(|metric| compared(metric, row, other))
            .collect();
        ProgramPair {
            program: row.program.clone(),
            other: other.program.clone(),
            ratios,
        }
    });
    pairs.collect()
}

/// Difference of resumed shares that still counts as the same work.
const RESUMED: f64 = 0.05;
/// Share of the received bytes that may differ.
const BYTES: f64 = 0.01;
/// Bytes by which heads of HTTP responses differ although the work is the same: every program has
/// fields of its own, such as `server` and `date`.
const HEAD: f64 = 512.0;
/// Difference in opened connections for each success, and the factor, that still count as the same
/// work.
const OPENED: (f64, f64) = (0.1, 2.0);

/// Difference in the work of two programs, if there is one.
fn other_work(row: &ProgramRow, other: &ProgramRow) -> Option<String> {
    if row.rounds.is_empty() || other.rounds.is_empty() {
        return None;
    }
    other_answers(row, other)
        .or_else(|| other_tls(row, other))
        .or_else(|| other_connections(row, other))
}

/// Difference in the answers: in the first one of a target, which `lockgate load` holds all others
/// against, or in the bytes of all together.
fn other_answers(row: &ProgramRow, other: &ProgramRow) -> Option<String> {
    let (own, others) = (row.answers(), other.answers());
    if own != others {
        let differs = |answers: &[&[FirstAnswer]], among: &[&[FirstAnswer]]| {
            // The first that the other program does not have, or any.
            let differing = answers.iter().find(|each| !among.contains(each));
            let all = *differing.or(answers.first())?;
            let at = |nth: usize| among.iter().any(|other| other.get(nth) == all.get(nth));
            let nth = (0..all.len()).find(|nth| !at(*nth)).unwrap_or(0);
            all.get(nth).map(ToString::to_string)
        };
        let told = [(row, &own, &others), (other, &others, &own)].map(|(row, own, others)| {
            let answer = differs(own, others).unwrap_or_else(|| "nothing".to_owned());
            format!("{} answered {answer}", row.program)
        });
        return Some(told.join(", "));
    }
    let (own, others) = (
        row.median(LoadSample::received_each)?,
        other.median(LoadSample::received_each)?,
    );
    let has_heads = row
        .answers()
        .iter()
        .any(|answers| answers.iter().any(|answer| answer.status.is_some()));
    let allowed = own.max(others) * BYTES + if has_heads { HEAD } else { 0.0 };
    ((own - others).abs() > allowed).then(|| {
        format!(
            "{} sent {own:.0} bytes for each success, {} {others:.0}",
            row.program, other.program
        )
    })
}

/// Difference in the connections that were opened.
fn other_connections(row: &ProgramRow, other: &ProgramRow) -> Option<String> {
    let (own, others) = (
        row.median(LoadSample::opened_each)?,
        other.median(LoadSample::opened_each)?,
    );
    let (difference, factor) = OPENED;
    let differs = (own - others).abs() > difference && own.max(others) > own.min(others) * factor;
    differs.then(|| {
        format!(
            "{} needed {own:.2} new connections for each success, {} {others:.2}",
            row.program, other.program
        )
    })
}

/// Difference in TLS.
fn other_tls(row: &ProgramRow, other: &ProgramRow) -> Option<String> {
    if row.tls() != other.tls() {
        return Some(format!(
            "{} and {} had different TLS",
            row.program, other.program
        ));
    }
    let (own, others) = (
        row.spread(SampleMetric::Resumed)?.median,
        other.spread(SampleMetric::Resumed)?.median,
    );
    let percent = |share: f64| share * 100.0;
    ((own - others).abs() > RESUMED).then(|| {
        format!(
            "resumed {:.0} % and {:.0} % of connections",
            percent(own),
            percent(others)
        )
    })
}

fn compared(metric: SampleMetric, row: &ProgramRow, other: &ProgramRow) -> Compared {
    let pairs = || {
        let both =
            |(round, sample)| Some((metric.of(sample)?, metric.of(other.rounds.get(round)?)?));
        row.rounds.iter().filter_map(both)
    };
    if let Some(why) = other_work(row, other) {
        return Compared {
            metric,
            ratio: None,
            added: None,
            verdict: Err(why),
        };
    }
    let ratio = Ratio::of(pairs());
    let added = if metric.is_latency() {
        Spread::of(pairs().map(|(own, other)| own - other))
    } else {
        None
    };
    let failing = [row, other].into_iter().find(|row| row.has_failures());
    let invalid = [row, other].into_iter().find(|row| row.is_invalid(metric));
    let given = metric == SampleMetric::Rate && row.rounds.values().any(|sample| sample.open);
    let verdict = match (&ratio, failing, invalid) {
        (None, ..) => Err("no round has both".to_owned()),
        _ if given => Err("the rate was given".to_owned()),
        (_, Some(row), _) => Err(format!("{} had failures", row.program)),
        (_, _, Some(row)) => Err(format!("invalid for {}", row.program)),
        (Some(Ratio { interval: None, .. }), ..) => Err("fewer than 6 rounds".to_owned()),
        (Some(ratio), ..) => Ok(ratio.verdict()),
    };
    Compared {
        metric,
        ratio,
        added,
        verdict,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::comparison_run::Measurement;
    use crate::sample::InvalidMark;
    use lockgate_load::result::{Bottleneck, CpuSource};
    use std::path::Path;

    pub(crate) fn sample(requests: f64, cpu_seconds: f64) -> LoadSample {
        LoadSample {
            stage: String::new(),
            succeeded: requests,
            failed: 0.0,
            failures: Vec::new(),
            elapsed: 1.0,
            user: cpu_seconds / 4.0,
            system: cpu_seconds * 3.0 / 4.0,
            cpu_source: CpuSource::Cgroup,
            p50: Some(100.0),
            p99: Some(1000.0),
            p99_9: Some(2000.0),
            p99_99: Some(2500.0),
            max: Some(3000.0),
            memory: Some((1e6, 3e6)),
            connections: 100.0,
            opened: 100.0,
            resumed: 0.0,
            received: requests * 200.0,
            answers: vec![FirstAnswer {
                protocol: "HTTP/1.1".to_owned(),
                status: Some(200),
                length: Some(100),
            }],
            tls: None,
            open: false,
            marks: Vec::new(),
            late: 0.0,
        }
    }

    pub(crate) fn plan() -> ComparisonPlan {
        let text = "title = \"T <1>\"\n[program.a]\ncommand = [\"a\"]\n[program.b]\ncommand = [\"b\"]\n[program.c]\ncommand = [\"c\"]\n\
            [load.l]\nurl = \"http://h/\"\n[paper.p]\nsource = \"S & T\"\ncolumns = [\"x|y\", \"z\"]\nrows = [[\"1\", \"2\"]]\n";
        ComparisonPlan::parse(Path::new("f"), text).unwrap()
    }

    /// Seven rounds in which `a` takes 0.8 of the CPU time of `b`, while the machine gets slower;
    /// `c` is left out.
    pub(crate) fn findings(change: impl Fn(&str, usize, &mut LoadSample)) -> Findings {
        let mut findings = Findings::default();
        for round in 1..=7 {
            for (program, share) in [("a", 0.8), ("b", 1.0)] {
                let slower = 1.0 + round as f64;
                let mut sample = sample(1000.0 / slower / share, slower * share * 1e-2);
                change(program, round, &mut sample);
                let (load, program) = ("l".to_owned(), program.to_owned());
                findings.measured.push(Measurement {
                    load,
                    program,
                    round,
                    outcome: Ok(vec![sample]),
                });
            }
        }
        findings
            .skipped
            .push(("c".to_owned(), "c is not installed".to_owned()));
        findings.versions.insert("a".to_owned(), "a 1.0".to_owned());
        findings
    }

    fn case(change: impl Fn(&str, usize, &mut LoadSample)) -> Case {
        Case::all(&plan(), &findings(change)).remove(0)
    }

    fn verdict(case: &Case, metric: SampleMetric) -> Result<RatioVerdict, String> {
        let pair = case.pair("a", "b").unwrap();
        pair.ratios
            .iter()
            .find(|compared| compared.metric == metric)
            .unwrap()
            .verdict
            .clone()
    }

    fn best<'a>(case: &'a Case, program: &str, metric: SampleMetric) -> Option<&'a str> {
        let row = case.best_other(program, metric)?;
        Some(&row.program)
    }

    /// As [`findings`], with a third program that takes half of the CPU time of `b`.
    fn case_of_three(change: impl Fn(&str, usize, &mut LoadSample)) -> Case {
        let change = |program: &str, round: usize, sample: &mut LoadSample| {
            sample.opened = 0.0;
            change(program, round, sample);
        };
        let mut findings = findings(change);
        findings.skipped.clear();
        for round in 1..=7 {
            let mut sample = sample(250.0, 0.5e-2 * (1.0 + round as f64));
            change("c", round, &mut sample);
            findings.measured.push(Measurement {
                load: "l".to_owned(),
                program: "c".to_owned(),
                round,
                outcome: Ok(vec![sample]),
            });
        }
        Case::all(&plan(), &findings).remove(0)
    }

    #[test]
    fn the_best_other_is_never_a_program_with_an_invalid_figure() {
        assert_eq!(
            best(&case_of_three(|_, _, _| ()), "a", SampleMetric::Cpu),
            Some("c")
        );
        let mark = |affects| {
            move |program: &str, round: usize, sample: &mut LoadSample| {
                if program == "c" && round == 2 {
                    let why = "others took 89 %".to_owned();
                    sample.marks.push(InvalidMark { why, affects });
                }
            }
        };
        let case = case_of_three(mark(AffectedMetrics::PaceAndCpu));
        assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("b"));
        assert_eq!(best(&case, "a", SampleMetric::Rate), Some("b"));
        assert_eq!(best(&case, "a", SampleMetric::PerConnection), Some("b"));
        assert_eq!(
            case.passed_over(),
            [
                "c is not “the best other” by CPU µs/request, requests/s, p50, p99, p99.99: marked with *"
            ]
        );
        let case = case_of_three(mark(AffectedMetrics::Pace));
        assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("c"));
        assert_eq!(best(&case, "a", SampleMetric::P99), Some("b"));
        assert_eq!(
            case.passed_over(),
            ["c is not “the best other” by requests/s, p50, p99, p99.99: marked with *"]
        );
    }

    #[test]
    fn without_any_valid_cpu_time_the_best_other_is_the_best_in_the_metric() {
        let case = case_of_three(|program, _, sample| {
            let (why, affects) = ("few ticks".to_owned(), AffectedMetrics::Cpu);
            sample.marks.push(InvalidMark { why, affects });
            if program == "b" {
                (sample.p99, sample.succeeded) = (Some(500.0), 5000.0);
            }
        });
        assert_eq!(best(&case, "a", SampleMetric::Cpu), None);
        assert_eq!(best(&case, "a", SampleMetric::P99), Some("b"));
        assert_eq!(best(&case, "a", SampleMetric::Rate), Some("b"));
    }

    #[test]
    fn a_round_that_slowed_both_programs_changes_no_verdict() {
        let case = case(|_, _, _| ());
        assert_eq!(verdict(&case, SampleMetric::Cpu), Ok(RatioVerdict::Less));
        assert_eq!(verdict(&case, SampleMetric::Rate), Ok(RatioVerdict::More));
        assert_eq!(
            verdict(&case, SampleMetric::P99),
            Ok(RatioVerdict::NotShown)
        );
        assert_eq!(best(&case, "b", SampleMetric::Cpu), Some("a"));
        assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("b"));
        assert_eq!(case.passed_over(), [] as [&str; 0]);
        assert_eq!(case.rows[2].skipped.as_deref(), Some("c is not installed"));
    }

    #[test]
    fn the_baseline_is_nobodys_best_other_and_what_is_added_to_it_is_told() {
        let mut plan = plan();
        plan.programs[0].baseline = true;
        let findings = findings(|program, _, sample| {
            if program == "b" {
                (sample.p50, sample.p99) = (Some(140.0), Some(1300.0));
            }
        });
        let case = Case::all(&plan, &findings).remove(0);
        assert_eq!(best(&case, "b", SampleMetric::Cpu), None);
        assert_eq!(case.baseline().unwrap().program, "a");
        let pair = case.pair("b", "a").unwrap();
        let added = pair
            .ratios
            .iter()
            .map(|compared| compared.added.map(|added| added.median));
        assert_eq!(
            added.collect::<Vec<_>>(),
            [None, None, Some(40.0), Some(300.0), Some(0.0), None]
        );
    }

    #[test]
    fn a_program_with_failures_has_no_verdict_and_is_no_rival() {
        let case = case(|program, round, sample| {
            if program == "b" && round == 3 {
                sample.failed = 1.0;
            }
        });
        for metric in SampleMetric::COMPARED {
            assert_eq!(verdict(&case, metric), Err("b had failures".to_owned()));
        }
        assert_eq!(best(&case, "a", SampleMetric::Cpu), None);
        assert_eq!(best(&case, "a", SampleMetric::P99), None);
        assert_eq!(
            case.passed_over(),
            ["b is never “the best other”: it had failures"]
        );
    }

    #[test]
    fn a_program_that_missed_a_round_has_no_verdict_and_is_no_rival() {
        let mut findings = findings(|_, _, _| ());
        let third = findings
            .measured
            .iter_mut()
            .find(|one| one.program == "b" && one.round == 3);
        third.unwrap().outcome = Err("it ended under the load".to_owned());
        let case = Case::all(&plan(), &findings).remove(0);
        for metric in SampleMetric::COMPARED {
            assert_eq!(verdict(&case, metric), Err("b had failures".to_owned()));
        }
        assert_eq!(best(&case, "a", SampleMetric::Cpu), None);
    }

    #[test]
    fn cpu_time_counts_although_the_generator_was_the_bottleneck() {
        let limited =
            case(|_, _, sample| sample.limit(Bottleneck::Generator, "the generator was the limit"));
        assert_eq!(verdict(&limited, SampleMetric::Cpu), Ok(RatioVerdict::Less));
        assert_eq!(
            verdict(&limited, SampleMetric::Rate),
            Err("invalid for a".to_owned())
        );
        let link = case(|_, _, sample| sample.limit(Bottleneck::Link, "the link was the limit"));
        assert_eq!(
            verdict(&link, SampleMetric::Cpu),
            Err("invalid for a".to_owned())
        );
    }

    #[test]
    fn cpu_time_that_was_too_little_takes_no_other_verdict() {
        let case = case(|_, _, sample| {
            let (why, affects) = ("few ticks".to_owned(), AffectedMetrics::Cpu);
            sample.marks.push(InvalidMark { why, affects });
        });
        assert_eq!(
            verdict(&case, SampleMetric::Cpu),
            Err("invalid for a".to_owned())
        );
        assert_eq!(verdict(&case, SampleMetric::Rate), Ok(RatioVerdict::More));
    }

    #[test]
    fn other_tls_and_fewer_resumed_sessions_are_other_work() {
        let tls = |other: &str, resumed| {
            let other = other.to_owned();
            let case = case(move |program, _, sample| {
                sample.tls = Some(if program == "a" {
                    "1.3".to_owned()
                } else {
                    other.clone()
                });
                sample.resumed = if program == "a" { 99.0 } else { resumed };
            });
            verdict(&case, SampleMetric::Cpu)
        };
        assert_eq!(tls("1.3", 95.0), Ok(RatioVerdict::Less));
        assert_eq!(
            tls("1.3", 75.0),
            Err("resumed 99 % and 75 % of connections".to_owned())
        );
        assert_eq!(
            tls("1.2", 99.0),
            Err("a and b had different TLS".to_owned())
        );
    }

    #[test]
    fn another_first_answer_is_other_work_without_a_ratio() {
        let with = |change: fn(&mut FirstAnswer)| {
            let case = case_of_three(move |program, _, sample| {
                if program == "c" {
                    change(&mut sample.answers[0]);
                }
            });
            assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("b"));
            assert_eq!(best(&case, "c", SampleMetric::Cpu), None);
            for compared in &case.pair("a", "c").unwrap().ratios {
                assert_eq!((compared.ratio, compared.added), (None, None));
            }
            case.passed_over()[0].clone()
        };
        let told = |answer: &str| {
            format!(
                "a and c did other work, and are not compared: a answered HTTP/1.1 200 of 100 bytes, c answered {answer}"
            )
        };
        assert_eq!(
            with(|answer| answer.length = Some(10)),
            told("HTTP/1.1 200 of 10 bytes")
        );
        assert_eq!(
            with(|answer| answer.status = Some(404)),
            told("HTTP/1.1 404 of 100 bytes")
        );
        assert_eq!(
            with(|answer| answer.protocol = "HTTP/2".to_owned()),
            told("HTTP/2 200 of 100 bytes")
        );
    }

    #[test]
    fn other_answers_in_one_round_are_other_work() {
        let case = case(|program, round, sample| {
            if program == "b" && round == 4 {
                sample.answers[0].length = Some(10);
            }
        });
        assert_eq!(
            verdict(&case, SampleMetric::Cpu),
            Err(
                "a answered HTTP/1.1 200 of 100 bytes, b answered HTTP/1.1 200 of 10 bytes"
                    .to_owned()
            )
        );
    }

    #[test]
    fn fewer_received_bytes_are_other_work_beyond_what_heads_differ_by() {
        let told = |status, [own, others]: [f64; 2]| {
            let case = case(move |program, _, sample| {
                let each = if program == "a" { own } else { others };
                sample.received = sample.succeeded * each;
                sample.answers[0].status = status;
            });
            verdict(&case, SampleMetric::Cpu).err()
        };
        assert_eq!(told(Some(200), [300.0, 700.0]), None);
        assert_eq!(told(Some(200), [1e6, 1.009e6]), None);
        let why = "a sent 1000000 bytes for each success, b 1020000".to_owned();
        assert_eq!(told(Some(200), [1e6, 1.02e6]), Some(why));
        // Bytes of a relay have no heads.
        assert_eq!(told(None, [1000.0, 1009.0]), None);
        let why = "a sent 1000 bytes for each success, b 980".to_owned();
        assert_eq!(told(None, [1000.0, 980.0]), Some(why));
    }

    #[test]
    fn many_more_opened_connections_are_other_work() {
        let told = |opened: f64| {
            let case = case(move |program, _, sample| {
                let each = if program == "a" { 0.0 } else { opened };
                sample.opened = sample.succeeded * each;
            });
            verdict(&case, SampleMetric::Cpu).err()
        };
        assert_eq!(told(0.09), None);
        let why = "a needed 0.00 new connections for each success, b 1.00".to_owned();
        assert_eq!(told(1.0), Some(why));
    }

    #[test]
    fn a_rate_that_was_given_is_nobodys_merit() {
        let case = case(|_, _, sample| sample.open = true);
        assert_eq!(
            verdict(&case, SampleMetric::Rate),
            Err("the rate was given".to_owned())
        );
        assert_eq!(verdict(&case, SampleMetric::Cpu), Ok(RatioVerdict::Less));
    }

    #[test]
    fn fewer_than_six_rounds_show_nothing() {
        let mut findings = findings(|_, _, _| ());
        findings.measured.retain(|measured| measured.round <= 5);
        let case = Case::all(&plan(), &findings).remove(0);
        assert_eq!(
            verdict(&case, SampleMetric::Cpu),
            Err("fewer than 6 rounds".to_owned())
        );
    }

    #[test]
    fn stages_of_a_ladder_are_cases_of_their_own_and_errors_stay_with_the_program() {
        let mut findings = Findings::default();
        let stages = ["1000/s", "2000/s"].map(|stage| LoadSample {
            stage: stage.to_owned(),
            ..sample(10.0, 1.0)
        });
        let measured = |program: &str, outcome| Measurement {
            load: "l".to_owned(),
            program: program.to_owned(),
            round: 1,
            outcome,
        };
        findings.measured.push(measured("a", Ok(stages.to_vec())));
        findings
            .measured
            .push(measured("b", Err("it ended".to_owned())));
        let cases = Case::all(&plan(), &findings);
        assert_eq!(
            cases.iter().map(Case::name).collect::<Vec<_>>(),
            ["l, 1000/s", "l, 2000/s"]
        );
        assert_eq!(cases[1].rows[1].errors, ["it ended"]);
    }
}
