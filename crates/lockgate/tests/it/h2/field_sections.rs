//! Field sections that are refused, whatever frames they come in, and how much memory heads may take
//! together.

use std::sync::{Arc, Mutex};

use lockgate_testkit::h2::frame::{self, code, flag, kind};
use lockgate_testkit::h2::{Frame, Peer, hpack};
use lockgate_testkit::{Lockgate, Origin, eventually};

use super::{VIOLATIONS, plain_site};
use crate::scene::lockgate;

const POST: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "app.test"),
    (":path", "/"),
];

/// The head of a GET, by references to the static table, and these fields behind it.
fn get(stream: u32, more: &[u8]) -> Vec<u8> {
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    let section = [hpack::section(&head), more.to_vec()].concat();
    frame::frame(
        kind::HEADERS,
        flag::END_HEADERS | flag::END_STREAM,
        stream,
        section,
    )
}

fn site(origin: &Origin) -> Lockgate {
    lockgate().start(&plain_site(origin.address()))
}

fn resets(frames: &[Frame]) -> Vec<(u32, u32)> {
    let resets = frames.iter().filter(|frame| frame.kind == kind::RST_STREAM);
    resets
        .map(|frame| (frame.stream, frame.number(0)))
        .collect()
}

/// How a request was refused: the status of the response, 0 without one, and the code of the reset.
fn refusal(peer: &mut Peer, stream: u32) -> (u16, Option<u32>) {
    let answer = peer.answer(stream);
    (answer.status, answer.reset)
}

/// RFC 9113 §8.1.1: a malformed request is a stream error. We say why before it.
const MALFORMED_REQUEST: (u16, Option<u32>) = (400, Some(code::PROTOCOL_ERROR));
/// The same without a response.
const BARE_RESET: (u16, Option<u32>) = (0, Some(code::PROTOCOL_ERROR));

/// RFC 9113 §8.1: a stream error, also where all of the request comes at once. The connection
/// serves others.
#[test]
fn pseudo_header_fields_in_request_trailers_are_refused() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let origin = Origin::tcp().answering(move |request| {
        requests
            .lock()
            .unwrap()
            .push(request.first_line().to_owned());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let trailers: [&[(&str, &str)]; 4] = [
        &[(":path", "/x")],
        &[("x", "y"), (":method", "GET")],
        &[(":status", "200")],
        &[(":x", "")],
    ];
    for trailers in trailers {
        for at_once in [true, false] {
            let mut peer = Peer::connect(gate.address());
            let end = flag::END_HEADERS | flag::END_STREAM;
            peer.headers(1, POST, false);
            peer.data(1, "body", false);
            if !at_once {
                peer.settle();
            }
            peer.frame(kind::HEADERS, end, 1, hpack::section(trailers));
            assert_eq!(refusal(&mut peer, 1), BARE_RESET, "{trailers:?}");
            peer.get(3, "/good");
            assert_eq!(peer.answer(3).text(), "ok");
        }
    }
    assert_eq!(*seen.lock().unwrap(), ["GET /good HTTP/1.1"; 8]);
}

/// A field section in two frames, of which the first ends within the last field.
fn split(stream: u32, flags: u8, section: &[u8]) -> Vec<u8> {
    let (front, back) = section.split_at(section.len() - 3);
    let front = frame::frame(kind::HEADERS, flags, stream, front);
    [
        front,
        frame::frame(kind::CONTINUATION, flag::END_HEADERS, stream, back),
    ]
    .concat()
}

/// What makes a head malformed behind its pseudo-fields (RFC 9113 §8.3): others, or the same again.
const PSEUDO_FIELDS: [&[(&str, &str)]; 5] = [
    &[(":path", "/admin")],
    &[(":method", "POST")],
    &[(":authority", "b.test")],
    &[(":scheme", "https")],
    &[("x", "y"), (":path", "/admin")],
];

/// Fields of a connection (RFC 9113 §8.2.2).
const CONNECTION_FIELDS: [&[(&str, &str)]; 5] = [
    &[("connection", "close")],
    &[("keep-alive", "timeout=5")],
    &[("transfer-encoding", "chunked")],
    &[("upgrade", "h2c")],
    &[("te", "gzip")],
];

/// RFC 9113 §8.1.1: a stream error, also where a frame ends within a field (§4.3). The connection
/// serves others.
#[test]
fn malformed_heads_split_across_frames_are_a_400() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let origin = Origin::tcp().answering(move |request| {
        requests
            .lock()
            .unwrap()
            .push(request.first_line().to_owned());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let get = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/good"),
    ];
    let end = flag::END_STREAM;
    for more in PSEUDO_FIELDS.iter().chain(&CONNECTION_FIELDS) {
        let mut peer = Peer::connect(gate.address());
        // Fields that no table remembers, and references to it.
        let plain = hpack::section(more);
        let remembered: Vec<u8> = more
            .iter()
            .flat_map(|(name, value)| hpack::remembered(name, value))
            .collect();
        let indexed: Vec<u8> = (0..more.len())
            .rev()
            .flat_map(|at| hpack::indexed(62 + at))
            .collect();
        for (number, more) in [plain, remembered, indexed].iter().enumerate() {
            let stream = 2 * number as u32 + 1;
            let section = [
                &hpack::section(&get)[..],
                more,
                &hpack::section(&[("x-last", "value")]),
            ]
            .concat();
            peer.send(split(stream, end, &section));
            assert_eq!(refusal(&mut peer, stream), MALFORMED_REQUEST, "{section:?}");
        }
        let well = hpack::section(&[&get[..], &[("te", "trailers"), ("x-last", "value")]].concat());
        peer.send(split(9, end, &well));
        assert_eq!(peer.answer(9).text(), "ok");
    }
    assert_eq!(*seen.lock().unwrap(), ["GET /good HTTP/1.1"; 10]);
}

/// RFC 9113 §8.1, §8.2.2: as in a head, and no pseudo-field at all. The latter need no look at the
/// request, so that the stream is reset at once.
#[test]
fn malformed_trailers_split_across_frames_are_refused() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let gate = lockgate().start(&plain_site(origin.address()));
    let pseudo = PSEUDO_FIELDS.map(|more| (more, BARE_RESET));
    let of_connections = CONNECTION_FIELDS.map(|more| (more, MALFORMED_REQUEST));
    for (more, expected) in pseudo.into_iter().chain(of_connections) {
        let mut peer = Peer::connect(gate.address());
        peer.headers(1, POST, false);
        peer.data(1, "body", false);
        let section = hpack::section(&[more, &[("x-last", "value")]].concat());
        peer.send(split(1, flag::END_STREAM, &section));
        assert_eq!(refusal(&mut peer, 1), expected, "{more:?}");
        peer.get(3, "/good");
        assert_eq!(peer.answer(3).text(), "ok");
    }
}

