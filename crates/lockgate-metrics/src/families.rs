//! The families that a writer of metrics opens; a [`MetricSink`] takes them.

use crate::{FamilyHead, FamilyKind, HistogramSnapshot, MetricSink, SampleValue};

/// A reading that is being written, one family after the other.
///
/// A family's samples stay together because the borrow of the open one must end first. Names of
/// metrics and labels come from the source, so mistakes in them, and a family opened twice, are
/// caught by debug assertions only.
pub struct MetricFamilies<'a> {
    sink: &'a mut dyn MetricSink,
    opened: Vec<&'static str>,
}

impl<'a> MetricFamilies<'a> {
    /// A reading without families, for this sink.
    pub fn new(sink: &'a mut dyn MetricSink) -> Self {
        Self {
            sink,
            opened: Vec::new(),
        }
    }

    /// Opens a family of counters; its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> MetricFamily<'_> {
        debug_assert!(
            name.ends_with("_total"),
            "{name}: a counter's name ends in _total"
        );
        MetricFamily {
            sink: self.open(name, help, FamilyKind::Counter),
        }
    }

    /// Opens a family of gauges.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> MetricFamily<'_> {
        MetricFamily {
            sink: self.open(name, help, FamilyKind::Gauge),
        }
    }

    /// Opens a family of histograms; its name ends in the unit, `_seconds`.
    pub fn histogram(&mut self, name: &'static str, help: &str) -> HistogramFamily<'_> {
        HistogramFamily {
            sink: self.open(name, help, FamilyKind::Histogram),
        }
    }

    fn open(&mut self, name: &'static str, help: &str, kind: FamilyKind) -> &mut dyn MetricSink {
        debug_assert!(is_name(name, Colon::Allowed), "{name}: not a metric name");
        debug_assert!(
            !self.opened.contains(&name),
            "{name}: a family is written once"
        );
        self.opened.push(name);
        self.sink.family(FamilyHead { name, help, kind });
        &mut *self.sink
    }
}

/// A family of counters or gauges.
pub struct MetricFamily<'a> {
    sink: &'a mut dyn MetricSink,
}

impl MetricFamily<'_> {
    /// Writes one sample. No two samples of a family may have the same labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<SampleValue>) -> &mut Self {
        check_labels(labels);
        self.sink.sample(labels, value.into());
        self
    }
}

/// A metric family of histograms, each a sample.
pub struct HistogramFamily<'a> {
    sink: &'a mut dyn MetricSink,
}

impl HistogramFamily<'_> {
    /// Writes one histogram. The label `le` is reserved for the bounds of its buckets.
    pub fn sample(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) -> &mut Self {
        check_labels(labels);
        debug_assert!(
            labels.iter().all(|(label, _)| *label != "le"),
            "le is the bound's label"
        );
        self.sink.histogram(labels, histogram);
        self
    }
}

fn check_labels(labels: &[(&str, &str)]) {
    for (label, _) in labels {
        debug_assert!(is_name(label, Colon::Refused), "{label}: not a label name");
        debug_assert!(
            !label.starts_with("__"),
            "{label}: reserved for Prometheus itself"
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExpositionText;

    #[test]
    #[should_panic(expected = "a family is written once")]
    fn a_family_opened_twice_is_a_mistake_in_the_source() {
        let mut text = ExpositionText::new();
        let mut families = MetricFamilies::new(&mut text);
        families.gauge("g", "One.");
        families.gauge("g", "Two.");
    }

    #[test]
    fn metric_and_label_names_follow_the_data_model() {
        for (name, metric, label) in [
            ("a", true, true),
            ("_9", true, true),
            ("a:b", true, false),
            ("", false, false),
            ("9a", false, false),
            ("a-b", false, false),
            ("ä", false, false),
        ] {
            assert_eq!(is_name(name, Colon::Allowed), metric, "{name}");
            assert_eq!(is_name(name, Colon::Refused), label, "{name}");
        }
    }
}
