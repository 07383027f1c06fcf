//! Thresholds, `--fail-if 'p99 > 20ms or errors > 0'`: a condition that makes a run a failure.
//!
//! ```text
//! condition   = all *( "or" all )
//! all         = comparison *( "and" comparison )
//! comparison  = metric operator value / "(" condition ")"
//! operator    = ">" / ">=" / "<" / "<=" / "==" / "!="
//! ```
//!
//! Metrics: `p50` `p75` `p90` `p95` `p99` `p99.9` `p99.99` `max` `mean` (of latency; a number with
//! `ns`, `us`, `ms` or `s`), `rate` (successes a second; `5000`, `5k`, `5k/s`), `error_rate`
//! (failures among what ended; `1%`), `errors` (all failures), `unsent` (those of them that were
//! never sent), `cut` and `invalid` (reasons): numbers.
//!
//! A percentile with `_all` behind its name, such as `p99_all`, is of all requests: a failure takes
//! longer than any success. Percentiles of few requests are their maximum.
//!
//! A run must not pass because nothing worked: latency where nothing succeeded is longer than any,
//! and `error_rate` where nothing ended is 100 %.

mod parse;

use std::fmt;

use crate::summary::{StageSummary, Summary};
use crate::units;
use lockgate_load::result::{FailureKind, RunResult, StageCounts, StageResult};

pub use parse::ThresholdError;

/// A condition on each stage of a run: the run has failed if one of them meets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold(ThresholdCondition);

#[derive(Debug, Clone, PartialEq)]
enum ThresholdCondition {
    Is(Comparison),
    All(Vec<ThresholdCondition>),
    Any(Vec<ThresholdCondition>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Comparison {
    metric: Metric,
    operator: Operator,
    /// In the unit of the metric's figure.
    value: f64,
}

/// A metric that a threshold compares. Its name and its kind are in [`METRICS`].
#[derive(Debug, Clone, Copy, PartialEq)]
enum Metric {
    /// A figure of the summary of latency, by its name.
    Latency(&'static str),
    /// The percentile of this share of all requests; failures are infinite.
    AllLatency(f64),
    Rate,
    Errors,
    ErrorRate,
    Unsent,
    Cut,
    Invalid,
}

/// How a metric's value is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MetricKind {
    /// Nanoseconds, written with their unit.
    Duration,
    /// A whole number, without a unit.
    Count,
    /// A number a second, `5000` or `5k/s`.
    Rate,
    /// 0 to 1, written in per cent.
    Share,
}

const METRICS: [(&str, Metric); 19] = [
    ("p50", Metric::Latency("p50")),
    ("p75", Metric::Latency("p75")),
    ("p90", Metric::Latency("p90")),
    ("p95", Metric::Latency("p95")),
    ("p99", Metric::Latency("p99")),
    ("p99.9", Metric::Latency("p99.9")),
    ("p99.99", Metric::Latency("p99.99")),
    ("max", Metric::Latency("max")),
    ("mean", Metric::Latency("mean")),
    ("p50_all", Metric::AllLatency(0.5)),
    ("p90_all", Metric::AllLatency(0.9)),
    ("p99_all", Metric::AllLatency(0.99)),
    ("p99.9_all", Metric::AllLatency(0.999)),
    ("rate", Metric::Rate),
    ("errors", Metric::Errors),
    ("error_rate", Metric::ErrorRate),
    ("unsent", Metric::Unsent),
    ("cut", Metric::Cut),
    ("invalid", Metric::Invalid),
];

impl Metric {
    fn name(self) -> &'static str {
        METRICS
            .iter()
            .find(|(_, metric)| *metric == self)
            .map_or("", |(name, _)| name)
    }

    fn kind(self) -> MetricKind {
        match self {
            Self::Latency(_) | Self::AllLatency(_) => MetricKind::Duration,
            Self::Rate => MetricKind::Rate,
            Self::ErrorRate => MetricKind::Share,
            Self::Errors | Self::Unsent | Self::Cut | Self::Invalid => MetricKind::Count,
        }
    }

    fn of(self, stage: &StageResult, connections: usize) -> f64 {
        match self {
            Self::Latency(name) => Summary::of(&stage.counts.latency)
                .and_then(|summary| summary.measured(name))
                .unwrap_or(f64::INFINITY),
            Self::AllLatency(share) => of_all(&stage.counts, share),
            Self::Rate => StageSummary::of(stage, connections).rate,
            Self::Errors => stage.counts.failed() as f64,
            Self::ErrorRate => StageSummary::of(stage, connections)
                .failed_share
                .unwrap_or(1.0),
            Self::Unsent => stage.counts.failures[FailureKind::Unsent as usize] as f64,
            Self::Cut => stage.counts.cut as f64,
            Self::Invalid => stage.invalid.len() as f64,
        }
    }
}

/// The percentile of the latency of all requests, where those that failed took for ever.
fn of_all(counts: &StageCounts, share: f64) -> f64 {
    let all = (counts.succeeded() + counts.failed()) as f64;
    // Of 1,000 requests p99 is the 990th; a float's error must not make it the 991st.
    let rank = (all * share - 1e-6).ceil().max(1.0);
    let succeeded = counts.succeeded() as f64;
    if rank > succeeded {
        return f64::INFINITY;
    }
    counts.latency.value_at_quantile(rank / succeeded) as f64
}

impl MetricKind {
    fn show(self, value: f64) -> String {
        match self {
            Self::Duration if value.is_infinite() => {
                "infinite, because too few requests succeeded".to_owned()
            }
            Self::Duration => units::duration(value),
            Self::Count => units::count(value as u64),
            Self::Rate => units::rate(value),
            Self::Share => units::percent(value),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
    Is,
    IsNot,
}

const OPERATORS: [(&str, Operator); 6] = [
    (">", Operator::Above),
    (">=", Operator::AtLeast),
    ("<", Operator::Below),
    ("<=", Operator::AtMost),
    ("==", Operator::Is),
    ("!=", Operator::IsNot),
];

impl Operator {
    fn name(self) -> &'static str {
        OPERATORS
            .iter()
            .find(|(_, operator)| *operator == self)
            .map_or("", |(name, _)| name)
    }

    fn holds(self, figure: f64, value: f64) -> bool {
        match self {
            Self::Above => figure > value,
            Self::AtLeast => figure >= value,
            Self::Below => figure < value,
            Self::AtMost => figure <= value,
            Self::Is => figure == value,
            Self::IsNot => figure != value,
        }
    }
}

impl Threshold {
    /// Parses a condition.
    ///
    /// # Errors
    /// The mistake and its column, with the words that are possible there.
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        parse::condition(text).map(Self)
    }

