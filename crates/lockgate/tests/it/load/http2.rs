//! HTTP/2, against servers that send scripted frames (RFC 9113).

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockgate_load::expect::{Expect, Length};
use lockgate_load::options::LoadOptions;
use lockgate_load::profile::{Profile, RequestRates};
use lockgate_load::result::FailureKind;
use lockgate_load::schedule::RequestRate;
use lockgate_load::target::{RequestBody, Varying};
use lockgate_testkit::h2::frame::flag::{ACK, END_HEADERS, END_STREAM, PADDED, PRIORITY};
use lockgate_testkit::h2::frame::kind::{
    CONTINUATION, DATA, GOAWAY, HEADERS, PING, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use lockgate_testkit::h2::frame::{self, setting};
use lockgate_testkit::h2::hpack::Decoder;
use lockgate_testkit::h2::{Frame, PREFACE};
use lockgate_testkit::{Authority, Origin, Serving, Tls, Wire, bytes, server_config};

use super::{PAGE, asks, at, changed, counts, example, failures, refused, run, text};
use crate::scene::lockgate;

/// `:status 200`.
const OK: &[u8] = &[0x88];

/// The server's end of a connection.
struct Peer<S> {
    wire: S,
    decoder: Decoder,
}

impl<S: Read + Write> Peer<S> {
    /// Reads the client's preface and settings, and sends these settings.
    fn greet(wire: S, settings: &[(u16, u32)]) -> Self {
        let mut peer = Self {
            wire,
            decoder: Decoder::new(4096),
        };
        let mut preface = [0; 24];
        if peer.wire.read_exact(&mut preface).is_ok() {
            assert_eq!(preface, PREFACE);
            peer.send(SETTINGS, 0, 0, &frame::settings(settings));
        }
        peer
    }

    fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.wire.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.wire.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream,
            payload,
        })
    }

    /// The next frame of a request; settings are acknowledged, and window updates are skipped.
    fn next_of_request(&mut self) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]),
                SETTINGS | WINDOW_UPDATE => {}
                _ => return Some(frame),
            }
        }
    }

    /// The stream of the next request without a body, and its fields.
    fn next_request(&mut self) -> Option<(u32, Vec<(String, String)>)> {
        let frame = self.next_of_request()?;
        assert_eq!(
            (frame.kind, frame.flags),
            (HEADERS, END_STREAM | END_HEADERS),
            "{frame:?}"
        );
        let fields = self.fields(&frame.payload);
        Some((frame.stream, fields))
    }

    fn fields(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let fields = self.decoder.decode(block).expect("a block of fields");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        fields
            .into_iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    /// A peer that has gone reads nothing.
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let frame = frame::frame(kind, flags, stream, payload);
        let _ = self.wire.write_all(&frame).and_then(|()| self.wire.flush());
    }

    /// A page of ten bytes.
    fn answer(&mut self, stream: u32) {
        self.send(HEADERS, END_HEADERS, stream, OK);
        self.send(DATA, END_STREAM, stream, b"0123456789");
    }

    /// Answers every request, until the client has gone.
    fn serve(&mut self) {
        while let Some((stream, _)) = self.next_request() {
            self.answer(stream);
        }
    }
}

fn over_tcp(serve: impl Fn(&mut Peer<Wire>) + Send + Sync + 'static) -> Serving {
    Origin::tcp().serve(move |wire| serve(&mut Peer::greet(wire.another(), &[])))
}

/// `count` requests over so many connections with so many streams each.
fn streams(url: &str, connections: usize, streams: usize, count: u64) -> LoadOptions {
    changed(asks(&[url], count), |options| {
        options.connections.number = connections;
        options.connections.streams = Some(streams);
    })
}

