//! Loads of a page for people and for programs: times over all of them, and one as a waterfall.
//!
//! JSON: times are in microseconds from when a load began, and `null` where something failed before
//! it was complete. `page_us`, `usable_us` (page, style sheets and scripts) and `all_us` have
//! `median`, `lowest` and `highest` over the loads that came so far; `loads` has each with all of
//! its objects; `shown` is the place of the load in the middle.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::escape::terminal;
use crate::summary::Spread;
use crate::text::table::aligned;
use crate::units::{self, NONE};
use crate::words;
use lockgate_load::page::result::{Object, PageLoad, PageProtocol, PageReport};
use lockgate_load::result::RunEnd;

/// How wide the bars of a waterfall are.
const BARS: usize = 40;
/// How many names of other origins are told: a page may have hundreds.
const MAX_ORIGINS: usize = 10;

/// A time of a page: its key in JSON, its name for people, and its function.
type PageTime = (
    &'static str,
    &'static str,
    fn(&PageLoad) -> Option<Duration>,
);

const TIMES: [PageTime; 3] = [
    ("page_us", "page complete", PageLoad::page),
    (
        "usable_us",
        "page, styles and scripts complete",
        PageLoad::usable,
    ),
    ("all_us", "all complete", PageLoad::all),
];

fn spread(report: &PageReport, time: fn(&PageLoad) -> Option<Duration>) -> Option<Spread> {
    Spread::of(
        report
            .loads
            .iter()
            .filter_map(time)
            .map(|time| time.as_secs_f64() * 1e9),
    )
}

/// The report for a terminal.
pub fn text(report: &PageReport) -> String {
    let mut out = format!("{}\n", terminal(&crate::escape::shell(&report.command)));
    let mut say =
        |name: &str, text: &str| writeln!(out, "  {name:<13}{}", terminal(text)).expect("memory");
    say("page", &report.url);
    let loads = units::counted(report.loads.len() as u64, "load", "loads");
    let connections = units::counted(report.connections as u64, "connection", "connections");
    let timeout = units::span(report.timeout);
    let protocol = report.protocol.name();
    let load = match report.protocol {
        PageProtocol::Http1 => format!("{loads}, each over up to {connections} of its own"),
        PageProtocol::Http2 { .. } => {
            format!("{loads}, each over one connection of its own: {protocol}")
        }
    };
    let load = format!("{load}; time limit of a load {timeout}");
    say("load", &load);
    if let Some(end) = words::end(&report.end) {
        writeln!(out, "\n*** {end}").expect("memory");
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {}", terminal(note)).expect("memory");
    }
    let Some(shown) = report.median() else {
        return out;
    };
    out.push_str(&times(report));
    out.push_str(&failures(report));
    let which = if report.loads.len() > 1 {
        format!(" (load {}, the one in the middle)", shown + 1)
    } else {
        String::new()
    };
    writeln!(out, "\nwaterfall{which}").expect("memory");
    out.push_str(&waterfall(&report.loads[shown]));
    out.push_str(&other_origins(&report.loads[shown]));
    out
}

