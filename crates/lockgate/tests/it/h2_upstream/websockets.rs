//! WebSockets to endpoints that speak HTTP/2 (RFC 8441).

use h2::server::Builder;
use lockgate_testkit::h2::frame::{kind, setting};
use lockgate_testkit::h2::{Origin, Peer, ScriptedResponse};
use lockgate_testkit::{Http, Origin as Scripted};

use super::{ask, client, in_front_of, pooled};
use crate::scene::lockgate;

/// The handshake of RFC 6455 §1.3.
const HANDSHAKE: &str = "GET /chat?x HTTP/1.1\r\nHost: app.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

#[test]
fn an_http1_websocket_reaches_an_http2_endpoint() {
    let origin = Origin::echo();
    let gate = in_front_of(&origin);
    let mut http = Http::connect(gate.address());
    // The first frame may come with the handshake.
    http.send([HANDSHAKE.as_bytes(), b"early"].concat());
    let head = http.head();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for line in [
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    ] {
        assert_eq!(
            head.matches(&format!("\r\n{line}\r\n")).count(),
            1,
            "{line} in {head}"
        );
    }
    http.expect("early");
    http.send("word");
    http.expect("word");
    http.stream.finish();
    http.expect_end();
    let asked = origin.next();
    assert_eq!(
        (asked.method.as_str(), asked.protocol.as_deref()),
        ("CONNECT", Some("websocket"))
    );
    assert_eq!(
        (asked.path.as_str(), asked.field("sec-websocket-version")),
        ("/chat?x", Some("13"))
    );
    assert_eq!(
        (asked.field("sec-websocket-key"), asked.field("upgrade")),
        (None, None)
    );
    assert_eq!(asked.text(), "earlyword");
}

#[test]
fn an_http2_websocket_reaches_an_http2_endpoint() {
    let origin = Origin::echo();
    let gate = in_front_of(&origin);
    let client = client(&gate);
    let mut socket = client.connect_protocol("websocket", "/chat");
    let head = socket.head().unwrap();
    assert_eq!(
        (head.status, head.field("sec-websocket-accept")),
        (200, None)
    );
    for word in ["one", "two"] {
        socket.send(word, false);
        assert_eq!(socket.piece().unwrap().as_deref(), Some(word.as_bytes()));
    }
    socket.send("end", true);
    assert_eq!(socket.answer().text(), "onetwoend");
    assert_eq!(origin.next().protocol.as_deref(), Some("websocket"));
}

#[test]
fn a_refused_websocket_is_an_ordinary_response() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut http = Http::connect(gate.address());
    http.send(HANDSHAKE);
    let mut peer = Peer::accept(origin.accept(), &[(setting::ENABLE_CONNECT_PROTOCOL, 1)]);
    let headers = peer.read_until(kind::HEADERS);
    peer.headers(
        headers.stream,
        &[(":status", "403"), ("content-length", "2")],
        false,
    );
    peer.data(headers.stream, "no", true);
    let answer = http.answer();
    assert_eq!((answer.status(), answer.text()), (403, "no"));
}

/// Each side gets the end of the other.
#[test]
fn the_end_of_a_websocket_by_the_endpoint_is_forwarded() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut http = Http::connect(gate.address());
    http.send(HANDSHAKE);
    let mut peer = Peer::accept(origin.accept(), &[(setting::ENABLE_CONNECT_PROTOCOL, 1)]);
    let stream = peer.read_until(kind::HEADERS).stream;
    peer.headers(stream, &[(":status", "200")], false);
    peer.data(stream, "bye", true);
    assert!(http.head().starts_with("HTTP/1.1 101 "));
    http.expect("bye");
    http.expect_end();
    http.send("thanks");
    http.stream.finish();
    let data = peer.read_until(kind::DATA);
    assert_eq!(data.payload, b"thanks");
}

#[test]
fn an_endpoint_without_extended_connect_gets_no_websocket() {
    let deaf = Origin::plain_with(&Builder::new(), |_| ScriptedResponse::ok("ok"));
    let gate = in_front_of(&deaf);
    let answer = ask(&gate, HANDSHAKE);
    assert_eq!(answer.status(), 502, "{}", answer.head);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=http_upgrade_failed")
    );
    let log = gate.line("the request", |line| line["status"] == 502);
    assert!(
        log.to_string()
            .contains("does not support WebSocket over HTTP/2"),
        "{log}"
    );
}

/// RFC 8441 §5: data behind an extended CONNECT is the tunnel's.
#[test]
fn a_websocket_handshake_with_a_body_reaches_no_http2_endpoint() {
    let origin = Origin::echo();
    let gate = in_front_of(&origin);
    for (field, body) in [
        ("Transfer-Encoding: chunked", "0\r\n\r\n"),
        ("Content-Length: 1", "x"),
    ] {
        let handshake = HANDSHAKE.replacen("\r\n", &format!("\r\n{field}\r\n"), 1);
        let answer = ask(&gate, handshake + body);
        assert_eq!(answer.status(), 502, "{}", answer.head);
        let log = gate.line("the request", |line| line["status"] == 502);
        assert!(
            log.to_string()
                .contains("a WebSocket handshake with a body cannot be sent over HTTP/2"),
            "{log}"
        );
    }
    // A length of 0 is none.
    let handshake = HANDSHAKE.replacen("\r\n", "\r\nContent-Length: 0\r\n", 1);
    let mut http = Http::connect(gate.address());
    http.send(handshake);
    assert!(http.head().starts_with("HTTP/1.1 101 "));
    http.send("word");
    http.expect("word");
    http.stream.finish();
    http.expect_end();
    assert_eq!(origin.next().field("content-length"), None);
}
