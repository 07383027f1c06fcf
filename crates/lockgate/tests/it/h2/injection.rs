//! Requests over HTTP/2 that would be more than one request, or another, once they are written as
//! HTTP/1: nothing of them reaches the application.
//!
//! "HTTP/2: The Sequel is Always Worse" (Kettle 2021), RFC 9113 §8.2.1, §8.3, §10.3.

use std::sync::{Arc, Mutex};

use lockgate_testkit::h2::frame::{code, flag, frame, kind};
use lockgate_testkit::h2::{Peer, hpack};
use lockgate_testkit::{Origin, Serving, eventually};

use serde_json::Value;

use super::{VIOLATIONS, plain_site};
use crate::scene::lockgate;

type Fields = Vec<(String, String)>;

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "app.test"),
    (":path", "/injected"),
];

fn owned(fields: &[(&str, &str)]) -> Fields {
    fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// A request with one field more.
fn with(name: &str, value: &str) -> Fields {
    [owned(&GET), owned(&[(name, value)])].concat()
}

/// A request with another value of a pseudo-field.
fn pseudo(name: &str, value: &str) -> Fields {
    let mut fields = owned(&GET);
    for field in fields.iter_mut().filter(|(found, _)| found == name) {
        field.1 = value.to_owned();
    }
    fields
}

/// Bytes that no value may have, at any position.
fn forbidden_values(value: &str) -> Vec<String> {
    let inside = [
        "\r\nx: y",
        "\nx: y",
        "\rx: y",
        "\0",
        "\r\n\r\nGET /second HTTP/1.1\r\nhost: a\r\n\r\n",
    ];
    let inside = inside
        .iter()
        .flat_map(|bad| [format!("{value}{bad}"), format!("{bad}{value}")]);
    inside
        .chain(["\r", "\n", "\r\n"].map(|end| format!("{value}{end}")))
        .collect()
}

/// Heads that must not be forwarded, each with its mistake.
fn malformed() -> Vec<(String, Fields)> {
    let mut all: Vec<(String, Fields)> = Vec::new();
    let mut add = |what: &str, fields: Fields| all.push((what.to_owned(), fields));
    // Values.
    for (name, value) in GET {
        for bad in forbidden_values(value) {
            add("pseudo-field", pseudo(name, &bad));
        }
    }
    for bad in forbidden_values("a") {
        add("value", with("x", &bad));
        add("cookie", with("cookie", &bad));
        add("content-length", with("content-length", &format!("0{bad}")));
    }
    // Parts of the request line.
    for bad in [
        "",
        "GET ",
        " GET",
        "GET /second HTTP/1.1",
        "G:T",
        "G\"T",
        "GET\t/",
        "G\u{e9}T",
    ] {
        add("method", pseudo(":method", bad));
    }
    for bad in [
        "",
        "injected",
        "/ HTTP/1.1",
        "/a b",
        "/a\tb",
        "/a\u{7f}",
        "*",
        "http://other/",
        "//\r",
    ] {
        add("path", pseudo(":path", bad));
    }
    for bad in [
        "a b",
        "user@app.test",
        "app.test/",
        "app.test?",
        "app.test#",
        "a,b",
        "app.test:99999",
        "app.test:x",
        "[",
        "a\\b",
    ] {
        add("authority", pseudo(":authority", bad));
    }
    for bad in ["", "http://", "ht tp", "http\u{e9}", "1"] {
        add("scheme", pseudo(":scheme", bad));
    }
    // Names.
    for name in [
        "",
        " ",
        "x ",
        " x",
        "x y",
        "x:",
        "x:y",
        "x\r\ny",
        "x\ny",
        "x\ry",
        "x\0",
        "X",
        "xX",
        "x\u{e9}",
        "x\t",
        "x(",
        "x\"",
        "x/",
        "transfer-encoding:",
        "host\r\nx",
    ] {
        add("name", with(name, "y"));
    }
    // Pseudo-fields: known ones, once, first.
    for name in [":method", ":scheme", ":authority", ":path"] {
        let value = GET.iter().find(|(found, _)| *found == name).unwrap().1;
        add("twice", with(name, value));
        add(
            "after a field",
            [owned(&[("x", "y")]), owned(&GET)].concat(),
        );
        if name != ":authority" {
            add(
                "missing",
                owned(&GET)
                    .into_iter()
                    .filter(|(found, _)| found != name)
                    .collect(),
            );
        }
    }
    for name in [":status", ":protocol", ":host", ":", ":Path", ":x"] {
        add("unknown pseudo-field", with(name, "200"));
    }
    add("nothing", Vec::new());
    // Hosts.
    add("another host", with("host", "other.test"));
    add(
        "two hosts",
        [with("host", "app.test"), owned(&[("host", "other.test")])].concat(),
    );
    let bare: Fields = owned(&GET)
        .into_iter()
        .filter(|(name, _)| name != ":authority")
        .collect();
    add("no host", bare.clone());
    add(
        "two hosts instead",
        [bare, owned(&[("host", "app.test"), ("host", "other.test")])].concat(),
    );
    // Fields of a connection.
    for (name, value) in [
        ("connection", "close"),
        ("connection", "x"),
        ("proxy-connection", "keep-alive"),
        ("keep-alive", "timeout=5"),
        ("upgrade", "websocket"),
        ("upgrade", "h2c"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("transfer-encoding", "xchunked"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("te", "chunked"),
    ] {
        add("of a connection", with(name, value));
    }
    // Content-Length values that are ambiguous.
    for (first, second) in [("0", "1"), ("1", "2")] {
        add(
            "two lengths",
            [
                with("content-length", first),
                owned(&[("content-length", second)]),
            ]
            .concat(),
        );
    }
    for bad in [
        "",
        "-1",
        "+1",
        "0x1",
        "1 ",
        "1,1",
        "1,2",
        "1e1",
        "99999999999999999999999",
    ] {
        add("length", with("content-length", bad));
    }
    add("a length without a body", with("content-length", "5"));
    all
}

/// Sends a head and the end of its stream; returns the status and the code of the reset.
fn sent(peer: &mut Peer, stream: u32, fields: &Fields) -> (u16, Option<u32>) {
    let section: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| hpack::never_indexed(name, value))
        .collect();
    let end = flag::END_HEADERS | flag::END_STREAM;
    peer.frame(kind::HEADERS, end, stream, section);
    let answer = peer.answer(stream);
    (answer.status, answer.reset)
}

/// An application that answers all requests, and the heads that it has read.
fn origin_with_heads() -> (Serving, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let origin = Origin::tcp().answering(move |request| {
        seen.lock().unwrap().push(request.head.clone());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    (origin, heads)
}

/// RFC 9113 §8.1.1: a stream error, and before it a response that says why. What is well-formed and
/// cannot be said in HTTP/1 is no stream error.
#[test]
fn no_malformed_http2_head_reaches_http1() {
    let (origin, heads) = origin_with_heads();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut wrong = Vec::new();
    for (what, fields) in malformed() {
        let mut peer = Peer::connect(gate.address());
        let expected = match &*what {
            // Another scheme than http and https, and a host that RFC 9113 §8.3.1 does not require.
            "scheme" | "no host" => (400, None),
            _ => (400, Some(code::PROTOCOL_ERROR)),
        };
        let refusal = sent(&mut peer, 1, &fields);
        if refusal != expected {
            wrong.push(format!("{what} {fields:?}: {refusal:?}, not {expected:?}"));
        }
    }
    for head in &*heads.lock().unwrap() {
        wrong.push(format!("the application reads {head:?}"));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// RFC 9113 §8.1.1: the length that HTTP/1 gets is the one that is enforced, whatever its zeros.
#[test]
fn data_beyond_a_content_length_with_many_zeros_is_no_second_http1_request() {
    let (origin, seen) = origin_with_heads();
    let gate = lockgate().start(&plain_site(origin.address()));
    for (zeros, body) in [
        (0, "12345GET /second HTTP/1.1\r\nHost: a\r\n\r\n"),
        (14, "12345GET /second HTTP/1.1\r\nHost: a\r\n\r\n"),
        (19, "12345GET /second HTTP/1.1\r\nHost: a\r\n\r\n"),
        (100, "12345GET /second HTTP/1.1\r\nHost: a\r\n\r\n"),
        (19, "1234"),
    ] {
        let mut fields = pseudo(":method", "POST");
        let length = format!("{}5", "0".repeat(zeros));
        fields.extend(owned(&[("content-length", &length)]));
        let mut peer = Peer::connect(gate.address());
        let section: Vec<u8> = fields
            .iter()
            .flat_map(|(name, value)| hpack::never_indexed(name, value))
            .collect();
        peer.frame(kind::HEADERS, flag::END_HEADERS, 1, section);
        peer.data(1, body, true);
        let answer = peer.answer(1);
        assert_eq!(answer.reset, Some(code::PROTOCOL_ERROR), "{zeros} {body}");
    }
    let seen = seen.lock().unwrap();
    assert!(
        !seen.iter().any(|head| head.contains("second")),
        "the application reads {seen:?}"
    );
}

/// RFC 9113 §8.1: trailers are fields like others, and have no pseudo-fields.
#[test]
fn no_malformed_http2_head_behind_a_body_reaches_http1() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let origin = Origin::tcp().answering(move |request| {
        requests.lock().unwrap().push(request.clone());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let malformed = (400, Some(code::PROTOCOL_ERROR));
    let bare_reset = (0, Some(code::PROTOCOL_ERROR));
    for (name, value, expected) in [
        ("x\r\ny", "z", malformed),
        ("x", "a\r\ny: z", malformed),
        ("x", "a\0", malformed),
        ("x y", "z", malformed),
        ("X", "y", malformed),
        ("", "y", malformed),
        ("transfer-encoding", "chunked", malformed),
        ("connection", "close", malformed),
        (":path", "/second", bare_reset),
        (":status", "200", bare_reset),
        // RFC 9110 §6.5.1: not in trailers; they are dropped.
        ("content-length", "5", (200, None)),
        ("host", "other.test", (200, None)),
    ] {
        let mut peer = Peer::connect(gate.address());
        let head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", "/"),
        ];
        peer.headers(1, &head, false);
        peer.data(1, "body", false);
        peer.headers(1, &[(name, value)], true);
        let answer = peer.answer(1);
        assert_eq!(
            (answer.status, answer.reset),
            expected,
            "{name:?}: {value:?}"
        );
    }
    for request in &*seen.lock().unwrap() {
        assert_eq!(request.trailers, "", "{request:?}");
        assert_eq!(
            (request.first_line(), &request.body[..]),
            ("POST / HTTP/1.1", &b"body"[..])
        );
    }
}

#[test]
fn unusual_but_valid_http2_fields_are_forwarded() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let origin = Origin::tcp().answering(move |request| {
        seen.lock().unwrap().push(request.clone());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    for (at, (name, value)) in [
        ("x", "a: b"),
        ("x", "\"quoted\""),
        ("x", "caf\u{e9}"),
        ("!#$%&'*+-.^_`|~", "y"),
        ("te", "trailers"),
        ("x", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 2 * at as u32 + 1;
        let fields = with(name, value);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        peer.headers(stream, &fields, true);
        assert_eq!(peer.answer(stream).status, 200, "{name}: {value}");
        let seen = heads.lock().unwrap().pop().unwrap();
        assert_eq!(seen.first_line(), "GET /injected HTTP/1.1");
        assert_eq!(seen.field("host"), Some("app.test"));
        if name != "te" {
            assert_eq!(seen.field(name), Some(value), "{}", seen.head);
        }
    }
}

/// RFC 9113 §10.5.1, RFC 6585 §5: an oversized head is refused by a response, and the next request
/// is served.
#[test]
fn an_oversized_http2_head_is_a_431_or_414() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    let long = "x".repeat(16_000);
    let mut send = |stream: u32, fields: &[(&str, &str)]| {
        let section = hpack::section(fields);
        let mut parts = section.chunks(16_384).peekable();
        let mut kind = kind::HEADERS;
        while let Some(part) = parts.next() {
            let first = if kind == kind::HEADERS {
                flag::END_STREAM
            } else {
                0
            };
            let last = if parts.peek().is_none() {
                flag::END_HEADERS
            } else {
                0
            };
            peer.send(frame(kind, first | last, stream, part));
            kind = kind::CONTINUATION;
        }
        peer.answer(stream)
    };
    for (stream, more, status) in [
        (1, vec![("a", long.as_str()); 5], 431),
        (3, vec![("a", "b"); 400], 431),
        (5, vec![("a", "b"); 50], 200),
    ] {
        let answer = send(stream, &[&GET[..], &more].concat());
        assert_eq!((answer.status, answer.reset), (status, None), "{stream}");
    }
}

/// A field of up to 32 KB is decoded.
const SHORT: &str = "limits = { head = \"16KB\" }\n";

/// A section in frames of 16 KB.
fn in_frames(stream: u32, section: &[u8]) -> Vec<u8> {
    let parts = section.chunks(16_384);
    let last = parts.len() - 1;
    let frames = parts.enumerate().map(|(number, part)| {
        let kind = if number == 0 {
            kind::HEADERS
        } else {
            kind::CONTINUATION
        };
        let first = if number == 0 { flag::END_STREAM } else { 0 };
        frame(
            kind,
            first | if number == last { flag::END_HEADERS } else { 0 },
            stream,
            part,
        )
    });
    frames.flatten().collect()
}

/// RFC 6585 §5: one field that is longer than all of a head may be is its stream's end, and not the
/// connection's.
#[test]
fn an_oversized_http2_field_is_a_431() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let gate = lockgate().start(&(SHORT.to_owned() + &plain_site(origin.address())));
    let mut peer = Peer::connect(gate.address());
    let remembered = |length| hpack::remembered("x-long", "x".repeat(length));
    // "/" and 22,001 "#" in Huffman coding, of 12 bits each: shorter decoded than it is coded.
    let mut bits = format!("011000{}", "111111111010".repeat(22_001));
    bits.push_str(&"1".repeat(bits.len().next_multiple_of(8) - bits.len()));
    let byte = |bits: &[u8]| u8::from_str_radix(std::str::from_utf8(bits).unwrap(), 2).unwrap();
    let fragment: Vec<_> = bits.as_bytes().chunks(8).map(byte).collect();
    let fragment = [vec![0x04], hpack::number(0x80, 7, fragment.len()), fragment].concat();
    for (number, (more, status)) in [
        (remembered(40_000), 431),
        (remembered(100_000), 431),
        (hpack::never_indexed("x-long", "x".repeat(100_000)), 431),
        (hpack::never_indexed("cookie", "x".repeat(33_000)), 431),
        (remembered(10), 200),
        (hpack::indexed(62), 200),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 2 * number as u32 + 1;
        peer.send(in_frames(stream, &[hpack::section(&GET), more].concat()));
        let answer = peer.answer(stream);
        assert_eq!((answer.status, answer.reset), (status, None), "{number}");
    }
    let head = hpack::section(&GET[..3]);
    assert_eq!(GET[3].0, ":path");
    peer.send(in_frames(21, &[head, fragment].concat()));
    assert_eq!(peer.answer(21).status, 431);
    peer.get(23, "/");
    assert_eq!(peer.answer(23).text(), "ok");
    let refused = |line: &Value| line["status"] == 431 && line["cause"] == "limit";
    eventually("each has a line in the log", || {
        let lines = gate.lines();
        (lines.iter().filter(|line| refused(line)).count() == 5).then_some(())
    });
}

/// RFC 9113 §10.5.1: a section that would cost more than a few heads to decode ends the connection,
/// with its reason.
#[test]
fn an_excessive_http2_field_ends_the_connection() {
    let gate = lockgate().start(&(SHORT.to_owned() + &plain_site(Origin::tcp().address())));
    let large = hpack::section(&[("x", &"x".repeat(16_000)), ("y", &"y".repeat(20_000))]);
    for (more, code, reason, count) in [
        (
            hpack::section(&[("x-long", &"x".repeat(200_000))]),
            code::ENHANCE_YOUR_CALM,
            "calm",
            1.0,
        ),
        // Behind fields that are too large already, it is not passed over: RFC 9113 §4.3 has a code
        // for a block that is not decoded.
        (
            [large, hpack::section(&[("z", &"z".repeat(60_000))])].concat(),
            code::COMPRESSION_ERROR,
            "sections",
            1.0,
        ),
        // A name is never passed over.
        (
            hpack::section(&[(&"n".repeat(50_000), "")]),
            code::COMPRESSION_ERROR,
            "sections",
            2.0,
        ),
    ] {
        let mut peer = Peer::connect(gate.address());
        let _ = peer.try_send(in_frames(1, &[hpack::section(&GET), more].concat()));
        assert_eq!(peer.goodbye().code, code, "{reason}");
        let label = format!("reason=\"{reason}\"");
        eventually("it is counted", || {
            (gate.sample(VIOLATIONS, &[&label]) == count).then_some(())
        });
    }
}

/// RFC 9110 §9.3.2, and each is a request of its own: the id on an error page is in one line of the
/// log.
#[test]
fn malformed_http2_requests_are_logged_one_by_one() {
    let origin = Origin::tcp().answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into());
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    for (stream, method, host) in [
        (1, "GET", "app.test"),
        (3, "HEAD", "b.test"),
        (5, "GET", "b.test"),
    ] {
        let method = (":method", method);
        let fields = [
            method,
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", "/"),
            ("host", host),
        ];
        peer.headers(stream, &fields, true);
        let answer = peer.answer(stream);
        let expected = match stream {
            1 => (200, None, true),
            _ => (400, Some(code::PROTOCOL_ERROR), method.1 == "HEAD"),
        };
        let received = (answer.status, answer.reset, answer.body.is_empty());
        assert_eq!(received, expected, "{stream}");
    }
    let mut ids: Vec<_> = (0..3).map(|_| gate.next_line()["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
}
