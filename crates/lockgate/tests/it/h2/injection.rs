//! Requests over HTTP/2 that would be more than one request, or another, once they are written as HTTP/1: nothing of them
//! reaches the application.
//!
//! "HTTP/2: The Sequel is Always Worse" (Kettle 2021), RFC 9113 §8.2.1, §8.3, §10.3.

use std::sync::{Arc, Mutex};

use lockgate_testkit::Origin;
use lockgate_testkit::h2::frame::{flag, frame, kind};
use lockgate_testkit::h2::{Peer, hpack};

use super::plain_site;
use crate::scene::lockgate;

type Fields = Vec<(String, String)>;

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "app.test"), (":path", "/injected")];

fn owned(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
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

/// What no value may have, in any place of it.
fn spoilt(value: &str) -> Vec<String> {
    let inside = ["\r\nx: y", "\nx: y", "\rx: y", "\0", "\r\n\r\nGET /second HTTP/1.1\r\nhost: a\r\n\r\n"];
    let inside = inside.iter().flat_map(|bad| [format!("{value}{bad}"), format!("{bad}{value}")]);
    inside.chain(["\r", "\n", "\r\n"].map(|end| format!("{value}{end}"))).collect()
}

/// Heads that must not be passed on, each with what is wrong.
fn malformed() -> Vec<(String, Fields)> {
    let mut all: Vec<(String, Fields)> = Vec::new();
    let mut add = |what: &str, fields: Fields| all.push((what.to_owned(), fields));
    // Values.
    for (name, value) in GET {
        for bad in spoilt(value) {
            add("pseudo-field", pseudo(name, &bad));
        }
    }
    for bad in spoilt("a") {
        add("value", with("x", &bad));
        add("cookie", with("cookie", &bad));
        add("content-length", with("content-length", &format!("0{bad}")));
    }
    // Words of the first line.
    for bad in ["", "GET ", " GET", "GET /second HTTP/1.1", "G:T", "G\"T", "GET\t/", "G\u{e9}T"] {
        add("method", pseudo(":method", bad));
    }
    for bad in ["", "injected", "/ HTTP/1.1", "/a b", "/a\tb", "/a\u{7f}", "*", "http://other/", "//\r"] {
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
        add("after a field", [owned(&[("x", "y")]), owned(&GET)].concat());
        if name != ":authority" {
            add("missing", owned(&GET).into_iter().filter(|(found, _)| found != name).collect());
        }
    }
    for name in [":status", ":protocol", ":host", ":", ":Path", ":x"] {
        add("unknown pseudo-field", with(name, "200"));
    }
    add("nothing", Vec::new());
    // Hosts.
    add("another host", with("host", "other.test"));
    add("two hosts", [with("host", "app.test"), owned(&[("host", "other.test")])].concat());
    let bare: Fields = owned(&GET).into_iter().filter(|(name, _)| name != ":authority").collect();
    add("no host", bare.clone());
    add("two hosts instead", [bare, owned(&[("host", "app.test"), ("host", "other.test")])].concat());
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
    // Lengths that do not say one thing.
    for (first, second) in [("0", "1"), ("1", "2")] {
        add("two lengths", [with("content-length", first), owned(&[("content-length", second)])].concat());
    }
    for bad in ["", "-1", "+1", "0x1", "1 ", "1,1", "1,2", "1e1", "99999999999999999999999"] {
        add("length", with("content-length", bad));
    }
    add("a length without a body", with("content-length", "5"));
    all
}

/// Sends a head, and what would be the end of its stream; how that was refused, if it was.
fn sent(peer: &mut Peer, stream: u32, fields: &Fields) -> Result<String, String> {
    let section: Vec<u8> =
        fields.iter().flat_map(|(name, value)| hpack::never_indexed(name, value)).collect();
    peer.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, section);
    loop {
        let frame = match peer.try_next() {
            Ok(Some(frame)) => frame,
            ended => return Ok(format!("{ended:?}")),
        };
        match frame.kind {
            kind::HEADERS => {
                let answer = peer.fields(&frame);
                let status = answer[0].1.clone();
                let refused = status.starts_with('4') || status == "501";
                return if refused { Ok(status) } else { Err(format!("{answer:?}")) };
            }
            kind::RST_STREAM => return Ok("RST_STREAM".to_owned()),
            kind::GOAWAY => return Ok("GOAWAY".to_owned()),
            _ => {}
        }
    }
}

