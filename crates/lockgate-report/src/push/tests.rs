//! Pushes to gateways that are scripted: bytes in and bytes out.

use std::net::TcpListener;

use lockgate_testkit::{Http, Message, Origin, exposition};

use super::*;
use crate::sample;
use lockgate_load::plan::Until;
use lockgate_load::result::{FailureKind, Second, StageCounts};
use lockgate_load::schedule::{RequestRate, Schedule};

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn stage(name: &str, shape: Loop) -> LoadStage {
    LoadStage {
        round: 1,
        name: name.to_owned(),
        shape,
        until: Until::Time(Duration::from_secs(20)),
    }
}

fn closed() -> LoadStage {
    stage("closed loop", Loop::Closed)
}

fn constant(rate: f64) -> LoadStage {
    stage(
        &format!("{rate}/s"),
        Loop::Open(Schedule::Constant(RequestRate::new(rate).unwrap())),
    )
}

fn push(gateway: &Origin, stages: &[LoadStage]) -> Push {
    let url = format!("http://{}/prefix/", gateway.address());
    Push::start(Gateway::new(&url, "nightly").unwrap(), stages).unwrap()
}

/// The next request to the gateway, which gets `answer`.
fn taken(gateway: &Origin, answer: &[u8]) -> Message {
    let mut client: Http = gateway.http();
    let request = client.request();
    client.send(answer);
    request
}

/// The value of a sample, by the line before it.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

fn pass(push: &mut Push, seconds: u64, counts: &StageCounts) {
    for at in 1..=seconds {
        let second = Second {
            length: Duration::from_secs(1),
            succeeded: 1,
            failed: 0,
            received: 0,
            p50: 1,
            p99: 1,
            max: 1,
        };
        push.observe(&RunProgress::Second {
            elapsed: Duration::from_secs(at),
            second,
            counts,
        });
    }
}

fn counts(successes: u64) -> StageCounts {
    let mut counts = StageCounts::new();
    counts.latency.record_n(200_000, successes).unwrap();
    counts.failures[FailureKind::Timeout as usize] = 2;
    (counts.sent, counts.received, counts.opened) = (70, 170, 64);
    counts
}

