//! The text against the format's rules, by a parser that knows nothing of the writer.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::*;
use crate::{Bounds, Histogram};

type Labels = Vec<(String, String)>;

/// A family as a scraper sees it.
#[derive(Debug, PartialEq)]
struct Parsed {
    name: String,
    help: String,
    kind: String,
    samples: Vec<(String, Labels, f64)>,
}

/// Reads an exposition and panics where it breaks a rule of the format.
fn parse(text: &str) -> Vec<Parsed> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line ends in a line feed");
    let mut families: Vec<Parsed> = Vec::new();
    let mut series = HashSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("HELP has a name and a text");
            assert_name(name);
            assert!(families.iter().all(|family| family.name != name), "{name}: one HELP");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("TYPE follows");
            let (again, kind) = kind.split_once(' ').expect("TYPE has a name and a kind");
            assert_eq!(name, again, "HELP and TYPE of one family");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            families.push(Parsed {
                name: name.into(),
                help: unescape(help, "\\n"),
                kind: kind.into(),
                samples: Vec::new(),
            });
        } else {
            let (name, labels, value) = parse_sample(line);
            let family = families.last_mut().expect("a sample has a family");
            let suffix = name.strip_prefix(&*family.name).expect("a sample stands with its family");
            let expected: &[&str] =
                if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(expected.contains(&suffix), "{line}");
            assert!(series.insert((name.clone(), sorted(&labels))), "{line}: a series is written once");
            assert!(family.kind != "counter" || value >= 0.0, "{line}");
            family.samples.push((name, labels, value));
        }
    }
    families.iter().filter(|family| family.kind == "histogram").for_each(assert_histogram);
    families
}

fn parse_sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a name, then labels or a value");
    let (name, mut rest) = line.split_at(end);
    assert_name(name);
    let mut labels = Labels::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside.split_once("=\"").expect("a label has a quoted value");
            assert!(is_name(label, Colon::Refused), "{label}");
            let end = closing_quote(after);
            labels.push((label.into(), unescape(&after[..end], "\\n\"")));
            match after[end + 1..].split_at(1) {
                (",", more) => inside = more,
                ("}", more) => break rest = more,
                (other, _) => panic!("{other} after a label's value"),
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("one space before the value");
    assert!(!value.contains(' '), "no timestamp is written");
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        digits => {
            assert!(digits.bytes().all(|byte| b"0123456789.-".contains(&byte)), "{digits}");
            digits.parse().expect("a number")
        }
    };
    (name.into(), labels, value)
}

fn assert_name(name: &str) {
    let mut bytes = name.bytes();
    let first = bytes.next().expect("not empty");
    assert!(first.is_ascii_alphabetic() || first == b'_', "{name}");
    assert!(bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
}

fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return at,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    panic!("no closing quote in {text}")
}

/// Undoes the escapes named in `known`; any other is against the format.
fn unescape(text: &str, known: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escape = chars.next().expect("something after the backslash");
        assert!(known.contains(escape), "\\{escape}");
        out.push(if escape == 'n' { '\n' } else { escape });
    }
    out
}

fn sorted(labels: &Labels) -> Labels {
    let mut labels = labels.clone();
    labels.sort();
    assert!(labels.windows(2).all(|pair| pair[0].0 != pair[1].0), "a label is written once: {labels:?}");
    labels
}

/// Bounds increase up to +Inf, counts do not decrease, and the last one is `_count`.
fn assert_histogram(family: &Parsed) {
    let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    let mut sums = BTreeMap::new();
    for (name, labels, value) in &family.samples {
        let (le, rest): (Labels, Labels) = labels.iter().cloned().partition(|(label, _)| label == "le");
        match name.strip_prefix(&*family.name) {
            Some("_bucket") => {
                let bound = le[0].1.trim_start_matches('+').parse().expect("a bound");
                buckets.entry(rest).or_default().push((bound, *value));
            }
            Some("_count") => drop(counts.insert(rest, *value)),
            _ => drop(sums.insert(rest, *value)),
        }
    }
    assert_eq!(buckets.len(), counts.len());
    for (labels, buckets) in buckets {
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        let last = *buckets.last().expect("a bucket");
        assert_eq!(last, (f64::INFINITY, counts[&labels]));
        assert!(sums.contains_key(&labels));
    }
}

#[test]
fn the_text_is_written_to_the_letter() {
    let mut text = Text::new();
    text.counter("lockgate_connections_total", "Connections accepted.")
        .sample(&[("listener", ":443"), ("side", "downstream")], 3_u64)
        .sample(&[], 4_u64);
    text.gauge("lockgate_connections", "Connections open.").sample(&[], -1_i64);
    const BOUNDS: Bounds = Bounds::new(&[Duration::from_millis(5)]);
    let histogram = Histogram::new(BOUNDS);
    histogram.record(Duration::from_millis(2));
    histogram.record(Duration::from_secs(1));
    text.histogram("lockgate_tls_handshake_seconds", "Handshakes.")
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
fn whatever_a_label_holds_comes_back_from_a_parser() {
    let values =
        ["", "plain", "\"", "\\", "\n", "\\n", "a\"} 1\nb 2", "\\\"", "trailing\\", "ü → \u{202e}", "\r\t\0"];
    let mut text = Text::new();
    let mut family = text.gauge("g", "back\\slash, \"quote\" and\nline feed");
    for (i, value) in values.iter().enumerate() {
        family.sample(&[("v", value), ("i", &i.to_string())], i as u64);
    }
    let text = text.finish();
    let parsed = parse(&text);
    assert_eq!(parsed[0].help, "back\\slash, \"quote\" and\nline feed");
    let back: Vec<&str> = parsed[0].samples.iter().map(|(_, labels, _)| &*labels[0].1).collect();
    assert_eq!(back, values);
}

#[test]
fn numbers_are_written_so_that_they_read_back() {
    let numbers: [Number; 9] = [
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
    let mut text = Text::new();
    let mut family = text.gauge("g", "Numbers.");
    for (i, number) in numbers.into_iter().enumerate() {
        family.sample(&[("i", &i.to_string())], number);
    }
    let read: Vec<f64> = parse(&text.finish())[0].samples.iter().map(|(_, _, value)| *value).collect();
    let expected =
        [u64::MAX as f64, i64::MIN as f64, 0.1, 1e21, 5e-7, f64::MAX, f64::INFINITY, f64::NEG_INFINITY];
    assert_eq!(read[..8], expected);
    assert!(read[8].is_nan());
}

#[test]
fn several_histograms_of_one_family_stay_valid() {
    let histogram = Histogram::new(Bounds::CONNECT);
    for micros in [1, 70, 900, 40_000, 99_000_000] {
        histogram.record(Duration::from_micros(micros));
    }
    let mut text = Text::new();
    text.histogram("connect_seconds", "Connecting.")
        .sample(&[("endpoint", "a")], &histogram.snapshot())
        .sample(&[("endpoint", "b")], &Histogram::new(Bounds::CONNECT).snapshot());
    let families = parse(&text.finish());
    assert_eq!(families[0].samples.len(), 2 * (16 + 3));
}

#[test]
fn nothing_is_valid_too() {
    assert_eq!(parse(&Text::new().finish()), []);
}

#[test]
#[should_panic(expected = "a family is written once")]
fn a_family_opened_twice_is_a_mistake_in_the_source() {
    let mut text = Text::new();
    text.gauge("g", "One.");
    text.gauge("g", "Two.");
}

#[test]
fn names_follow_the_data_model() {
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
