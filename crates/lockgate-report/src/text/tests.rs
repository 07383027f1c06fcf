//! Terminal reports of results made by hand.

use std::time::Duration;

use super::*;
use crate::sample;
use lockgate_load::result::{RunEnd, TargetCounts};

fn has(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is not in\n{text}");
}

#[test]
fn a_run_is_said_with_its_model_and_all_its_figures() {
    let text = render(&sample::report(&["closed loop"]));
    has(
        &text,
        "lockgate load https://a.example/\n  target       https://a.example/ → status 200, 170 bytes, HTTP/1.1, TLS 1.3",
    );
    has(
        &text,
        "closed loop: a slow response delays the next request",
    );
    has(
        &text,
        "64 connections on 2 threads, pinned to CPUs 0, 1; time limit of a request 10.0 s",
    );
    let mut over_http2 = sample::report(&[]);
    over_http2.run.streams = Some(10);
    has(
        &render(&over_http2),
        "64 connections of 10 streams each on 2 threads",
    );
    has(&text, "501 requests before the first stage");
    has(
        &text,
        "closed loop: 10.0 s\n  succeeded  1,000  100/s\n  failed         0    0 %\n",
    );
    has(&text, "3 exchanges were unfinished at the end");
    assert!(!text.contains("not counted in its rate"));
    for name in [
        "p50", "p75", "p90", "p95", "p99", "p99.9", "p99.99", "max", "mean", "sd", "tm95", "tm99",
        "tm99.9",
    ] {
        has(&text, &format!("\n  {name} "));
    }
    has(&text, "statuses     200: 1,000");
    has(
        &text,
        "connections  64 opened, 10 of them resumed a TLS session; 936 exchanges",
    );
    has(&text, "sent         90.0 KB, 9.00 KB/s");
    has(&text, "generator  800 ms  1.20 s    2.00 ms");
    has(
        &text,
        "lockgate   2.00 s  3.00 s    5.00 ms  8.00 MB  9.28 MB       20.0 KB",
    );
    has(&text, "busiest thread took 45.0 % of a CPU");
    assert!(!text.contains("***") && !text.contains("service") && !text.contains("lateness"));
}

#[test]
fn an_open_loop_shows_service_time_and_its_own_lateness_beside_latency() {
    let text = render(&sample::ladder(1));
    has(&text, "open loop: latency from when each request was due");
    has(&text, "latency  service  connect  lateness");
}

#[test]
fn failures_are_told_by_kind_with_their_first_example() {
    let mut report = sample::report(&["closed loop"]);
    sample::fail(
        &mut report.stages[0],
        FailureKind::Timeout,
        9,
        "no answer\x1b[2J within 1 s",
    );
    sample::fail(
        &mut report.stages[0],
        FailureKind::Status,
        1,
        "503 where 200 was expected",
    );
    report.stages[0].counts.late = 1;
    let text = render(&report);
    has(
        &text,
        "\n  1 success after the end of the stage, not counted in its rate\n",
    );
    has(
        &text,
        "failed        10  0.99 %\n    timeout          9  no answer\\u{1b}[2J within 1 s\n",
    );
    has(
        &text,
        "\n    status           1  503 where 200 was expected\n",
    );
    assert!(!text.contains("connect  "));
}

#[test]
fn latency_says_of_which_share_it_is_where_requests_failed() {
    let mut report = sample::ladder(2);
    sample::fail(&mut report.stages[1], FailureKind::Timeout, 500, "late");
    let text = render(&report);
    has(
        &text,
        "latencies are of requests that succeeded: 80.0 % in 2000/s\n",
    );
    has(&text, "\n  latency of the 80.0 % that succeeded\n");
    assert!(!render(&sample::ladder(2)).contains("that succeeded"));
}

#[test]
fn times_to_connect_and_to_the_first_byte_are_one_line() {
    has(
        &render(&sample::report(&["closed loop"])),
        "\n  times        connect p50 200 µs, p99 –; TLS p50 150 µs, p99 –; first byte p50 400 µs, p99 400 µs\n",
    );
}

#[test]
fn each_of_several_targets_has_a_line() {
    let mut report = sample::report(&["closed loop"]);
    report.run.targets = ["http://a/", "http://b/"].map(str::to_owned).to_vec();
    let stage = &mut report.stages[0];
    stage.targets = vec![TargetCounts::new(), TargetCounts::new()];
    stage.targets[0].latency.record_n(1_000_000, 300).unwrap();
    stage.targets[0].time = Duration::from_millis(300);
    stage.targets[1].failures[FailureKind::Status as usize] = 100;
    stage.targets[1].time = Duration::from_millis(100);
    let text = render(&report);
    has(&text, "  target     requests  failed      p50      p99");
    has(&text, "  http://a/       300       0  1.00 ms  1.00 ms");
    has(
        &text,
        "(75.0 %)\n  http://b/       100     100        –        –",
    );
    let page = crate::html::page(&[("a", &report)]);
    has(&page, "<h2>Targets</h2>");
    has(&page, "<code>http://b/</code>");
}

#[test]
fn cpu_time_below_the_clock_of_the_kernel_is_no_zero() {
    let mut report = sample::report(&["closed loop"]);
    report.stages[0].generator.user = Duration::ZERO;
    report.stages[0].generator.system = Duration::ZERO;
    let text = render(&report);
    let line = text.lines().find(|line| line.starts_with("  generator"));
    assert!(!line.unwrap().contains('0'), "{line:?}");
}

#[test]
fn invalid_and_partial_results_say_so_before_their_figures() {
    let mut report = sample::ladder(3);
    report.stages[1]
        .invalid
        .push(sample::late("the generator was late"));
    report.end = RunEnd::Interrupted;
    let text = render(&report);
    has(
        &text,
        "\n*** INTERRUPTED: these are the measurements until then\n",
    );
    has(
        &text,
        "\n*** INVALID: the figures of 1 of 3 stages do not describe the target\n***   2000/s: the generator was late\n",
    );
    let line = text
        .lines()
        .find(|line| line.starts_with("  2000/s"))
        .unwrap();
    assert!(line.ends_with("INVALID"), "{line}");
    assert!(text.find("***") < text.find("p99"));
    report.end = RunEnd::Stopped(503);
    has(
        &render(&report),
        "*** STOPPED by a response with status 503",
    );
}

#[test]
fn rounds_of_the_same_stage_have_a_median_and_a_spread() {
    let mut report = sample::report(&["closed loop"; 3]);
    for (at, seconds) in [8, 10, 12].into_iter().enumerate() {
        report.stages[at].round = at + 1;
        report.stages[at].elapsed = Duration::from_secs(seconds);
    }
    let text = render(&report);
    has(&text, "  stage        round    time  ok/s");
    has(
        &text,
        "  3 × closed loop, successes    100/s   83.3/s    125/s  41.7 %\n",
    );
    has(&text, "3 × closed loop, p99");
    has(&text, "\nclosed loop, round 3: 12.0 s\n");
}

#[test]
fn nothing_at_all_is_still_a_report() {
    let mut report = sample::report(&[]);
    has(&render(&report), "*** INVALID: no stage was measured");
    let mut stage = sample::stage("closed loop", 0, 1e6);
    (stage.elapsed, stage.seconds) = (Duration::ZERO, Vec::new());
    report.stages.push(stage);
    let text = render(&report);
    has(&text, "  succeeded  0  0/s\n  failed     0    –\n");
    has(&text, "  p99           –");
    assert!(!text.contains("NaN") && !text.contains("inf"));
}
