//! What receives metrics: families, and their samples one after the other.
//!
//! Does not say where they come from: [`MetricFamilies`](crate::MetricFamilies) is what writers have.

use crate::{HistogramSnapshot, SampleValue};

/// The kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FamilyKind {
    /// A number that only grows while the process lives.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

impl FamilyKind {
    /// Its name in Prometheus' text format: `counter`, `gauge`, `histogram`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What is known of all samples of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyHead<'a> {
    /// The name. Before the `_total` of a counter it ends in the unit, if there is one: `_seconds`,
    /// `_bytes`.
    pub name: &'static str,
    /// The meaning, a sentence.
    pub help: &'a str,
    /// The kind.
    pub kind: FamilyKind,
}

/// Receives the metrics of one reading.
///
/// A family is begun, then come its samples, then the next family. Within a reading no family comes
/// twice, and no two samples of a family have the same labels.
pub trait MetricSink {
    /// Begins a family.
    fn family(&mut self, family: FamilyHead<'_>);

    /// Takes a sample of the family that was begun last, one of counters or gauges.
    fn sample(&mut self, labels: &[(&str, &str)], value: SampleValue);

    /// The same of a family of histograms.
    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot);
}