#[test]
fn http2_load_counts_agree_with_the_server() {
    for (connections, threads, at_once, per_connection, count) in [
        (1, 1, 1, None, 1),
        (1, 1, 10, None, 100),
        (7, 3, 5, None, 1000),
        (4, 2, 3, Some(1), 50),
        (2, 1, 4, Some(7), 100),
        (3, 3, 200, None, 500),
    ] {
        let seen = Arc::new(Mutex::new((0_u64, 0_u64)));
        let shared = Arc::clone(&seen);
        let server = over_tcp(move |peer| {
            while let Some(frame) = peer.next_of_request() {
                assert_eq!(frame.kind, HEADERS);
                let mut seen = shared.lock().unwrap();
                *seen = (seen.0 + 1, seen.1 + 9 + frame.payload.len() as u64);
                peer.answer(frame.stream);
            }
        });
        let options = changed(
            streams(&at("http", &server), connections, at_once, count),
            |options| {
                options.threads.number = threads;
                options.connections.max_requests = per_connection;
            },
        );
        let report = run(&options);
        let counts = &report.stages[0].counts;
        let case = format!("{connections} {threads} {at_once} {per_connection:?} {count}");
        assert_eq!(
            (counts.succeeded(), failures(counts)),
            (count, vec![]),
            "{case}: {:?}",
            counts.examples
        );
        assert_eq!(counts.statuses.get(&200), Some(&count));
        assert_eq!(counts.opened + counts.reused, count, "{case}");
        assert_eq!(counts.opened + 1, server.accepted() as u64, "{case}");
        match per_connection {
            Some(most) => assert!(
                counts.opened >= count.div_ceil(most),
                "{case}: {}",
                counts.opened
            ),
            None => assert!(
                counts.opened <= connections as u64,
                "{case}: {}",
                counts.opened
            ),
        }
        // The first of all is not counted; it has the head of every first request of a connection.
        let (requests, received) = *seen.lock().unwrap();
        assert_eq!(requests, count + 1, "{case}");
        let first = received - counts.sent;
        assert!(
            first > 9 && counts.sent >= first * counts.opened,
            "{case}: {received} {}",
            counts.sent
        );
        assert_eq!(counts.received, count * (9 + 1 + 9 + 10), "{case}");
        assert_eq!(counts.first_byte.len(), count, "{case}");
        assert!(counts.first_byte.max() <= counts.latency.max(), "{case}");
        assert_eq!(
            (report.run.streams, report.first[0].protocol),
            (Some(at_once), "HTTP/2")
        );
    }
}

/// None is answered before all are there.
#[test]
fn streams_option_sets_the_concurrent_http2_requests() {
    let place = AtomicUsize::new(0);
    let server = over_tcp(move |peer| {
        // The first of all is sent alone.
        let at_once = if place.fetch_add(1, Ordering::SeqCst) == 0 {
            1
        } else {
            5
        };
        loop {
            let asked: Vec<_> = (0..at_once).map_while(|_| peer.next_request()).collect();
            if asked.len() < at_once {
                assert_eq!(asked.len(), 0);
                return;
            }
            // The last first: a response belongs to its stream in any order.
            for (stream, _) in asked.into_iter().rev() {
                peer.answer(stream);
            }
        }
    });
    let counts = counts(&streams(&at("http", &server), 1, 5, 100));
    assert_eq!((counts.succeeded(), failures(&counts)), (100, vec![]));
}

#[test]
fn an_http2_request_carries_the_configured_fields() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let server = over_tcp(move |peer| {
        while let Some((stream, fields)) = peer.next_request() {
            seen.lock().unwrap().push(fields);
            peer.answer(stream);
        }
    });
    let mut options = streams(&format!("{}/a?b=c", at("http", &server)), 1, 2, 20);
    options.requests.headers = vec![
        ("X-Said".into(), "Yes".into()),
        ("Host".into(), "app.test".into()),
    ];
    options.requests.varying = vec![Varying {
        name: "X-Any".into(),
        values: vec!["one".into(), "two".into()],
    }];
    assert_eq!(counts(&options).succeeded(), 20);
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 21);
    for head in &*heads {
        let mut expected = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", "/a?b=c"),
            (
                "user-agent",
                concat!("lockgate/", env!("CARGO_PKG_VERSION")),
            ),
            ("accept", "*/*"),
            ("x-said", "Yes"),
            ("x-any", "one"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(["one", "two"].contains(&&*head[7].1));
        expected[7].1.clone_from(&head[7].1);
        assert_eq!(head[..], expected);
    }
}

