//! Bodies as they pass: whole, truncated, in any pieces, both ways at once.

use std::io::{Read, Write};

use lockgate_testkit::{Http, Origin, Tls, bytes, server_config};

use super::{plain_site, secure_site};
use crate::scene::{NAME, Site, ended, lockgate, text};

/// The same data in chunks of many sizes and spellings, with extensions and trailers.
fn chunked(data: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut left = data;
    for size in [1, 2, 15, 16, 17, 255, 3, 4095, 5000, 20_000]
        .into_iter()
        .cycle()
    {
        let (here, rest) = left.split_at(size.min(left.len()));
        if here.is_empty() {
            break;
        }
        let line = match size % 3 {
            0 => format!("{:X}\r\n", here.len()),
            1 => format!("000{:x};name=\"value; \\\" \"\r\n", here.len()),
            _ => format!("{:x} ;a\r\n", here.len()),
        };
        body.extend_from_slice(line.as_bytes());
        body.extend_from_slice(here);
        body.extend_from_slice(b"\r\n");
        left = rest;
    }
    body.extend_from_slice(b"0;last\r\nX-Sum: 17\r\nx-more:  a b \r\n\r\n");
    body
}

/// RFC 9112 §7.1: chunks, and the pieces in which they come, mean nothing.
#[test]
fn chunked_bodies_with_trailers_pass_in_any_pieces() {
    let origin = Origin::tcp();
    let gate = lockgate().workers(2).start(&plain_site(origin.address()));
    for (len, steps) in [
        (40, &[1, 2, 3, 1000][..]),
        (70_000, &[997, 16_384, 100_000]),
    ] {
        let data = bytes(len as u64, len);
        let body = chunked(&data);
        for step in steps {
            let mut client = Http::connect(gate.address());
            client.send_in(
                *step,
                b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
            );
            let mut upstream = origin.http();
            std::thread::scope(|scope| {
                scope.spawn(|| client.send_in(*step, &body));
                let request = upstream.request();
                assert!(request.body == data, "a body of {len} in steps of {step}");
                assert_eq!(request.trailers, "X-Sum: 17\r\nx-more: a b\r\n");
            });
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    upstream.send_in(
                        *step,
                        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                    );
                    upstream.send_in(*step, &body);
                });
                let answer = client.answer();
                assert!(answer.body == data, "an answer of {len} in steps of {step}");
                assert_eq!(answer.trailers, "X-Sum: 17\r\nx-more: a b\r\n");
            });
            drop(upstream);
            // A POST must not meet the connection that is being closed.
            ended(&origin);
        }
    }
}

/// A field that a route sets or removes is not the peer's, neither in the head nor in the trailers.
#[test]
fn trailers_matching_a_header_rule_are_dropped() {
    let origin = Origin::tcp();
    let rules = "request_headers = { x-user = \"nobody\", x-drop = false, x-both = { add = \"2\" } }\n\
                 headers = { server = false, x-frame = \"DENY\" }\n";
    let gate = lockgate().start(&(plain_site(origin.address()) + rules));
    let mut client = Http::connect(gate.address());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut upstream = origin.http();
    upstream.head();
    // In pieces behind data that has gone already; below, together with it.
    client.send("2\r\nhi\r\n");
    upstream.expect("2\r\nhi\r\n");
    client.send_in(
        1,
        "0\r\nX-User: root\r\nx_user: root\r\nX-Sum: 17\r\nX-DROP: 1\r\nX-Both: 1\r\n\r\n",
    );
    upstream.expect("0\r\nX-Sum: 17\r\nX-Both: 1\r\n\r\n");
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nServer: x\r\nX-Frame: ALL\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(client.answer().trailers, "X-Sum: 1\r\n");
    // None is left of these: it is an ordinary end.
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}2\r\nhi\r\n0\r\nX-User: root\r\n\r\n"));
    upstream.head();
    upstream.expect("2\r\nhi\r\n0\r\n\r\n");
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nServer: x\r\n\r\n");
    assert_eq!(client.answer().trailers, "");
}

