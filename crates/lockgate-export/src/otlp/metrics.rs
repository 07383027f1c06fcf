//! Metrics (`metrics/v1/metrics.proto`): a reading as one `ExportMetricsServiceRequest` or several.
//!
//! Counters and histograms are cumulative since the start of the process, which is what sinks
//! need to see that they have begun anew. Names are those of `/metrics`.

use std::time::Duration;

use lockgate_metrics::{FamilyHead, FamilyKind, HistogramSnapshot, MetricSink, SampleValue};

use super::REQUEST;
use super::protobuf::{put_bytes, put_fixed64, put_integer, put_message};
use super::resource::{OtlpResource, put_text_attribute};
use crate::encoder::{Figures, PointEncoder, finite};
use crate::points::{EncodedPoints, FrameLimit, FrameWriter};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// Bytes of data points at which a metric is ended; the rest is another one of the same name.
const METRIC: usize = 32 * 1024;

/// Encodes for sinks of OTLP. A frame is the body of a POST to `/v1/metrics`.
#[derive(Debug, Clone)]
pub struct OtlpMetricsEncoder {
    resource: OtlpResource,
    /// The start of the process, in nanoseconds since 1970.
    start: u64,
}

impl OtlpMetricsEncoder {
    /// Metrics of `resource`, the process that was started at `start`, a time since 1970.
    pub fn new(resource: OtlpResource, start: Duration) -> Self {
        Self {
            resource,
            start: nanos(start),
        }
    }
}

impl PointEncoder for OtlpMetricsEncoder {
    fn encode(&mut self, time: Duration, figures: Figures<'_>) -> EncodedPoints {
        let mut reading = MetricsReading {
            start: self.start,
            time: nanos(time),
            name: "",
            kind: FamilyKind::Gauge,
            help: String::new(),
            points: Vec::new(),
            count: 0,
            frames: FrameWriter::new(FrameLimit::lines(REQUEST)),
        };
        figures(&mut reading);
        reading.end_metric();
        let metrics = reading.frames.finish();
        metrics.rewritten(|out, metrics| self.resource.put_request(out, [metrics]))
    }
}

struct MetricsReading {
    start: u64,
    time: u64,
    /// Of the family that was begun last.
    name: &'static str,
    kind: FamilyKind,
    help: String,
    /// Its data points, each as field 1 of its `Gauge`, `Sum` or `Histogram`, and their number.
    points: Vec<u8>,
    count: u64,
    frames: FrameWriter,
}

impl MetricsReading {
    /// Adds a data point; `write` appends its fields.
    fn point(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        put_message(&mut self.points, 1, write);
        self.count += 1;
        if self.points.len() >= METRIC {
            self.end_metric();
        }
    }

    /// Ends the metric that is being written, if it has data points.
    fn end_metric(&mut self) {
        let (points, kind) = (std::mem::take(&mut self.points), self.kind);
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return;
        }
        let (name, help) = (self.name, &self.help);
        self.frames.add(count, |out| {
            // ScopeMetrics.metrics: 2. Metric.name: 1, .description: 2, .unit: 3.
            put_message(out, 2, |out| {
                put_bytes(out, 1, name.as_bytes());
                put_bytes(out, 2, help.as_bytes());
                put_bytes(out, 3, unit(name).as_bytes());
                // Metric.gauge: 5, .sum: 7, .histogram: 9. aggregation_temporality: 2 of both;
                // Sum.is_monotonic: 3.
                let data = match kind {
                    FamilyKind::Gauge => 5,
                    FamilyKind::Counter => 7,
                    FamilyKind::Histogram => 9,
                };
                put_message(out, data, |out| {
                    out.extend_from_slice(&points);
                    if kind != FamilyKind::Gauge {
                        put_integer(out, 2, CUMULATIVE);
                    }
                    if kind == FamilyKind::Counter {
                        put_integer(out, 3, 1);
                    }
                });
            });
        });
    }
}