/// 20 bytes a stream: nothing more comes before the server gives more.
#[test]
fn http2_bodies_respect_flow_control_windows() {
    const SIZE: usize = 100;
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let server = Origin::tcp().serve(move |wire| {
        let mut peer = Peer::greet(wire.another(), &[(setting::INITIAL_WINDOW_SIZE, 20)]);
        let mut open: Vec<(u32, usize, Vec<u8>)> = Vec::new();
        // Until it is acknowledged the usual holds (RFC 9113 §6.5.3).
        let mut first = 65_535;
        while let Some(frame) = peer.next() {
            match frame.kind {
                SETTINGS if frame.flags & ACK != 0 => first = 20,
                SETTINGS | WINDOW_UPDATE => {}
                HEADERS => {
                    let fields = peer.fields(&frame.payload);
                    assert!(
                        fields.contains(&("content-length".into(), SIZE.to_string())),
                        "{fields:?}"
                    );
                    open.push((frame.stream, first, Vec::new()));
                }
                DATA => {
                    let place = open
                        .iter()
                        .position(|(stream, ..)| *stream == frame.stream)
                        .unwrap();
                    let (stream, window, body) = &mut open[place];
                    assert!(
                        frame.payload.len() <= *window,
                        "{} > {window}",
                        frame.payload.len()
                    );
                    *window -= frame.payload.len();
                    body.extend_from_slice(&frame.payload);
                    assert_eq!(frame.flags & END_STREAM != 0, body.len() == SIZE);
                    if body.len() == SIZE {
                        seen.lock().unwrap().push(std::mem::take(body));
                        peer.answer(*stream);
                        open.remove(place);
                    } else if *window == 0 {
                        *window = 7;
                        peer.send(WINDOW_UPDATE, 0, frame.stream, &7_u32.to_be_bytes());
                    }
                }
                kind => panic!("{kind}"),
            }
        }
    });
    let body = bytes(3, SIZE);
    let mut options = streams(&at("http", &server), 1, 3, 30);
    options.requests.body = RequestBody::Fixed(body.clone().into());
    let sent = counts(&options);
    assert_eq!(
        (sent.succeeded(), failures(&sent)),
        (30, vec![]),
        "{:?}",
        sent.examples
    );
    assert!(bodies.lock().unwrap().drain(..).all(|came| came == body));
    options.requests.body = RequestBody::Random(SIZE);
    assert_eq!(counts(&options).succeeded(), 30);
    let mut random = std::mem::take(&mut *bodies.lock().unwrap());
    random.sort();
    random.dedup();
    assert_eq!(random.len(), 31, "others for each request");
}

#[test]
fn a_megabyte_body_passes_both_ways_over_http2() {
    const SIZE: usize = 1_000_000;
    let server = over_tcp(|peer| {
        let mut taken = 0;
        // The initial window of a connection; it is given back when all of it is used up.
        let mut window = 65_535;
        while let Some(frame) = peer.next_of_request() {
            assert!(matches!(frame.kind, HEADERS | DATA) && frame.payload.len() <= 16_384);
            if frame.kind == DATA {
                taken += frame.payload.len();
                assert!(frame.payload.len() <= window);
                window -= frame.payload.len();
                if window == 0 {
                    window = 50_000;
                    peer.send(WINDOW_UPDATE, 0, frame.stream, &(1_u32 << 20).to_be_bytes());
                    peer.send(WINDOW_UPDATE, 0, 0, &50_000_u32.to_be_bytes());
                }
            }
            if frame.flags & END_STREAM != 0 {
                assert_eq!(taken % SIZE, 0);
                peer.send(HEADERS, END_HEADERS, frame.stream, OK);
                let body = vec![b'x'; SIZE];
                for piece in body.chunks(16_384) {
                    peer.send(DATA, 0, frame.stream, piece);
                }
                peer.send(DATA, END_STREAM, frame.stream, &[]);
            }
        }
    });
    let mut options = streams(&at("http", &server), 2, 1, 6);
    options.requests.body = RequestBody::Fixed(vec![b'y'; SIZE].into());
    options.expect.length = Length::Exactly(SIZE as u64);
    let counts = counts(&options);
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (6, vec![]),
        "{:?}",
        counts.examples
    );
    assert!(counts.sent > 6 * SIZE as u64 && counts.received > 6 * SIZE as u64);
}

/// The h2 crate, which keeps every rule, as the server.
#[test]
fn http2_load_works_against_the_h2_crate() {
    let server = lockgate_testkit::h2::Origin::echo();
    for size in [0, 1, 1000, 300_000] {
        let mut options = streams(&format!("http://{}/echo", server.address()), 2, 5, 20);
        options.requests.body = RequestBody::Fixed(bytes(7, size).into());
        options.expect = Expect {
            length: Length::Exactly(size as u64),
            ..Expect::default()
        };
        let counts = counts(&options);
        assert_eq!(
            (counts.succeeded(), failures(&counts)),
            (20, vec![]),
            "{size}: {:?}",
            counts.examples
        );
    }
}

