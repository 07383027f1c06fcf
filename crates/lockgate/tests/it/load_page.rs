//! `load --page` and `--link` against scripted origins: the objects that are fetched, their order,
//! the number of connections, and the highest speed.

mod http2;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use lockgate_testkit::{Launch, Origin, RunResult, Serving, Signal};
use serde_json::Value;

/// An origin's content: bodies by their targets. Others are 404. Its requests come by the channel.
fn site(bodies: &[(&str, &str)]) -> (Serving, Receiver<String>) {
    let bodies: HashMap<String, String> = bodies
        .iter()
        .map(|(target, body)| ((*target).to_owned(), (*body).to_owned()))
        .collect();
    let (tell, asked) = channel();
    let origin = Origin::tcp().answering(move |request| {
        let target = request.first_line().split(' ').nth(1).unwrap().to_owned();
        let (status, body) = match bodies.get(&target) {
            Some(body) => ("200 OK", body.as_str()),
            None => ("404 Not Found", "nothing here"),
        };
        // The test may have ended.
        let _ = tell.send(target);
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    });
    (origin, asked)
}

fn load(origin: &Serving, arguments: &[&str]) -> RunResult {
    let url = format!("http://{}/", origin.address());
    Launch::new(env!("CARGO_BIN_EXE_lockgate"))
        .run(&[&["load", "--page", &url][..], arguments].concat())
}