impl MetricSink for MetricsReading {
    fn family(&mut self, family: FamilyHead<'_>) {
        self.end_metric();
        (self.name, self.kind) = (family.name, family.kind);
        self.help.clear();
        self.help.push_str(family.help);
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: SampleValue) {
        let Some(value) = finite(value) else { return };
        let (start, time, kind) = (self.start, self.time, self.kind);
        // NumberDataPoint.start_time_unix_nano: 2, .time_unix_nano: 3, .as_double: 4, .as_int: 6,
        // .attributes: 7.
        self.point(|out| {
            if kind == FamilyKind::Counter {
                put_fixed64(out, 2, start);
            }
            put_fixed64(out, 3, time);
            match value {
                SampleValue::Float(number) => put_fixed64(out, 4, number.to_bits()),
                SampleValue::Signed(number) => put_fixed64(out, 6, number.cast_unsigned()),
                SampleValue::Unsigned(number) => {
                    // It is read as a signed number.
                    put_fixed64(out, 6, number.min(i64::MAX.cast_unsigned()));
                }
            }
            put_labels(out, 7, labels);
        });
    }

    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) {
        let (start, time) = (self.start, self.time);
        let count = histogram.count();
        // HistogramDataPoint.start_time_unix_nano: 2, .time_unix_nano: 3, .count: 4, .sum: 5,
        // .bucket_counts: 6, .explicit_bounds: 7, .attributes: 9. Both lists are packed.
        self.point(|out| {
            put_fixed64(out, 2, start);
            put_fixed64(out, 3, time);
            put_fixed64(out, 4, count);
            put_fixed64(out, 5, histogram.sum().to_bits());
            put_message(out, 6, |out| {
                let mut before = 0;
                let buckets = histogram.cumulative().map(|(_, so_far)| so_far);
                for so_far in buckets.chain([count]) {
                    let within = so_far.wrapping_sub(before);
                    out.extend_from_slice(&within.to_le_bytes());
                    before = so_far;
                }
            });
            put_message(out, 7, |out| {
                for (bound, _) in histogram.cumulative() {
                    out.extend_from_slice(&bound.to_le_bytes());
                }
            });
            put_labels(out, 9, labels);
        });
    }
}

/// Appends labels as attributes. An empty one is none, as Prometheus has it.
fn put_labels(out: &mut Vec<u8>, field: u64, labels: &[(&str, &str)]) {
    for (label, value) in labels {
        if !value.is_empty() {
            put_text_attribute(out, field, label, value);
        }
    }
}

