//! Requests that an endpoint does not answer: which are retried, and that nothing is done twice.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_testkit::{
    Http, Lockgate, Message, Origin, Serving, Tls, bytes, eventually, server_config,
};
use serde_json::Value;

use super::{get, ok, plain_site, pooled, with_body};
use crate::scene::{NAME, Site, deserted, ended, lockgate, text};

/// The same body in two pieces.
fn chunked(method: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{method} / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut out = head.into_bytes();
    for piece in body.chunks(body.len() / 2 + 1) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\nX-Sum: 1\r\n\r\n");
    out
}

/// A client, and the origin's end of an idle connection that has served it.
fn kept_alive(gate: &Lockgate, origin: &Origin) -> (Http, Http) {
    let mut client = Http::connect(gate.address());
    client.send(get("/first"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(ok("first"));
    assert_eq!(client.answer().text(), "first");
    (client, upstream)
}

/// Every response is broken off before its first byte, once the request was read.
fn breaking_origin() -> (Serving, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let serving = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        http.request();
        seen.fetch_add(1, Ordering::SeqCst);
    });
    (serving, count)
}

fn expect_broken(answer: &Message) {
    assert_eq!(answer.status(), 502, "{}", answer.head);
    let status = answer.field("proxy-status").unwrap();
    assert!(status.contains("error=connection_terminated"), "{status}");
}

#[test]
fn a_stale_keep_alive_connection_fails_no_request() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let body = bytes(1, 3_000);
    for request in [
        get("/").into_bytes(),
        with_body("POST", &body),
        chunked("POST", &body),
    ] {
        for reset in [false, true] {
            let (mut client, upstream) = kept_alive(&gate, &origin);
            if reset {
                upstream.stream.reset();
            } else {
                drop(upstream);
            }
            ended(&origin);
            client.send(&request);
            let mut upstream = origin.http();
            let message = upstream.request();
            assert!(message.body.is_empty() || message.body == body);
            upstream.send(ok("second"));
            assert_eq!(client.answer().text(), "second");
        }
    }
}

/// RFC 9112 §9.3.1: a client may repeat an idempotent request on a new connection; RFC 9110 §9.2.2:
/// which methods are idempotent.
#[test]
fn idempotent_requests_on_a_closing_connection_are_retried() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let (small, large) = (bytes(1, 3_000), bytes(2, 60_000));
    for request in [
        get("/").into_bytes(),
        b"DELETE / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec(),
        with_body("PUT", b""),
        with_body("PUT", &small),
        with_body("PUT", &large),
        chunked("PUT", &small),
        chunked("PUT", &large),
    ] {
        for reset in [false, true] {
            let (mut client, mut upstream) = kept_alive(&gate, &origin);
            client.send(&request);
            let first = upstream.request();
            if reset {
                upstream.stream.reset();
            } else {
                drop(upstream);
            }
            let mut upstream = origin.http();
            let second = upstream.request();
            assert_eq!(
                (&first.head, &first.trailers),
                (&second.head, &second.trailers)
            );
            assert!(
                first.body == second.body,
                "{}: the same body",
                first.first_line()
            );
            upstream.send(ok("second"));
            assert_eq!(client.answer().text(), "second");
        }
    }
}

#[test]
fn a_delivered_post_is_never_retried() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    for request in [
        with_body("POST", b"pay"),
        chunked("POST", b"pay"),
        with_body("PATCH", &bytes(1, 30_000)),
    ] {
        for reset in [false, true] {
            let (mut client, mut upstream) = kept_alive(&gate, &origin);
            client.send(&request);
            upstream.request();
            if reset {
                upstream.stream.reset();
            } else {
                drop(upstream);
            }
            expect_broken(&client.answer());
            // The next bytes are the next request.
            client.send(get("/next"));
            let mut upstream = origin.http();
            assert_eq!(upstream.request().first_line(), "GET /next HTTP/1.1");
            upstream.send(ok("next"));
            assert_eq!(client.answer().text(), "next");
        }
    }
}

