//! Clients that leave, or are disconnected, in the middle of an exchange.

use std::io::Write;
use std::time::Duration;

use lockgate_testkit::h2::Peer;
use lockgate_testkit::h2::frame::{code, frame, kind, setting};
use lockgate_testkit::{Http, Lockgate, Message, Origin, Signal, Wire};

use super::connections::accept;
use super::plain_site;
use crate::scene::lockgate;

/// A window that is large enough not to matter.
const WIDE: u32 = u32::MAX >> 1;

/// A client's end of a WebSocket on stream 1, and the application's.
fn websocket(gate: &Lockgate, origin: &Origin) -> (Peer, Http) {
    let mut peer = Peer::connect(gate.address());
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/chat"),
        ("sec-websocket-version", "13"),
    ];
    peer.headers(1, &fields, false);
    let mut upstream = origin.http();
    let head = Message {
        head: upstream.head(),
        ..Message::default()
    };
    let accept = accept(head.field("sec-websocket-key").expect("a key"));
    upstream.send(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ));
    let head = peer.read_until(kind::HEADERS);
    assert_eq!(peer.fields(&head)[0].1, "200");
    (peer, upstream)
}

/// An application that ignores the end of its input does not keep a tunnel of a client that is
/// gone.
#[test]
fn a_half_closed_websocket_stream_ends_with_its_client() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    for resets in [true, false] {
        let (mut peer, mut upstream) = websocket(&gate, &origin);
        peer.data(1, "", true);
        upstream.expect_end();
        gate.wait_for_sample("lockgate_upgraded_connections", &[], 1.0);
        if resets {
            peer.reset(1, code::CANCEL);
        } else {
            drop(peer);
        }
        gate.wait_for_sample("lockgate_upgraded_connections", &[], 0.0);
    }
}

/// RFC 9113 §5.4.2: the reset does not wait until the endpoint takes the data before it.
#[test]
fn rst_stream_of_an_upload_resets_the_stalled_upstream_stream() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&format!(
        "[pool.app]\nprotocol = \"h2c\"\nendpoints = [\"{}\"]\n{}",
        origin.address(),
        plain_site("pool:app")
    ));
    let mut peer = Peer::connect(gate.address());
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    peer.headers(1, &head, false);
    let mut upstream = Peer::accept(origin.accept(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    let asked = upstream.read_until(kind::HEADERS);
    peer.data(1, "more", false);
    peer.settle();
    peer.reset(1, code::CANCEL);
    let reset = upstream.read_until(kind::RST_STREAM);
    assert_eq!(reset.stream, asked.stream);
    let line = gate.line("the request", |line| line["method"] == "POST");
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"client_reset".into(), &"downstream".into()),
        "{line}"
    );
}

/// Our GOAWAY does not reach it, and the violation is logged all the same.
#[test]
fn a_flooding_client_that_reads_nothing_is_logged() {
    let origin = Origin::tcp();
    let few = "http2 = { control = \"1/s burst 10\" }\n".to_owned();
    let gate = lockgate().start(&(few + &plain_site(origin.address())));
    let mut peer = Peer::over(Wire::connect(gate.address()));
    peer.hello(&[(setting::INITIAL_WINDOW_SIZE, WIDE)]);
    peer.window_update(0, WIDE - 65_535);
    peer.get(1, "/");
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\n\r\n");
    // When no more is taken, every buffer on the way is full.
    upstream.stream.limit(Duration::from_secs(1));
    while upstream.stream.write_all(&[b'x'; 65_536]).is_ok() {}
    peer.send(frame(kind::SETTINGS, 0, 0, "").repeat(20));
    let detail = "too many useless frames";
    let line = gate.line("the violation", |line| line["detail"] == detail);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"limit".into(), &"downstream".into()),
        "{line}"
    );
}

/// RFC 9113 §6.8: the last stream tells which requests may have been processed.
#[test]
fn goaway_at_the_drain_deadline_names_the_last_stream() {
    let origin = Origin::tcp();
    let toml = "drain = { deadline = \"1s\" }\n".to_owned() + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut peer = Peer::connect(gate.address());
    peer.get(1, "/");
    let mut upstream = origin.http();
    upstream.request();
    gate.signal(Signal::TERM);
    // A client that does not acknowledge the PING behind the first GOAWAY gets no other before the
    // deadline.
    assert_eq!(gate.ended().code, Some(3));
    let goodbye = peer.goodbye();
    assert_eq!((goodbye.code, goodbye.last_stream), (code::NO_ERROR, 1));
}

/// As over HTTP/1, where it is the connection's own line.
#[test]
fn a_websocket_stream_has_a_log_line_with_its_bytes() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let (mut peer, mut upstream) = websocket(&gate, &origin);
    peer.data(1, "three", false);
    upstream.expect("three");
    upstream.send("fourteen bytes");
    assert_eq!(peer.read_until(kind::DATA).payload, b"fourteen bytes");
    peer.reset(1, code::CANCEL);
    let line = gate.line("the tunnel", |line| line["sent_bytes"] == 14);
    assert_eq!(
        (&line["received_bytes"], &line["cause"]),
        (&5.into(), &"client_reset".into()),
        "{line}"
    );
    assert_eq!(line["endpoint"], origin.address(), "{line}");
}

/// With the PROXY protocol, concurrent streams need a connection each. Afterwards one is enough.
#[test]
fn surplus_dedicated_upstream_connections_close_before_the_client() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let origin = Origin::tcp();
    let gate = lockgate().start(&format!(
        "[pool.app]\nproxy_protocol = \"v1\"\nidle = {{ for = \"100ms\" }}\nendpoints = [\"{}\"]\n{}",
        origin.address(),
        plain_site("pool:app")
    ));
    let mut peer = Peer::connect(gate.address());
    let ask = |peer: &mut Peer, stream| {
        peer.get(stream, "/");
        let mut upstream = origin.http();
        upstream.line();
        upstream.request();
        (stream, upstream)
    };
    let mut many = [1, 3, 5].map(|stream| ask(&mut peer, stream));
    for (stream, upstream) in &mut many {
        upstream.send(OK);
        assert_eq!(peer.answer(*stream).status, 200);
    }
    assert!(
        many[0].1.stream.is_quiet(Duration::from_millis(400)),
        "it is kept"
    );
    let (stream, mut upstream) = ask(&mut peer, 7);
    upstream.send(OK);
    assert_eq!(peer.answer(stream).status, 200);
    for (_, upstream) in &mut many {
        upstream.wait_closed();
    }
}