#[test]
fn five_megabyte_bodies_pass_unchanged_with_and_without_tls() {
    const LEN: usize = 5 * 1024 * 1024;
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let served = server_config(&site.issued, None);
    let (plain, secure) = (Origin::tcp(), Origin::tcp());
    let sites = plain_site(plain.address())
        + &secure_site(&site.cert, "pool:app")
        + &format!(
            "[pool.app]\nendpoints = [\"{}\"]\ntls = {{ name = \"{NAME}\", ca = \"{}\" }}\n",
            secure.address(),
            text(&ca)
        );
    let gate = lockgate().workers(2).start(&sites);
    let data = bytes(5, LEN);
    let request = |framing: &str| format!("POST / HTTP/1.1\r\nHost: {NAME}\r\n{framing}\r\n\r\n");
    let answer = |framing: &str| format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
    let known = format!("Content-Length: {LEN}");
    let in_chunks = chunked(&data);
    let framings = [
        (known.as_str(), &data),
        ("Transfer-Encoding: chunked", &in_chunks),
    ];
    for (framing, body) in framings {
        // A POST must not meet a connection that is being closed.
        ended(&plain);
        ended(&secure);
        let mut client = Http::connect(gate.address());
        let mut upstream = None;
        std::thread::scope(|scope| {
            let mut writer = client.stream.another();
            scope.spawn(move || {
                writer.send(request(framing));
                writer.send(body);
            });
            let upstream = upstream.insert(plain.http());
            assert!(upstream.request().body == data, "{framing}");
            let mut writer = upstream.stream.another();
            scope.spawn(move || {
                writer.send(answer(framing));
                writer.send(body);
            });
            assert!(client.answer().body == data, "{framing}");
        });

        let mut client = Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
        let mut upstream = None;
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| {
                client.send(request(framing));
                client.send(body);
                client
            });
            let upstream =
                upstream.insert(Http::over(Tls::accept(&served, secure.accept()).unwrap()));
            assert!(upstream.request().body == data, "{framing} over TLS");
            let mut client = sent.join().unwrap();
            scope.spawn(|| {
                upstream.send(answer(framing));
                upstream.send(body);
            });
            assert!(client.answer().body == data, "{framing} over TLS");
        });
    }
}

/// A fast body is awaited by full reads, which must hold back neither what comes after a pause nor
/// what follows the body.
#[test]
fn fast_uploads_that_pause_take_turns_with_small_requests_on_one_connection() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate()
        .start(&(plain_site(origin.address()) + &secure_site(&site.cert, origin.address())));
    let tls = site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap();
    upload_with_a_pause_twice(Http::connect(gate.address()), &origin);
    ended(&origin);
    upload_with_a_pause_twice(Http::over(tls), &origin);
}

fn upload_with_a_pause_twice<S: Read + Write + Send>(mut client: Http<S>, origin: &Origin) {
    const LEN: usize = 3_000_000;
    let data = bytes(3, LEN);
    let (first, rest) = data.split_at(2_000_000);
    let (few, rest) = rest.split_at(5);
    let mut upstream = None;
    for _ in 0..2 {
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| {
                client.send(format!(
                    "POST / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {LEN}\r\n\r\n"
                ));
                client.send(first);
                &mut client
            });
            let upstream = upstream.get_or_insert_with(|| origin.http());
            upstream.head();
            upstream.expect(first);
            let client = sent.join().unwrap();
            client.send(few);
            upstream.expect(few);
            scope.spawn(|| client.send(rest));
            upstream.expect(rest);
            upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
        });
        assert_eq!(client.answer().text(), "done");
        client.send(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
        let upstream = upstream.as_mut().unwrap();
        upstream.head();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall");
        assert_eq!(client.answer().text(), "small");
    }
}

