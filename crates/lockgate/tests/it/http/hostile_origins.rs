//! Origins that send responses that cannot be read, or more than was requested: their clients get
//! an error, and no other client gets bytes that were not for it.

use lockgate_testkit::{Http, Lockgate, Origin};

use super::plain_site;
use crate::scene::lockgate;

const ASKED: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// Requests on a connection of its own; the origin answers with these bytes, `step` at a time, and
/// keeps its connection.
fn client_and_origin(gate: &Lockgate, origin: &Origin, answer: &[u8], step: usize) -> (Http, Http) {
    let mut client = Http::connect(gate.address());
    client.send(ASKED);
    let mut upstream = origin.http();
    upstream.request();
    // Lockgate may close before all is sent.
    for part in answer.chunks(step) {
        if std::io::Write::write_all(&mut upstream.stream, part).is_err() {
            break;
        }
    }
    (client, upstream)
}

/// Lockgate has closed the connection to the origin.
fn assert_closed(upstream: &mut Http, what: &str) {
    let (got, _) = upstream.end();
    assert!(got.is_empty(), "{what}: {}", got.escape_ascii());
}

/// RFC 9112 §4, §5, §6.1, §6.3; RFC 9110 §15.6.3. Response splitting and desync from behind: "HTTP
/// Desync Attacks" (Kettle 2019), "HTTP: The Sequel" (2021: response queue poisoning);
/// CVE-2023-46846 (Squid), CVE-2024-1135.
#[test]
fn an_ambiguous_response_head_is_a_502_with_its_cause() {
    let origin = Origin::tcp();
    let gate = lockgate().workers(2).start(&plain_site(origin.address()));
    let ok = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\nhello");
    let cases = [
        // Its length.
        (
            ok("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            "both",
        ),
        (
            ok("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            "both",
        ),
        (
            ok("Content-Length: 5\r\nContent-Length: 4\r\n"),
            "more than once",
        ),
        (
            ok("Content-Length: 5\r\nContent-Length: 5\r\n"),
            "more than once",
        ),
        (ok("Content-Length: 5, 5\r\n"), "more than once"),
        (ok("Content-Length: -5\r\n"), "not a number"),
        (ok("Content-Length: +5\r\n"), "not a number"),
        (ok("Content-Length: 5 \u{b}\r\n"), "value"),
        (
            ok("Content-Length: 99999999999999999999\r\n"),
            "not a number",
        ),
        (ok("Content-Length:\r\n"), "not a number"),
        (ok("Transfer-Encoding: gzip\r\n"), "chunked"),
        (ok("Transfer-Encoding: gzip, chunked\r\n"), "chunked"),
        (ok("Transfer-Encoding: chunked, chunked\r\n"), "chunked"),
        (ok("Transfer-Encoding: identity\r\n"), "chunked"),
        (
            ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            "chunked",
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
            "HTTP/1.0",
        ),
        // Its fields.
        (ok("Content-Length : 5\r\n"), "name"),
        (ok("X: y\r\n folded\r\n"), "folded"),
        (ok(" X: y\r\n"), "folded"),
        (ok("X: y\nContent-Length: 5\r\n"), "CR LF"),
        (ok("X: a\rb\r\n"), "CR LF"),
        (ok("X: a\0b\r\n"), "value"),
        (ok("no field\r\n"), "name"),
        (ok(": y\r\n"), "name"),
        // Its first line.
        ("HTTP/2.0 200 OK\r\n\r\n".to_owned(), "version"),
        ("HTTP/0.9 200 OK\r\n\r\n".to_owned(), "version"),
        ("HTTP/1.1 200OK\r\n\r\n".to_owned(), "first line"),
        ("HTTP/1.1 2000 OK\r\n\r\n".to_owned(), "first line"),
        ("HTTP/1.1 20 OK\r\n\r\n".to_owned(), "first line"),
        ("HTTP/1.1  200 OK\r\n\r\n".to_owned(), "first line"),
        ("HTTP/1.1 099 OK\r\n\r\n".to_owned(), "first line"),
        ("HTTP/1.1 +20 OK\r\n\r\n".to_owned(), "first line"),
        ("HTTP/1.1\r\n\r\n".to_owned(), "first line"),
        ("http/1.1 200 OK\r\n\r\n".to_owned(), "first line"),
        ("ICY 200 OK\r\n\r\n".to_owned(), "first line"),
        ("220 mail.test ESMTP\r\n\r\n".to_owned(), "first line"),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n".to_owned(), "first line"),
        ("<html>\n".to_owned(), "CR LF"),
        ("HTTP/1.1 200 OK\n\n".to_owned(), "CR LF"),
        ("\u{16}\u{3}\u{3}\n".to_owned(), "CR LF"),
        // A switch that was not requested: the fault names the reason.
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_owned(),
            "",
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_owned(),
            "first line",
        ),
    ];
    let mut expected = Vec::new();
    for (answer, why) in &cases {
        for step in [usize::MAX, 1] {
            let (mut client, mut upstream) =
                client_and_origin(&gate, &origin, answer.as_bytes(), step);
            let mut got = client.answer();
            if got.status() == 100 {
                got = client.answer();
            }
            assert_eq!(got.status(), 502, "{answer:?}");
            let status = got.field("proxy-status").unwrap();
            assert!(
                status.contains("http_protocol_error") || status.contains("http_upgrade_failed"),
                "{status}"
            );
            assert!(!got.text().contains("hello"));
            assert_closed(&mut upstream, answer);
            expected.push((client.stream.local_address().port(), answer, why));
        }
    }
    for (port, answer, why) in expected {
        let line = gate.line(answer, |line| line["client_port"] == port);
        assert_eq!(
            (&line["status"], &line["cause"]),
            (&502.into(), &"refused_by_rule".into()),
            "{answer:?}"
        );
        assert_eq!(line["side"], "upstream", "{answer:?}");
        let detail = line["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(why), "{answer:?}: {detail}");
    }
}

/// RFC 9110 §9.3.2, §15.3.5, §15.4.5; RFC 9112 §6.3: a response without a body has none, even if
/// bytes follow it; and these bytes are not the response to the next request, which is another
/// client's.
#[test]
fn bytes_after_a_response_reach_no_other_client() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let stolen = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen";
    for (method, answer, status, body) in [
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            200,
            "ok",
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
            "",
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            200,
            "ok",
        ),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\n",
            304,
            "",
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n",
            200,
            "",
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            200,
            "",
        ),
        ("HEAD", "HTTP/1.1 404 Not Found\r\n\r\n", 404, ""),
    ] {
        for surplus in [stolen, "stolen", "\r\n", "0\r\n\r\n", "\0"] {
            let mut client = Http::connect(gate.address());
            client.send(format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            let mut upstream = origin.http();
            upstream.request();
            upstream.send(format!("{answer}{surplus}"));
            let got = if method == "HEAD" {
                lockgate_testkit::Message {
                    head: client.head(),
                    ..Default::default()
                }
            } else {
                client.answer()
            };
            assert_eq!(
                (got.status(), got.text()),
                (status, body),
                "{answer:?} {surplus:?}"
            );
            assert_closed(&mut upstream, answer);
            // The client's own connection is as good as before.
            client.send("GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n");
            let mut upstream = origin.http();
            assert_eq!(upstream.request().first_line(), "GET /next HTTP/1.1");
            upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmine");
            assert_eq!(client.answer().text(), "mine");
        }
    }
}

