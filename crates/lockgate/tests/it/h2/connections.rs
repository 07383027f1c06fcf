//! Connections over HTTP/2: negotiation, limits and their end.

use std::time::Duration;

use http::Method;
use lockgate_testkit::h2::frame::{code, flag, frame, kind, setting, settings};
use lockgate_testkit::h2::{Client, PREFACE, Peer, hpack};
use lockgate_testkit::{
    Folder, Http, Lockgate, Message, Origin, Serving, Signal, Wire, eventually,
};

use super::floods::site_for;
use super::plain_site;
use crate::http::{plain_site as http1_site, secure_site};
use crate::scene::{NAME, Site, lockgate};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn application() -> Serving {
    Origin::tcp().answering(|_| OK.into())
}

/// A gate with a site over TLS at `127.0.0.2:0`, with these keys too.
fn secure(site: &Site, origin: &Serving, keys: &str) -> Lockgate {
    lockgate().start(&(secure_site(&site.cert, origin.address()) + keys))
}

/// RFC 9113 §3.2: a client that offers h2 gets it; others are served as before.
#[test]
fn alpn_selects_http2() {
    let (site, origin) = (Site::new(), application());
    let gate = secure(&site, &origin, "");
    let at = gate.at("127.0.0.2:0");
    let client = Client::connect_tls(&site.client(), at, NAME);
    assert_eq!(client.get("/two").status, 200);
    let line = gate.line("over HTTP/2", |line| line["target"] == "/two");
    assert_eq!(
        (&line["protocol"], &line["alpn"]),
        (&"HTTP/2.0".into(), &"h2".into()),
        "{line}"
    );
    for (offered, agreed) in [
        (&["http/1.1"][..], Some(&b"http/1.1"[..])),
        (&[], None),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["h2", "http/1.1"], Some(b"h2")),
    ] {
        let tls = site.client().alpn(offered).connect(at, NAME).unwrap();
        assert_eq!(tls.agreed().alpn_protocol(), agreed, "{offered:?}");
        if agreed != Some(b"h2") {
            let mut client = Http::over(tls);
            client.send("GET /one HTTP/1.1\r\nHost: app.test\r\n\r\n");
            assert_eq!(client.answer().status(), 200);
        }
    }
    let line = gate.line("over HTTP/1", |line| line["target"] == "/one");
    assert_eq!(line["protocol"], "HTTP/1.1", "{line}");
}

#[test]
fn a_site_restricted_to_http1_does_not_offer_h2() {
    let (site, origin) = (Site::new(), application());
    let gate = secure(&site, &origin, "protocols = [\"http1\"]\n");
    let at = gate.at("127.0.0.2:0");
    let tls = site
        .client()
        .alpn(&["h2", "http/1.1"])
        .connect(at, NAME)
        .unwrap();
    assert_eq!(tls.agreed().alpn_protocol(), Some(&b"http/1.1"[..]));
}