fn times(report: &PageReport) -> String {
    let mut rows = vec![
        ["", "median", "lowest", "highest", "loads"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (_, name, time) in TIMES {
        let figures = match spread(report, time) {
            Some(spread) => [spread.median, spread.min, spread.max].map(units::duration),
            None => [NONE; 3].map(str::to_owned),
        };
        let counted = report.loads.iter().filter_map(time).count();
        rows.push(
            [
                &[name.to_owned()][..],
                &figures,
                &[format!("{counted} of {}", report.loads.len())],
            ]
            .concat(),
        );
    }
    format!("\n{}", aligned(2, &rows))
}

fn failures(report: &PageReport) -> String {
    let failures = report.failures();
    if failures.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nfailures\n");
    let rows = failures.iter().map(|(kind, count, example)| {
        vec![
            kind.name().to_owned(),
            units::count(*count),
            format!("first: {}", terminal(example)),
        ]
    });
    out.push_str(&aligned(2, &rows.collect::<Vec<_>>()));
    out
}

/// Each object in the order in which they were taken up; in its bar `.` is until it was, `-` until
/// the head of its response, `=` until its end.
fn waterfall(load: &PageLoad) -> String {
    let mut order: Vec<&Object> = load.objects.iter().collect();
    order.sort_by_key(|object| (object.start.unwrap_or(Duration::MAX), object.connection));
    let whole = load
        .objects
        .iter()
        .filter_map(|object| object.end)
        .max()
        .unwrap_or_default();
    let mut rows = vec![
        [
            "object", "kind", "conn", "start", "head", "end", "bytes", "status", "",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for object in order {
        let time = |time: Option<Duration>| time.map_or(NONE.to_owned(), units::span);
        let status = match (&object.failure, object.status) {
            (None, Some(status)) => status.to_string(),
            (Some((failure, _)), Some(status)) => {
                format!("{status} {}", failure.name().to_uppercase())
            }
            (Some((failure, _)), None) => failure.name().to_uppercase(),
            (None, None) => NONE.to_owned(),
        };
        rows.push(vec![
            shortened(&terminal(&object.target)),
            object.kind.name().to_owned(),
            object
                .connection
                .map_or(NONE.to_owned(), |number| number.to_string()),
            time(object.start),
            time(object.first),
            time(object.end),
            units::bytes(object.length as f64),
            status,
            format!("|{}|", bar(object, whole)),
        ]);
    }
    aligned(2, &rows)
}

fn bar(object: &Object, whole: Duration) -> String {
    let place = |time: Option<Duration>| {
        let share = time.map_or(1.0, |time| {
            time.as_secs_f64() / whole.as_secs_f64().max(1e-9)
        });
        ((share * BARS as f64) as usize).min(BARS)
    };
    let (found, start, first) = (
        place(Some(object.found)),
        place(object.start),
        place(object.first),
    );
    let end = place(object.end).max(found + 1).min(BARS);
    let column = |at: usize| match at {
        at if at < found || at >= end => ' ',
        at if at < start.min(end - 1) => '.',
        at if at < first.min(end - 1) => '-',
        _ if object.failure.is_some() => 'x',
        _ => '=',
    };
    (0..BARS).map(column).collect()
}

/// Names keep their ends, which tell them apart.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 40;
    let length = name.chars().count();
    if length <= LONGEST {
        return name.to_owned();
    }
    format!(
        "…{}",
        name.chars().skip(length - LONGEST + 1).collect::<String>()
    )
}

fn other_origins(load: &PageLoad) -> String {
    let mut out = String::new();
    if !load.other_origins.is_empty() {
        let objects = units::counted(load.other_origins.len() as u64, "object", "objects");
        writeln!(out, "\n{objects} of other origins, not fetched").expect("memory");
        for url in load.other_origins.iter().take(MAX_ORIGINS) {
            writeln!(out, "  {}", terminal(url)).expect("memory");
        }
        if load.other_origins.len() > MAX_ORIGINS {
            writeln!(out, "  and {} more", load.other_origins.len() - MAX_ORIGINS).expect("memory");
        }
    }
    if load.left_out > 0 {
        let more = units::counted(load.left_out, "reference", "references");
        writeln!(
            out,
            "\n{more} more than one load keeps: neither fetched nor listed"
        )
        .expect("memory");
    }
    out
}

/// The report as JSON, for programs.
pub fn json(report: &PageReport) -> String {
    let failures = report.failures();
    let failures = failures.iter().map(|(kind, count, example)| {
        let failure = json!({ "count": count, "first": example });
        (kind.name().to_owned(), failure)
    });
    let mut whole = json!({
        "command": report.command,
        "url": report.url,
        "protocol": report.protocol.name(),
        "connections": report.connections,
        "complete": report.end == RunEnd::Complete,
        "notes": report.notes,
        "failures": failures.collect::<Map<_, _>>(),
        "shown": report.median(),
        "loads": report.loads.iter().map(load_value).collect::<Vec<_>>(),
    });
    for (key, _, time) in TIMES {
        whole[key] = spread(report, time).map_or(Value::Null, |spread| {
            let [median, lowest, highest] =
                [spread.median, spread.min, spread.max].map(|nanoseconds| nanoseconds / 1e3);
            json!({ "median": median, "lowest": lowest, "highest": highest })
        });
    }
    format!("{whole:#}\n")
}

fn load_value(load: &PageLoad) -> Value {
    let mut value = json!({
        "failed": load.failed(),
        "bytes_received": load.received(),
        "connections_opened": load.opened,
        "other_origins": load.other_origins,
        "beyond": load.left_out,
        "objects": load.objects.iter().map(object_value).collect::<Vec<_>>(),
    });
    for (key, _, time) in TIMES {
        value[key] = microseconds(time(load));
    }
    value
}

fn object_value(object: &Object) -> Value {
    let failure = object.failure.as_ref();
    json!({
        "target": object.target,
        "kind": object.kind.name(),
        "found_us": microseconds(Some(object.found)),
        "start_us": microseconds(object.start),
        "connect_us": microseconds(object.connect),
        "head_us": microseconds(object.first),
        "end_us": microseconds(object.end),
        "connection": object.connection,
        "status": object.status,
        "length_bytes": object.length,
        "bytes_received": object.received,
        "failure": failure.map(|(kind, text)| json!({ "kind": kind.name(), "text": text })),
    })
}

fn microseconds(time: Option<Duration>) -> Value {
    time.map(|time| time.as_secs_f64() * 1e6).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_load::page::result::ObjectKind;
    use lockgate_load::result::FailureKind;

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn object(target: &str, kind: ObjectKind, times: [u64; 4], connection: u32) -> Object {
        let [found, start, first, end] = times.map(ms);
        let (start, first, end) = (Some(start), Some(first), Some(end));
        Object {
            start,
            first,
            end,
            connection: Some(connection),
            status: Some(200),
            length: 1000,
            received: 1100,
            ..Object::new(target.to_owned(), kind, found)
        }
    }

    fn load(slower: u64) -> PageLoad {
        let objects = vec![
            object("/", ObjectKind::Page, [0, 0, 10, 20 + slower], 1),
            object("/a.css", ObjectKind::Style, [10, 20, 30, 60 + slower], 2),
            object("/i.png", ObjectKind::Image, [12, 60, 70, 100 + slower], 1),
        ];
        PageLoad {
            objects,
            other_origins: vec!["http://cdn.test/x\x1b".to_owned()],
            left_out: 0,
            opened: 2,
        }
    }

    fn report(loads: Vec<PageLoad>) -> PageReport {
        let (command, url) = (
            vec!["load".to_owned(), "--page".to_owned()],
            "http://a.test/".to_owned(),
        );
        let timeout = Duration::from_secs(60);
        let protocol = PageProtocol::Http1;
        PageReport {
            command,
            url,
            protocol,
            connections: 6,
            timeout,
            notes: Vec::new(),
            loads,
            end: RunEnd::Complete,
        }
    }

    #[test]
    fn times_are_medians_and_the_waterfall_is_the_load_in_the_middle() {
        let text = text(&report(vec![load(30), load(0), load(10)]));
        for line in [
            "  page complete                      30.0 ms  20.0 ms  50.0 ms  3 of 3\n",
            "  page, styles and scripts complete  70.0 ms  60.0 ms  90.0 ms  3 of 3\n",
            "  all complete                        110 ms   100 ms   130 ms  3 of 3\n",
            "waterfall (load 3, the one in the middle)\n",
            "  /        page     1     0 ns  10.0 ms  30.0 ms  1.00 KB     200  |---=======                              |\n",
            "  /i.png  image     1  60.0 ms  70.0 ms   110 ms  1.00 KB     200  |    .................----===============|\n",
            "1 object of other origins, not fetched\n  http://cdn.test/x\\u{1b}\n",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("failures"), "{text}");
    }

    #[test]
    fn a_load_with_a_failure_is_never_complete() {
        let mut broken = load(0);
        broken.objects[2].failure = Some((FailureKind::Status, "status 404".to_owned()));
        broken.objects[2].status = Some(404);
        let mut report = report(vec![broken.clone(), load(5), broken]);
        assert_eq!(
            (report.loads[0].all(), report.loads[0].usable()),
            (None, Some(ms(60)))
        );
        let text = text(&report);
        for line in [
            "  status  2  first: status 404\n",
            " ms  1 of 3\n",
            "waterfall (load 1, ",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        let whole: Value = serde_json::from_str(&json(&report)).unwrap();
        assert_eq!(
            whole["all_us"],
            json!({ "median": 105_000.0, "lowest": 105_000.0, "highest": 105_000.0 })
        );
        assert_eq!(
            whole["failures"],
            json!({ "status": { "count": 2, "first": "status 404" } })
        );
        let object = &whole["loads"][0]["objects"][2];
        assert_eq!(
            (&object["failure"]["kind"], &object["end_us"]),
            (&json!("status"), &json!(100_000.0))
        );
        assert_eq!(whole["loads"][0]["all_us"], Value::Null);
        report.loads.clear();
        report.end = RunEnd::Interrupted;
        assert!(super::text(&report).contains("*** INTERRUPTED"));
    }
}