#[test]
fn http2_responses_are_accepted_in_every_form() {
    let forms: [fn(&mut Peer<Wire>, u32); 6] = [
        |peer, stream| peer.answer(stream),
        // After an interim response (RFC 9110 §15.2), and with other frames around it.
        |peer, stream| {
            peer.send(HEADERS, END_HEADERS, stream, b"\x08\x03103");
            peer.send(0xbb, 0xff, stream, b"whatever");
            peer.send(PING, 0, 0, b"12345678");
            peer.answer(stream);
            let pong = peer.next_of_request().unwrap();
            assert_eq!(
                (pong.kind, pong.flags, &pong.payload[..]),
                (PING, ACK, &b"12345678"[..])
            );
        },
        // The head in three pieces, with padding and a priority.
        |peer, stream| {
            peer.send(
                HEADERS,
                PADDED | PRIORITY,
                stream,
                b"\x03\0\0\0\0\x10\x88\x5c\0\0\0",
            );
            peer.send(CONTINUATION, 0, stream, b"\x02");
            peer.send(CONTINUATION, END_HEADERS, stream, b"10");
            peer.send(DATA, PADDED, stream, b"\x0201234\0\0");
            peer.send(DATA, END_STREAM | PADDED, stream, b"\x0056789");
        },
        // Trailers.
        |peer, stream| {
            peer.send(HEADERS, END_HEADERS, stream, OK);
            peer.send(DATA, 0, stream, b"0123456789");
            peer.send(HEADERS, END_HEADERS | END_STREAM, stream, b"\x00\x01a\x01b");
        },
        // Byte by byte.
        |peer, stream| {
            peer.send(HEADERS, END_HEADERS, stream, OK);
            for digit in b"0123456789" {
                peer.send(DATA, 0, stream, &[*digit]);
            }
            peer.send(DATA, END_STREAM, stream, b"");
        },
        // A complete response stands, even if frames follow it.
        |peer, stream| {
            peer.answer(stream);
            peer.send(RST_STREAM, 0, stream, &[0; 4]);
            peer.send(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes());
        },
    ];
    for (place, form) in forms.into_iter().enumerate() {
        let server = over_tcp(move |peer| {
            while let Some((stream, _)) = peer.next_request() {
                form(peer, stream);
            }
        });
        let counts = counts(&streams(&at("http", &server), 1, 1, 3));
        assert_eq!(
            (counts.succeeded(), failures(&counts)),
            (3, vec![]),
            "{place}: {:?}",
            counts.examples
        );
        assert_eq!(counts.opened, 1, "{place}");
    }
}

/// Answers every other request, over all connections, with a page, and those between by `bad`.
fn every_other(bad: impl Fn(&mut Peer<Wire>, u32) -> bool + Send + Sync + 'static) -> Serving {
    let place = AtomicUsize::new(0);
    over_tcp(move |peer| {
        while let Some(frame) = peer.next_of_request() {
            if frame.kind != HEADERS {
                continue;
            }
            if place.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                peer.answer(frame.stream);
            } else if !bad(peer, frame.stream) {
                return;
            }
        }
    })
}

/// Two of four are answered otherwise: two failures of that kind, on so many connections; the
/// message of the first.
fn assert_two_are(
    kind: FailureKind,
    opened: u64,
    bad: impl Fn(&mut Peer<Wire>, u32) -> bool + Send + Sync + 'static,
) -> String {
    let server = every_other(bad);
    let counts = counts(&streams(&at("http", &server), 1, 1, 4));
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![(kind.name(), 2)], 2),
        "{:?}",
        counts.examples
    );
    assert_eq!(counts.opened, opened, "{:?}", counts.examples);
    example(&counts, kind).to_owned()
}

