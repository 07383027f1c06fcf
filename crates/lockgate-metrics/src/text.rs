//! Prometheus text exposition format 0.0.4: families and samples to text.
//!
//! Does not collect and keeps no registry: the caller writes family after family. OpenMetrics and
//! native histograms are not written. Format:
//! <https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md>

use std::fmt::Write;

use crate::HistogramSnapshot;

/// The Content-Type of what [`ExpositionText`] writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The value of a sample, printed without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleValue {
    /// A count, or bytes.
    Unsigned(u64),
    /// A gauge in whole units.
    Signed(i64),
    /// Seconds, ratios, bounds of buckets.
    Float(f64),
}

impl From<u64> for SampleValue {
    fn from(n: u64) -> Self {
        Self::Unsigned(n)
    }
}

impl From<i64> for SampleValue {
    fn from(n: i64) -> Self {
        Self::Signed(n)
    }
}

impl From<f64> for SampleValue {
    fn from(n: f64) -> Self {
        Self::Float(n)
    }
}

/// An exposition that is being written, one family after the other.
///
/// A family's samples stay together because the borrow of the open one must end first. Names of
/// metrics and labels come from the source, so mistakes in them, and a family opened twice, are
/// caught by debug assertions only.
#[derive(Debug, Default)]
pub struct ExpositionText {
    out: String,
    families: Vec<&'static str>,
}

impl ExpositionText {
    /// An exposition without families.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a family of counters; its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> MetricFamily<'_> {
        debug_assert!(
            name.ends_with("_total"),
            "{name}: a counter's name ends in _total"
        );
        self.open(name, help, "counter");
        MetricFamily { text: self, name }
    }

    /// Opens a family of gauges.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> MetricFamily<'_> {
        self.open(name, help, "gauge");
        MetricFamily { text: self, name }
    }

    /// Opens a family of histograms; its name ends in the unit, `_seconds`.
    pub fn histogram(&mut self, name: &'static str, help: &str) -> HistogramFamily<'_> {
        self.open(name, help, "histogram");
        HistogramFamily { text: self, name }
    }

    /// The text, to be served as [`CONTENT_TYPE`].
    pub fn finish(self) -> String {
        self.out
    }

    fn open(&mut self, name: &'static str, help: &str, kind: &str) {
        debug_assert!(is_name(name, Colon::Allowed), "{name}: not a metric name");
        debug_assert!(
            !self.families.contains(&name),
            "{name}: a family is written once"
        );
        self.families.push(name);
        self.put(format_args!("# HELP {name} "));
        escape(&mut self.out, help, Quote::AsIs);
        self.put(format_args!("\n# TYPE {name} {kind}\n"));
    }

    /// Writes one line; `suffix` belongs to the name, `le` is the bound of a histogram's bucket.
    fn sample(
        &mut self,
        name: [&str; 2],
        labels: &[(&str, &str)],
        le: Option<f64>,
        value: SampleValue,
    ) {
        self.out.extend(name);
        if !labels.is_empty() || le.is_some() {
            self.out.push('{');
            for (label, value) in labels {
                debug_assert!(is_name(label, Colon::Refused), "{label}: not a label name");
                debug_assert!(
                    !label.starts_with("__"),
                    "{label}: reserved for Prometheus itself"
                );
                self.put(format_args!("{label}=\""));
                escape(&mut self.out, value, Quote::Escaped);
                self.out.push_str("\",");
            }
            match le {
                Some(bound) => {
                    self.out.push_str("le=\"");
                    self.number(SampleValue::Float(bound));
                    self.out.push('"');
                }
                None => drop(self.out.pop()),
            }
            self.out.push('}');
        }
        self.out.push(' ');
        self.number(value);
        self.out.push('\n');
    }

    fn number(&mut self, number: SampleValue) {
        match number {
            SampleValue::Unsigned(n) => self.put(format_args!("{n}")),
            SampleValue::Signed(n) => self.put(format_args!("{n}")),
            SampleValue::Float(f64::INFINITY) => self.out.push_str("+Inf"),
            SampleValue::Float(f64::NEG_INFINITY) => self.out.push_str("-Inf"),
            SampleValue::Float(n) => self.put(format_args!("{n}")),
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a String takes everything");
    }
}

/// A family of counters or gauges.
#[derive(Debug)]
pub struct MetricFamily<'a> {
    text: &'a mut ExpositionText,
    name: &'static str,
}

impl MetricFamily<'_> {
    /// Writes one sample. No two samples of a family may have the same labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<SampleValue>) -> &mut Self {
        self.text
            .sample([self.name, ""], labels, None, value.into());
        self
    }
}

/// A metric family of histograms, each a sample.
#[derive(Debug)]
pub struct HistogramFamily<'a> {
    text: &'a mut ExpositionText,
    name: &'static str,
}

impl HistogramFamily<'_> {
    /// Writes one histogram: its buckets, `_sum` and `_count`. The label `le` is reserved.
    pub fn sample(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) -> &mut Self {
        debug_assert!(
            labels.iter().all(|(label, _)| *label != "le"),
            "le is the bound's label"
        );
        let count = histogram.count().into();
        let name = self.name;
        for (bound, below) in histogram.cumulative() {
            self.text
                .sample([name, "_bucket"], labels, Some(bound), below.into());
        }
        self.text
            .sample([name, "_bucket"], labels, Some(f64::INFINITY), count);
        self.text
            .sample([name, "_sum"], labels, None, histogram.sum().into());
        self.text.sample([name, "_count"], labels, None, count);
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colon {
    Allowed,
    Refused,
}

/// `[a-zA-Z_:][a-zA-Z0-9_:]*`; label names have no colon.
fn is_name(name: &str, colon: Colon) -> bool {
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || c == '_' || (c == ':' && colon == Colon::Allowed);
    name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(allowed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    Escaped,
    AsIs,
}

fn escape(out: &mut String, text: &str, quote: Quote) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quote == Quote::Escaped => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests;
