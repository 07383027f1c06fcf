//! The peers of HTTP/2 against each other: a finding of a test about Lockgate must not be a mistake
//! of the kit.

use lockgate_testkit::h2::frame::{code, flag, kind, setting};
use lockgate_testkit::h2::{
    Client, GoAway, Origin, Peer, ReceivedResponse, ScriptedResponse, hpack,
};
use lockgate_testkit::{Authority, ClientSettings, Origin as Listener};

fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// A response with all that one may have.
fn whole() -> ScriptedResponse {
    ScriptedResponse::new(200)
        .interim(103, &[("link", "</a.css>")])
        .field("x", "y")
        .piece("ab")
        .piece("c")
        .trailer("t", "u")
}

fn expected() -> ReceivedResponse {
    ReceivedResponse {
        status: 200,
        fields: fields(&[("x", "y")]),
        interim: vec![(103, fields(&[("link", "</a.css>")]))],
        body: b"abc".to_vec(),
        trailers: fields(&[("t", "u")]),
        reset: None,
    }
}

#[test]
fn a_scripted_client_talks_to_the_h2_origin() {
    let origin = Origin::plain(|_| whole());
    let mut peer = Peer::connect(origin.socket_address());
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/x?y"),
        ("te", "trailers"),
    ];
    peer.headers(1, &head, false);
    peer.data(1, "12", false);
    peer.data(1, "3", false);
    peer.headers(1, &[("end", "yes")], true);
    assert_eq!(peer.answer(1), expected());
    let asked = origin.next();
    assert_eq!(
        (asked.method.as_str(), asked.scheme.as_str()),
        ("POST", "http")
    );
    assert_eq!(
        (asked.authority.as_str(), asked.path.as_str()),
        ("a", "/x?y")
    );
    assert_eq!(
        (asked.field("te"), asked.text(), asked.trailer("end")),
        (Some("trailers"), "123", Some("yes"))
    );
    // The peer's table remembers fields that the origin repeats.
    for stream in [3, 5] {
        peer.get(stream, "/");
        assert_eq!(peer.answer(stream), expected());
    }
    peer.data(1, "late", false);
    assert_eq!(
        peer.read_until(kind::RST_STREAM).number(0),
        code::STREAM_CLOSED
    );
}

#[test]
fn the_h2_client_talks_to_a_scripted_origin() {
    let listener = Listener::tcp();
    let client = Client::connect(listener.socket_address());
    let mut origin = Peer::accept(listener.accept(), &[(setting::MAX_CONCURRENT_STREAMS, 7)]);
    let mut exchange = client.begin(Client::request(http::Method::GET, "/x"), true);
    let head = origin.read_until(kind::HEADERS);
    assert!(head.ends_stream());
    let asked = origin.fields(&head);
    assert!(asked.contains(&(":path".into(), "/x".into())), "{asked:?}");
    origin.headers(
        head.stream,
        &[(":status", "103"), ("link", "</a.css>")],
        false,
    );
    assert_eq!(exchange.interim(), 103);
    origin.headers(head.stream, &[(":status", "200"), ("x", "y")], false);
    origin.data(head.stream, "abc", false);
    origin.headers(head.stream, &[("t", "u")], true);
    assert_eq!(exchange.answer(), expected());
    assert_eq!(client.allowed_streams(), 7);
    // Everything else from the client is read: closing with it unread would reset the connection.
    origin.settle();
    origin.goaway(head.stream, code::NO_ERROR);
    drop(origin);
    client.ended().expect("an orderly end");
}

