//! Traces that requests are a part of (W3C Trace Context).

use std::collections::HashSet;

use lockgate_testkit::{Http, Lockgate, Message, Origin};

use super::{OK, plain_site};
use crate::scene::lockgate;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The request as the origin sees it, and the `trace_id` of its line in the log.
fn forwarded_and_logged(
    gate: &Lockgate,
    origin: &Origin,
    lines: &str,
) -> (Message, Option<String>) {
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{lines}\r\n"
    ));
    let mut upstream = origin.http();
    let seen = upstream.request();
    upstream.send(OK.replace("200 OK\r\n", "200 OK\r\nConnection: close\r\n"));
    client.rest();
    let id = seen.field("x-request-id").unwrap().to_owned();
    let line = gate.line("its line", |line| line["id"] == id.as_str());
    (seen, line["trace_id"].as_str().map(str::to_owned))
}

#[test]
fn only_a_valid_traceparent_is_forwarded() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let (seen, trace) = forwarded_and_logged(
        &gate,
        &origin,
        &format!("TraceParent: {GOOD}\r\nTracestate: a=1\r\ntracestate: b=2\r\n"),
    );
    assert_eq!(
        (seen.field("traceparent"), trace.as_deref()),
        (Some(GOOD), Some(TRACE))
    );
    assert_eq!(seen.all("tracestate").collect::<Vec<_>>(), ["a=1", "b=2"]);
    for lines in [
        String::new(),
        "Tracestate: a=1\r\n".to_owned(),
        format!(
            "Traceparent: {}\r\nTracestate: a=1\r\n",
            GOOD.to_uppercase()
        ),
        format!("Traceparent: {GOOD}\r\nTraceparent: {GOOD}\r\nTracestate: a=1\r\n"),
        format!("Traceparent: {}\r\nTracestate: a=1\r\n", "0".repeat(10_000)),
        // RFC 9110 §7.6.1: it was for us only.
        format!("Connection: TraceParent\r\nTraceparent: {GOOD}\r\nTracestate: a=1\r\n"),
    ] {
        let (seen, trace) = forwarded_and_logged(&gate, &origin, &lines);
        assert_eq!(
            (seen.field("traceparent"), seen.field("tracestate"), trace),
            (None, None, None),
            "{lines}"
        );
    }
}

#[test]
fn a_trace_begins_without_traceparent_and_is_logged() {
    let origin = Origin::tcp();
    let gate = lockgate()
        .workers(2)
        .start(&(plain_site(origin.address()) + "trace = true\n"));
    let mut traces = HashSet::new();
    // No client can have it removed, or pass another one off as this one.
    let hidden = format!("Connection: traceparent\r\nTraceparent: {GOOD}\r\nTracestate: a=1\r\n");
    for lines in [
        "",
        "Connection: traceparent\r\n",
        &hidden,
        "Traceparent: x\r\nTracestate: a=1\r\n",
        "",
    ] {
        let (seen, trace) = forwarded_and_logged(&gate, &origin, lines);
        let parts: Vec<_> = seen.field("traceparent").unwrap().split('-').collect();
        assert_eq!(
            (parts[0], Some(parts[1].to_owned()), parts[3]),
            ("00", trace, "01"),
            "{lines}"
        );
        assert_eq!((parts[1].len(), parts[2].len()), (32, 16));
        assert_eq!(seen.field("tracestate"), None);
        assert!(traces.insert(parts[1].to_owned()) && traces.insert(parts[2].to_owned()));
    }
    let (seen, trace) = forwarded_and_logged(&gate, &origin, &format!("traceparent: {GOOD}\r\n"));
    assert_eq!(
        (seen.field("traceparent"), trace.as_deref()),
        (Some(GOOD), Some(TRACE))
    );
}

#[test]
fn the_sampled_flag_follows_the_configured_share() {
    let origin = Origin::tcp().answering(|request| {
        let body = request.field("traceparent").unwrap_or_default();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    });
    let toml = plain_site(origin.address())
        + "trace = \"20%\"\n[site.\":0\".path.\"/none\"]\ntrace = false\n";
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    let mut recorded = 0;
    for _ in 0..1_000 {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        recorded += usize::from(client.answer().text().ends_with("-01"));
    }
    // Ten deviations from 200, of which each is 13.
    assert!((70..330).contains(&recorded), "{recorded}");
    client.send("GET /none HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.answer().text(), "");
}