#[test]
fn an_unfinished_body_continues_on_the_retry() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let (mut client, mut upstream) = kept_alive(&gate, &origin);
    let body = bytes(1, 200_000);
    let request = with_body("PUT", &body);
    let head = request.len() - body.len();
    client.send(&request[..head + 10_000]);
    upstream.head();
    upstream.exactly(10_000);
    drop(upstream);
    let mut upstream = origin.http();
    upstream.head();
    assert!(upstream.exactly(10_000) == body[..10_000]);
    client.send(&request[head + 10_000..]);
    assert!(upstream.exactly(190_000) == body[10_000..]);
    upstream.send(ok("whole"));
    assert_eq!(client.answer().text(), "whole");
}

#[test]
fn a_body_beyond_64_kilobytes_is_not_retried() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let (mut client, mut upstream) = kept_alive(&gate, &origin);
    client.send(with_body("PUT", &bytes(1, 70_000)));
    upstream.request();
    drop(upstream);
    expect_broken(&client.answer());
    client.send(get("/next"));
    assert_eq!(origin.http().request().first_line(), "GET /next HTTP/1.1");
}

/// Two endpoints, the first of which gets the first request.
fn two_endpoints(origins: &[Origin; 2], more: &str) -> String {
    let [one, other] = origins.each_ref().map(Origin::address);
    pooled(format!(
        "endpoints = [\"{one}\", \"{other}\"]\nbalance = \"round-robin\"\n{more}"
    ))
}

#[test]
fn an_idempotent_request_is_retried_on_another_endpoint() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let mut gate = lockgate().start(&two_endpoints(&origins, ""));
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    origins[0].http().request();
    let mut upstream = origins[1].http();
    upstream.request();
    upstream.send(ok("other"));
    assert_eq!(client.answer().text(), "other");
    let line = gate.next_line();
    assert_eq!(
        (&line["retries"], &line["endpoint"]),
        (&1.into(), &origins[1].address().into()),
        "{line}"
    );
    let failed = format!("endpoint=\"{}\"", origins[0].address());
    gate.wait_for_sample("lockgate_upstream_retries_total", &[&failed], 1.0);
    gate.wait_for_sample(
        "lockgate_upstream_failures_total",
        &[&failed, "reason=\"connection_terminated\""],
        1.0,
    );
}

#[test]
fn a_post_is_not_retried_on_another_endpoint() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let mut gate = lockgate().start(&two_endpoints(&origins, ""));
    let mut client = Http::connect(gate.address());
    client.send(with_body("POST", b"pay"));
    origins[0].http().request();
    expect_broken(&client.answer());
    let line = gate.next_line();
    assert_eq!(
        (&line["retries"], &line["cause"]),
        (&Value::Null, &"upstream_closed".into()),
        "{line}"
    );
    // The one that broke off is avoided.
    client.send(get("/next"));
    assert_eq!(
        origins[1].http().request().first_line(),
        "GET /next HTTP/1.1"
    );
}

#[test]
fn an_unsent_post_is_retried_on_another_endpoint() {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let origin = Origin::tcp().answering(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        ok("done")
    });
    let toml = pooled(format!(
        "endpoints = [\"{}\", \"{}\"]\nbalance = \"round-robin\"\nretry = false",
        deserted(),
        origin.address()
    ));
    let gate = lockgate().workers(2).start(&toml);
    for _ in 0..20 {
        let mut client = Http::connect(gate.address());
        client.send(with_body("POST", b"pay"));
        assert_eq!(client.answer().text(), "done");
    }
    assert_eq!(served.load(Ordering::SeqCst), 20);
}