    /// The stages that meet the condition, with the comparisons that hold there; none if the run
    /// has passed.
    pub fn breaches(&self, report: &RunResult) -> Vec<Breach> {
        let breach = |stage: &StageResult| {
            let mut figures = Vec::new();
            self.0
                .meets(stage, report.run.connections, &mut figures)
                .then(|| Breach {
                    stage: stage.name.clone(),
                    round: stage.round,
                    figures,
                })
        };
        report.stages.iter().filter_map(breach).collect()
    }
}

impl ThresholdCondition {
    /// Whether a stage meets it; if so, adds the figures that it does so by.
    fn meets(
        &self,
        stage: &StageResult,
        connections: usize,
        found: &mut Vec<ComparedFigure>,
    ) -> bool {
        let before = found.len();
        let meets = match self {
            Self::Is(comparison) => {
                let figure = comparison.metric.of(stage, connections);
                found.push(ComparedFigure {
                    comparison: *comparison,
                    figure,
                });
                comparison.operator.holds(figure, comparison.value)
            }
            Self::All(conditions) => conditions
                .iter()
                .all(|condition| condition.meets(stage, connections, found)),
            // Each of them is told, not the first alone.
            Self::Any(conditions) => conditions
                .iter()
                .map(|condition| condition.meets(stage, connections, found))
                .fold(false, |any, one| any | one),
        };
        if !meets {
            found.truncate(before);
        }
        meets
    }
}

/// A stage that met the condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Breach {
    /// Name of the stage in reports.
    pub stage: String,
    /// Its round, from 1 on.
    pub round: usize,
    figures: Vec<ComparedFigure>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ComparedFigure {
    comparison: Comparison,
    figure: f64,
}

/// `3000/s, round 1: p99 is 23.1 ms (fails if p99 > 20.0 ms)`.
impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, round {}: ", self.stage, self.round)?;
        for (at, ComparedFigure { comparison, figure }) in self.figures.iter().enumerate() {
            let separator = if at > 0 { "; " } else { "" };
            let (name, kind) = (comparison.metric.name(), comparison.metric.kind());
            let (operator, value) = (comparison.operator.name(), kind.show(comparison.value));
            let figure = kind.show(*figure);
            write!(
                f,
                "{separator}{name} is {figure} (fails if {name} {operator} {value})"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
