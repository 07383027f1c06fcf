//! statsd: datagrams of counts since the last reading and of gauges, with or without tags.
//!
//! <https://github.com/statsd/statsd/blob/master/docs/metric_types.md>; tags as DogStatsD has them,
//! <https://docs.datadoghq.com/developers/dogstatsd/datagram_shell>, or as Telegraf's input of statsd.
//!
//! Of a histogram its count and its sum are sent, both as counts since the last reading. These add up
//! over machines and over time, and their quotient is the mean. Quantiles of a reading would not: no
//! mean of them is a quantile.
//!
//! Telegraf's counts are whole numbers: of `0.25|c` it takes 0. So what is counted in seconds is for it
//! a gauge, the total since the start.

use std::collections::HashMap;
use std::time::Duration;

use lockgate_metrics::{FamilyHead, FamilyKind, HistogramSnapshot, MetricSink, SampleValue};
use lockgate_rules::StatsdTags;

use crate::encoder::{Figures, PointEncoder, finite, put_number};
use crate::path::{put_label_parts, put_name, put_replaced};
use crate::points::{EncodedPoints, FrameLimit, FrameWriter};

/// Encodes for statsd and its relatives.
#[derive(Debug, Clone)]
pub struct StatsdEncoder {
    style: SeriesStyle,
    counted: CountedSeries,
}

#[derive(Debug, Clone)]
struct SeriesStyle {
    tags: StatsdTags,
    prefix: String,
}

/// Series that are gone of which it is remembered what was told.
const GONE: usize = 4_096;

/// What was told of each counter.
#[derive(Debug, Clone, Default)]
struct CountedSeries {
    told: HashMap<Box<[u8]>, ToldCount>,
    /// The number of the reading.
    reading: u64,
}

#[derive(Debug, Clone, Copy)]
struct ToldCount {
    value: SampleValue,
    /// The last reading that had it.
    reading: u64,
}

impl StatsdEncoder {
    /// Where labels go, and what stands before each name.
    pub fn new(tags: StatsdTags, prefix: &str) -> Self {
        Self {
            style: SeriesStyle {
                tags,
                prefix: prefix.to_owned(),
            },
            counted: CountedSeries::default(),
        }
    }

    fn read(&mut self, figures: Figures<'_>) -> EncodedPoints {
        self.counted.reading += 1;
        let mut reading = StatsdReading {
            encoder: self,
            name: "",
            kind: FamilyKind::Gauge,
            frames: FrameWriter::new(FrameLimit::DATAGRAM),
        };
        figures(&mut reading);
        let points = reading.frames.finish();
        self.counted.forget_gone();
        points
    }
}

impl PointEncoder for StatsdEncoder {
    /// The time is that of the arrival.
    fn encode(&mut self, _time: Duration, figures: Figures<'_>) -> EncodedPoints {
        self.read(figures)
    }

    fn skip_counted(&mut self, figures: Figures<'_>) {
        self.read(figures);
    }
}

impl CountedSeries {
    /// Forgets the series that the last reading did not have, once they are many. A few are
    /// remembered: the counts of an endpoint go on when its SRV record comes back, and would be told
    /// a second time. Those of a site that comes back begin anew.
    fn forget_gone(&mut self) {
        let now = self.reading;
        let gone = self.told.values().filter(|told| told.reading != now);
        if gone.count() > GONE {
            self.told.retain(|_, told| told.reading == now);
        }
    }

    /// What was added to a counter since it was last told. One that has become less began anew.
    fn since_told(&mut self, series: &[u8], value: SampleValue) -> SampleValue {
        let now = ToldCount {
            value,
            reading: self.reading,
        };
        let Some(told) = self.told.get_mut(series) else {
            self.told.insert(series.into(), now);
            return value;
        };
        let before = std::mem::replace(told, now).value;
        match (value, before) {
            (SampleValue::Unsigned(now), SampleValue::Unsigned(before)) => {
                now.checked_sub(before).unwrap_or(now).into()
            }
            (SampleValue::Float(now), SampleValue::Float(before)) if now >= before => {
                (now - before).into()
            }
            (value, _) => value,
        }
    }
}