#[test]
fn without_another_endpoint_the_client_gets_the_first_error() {
    let (origin, count) = breaking_origin();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    expect_broken(&client.answer());
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["retries"]),
        (&"upstream_closed".into(), &Value::Null),
        "{line}"
    );
    assert_eq!(line["endpoint"], origin.address());
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn without_retries_only_stale_keep_alive_connections_are_replaced() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let gate = lockgate().start(&two_endpoints(&origins, "retry = false"));
    let (mut client, mut upstream) = kept_alive(&gate, &origins[0]);
    // The other one's turn.
    client.send(get("/broken"));
    origins[1].http().request();
    expect_broken(&client.answer());
    client.send(get("/again"));
    upstream.request();
    drop(upstream);
    let mut upstream = origins[0].http();
    upstream.request();
    upstream.send(ok("again"));
    assert_eq!(client.answer().text(), "again");
}

#[test]
fn the_retry_budget_protects_a_failing_pool() {
    let ((one, first), (other, second)) = (breaking_origin(), breaking_origin());
    let toml = pooled(format!(
        "endpoints = [\"{}\", \"{}\"]\nretry = {{ times = 3, budget = \"10%\" }}",
        one.address(),
        other.address()
    ));
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    for _ in 0..100 {
        client.send(get("/"));
        expect_broken(&client.answer());
    }
    let asked = first.load(Ordering::SeqCst) + second.load(Ordering::SeqCst);
    // Ten are saved up, and of a hundred ten more.
    assert!((110..=120).contains(&asked), "{asked}");
}

#[test]
fn all_pending_requests_of_a_dying_endpoint_are_retried() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let gate = lockgate().start(&two_endpoints(&origins, ""));
    let mut clients: Vec<_> = (0..80).map(|_| Http::connect(gate.address())).collect();
    for client in &mut clients {
        client.send(get("/"));
    }
    let under_way = |origin: &Origin| -> Vec<Http> {
        (0..40)
            .map(|_| {
                let mut upstream = origin.http();
                upstream.request();
                upstream
            })
            .collect()
    };
    let (dying, mut living) = (under_way(&origins[0]), under_way(&origins[1]));
    drop(dying);
    living.extend(under_way(&origins[1]));
    for upstream in &mut living {
        upstream.send(ok("made good"));
    }
    for client in &mut clients {
        assert_eq!(client.answer().text(), "made good");
    }
}

#[test]
fn a_response_timeout_is_a_504_or_a_retry() {
    let timeout = "timeouts = { response = \"1s\" }\n";
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&(timeout.to_owned() + &plain_site(origin.address())));
    for request in [get("/").into_bytes(), with_body("POST", b"pay")] {
        let mut client = Http::connect(gate.address());
        client.send(&request);
        let mut upstream = origin.http();
        upstream.request();
        let answer = client.answer();
        assert_eq!(answer.status(), 504);
        assert!(
            answer
                .field("proxy-status")
                .unwrap()
                .contains("error=http_response_timeout"),
            "{}",
            answer.head
        );
        assert_eq!(gate.next_line()["cause"], "too_slow");
        // The request that was sent is not called back, but its connection is closed.
        assert!(upstream.rest().is_empty());
    }
    let origins = [Origin::tcp(), Origin::tcp()];
    let gate = lockgate().start(&(timeout.to_owned() + &two_endpoints(&origins, "")));
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut silent = origins[0].http();
    silent.request();
    let mut upstream = origins[1].http();
    upstream.request();
    upstream.send(ok("other"));
    assert_eq!(client.answer().text(), "other");
}

/// RFC 9110 §15.6.5: the head of a response has its timeout as a whole, however often a byte of it
/// comes.
#[test]
fn a_trickled_response_head_is_a_timeout() {
    let origin = Origin::tcp();
    let toml = "timeouts = { response = \"300ms\" }\n".to_owned() + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nX: ");
    eventually("nobody listens any more", || {
        // It may be the byte too many.
        let _ = upstream.stream.write_all(b"y");
        (!upstream.stream.is_quiet(Duration::from_millis(20))).then_some(())
    });
    let answer = client.answer();
    assert_eq!(answer.status(), 504);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=http_response_timeout"),
        "{}",
        answer.head
    );
}