#[test]
fn a_failed_http2_stream_leaves_the_connection_open() {
    let reset = |code: u32| {
        move |peer: &mut Peer<Wire>, stream| {
            peer.send(RST_STREAM, 0, stream, &code.to_be_bytes());
            true
        }
    };
    assert!(assert_two_are(FailureKind::Reset, 1, reset(2)).contains("INTERNAL_ERROR"));
    assert!(assert_two_are(FailureKind::Reset, 1, reset(0)).contains("NO_ERROR"));
    assert!(assert_two_are(FailureKind::Reset, 1, reset(99)).contains("code 99"));
    let says = |head: &'static [u8], body: &'static [u8]| {
        move |peer: &mut Peer<Wire>, stream| {
            peer.send(HEADERS, END_HEADERS, stream, head);
            peer.send(DATA, END_STREAM, stream, body);
            true
        }
    };
    assert!(assert_two_are(FailureKind::Status, 1, says(b"\x8d", b"0123456789")).contains("404"));
    assert!(
        assert_two_are(FailureKind::Length, 1, says(OK, b"01234"))
            .contains("5 bytes instead of 10")
    );
    // Content-Length: 11 (RFC 9113 §8.1.1).
    assert!(
        assert_two_are(
            FailureKind::Length,
            1,
            says(b"\x88\x5c\x0211", b"0123456789")
        )
        .contains("content-length is 11")
    );
    // No status, two, an invalid one, one behind another field, 101 (§8.1), an unknown
    // pseudo-field.
    for head in [
        &b"\x5c\x0210"[..],
        b"\x88\x88",
        b"\x08\x03abc",
        b"\x5c\x0210\x88",
        b"\x08\x03101",
        b"\x88\x00\x02:a\x01b",
    ] {
        assert_two_are(FailureKind::Garbage, 1, says(head, b"0123456789"));
    }
    assert_two_are(FailureKind::Garbage, 1, |peer, stream| {
        peer.send(DATA, END_STREAM, stream, b"0123456789");
        true
    });
    // A second head that is no trailer.
    assert_two_are(FailureKind::Garbage, 1, |peer, stream| {
        peer.send(HEADERS, END_HEADERS, stream, OK);
        peer.send(HEADERS, END_HEADERS, stream, OK);
        true
    });
}