/// RFC 9113 §3.3.
#[test]
fn h2c_prior_knowledge_needs_configuration() {
    let origin = application();
    let gate = lockgate().start(&plain_site(origin.address()));
    assert_eq!(Client::connect(gate.address()).get("/").status, 200);
    // In bytes that come one by one, and in more than one piece.
    let mut http = Http::connect(gate.address());
    http.send_in(1, PREFACE);
    assert_eq!(http.exactly(4)[3], kind::SETTINGS);
    let mut client = Http::connect(gate.address());
    client.send("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert_eq!(client.answer().status(), 200);
    let gate = lockgate().start(&http1_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(PREFACE);
    let answer = client.answer();
    assert!(matches!(answer.status(), 400 | 505), "{}", answer.head);
    client.expect_end();
}

/// RFC 9113 §5.1.2: a stream beyond the limit is refused unharmed, and the rest is served.
#[test]
fn max_concurrent_streams_is_configurable() {
    let origin = Origin::tcp();
    let gate =
        lockgate().start(&("http2 = { streams = 2 }\n".to_owned() + &plain_site(origin.address())));
    let mut peer = Peer::connect(gate.address());
    let settings = peer.read_until(kind::SETTINGS);
    let most = settings
        .settings()
        .find(|(id, _)| *id == setting::MAX_CONCURRENT_STREAMS);
    assert_eq!(most, Some((setting::MAX_CONCURRENT_STREAMS, 2)));
    for stream in [1, 3, 5] {
        peer.get(stream, "/");
    }
    let refused = peer.read_until(kind::RST_STREAM);
    assert_eq!(
        (refused.stream, refused.number(0)),
        (5, code::REFUSED_STREAM)
    );
    let mut upstreams = [origin.http(), origin.http()];
    for upstream in &mut upstreams {
        upstream.request();
        upstream.send(OK);
    }
    let mut ended = 0;
    while ended < 2 {
        let frame = peer.read();
        if frame.kind == kind::HEADERS {
            peer.fields(&frame);
        }
        ended += usize::from(frame.ends_stream());
    }
    peer.get(7, "/");
    // On one of the idle connections.
    eventually("the next request arrives", || {
        upstreams
            .iter()
            .any(|upstream| !upstream.stream.is_quiet(Duration::ZERO))
            .then_some(())
    });
}

/// RFC 9113 §6.8: open streams are finished, and no new ones are accepted.
#[test]
fn drain_sends_goaway_and_finishes_open_streams() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    peer.get(1, "/");
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
    peer.read_until(kind::DATA);
    let mut idle = Peer::connect(gate.address());
    idle.settle();
    gate.signal(Signal::TERM);
    // The first GOAWAY lets streams under way arrive; the second names the last one.
    let goaway = peer.read_until(kind::GOAWAY);
    assert_eq!(goaway.number(4), code::NO_ERROR);
    assert_eq!(idle.goodbye().code, code::NO_ERROR);
    upstream.send("rest");
    let data = peer.read_until(kind::DATA);
    assert_eq!(data.payload, b"rest");
    let (frames, end) = peer.end();
    end.expect("an orderly end");
    assert!(
        !frames.iter().any(|frame| frame.kind == kind::RST_STREAM),
        "{frames:?}"
    );
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn an_idle_http2_connection_ends_with_goaway() {
    let origin = application();
    let toml = "timeouts = { idle = \"1s\" }\n".to_owned() + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut fresh = Peer::connect(gate.address());
    let mut used = Peer::connect(gate.address());
    used.get(1, "/");
    assert_eq!(used.answer(1).status, 200);
    assert_eq!(fresh.goodbye().code, code::NO_ERROR);
    let goodbye = used.goodbye();
    assert_eq!((goodbye.code, goodbye.last_stream), (code::NO_ERROR, 1));
}

/// "Slowloris" before the first request: a preface, a frame or a field section that does not come
/// to its end.
#[test]
fn slowloris_http2_connections_are_closed() {
    let (site, origin) = (Site::new(), application());
    let toml = "timeouts = { head = \"300ms\", idle = \"300ms\" }\n".to_owned()
        + &plain_site(origin.address())
        + &secure_site(&site.cert, origin.address());
    let gate = lockgate().start(&toml);
    let mut silent = site
        .client()
        .alpn(&["h2"])
        .connect(gate.at("127.0.0.2:0"), NAME)
        .unwrap();
    let mut half = Wire::connect(gate.address());
    half.send(&PREFACE[..20]);
    let mut frame = Peer::connect(gate.address());
    frame.send([0, 0, 8, kind::PING, 0]);
    let mut head = Peer::connect(gate.address());
    head.frame(kind::HEADERS, 0, 1, []);
    silent.wait_closed();
    half.wait_closed();
    let _ = frame.end();
    let _ = head.end();
    gate.wait_for_sample("lockgate_connections", &["listener="], 0.0);
}

/// From the first byte on the head timeout applies, for HTTP/1 and HTTP/2 alike.
#[test]
fn a_partial_preface_has_only_the_head_timeout() {
    let origin = application();
    let toml = "timeouts = { head = \"300ms\", idle = \"1h\" }\n".to_owned()
        + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut half = Wire::connect(gate.address());
    half.send(&PREFACE[..1]);
    half.wait_closed();
    let line = gate.line("its end", |line| line["detail"] == "first request");
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"too_slow".into(), &"downstream".into()),
        "{line}"
    );
}

/// As over HTTP/1: a hash that takes seconds is not waited for.
#[test]
fn a_slow_basic_auth_check_ends_with_the_head_timeout() {
    let (folder, origin) = (Folder::new(), application());
    // bcrypt, in 2^17 rounds.
    let file = folder.write(
        "users",
        "slow:$2y$17$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m\n",
    );
    let auth = format!("auth = {{ basic = \"{}\" }}\n", file.display());
    let toml =
        "timeouts = { head = \"300ms\" }\n".to_owned() + &plain_site(origin.address()) + &auth;
    let gate = lockgate().start(&toml);
    let client = Client::connect(gate.address());
    let mut request = Client::request(Method::GET, "/");
    request
        .headers_mut()
        .insert("authorization", "Basic c2xvdzp4".parse().unwrap());
    assert_eq!(client.begin(request, true).answer().status, 503);
}

/// The head timeout is over with the head, also for a request in the same packet as the preface.
#[test]
fn a_response_may_take_longer_than_the_head_timeout() {
    let origin = Origin::tcp();
    let toml = "timeouts = { head = \"300ms\" }\n".to_owned() + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut peer = Peer::over(Wire::connect(gate.address()));
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    let end = flag::END_HEADERS | flag::END_STREAM;
    let request = frame(kind::HEADERS, end, 1, hpack::section(&fields));
    let settings = frame(kind::SETTINGS, 0, 0, settings(&[]));
    peer.send([PREFACE, &settings, &request].concat());
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
    assert_eq!(peer.read_until(kind::DATA).payload, b"half");
    // A client that came later and sends nothing has had its time.
    let mut silent = Http::connect(gate.address());
    silent.send("GET / HTTP/1.1\r\n");
    assert_eq!(silent.answer().status(), 408);
    upstream.send("rest");
    assert_eq!(peer.read_until(kind::DATA).payload, b"rest");
}

