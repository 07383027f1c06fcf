//! Requests over HTTP/2 and their responses, in front of an application that speaks HTTP/1.

use http::Method;
use lockgate_testkit::h2::frame::{code, flag, frame, kind};
use lockgate_testkit::h2::{Client, Peer};
use lockgate_testkit::{Http, Lockgate, Message, Origin, bytes};

use super::plain_site;
use crate::scene::lockgate;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn start(origin: &Origin) -> Lockgate {
    lockgate().start(&plain_site(origin.address()))
}

/// A request of this method for `/`, with these fields.
fn request(method: Method, fields: &[(&'static str, &str)]) -> http::Request<()> {
    let mut request = Client::request(method, "/");
    for (name, value) in fields {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Echoes the request's body.
fn echo_body(request: &Message) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        request.body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&request.body);
    answer
}

/// RFC 9113 §8.3.1, §8.8: the pseudo-fields are the first line and the host; nothing of HTTP/2 is
/// in the fields.
#[test]
fn http2_requests_and_responses_are_translated_to_http1() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    let mut head = request(
        Method::GET,
        &[("x-one", "1"), ("te", "trailers"), ("x-one", "2")],
    );
    *head.uri_mut() = "http://app.test/a/b?c=d".parse().unwrap();
    let exchange = client.begin(head, true);
    let mut upstream = origin.http();
    let seen = upstream.request();
    assert_eq!(seen.first_line(), "GET /a/b?c=d HTTP/1.1");
    assert_eq!(
        (seen.field("host"), seen.field("via")),
        (Some("app.test"), Some("2.0 lockgate"))
    );
    assert_eq!(seen.all("x-one").collect::<Vec<_>>(), ["1", "2"]);
    assert!(!seen.head.contains("\r\n:"), "{}", seen.head);
    upstream.send(
        "HTTP/1.1 404 Odd Words\r\nX-Two: 2\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
         Content-Length: 4\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nlost",
    );
    let answer = exchange.answer();
    assert_eq!(
        (answer.status, answer.text(), answer.reset),
        (404, "lost", None)
    );
    assert_eq!(
        (answer.field("x-two"), answer.field("content-length")),
        (Some("2"), Some("4"))
    );
    for hop in ["connection", "x-hop", "keep-alive", "transfer-encoding"] {
        assert_eq!(answer.field(hop), None, "{:?}", answer.fields);
    }
    let cookies: Vec<_> = answer
        .fields
        .iter()
        .filter(|(name, _)| name == "set-cookie")
        .collect();
    assert_eq!(cookies.len(), 2, "{cookies:?}");
}

/// RFC 9113 §8.1: trailers follow a body in both versions.
#[test]
fn bodies_and_trailers_pass_both_ways_over_http2() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    let mut exchange = client.begin(
        request(Method::POST, &[("te", "trailers"), ("trailer", "x-sum")]),
        false,
    );
    exchange.send("one", false);
    exchange.send("two", false);
    exchange.trailers(&[("x-sum", "6")]);
    let mut upstream = origin.http();
    let seen = upstream.request();
    assert_eq!(
        (&seen.body[..], seen.trailers.as_str()),
        (&b"onetwo"[..], "x-sum: 6\r\n")
    );
    upstream.send(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nthree\r\n0\r\nX-Sum: 5\r\n\r\n",
    );
    let answer = exchange.answer();
    assert_eq!(
        (answer.text(), answer.trailer("x-sum"), answer.reset),
        ("three", Some("5"), None)
    );
    assert_eq!(answer.field("transfer-encoding"), None);
}

