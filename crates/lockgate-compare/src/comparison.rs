//! What measurements show: figures of each program, ratios of each two, and verdicts where there
//! may be one.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::sample::{Sample, Touches};
use crate::session::Findings;
use crate::statistics::{Ratio, Spread, Verdict};

/// One stage of one load, and how all programs bore it.
#[derive(Debug)]
pub struct Case {
    /// The name of the load.
    pub load: String,
    /// The stage, where the load has several; else empty.
    pub stage: String,
    /// The arguments of `lockgate load`.
    pub arguments: Vec<String>,
    /// In the order of the file.
    pub rows: Vec<Row>,
    /// Each two of them that have figures, each ordered pair once.
    pub pairs: Vec<Pair>,
}

/// A program in a case.
#[derive(Debug)]
pub struct Row {
    /// What it is called.
    pub program: String,
    /// What it says of its version.
    pub version: String,
    /// Whether the others add to it.
    pub baseline: bool,
    /// Its rounds, by their number.
    pub rounds: BTreeMap<usize, Sample>,
    /// What kept it from some of them, each reason once; or from all.
    pub errors: Vec<String>,
    /// Why it took no part.
    pub skipped: Option<String>,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Successes a second.
    Rate,
    /// Microseconds of CPU time a success.
    Cpu,
    /// The kernel's share of it.
    System,
    /// Microseconds: the median,
    P50,
    /// what one of a hundred exceeded,
    P99,
    /// one of a thousand,
    P99_9,
    /// one of ten thousand,
    P99_99,
    /// the longest.
    Max,
    /// Failures.
    Failed,
    /// The part of connections that went on with a session of TLS from before.
    Resumed,
    /// The most memory, bytes.
    Peak,
    /// Bytes that a connection added.
    PerConnection,
}

impl Figure {
    /// Each once, in the order of tables.
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

    /// Those of which ratios are made.
    pub const COMPARED: [Self; 6] = [
        Self::Cpu,
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::P99_99,
        Self::PerConnection,
    ];

    /// Of a sample.
    pub fn of(self, sample: &Sample) -> Option<f64> {
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

    /// Its key in JSON and CSV.
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

    /// Whether it is a time that requests took.
    pub fn is_latency(self) -> bool {
        matches!(
            self,
            Self::P50 | Self::P99 | Self::P99_9 | Self::P99_99 | Self::Max
        )
    }

    /// Whether a mark is about it.
    fn is_touched(self, touches: Touches) -> bool {
        match touches {
            Touches::All => true,
            Touches::Cpu => matches!(self, Self::Cpu | Self::System),
            Touches::Pace => self == Self::Rate || self.is_latency(),
        }
    }
}

impl Row {
    /// Over all rounds.
    pub fn spread(&self, figure: Figure) -> Option<Spread> {
        Spread::of(self.rounds.values().filter_map(|sample| figure.of(sample)))
    }

    /// Failures of all rounds.
    pub fn failed(&self) -> f64 {
        self.rounds
            .values()
            .map(|sample| sample.failed)
            .fold(0.0, |sum, failed| sum + failed)
    }

    /// Whether something failed in any round, or a round has no figures at all: then it did other
    /// work than asked for.
    pub fn has_failures(&self) -> bool {
        !self.errors.is_empty() || self.rounds.values().any(|sample| sample.failed > 0.0)
    }

    /// Whether a figure of this kind is not the program's in some round.
    pub fn is_invalid(&self, figure: Figure) -> bool {
        self.rounds
            .values()
            .flat_map(|sample| &sample.marks)
            .any(|mark| figure.is_touched(mark.touches))
    }

    /// Version and suite of TLS, each that was seen once; nothing where there was none.
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

    /// Why figures are marked, each reason once, and in how many rounds: these differ in its
    /// numbers only.
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