/// RFC 8441.
#[test]
fn a_websocket_over_http2_reaches_an_http1_application() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let client = Client::connect(gate.address());
    let mut socket = client.connect_protocol("websocket", "/chat");
    let mut upstream = origin.http();
    let head = Message {
        head: upstream.head(),
        ..Message::default()
    };
    assert_eq!(head.first_line(), "GET /chat HTTP/1.1");
    assert_eq!(
        (head.field("upgrade"), head.field("connection")),
        (Some("websocket"), Some("Upgrade"))
    );
    let key = head.field("sec-websocket-key").expect("a key of its own");
    let accept = accept(key);
    upstream.send(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
    ));
    let answer = socket.head().unwrap();
    assert_eq!(
        (answer.status, answer.field("sec-websocket-protocol")),
        (200, Some("chat"))
    );
    assert_eq!(
        (
            answer.field("sec-websocket-accept"),
            answer.field("upgrade")
        ),
        (None, None)
    );
    // Other requests of the connection go on beside it.
    let beside = client.begin(Client::request(Method::GET, "/"), true);
    let mut other = origin.http();
    other.request();
    other.send(OK);
    assert_eq!(beside.answer().text(), "ok");
    for word in ["one", "two", "three"] {
        socket.send(word, false);
        upstream.expect(word);
        upstream.send(word);
        assert_eq!(socket.piece().unwrap().as_deref(), Some(word.as_bytes()));
    }
    socket.send("", true);
    upstream.expect_end();
    upstream.send("last");
    drop(upstream);
    assert_eq!(socket.answer().text(), "onetwothreelast");
}

/// The `Sec-WebSocket-Accept` for a key (RFC 6455 §4.2.2).
pub(crate) fn accept(key: &str) -> String {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    use base64ct::{Base64, Encoding};
    let joined = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    Base64::encode_string(digest(&SHA1_FOR_LEGACY_USE_ONLY, joined.as_bytes()).as_ref())
}

#[test]
fn a_websocket_refused_by_the_application_is_answered_so() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let client = Client::connect(gate.address());
    let socket = client.connect_protocol("websocket", "/chat");
    let mut upstream = origin.http();
    upstream.head();
    upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let answer = socket.answer();
    assert_eq!((answer.status, answer.text()), (403, "no"));
}

/// We are no forward proxy (RFC 9110 §9.3.6), and know no protocol but WebSocket.
#[test]
fn connect_is_refused_over_http2() {
    let origin = application();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    peer.headers(
        1,
        &[(":method", "CONNECT"), (":authority", "app.test:22")],
        false,
    );
    let answer = peer.answer(1);
    assert!(answer.status >= 400 || answer.reset.is_some(), "{answer:?}");
    let tunnel = [
        (":method", "CONNECT"),
        (":protocol", "connect-udp"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    peer.headers(3, &tunnel, false);
    let answer = peer.answer(3);
    assert!(answer.status >= 400 || answer.reset.is_some(), "{answer:?}");
    peer.get(5, "/");
    assert_eq!(peer.answer(5).status, 200);
    assert_eq!(
        gate.sample("lockgate_upstream_requests_total", &[]) as u32,
        1
    );
}

/// RFC 9113 §5.2.1: windows are of streams.
#[test]
fn a_stalled_request_body_blocks_no_other_stream() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let client = Client::connect(gate.address());
    let mut upload = client.begin(Client::request(Method::POST, "/"), false);
    // Less than a stream's window, more than the application's socket may be counted on for.
    upload.send(vec![b'x'; 900_000], false);
    let mut unread = origin.http();
    unread.head();
    let other = client.begin(Client::request(Method::GET, "/"), true);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert_eq!(other.answer().text(), "ok");
}

/// The same where the bodies together are larger than the window of the connection.
#[test]
fn many_stalled_request_bodies_block_no_other_body() {
    let (deaf, application) = (Origin::tcp(), application());
    let gate = lockgate().start(&site_for(&deaf.address(), &application));
    let client = Client::connect(gate.address());
    let mut uploads: Vec<_> = (0..30)
        .map(|_| client.begin(Client::request(Method::POST, "/"), false))
        .collect();
    for upload in &mut uploads {
        upload.send(vec![b'x'; 500_000], false);
    }
    let answer = client.post("/probe", vec![b'y'; 200_000]);
    assert_eq!((answer.status, answer.text()), (200, "ok"));
}

/// grpc-go measures the round trip by a PING behind the first DATA that it gets, again as soon as
/// that is answered, and an update of the connection's window before it, "to avoid excessive ping
/// detection (e.g. in an L7 proxy)".
#[test]
fn a_ping_after_every_response_is_no_flood() {
    let origin = application();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    for at in 0..3_000 {
        peer.get(2 * at + 1, "/");
        let answer = peer.answer(2 * at + 1);
        assert_eq!((answer.status, answer.text()), (200, "ok"), "request {at}");
        peer.ping(*b"roundtri");
    }
    gate.wait_for_sample("lockgate_connections", &["listener="], 1.0);
}