/// RFC 9113 §8.3.1: `:path` is a path and a query. HTTP/1 answers 400 as well.
#[test]
fn a_path_with_a_fragment_is_a_400() {
    let origin = Origin::tcp();
    let gate = site(&origin);
    let mut peer = Peer::connect(gate.address());
    for (stream, path) in [
        (1, "/p#x"),
        (3, "/admin/#"),
        (5, "/#"),
        (7, "/x/..#/admin/"),
    ] {
        peer.get(stream, path);
        assert_eq!(refusal(&mut peer, stream), MALFORMED_REQUEST, "{path}");
    }
    // Coded, and as a reference to the dynamic table.
    let coded = [0x82, 0x86, 0x44, 0x83, 0x62, 0xbf, 0xfa];
    for (stream, section) in [(9, &coded[..]), (11, &[0x82, 0x86, 0x80 | 62])] {
        let section = [section, &hpack::never_indexed(":authority", "app.test")].concat();
        peer.frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            stream,
            section,
        );
        assert_eq!(refusal(&mut peer, stream), MALFORMED_REQUEST, "{stream}");
    }
    assert!(!origin.has_one(std::time::Duration::ZERO));
}

/// A field of 4,000 bytes that was sent once, and 14 references to it in each of 120 requests: 14
/// KB for 7 MB.
#[test]
fn heads_of_open_streams_take_bounded_memory() {
    let origin = Origin::tcp();
    let gate = site(&origin);
    // Memory of the first request is there before.
    let mut first = Peer::connect(gate.address());
    first.get(1, "/");
    let mut waits = origin.http();
    waits.request();
    let before = gate.resident();
    let mut peers = Vec::new();
    let (mut refused, mut sent) = (0, 0);
    for _ in 0..10 {
        let mut peer = Peer::connect(gate.address());
        let mut bytes = get(1, &hpack::remembered("x-large", "x".repeat(3_900)));
        for number in 1..120 {
            bytes.extend(get(2 * number + 1, &hpack::indexed(62).repeat(14)));
        }
        peer.send(&bytes);
        // Resets of streams may leave after the acknowledgement of a PING.
        let frames = [peer.settle(), peer.settle()].concat();
        let resets = resets(&frames);
        assert!(
            resets.iter().all(|(_, code)| *code == code::REFUSED_STREAM),
            "{resets:?}"
        );
        (refused, sent) = (refused + resets.len(), sent + bytes.len());
        peers.push(peer);
    }
    let grown = gate.most_resident().saturating_sub(before);
    println!("{sent} bytes sent, {refused} of 1,200 refused, {grown} bytes more");
    assert!(refused > 900, "{refused}");
    assert!(grown < 40_000_000, "{grown} bytes for {sent}");
    let line = gate.line("a refusal", |line| {
        line["detail"].to_string().contains("heads")
    });
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"limit".into(), &"lockgate".into()),
        "{line}"
    );
    // When others have ended, there is room again.
    let peer = &mut peers[0];
    for number in 0..120 {
        peer.reset(2 * number + 1, code::CANCEL);
    }
    peer.settle();
    peer.settle();
    peer.send(get(241, &hpack::indexed(62).repeat(14)));
    let frames = [peer.settle(), peer.settle()].concat();
    assert_eq!(resets(&frames), []);
}