#[test]
fn h2_client_and_origin_speak_tls() {
    let authority = Authority::new("Test Authority");
    let origin = Origin::tls(&authority.issue(&["app.test"]), |asked| {
        match asked.path.as_str() {
            "/refused" => ScriptedResponse::refuse(code::REFUSED_STREAM),
            "/cut" => ScriptedResponse::new(200)
                .piece("half")
                .then_reset(code::INTERNAL_ERROR),
            "/never" => ScriptedResponse::new(200).piece("half").then_nothing(),
            _ => ScriptedResponse::ok(asked.body.clone()),
        }
    });
    let settings = ClientSettings::trusting(&authority);
    let client = Client::connect_tls(&settings, origin.socket_address(), "app.test");
    let body = lockgate_testkit::bytes(1, 3_000_000);
    assert_eq!(client.post("/", body.clone()).body, body);
    assert_eq!(
        client.get("/refused"),
        ReceivedResponse {
            reset: Some(code::REFUSED_STREAM),
            ..ReceivedResponse::default()
        }
    );
    let cut = client.get("/cut");
    assert_eq!(
        (cut.status, cut.text(), cut.reset),
        (200, "half", Some(code::INTERNAL_ERROR))
    );
    let mut left = client.begin(Client::request(http::Method::GET, "/never"), true);
    assert_eq!(left.piece().unwrap().as_deref(), Some(&b"half"[..]));
    left.reset(code::CANCEL);
    assert_eq!(origin.next_reset(), (left.stream(), code::CANCEL));
    let mut peer = Peer::connect_tls(&settings, origin.socket_address(), "app.test");
    peer.get(1, "/");
    assert_eq!(peer.answer(1).status, 200);
    assert_eq!(origin.accepted(), 2);
}

#[test]
fn an_origin_sends_goaway_freezes_and_drops_on_command() {
    let origin = Origin::plain(|_| ScriptedResponse::ok("x"));
    let mut peer = Peer::connect(origin.socket_address());
    peer.get(1, "/");
    assert_eq!(peer.answer(1).text(), "x");
    peer.settle();
    origin.freeze();
    peer.ping(*b"01234567");
    assert!(peer.stream.is_quiet(std::time::Duration::from_millis(50)));
    origin.serve();
    peer.read_until(kind::PING);
    origin.leave();
    assert_eq!(
        peer.goodbye(),
        GoAway {
            last_stream: 1,
            code: code::NO_ERROR,
            debug: String::new()
        }
    );
    origin.serve();
    let client = Client::connect(origin.socket_address());
    assert_eq!(client.get("/").text(), "x");
    origin.drop_all();
    let asked = client.try_begin(Client::request(http::Method::GET, "/"), true);
    assert!(asked.and_then(|asked| asked.try_answer()).is_err());
}

#[test]
fn h2_streams_go_both_ways_at_once() {
    let origin = Origin::echo();
    let client = Client::connect(origin.socket_address());
    let mut socket = client.connect_protocol("websocket", "/ws");
    let mut other = client.begin(Client::request(http::Method::POST, "/"), false);
    for piece in ["one", "two", "three"] {
        socket.send(piece, false);
        other.send(piece, false);
        assert_eq!(socket.piece().unwrap().as_deref(), Some(piece.as_bytes()));
        assert_eq!(other.piece().unwrap().as_deref(), Some(piece.as_bytes()));
    }
    other.trailers(&[("a", "b")]);
    assert_eq!(other.answer().trailer("a"), Some("b"));
    socket.send("", true);
    assert_eq!(socket.answer().text(), "onetwothree");
    let asked = [origin.next(), origin.next()];
    let protocols = asked.map(|asked| asked.protocol);
    assert!(
        protocols.contains(&Some("websocket".into())) && protocols.contains(&None),
        "{protocols:?}"
    );
}

/// The bytes of a request that no encoder would make arrive as they are: the h2 crate reports the
/// error.
#[test]
fn a_scripted_client_sends_malformed_header_blocks() {
    let origin = Origin::plain(|_| ScriptedResponse::ok(""));
    let mut peer = Peer::connect(origin.socket_address());
    let section = [hpack::indexed(2), hpack::never_indexed("connection", "b")].concat();
    peer.frame(
        kind::HEADERS,
        flag::END_HEADERS | flag::END_STREAM,
        1,
        section,
    );
    assert_eq!(
        peer.read_until(kind::RST_STREAM).number(0),
        code::PROTOCOL_ERROR
    );
    peer.frame(kind::HEADERS, flag::END_HEADERS, 3, hpack::indexed(99));
    // RFC 9113 §4.3 requires COMPRESSION_ERROR.
    assert_eq!(peer.goodbye().code, code::PROTOCOL_ERROR);
}
