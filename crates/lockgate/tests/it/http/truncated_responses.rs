//! Endpoints that close or reset their connection before or within a response: cause, Proxy-Status,
//! retry, and consequences for the endpoint.

use lockgate_testkit::{Http, Lockgate, Origin};

use super::{get, ok, plain_site, pooled, with_body};
use crate::scene::lockgate;

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Close,
    Reset,
}

/// Sends `part` of a response to the next connection's request and ends the connection.
fn break_off(origin: &Origin, part: &str, end: End) {
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(part);
    match end {
        End::Close => drop(upstream),
        End::Reset => upstream.stream.reset(),
    }
}

/// Two endpoints, the first of which gets the first request.
fn two_endpoints(origins: &[Origin; 2]) -> String {
    let [one, other] = origins.each_ref().map(Origin::address);
    pooled(format!(
        "endpoints = [\"{one}\", \"{other}\"]\nbalance = \"round-robin\"\n"
    ))
}

fn client_sending(gate: &Lockgate, request: impl AsRef<[u8]>) -> Http {
    let mut client = Http::connect(gate.address());
    client.send(request);
    client
}

/// RFC 9209 §2.3.8, §2.3.18.
#[test]
fn closed_and_reset_endpoints_have_their_own_causes() {
    const PART: &str = "HTTP/1.1 200 O";
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    for (part, end, error, cause) in [
        ("", End::Close, "connection_terminated", "upstream_closed"),
        ("", End::Reset, "connection_terminated", "upstream_reset"),
        (
            PART,
            End::Close,
            "http_response_incomplete",
            "upstream_closed",
        ),
        (
            PART,
            End::Reset,
            "http_response_incomplete",
            "upstream_reset",
        ),
    ] {
        let mut client = client_sending(&gate, get("/"));
        break_off(&origin, part, end);
        let got = client.answer();
        assert_eq!(got.status(), 502, "{part:?} {end:?}");
        let status = got.field("proxy-status").unwrap();
        assert!(
            status.contains(&format!("error={error};")),
            "{part:?} {end:?}: {status}"
        );
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&cause.into(), &"upstream".into()),
            "{part:?}: {line}"
        );
    }
    let endpoint = format!("endpoint=\"{}\"", origin.address());
    for reason in ["connection_terminated", "http_response_incomplete"] {
        let reason = format!("reason=\"{reason}\"");
        gate.wait_for_sample(
            "lockgate_upstream_failures_total",
            &[&endpoint, &reason],
            2.0,
        );
    }
}

#[test]
fn a_closed_or_reset_response_body_has_its_cause() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    for (end, cause) in [
        (End::Close, "upstream_closed"),
        (End::Reset, "upstream_reset"),
    ] {
        let mut client = client_sending(&gate, get("/"));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
        assert!(client.head().starts_with("HTTP/1.1 200"));
        client.expect("hel");
        match end {
            End::Close => drop(upstream),
            End::Reset => upstream.stream.reset(),
        }
        client.wait_closed();
        assert_eq!(gate.next_line()["cause"], cause);
    }
}

#[test]
fn a_get_with_a_truncated_response_head_is_retried() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let mut gate = lockgate().start(&two_endpoints(&origins));
    let mut client = client_sending(&gate, get("/"));
    break_off(&origins[0], "HTTP/1.1 200 OK\r\nX-", End::Close);
    let mut upstream = origins[1].http();
    upstream.request();
    upstream.send(ok("other"));
    assert_eq!(client.answer().text(), "other");
    assert_eq!(gate.next_line()["retries"], 1);
}

#[test]
fn an_endpoint_that_truncates_a_response_head_is_avoided() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let gate = lockgate().start(&two_endpoints(&origins));
    let mut client = client_sending(&gate, with_body("POST", b"pay"));
    break_off(&origins[0], "HTTP/1.1 200 OK\r\nX-", End::Close);
    assert_eq!(client.answer().status(), 502);
    // By turns the third would be the first endpoint's.
    for _ in 0..2 {
        let mut client = client_sending(&gate, get("/next"));
        let mut upstream = origins[1].http();
        assert_eq!(upstream.request().first_line(), "GET /next HTTP/1.1");
        upstream.send(ok("next"));
        assert_eq!(client.answer().text(), "next");
    }
}

/// An idle connection may be closed at any time; one on which a response has begun was not stale.
#[test]
fn a_post_with_a_truncated_response_head_is_not_retried() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = client_sending(&gate, get("/"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(ok("first"));
    assert_eq!(client.answer().text(), "first");
    client.send(with_body("POST", b"pay"));
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\n");
    drop(upstream);
    let got = client.answer();
    assert_eq!(got.status(), 502);
    assert!(
        got.head.contains("http_response_incomplete"),
        "{}",
        got.head
    );
}
