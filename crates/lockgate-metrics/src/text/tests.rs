//! The text against the format's rules, by a parser that knows nothing of the writer.

use std::time::Duration;

use lockgate_testkit::exposition::parse;

use super::*;
use crate::{Bounds, Histogram, MetricFamilies};

#[test]
fn the_prometheus_text_is_exact() {
    let mut text = ExpositionText::new();
    let mut families = MetricFamilies::new(&mut text);
    families
        .counter("lockgate_connections_total", "Connections accepted.")
        .sample(&[("listener", ":443"), ("side", "downstream")], 3_u64)
        .sample(&[], 4_u64);
    families
        .gauge("lockgate_connections", "Connections open.")
        .sample(&[], -1_i64);
    const BOUNDS: Bounds = Bounds::new(&[Duration::from_millis(5)]);
    let histogram = Histogram::new(BOUNDS);
    histogram.record(Duration::from_millis(2));
    histogram.record(Duration::from_secs(1));
    families
        .histogram("lockgate_tls_handshake_seconds", "Handshakes.")
        .sample(&[("listener", ":443")], &histogram.snapshot());
    let expected = "\
# HELP lockgate_connections_total Connections accepted.
# TYPE lockgate_connections_total counter
lockgate_connections_total{listener=\":443\",side=\"downstream\"} 3
lockgate_connections_total 4
# HELP lockgate_connections Connections open.
# TYPE lockgate_connections gauge
lockgate_connections -1
# HELP lockgate_tls_handshake_seconds Handshakes.
# TYPE lockgate_tls_handshake_seconds histogram
lockgate_tls_handshake_seconds_bucket{listener=\":443\",le=\"0.005\"} 1
lockgate_tls_handshake_seconds_bucket{listener=\":443\",le=\"+Inf\"} 2
lockgate_tls_handshake_seconds_sum{listener=\":443\"} 1.002
lockgate_tls_handshake_seconds_count{listener=\":443\"} 2
";
    let text = text.finish();
    assert_eq!(text, expected);
    assert_eq!(parse(&text).len(), 3);
}

#[test]
fn escaped_label_values_are_read_back_by_a_parser() {
    let values = [
        "",
        "plain",
        "\"",
        "\\",
        "\n",
        "\\n",
        "a\"} 1\nb 2",
        "\\\"",
        "trailing\\",
        "ü → \u{202e}",
        "\r\t\0",
    ];
    let mut text = ExpositionText::new();
    let mut families = MetricFamilies::new(&mut text);
    let mut family = families.gauge("g", "back\\slash, \"quote\" and\nline feed");
    for (i, value) in values.iter().enumerate() {
        family.sample(&[("v", value), ("i", &i.to_string())], i as u64);
    }
    let text = text.finish();
    let parsed = parse(&text);
    assert_eq!(parsed[0].help, "back\\slash, \"quote\" and\nline feed");
    let back: Vec<&str> = parsed[0]
        .samples
        .iter()
        .map(|(_, labels, _)| &*labels[0].1)
        .collect();
    assert_eq!(back, values);
}

#[test]
fn sample_values_are_written_so_that_they_read_back() {
    let numbers: [SampleValue; 9] = [
        u64::MAX.into(),
        i64::MIN.into(),
        0.1.into(),
        1e21.into(),
        5e-7.into(),
        f64::MAX.into(),
        f64::INFINITY.into(),
        f64::NEG_INFINITY.into(),
        f64::NAN.into(),
    ];
    let mut text = ExpositionText::new();
    let mut families = MetricFamilies::new(&mut text);
    let mut family = families.gauge("g", "Numbers.");
    for (i, number) in numbers.into_iter().enumerate() {
        family.sample(&[("i", &i.to_string())], number);
    }
    let read: Vec<f64> = parse(&text.finish())[0]
        .samples
        .iter()
        .map(|(_, _, value)| *value)
        .collect();
    let expected = [
        u64::MAX as f64,
        i64::MIN as f64,
        0.1,
        1e21,
        5e-7,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    assert_eq!(read[..8], expected);
    assert!(read[8].is_nan());
}

#[test]
fn several_histograms_of_one_family_stay_valid() {
    let histogram = Histogram::new(Bounds::CONNECT);
    for micros in [1, 70, 900, 40_000, 99_000_000] {
        histogram.record(Duration::from_micros(micros));
    }
    let mut text = ExpositionText::new();
    MetricFamilies::new(&mut text)
        .histogram("connect_seconds", "Connecting.")
        .sample(&[("endpoint", "a")], &histogram.snapshot())
        .sample(
            &[("endpoint", "b")],
            &Histogram::new(Bounds::CONNECT).snapshot(),
        );
    let families = parse(&text.finish());
    assert_eq!(families[0].samples.len(), 2 * (16 + 3));
}

#[test]
fn an_empty_exposition_is_valid() {
    assert_eq!(parse(&ExpositionText::new().finish()), []);
}