/// A second response that comes without a request ends its connection: RFC 9112 §9.2; "HTTP/2: The
/// Sequel is Always Worse" (Kettle 2021: response queue poisoning).
#[test]
fn an_unsolicited_response_closes_the_idle_connection() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    for _ in 0..2 {
        client.send(ASKED);
        let mut upstream = origin.http();
        upstream.request();
        upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.answer().status(), 204);
        upstream.send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 6\r\n\r\nstolen");
        assert_closed(&mut upstream, "unasked");
    }
}

/// A truncated response is delivered as such: never ended as if it were whole (RFC 9112 §8).
#[test]
fn a_truncated_response_is_forwarded_as_truncated() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    for (answer, error) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "early"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "early",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
            "early",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
            "early",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n",
            "early",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-1\r\n",
            "broken",
        ),
    ] {
        for version in ["1.1", "1.0"] {
            let mut client = Http::connect(gate.address());
            client.send(format!("GET / HTTP/{version}\r\nHost: a.test\r\n\r\n"));
            let mut upstream = origin.http();
            upstream.request();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            // The head has gone before it shows that the body is none.
            upstream.send(format!("{head}\r\n\r\n"));
            let got = client.head();
            upstream.send(body);
            if error == "early" {
                drop(upstream);
            }
            let (body, end) = client.end();
            let says = format!(
                "{answer:?} over {version} became {got:?} {:?}",
                body.escape_ascii().to_string()
            );
            assert!(!body.ends_with(b"0\r\n\r\n"), "{says}");
            // Without a length or chunks, only a reset tells that something is missing.
            let told = got.to_ascii_lowercase();
            let framed = told.contains("content-length") || told.contains("chunked");
            assert!(framed || end.is_err(), "{says}: {end:?}");
            let line = gate.line(answer, |line| {
                line["client_port"] == client.stream.local_address().port()
            });
            assert_eq!(
                (&line["side"], &line["status"]),
                (&"upstream".into(), &200.into()),
                "{line}"
            );
            assert!(line["cause"].is_string());
        }
    }
}

/// RFC 9112 §2.2: a message is a sequence of bytes, and may come in any pieces.
#[test]
fn a_response_may_arrive_byte_by_byte() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(ASKED);
    let mut upstream = origin.http();
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        upstream.request();
        upstream.send_in(1, answer);
        let mut got = client.answer();
        if got.status() == 103 {
            assert_eq!(got.field("link"), Some("</a>"));
            got = client.answer();
        }
        assert_eq!((got.status(), got.text()), (200, "hello"), "{answer:?}");
        client.send(ASKED);
    }
}