#[test]
fn an_endpoint_that_stops_reading_the_body_is_a_timeout() {
    let origin = Origin::tcp();
    let toml = "timeouts = { response = \"300ms\" }\n".to_owned() + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    let mut sender = client.stream.another();
    let sending = std::thread::spawn(move || {
        // More than any socket holds, so that it is not read.
        let _ = sender.write_all(&with_body("PUT", &bytes(1, 64 << 20)));
    });
    let mut upstream = origin.http();
    upstream.head();
    let answer = client.answer();
    assert_eq!(answer.status(), 504);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=connection_write_timeout"),
        "{}",
        answer.head
    );
    drop(client);
    sending.join().unwrap();
}

#[test]
fn an_early_response_does_not_count_as_latency() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    let request = with_body("PUT", &bytes(1, 1_000));
    client.send(&request[..request.len() - 1]);
    let mut upstream = origin.http();
    upstream.head();
    upstream.send(ok("enough"));
    assert_eq!(client.answer().text(), "enough");
    assert!(
        !gate
            .metrics()
            .contains("lockgate_upstream_latency_ewma_seconds{")
    );
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(ok("whole"));
    assert_eq!(client.answer().text(), "whole");
    assert!(
        gate.metrics()
            .contains("lockgate_upstream_latency_ewma_seconds{")
    );
}

#[test]
fn an_endpoint_closing_silently_after_each_response_fails_nothing() {
    let origin = Origin::tcp().serve(|wire| {
        let mut http = Http::over(wire.another());
        if let Some(request) = http.next_request() {
            http.send(ok(&request.body.len().to_string()));
        }
    });
    let gate = lockgate().workers(2).start(&plain_site(origin.address()));
    let address = gate.address();
    let (body, asked) = (bytes(1, 10_000), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for method in ["GET", "PUT", "PUT", "DELETE"] {
            let (body, asked) = (&body, &asked);
            scope.spawn(move || {
                let mut client = Http::connect(address);
                for _ in 0..100 {
                    let body = if method == "PUT" {
                        body.as_slice()
                    } else {
                        b""
                    };
                    client.send(with_body(method, body));
                    let answer = client.answer();
                    assert_eq!(
                        (answer.status(), answer.text()),
                        (200, body.len().to_string().as_str())
                    );
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(asked.load(Ordering::SeqCst), 400);
}

#[test]
fn a_stale_keep_alive_connection_under_tls_fails_no_request() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let served = server_config(&site.issued, None);
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\ntls = {{ name = \"{NAME}\", ca = \"{ca}\" }}",
        origin.address()
    )));
    let accept = || Http::over(Tls::accept(&served, origin.accept()).unwrap());
    // It ends by close_notify, by a mere close, or as the request arrives.
    for (way, method) in [
        (0, "GET"),
        (0, "POST"),
        (1, "GET"),
        (1, "POST"),
        (2, "GET"),
        (2, "PUT"),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(get("/first"));
        let mut upstream = accept();
        upstream.request();
        upstream.send(ok("first"));
        assert_eq!(client.answer().text(), "first");
        let request = with_body(method, b"body");
        match way {
            0 => {
                upstream.stream.finish();
                drop(upstream);
                ended(&origin);
                client.send(&request);
            }
            1 => {
                drop(upstream);
                ended(&origin);
                client.send(&request);
            }
            _ => {
                client.send(&request);
                assert_eq!(upstream.request().body, b"body");
                drop(upstream);
            }
        }
        let mut upstream = accept();
        assert_eq!(upstream.request().body, b"body");
        // The next round begins with a new one.
        upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecond");
        assert_eq!(client.answer().text(), "second", "{way} {method}");
    }
}

#[test]
fn a_retry_repeats_the_proxy_protocol_header() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\nproxy_protocol = \"v1\"",
        origin.address()
    )));
    let introduced = || {
        let mut upstream = origin.http();
        assert!(upstream.line().starts_with("PROXY TCP4 127.0.0.1 "));
        upstream
    };
    let mut client = Http::connect(gate.address());
    client.send(get("/first"));
    let mut upstream = introduced();
    upstream.request();
    upstream.send(ok("first"));
    assert_eq!(client.answer().text(), "first");
    client.send(with_body("PUT", b"body"));
    assert_eq!(upstream.request().body, b"body");
    drop(upstream);
    let mut upstream = introduced();
    assert_eq!(upstream.request().body, b"body");
    upstream.send(ok("second"));
    assert_eq!(client.answer().text(), "second");
}