/// The client's bytes arrive as they come, not when the body is whole; and so do the origin's.
#[test]
fn request_and_response_bodies_are_streamed() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut upstream = origin.http();
    upstream.head();
    for _ in 0..3 {
        client.send("4\r\nping\r\n");
        upstream.expect("4\r\nping\r\n");
    }
    // A response may begin before the request has ended, and both go on (RFC 9112 §9.5).
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.head();
    for _ in 0..3 {
        client.send("4\r\nping\r\n");
        upstream.expect("4\r\nping\r\n");
        upstream.send("4\r\npong\r\n");
        client.expect("4\r\npong\r\n");
    }
    client.send("0\r\n\r\n");
    upstream.expect("0\r\n\r\n");
    upstream.send("0\r\n\r\n");
    client.expect("0\r\n\r\n");
}

/// RFC 9112 §9.6: a client that sends all of its body before it reads must find the response, not a
/// reset.
#[test]
fn an_early_response_arrives_whole_despite_a_long_upload() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate()
        .start(&(plain_site(origin.address()) + &secure_site(&site.cert, origin.address())));
    let len = 6_000_000;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n"
    );
    // A reset discards data that has not left the origin: it is sure to arrive if it fits into the
    // first window.
    for (ends, size) in [("by a close", 100_000), ("by a reset", 20_000)] {
        let refusal = format!(
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{}",
            "x".repeat(size)
        );
        let answers = || {
            let mut upstream = origin.http();
            upstream.head();
            upstream.send(&refusal);
            if ends == "by a close" {
                upstream.stream.finish();
                upstream.rest();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(answers);
            let mut client = Http::connect(gate.address());
            client.send(&head);
            client.send(vec![0; len]);
            let answer = client.answer();
            assert_eq!((answer.status(), answer.body.len()), (413, size), "{ends}");
            assert_eq!(answer.field("connection"), Some("close"));
            client.expect_end();
        });
        std::thread::scope(|scope| {
            scope.spawn(answers);
            let mut client =
                Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
            client.send(&head);
            client.send(vec![0; len]);
            let answer = client.answer();
            assert_eq!(
                (answer.status(), answer.body.len()),
                (413, size),
                "{ends}, over TLS"
            );
            client.expect_end();
        });
    }
}

/// RFC 9112 §9.3: an origin that keeps the connection reads the whole request, also one that it has
/// answered already.
#[test]
fn an_endpoint_answering_early_still_gets_the_request_body() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ] {
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 10\r\n\r\nfirst"
        ));
        let mut upstream = origin.http();
        upstream.head();
        upstream.expect("first");
        upstream.send(answer);
        let answer = client.answer();
        assert_eq!(answer.field("connection"), None, "{}", answer.head);
        client.send("later");
        upstream.expect("later");
    }
    client.send(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer().status(), 204);
}

/// Otherwise an endpoint that stalls would keep exchanges that their clients have long given up: it
/// has half a minute.
#[test]
fn a_stalled_upload_is_dropped_after_its_response() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 1000000000\r\n\r\n"
    ));
    let mut upstream = origin.http();
    upstream.head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
    assert_eq!(client.answer().text(), "done");
    // All that the sockets on the way hold; from here on the exchange waits for the origin.
    client.stream.fill();
    client.stream.reset();
    assert_eq!(gate.next_line()["status"], 200);
    drop(upstream);
}

/// RFC 9110 §10.1.1: a client that waits for 100 and gets another response sends no body.
#[test]
fn a_body_never_requested_by_100_continue_is_not_awaited() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"
    ));
    let mut upstream = origin.http();
    upstream.head();
    upstream.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
    let answer = client.answer();
    assert_eq!(
        (answer.status(), answer.field("connection")),
        (401, Some("close"))
    );
    client.expect_end();
}