/// RFC 9113 §5.1, §4.3: they are decoded without a stream, since later ones depend on the table.
#[test]
fn headers_for_closed_streams_end_the_connection() {
    let origin = Origin::tcp();
    let gate = site(&origin);
    let mut peer = Peer::connect(gate.address());
    // Trailers without an end are malformed (RFC 9113 §8.1), and the stream is reset.
    peer.headers(1, POST, false);
    peer.frame(
        kind::HEADERS,
        flag::END_HEADERS,
        1,
        hpack::section(&[("x", "y")]),
    );
    peer.settle();
    let more = frame::frame(kind::HEADERS, flag::END_HEADERS, 1, hpack::indexed(15)).repeat(1_000);
    let mut flooded = 0;
    while flooded < 100 && peer.try_send(&more).is_ok() {
        flooded += 1;
    }
    assert_eq!(peer.goodbye().code, code::ENHANCE_YOUR_CALM);
    eventually("it is counted", || {
        (gate.sample(VIOLATIONS, &["reason=\"control\""]) == 1.0).then_some(())
    });
}

/// RFC 7540 §5.3.1: a stream error, and here the connection's (RFC 9113 §5.4.1). Its fields are not
/// decoded, so that no request that may refer to them is served (RFC 9113 §4.3).
#[test]
fn a_self_dependent_stream_ends_the_connection() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let origin = Origin::tcp().answering(move |request| {
        requests
            .lock()
            .unwrap()
            .push(request.first_line().to_owned());
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let head = hpack::section(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "app.test"),
    ]);
    let asks = |path: Vec<u8>| [head.clone(), path].concat();
    let end = flag::END_HEADERS | flag::END_STREAM;
    for exclusive in [0, 0x80] {
        let mut peer = Peer::connect(gate.address());
        peer.frame(
            kind::HEADERS,
            end,
            1,
            asks(hpack::remembered(":path", "/first")),
        );
        assert_eq!(peer.answer(1).text(), "ok");
        let dependent = [
            vec![exclusive, 0, 0, 3, 16],
            asks(hpack::remembered(":path", "/second")),
        ]
        .concat();
        peer.send(
            [
                frame::frame(kind::HEADERS, end | flag::PRIORITY, 3, dependent),
                // "/second" to the client, "/first" to a table without it.
                frame::frame(kind::HEADERS, end, 5, asks(hpack::indexed(62))),
            ]
            .concat(),
        );
        assert_eq!(peer.goodbye().code, code::COMPRESSION_ERROR);
    }
    eventually("they are counted", || {
        (gate.sample(VIOLATIONS, &["reason=\"sections\""]) == 2.0).then_some(())
    });
    let line = gate.line("the connection's end", |line| {
        line["detail"].to_string().contains("field section")
    });
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"limit".into(), &"downstream".into()),
        "{line}"
    );
    assert_eq!(*seen.lock().unwrap(), ["GET /first HTTP/1.1"; 2]);
}

/// RFC 9113 §5.1.2: a client may open streams before it has seen how many it may.
#[test]
fn streams_beyond_the_limit_before_settings_get_refused_stream() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut peer = Peer::connect(gate.address());
    peer.acknowledges = false;
    let mut bytes = Vec::new();
    for number in 0..1_000 {
        let head = hpack::section(POST);
        bytes.extend(frame::frame(
            kind::HEADERS,
            flag::END_HEADERS,
            2 * number + 1,
            head,
        ));
    }
    peer.send(&bytes);
    let resets = resets(&peer.settle());
    assert_eq!(resets.len(), 1_000 - 128);
    assert!(resets.iter().all(|(_, code)| *code == code::REFUSED_STREAM));
    for number in 0..128 {
        peer.data(2 * number + 1, "", true);
    }
    assert_eq!(peer.answer(1).text(), "ok");
}

/// The same again and again, when it knows: then each is a mistake.
#[test]
fn streams_beyond_the_limit_after_settings_end_the_connection() {
    let origin = Origin::tcp();
    let gate = site(&origin);
    let mut peer = Peer::connect(gate.address());
    peer.settle();
    let mut bytes = Vec::new();
    for number in 0..1_000 {
        let head = hpack::section(POST);
        bytes.extend(frame::frame(
            kind::HEADERS,
            flag::END_HEADERS,
            2 * number + 1,
            head,
        ));
    }
    peer.send(&bytes);
    assert_eq!(peer.goodbye().code, code::ENHANCE_YOUR_CALM);
}