impl SeriesStyle {
    /// Appends what stands before the value.
    fn put_name(&self, out: &mut Vec<u8>, name: &str, suffix: &str, labels: &[(&str, &str)]) {
        put_name(out, &self.prefix, name, suffix);
        match self.tags {
            StatsdTags::None => put_label_parts(out, labels, None),
            StatsdTags::DogStatsd => {}
            StatsdTags::Influx => {
                for (label, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
                    out.push(b',');
                    out.extend_from_slice(label.as_bytes());
                    out.push(b'=');
                    put_replaced(out, value, is_of_influx_tag);
                }
            }
        }
    }

    /// Appends what stands behind the type.
    fn put_tags(&self, out: &mut Vec<u8>, labels: &[(&str, &str)]) {
        if self.tags != StatsdTags::DogStatsd {
            return;
        }
        // "A tag cannot end with a colon."
        let written = labels.iter().filter(|(_, value)| !value.is_empty());
        for (index, (label, value)) in written.enumerate() {
            out.extend_from_slice(if index == 0 { b"|#" } else { b"," });
            out.extend_from_slice(label.as_bytes());
            out.push(b':');
            put_replaced(out, value, is_of_dogstatsd_tag);
            if let Some(last @ b':') = out.last_mut() {
                *last = b'_';
            }
        }
    }
}

/// Commas part tags, bars the fields of a line.
fn is_of_dogstatsd_tag(char: char) -> bool {
    char.is_ascii_graphic() && !matches!(char, ',' | '|' | '#')
}

/// The colon ends the name with its tags.
fn is_of_influx_tag(char: char) -> bool {
    is_of_dogstatsd_tag(char) && !matches!(char, ':' | '=' | '@' | '\\')
}

struct StatsdReading<'a> {
    encoder: &'a mut StatsdEncoder,
    name: &'static str,
    kind: FamilyKind,
    frames: FrameWriter,
}

impl StatsdReading<'_> {
    /// Sends what was added to a counter, if anything was.
    fn count(&mut self, suffix: &str, labels: &[(&str, &str)], value: SampleValue) {
        let is_telegraf = self.encoder.style.tags == StatsdTags::Influx;
        if is_telegraf && matches!(value, SampleValue::Float(_)) {
            return self.gauge(suffix, labels, value);
        }
        let StatsdEncoder { style, counted } = &mut *self.encoder;
        let mut series = Vec::new();
        style.put_name(&mut series, self.name, suffix, labels);
        let named = series.len();
        style.put_tags(&mut series, labels);
        let added = counted.since_told(&series, value);
        if matches!(added, SampleValue::Unsigned(0) | SampleValue::Float(0.0)) {
            return;
        }
        let (name, tags) = series.split_at(named);
        self.frames
            .add(1, |out| put_line(out, (name, tags), added, b"|c"));
    }

    fn gauge(&mut self, suffix: &str, labels: &[(&str, &str)], value: SampleValue) {
        let style = &self.encoder.style;
        let (mut name, mut tags) = (Vec::new(), Vec::new());
        style.put_name(&mut name, self.name, suffix, labels);
        style.put_tags(&mut tags, labels);
        let is_negative = match value {
            SampleValue::Unsigned(_) => false,
            SampleValue::Signed(n) => n < 0,
            SampleValue::Float(n) => n < 0.0,
        };
        self.frames.add(1, |out| {
            if is_negative {
                // "You can't explicitly set a gauge to a negative number without first setting it
                // to zero": a sign changes it by so much.
                put_line(out, (&name, &tags), 0_u64.into(), b"|g");
            }
            put_line(out, (&name, &tags), value, b"|g");
        });
    }
}

fn put_line(out: &mut Vec<u8>, series: (&[u8], &[u8]), value: SampleValue, kind: &[u8]) {
    let (name, tags) = series;
    out.extend_from_slice(name);
    out.push(b':');
    put_number(out, value);
    out.extend_from_slice(kind);
    out.extend_from_slice(tags);
    out.push(b'\n');
}