#[test]
fn a_truncated_response_stays_truncated() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let served = server_config(&site.issued, None);
    let origin = Origin::tcp();
    let secure = Origin::tcp();
    let sites = plain_site(origin.address())
        + &secure_site(&site.cert, origin.address())
        + &format!(
            "[site.\":0\".path.\"/tls\"]\nproxy = {{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{}\" }} }}\n",
            secure.address(),
            text(&ca)
        );
    let mut gate = lockgate().start(&sites);
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "half"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
            "4\r\nhalf\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf",
            "4\r\nhalf\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX: 1\r\n",
            "4\r\nhalf\r\n",
        ),
    ];
    for (answer, expected) in cases {
        // Only the end of the connection marks it: behind plain TCP a close ...
        let mut client = Http::connect(gate.address());
        client.send(request("/"));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(answer);
        drop(upstream);
        client.head();
        assert_eq!(
            client.rest().escape_ascii().to_string(),
            expected.escape_default().to_string()
        );
        let line = gate.next_line();
        assert_eq!(
            (&line["side"], &line["status"]),
            (&"upstream".into(), &200.into()),
            "{line}"
        );
        // ... and behind TLS one without close_notify.
        let mut client = Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
        client.send(request("/"));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(answer);
        drop(upstream);
        client.head();
        let (rest, end) = client.end();
        assert_eq!(
            rest.escape_ascii().to_string(),
            expected.escape_default().to_string()
        );
        end.expect_err("an answer that was cut off must not end like a whole one");
        gate.next_line();
    }
    // RFC 9112 §9.8: without close_notify, a body that ends by the close of the connection may be
    // truncated.
    let mut client = Http::connect(gate.address());
    client.send(request("/tls"));
    let mut upstream = Http::over(Tls::accept(&served, secure.accept()).unwrap());
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\n\r\nhalf");
    drop(upstream);
    client.head();
    assert_eq!(client.rest(), b"4\r\nhalf\r\n");
    assert_eq!(gate.next_line()["side"], "upstream");
    // With it, it is whole.
    let mut client = Http::connect(gate.address());
    client.send(request("/tls"));
    let mut upstream = Http::over(Tls::accept(&served, secure.accept()).unwrap());
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\n\r\nwhole");
    upstream.stream.finish();
    client.head();
    client.expect("5\r\nwhole\r\n0\r\n\r\n");
    // A reset is never an end.
    let mut client = Http::connect(gate.address());
    client.send(request("/"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\n\r\nhalf");
    client.head();
    client.expect("4\r\nhalf\r\n");
    upstream.stream.reset();
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_truncated_request_never_looks_complete_to_the_origin() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let cases = [
        ("Content-Length: 10", "half", "half"),
        (
            "Transfer-Encoding: chunked",
            "4\r\nhalf\r\n",
            "4\r\nhalf\r\n",
        ),
        (
            "Transfer-Encoding: chunked",
            "4\r\nhalf\r\n0\r\nX: 1\r\n",
            "4\r\nhalf\r\n",
        ),
    ];
    for (framing, body, expected) in cases {
        for ends in ["by a close", "by a reset"] {
            let mut client = Http::connect(gate.address());
            client.send(format!(
                "POST / HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n{body}"
            ));
            let mut upstream = origin.http();
            upstream.head();
            upstream.expect(expected);
            if ends == "by a close" {
                client.stream.finish();
            } else {
                client.stream.reset();
            }
            assert_eq!(upstream.end().0, b"", "{framing}, {ends}");
            let line = gate.next_line();
            assert_eq!(line["side"], "downstream", "{line}");
        }
    }
}

/// A body that breaks off ends both connections: neither the client's nor the origin's is used
/// again.
#[test]
fn a_malformed_chunked_body_ends_both_connections() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client
        .send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    let mut upstream = origin.http();
    upstream.head();
    upstream.expect("4\r\nhalf\r\n");
    client.send("zz\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let answer = client.answer();
    assert_eq!(
        (answer.status(), answer.field("connection")),
        (400, Some("close"))
    );
    client.expect_end();
    assert_eq!(upstream.end().0, b"");
}

/// The endpoint reads nothing, so that nothing is read from the client either: its reset is behind
/// data.
#[test]
fn a_client_reset_behind_a_stalled_upload_is_noticed() {
    let origin = Origin::tcp();
    let gate = lockgate()
        .start(&("timeouts = { response = \"1h\" }\n".to_owned() + &plain_site(origin.address())));
    let mut client = Http::connect(gate.address());
    client.send("PUT /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000000\r\n\r\n");
    client.stream.fill();
    client.stream.reset();
    let line = gate.line("the upload", |line| line["target"] == "/up");
    assert_eq!(
        (&line["status"], &line["cause"]),
        (&499.into(), &"client_reset".into())
    );
}