/// RFC 9113 §8.1.1: a body without a length comes chunked, one with a length as it is.
#[test]
fn the_content_length_of_an_http2_request_is_forwarded() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    let mut exchange = client.begin(request(Method::PUT, &[("content-length", "4")]), false);
    exchange.send("four", true);
    let mut upstream = origin.http();
    let seen = upstream.request();
    assert_eq!(
        (
            seen.field("content-length"),
            seen.field("transfer-encoding")
        ),
        (Some("4"), None)
    );
    upstream.send(OK);
    exchange.answer();
    let mut exchange = client.begin(request(Method::PUT, &[]), false);
    exchange.send("four", true);
    let seen = upstream.request();
    assert_eq!(
        (
            seen.field("content-length"),
            seen.field("transfer-encoding")
        ),
        (None, Some("chunked"))
    );
    assert_eq!(seen.body, b"four");
    upstream.send(OK);
    assert_eq!(exchange.answer().status, 200);
}

/// RFC 9110 §15.2, RFC 8297.
#[test]
fn interim_responses_pass_over_http2() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    let mut exchange = client.begin(request(Method::GET, &[]), true);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
    assert_eq!(exchange.interim(), 103);
    upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\n");
    assert_eq!(exchange.interim(), 103);
    upstream.send(OK);
    let answer = exchange.answer();
    assert_eq!((answer.status, answer.text()), (200, "ok"));
    let hints = [("</a.css>; rel=preload"), ("</b.css>; rel=preload")];
    assert_eq!(
        answer.interim,
        hints.map(|link| (103, owned(&[("link", link)])))
    );
}

/// RFC 9110 §10.1.1.
#[test]
fn expect_100_continue_works_over_http2() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    let fields = [("expect", "100-continue"), ("content-length", "4")];
    let mut exchange = client.begin(request(Method::POST, &fields), false);
    let mut upstream = origin.http();
    let mut seen = Message {
        head: upstream.head(),
        ..Message::default()
    };
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(exchange.interim(), 100);
    exchange.send("body", true);
    upstream.body(&mut seen);
    assert_eq!(seen.body, b"body");
    upstream.send(OK);
    assert_eq!(exchange.answer().status, 200);
}

#[test]
fn responses_without_a_body_end_stream_with_their_head() {
    let origin = Origin::tcp().answering(|request| match request.first_line().split(' ').next() {
        Some("HEAD") => b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec(),
        Some("PUT") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 1000\r\n\r\n".to_vec(),
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    for (stream, method, status) in [
        (1, "HEAD", "200"),
        (3, "PUT", "204"),
        (5, "GET", "304"),
        (7, "HEAD", "200"),
    ] {
        let head = [
            (":method", method),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", "/"),
        ];
        peer.headers(stream, &head, true);
        let frame = peer.read_until(kind::HEADERS);
        let fields = peer.fields(&frame);
        assert_eq!(fields[0].1, status);
        if frame.flags & flag::END_STREAM == 0 {
            // An empty DATA is an end as well.
            let data = peer.read_until(kind::DATA);
            assert!(data.payload.is_empty() && data.ends_stream(), "{data:?}");
        }
        if method == "HEAD" {
            assert!(
                fields.contains(&("content-length".into(), "1000".into())),
                "{fields:?}"
            );
        }
    }
}

/// RFC 9113 §8.2.3: pieces of a cookie are one field in HTTP/1.
#[test]
fn split_http2_cookies_are_joined() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    let fields = [
        ("cookie", "a=1"),
        ("x", "y"),
        ("cookie", "b=2"),
        ("cookie", "c=3"),
    ];
    let exchange = client.begin(request(Method::GET, &fields), true);
    let mut upstream = origin.http();
    assert_eq!(upstream.request().field("cookie"), Some("a=1; b=2; c=3"));
    upstream.send(OK);
    exchange.answer();
}

#[test]
fn a_thousand_requests_use_one_http2_connection() {
    let origin = Origin::tcp().answering(echo_body);
    let gate = lockgate().start(&plain_site(origin.address()));
    let client = Client::connect(gate.address());
    for at in 0..1_000 {
        let word = at.to_string();
        assert_eq!(client.post("/", word.clone()).text(), word);
    }
    gate.wait_for_sample("lockgate_requests_total", &[], 1_000.0);
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn a_hundred_http2_streams_are_served_in_any_order() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    let exchanges: Vec<_> = (0..100)
        .map(|at| client.begin(Client::request(Method::GET, &format!("/{at}")), true))
        .collect();
    let mut upstreams: Vec<(Http, Message)> = (0..100)
        .map(|_| {
            let mut upstream = origin.http();
            let request = upstream.request();
            (upstream, request)
        })
        .collect();
    // All are there before the first is answered; the last is answered first.
    for (upstream, request) in upstreams.iter_mut().rev() {
        let path = request.first_line().split(' ').nth(1).unwrap();
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}",
            path.len()
        ));
    }
    for (at, exchange) in exchanges.into_iter().enumerate() {
        assert_eq!(exchange.answer().text(), format!("/{at}"));
    }
}