    /// What failed in the first round in which something did.
    pub fn failures(&self) -> Option<String> {
        let failed = self.rounds.iter().find(|(_, sample)| sample.failed > 0.0);
        failed.map(|(round, sample)| format!("round {round}: {}", sample.failures.join(", ")))
    }
}

/// A program against another one.
#[derive(Debug)]
pub struct Pair {
    /// Whose figure is divided.
    pub program: String,
    /// By whose.
    pub other: String,
    /// For each of [`Figure::COMPARED`].
    pub ratios: Vec<Compared>,
}

/// One ratio.
#[derive(Debug)]
pub struct Compared {
    /// Of what.
    pub figure: Figure,
    /// From the rounds in which both have it.
    pub ratio: Option<Ratio>,
    /// Microseconds that the program takes more than the other, in the rounds in which both have
    /// them.
    pub added: Option<Spread>,
    /// What may be said, or why nothing.
    pub verdict: Result<Verdict, String>,
}

impl Case {
    /// All cases, in the order of the file.
    pub fn all(plan: &Plan, findings: &Findings) -> Vec<Self> {
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
                        Row {
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

    /// The program that takes the least CPU time for a request among those other than `program`, by
    /// medians. Never the baseline, which does less.
    pub fn best_other(&self, program: &str) -> Option<&Row> {
        let others = self
            .rows
            .iter()
            .filter(|row| row.program != program && !row.baseline);
        let others = others.filter(|row| !row.has_failures());
        let with = others.filter_map(|row| Some((row.spread(Figure::Cpu)?.median, row)));
        with.min_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, row)| row)
    }

    /// What the others add to, where the file has that.
    pub fn baseline(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.baseline)
    }

    /// `program` against `other`.
    pub fn pair(&self, program: &str, other: &str) -> Option<&Pair> {
        self.pairs
            .iter()
            .find(|pair| pair.program == program && pair.other == other)
    }

    /// Whether there were so many connections at once that memory grew by theirs.
    pub fn has_many_connections(&self) -> bool {
        const MANY: f64 = 100.0;
        self.rows
            .iter()
            .flat_map(|row| row.rounds.values())
            .any(|sample| sample.connections >= MANY)
    }

    /// What it is called.
    pub fn name(&self) -> String {
        if self.stage.is_empty() {
            self.load.clone()
        } else {
            format!("{}, {}", self.load, self.stage)
        }
    }
}

fn pairs(rows: &[Row]) -> Vec<Pair> {
    let with: Vec<_> = rows.iter().filter(|row| !row.rounds.is_empty()).collect();
    let both = with
        .iter()
        .flat_map(|row| with.iter().map(move |other| (*row, *other)));
    let both = both.filter(|(row, other)| row.program != other.program);
    let pairs = both.map(|(row, other)| {
        let ratios = Figure::COMPARED
            .into_iter()
            .map(|figure| compared(figure, row, other))
            .collect();
        Pair {
            program: row.program.clone(),
            other: other.program.clone(),
            ratios,
        }
    });
    pairs.collect()
}

/// So much may the shares of resumed connections differ, where it is still the same work.
const RESUMED: f64 = 0.05;