#[test]
fn a_timeout_behind_proxy_protocol_is_retried_elsewhere() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let timeout = "timeouts = { response = \"1s\" }\n";
    let gate = lockgate()
        .start(&(timeout.to_owned() + &two_endpoints(&origins, "proxy_protocol = \"v1\"")));
    let introduced = |origin: &Origin| {
        let mut upstream = origin.http();
        assert!(upstream.line().starts_with("PROXY TCP4 127.0.0.1 "));
        upstream
    };
    let mut clients = [Http::connect(gate.address()), Http::connect(gate.address())];
    let mut upstreams = Vec::new();
    for (client, origin) in clients.iter_mut().zip(&origins) {
        client.send(get("/first"));
        let mut upstream = introduced(origin);
        upstream.request();
        upstream.send(ok("first"));
        assert_eq!(client.answer().text(), "first");
        upstreams.push(upstream);
    }
    // Its own connection, to the endpoint of the next turn.
    clients[0].send(get("/second"));
    assert_eq!(upstreams[0].request().first_line(), "GET /second HTTP/1.1");
    let mut upstream = introduced(&origins[1]);
    assert_eq!(upstream.request().first_line(), "GET /second HTTP/1.1");
    upstream.send(ok("second"));
    assert_eq!(clients[0].answer().text(), "second");
}

#[test]
fn expect_100_continue_is_followed_on_the_retry() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let (mut client, mut upstream) = kept_alive(&gate, &origin);
    client.send(
        "PUT / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    );
    upstream.head();
    drop(upstream);
    let mut upstream = origin.http();
    upstream.head();
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.answer().status(), 100);
    client.send("body");
    upstream.expect("body");
    upstream.send(ok("taken"));
    assert_eq!(client.answer().text(), "taken");
}

#[test]
fn pipelined_requests_are_answered_once_and_in_order() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(
        [
            get("/1").into_bytes(),
            with_body("POST", b"pay"),
            get("/3").into_bytes(),
        ]
        .concat(),
    );
    for (line, name) in [
        ("GET /1 HTTP/1.1", "one"),
        ("POST / HTTP/1.1", "two"),
        ("GET /3 HTTP/1.1", "three"),
    ] {
        // None announces that it closes; the close is seen before the next is sent.
        let mut upstream = origin.http();
        assert_eq!(upstream.request().first_line(), line);
        upstream.send(
            [
                ok(name),
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nextra".to_vec(),
            ]
            .concat(),
        );
        assert_eq!(client.answer().text(), name);
    }
}

#[test]
fn an_http_1_0_request_is_retried_like_any_other() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let (_client, mut upstream) = kept_alive(&gate, &origin);
    let mut client = Http::connect(gate.address());
    client.send_in(1, "GET /old HTTP/1.0\r\nHost: a.test\r\n\r\n");
    upstream.request();
    drop(upstream);
    let mut upstream = origin.http();
    assert_eq!(upstream.request().first_line(), "GET /old HTTP/1.1");
    upstream.send(ok("second"));
    assert_eq!(client.answer().text(), "second");
    client.expect_end();
}