#[test]
fn large_http2_bodies_pass_both_ways_at_once() {
    const LEN: usize = 20_000_000;
    let origin = Origin::tcp().answering(echo_body);
    let gate = lockgate().start(&plain_site(origin.address()));
    let client = Client::connect(gate.address());
    let body = bytes(7, LEN);
    let answer = client.post("/", body.clone());
    assert_eq!((answer.status, answer.body.len()), (200, LEN));
    assert!(answer.body == body, "bytes were lost, doubled or moved");
    // Other streams of the connection are served beside an upload.
    let mut upload = client.begin(request(Method::POST, &[]), false);
    upload.send(body[..100_000].to_vec(), false);
    assert_eq!(client.post("/", "small").text(), "small");
    upload.send(body[100_000..200_000].to_vec(), true);
    assert!(
        upload.answer().body == body[..200_000],
        "bytes were lost, doubled or moved"
    );
}

/// A request that the client has cancelled does not stay with the application.
#[test]
fn rst_stream_of_the_client_closes_the_upstream_connection() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    // Before the response, in the middle of it, and in the middle of the request.
    let mut waiting = client.begin(request(Method::GET, &[]), true);
    let mut upstream = origin.http();
    upstream.request();
    waiting.reset(code::CANCEL);
    upstream.wait_closed();
    let mut reading = client.begin(request(Method::GET, &[]), true);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
    assert_eq!(reading.piece().unwrap().as_deref(), Some(&b"half"[..]));
    reading.reset(code::CANCEL);
    upstream.wait_closed();
    let mut sending = client.begin(request(Method::POST, &[("content-length", "1000")]), false);
    sending.send("half", false);
    let mut upstream = origin.http();
    upstream.head();
    upstream.expect("half");
    sending.reset(code::CANCEL);
    upstream.wait_closed();
    // The connection goes on.
    let last = client.begin(request(Method::GET, &[]), true);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert_eq!(last.answer().text(), "ok");
    for _ in 0..3 {
        gate.line("a reset", |line| {
            line["cause"] == "client_reset" && line["side"] == "downstream"
        });
    }
}

/// RFC 9113 §8.1.1, RFC 9112 §8: a truncated response must not look whole.
#[test]
fn an_aborted_upstream_response_resets_the_stream() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let client = Client::connect(gate.address());
    for head in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
        let mut exchange = client.begin(request(Method::GET, &[]), true);
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n4\r\nhalf\r\n"));
        exchange.piece().unwrap();
        drop(upstream);
        let answer = exchange.answer();
        assert_eq!(answer.status, 200);
        assert!(
            answer.reset.is_some_and(|code| code != code::NO_ERROR),
            "{answer:?}"
        );
    }
    // Before the head there is a local response; the connection goes on either way.
    let exchange = client.begin(request(Method::POST, &[("content-length", "0")]), true);
    let mut upstream = origin.http();
    upstream.request();
    drop(upstream);
    assert_eq!(exchange.answer().status, 502);
}

