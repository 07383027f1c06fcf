//! The metrics of pushing: what each program got, and what was lost.

use lockgate_metrics::MetricFamilies;

use super::Exposition;
use crate::exporter::LossReason;

impl Exposition {
    /// Without a program that is pushed to there are no families.
    pub(super) fn exports(&self, families: &mut MetricFamilies<'_>) {
        self.exported_spans(families);
        let sinks = self.state.sinks.now();
        if sinks.is_empty() {
            return;
        }
        let mut family = families.counter(
            "lockgate_export_points_total",
            "Points that were pushed to a sink of `export`.",
        );
        for sink in sinks.iter() {
            family.sample(&[("sink", &sink.name)], sink.points());
        }
        let mut family = families.counter(
            "lockgate_export_lost_points_total",
            "Points that a sink did not get: newer ones needed their room while it took none (queue_full), it refused them (refused), one was longer than a datagram may be (too_long), or it took no last ones when a reload changed it (unreachable).",
        );
        for sink in sinks.iter() {
            for (reason, label) in LossReason::ALL {
                let labels = [("sink", &*sink.name), ("reason", label)];
                family.sample(&labels, sink.lost(reason));
            }
        }
        let mut family = families.gauge(
            "lockgate_export_up",
            "1 while the last push to a sink succeeded, else 0.",
        );
        for sink in sinks.iter() {
            family.sample(&[("sink", &sink.name)], i64::from(sink.is_up()));
        }
    }

    fn exported_spans(&self, families: &mut MetricFamilies<'_>) {
        let Some(spans) = self.state.sinks.spans() else {
            return;
        };
        families
            .counter(
                "lockgate_export_spans_total",
                "Spans of requests that the sink `otlp` of `export` has taken.",
            )
            .sample(&[("sink", &spans.name)], spans.sent());
        let mut family = families.counter(
            "lockgate_export_lost_spans_total",
            "Spans that the sink did not get: newer ones needed their room while it took none (queue_full), it refused them (refused), or it could not be reached for a minute or at a stop (unreachable).",
        );
        for (reason, lost) in spans.lost() {
            let labels = [("sink", &*spans.name), ("reason", reason)];
            family.sample(&labels, lost);
        }
    }
}