#[test]
fn nothing_malformed_crosses_into_http1() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let origin = Origin::tcp().answering(move |request| {
        seen.lock().unwrap().push(request.head.clone());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut wrong = Vec::new();
    for (what, fields) in malformed() {
        let mut peer = Peer::connect(gate.address());
        if let Err(answer) = sent(&mut peer, 1, &fields) {
            wrong.push(format!("{what} {fields:?} is answered by {answer}"));
        }
    }
    for head in &*heads.lock().unwrap() {
        wrong.push(format!("the application reads {head:?}"));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// RFC 9113 §8.1: trailers are fields like others, and have no pseudo-fields.
#[test]
fn nothing_malformed_crosses_into_http1_behind_a_body() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let origin = Origin::tcp().answering(move |request| {
        requests.lock().unwrap().push(request.clone());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    for trailers in [
        &[("x\r\ny", "z")][..],
        &[("x", "a\r\ny: z")],
        &[("x", "a\0")],
        &[("x y", "z")],
        &[("X", "y")],
        &[("", "y")],
        &[(":path", "/second")],
        &[(":status", "200")],
        &[("transfer-encoding", "chunked")],
        &[("connection", "close")],
        &[("content-length", "5")],
        &[("host", "other.test")],
    ] {
        let mut peer = Peer::connect(gate.address());
        let head = [(":method", "POST"), (":scheme", "http"), (":authority", "app.test"), (":path", "/")];
        peer.headers(1, &head, false);
        peer.data(1, "body", false);
        peer.headers(1, trailers, true);
        // An answer is fine where it is a refusal, or where the trailer was dropped.
        while let Ok(Some(frame)) = peer.try_next() {
            if matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY) || frame.ends_stream() {
                break;
            }
        }
    }
    for request in &*seen.lock().unwrap() {
        assert_eq!(request.trailers, "", "{request:?}");
        assert_eq!((request.first_line(), &request.body[..]), ("POST / HTTP/1.1", &b"body"[..]));
    }
}

/// RFC 9110 §4.2.4: a fragment is the client's own business. No rule may look at another path than the application.
#[test]
fn a_fragment_ends_the_path_before_any_rule_looks_at_it() {
    let origin = Origin::tcp();
    let toml = plain_site(origin.address()) + "[site.\":0\".path.\"/admin/*\"]\ndeny = [\"127.0.0.0/8\"]\n";
    let gate = lockgate().start(&toml);
    let mut peer = Peer::connect(gate.address());
    for (stream, path, status) in
        [(1, "/admin/#", 403), (3, "/x/..#/admin/", 400), (5, "/admin/x#/../y", 403)]
    {
        peer.get(stream, path);
        assert_eq!(peer.answer(stream).status, status, "{path}");
    }
    peer.get(7, "/x#/admin/");
    let mut upstream = origin.http();
    assert_eq!(upstream.request().first_line(), "GET /x HTTP/1.1");
}

/// RFC 9113 §8.2.1: fields that are unusual and allowed arrive as they are, in a request of one head.
#[test]
fn what_is_only_unusual_crosses_as_it_is() {
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
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
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

/// RFC 9113 §10.5.1, RFC 6585 §5: what is longer than we take is refused by an answer, and the next request is served.
#[test]
fn a_head_that_is_too_long_is_answered_431_or_414() {
    let origin = Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    let long = "x".repeat(16_000);
    let mut send = |stream: u32, fields: &[(&str, &str)]| {
        let section = hpack::section(fields);
        let mut parts = section.chunks(16_384).peekable();
        let mut kind = kind::HEADERS;
        while let Some(part) = parts.next() {
            let first = if kind == kind::HEADERS { flag::END_STREAM } else { 0 };
            let last = if parts.peek().is_none() { flag::END_HEADERS } else { 0 };
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

/// RFC 9110 §9.3.2, and each is a request of its own: what users quote from an error page is in one line of the log.
#[test]
fn requests_that_cannot_be_read_are_answered_and_counted_one_by_one() {
    let origin = Origin::tcp().answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into());
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    for (stream, method, host) in [(1, "GET", "app.test"), (3, "HEAD", "b.test"), (5, "GET", "b.test")] {
        let method = (":method", method);
        let fields =
            [method, (":scheme", "http"), (":authority", "app.test"), (":path", "/"), ("host", host)];
        peer.headers(stream, &fields, true);
        let answer = peer.answer(stream);
        assert_eq!(
            (answer.status, answer.body.is_empty()),
            (if stream == 1 { 200 } else { 400 }, stream < 5)
        );
    }
    let mut ids: Vec<_> = (0..3).map(|_| gate.next_line()["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
}
