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
    fn best_other(&self, program: &str, metric: SampleMetric) -> Option<&ProgramRow> {
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

    /// The pair of `program` and the best other in this metric.
    pub fn pair_with_best(&self, program: &str, metric: SampleMetric) -> Option<&ProgramPair> {
        let other = self.best_other(program, metric)?;
        self.pair(program, &other.program)
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
pub(crate) mod tests;