#[test]
fn a_broken_http2_connection_fails_its_requests_and_is_reopened() {
    for half in [0, 1, 2] {
        let text = assert_two_are(FailureKind::Closed, 3, move |peer, stream| {
            if half > 0 {
                peer.send(HEADERS, END_HEADERS, stream, OK);
            }
            if half > 1 {
                peer.send(DATA, 0, stream, b"01234");
            }
            false
        });
        let expected = [
            "before a response",
            "after 0 bytes of the body",
            "after 5 bytes of the body",
        ][half];
        assert!(text.contains(expected), "{text}");
    }
    // GOAWAY with an error code.
    let text = assert_two_are(FailureKind::Goaway, 3, |peer, stream| {
        peer.send(
            GOAWAY,
            0,
            0,
            &[&stream.to_be_bytes()[..], &11_u32.to_be_bytes()].concat(),
        );
        false
    });
    assert!(text.contains("ENHANCE_YOUR_CALM"), "{text}");
    // Violations of HTTP/2 (§4.2, §4.3, §5.1, §6).
    let frames: [(u8, u8, u32, &[u8]); 12] = [
        (DATA, 0, 0, b"x"),
        (DATA, 0, 99, b"x"),
        (DATA, PADDED, 1, b"\x05x"),
        (HEADERS, END_HEADERS, 2, OK),
        (HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
        (CONTINUATION, END_HEADERS, 1, OK),
        (SETTINGS, 0, 1, b""),
        (SETTINGS, 0, 0, b"12345"),
        (PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x88"),
        (PING, 0, 0, b"1"),
        (WINDOW_UPDATE, 0, 0, &[0; 4]),
        (GOAWAY, 0, 0, b"\0"),
    ];
    for (kind, flags, stream, payload) in frames {
        assert_two_are(FailureKind::Garbage, 3, move |peer, _| {
            peer.send(kind, flags, stream, payload);
            // Until the peer is gone, perhaps after its reason.
            while peer.next().is_some() {}
            false
        });
    }
}

#[test]
fn requests_behind_goaway_move_to_another_connection() {
    // Each connection answers five, and sends GOAWAY; requests that came meanwhile were not
    // processed.
    let server = over_tcp(|peer| {
        for _ in 0..4 {
            let Some((stream, _)) = peer.next_request() else {
                return;
            };
            peer.answer(stream);
        }
        let Some((last, _)) = peer.next_request() else {
            return;
        };
        peer.send(GOAWAY, 0, 0, &[&last.to_be_bytes()[..], &[0; 4]].concat());
        peer.answer(last);
        while peer.next().is_some() {}
    });
    let counts = counts(&streams(&at("http", &server), 2, 3, 100));
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (100, vec![]),
        "{:?}",
        counts.examples
    );
    assert!(counts.opened >= 20, "{}", counts.opened);
}

/// No connection is answered before there is another.
#[test]
fn connecting_anew_does_not_wait_for_the_old_connection() {
    let place = AtomicUsize::new(0);
    let both = std::sync::Barrier::new(2);
    let server = Origin::tcp().serve(move |wire| {
        if place.fetch_add(1, Ordering::SeqCst) > 0 {
            both.wait();
        }
        Peer::greet(wire.another(), &[]).serve();
    });
    let options = changed(streams(&at("http", &server), 1, 2, 10), |options| {
        options.connections.max_requests = Some(1);
    });
    let counts = counts(&options);
    assert_eq!(
        (counts.succeeded(), failures(&counts), counts.opened),
        (10, vec![], 10)
    );
}

#[test]
fn a_request_refused_twice_by_goaway_fails() {
    let place = AtomicUsize::new(0);
    let server = over_tcp(move |peer| {
        if place.fetch_add(1, Ordering::SeqCst) == 0 {
            return peer.serve();
        }
        let Some((_, _)) = peer.next_request() else {
            return;
        };
        peer.send(GOAWAY, 0, 0, &[0; 8]);
        while peer.next().is_some() {}
    });
    let counts = counts(&streams(&at("http", &server), 1, 1, 3));
    assert_eq!(
        (failures(&counts), counts.opened),
        (vec![("goaway", 3)], 6),
        "{:?}",
        counts.examples
    );
}

/// RFC 9113 §8.7: it was not processed.
#[test]
fn a_refused_http2_stream_is_retried_once() {
    let server = every_other(|peer, stream| {
        peer.send(RST_STREAM, 0, stream, &7_u32.to_be_bytes());
        true
    });
    let retried = counts(&streams(&at("http", &server), 1, 1, 4));
    assert_eq!(
        (failures(&retried), retried.succeeded(), retried.retried),
        (vec![], 4, 4)
    );
    assert_eq!(retried.opened, 1);
    let place = AtomicUsize::new(0);
    let server = over_tcp(move |peer| {
        while let Some((stream, _)) = peer.next_request() {
            if place.fetch_add(1, Ordering::SeqCst) == 0 {
                peer.answer(stream);
            } else {
                peer.send(RST_STREAM, 0, stream, &7_u32.to_be_bytes());
            }
        }
    });
    let failed = counts(&streams(&at("http", &server), 1, 1, 3));
    assert_eq!(
        (failures(&failed), failed.retried),
        (vec![("refused", 3)], 3)
    );
    assert!(example(&failed, FailureKind::Refused).contains("REFUSED_STREAM"));
}

/// Later connections do not send the hundred streams that are usual before SETTINGS.
#[test]
fn max_concurrent_streams_of_the_first_connection_holds_before_settings() {
    let limit = [(setting::MAX_CONCURRENT_STREAMS, 2)];
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().serve(move |wire| {
        if place.fetch_add(1, Ordering::SeqCst) == 0 {
            return Peer::greet(wire.another(), &limit).serve();
        }
        let mut peer = Peer {
            wire: wire.another(),
            decoder: Decoder::new(4096),
        };
        let mut preface = [0; 24];
        peer.wire.read_exact(&mut preface).unwrap();
        let mut early = Vec::new();
        while let Some(frame) = peer.next() {
            match (frame.kind, frame.flags) {
                (HEADERS, _) => {
                    // The table of later heads has these fields.
                    peer.fields(&frame.payload);
                    early.push(frame.stream);
                    if early.len() == 1 {
                        peer.send(SETTINGS, 0, 0, &frame::settings(&limit));
                    }
                }
                // The client knew no SETTINGS before it acknowledged them.
                (SETTINGS, ACK) => break,
                _ => {}
            }
        }
        assert!(early.len() <= 2, "{} before SETTINGS", early.len());
        for stream in early {
            peer.answer(stream);
        }
        peer.serve();
    });
    let counts = counts(&streams(&at("http", &server), 3, 10, 60));
    assert_eq!(
        (counts.succeeded(), failures(&counts), counts.retried),
        (60, vec![], 0)
    );
}

#[test]
fn a_stalled_http2_stream_is_cancelled_and_others_go_on() {
    let place = AtomicUsize::new(0);
    let reset = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reset);
    let server = over_tcp(move |peer| {
        while let Some(frame) = peer.next_of_request() {
            match frame.kind {
                RST_STREAM => seen.lock().unwrap().push(frame.payload),
                _ if place.fetch_add(1, Ordering::SeqCst) == 1 => {
                    peer.send(HEADERS, END_HEADERS, frame.stream, OK);
                }
                _ => peer.answer(frame.stream),
            }
        }
    });
    let mut options = streams(&at("http", &server), 1, 2, 50);
    options.timing.timeout = Duration::from_secs(1);
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![("timeout", 1)], 49)
    );
    assert_eq!(counts.opened, 1);
    drop(server);
    let told =
        lockgate_testkit::eventually("it is told", || reset.lock().unwrap().first().cloned());
    assert_eq!(told, 8_u32.to_be_bytes(), "CANCEL");
}