/// RFC 9113 §8.1: a response before the request's end is passed, and the rest of the request is no
/// longer wanted.
#[test]
fn an_early_response_is_complete_then_rst_stream_no_error() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let mut peer = Peer::connect(gate.address());
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    peer.headers(1, &head, false);
    peer.data(1, "begun", false);
    let mut upstream = origin.http();
    upstream.head();
    upstream.send(
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig",
    );
    let answer = peer.answer(1);
    assert_eq!(
        (answer.status, answer.text(), answer.reset),
        (413, "big", None)
    );
    assert_eq!(peer.read_until(kind::RST_STREAM).number(0), code::NO_ERROR);
    drop(upstream);
    peer.get(3, "/");
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert_eq!(peer.answer(3).status, 200);
}

/// RFC 9113 §8.1: the rest is unwanted only with RST_STREAM. An application that answers first may
/// read it afterwards.
#[test]
fn the_request_body_continues_after_an_early_response() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let mut peer = Peer::connect(gate.address());
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    for (stream, begun) in [(1, "begun"), (3, "")] {
        peer.headers(
            stream,
            &[&head[..], &[("content-length", "10")]].concat(),
            false,
        );
        if !begun.is_empty() {
            peer.data(stream, begun, false);
        }
        let mut upstream = origin.http();
        upstream.head();
        upstream.expect(begun);
        upstream.send(OK);
        let answer = peer.answer(stream);
        assert_eq!((answer.status, answer.reset), (200, None));
        let rest = &"begun, end"[begun.len()..];
        peer.data(stream, rest, true);
        upstream.expect(rest);
    }
}

/// A stream of small messages, as in gRPC, for an application that is not ready yet: within its
/// windows a client may send them in any pieces.
#[test]
fn small_data_frames_of_a_stalled_upload_are_no_flood() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let mut peer = Peer::connect(gate.address());
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    peer.headers(1, &head, false);
    let messages: Vec<u8> = (0..2_000)
        .flat_map(|at| frame(kind::DATA, 0, 1, format!("message {at:04}, not long\n")))
        .collect();
    peer.send(messages);
    // All of it is within the first windows, and has been read.
    assert!(!peer.settle().iter().any(|frame| frame.kind == kind::GOAWAY));
    peer.data(1, "", true);
    let mut upstream = origin.http();
    let request = upstream.request();
    assert_eq!(request.body.len(), 2_000 * 23);
    upstream.send(OK);
    assert_eq!(peer.answer(1).status, 200);
}

/// RFC 9113 §8.1: the reset that tells a client to stop may overtake the response, so the client
/// can send its body to the end.
#[test]
fn a_response_before_the_request_ends_causes_no_rst_stream() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&(plain_site(origin.address()) + "body = { max = \"1KB\" }\n"));
    let mut peer = Peer::connect(gate.address());
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
        ("content-length", "32768"),
    ];
    peer.headers(1, &head, false);
    let answer = peer.answer(1);
    assert_eq!((answer.status, answer.reset), (413, None));
    peer.data(1, [b'x'; 16_384], false);
    peer.data(1, [b'x'; 16_384], true);
    peer.ping([1; 8]);
    let frames: Vec<_> =
        std::iter::from_fn(|| Some(peer.read()).filter(|frame| frame.kind != kind::PING)).collect();
    assert!(
        frames.iter().all(|frame| frame.kind != kind::RST_STREAM),
        "{frames:?}"
    );
    peer.get(3, "/");
    origin.http().request();
}

/// The received part of a response is delivered before the stream is reset.
#[test]
fn data_before_an_upstream_abort_is_delivered() {
    let origin = Origin::tcp();
    let gate = start(&origin);
    let mut peer = Peer::connect(gate.address());
    peer.get(1, "/");
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    drop(upstream);
    let answer = peer.answer(1);
    assert_eq!(
        (answer.status, answer.text(), answer.reset),
        (200, "half", Some(code::INTERNAL_ERROR))
    );
}
