//! Comparison of measurements: figures of each program, ratios of each two, and verdicts.

use std::collections::BTreeMap;

use crate::comparison_run::Findings;
use crate::plan::ComparisonPlan;
use crate::sample::{AffectedMetrics, LoadSample};
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

    /// Whether it is a latency.
    pub fn is_latency(self) -> bool {
        matches!(
            self,
            Self::P50 | Self::P99 | Self::P99_9 | Self::P99_99 | Self::Max
        )
    }

    /// Whether a mark makes the metric invalid.
    fn is_affected(self, affects: AffectedMetrics) -> bool {
        match affects {
            AffectedMetrics::All => true,
            AffectedMetrics::Cpu => matches!(self, Self::Cpu | Self::System),
            AffectedMetrics::Pace => self == Self::Rate || self.is_latency(),
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

    /// Whether a mark makes the metric invalid in any round.
    pub fn is_invalid(&self, metric: SampleMetric) -> bool {
        self.rounds
            .values()
            .flat_map(|sample| &sample.marks)
            .any(|mark| metric.is_affected(mark.affects))
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

/// Ratio of one metric, with its verdict.
#[derive(Debug)]
pub struct Compared {
    /// Metric of the ratio.
    pub metric: SampleMetric,
    /// The ratio over the rounds in which both have the metric.
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

    /// The program with the least CPU time a request besides `program`, by medians; never the
    /// baseline, which does less.
    pub fn best_other(&self, program: &str) -> Option<&ProgramRow> {
        let others = self
            .rows
            .iter()
            .filter(|row| row.program != program && !row.baseline);
        let others = others.filter(|row| !row.has_failures());
        let with = others.filter_map(|row| Some((row.spread(SampleMetric::Cpu)?.median, row)));
        with.min_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, row)| row)
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

/// Difference in the work of two programs, if there is one.
fn other_work(row: &ProgramRow, other: &ProgramRow) -> Option<String> {
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
    let ratio = Ratio::of(pairs());
    let added = if metric.is_latency() {
        Spread::of(pairs().map(|(own, other)| own - other))
    } else {
        None
    };
    let failing = [row, other].into_iter().find(|row| row.has_failures());
    let invalid = [row, other].into_iter().find(|row| row.is_invalid(metric));
    let given = metric == SampleMetric::Rate && row.rounds.values().any(|sample| sample.open);
    let other_work = other_work(row, other);
    let verdict = match (&ratio, failing, invalid) {
        (None, ..) => Err("no round has both".to_owned()),
        _ if given => Err("the rate was given".to_owned()),
        (_, Some(row), _) => Err(format!("{} had failures", row.program)),
        _ if other_work.is_some() => Err(other_work.unwrap_or_default()),
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
    use lockgate_load::result::Bottleneck;
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
            p50: Some(100.0),
            p99: Some(1000.0),
            p99_9: Some(2000.0),
            p99_99: Some(2500.0),
            max: Some(3000.0),
            memory: Some((1e6, 3e6)),
            connections: 100.0,
            opened: 100.0,
            resumed: 0.0,
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

    #[test]
    fn a_round_that_slowed_both_programs_changes_no_verdict() {
        let case = case(|_, _, _| ());
        assert_eq!(verdict(&case, SampleMetric::Cpu), Ok(RatioVerdict::Less));
        assert_eq!(verdict(&case, SampleMetric::Rate), Ok(RatioVerdict::More));
        assert_eq!(
            verdict(&case, SampleMetric::P99),
            Ok(RatioVerdict::NotShown)
        );
        assert_eq!(case.best_other("b").unwrap().program, "a");
        assert_eq!(case.best_other("a").unwrap().program, "b");
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
        assert!(case.best_other("b").is_none());
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
        assert!(case.best_other("a").is_none());
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
        assert!(case.best_other("a").is_none());
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
