//! Prometheus text exposition format 0.0.4: families and samples to text.
//!
//! Does not collect and keeps no registry: the caller writes family after family. OpenMetrics and
//! native histograms are not written. Format:
//! <https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md>

use std::fmt::Write;

use crate::{FamilyHead, HistogramSnapshot, MetricSink, SampleValue};

/// The Content-Type of what [`ExpositionText`] writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of a reading.
#[derive(Debug, Default)]
pub struct ExpositionText {
    out: String,
    /// The name of the family that was begun last.
    name: &'static str,
}

impl ExpositionText {
    /// A text without families.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text, to be served as [`CONTENT_TYPE`].
    pub fn finish(self) -> String {
        self.out
    }

    /// Writes one line; `suffix` belongs to the name, `le` is the bound of a histogram's bucket.
    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], le: Option<f64>, value: SampleValue) {
        self.out.extend([self.name, suffix]);
        if !labels.is_empty() || le.is_some() {
            self.out.push('{');
            for (label, value) in labels {
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

impl MetricSink for ExpositionText {
    fn family(&mut self, family: FamilyHead<'_>) {
        let FamilyHead { name, help, kind } = family;
        self.name = name;
        self.put(format_args!("# HELP {name} "));
        escape(&mut self.out, help, Quote::AsIs);
        self.put(format_args!("\n# TYPE {name} {}\n", kind.as_str()));
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: SampleValue) {
        self.line("", labels, None, value);
    }

    /// Writes its buckets, `_sum` and `_count`.
    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) {
        for sample in histogram.samples() {
            self.line(sample.suffix, labels, sample.le, sample.value);
        }
    }
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