/// The report as JSON.
fn report(origin: &Serving, arguments: &[&str]) -> Value {
    let ended = load(origin, &[arguments, &["--json", "-"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn objects(load: &Value) -> Vec<&Value> {
    load["objects"].as_array().unwrap().iter().collect()
}

const PAGE: &str = "<!doctype html><img src=a.png><img src='/b.png?x=1&amp;y=2'><img src=a.png>\
    <link rel=stylesheet href=/css/all.css><script src=app.js></script>\
    <img src=http://cdn.test/far.png><img src='data:image/png;base64,AA'>";
const SHEET: &str = "@import 'more.css'; p { background: url(../c.png) }";

fn whole() -> (Serving, Receiver<String>) {
    site(&[
        ("/", PAGE),
        ("/a.png", "a"),
        ("/b.png?x=1&y=2", "b"),
        ("/css/all.css", SHEET),
        ("/css/more.css", ""),
        ("/c.png", "c"),
        ("/app.js", "app()"),
    ])
}

#[test]
fn a_page_load_fetches_each_object_once_by_priority() {
    let (origin, asked) = whole();
    let report = report(&origin, &["-c", "1"]);
    // Over one connection, so that requests come in the order of their priority.
    let order: Vec<String> = asked.try_iter().collect();
    let expected = [
        "/",
        "/css/all.css",
        "/app.js",
        "/css/more.css",
        "/a.png",
        "/b.png?x=1&y=2",
        "/c.png",
    ];
    assert_eq!(order, expected);
    assert_eq!(origin.accepted(), 1);
    let load = &report["loads"][0];
    assert_eq!(
        load["other_origins"],
        serde_json::json!(["http://cdn.test/far.png"])
    );
    assert_eq!(
        (&load["failed"], &load["connections_opened"]),
        (&0.into(), &1.into())
    );
    let all = objects(load);
    assert_eq!(all.len(), expected.len());
    for object in &all {
        let time = |key: &str| object[key].as_f64().unwrap();
        assert!(
            time("found_us") <= time("start_us") && time("start_us") <= time("head_us"),
            "{object}"
        );
        assert!(time("head_us") <= time("end_us"), "{object}");
        assert_eq!(
            (&object["status"], &object["connection"]),
            (&200.into(), &1.into()),
            "{object}"
        );
    }
    let end = |target: &str| {
        all.iter()
            .find(|object| object["target"] == target)
            .and_then(|object| object["end_us"].as_f64())
            .unwrap()
    };
    assert_eq!(load["page_us"].as_f64(), Some(end("/")));
    assert_eq!(load["usable_us"].as_f64(), Some(end("/css/more.css")));
    assert_eq!(load["all_us"].as_f64(), Some(end("/c.png")));
    assert_eq!(all[0]["length_bytes"], PAGE.len());
}

#[test]
fn page_load_connections_are_limited_and_per_load() {
    let images: String = (0..40).map(|n| format!("<img src={n}.png>")).collect();
    let mut bodies: Vec<(String, &str)> = (0..40).map(|n| (format!("/{n}.png"), "image")).collect();
    bodies.push(("/".to_owned(), &images));
    let bodies: Vec<(&str, &str)> = bodies
        .iter()
        .map(|(target, body)| (target.as_str(), *body))
        .collect();
    let (origin, asked) = site(&bodies);
    let report = report(&origin, &["-n", "3"]);
    assert_eq!(asked.try_iter().count(), 3 * 41);
    let loads = report["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 3);
    let opened: Vec<u64> = loads
        .iter()
        .map(|load| load["connections_opened"].as_u64().unwrap())
        .collect();
    assert!(
        opened.iter().all(|opened| (1..=6).contains(opened)),
        "{opened:?}"
    );
    assert_eq!(opened.iter().sum::<u64>(), origin.accepted() as u64);
    assert!(loads.iter().all(|load| load["failed"] == 0), "{report}");
    assert!(report["all_us"]["lowest"].as_f64() <= report["all_us"]["median"].as_f64());
}

#[test]
fn a_missing_object_makes_the_page_incomplete() {
    let (origin, _asked) = site(&[
        ("/", "<script src=a.js></script><img src=gone.png>"),
        ("/a.js", "1"),
    ]);
    let ended = load(&origin, &["-n", "2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stdout
            .contains("\nfailures\n  status  2  first: status 404\n"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("404 STATUS"), "{}", ended.stdout);
    let complete: Vec<_> = ended
        .stdout
        .lines()
        .filter(|line| line.contains("complete "))
        .collect();
    assert!(
        complete[1].ends_with("2 of 2") && complete[2].ends_with("0 of 2"),
        "{complete:?}"
    );
    assert_eq!(
        ended
            .stderr
            .matches("3 objects, 1 failed, not complete")
            .count(),
        2,
        "{}",
        ended.stderr
    );
}

#[test]
fn a_missing_page_is_reported_without_output() {
    let (origin, _asked) = site(&[]);
    let ended = load(&origin, &[]);
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""));
    assert!(ended.stderr.contains("/: status 404"), "{}", ended.stderr);
    let gone = Origin::tcp().address();
    let ended = Launch::new(env!("CARGO_BIN_EXE_lockgate")).run(&[
        "load",
        "--page",
        &format!("http://{gone}/"),
    ]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("cannot connect"), "{}", ended.stderr);
}

#[test]
fn an_unanswered_object_ends_with_the_timeout() {
    let origin = Origin::tcp().serve(|wire| {
        let mut http = lockgate_testkit::Http::over(wire.another());
        while let Some(request) = http.next_request() {
            if request.first_line().starts_with("GET / ") {
                http.send("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<img src=a.png>");
            }
        }
    });
    let report = report(&origin, &["--timeout", "200ms"]);
    let image = &report["loads"][0]["objects"][1];
    assert_eq!(
        (&image["failure"]["kind"], &image["end_us"]),
        (&"timeout".into(), &Value::Null),
        "{image}"
    );
    assert_eq!(report["loads"][0]["all_us"], Value::Null);
}

#[test]
fn a_signal_cuts_the_current_page_load_only() {
    let origin = Origin::tcp();
    let url = format!("http://{}/", origin.address());
    let gate =
        Launch::new(env!("CARGO_BIN_EXE_lockgate")).command(&["load", "--page", &url, "-n", "3"]);
    let mut first = origin.http();
    first.request();
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let mut second = origin.http();
    second.request();
    gate.signal(Signal::INT);
    let ended = gate.ended();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("\n*** INTERRUPTED"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("  load         1 load, each over"),
        "{}",
        ended.stdout
    );
}

#[test]
fn options_that_page_load_lacks_are_refused() {
    let load = |arguments: &[&str]| {
        let url = ["load", "--page", "http://127.0.0.1:1/"];
        let ended =
            Launch::new(env!("CARGO_BIN_EXE_lockgate")).run(&[&url[..], arguments].concat());
        assert!(matches!(ended.code, Some(1 | 2)), "{arguments:?}");
        ended.stderr
    };
    for arguments in [
        &["--rate", "10"][..],
        &["-d", "1s"],
        &["--threads", "2"],
        &["--body", "x"],
        &["-X", "HEAD"],
        &["--html", "x"],
        &["--fail-if", "p99 > 1s"],
        &["--stop-on", "503"],
        &["--cpus", "0"],
    ] {
        assert!(
            load(arguments).contains("cannot be used with"),
            "{arguments:?}"
        );
    }
    assert!(load(&["http://127.0.0.1:1/other"]).contains("--page takes one URL"));
    let fast = load(&["--link", "10"]);
    assert!(
        fast.contains("write a number and its unit, 1024kbit/s"),
        "{fast}"
    );
}

/// A lower bound by arithmetic: the bytes take their time, except for one piece and the depth of
/// the bucket.
fn least(bytes: u64) -> Duration {
    Duration::from_secs_f64((bytes - 1500) as f64 / 128_000.0) - Duration::from_millis(2)
}

#[test]
fn a_simulated_slow_link_is_never_too_fast() {
    let large = "x".repeat(10_000);
    let (origin, _asked) = site(&[
        ("/", "<script src=a></script><img src=b><img src=c>"),
        ("/a", &large),
        ("/b", &large),
        ("/c", &large),
    ]);
    let report = report(&origin, &["--link", "1024kbit/s"]);
    let load = &report["loads"][0];
    let received = load["bytes_received"].as_u64().unwrap();
    assert!(received > 30_000);
    let took = Duration::from_secs_f64(load["all_us"].as_f64().unwrap() / 1e6);
    assert!(took >= least(received), "{received} bytes in {took:?}");
    let note = report["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("the link of 1024 kbit/s was busy "),
        "{note}"
    );
}

#[test]
fn connections_and_threads_share_one_simulated_link() {
    let large = "x".repeat(5000);
    let (origin, _asked) = site(&[("/", &large)]);
    let url = format!("http://{}/", origin.address());
    let arguments = [
        "load",
        &url,
        "-c",
        "4",
        "--threads",
        "2",
        "-n",
        "8",
        "--link",
        "128kB/s",
        "--json",
        "-",
    ];
    let begun = Instant::now();
    let ended = Launch::new(env!("CARGO_BIN_EXE_lockgate")).run(&arguments);
    let took = begun.elapsed();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let stage = &report["stages"][0];
    assert_eq!(stage["succeeded"], 8, "{stage}");
    // The other thread may be a piece ahead, too.
    assert!(took >= least(8 * 5000 - 1500), "{took:?}");
    // On a busy machine the link may have been idle for a part of the time.
    let note = stage["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("the link of 1024 kbit/s was busy "),
        "{note}"
    );
    assert_eq!(stage["invalid"], serde_json::json!([]));
}