/// The unit of a metric in the words of UCUM, by the end of its name; empty where it counts things.
/// Receivers that make names for Prometheus of names and units find that this one ends so already.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit_once('_') {
        Some((_, "seconds")) => "s",
        Some((_, "bytes")) => "By",
        Some((_, "ratio")) => "1",
        _ => "",
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use lockgate_metrics::MetricFamilies;
    use lockgate_testkit::protobuf::ProtoMessage;

    use super::*;
    use crate::test_figures::figures;

    const START: u64 = 1_764_000_000_000_000_000;
    const TIME: u64 = 1_764_352_800_250_000_000;

    fn encoder() -> OtlpMetricsEncoder {
        let resource = OtlpResource {
            service: "edge".to_owned(),
            instance: "web1:7".to_owned(),
            version: "1.2.3".to_owned(),
            host: "web1".to_owned(),
        };
        OtlpMetricsEncoder::new(resource, Duration::from_nanos(START))
    }

    fn encoded(figures: Figures<'_>) -> EncodedPoints {
        encoder().encode(Duration::from_nanos(TIME), figures)
    }

    /// The attributes of a message in this field, as `key=value`.
    fn attributes(message: &ProtoMessage, field: u64) -> Vec<String> {
        let pair = |pair: ProtoMessage| format!("{}={}", pair.text(1), pair.message(2).text(1));
        message.messages(field).map(pair).collect()
    }

    /// The metrics of a request.
    fn metrics(request: &[u8]) -> Vec<ProtoMessage> {
        let scope = ProtoMessage::parse(request).message(1).message(2);
        scope.messages(2).collect()
    }

    /// collector/metrics/v1/metrics_service.proto, metrics.proto, resource.proto, common.proto.
    #[test]
    fn a_request_has_resource_and_scope_above_its_metrics() {
        let points = encoded(&figures);
        let frames: Vec<_> = points.frames().collect();
        assert_eq!(frames.len(), 1);
        assert_eq!((frames[0].points, points.too_long()), (3, 0));
        // ExportMetricsServiceRequest.resource_metrics: 1, ResourceMetrics.resource: 1,
        // Resource.attributes: 1.
        let of_resource = ProtoMessage::parse(frames[0].bytes).message(1);
        assert_eq!(
            attributes(&of_resource.message(1), 1),
            [
                "service.name=edge",
                "service.instance.id=web1:7",
                "service.version=1.2.3",
                "host.name=web1"
            ]
        );
        // ResourceMetrics.scope_metrics: 2, ScopeMetrics.scope: 1, InstrumentationScope.name: 1,
        // .version: 2.
        let scope = of_resource.message(2).message(1);
        assert_eq!((scope.text(1), scope.text(2)), ("lockgate", "1.2.3"));
    }

    /// Sum: NumberDataPoint as `as_int` (6), cumulative (2), monotonic (3), with its start (2).
    #[test]
    fn a_counter_is_a_cumulative_monotonic_sum() {
        let points = encoded(&figures);
        let metrics = metrics(points.frames().next().unwrap().bytes);
        let metric = &metrics[0];
        assert_eq!(metric.text(1), "lockgate_requests_total");
        assert_eq!((metric.text(2), metric.text(3)), ("Requests.", ""));
        let sum = metric.message(7);
        assert_eq!((sum.number(2), sum.number(3)), (Some(2), Some(1)));
        let point = sum.message(1);
        assert_eq!(
            (point.number(2), point.number(3)),
            (Some(START), Some(TIME))
        );
        assert_eq!((point.number(4), point.number(6)), (None, Some(7)));
        assert_eq!(attributes(&point, 7), ["site=a.example", "code=2xx"]);
    }

    /// HistogramDataPoint: count (4), sum (5), bucket_counts (6), explicit_bounds (7).
    #[test]
    fn a_histogram_has_the_counts_between_its_bounds() {
        let points = encoded(&figures);
        let metrics = metrics(points.frames().next().unwrap().bytes);
        let metric = &metrics[1];
        assert_eq!(metric.text(1), "lockgate_request_duration_seconds");
        assert_eq!(metric.text(3), "s");
        let histogram = metric.message(9);
        assert_eq!((histogram.number(2), histogram.number(3)), (Some(2), None));
        let point = histogram.message(1);
        assert_eq!(
            (point.number(2), point.number(3)),
            (Some(START), Some(TIME))
        );
        assert_eq!(point.number(4), Some(8));
        assert_eq!(point.number(5).map(f64::from_bits), Some(1.014));
        assert_eq!(point.packed64(6), [7, 1]);
        assert_eq!(point.packed64(7), [0.005_f64.to_bits()]);
        // The label without a value is none.
        assert_eq!(attributes(&point, 9), [""; 0]);
    }

    /// Gauge: NumberDataPoint without a start; what is no number has no point.
    #[test]
    fn a_gauge_below_zero_is_a_signed_number() {
        let points = encoded(&figures);
        let metrics = metrics(points.frames().next().unwrap().bytes);
        let metric = &metrics[2];
        assert_eq!(metric.text(1), "lockgate_offset");
        let gauge = metric.message(5);
        assert_eq!((gauge.messages(1).count(), gauge.number(2)), (1, None));
        let point = gauge.message(1);
        assert_eq!((point.number(2), point.number(3)), (None, Some(TIME)));
        assert_eq!(point.number(6).map(u64::cast_signed), Some(-3));
    }

    #[test]
    fn numbers_that_are_too_large_or_no_integers_are_told_as_they_can_be() {
        let points = encoded(&|sink| {
            let mut families = MetricFamilies::new(sink);
            let mut family = families.gauge("lockgate_load_ratio", "A share.");
            family
                .sample(&[], 0.25)
                .sample(&[("is", "large")], u64::MAX);
        });
        let metrics = metrics(points.frames().next().unwrap().bytes);
        assert_eq!(metrics[0].text(3), "1");
        let points: Vec<_> = metrics[0].message(5).messages(1).collect();
        assert_eq!(points[0].number(4).map(f64::from_bits), Some(0.25));
        assert_eq!(points[1].number(6), Some(i64::MAX as u64));
    }

    #[test]
    fn the_unit_is_the_end_of_the_name() {
        for (name, expected) in [
            ("lockgate_request_duration_seconds", "s"),
            ("lockgate_site_received_bytes_total", "By"),
            ("lockgate_requests_total", ""),
            ("lockgate_memory_used_ratio", "1"),
            ("lockgate_connections", ""),
            ("seconds", ""),
        ] {
            assert_eq!(unit(name), expected, "{name}");
        }
    }

    #[test]
    fn a_large_family_is_divided_and_requests_are_bounded() {
        let points = encoded(&|sink| {
            let mut families = MetricFamilies::new(sink);
            let mut family = families.counter("lockgate_requests_total", "Requests.");
            for site in 0..20_000_u64 {
                family.sample(&[("site", &format!("{site:0>50}"))], site);
            }
        });
        let frames: Vec<_> = points.frames().collect();
        assert!(frames.len() > 1);
        let mut sites = Vec::new();
        for frame in &frames {
            assert!(frame.bytes.len() <= REQUEST + 256, "{}", frame.bytes.len());
            let before = sites.len();
            for metric in metrics(frame.bytes) {
                assert_eq!(metric.text(1), "lockgate_requests_total");
                let points = metric.message(7).messages(1);
                sites.extend(points.filter_map(|point| point.number(6)));
            }
            assert_eq!(frame.points as usize, sites.len() - before);
        }
        assert_eq!(sites, (0..20_000).collect::<Vec<_>>());
    }
}