/// Nothing comes any more, not even of others: it may be dead.
#[test]
fn a_silent_http2_connection_is_not_reused() {
    let place = AtomicUsize::new(0);
    let server = over_tcp(move |peer| match place.fetch_add(1, Ordering::SeqCst) {
        1 => while peer.next().is_some() {},
        _ => peer.serve(),
    });
    let mut options = streams(&at("http", &server), 1, 2, 10);
    options.timing.timeout = Duration::from_secs(1);
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded(), counts.opened),
        (vec![("timeout", 2)], 8, 2)
    );
}

/// The server accepts one at a time: the others wait, and do not fail.
#[test]
fn streams_beyond_max_concurrent_streams_wait() {
    let server = Origin::tcp().serve(|wire| {
        let mut peer = Peer::greet(wire.another(), &[(setting::MAX_CONCURRENT_STREAMS, 1)]);
        // Until then the limit is unknown (RFC 9113 §6.5.3).
        let mut is_known = false;
        let mut early = Vec::new();
        while let Some(frame) = peer.next() {
            match (frame.kind, frame.flags) {
                (SETTINGS, 0) => peer.send(SETTINGS, ACK, 0, &[]),
                (SETTINGS, _) => {
                    is_known = true;
                    for stream in early.drain(..) {
                        peer.answer(stream);
                    }
                }
                (HEADERS, _) if is_known => {
                    // Everything sent before this PING would arrive before its acknowledgement.
                    peer.send(PING, 0, 0, &[0; 8]);
                    assert_eq!(
                        peer.next().map(|frame| frame.kind),
                        Some(PING),
                        "one at a time"
                    );
                    peer.answer(frame.stream);
                }
                (HEADERS, _) => early.push(frame.stream),
                _ => {}
            }
        }
    });
    let report = run(&streams(&at("http", &server), 1, 4, 40));
    let counts = &report.stages[0].counts;
    assert_eq!(
        (counts.succeeded(), failures(counts), counts.opened),
        (40, vec![], 1)
    );
    assert_eq!(report.first[0].streams, Some(1));
}

#[test]
fn due_requests_take_a_free_http2_stream() {
    let server = over_tcp(|peer| peer.serve());
    let rates = RequestRates::One(RequestRate::new(1000.0).unwrap());
    let mut options = streams(&at("http", &server), 2, 3, 100);
    options.timing.profile = Some(Profile {
        rates,
        step: None,
        every: None,
        hold: None,
        spike: None,
        duration: None,
    });
    let counts = counts(&options);
    assert_eq!((counts.succeeded(), failures(&counts)), (100, vec![]));
    assert_eq!(counts.service.len(), 100);
}

/// A call is answered with a message and `grpc-status`, behind it or alone (gRPC over HTTP/2,
/// Responses).
#[test]
fn a_grpc_call_succeeds_by_grpc_status() {
    let place = AtomicUsize::new(0);
    let server = over_tcp(move |peer| {
        let mut body = Vec::new();
        while let Some(frame) = peer.next_of_request() {
            if frame.kind == HEADERS {
                let fields = peer.fields(&frame.payload);
                for (name, value) in [
                    (":method", "POST"),
                    (":path", "/package.Service/Call"),
                    ("content-type", "application/grpc"),
                    ("te", "trailers"),
                ] {
                    assert!(
                        fields.contains(&(name.to_owned(), value.to_owned())),
                        "{name}: {fields:?}"
                    );
                }
                body.clear();
            } else {
                body.extend_from_slice(&frame.payload);
            }
            if frame.flags & END_STREAM == 0 {
                continue;
            }
            assert_eq!(body, b"\0\0\0\0\x05hello");
            // In turn: right, failed with a message, failed without one, without a status, no gRPC
            // at all.
            let status: &[u8] = match place.fetch_add(1, Ordering::SeqCst) % 5 {
                0 => b"\x00\x0bgrpc-status\x010",
                1 => b"\x00\x0bgrpc-status\x0214",
                2 => {
                    let alone = [OK, b"\x00\x0bgrpc-status\x015"].concat();
                    peer.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, &alone);
                    continue;
                }
                3 => b"\x00\x01a\x010",
                _ => {
                    peer.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, b"\x8d");
                    continue;
                }
            };
            peer.send(HEADERS, END_HEADERS, frame.stream, OK);
            peer.send(DATA, 0, frame.stream, b"\0\0\0\0\x02hi");
            peer.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, status);
        }
    });
    let mut options = streams(
        &format!("{}/package.Service/Call", at("http", &server)),
        1,
        1,
        10,
    );
    options.requests.grpc = true;
    options.requests.body = text("hello");
    let counts = counts(&options);
    let expected = [("garbage", 2), ("status", 2), ("grpc", 4)];
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (expected.to_vec(), 2),
        "{:?}",
        counts.examples
    );
    assert!(example(&counts, FailureKind::Grpc).contains("grpc-status 14: UNAVAILABLE"));
}

