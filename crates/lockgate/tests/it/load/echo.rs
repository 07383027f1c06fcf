//! Messages and bytes that come back: WebSocket, TCP, TLS.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64ct::{Base64, Encoding as _};
use lockgate_load::expect::Length;
use lockgate_load::options::LoadOptions;
use lockgate_load::result::FailureKind;
use lockgate_load::target::RequestBody;
use lockgate_testkit::{Authority, Http, Origin, Serving, Tls, server_config};

use super::{asks, at, changed, counts, example, failures, refused, run, text};

/// RFC 6455 §4.2.2.
fn grant(key: &str) -> String {
    let hash = digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes(),
    );
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        Base64::encode_string(hash.as_ref())
    )
}

/// A frame as a server sends it.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..=125 => frame.push(len as u8),
        len @ 126..=0xffff => frame.extend([&[126][..], &(len as u16).to_be_bytes()].concat()),
        len => frame.extend([&[127][..], &(len as u64).to_be_bytes()].concat()),
    }
    frame.extend(payload);
    frame
}

/// The next frame of a client, which is masked: its first byte and its payload.
fn framed(http: &mut Http<impl Read + Write>) -> Option<(u8, Vec<u8>)> {
    if !http.has_more() {
        return None;
    }
    let head = http.exactly(2);
    let (first, length) = (head[0], head[1]);
    assert!(length & 0x80 > 0, "a client masks");
    let number = |bytes: Vec<u8>| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let length = match length & 0x7f {
        126 => number(http.exactly(2)),
        127 => number(http.exactly(8)),
        length => usize::from(length),
    };
    let mask = http.exactly(4);
    let mut payload = http.exactly(length);
    payload
        .iter_mut()
        .zip(mask.iter().cycle())
        .for_each(|(byte, mask)| *byte ^= mask);
    Some((first, payload))
}

/// Accepts WebSockets and calls a closure for each message.
fn web_socket<S: Read + Write>(http: &mut Http<S>, message: impl Fn(&mut Http<S>, Vec<u8>)) {
    let request = http.request();
    assert_eq!(
        (
            request.field("upgrade"),
            request.field("sec-websocket-version")
        ),
        (Some("websocket"), Some("13"))
    );
    http.send(grant(request.field("sec-websocket-key").unwrap()));
    while let Some((first, payload)) = framed(http) {
        assert_eq!(first, 0x82, "binary and whole");
        message(http, payload);
    }
}

fn serving(message: impl Fn(&mut Http, Vec<u8>) + Send + Sync + 'static) -> Serving {
    Origin::tcp().serve(move |wire| web_socket(&mut Http::over(wire.another()), &message))
}

fn messages(server: &Serving, body: RequestBody, count: u64) -> LoadOptions {
    let length = Length::Exactly(body.len() as u64);
    let mut options = changed(asks(&[&at("ws", server)], count), |options| {
        options.requests.body = body;
    });
    options.expect.length = length;
    options
}

#[test]
fn websocket_messages_are_echoed_on_kept_connections() {
    let server = serving(|http, payload| http.send(frame(0x82, &payload)));
    for body in [
        text(""),
        text("hello"),
        RequestBody::Random(126),
        RequestBody::Random(65_536),
        RequestBody::Random(1 << 20),
    ] {
        let options = changed(messages(&server, body, 30), |options| {
            options.connections.number = 3;
            options.threads.number = 2;
        });
        let before = server.accepted() as u64;
        let counts = counts(&options);
        assert_eq!(
            (counts.succeeded(), failures(&counts)),
            (30, vec![]),
            "{:?}",
            counts.examples
        );
        assert_eq!(counts.opened + counts.reused, 30);
        assert_eq!(server.accepted() as u64 - before, counts.opened + 1);
    }
    let options = changed(messages(&server, text("x"), 10), |options| {
        options.connections.max_requests = Some(4);
    });
    let counts = counts(&options);
    assert_eq!(
        (counts.succeeded(), counts.opened, counts.reused),
        (10, 3, 7)
    );
}

#[test]
fn websocket_handshake_and_frame_bytes_are_counted() {
    let (received, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (arrived, left) = (Arc::clone(&received), Arc::clone(&sent));
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        let request = http.request();
        let grant = grant(request.field("sec-websocket-key").unwrap());
        arrived.fetch_add(request.head.len() as u64, Ordering::SeqCst);
        left.fetch_add(grant.len() as u64, Ordering::SeqCst);
        http.send(grant);
        while let Some((_, payload)) = framed(&mut http) {
            arrived.fetch_add(6 + payload.len() as u64, Ordering::SeqCst);
            left.fetch_add(2 + payload.len() as u64, Ordering::SeqCst);
            http.send(frame(0x82, &payload));
        }
    });
    let counts = counts(&messages(&server, text("hello"), 10));
    // That of the first answer has one handshake and one message more.
    let handshake = (counts.sent - 10 * 11, counts.received - 10 * 7);
    assert_eq!(received.load(Ordering::SeqCst), 2 * handshake.0 + 11 * 11);
    assert_eq!(sent.load(Ordering::SeqCst), 2 * handshake.1 + 11 * 7);
}

