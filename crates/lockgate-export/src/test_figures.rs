//! Figures for the tests of encoders: a family of each kind.

use std::time::Duration;

use lockgate_metrics::{Bounds, Histogram, MetricFamilies, MetricSink};

const BOUNDS: Bounds = Bounds::new(&[Duration::from_millis(5)]);

/// The figures of [`figures_of`] with 7 requests.
pub(crate) fn figures(sink: &mut dyn MetricSink) {
    figures_of(7, sink);
}

/// So many requests of a site and a second in which all took their time; a gauge below zero, and
/// one that is no number.
pub(crate) fn figures_of(requests: u64, sink: &mut dyn MetricSink) {
    let histogram = Histogram::new(BOUNDS);
    histogram.record_many(Duration::from_millis(2), requests);
    histogram.record(Duration::from_secs(1));
    let mut families = MetricFamilies::new(sink);
    families
        .counter("lockgate_requests_total", "Requests.")
        .sample(&[("site", "a.example"), ("code", "2xx")], requests);
    families
        .histogram("lockgate_request_duration_seconds", "Durations.")
        .sample(&[("site", "")], &histogram.snapshot());
    families
        .gauge("lockgate_offset", "Below zero.")
        .sample(&[], -3_i64)
        .sample(&[("is", "no number")], f64::NAN);
}

/// The bytes of all frames, each as text.
pub(crate) fn texts(points: &crate::EncodedPoints) -> Vec<String> {
    let frames = points.frames();
    frames
        .map(|frame| String::from_utf8_lossy(frame.bytes).into_owned())
        .collect()
}