fn over_tls(alpn: &'static [&'static [u8]]) -> Serving {
    let mut served = server_config(
        &Authority::new("Test Authority").issue(&["127.0.0.1"]),
        None,
    );
    Arc::get_mut(&mut served).unwrap().alpn_protocols =
        alpn.iter().map(|name| name.to_vec()).collect();
    Origin::tcp().serve(move |wire| {
        if let Ok(stream) = Tls::accept(&served, wire.another()) {
            assert_eq!(stream.agreed().alpn_protocol(), alpn.first().copied());
            Peer::greet(stream, &[]).serve();
        }
    })
}

#[test]
fn http2_over_tls_is_negotiated_by_alpn() {
    let server = over_tls(&[b"h2"]);
    let counts = counts(&streams(&at("https", &server), 3, 4, 200));
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (200, vec![]),
        "{:?}",
        counts.examples
    );
    let text = refused(&streams(&at("https", &over_tls(&[])), 1, 1, 1));
    assert!(
        text.contains("does not offer HTTP/2") && text.contains("--http2"),
        "{text}"
    );
}

#[test]
fn a_server_that_speaks_no_http2_is_reported() {
    let server = Origin::tcp().serve(|wire| {
        wire.exactly(24);
        wire.send(PAGE);
        wire.wait_closed();
    });
    let text = refused(&streams(&at("http", &server), 1, 1, 1));
    assert!(text.contains("HTTP/1") && text.contains("h2c"), "{text}");
    let server = Origin::tcp().serve(|wire| {
        wire.send(b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678");
        wire.wait_closed();
    });
    assert!(refused(&streams(&at("http", &server), 1, 1, 1)).contains("not HTTP/2"));
}

#[test]
fn options_that_http2_lacks_are_refused() {
    for (change, says) in [
        (
            (|options| options.requests.urls = vec!["ws://127.0.0.1:1".into()])
                as fn(&mut LoadOptions),
            "--http2 is for http",
        ),
        (
            |options| options.requests.urls = vec!["tcp://127.0.0.1:1".into()],
            "--http2 is for http",
        ),
        (
            |options| options.requests.headers = vec![("Connection".into(), "close".into())],
            "`connection` cannot be sent",
        ),
        (
            |options| options.requests.headers = vec![("Upgrade".into(), "x".into())],
            "`upgrade` cannot be sent",
        ),
        (
            |options| options.requests.method = Some("CONNECT".into()),
            "CONNECT",
        ),
        (
            |options| (options.requests.grpc, options.connections.streams) = (true, None),
            "--grpc needs --http2",
        ),
        (
            |options| {
                (options.requests.grpc, options.requests.body) = (true, RequestBody::Random(5))
            },
            "--body-random",
        ),
        (
            |options| {
                options.requests.varying = vec![Varying {
                    name: "Host".into(),
                    values: vec!["a".into()],
                }]
            },
            "`Host` cannot be sent",
        ),
    ] {
        let mut options = streams("http://127.0.0.1:1", 1, 1, 1);
        options.requests.body = text("x");
        change(&mut options);
        let text = refused(&options);
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn the_load_report_names_http2_and_streams() {
    let server = over_tcp(|peer| peer.serve());
    let url = at("http", &server);
    let arguments = [
        "load",
        "--http2",
        "--streams",
        "4",
        "-c",
        "3",
        "-n",
        "50",
        &url,
    ];
    let ended = lockgate().run(&arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for said in ["HTTP/2", "3 connections of 4 streams each", "succeeded  50"] {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
    let ended = lockgate().run(&[&arguments[..], &["--json", "-"]].concat());
    let said: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&said["streams"], &said["first"][0]["protocol"]),
        (&4.into(), &"HTTP/2".into())
    );
    let ended = lockgate().run(&["load", "--streams", "4", "http://a"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--http2"), "{}", ended.stderr);
}
