//! The metrics of a reading that a filter takes.

use lockgate_metrics::{FamilyHead, HistogramSnapshot, MetricSink, SampleValue};
use lockgate_rules::MetricFilter;

use crate::encoder::Figures;

/// Gives the families that the filter takes to `sink`.
pub fn filtered(figures: Figures<'_>, filter: &MetricFilter, sink: &mut dyn MetricSink) {
    figures(&mut FilteredSink {
        sink,
        filter,
        is_taken: false,
    });
}

struct FilteredSink<'a> {
    sink: &'a mut dyn MetricSink,
    filter: &'a MetricFilter,
    /// Whether the family that was begun last is taken.
    is_taken: bool,
}

impl MetricSink for FilteredSink<'_> {
    fn family(&mut self, family: FamilyHead<'_>) {
        self.is_taken = self.filter.takes(family.name);
        if self.is_taken {
            self.sink.family(family);
        }
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: SampleValue) {
        if self.is_taken {
            self.sink.sample(labels, value);
        }
    }

    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) {
        if self.is_taken {
            self.sink.histogram(labels, histogram);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockgate_metrics::ExpositionText;

    use super::*;
    use crate::test_figures::figures;

    #[test]
    fn families_that_the_filter_takes_are_whole() {
        let written = |names: &[&str]| {
            let filter = MetricFilter {
                only: names.iter().map(|name| (*name).to_owned()).collect(),
                except: Vec::new(),
            };
            let mut text = ExpositionText::new();
            filtered(&figures, &filter, &mut text);
            text.finish()
        };
        let all = written(&[]);
        let counters = written(&["lockgate_requests_"]);
        let others = written(&["lockgate_request_", "lockgate_offset"]);
        assert!(counters.starts_with("# HELP lockgate_requests_total "));
        assert_eq!(counters + &others, all);
        assert_eq!(written(&["nothing"]), "");
    }
}
