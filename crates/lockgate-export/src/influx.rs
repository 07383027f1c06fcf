//! InfluxDB's line protocol: a line for each point, with the labels as tags.
//!
//! <https://docs.influxdata.com/influxdb/v1/write_protocols/line_protocol_reference/>. Measurements
//! and fields follow those that Telegraf's `inputs.prometheus` (`metric_version = 1`) makes of the
//! same metrics: `counter`, `gauge`, and for a histogram its bounds, `count` and `sum`.

use std::time::Duration;

use lockgate_metrics::{FamilyHead, FamilyKind, HistogramSnapshot, MetricSink, SampleValue};

use crate::encoder::{Figures, PointEncoder, bound_text, finite, put_number};
use crate::points::{EncodedPoints, FrameLimit, FrameWriter};

/// Bytes of a body: about 2,000 points, of which InfluxDB recommends at most 5,000.
const BODY: usize = 256 * 1024;

/// Encodes lines of InfluxDB.
#[derive(Debug, Clone)]
pub struct InfluxEncoder {
    limit: FrameLimit,
    host: String,
}

impl InfluxEncoder {
    /// Lines for bodies and streams. Each point has the tag `host`, the name of this machine:
    /// without it the series of several ones would be the same.
    pub fn for_bodies(host: &str) -> Self {
        Self {
            limit: FrameLimit::lines(BODY),
            host: host.to_owned(),
        }
    }

    /// The same in datagrams.
    pub fn for_datagrams(host: &str) -> Self {
        Self {
            limit: FrameLimit::DATAGRAM,
            host: host.to_owned(),
        }
    }
}

impl PointEncoder for InfluxEncoder {
    fn encode(&mut self, time: Duration, figures: Figures<'_>) -> EncodedPoints {
        let mut reading = InfluxReading {
            host: &self.host,
            time: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            name: "",
            kind: FamilyKind::Gauge,
            frames: FrameWriter::new(self.limit),
        };
        figures(&mut reading);
        reading.frames.finish()
    }
}

struct InfluxReading<'a> {
    host: &'a str,
    /// Nanoseconds since 1970.
    time: u64,
    name: &'static str,
    kind: FamilyKind,
    frames: FrameWriter,
}

impl InfluxReading<'_> {
    /// Adds a line with the fields that `put_fields` appends.
    fn line(&mut self, labels: &[(&str, &str)], put_fields: impl FnOnce(&mut Vec<u8>)) {
        let Self {
            host, time, name, ..
        } = *self;
        self.frames.add(1, |out| {
            // Names of metrics need no escapes.
            out.extend_from_slice(name.as_bytes());
            put_tag(out, "host", host);
            for (label, value) in labels {
                put_tag(out, label, value);
            }
            out.push(b' ');
            put_fields(out);
            out.push(b' ');
            put_number(out, time.into());
            out.push(b'\n');
        });
    }
}

/// Appends a tag. Empty ones are not allowed. Commas, spaces and equal signs are escaped; control
/// characters cannot be, and a backslash would escape what follows it.
fn put_tag(out: &mut Vec<u8>, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    out.push(b',');
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    for char in value.chars() {
        match char {
            ',' | ' ' | '=' => out.extend_from_slice(&[b'\\', char as u8]),
            '\\' => out.push(b'_'),
            char if char.is_control() => out.push(b'_'),
            char => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Appends a field; keys of ours need no escapes. Whole numbers are signed in InfluxDB 1, so larger
/// ones are its largest.
fn put_field(out: &mut Vec<u8>, key: &str, value: SampleValue) {
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    match value {
        SampleValue::Unsigned(n) => put_number(out, n.min(i64::MAX as u64).into()),
        value => put_number(out, value),
    }
    if !matches!(value, SampleValue::Float(_)) {
        out.push(b'i');
    }
}

impl MetricSink for InfluxReading<'_> {
    fn family(&mut self, family: FamilyHead<'_>) {
        (self.name, self.kind) = (family.name, family.kind);
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: SampleValue) {
        let Some(value) = finite(value) else { return };
        let key = self.kind.as_str();
        self.line(labels, |out| put_field(out, key, value));
    }

    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) {
        self.line(labels, |out| {
            for sample in histogram.samples() {
                match sample.le {
                    Some(bound) => put_field(out, &bound_text(bound), sample.value),
                    None => put_field(out, sample.suffix.trim_start_matches('_'), sample.value),
                }
                out.push(b',');
            }
            // The comma behind the last one.
            out.pop();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_figures::{figures, texts};

    const TIME: Duration = Duration::from_millis(1_764_352_800_250);

    /// "Line protocol syntax": `measurement,tag=value field=value timestamp`, nanoseconds by default.
    const LINES: &str = "\
lockgate_requests_total,host=web1,site=a.example,code=2xx counter=7i 1764352800250000000
lockgate_request_duration_seconds,host=web1 0.005=7i,+Inf=8i,sum=1.014,count=8i 1764352800250000000
lockgate_offset,host=web1 gauge=-3i 1764352800250000000
";

    #[test]
    fn influx_lines_have_tags_fields_and_nanoseconds() {
        let points = InfluxEncoder::for_bodies("web1").encode(TIME, &figures);
        assert_eq!(texts(&points), [LINES]);
        assert_eq!(points.points(), 3);
    }

    #[test]
    fn influx_lines_are_joined_in_datagrams() {
        let points = InfluxEncoder::for_datagrams("web1").encode(TIME, &figures);
        assert_eq!(texts(&points), [LINES.trim_end()]);
    }

    /// "Special characters": commas, equal signs and spaces of tags are escaped; line feeds are not
    /// supported; "Tag values cannot be empty".
    #[test]
    fn tag_values_of_influx_are_escaped() {
        for (value, tag) in [
            ("10.0.0.1:80", ",t=10.0.0.1:80"),
            ("a, b=c", r",t=a\,\ b\=c"),
            ("a\nb\\", ",t=a_b_"),
            ("ü\"", ",t=ü\""),
            ("", ""),
        ] {
            let mut out = Vec::new();
            put_tag(&mut out, "t", value);
            assert_eq!(String::from_utf8(out).unwrap(), tag, "{value:?}");
        }
    }

    /// "Data types": integers are signed and of 64 bits, with a trailing `i`; floats have none.
    #[test]
    fn integers_of_influx_are_bounded_and_marked() {
        for (value, field) in [
            (7_u64.into(), "f=7i"),
            (u64::MAX.into(), "f=9223372036854775807i"),
            (i64::MIN.into(), "f=-9223372036854775808i"),
            (1.5.into(), "f=1.5"),
            (3.0.into(), "f=3"),
        ] {
            let mut out = Vec::new();
            put_field(&mut out, "f", value);
            assert_eq!(String::from_utf8(out).unwrap(), field);
        }
    }
}
