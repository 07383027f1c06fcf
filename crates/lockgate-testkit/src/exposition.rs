//! Prometheus text exposition format 0.0.4, parsed strictly, as by a scraper.

use std::collections::{BTreeMap, HashSet};

/// Labels in the written order.
pub type Labels = Vec<(String, String)>;

/// A family as a scraper sees it.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// The name of the metric.
    pub name: String,
    /// The help text.
    pub help: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Names with their suffixes, labels, values.
    pub samples: Vec<(String, Labels, f64)>,
}

/// Parses an exposition.
///
/// # Panics
/// When it violates the format.
pub fn parse(text: &str) -> Vec<Parsed> {
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line ends in a line feed"
    );
    let mut families: Vec<Parsed> = Vec::new();
    let mut series = HashSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("HELP has a name and a text");
            assert_name(name);
            assert!(
                families.iter().all(|family| family.name != name),
                "{name}: one HELP"
            );
            let kind = lines
                .next()
                .and_then(|line| line.strip_prefix("# TYPE "))
                .expect("TYPE follows");
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
            let suffix = name
                .strip_prefix(&*family.name)
                .expect("a sample stands with its family");
            let expected: &[&str] = if family.kind == "histogram" {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            assert!(expected.contains(&suffix), "{line}");
            assert!(
                series.insert((name.clone(), sorted(&labels))),
                "{line}: a series is written once"
            );
            assert!(family.kind != "counter" || value >= 0.0, "{line}");
            family.samples.push((name, labels, value));
        }
    }
    families
        .iter()
        .filter(|family| family.kind == "histogram")
        .for_each(assert_histogram);
    families
}

fn parse_sample(line: &str) -> (String, Labels, f64) {
    let end = line
        .find(['{', ' '])
        .expect("a name, then labels or a value");
    let (name, mut rest) = line.split_at(end);
    assert_name(name);
    let mut labels = Labels::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside
                .split_once("=\"")
                .expect("a label has a quoted value");
            assert_name(label);
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
            assert!(
                digits.bytes().all(|byte| b"0123456789.-".contains(&byte)),
                "{digits}"
            );
            digits.parse().expect("a number")
        }
    };
    (name.into(), labels, value)
}

fn assert_name(name: &str) {
    let mut bytes = name.bytes();
    let first = bytes.next().expect("not empty");
    assert!(first.is_ascii_alphabetic() || first == b'_', "{name}");
    assert!(
        bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
        "{name}"
    );
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

/// Undoes the escapes named in `known`; any other violates the format.
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
    assert!(
        labels.windows(2).all(|pair| pair[0].0 != pair[1].0),
        "a label is written once: {labels:?}"
    );
    labels
}

/// Bounds increase up to +Inf, counts do not decrease, and the last one is `_count`.
fn assert_histogram(family: &Parsed) {
    let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    let mut sums = BTreeMap::new();
    for (name, labels, value) in &family.samples {
        let (le, rest): (Labels, Labels) =
            labels.iter().cloned().partition(|(label, _)| label == "le");
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
        assert!(
            buckets
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
        );
        let last = *buckets.last().expect("a bucket");
        assert_eq!(last, (f64::INFINITY, counts[&labels]));
        assert!(sums.contains_key(&labels));
    }
}