#[test]
fn a_stage_is_pushed_when_it_begins_every_ten_seconds_and_when_the_run_is_over() {
    let gateway = Origin::tcp();
    let stages = [constant(3000.0)];
    let mut push = push(&gateway, &stages);
    push.observe(&RunProgress::Begun {
        index: None,
        stage: &stages[0],
    });
    pass(&mut push, 30, &counts(1));
    push.observe(&RunProgress::Begun {
        index: Some(0),
        stage: &stages[0],
    });
    let first = taken(&gateway, TAKEN);
    assert_eq!(
        first.first_line(),
        "PUT /prefix/metrics/job/nightly HTTP/1.1"
    );
    assert_eq!(first.field("host"), Some(&*gateway.address()));
    assert_eq!(
        first.field("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let requests = "lockgate_load_requests_total{stage=\"3000/s\",result=\"success\"}";
    assert_eq!(
        value(first.text(), requests),
        Some(0.0),
        "nothing of the warm-up"
    );
    assert_eq!(value(first.text(), "lockgate_load_rate_due"), Some(3000.0));

    pass(&mut push, 10, &counts(500));
    let second = taken(&gateway, TAKEN);
    assert_eq!(value(second.text(), requests), Some(500.0));

    let mut over = sample::stage("3000/s", 0, 1e6);
    over.counts = counts(900);
    push.observe(&RunProgress::Over(&over));
    let finishing = thread::spawn(move || push.finish());
    let text = taken(&gateway, TAKEN).text().to_owned();
    assert_eq!(
        finishing.join().unwrap(),
        Pushes {
            made: 3,
            failed: 0,
            why: None
        }
    );
    let figures = [
        (
            "lockgate_load_requests_total{stage=\"3000/s\",result=\"success\"}",
            900.0,
        ),
        (
            "lockgate_load_requests_total{stage=\"3000/s\",result=\"failure\"}",
            2.0,
        ),
        (
            "lockgate_load_failures_total{stage=\"3000/s\",kind=\"timeout\"}",
            2.0,
        ),
        (
            "lockgate_load_failures_total{stage=\"3000/s\",kind=\"body\"}",
            0.0,
        ),
        (
            "lockgate_load_latency_seconds_bucket{stage=\"3000/s\",le=\"0.0001\"}",
            0.0,
        ),
        (
            "lockgate_load_latency_seconds_bucket{stage=\"3000/s\",le=\"0.00025\"}",
            900.0,
        ),
        (
            "lockgate_load_latency_seconds_count{stage=\"3000/s\"}",
            900.0,
        ),
        (
            "lockgate_load_bytes_total{stage=\"3000/s\",direction=\"sent\"}",
            70.0,
        ),
        (
            "lockgate_load_bytes_total{stage=\"3000/s\",direction=\"received\"}",
            170.0,
        ),
        (
            "lockgate_load_connections_opened_total{stage=\"3000/s\"}",
            64.0,
        ),
        ("lockgate_load_rate_due", 0.0),
    ];
    for (series, figure) in figures {
        assert_eq!(value(&text, series), Some(figure), "{series}\n{text}");
    }
    let sum = value(&text, "lockgate_load_latency_seconds_sum{stage=\"3000/s\"}").unwrap();
    assert!((sum / (900.0 * 2e-4) - 1.0).abs() < 1e-3, "{sum}");
    assert_eq!(exposition::parse(&text).len(), 6);
}

#[test]
fn rounds_add_up_and_stages_that_have_not_begun_are_not_there() {
    let gateway = Origin::tcp();
    let stages = [closed(), constant(5.0), closed()];
    let mut push = push(&gateway, &stages);
    for index in [0, 2] {
        push.observe(&RunProgress::Begun {
            index: Some(index),
            stage: &stages[index],
        });
        taken(&gateway, TAKEN);
        let mut over = sample::stage("closed loop", 0, 1e6);
        over.counts = counts(10);
        push.observe(&RunProgress::Over(&over));
    }
    let finishing = thread::spawn(move || push.finish());
    let text = taken(&gateway, TAKEN).text().to_owned();
    finishing.join().unwrap();
    exposition::parse(&text);
    let requests = "lockgate_load_requests_total{stage=\"closed loop\",result=\"success\"}";
    assert_eq!(value(&text, requests), Some(20.0));
    assert!(
        !text.contains("5/s") && !text.contains("rate_due"),
        "{text}"
    );
}

#[test]
fn a_ladder_without_end_has_no_more_series_than_a_gateway_can_bear() {
    let gateway = Origin::tcp();
    let stages: Vec<_> = (1..=300).map(|rate| constant(f64::from(rate))).collect();
    let mut push = push(&gateway, &stages);
    assert_eq!(push.series.iter().max(), Some(&MAX_STAGES));
    for (index, stage) in stages.iter().enumerate() {
        push.observe(&RunProgress::Begun {
            index: Some(index),
            stage,
        });
        let mut over = sample::stage(&stage.name, 0, 1e6);
        over.counts = counts(1);
        push.observe(&RunProgress::Over(&over));
    }
    let text = push.ended.text();
    exposition::parse(&text);
    assert_eq!(
        value(
            &text,
            "lockgate_load_latency_seconds_count{stage=\"100/s\"}"
        ),
        Some(1.0)
    );
    assert_eq!(
        value(
            &text,
            "lockgate_load_latency_seconds_count{stage=\"(others)\"}"
        ),
        Some(200.0)
    );
}

/// The warning, after any number of ticks.
fn warned(push: &mut Push) -> String {
    let tick = RunProgress::Tick {
        elapsed: Duration::ZERO,
    };
    lockgate_testkit::eventually("a warning", || push.observe(&tick))
}

#[test]
fn a_gateway_that_refuses_is_quoted_once_and_counted_in_the_end() {
    let gateway = Origin::tcp();
    let stages = [closed()];
    let mut push = push(&gateway, &stages);
    push.observe(&RunProgress::Begun {
        index: Some(0),
        stage: &stages[0],
    });
    let no =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n\
        9\r\nno room\x1b[\r\n6\r\n\nmore\n\r\n0\r\n\r\n";
    taken(&gateway, no);
    let url = format!("http://{}/prefix/", gateway.address());
    let why = format!("{url} responds with status 500: no room\\u{{1b}}[");
    assert_eq!(
        warned(&mut push),
        format!("the push gateway does not accept the counts, and the run goes on: {why}")
    );
    pass(&mut push, 10, &counts(1));
    taken(&gateway, no);
    let finishing = thread::spawn(move || {
        let warning = push.observe(&RunProgress::Tick {
            elapsed: Duration::ZERO,
        });
        (warning, push.finish())
    });
    taken(&gateway, TAKEN);
    assert_eq!(
        finishing.join().unwrap(),
        (
            None,
            Pushes {
                made: 1,
                failed: 2,
                why: Some(why)
            }
        )
    );
}

#[test]
fn a_refusal_with_an_endless_body_keeps_its_status() {
    let gateway = Origin::tcp();
    let stages = [closed()];
    let url = format!("http://{}", gateway.address());
    let patient = Gateway::new(&url, "x")
        .unwrap()
        .with_timeout(Duration::from_secs(2));
    let mut push = Push::start(patient, &stages).unwrap();
    push.observe(&RunProgress::Begun {
        index: Some(0),
        stage: &stages[0],
    });
    let mut client: Http = gateway.http();
    client.request();
    client.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nno");
    let warning = warned(&mut push);
    assert!(warning.contains("responds with status 400"), "{warning}");
    drop((client, gateway));
    push.finish();
}

#[test]
fn a_gateway_that_hangs_holds_up_nothing_and_is_given_up() {
    // The kernel accepts connections, and there is no response.
    let silent = Origin::tcp();
    let stages = [closed()];
    let url = format!("http://{}", silent.address());
    let gateway = Gateway::new(&url, "x")
        .unwrap()
        .with_timeout(Duration::from_millis(20));
    let mut push = Push::start(gateway, &stages).unwrap();
    push.observe(&RunProgress::Begun {
        index: Some(0),
        stage: &stages[0],
    });
    let warning = warned(&mut push);
    assert!(warning.contains("no response within 20ms"), "{warning}");
    let pushes = push.finish();
    assert_eq!((pushes.made, pushes.failed), (0, 2));
}

#[test]
fn a_gateway_that_is_not_there_or_is_none_is_told_of() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let gateway = Gateway::new(&format!("http://{gone}"), "x").unwrap();
    assert!(matches!(
        gateway.put("a 1\n"),
        Err(gateway::PushError::Lost { .. })
    ));
    let none = Origin::tcp();
    let gateway = Gateway::new(&format!("http://{}", none.address()), "x").unwrap();
    for (answer, said) in [
        (&b"SSH-2.0-x\r\n\r\n"[..], "not respond with HTTP"),
        (b"", "before the connection ended"),
    ] {
        let pushing = thread::spawn({
            let gateway = gateway.clone();
            move || gateway.put("a 1\n").unwrap_err().to_string()
        });
        taken(&none, answer);
        let error = pushing.join().unwrap();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_job_is_named_in_the_path_whatever_its_name_is() {
    let gateway = Origin::tcp();
    for (job, path) in [
        ("a-b_9", "/metrics/job/a-b_9"),
        ("a/b", "/metrics/job@base64/YS9i"),
        ("..", "/metrics/job@base64/Li4"),
        ("ü", "/metrics/job@base64/w7w"),
    ] {
        let other = Gateway::new(&format!("http://{}", gateway.address()), job).unwrap();
        let pushing = thread::spawn(move || other.put(""));
        assert_eq!(
            taken(&gateway, TAKEN).first_line(),
            format!("PUT {path} HTTP/1.1")
        );
        pushing.join().unwrap().unwrap();
    }
}

#[test]
fn an_invalid_gateway_is_refused_before_the_run() {
    for wrong in [
        "",
        "localhost:9091",
        "https://a:1",
        "http://",
        "http://u:p@a:1",
        "http://a:99999",
        "http://a/?x",
        "http://a/ü",
    ] {
        assert_eq!(
            Gateway::new(wrong, "x"),
            Err(GatewayError::Url(wrong.to_owned()))
        );
    }
    assert_eq!(Gateway::new("http://a:1", ""), Err(GatewayError::Job));
    assert!(Gateway::new("http://[::1]:9091", "x").is_ok());
}
