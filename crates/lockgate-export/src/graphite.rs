//! Graphite: lines or pickled lists of a path, a value and a time.
//!
//! <https://graphite.readthedocs.io/en/latest/feeding-carbon.html>, and for tags
//! <https://graphite.readthedocs.io/en/latest/tags.html>.

use std::time::Duration;

use lockgate_metrics::{FamilyHead, HistogramSnapshot, MetricSink, SampleValue};
use lockgate_rules::{GraphiteNaming, GraphiteProtocol};

use crate::encoder::{Figures, PointEncoder, bound_text, finite, put_number};
use crate::path::{put_label_parts, put_name, put_replaced};
use crate::pickle;
use crate::points::{EncodedPoints, FrameLimit, FrameWriter};

/// Bytes of lines that are written at once.
const LINES: usize = 64 * 1024;

/// Encodes for carbon.
#[derive(Debug, Clone)]
pub struct GraphiteEncoder {
    protocol: GraphiteProtocol,
    naming: GraphiteNaming,
    prefix: String,
    host: String,
}

impl GraphiteEncoder {
    /// The protocol, and how series are named; `prefix` stands before each name. Tags begin with
    /// `host`, the name of this machine: without it the series of several ones would be the same.
    pub fn new(
        protocol: GraphiteProtocol,
        naming: GraphiteNaming,
        prefix: &str,
        host: &str,
    ) -> Self {
        Self {
            protocol,
            naming,
            prefix: prefix.to_owned(),
            host: host.to_owned(),
        }
    }
}

impl PointEncoder for GraphiteEncoder {
    fn encode(&mut self, time: Duration, figures: Figures<'_>) -> EncodedPoints {
        let limit = match self.protocol {
            GraphiteProtocol::Plaintext => FrameLimit::lines(LINES),
            GraphiteProtocol::Pickle => pickle::LIMIT,
        };
        let mut reading = GraphiteReading {
            encoder: self,
            time: time.as_secs(),
            name: "",
            frames: FrameWriter::new(limit),
        };
        figures(&mut reading);
        let points = reading.frames.finish();
        match self.protocol {
            GraphiteProtocol::Plaintext => points,
            GraphiteProtocol::Pickle => points.rewritten(pickle::put_message),
        }
    }
}

struct GraphiteReading<'a> {
    encoder: &'a GraphiteEncoder,
    /// Seconds since 1970.
    time: u64,
    /// The name of the family that was begun last.
    name: &'static str,
    frames: FrameWriter,
}

impl GraphiteReading<'_> {
    fn point(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        le: Option<f64>,
        value: SampleValue,
    ) {
        let Some(value) = finite(value) else { return };
        let (encoder, name, time) = (self.encoder, self.name, self.time);
        self.frames.add(1, |out| match encoder.protocol {
            GraphiteProtocol::Plaintext => {
                encoder.put_series(out, name, suffix, labels, le);
                out.push(b' ');
                put_number(out, value);
                out.push(b' ');
                put_number(out, time.into());
                out.push(b'\n');
            }
            GraphiteProtocol::Pickle => {
                let mut series = Vec::new();
                encoder.put_series(&mut series, name, suffix, labels, le);
                pickle::put_point(out, &series, time, value);
            }
        });
    }
}

impl GraphiteEncoder {
    fn put_series(
        &self,
        out: &mut Vec<u8>,
        name: &str,
        suffix: &str,
        labels: &[(&str, &str)],
        le: Option<f64>,
    ) {
        put_name(out, &self.prefix, name, suffix);
        match self.naming {
            GraphiteNaming::Path => put_label_parts(out, labels, le),
            GraphiteNaming::Tags => {
                put_tag(out, "host", &self.host);
                for (label, value) in labels {
                    put_tag(out, label, value);
                }
                if let Some(bound) = le {
                    put_tag(out, "le", &bound_text(bound));
                }
            }
        }
    }
}

/// Appends a tag. A value has at least one character, no `;`, and no `~` at its beginning; a line
/// has spaces between its fields.
fn put_tag(out: &mut Vec<u8>, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    out.push(b';');
    if name == "name" {
        // Graphite keeps the name of the series as a tag of this name.
        out.extend_from_slice(b"exported_");
    }
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    let rest = value.strip_prefix('~');
    if rest.is_some() {
        out.push(b'_');
    }
    put_replaced(out, rest.unwrap_or(value), |char| {
        char.is_ascii_graphic() && char != ';'
    });
}