impl MetricSink for StatsdReading<'_> {
    fn family(&mut self, family: FamilyHead<'_>) {
        (self.name, self.kind) = (family.name, family.kind);
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: SampleValue) {
        let Some(value) = finite(value) else { return };
        match self.kind {
            FamilyKind::Counter => self.count("", labels, value),
            FamilyKind::Gauge | FamilyKind::Histogram => self.gauge("", labels, value),
        }
    }

    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) {
        self.count("_count", labels, histogram.count().into());
        self.count("_sum", labels, histogram.sum().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::DATAGRAM;
    use crate::test_figures::{figures, figures_of, texts};
    use lockgate_metrics::MetricFamilies;

    const NOW: Duration = Duration::from_secs(1_764_352_800);

    fn encoder(tags: StatsdTags) -> StatsdEncoder {
        StatsdEncoder::new(tags, "lockgate")
    }

    /// docs/metric_types.md: counting is `name:1|c`, a gauge `name:333|g`; a gauge below zero comes
    /// after a zero.
    #[test]
    fn statsd_gets_counts_and_gauges_with_labels_in_their_names() {
        let points = encoder(StatsdTags::None).encode(NOW, &figures);
        let expected = "\
lockgate.requests_total.site.a_example.code.2xx:7|c
lockgate.request_duration_seconds_count.site._:8|c
lockgate.request_duration_seconds_sum.site._:1.014|c
lockgate.offset:0|g
lockgate.offset:-3|g";
        assert_eq!(texts(&points), [expected]);
        assert_eq!(points.points(), 4);
    }

    /// Datagram format: `name:value|type|#tag:value,tag`.
    #[test]
    fn dogstatsd_has_tags_behind_the_type() {
        let points = encoder(StatsdTags::DogStatsd).encode(NOW, &figures);
        let expected = "\
lockgate.requests_total:7|c|#site:a.example,code:2xx
lockgate.request_duration_seconds_count:8|c
lockgate.request_duration_seconds_sum:1.014|c
lockgate.offset:0|g
lockgate.offset:-3|g";
        assert_eq!(texts(&points), [expected]);
    }

    /// "A tag cannot end with a colon."
    #[test]
    fn dogstatsd_tags_do_not_end_with_a_colon() {
        let encoder = encoder(StatsdTags::DogStatsd);
        for (value, tags) in [
            ("", ""),
            (":", "|#t:_"),
            ("a::", "|#t:a:_"),
            ("a:b", "|#t:a:b"),
        ] {
            let mut out = Vec::new();
            encoder.style.put_tags(&mut out, &[("t", value)]);
            assert_eq!(String::from_utf8(out).unwrap(), tags, "{value:?}");
        }
    }

    /// Telegraf, inputs.statsd, "Influx Statsd": `name,tag=value:1|c`. Its counts are of 64 bits
    /// without a fraction, its gauges are floating-point numbers.
    #[test]
    fn influx_statsd_has_tags_behind_the_name_and_sums_as_gauges() {
        let points = encoder(StatsdTags::Influx).encode(NOW, &figures);
        let expected = "\
lockgate.requests_total,site=a.example,code=2xx:7|c
lockgate.request_duration_seconds_count:8|c
lockgate.request_duration_seconds_sum:1.014|g
lockgate.offset:0|g
lockgate.offset:-3|g";
        assert_eq!(texts(&points), [expected]);
    }

    /// The second reading has what was added to counts, and the whole sum.
    #[test]
    fn influx_statsd_has_the_total_of_a_sum_in_each_reading() {
        let mut encoder = encoder(StatsdTags::Influx);
        for (requests, count, sum) in [(7, "8|c", "1.014|g"), (9, "2|c", "1.018|g")] {
            let figures = move |sink: &mut dyn MetricSink| figures_of(requests, sink);
            let text = texts(&encoder.encode(NOW, &figures)).concat();
            let of = |name: &str| {
                let line = text.lines().find(|line| line.contains(name));
                line.and_then(|line| line.rsplit(':').next())
                    .map(str::to_owned)
            };
            assert_eq!(of("seconds_count"), Some(count.to_owned()));
            assert_eq!(of("seconds_sum"), Some(sum.to_owned()));
        }
    }

    #[test]
    fn statsd_tag_values_have_none_of_the_marks_of_a_line() {
        for (value, dogstatsd, influx) in [
            ("10.0.0.1:80", "10.0.0.1:80", "10.0.0.1_80"),
            ("a,b|c#d e\n", "a_b_c_d_e_", "a_b_c_d_e_"),
            ("k=v@x\\ü", "k=v@x\\_", "k_v_x__"),
        ] {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            put_replaced(&mut one, value, is_of_dogstatsd_tag);
            put_replaced(&mut other, value, is_of_influx_tag);
            assert_eq!(String::from_utf8(one).unwrap(), dogstatsd);
            assert_eq!(String::from_utf8(other).unwrap(), influx);
        }
    }

    /// The counts of the requests in a reading.
    fn requests(encoder: &mut StatsdEncoder, requests: u64) -> Vec<String> {
        let points = encoder.encode(NOW, &|sink: &mut dyn MetricSink| figures_of(requests, sink));
        let lines = texts(&points).join("\n");
        let lines = lines.lines().filter_map(|line| line.split_once(":"));
        lines
            .filter(|(name, _)| name.contains("requests_total"))
            .map(|(_, value)| value.to_owned())
            .collect()
    }

    #[test]
    fn counters_are_sent_as_differences() {
        let mut encoder = encoder(StatsdTags::None);
        assert_eq!(requests(&mut encoder, 7), ["7|c"]);
        assert_eq!(requests(&mut encoder, 10), ["3|c"]);
        // Nothing was added.
        assert_eq!(requests(&mut encoder, 10), [""; 0]);
        // It began anew.
        assert_eq!(requests(&mut encoder, 4), ["4|c"]);
    }

    #[test]
    fn what_was_counted_before_a_sink_came_is_not_sent() {
        let mut encoder = encoder(StatsdTags::None);
        encoder.skip_counted(&figures);
        assert_eq!(requests(&mut encoder, 9), ["2|c"]);
    }

    #[test]
    fn what_was_told_of_a_series_that_was_gone_is_not_told_again() {
        let mut encoder = encoder(StatsdTags::None);
        for (now, told) in [(7, "7|c"), (9, "2|c"), (4, "4|c")] {
            assert_eq!(requests(&mut encoder, now), [told]);
            encoder.encode(NOW, &|_: &mut dyn MetricSink| {});
        }
    }

    #[test]
    fn series_that_are_gone_are_remembered_up_to_a_number() {
        let mut encoder = encoder(StatsdTags::None);
        let some = |from: usize, to: usize| {
            move |sink: &mut dyn MetricSink| {
                let mut families = MetricFamilies::new(sink);
                let mut family = families.counter("lockgate_some_total", "Some.");
                for n in from..to {
                    family.sample(&[("n", &n.to_string())], 1_u64);
                }
            }
        };
        encoder.encode(NOW, &some(0, GONE));
        encoder.encode(NOW, &some(GONE, GONE + 1));
        assert_eq!(encoder.counted.told.len(), GONE + 1);
        encoder.encode(NOW, &some(GONE + 1, GONE + 2));
        assert_eq!(encoder.counted.told.len(), 1);
    }

    #[test]
    fn datagrams_are_full_but_no_longer_than_allowed() {
        let many = |sink: &mut dyn MetricSink| {
            let mut families = MetricFamilies::new(sink);
            let mut family = families.gauge("lockgate_many", "Many.");
            for n in 0..1_000_u64 {
                family.sample(&[("n", &n.to_string())], n);
            }
        };
        let points = encoder(StatsdTags::None).encode(NOW, &many);
        assert_eq!(points.points(), 1_000);
        let lengths: Vec<_> = points.frames().map(|frame| frame.bytes.len()).collect();
        assert!(lengths.iter().all(|length| *length <= DATAGRAM));
        let (_, full) = lengths.split_last().unwrap();
        assert!(full.len() > 10 && full.iter().all(|length| *length > DATAGRAM - 40));
    }
}