/// RFC 9110 §15.2: any number of them may come, but no request has a reason for more than some.
#[test]
fn a_flood_of_interim_responses_is_an_error() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    for version in ["1.1", "1.0"] {
        let mut client = Http::connect(gate.address());
        client.send(format!("GET / HTTP/{version}\r\nHost: a.test\r\n\r\n"));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(hint.repeat(1_000));
        let mut hints = 0;
        let last = loop {
            let answer = client.answer();
            if answer.status() != 103 {
                break answer;
            }
            // RFC 9110 §8.6, RFC 9112 §6.1: framing is not for these.
            assert_eq!(
                (
                    answer.field("content-length"),
                    answer.field("transfer-encoding")
                ),
                (None, None)
            );
            hints += 1;
        };
        assert_eq!(last.status(), 502);
        // RFC 9110 §15.2: none is for HTTP/1.0.
        let expected = if version == "1.1" { 8..=64 } else { 0..=0 };
        assert!(expected.contains(&hints), "{hints}");
        assert_closed(&mut upstream, "interim responses");
        gate.line("the flood", |line| {
            line["detail"] == "too many interim responses"
        });
    }
}

/// A head may be 64 KB and have 128 lines; trailers likewise. RFC 9209 §2.3.19.
#[test]
fn an_oversized_response_head_is_a_502_with_its_cause() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let end = "Content-Length: 0\r\n\r\n";
    for head in [
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n{end}", "y".repeat(64 * 1024)),
        format!("HTTP/1.1 200 OK\r\n{}{end}", "X: y\r\n".repeat(128)),
        format!("HTTP/1.1 200 {}", "y".repeat(100 * 1024)),
        format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(100_000)),
    ] {
        let (mut client, mut upstream) =
            client_and_origin(&gate, &origin, head.as_bytes(), usize::MAX);
        let answer = client.answer();
        assert_eq!(answer.status(), 502);
        let status = answer.field("proxy-status").unwrap();
        assert!(
            status.contains("http_response_header_section_size"),
            "{status}"
        );
        assert_closed(&mut upstream, "a head that is too large");
        let line = gate.line("a cause", |line| {
            line["client_port"] == client.stream.local_address().port()
        });
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"limit".into(), &"upstream".into())
        );
    }
    // A response just within the limit passes.
    let fields = "X: y\r\n".repeat(127);
    let (mut client, _) = client_and_origin(
        &gate,
        &origin,
        format!("HTTP/1.1 200 OK\r\n{fields}{end}").as_bytes(),
        usize::MAX,
    );
    assert_eq!(client.answer().all("x").count(), 127);
}

/// RFC 9112 §7.1.1, §7.1.2; CVE-2023-39326 (Go: extensions that cost more than data).
#[test]
fn chunk_extension_and_trailer_floods_end_the_response() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "1;xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\na\r\n".repeat(1_000),
        format!("1;{}", "x".repeat(100_000)),
        format!("1{}\r\na\r\n", " ".repeat(100_000)),
        format!("0\r\n{}\r\n", "X: y\r\n".repeat(200)),
        format!("0\r\nX: {}\r\n\r\n", "y".repeat(100_000)),
        "f".repeat(64),
        "0".repeat(100_000),
    ] {
        let (mut client, mut upstream) =
            client_and_origin(&gate, &origin, chunked.as_bytes(), usize::MAX);
        assert_eq!(client.head().split(' ').nth(1), Some("200"));
        let _ = std::io::Write::write_all(&mut upstream.stream, body.as_bytes());
        let (got, _) = client.end();
        assert!(!got.ends_with(b"0\r\n\r\n"), "{} …", &body[..40]);
        let line = gate.line("a cause", |line| {
            line["client_port"] == client.stream.local_address().port()
        });
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"refused_by_rule".into(), &"upstream".into()),
            "{line}"
        );
    }
    // The next client is served.
    let (mut client, _) = client_and_origin(
        &gate,
        &origin,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        usize::MAX,
    );
    assert_eq!(client.answer().status(), 204);
}

/// RFC 9110 §5.5: bytes that were injected into an origin's field end with it; a status is three
/// digits.
#[test]
fn hop_by_hop_fields_of_a_response_are_not_forwarded() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let answer = "HTTP/1.0 299 \u{e4}<script>\r\nkeep-alive: timeout=5\r\nConnection: keep-alive, x-gone\r\nX-Gone: 1\r\n\
                  Proxy-Connection: close\r\nUpgrade: h2c\r\nX:  y\t \r\nContent-Length: 0002\r\n\r\nok";
    let (mut client, _) = client_and_origin(&gate, &origin, answer.as_bytes(), usize::MAX);
    let got = client.answer();
    assert_eq!(got.first_line(), "HTTP/1.1 299 \u{e4}<script>");
    assert_eq!(
        (got.text(), got.field("content-length"), got.field("x")),
        ("ok", Some("2"), Some("y"))
    );
    for name in [
        "connection",
        "keep-alive",
        "x-gone",
        "proxy-connection",
        "upgrade",
    ] {
        assert_eq!(got.field(name), None, "{name}");
    }
}