/// In what the work of two programs differed.
fn other_work(row: &Row, other: &Row) -> Option<String> {
    if row.tls() != other.tls() {
        return Some(format!(
            "{} and {} had different TLS",
            row.program, other.program
        ));
    }
    let (own, others) = (
        row.spread(Figure::Resumed)?.median,
        other.spread(Figure::Resumed)?.median,
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

fn compared(figure: Figure, row: &Row, other: &Row) -> Compared {
    let pairs = || {
        let both =
            |(round, sample)| Some((figure.of(sample)?, figure.of(other.rounds.get(round)?)?));
        row.rounds.iter().filter_map(both)
    };
    let ratio = Ratio::of(pairs());
    let added = if figure.is_latency() {
        Spread::of(pairs().map(|(own, other)| own - other))
    } else {
        None
    };
    let failing = [row, other].into_iter().find(|row| row.has_failures());
    let invalid = [row, other].into_iter().find(|row| row.is_invalid(figure));
    let given = figure == Figure::Rate && row.rounds.values().any(|sample| sample.open);
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
        figure,
        ratio,
        added,
        verdict,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample::Mark;
    use crate::session::Measured;
    use lockgate_load::result::Limit;
    use std::path::Path;

    pub(crate) fn sample(requests: f64, cpu_seconds: f64) -> Sample {
        Sample {
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

    pub(crate) fn plan() -> Plan {
        let text = "title = \"T <1>\"\n[program.a]\ncommand = [\"a\"]\n[program.b]\ncommand = [\"b\"]\n[program.c]\ncommand = [\"c\"]\n\
            [load.l]\nurl = \"http://h/\"\n[paper.p]\nsource = \"S & T\"\ncolumns = [\"x|y\", \"z\"]\nrows = [[\"1\", \"2\"]]\n";
        Plan::parse(Path::new("f"), text).unwrap()
    }

    /// Seven rounds in which `a` takes 0.8 of what `b` takes, while the machine gets slower; `c` is
    /// not there.
    pub(crate) fn findings(change: impl Fn(&str, usize, &mut Sample)) -> Findings {
        let mut findings = Findings::default();
        for round in 1..=7 {
            for (program, share) in [("a", 0.8), ("b", 1.0)] {
                let slower = 1.0 + round as f64;
                let mut sample = sample(1000.0 / slower / share, slower * share * 1e-2);
                change(program, round, &mut sample);
                let (load, program) = ("l".to_owned(), program.to_owned());
                findings.measured.push(Measured {
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

    fn case(change: impl Fn(&str, usize, &mut Sample)) -> Case {
        Case::all(&plan(), &findings(change)).remove(0)
    }

    fn verdict(case: &Case, figure: Figure) -> Result<Verdict, String> {
        let pair = case.pair("a", "b").unwrap();
        pair.ratios
            .iter()
            .find(|compared| compared.figure == figure)
            .unwrap()
            .verdict
            .clone()
    }

    #[test]
    fn what_a_round_did_to_both_is_not_held_against_either() {
        let case = case(|_, _, _| ());
        assert_eq!(verdict(&case, Figure::Cpu), Ok(Verdict::Less));
        assert_eq!(verdict(&case, Figure::Rate), Ok(Verdict::More));
        assert_eq!(verdict(&case, Figure::P99), Ok(Verdict::NotShown));
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
    fn who_had_failures_gets_no_verdict_and_is_nobodys_measure() {
        let case = case(|program, round, sample| {
            if program == "b" && round == 3 {
                sample.failed = 1.0;
            }
        });
        for figure in Figure::COMPARED {
            assert_eq!(verdict(&case, figure), Err("b had failures".to_owned()));
        }
        assert!(case.best_other("a").is_none());
    }

    #[test]
    fn who_did_not_last_through_every_round_gets_no_verdict_and_is_nobodys_measure() {
        let mut findings = findings(|_, _, _| ());
        let third = findings
            .measured
            .iter_mut()
            .find(|one| one.program == "b" && one.round == 3);
        third.unwrap().outcome = Err("it ended under the load".to_owned());
        let case = Case::all(&plan(), &findings).remove(0);
        for figure in Figure::COMPARED {
            assert_eq!(verdict(&case, figure), Err("b had failures".to_owned()));
        }
        assert!(case.best_other("a").is_none());
    }

    #[test]
    fn where_the_generator_was_the_limit_cpu_time_is_the_programs_nevertheless() {
        let limited =
            case(|_, _, sample| sample.limit(Limit::Generator, "the generator was the limit"));
        assert_eq!(verdict(&limited, Figure::Cpu), Ok(Verdict::Less));
        assert_eq!(
            verdict(&limited, Figure::Rate),
            Err("invalid for a".to_owned())
        );
        let link = case(|_, _, sample| sample.limit(Limit::Link, "the link was the limit"));
        assert_eq!(verdict(&link, Figure::Cpu), Err("invalid for a".to_owned()));
    }

    #[test]
    fn cpu_time_that_was_too_little_takes_no_other_verdict() {
        let case = case(|_, _, sample| {
            let (why, touches) = ("few ticks".to_owned(), Touches::Cpu);
            sample.marks.push(Mark { why, touches });
        });
        assert_eq!(verdict(&case, Figure::Cpu), Err("invalid for a".to_owned()));
        assert_eq!(verdict(&case, Figure::Rate), Ok(Verdict::More));
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
            verdict(&case, Figure::Cpu)
        };
        assert_eq!(tls("1.3", 95.0), Ok(Verdict::Less));
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
            verdict(&case, Figure::Rate),
            Err("the rate was given".to_owned())
        );
        assert_eq!(verdict(&case, Figure::Cpu), Ok(Verdict::Less));
    }

    #[test]
    fn fewer_than_six_rounds_show_nothing() {
        let mut findings = findings(|_, _, _| ());
        findings.measured.retain(|measured| measured.round <= 5);
        let case = Case::all(&plan(), &findings).remove(0);
        assert_eq!(
            verdict(&case, Figure::Cpu),
            Err("fewer than 6 rounds".to_owned())
        );
    }

    #[test]
    fn stages_of_a_ladder_are_cases_of_their_own_and_errors_stay_with_the_program() {
        let mut findings = Findings::default();
        let stages = ["1000/s", "2000/s"].map(|stage| Sample {
            stage: stage.to_owned(),
            ..sample(10.0, 1.0)
        });
        let measured = |program: &str, outcome| Measured {
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