#[test]
fn websocket_pings_are_answered_and_fragments_joined() {
    let server = serving(|http, payload| {
        let (head, tail) = payload.split_at(payload.len() / 2);
        http.send(frame(0x02, head));
        http.send(
            [
                frame(0x89, b"one"),
                frame(0x8a, b"unasked"),
                frame(0x89, b"two"),
            ]
            .concat(),
        );
        // A server that pings may wait for the pong before it goes on.
        let mut answers = Vec::new();
        while answers.last().is_none_or(|last| last != b"two") {
            let (first, answer) = framed(http).unwrap();
            assert_eq!(first, 0x8a);
            answers.push(answer);
        }
        http.send(frame(0x00, b""));
        http.send(frame(0x80, tail));
    });
    let counts = counts(&messages(&server, RequestBody::Random(1000), 5));
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (5, vec![]),
        "{:?}",
        counts.examples
    );
    assert_eq!((counts.opened, counts.reused), (1, 4));
}

#[test]
fn websocket_pings_between_messages_are_answered_first() {
    let server = serving(|http, payload| {
        http.send([frame(0x82, &payload), frame(0x89, b"there?")].concat());
        if let Some(answer) = framed(http) {
            assert_eq!(answer, (0x8a, b"there?".to_vec()));
        }
    });
    let counts = counts(&messages(&server, text("hello"), 5));
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (5, vec![]),
        "{:?}",
        counts.examples
    );
    assert_eq!((counts.opened, counts.reused), (1, 4));
}

#[test]
fn a_closed_websocket_is_reopened() {
    let server = serving(|http, payload| {
        http.send([frame(0x82, &payload), frame(0x88, b"\x03\xe8")].concat());
    });
    let counts = counts(&messages(&server, text("hello"), 3));
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (3, vec![]),
        "{:?}",
        counts.examples
    );
    assert_eq!(counts.opened, 3);
}

#[test]
fn an_unsolicited_websocket_message_is_a_failure() {
    let server = serving(|http, payload| {
        http.send([frame(0x82, &payload), frame(0x82, &payload)].concat());
    });
    let counts = counts(&messages(&server, text("hello"), 3));
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (3, vec![("length", 2)]),
        "{:?}",
        counts.examples
    );
    assert_eq!((counts.opened, counts.failed.len()), (3, 0));
}