impl MetricSink for GraphiteReading<'_> {
    fn family(&mut self, family: FamilyHead<'_>) {
        self.name = family.name;
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: SampleValue) {
        self.point("", labels, None, value);
    }

    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &HistogramSnapshot) {
        for sample in histogram.samples() {
            self.point(sample.suffix, labels, sample.le, sample.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_figures::{figures, texts};

    const TIME: Duration = Duration::from_millis(1_764_352_800_250);

    fn encoder(protocol: GraphiteProtocol, naming: GraphiteNaming) -> GraphiteEncoder {
        GraphiteEncoder::new(protocol, naming, "lockgate", "web1")
    }

    /// "The plaintext protocol": `<metric path> <metric value> <metric timestamp>`.
    #[test]
    fn plaintext_is_a_line_of_path_value_and_timestamp_for_each_point() {
        let mut encoder = encoder(GraphiteProtocol::Plaintext, GraphiteNaming::Path);
        let points = encoder.encode(TIME, &figures);
        let expected = "\
lockgate.requests_total.site.a_example.code.2xx 7 1764352800
lockgate.request_duration_seconds_bucket.site._.le.0_005 7 1764352800
lockgate.request_duration_seconds_bucket.site._.le._Inf 8 1764352800
lockgate.request_duration_seconds_sum.site._ 1.014 1764352800
lockgate.request_duration_seconds_count.site._ 8 1764352800
lockgate.offset -3 1764352800
";
        assert_eq!(texts(&points), [expected]);
        assert_eq!((points.points(), points.too_long()), (6, 0));
    }

    /// "Carbon": `my.series;tag1=value1;tag2=value2 <value> <timestamp>`; values have at least one
    /// character.
    #[test]
    fn tags_of_graphite_stand_behind_the_name() {
        let mut encoder = encoder(GraphiteProtocol::Plaintext, GraphiteNaming::Tags);
        let points = encoder.encode(TIME, &figures);
        let expected = "\
lockgate.requests_total;host=web1;site=a.example;code=2xx 7 1764352800
lockgate.request_duration_seconds_bucket;host=web1;le=0.005 7 1764352800
lockgate.request_duration_seconds_bucket;host=web1;le=+Inf 8 1764352800
lockgate.request_duration_seconds_sum;host=web1 1.014 1764352800
lockgate.request_duration_seconds_count;host=web1 8 1764352800
lockgate.offset;host=web1 -3 1764352800
";
        assert_eq!(texts(&points), [expected]);
    }

    #[test]
    fn tag_values_have_no_semicolon_space_or_leading_tilde() {
        for (name, value, tag) in [
            ("t", "a.example:443", ";t=a.example:443"),
            ("t", "~a;b c\nü", ";t=_a_b_c__"),
            ("t", "", ""),
            ("name", "a", ";exported_name=a"),
        ] {
            let mut out = Vec::new();
            put_tag(&mut out, name, value);
            assert_eq!(String::from_utf8(out).unwrap(), tag, "{value:?}");
        }
    }

    /// "The pickle protocol": a list of `(path, (timestamp, value))` behind four bytes of length.
    #[test]
    fn pickle_has_the_same_points_in_messages_of_500() {
        let mut encoder = encoder(GraphiteProtocol::Pickle, GraphiteNaming::Path);
        let many = |sink: &mut dyn MetricSink| (0..84).for_each(|_| figures(sink));
        let points = encoder.encode(TIME, &many);
        let counts: Vec<_> = points.frames().map(|frame| frame.points).collect();
        assert_eq!(counts, [500, 4]);
        for frame in points.frames() {
            let (length, message) = frame.bytes.split_at(4);
            assert_eq!(length, (message.len() as u32).to_be_bytes());
            let read = pickle::tests::unpickle(message);
            assert_eq!(read.len() as u64, frame.points);
        }
        let message = points.frames().nth(1).unwrap().bytes;
        let read = pickle::tests::unpickle(&message[4..]);
        let path = "lockgate.request_duration_seconds_sum.site._".to_owned();
        // 504 points: the last four begin with the third of the last reading.
        assert_eq!(read[1], (path, 1_764_352_800, 1.014));
    }
}
