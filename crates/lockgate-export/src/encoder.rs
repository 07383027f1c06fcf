//! What all encoders do: they turn a reading of the figures into bytes.

use std::time::Duration;

use lockgate_metrics::{MetricSink, SampleValue};

use crate::points::EncodedPoints;

/// The figures of a moment: what gives them to a sink.
pub type Figures<'a> = &'a dyn Fn(&mut dyn MetricSink);

/// Encodes readings for one sink.
pub trait PointEncoder {
    /// Encodes the figures of this moment, which is `time` after the beginning of 1970.
    fn encode(&mut self, time: Duration, figures: Figures<'_>) -> EncodedPoints;

    /// Takes what has been counted so far as told. Only encoders that tell differences remember it.
    fn skip_counted(&mut self, _figures: Figures<'_>) {}
}

/// A value that sinks take; none for what is no number or has no end.
pub(crate) fn finite(value: SampleValue) -> Option<SampleValue> {
    match value {
        SampleValue::Float(n) if !n.is_finite() => None,
        value => Some(value),
    }
}

/// Appends a number in decimal notation.
pub(crate) fn put_number(out: &mut Vec<u8>, value: SampleValue) {
    use std::io::Write as _;

    let written = match value {
        SampleValue::Unsigned(n) => write!(out, "{n}"),
        SampleValue::Signed(n) => write!(out, "{n}"),
        SampleValue::Float(n) => write!(out, "{n}"),
    };
    written.expect("a Vec takes everything");
}

/// The text of a bucket's bound, as Prometheus has it.
pub(crate) fn bound_text(bound: f64) -> String {
    if bound == f64::INFINITY {
        "+Inf".to_owned()
    } else {
        bound.to_string()
    }
}