#[test]
fn a_different_websocket_echo_is_a_failure() {
    for (answer, kind) in [
        (frame(0x82, b"hellO"), FailureKind::Body),
        (frame(0x82, b"hell"), FailureKind::Length),
        (frame(0x82, b"hello, world"), FailureKind::Length),
        (frame(0x82, b""), FailureKind::Length),
        (frame(0x88, b"\x03\xe8"), FailureKind::Closed),
        (frame(0x83, b"hello"), FailureKind::Garbage),
        (frame(0xc2, b"hello"), FailureKind::Garbage),
        (frame(0x80, b"hello"), FailureKind::Garbage),
        (
            vec![0x82, 0x85, 0, 0, 0, 0, b'h', b'e', b'l', b'l', b'o'],
            FailureKind::Garbage,
        ),
        (
            vec![0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            FailureKind::Garbage,
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            FailureKind::Garbage,
        ),
    ] {
        let place = AtomicU64::new(0);
        let shown = answer.clone();
        let server = serving(
            move |http, payload| match place.fetch_add(1, Ordering::SeqCst) % 2 {
                0 => http.send(frame(0x82, &payload)),
                _ => http.send(&answer),
            },
        );
        let counts = counts(&messages(&server, text("hello"), 4));
        assert_eq!(
            (failures(&counts), counts.succeeded()),
            (vec![(kind.name(), 2)], 2),
            "{shown:?} {:?}",
            counts.examples
        );
    }
}

#[test]
fn a_refused_websocket_is_reported() {
    let server =
        Origin::tcp().answering(|_| b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".to_vec());
    let mut options = messages(&server, text("hello"), 3);
    let told = refused(&options);
    assert!(
        told.contains("503 where 101 was expected") && !told.contains("page"),
        "{told}"
    );
    options.anyway = true;
    let answered = counts(&options);
    assert_eq!(
        (failures(&answered), answered.statuses.get(&503)),
        (vec![("status", 3)], Some(&3))
    );
    let server = Origin::tcp().answering(|_| grant("another").into());
    let told = refused(&messages(&server, text("hello"), 3));
    assert!(told.contains("Sec-WebSocket-Accept"), "{told}");
}

/// The expected message may differ from the one that was sent.
#[test]
fn a_configured_websocket_response_may_differ_from_the_message() {
    let server = serving(|http, _| http.send(frame(0x81, b"notice")));
    let mut options = messages(&server, text("hello"), 3);
    for length in [Length::Any, Length::Exactly(6)] {
        options.expect.length = length;
        assert_eq!(counts(&options).succeeded(), 3);
    }
}

#[test]
fn websocket_messages_pass_under_tls() {
    let authority = Authority::new("Test Authority");
    let served = server_config(&authority.issue(&["127.0.0.1"]), None);
    let server = Origin::tcp().serve(move |wire| {
        let Ok(stream) = Tls::accept(&served, wire.another()) else {
            return;
        };
        web_socket(&mut Http::over(stream), |http, payload| {
            http.send(frame(0x82, &payload))
        });
    });
    let body = RequestBody::Random(100_000);
    let mut options = changed(asks(&[&(at("wss", &server) + "/chat?x")], 9), |options| {
        options.requests.body = body;
    });
    options.expect.length = Length::Exactly(100_000);
    let report = run(&options);
    assert_eq!(
        report.stages[0].counts.succeeded(),
        9,
        "{:?}",
        report.stages[0].counts.examples
    );
    assert!(report.first[0].tls.is_some());
}

fn bytes(
    server: &Serving,
    scheme: &str,
    body: RequestBody,
    length: Length,
    count: u64,
) -> LoadOptions {
    let mut options = changed(asks(&[&at(scheme, server)], count), |options| {
        options.requests.body = body;
    });
    options.expect.length = length;
    options
}

#[test]
fn tcp_bytes_are_echoed_on_kept_connections() {
    let server = Origin::tcp().echo();
    for size in [1, 64, 8 << 20] {
        let options = bytes(
            &server,
            "tcp",
            RequestBody::Random(size),
            Length::Exactly(size as u64),
            5,
        );
        let counts = counts(&options);
        assert_eq!(
            (counts.succeeded(), failures(&counts)),
            (5, vec![]),
            "{:?}",
            counts.examples
        );
        assert_eq!((counts.opened, counts.reused), (1, 4));
        assert_eq!(
            (counts.sent, counts.received),
            (5 * size as u64, 5 * size as u64)
        );
        assert!(counts.statuses.is_empty());
    }
}

#[test]
fn tcp_echo_under_tls_offers_no_alpn() {
    let authority = Authority::new("Test Authority");
    let served = server_config(&authority.issue(&["127.0.0.1"]), None);
    let mut speaks = (*served).clone();
    // A server with another protocol only would refuse the handshake if HTTP were offered.
    speaks.alpn_protocols = vec![b"mine".to_vec()];
    let speaks = Arc::new(speaks);
    let server = Origin::tcp().serve(move |wire| {
        let Ok(mut stream) = Tls::accept(&speaks, wire.another()) else {
            return;
        };
        let mut read = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut read) {
            stream.send(&read[..len]);
        }
    });
    let counts = counts(&bytes(
        &server,
        "tls",
        RequestBody::Random(10_000),
        Length::Exactly(10_000),
        5,
    ));
    assert_eq!(
        (counts.succeeded(), counts.opened),
        (5, 1),
        "{:?}",
        counts.examples
    );
}

#[test]
fn a_tcp_exchange_expects_the_configured_length() {
    // Answers each ten bytes with these.
    let server = |answer: &'static str, close: bool| {
        Origin::tcp().serve(move |wire| {
            let mut ten = [0; 10];
            while wire.read_exact(&mut ten).is_ok() {
                wire.send(answer);
                if close {
                    return;
                }
            }
        })
    };
    let ten = || text("0123456789");
    for (answer, close, length, expected) in [
        ("0123456789", false, Length::First, None),
        ("abc", false, Length::Exactly(3), None),
        ("abc", true, Length::Any, None),
        ("", true, Length::Any, None),
        ("012345678x", false, Length::Exactly(10), Some("body")),
        ("abc", true, Length::Exactly(10), Some("closed")),
        ("0123456789ab", false, Length::Exactly(10), Some("length")),
    ] {
        let server = server(answer, close);
        let options = changed(bytes(&server, "tcp", ten(), length, 3), |options| {
            options.anyway = true;
        });
        let counts = counts(&options);
        let expected: Vec<_> = expected.map(|kind| (kind, 3)).into_iter().collect();
        assert_eq!(
            failures(&counts),
            expected,
            "{answer} {length:?}: {:?}",
            counts.examples
        );
        if close {
            assert_eq!(counts.opened, 3);
        }
    }
}

/// Both sides' buffers are full: a client that reads only after it has sent all hangs.
#[test]
fn an_oversized_tcp_response_is_found_while_sending() {
    let server = Origin::tcp().echo();
    let options = changed(
        bytes(
            &server,
            "tcp",
            RequestBody::Random(16 << 20),
            Length::Exactly(10),
            2,
        ),
        |options| {
            options.anyway = true;
        },
    );
    let counts = counts(&options);
    assert_eq!(failures(&counts), [("length", 2)], "{:?}", counts.examples);
    assert!(example(&counts, FailureKind::Length).contains("instead of 10"));
}
