//! RFC 9113 §8: heads, bodies and trailers, and what is malformed.

use super::*;
use crate::fields::{Field, Fields, Known};
use crate::h2::frames::{CONTINUATION, DATA};
use crate::hpack::Indexing;

fn text(text: &str) -> String {
    text.to_owned()
}

/// The client's stream 1 gets these frames: what it is told, and the code of its RST_STREAM.
fn response(method: Method, frames: &[Vec<u8>]) -> (Vec<Seen>, Option<u32>) {
    let mut client = End::client();
    client
        .connection
        .open(method, 1, false, |block| block.repeat(GET));
    client.sent();
    client.feed(&frames.concat()).unwrap();
    let code = client.sent().first().map(|(kind, _, _, code)| {
        assert_eq!(*kind, RST_STREAM);
        u32::from_be_bytes(code[..].try_into().unwrap())
    });
    (client.take_seen(), code)
}

fn data(flags: u8, data: &[u8]) -> Vec<u8> {
    frame(DATA, flags, 1, data)
}

/// §8.1.
#[test]
fn responses_are_told_in_every_form() {
    let trailer = b"\x00\x01a\x01b";
    let body = |data: &[u8], ended| Seen::Data(1, data.to_vec(), ended);
    for (frames, seen) in [
        (
            vec![headers(END_STREAM, 1, OK)],
            vec![Seen::Response(1, 200, true)],
        ),
        (
            vec![headers(0, 1, OK), data(END_STREAM, b"x")],
            vec![Seen::Response(1, 200, false), body(b"x", true)],
        ),
        (
            vec![headers(0, 1, OK), data(0, b"x"), data(END_STREAM, b"")],
            vec![
                Seen::Response(1, 200, false),
                body(b"x", false),
                body(b"", true),
            ],
        ),
        (
            vec![headers(0, 1, OK), headers(END_STREAM, 1, trailer)],
            vec![Seen::Response(1, 200, false), Seen::Trailers(1, 1)],
        ),
        (
            vec![
                headers(0, 1, b"\x08\x03103"),
                headers(0, 1, b"\x08\x03100"),
                headers(END_STREAM, 1, b"\x89"),
            ],
            vec![
                Seen::Interim(1, 103),
                Seen::Interim(1, 100),
                Seen::Response(1, 204, true),
            ],
        ),
        (
            vec![
                frame(HEADERS, 0, 1, b"\x88\x5c"),
                frame(CONTINUATION, 0, 1, b"\x01"),
                frame(CONTINUATION, END_HEADERS, 1, b"1"),
                data(END_STREAM | 0x8, b"\x02x\0\0"),
            ],
            vec![Seen::Response(1, 200, false), body(b"x", true)],
        ),
    ] {
        assert_eq!(response(Method::Get, &frames), (seen, None), "{frames:?}");
    }
}

/// §8.1, §8.1.1, §8.3.2, §8.6.
#[test]
fn malformed_responses_reset_their_stream() {
    use StreamFault::*;
    let section = |flags, block: &[u8]| headers(flags, 1, block);
    for (frames, fault) in [
        (vec![section(0, b"\x5c\x0210")], Status),
        (vec![section(0, b"\x08\x03abc")], Status),
        (vec![section(0, b"\x08\x03099")], Status),
        (vec![section(0, b"\x08\x03101")], Status),
        (vec![section(0, b"\x88\x88")], PseudoFields),
        (vec![section(0, b"\x5c\x0210\x88")], PseudoFields),
        (vec![section(0, b"\x88\x82")], PseudoFields),
        (vec![section(0, b"\x88\x00\x02:a\x01b")], PseudoFields),
        (vec![section(END_STREAM, b"\x08\x03103")], Interim),
        (vec![data(END_STREAM, b"x")], DataBeforeHead),
        (
            vec![section(0, OK), section(0, b"\x00\x01a\x01b")],
            Trailers,
        ),
        (vec![section(0, OK), section(END_STREAM, OK)], PseudoFields),
        // Content-Length: 2.
        (
            vec![section(0, b"\x88\x5c\x012"), data(0, b"abc")],
            TooMuchData,
        ),
        (
            vec![section(0, b"\x88\x5c\x012"), data(END_STREAM, b"a")],
            TooLittleData,
        ),
        // With as many zeros as a head may have.
        (
            vec![
                section(0, b"\x88\x5c\x1400000000000000000005"),
                data(0, b"123456"),
            ],
            TooMuchData,
        ),
        (
            vec![
                section(0, b"\x88\x5c\x1400000000000000000005"),
                data(END_STREAM, b"1234"),
            ],
            TooLittleData,
        ),
        (vec![section(END_STREAM, b"\x88\x5c\x012")], TooLittleData),
        (
            vec![
                section(0, b"\x88\x5c\x012"),
                section(END_STREAM, b"\x00\x01a\x01b"),
            ],
            TooLittleData,
        ),
    ] {
        let (seen, code) = response(Method::Get, &frames);
        let expected = Seen::Reset(1, fault.code(), Some(fault), false);
        assert_eq!(seen.last(), Some(&expected), "{frames:?}");
        assert_eq!(code, Some(code::PROTOCOL_ERROR), "{frames:?}");
    }
}

/// RFC 9110 §8.6: of these, Content-Length is that of another message.
#[test]
fn content_length_of_bodiless_responses_announces_no_data() {
    for (method, block) in [
        (Method::Head, &b"\x88\x5c\x012"[..]),
        (Method::Get, b"\x8b\x5c\x012"),
        (Method::Get, b"\x89\x5c\x012"),
        (Method::Connect, b"\x88\x5c\x012"),
    ] {
        let (seen, code) = response(method, &[headers(END_STREAM, 1, block)]);
        assert!(matches!(seen[..], [Seen::Response(1, _, true)]), "{seen:?}");
        assert_eq!(code, None);
    }
}

/// RFC 8441 §3: `:protocol`, which was not offered. It has no slot, and no event tells of it.
#[test]
fn an_extended_connect_that_was_not_offered_is_reset() {
    let block = b"\x02\x07CONNECT\x86\x84\x41\x01a\x00\x09:protocol\x09websocket";
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 1, block)).unwrap();
    assert_eq!(server.sent(), [reset_frame(1, code::PROTOCOL_ERROR)]);
    assert_eq!(
        (server.take_seen(), server.connection.active()),
        (vec![], 0)
    );
}

/// RFC 8441 §4.
#[test]
fn extended_connect_needs_our_setting() {
    let mut server = End::server_with(LocalSettings {
        connect_protocol: true,
        ..SETTINGS_OF_TESTS
    });
    let block = b"\x02\x07CONNECT\x86\x84\x41\x01a\x00\x09:protocol\x09websocket";
    server.feed(&headers(0, 1, block)).unwrap();
    assert_eq!(server.take_seen(), [Seen::Request(1, text("GET /"), false)]);
    server.answer(1, false);
    let key = server.key(1);
    server.feed(&data(0, b"to us")).unwrap();
    assert_eq!(server.connection.data(key, b"from us", false), 7);
    // A plain one has neither scheme nor path (§8.5).
    let block = b"\x02\x07CONNECT\x41\x03a:1";
    server.feed(&headers(0, 3, block)).unwrap();
    let connect = Seen::Request(3, text("CONNECT a:1"), false);
    assert_eq!(server.take_seen().last(), Some(&connect));
    let mut client = End::client();
    assert!(!client.connection.peer_settings().unwrap().connect_protocol);
    client.feed(&settings(&[(8, 1)])).unwrap();
    assert!(client.connection.peer_settings().unwrap().connect_protocol);
}

/// The user answers these (§8.1.1): 400, 431.
#[test]
fn requests_that_make_no_head_keep_their_stream() {
    let large = [GET, b"\x00\x01a\x7f\x81\x1f", &[b'x'; 4_096]].concat();
    for block in [
        &b"\x82\x86\x84"[..],
        // §8.3: pseudo-fields that are repeated, behind another field, of a response, unknown.
        b"\x82\x82\x86\x84\x41\x01a",
        b"\x82\x86\x84\x00\x01a\x01b\x41\x01a",
        b"\x82\x86\x84\x41\x01a\x88",
        b"\x82\x86\x84\x41\x01a\x00\x02:a\x01b",
        b"\x82\x86\x84\x41\x01a\x00\x01A\x01b",
        b"\x82\x86\x84\x41\x01a\x00\x0aconnection\x05close",
        &large,
    ] {
        let mut server = End::server();
        server.feed(&headers(END_STREAM, 1, block)).unwrap();
        assert_eq!(server.take_seen(), [Seen::Malformed(1)]);
        let key = server.key(1);
        server.connection.respond(key, &ResponseHead::of(400), true);
        server.close(1, code::NO_ERROR);
        assert_eq!(server.sent().len(), 1);
    }
}

/// RFC 7541 §7.1.3: clients that share a connection must not learn of each other's fields by the size
/// of their own.
#[test]
fn requests_of_many_clients_share_only_common_fields_in_the_table() {
    let mut client = End::client();
    let mut blocks = Vec::new();
    for _ in 0..2 {
        client.connection.open(Method::Get, 1, true, |block| {
            for (name, value, is_kept) in [
                ("User-Agent", "a browser", true),
                ("X-Forwarded-Proto", "https", true),
                ("X-Forwarded-For", "192.0.2.1", false),
                ("X-Request-Id", "0123456789abcdef", false),
                ("X-Api-Key", "secret", false),
                ("Authorization", "Bearer secret", false),
                ("Cookie", "session=secret", false),
            ] {
                let before = block.changes();
                let (name, value) = (name.as_bytes(), value.as_bytes());
                let known = Known::of(name);
                block.request_field(&Field { name, value, known });
                let is_new = blocks.is_empty();
                assert_eq!(block.changes() > before, is_kept && is_new, "{name:?}");
            }
            blocks.push(block.written().to_vec());
        });
        client.sent();
    }
    assert!(blocks[1].len() < blocks[0].len());
}

/// Entries stay: one client must not leave the others without room.
#[test]
fn no_request_fills_the_table_of_many_clients() {
    let long = [b'x'; 257];
    let mut trailers = Fields::default();
    trailers.append(b"X-Signature", b"secret");
    let mut client = End::client();
    let opened = client.connection.open(Method::Post, 1, false, |block| {
        for (value, is_kept) in [(&long[..], false), (&long[1..], true)] {
            let before = block.changes();
            let (name, known) = (b"user-agent", None);
            block.request_field(&Field { name, value, known });
            assert_eq!(block.changes() > before, is_kept);
        }
    });
    client.sent();
    client.connection.trailers(opened.unwrap(), &trailers);
    let (kind, _, _, block) = &client.sent()[0];
    // A literal without indexing (RFC 7541 §6.2.2).
    assert_eq!((*kind, block[0]), (HEADERS, 0));
}

#[test]
fn a_response_is_written_for_http_2() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    let key = server.key(1);
    let mut head = ResponseHead::of(200);
    for (name, value) in [
        ("Content-Type", "text/plain"),
        ("Content-Length", "1"),
        ("Set-Cookie", "a=b"),
    ] {
        head.fields.append(name.as_bytes(), value.as_bytes());
    }
    server.connection.interim(key, &ResponseHead::of(103));
    server.connection.respond(key, &head, false);
    // Nothing that a second head would be.
    server.connection.respond(key, &head, false);
    server.connection.interim(key, &ResponseHead::of(103));
    assert_eq!(server.connection.data(key, b"x", false), 1);
    let mut trailers = Fields::default();
    trailers.append(b"X-Sum", b"1");
    server.connection.trailers(key, &trailers);
    let sent = server.sent();
    let flags: Vec<_> = sent
        .iter()
        .map(|(kind, flags, ..)| (*kind, *flags))
        .collect();
    let expected = [
        (HEADERS, END_HEADERS),
        (HEADERS, END_HEADERS),
        (DATA, 0),
        (HEADERS, END_HEADERS | END_STREAM),
    ];
    assert_eq!(flags, expected);
    let mut decoder = HpackDecoder::new(TABLE_SIZE);
    let mut lines = Vec::new();
    for (.., block) in [&sent[0], &sent[1], &sent[3]] {
        decoder
            .decode(block, 1 << 16, |name, value| {
                lines.push(String::from_utf8_lossy(&[name, b"=", value].concat()).into_owned());
            })
            .unwrap();
    }
    assert_eq!(
        lines,
        [
            ":status=103",
            ":status=200",
            "content-type=text/plain",
            "content-length=1",
            "set-cookie=a=b",
            "x-sum=1"
        ]
    );
    // A length changes with each response, and a cookie is a secret.
    let block = &sent[1].3;
    assert!(block.windows(4).any(|four| four == b"\x0f\x0d\x011"));
    assert!(block.windows(2).any(|two| two == b"\x1f\x28"));
    // The request has not ended: the client need not send the rest (§8.1).
    server.close(1, code::NO_ERROR);
    assert_eq!(server.sent(), [reset_frame(1, code::NO_ERROR)]);
}

/// §4.3, §6.10: a block longer than a frame.
/// What comes next is the rest of it, for which its sender may wait for an acknowledgement of TCP.
#[test]
fn the_rest_of_a_message_is_known_to_be_missing() {
    let mut server = End::new(Role::Server, SETTINGS_OF_TESTS, FEW);
    let whole = data(0, b"whole");
    for (bytes, expected) in [
        (&PREFACE[..0], false),
        (&PREFACE[..1], true),
        (&PREFACE[1..23], true),
        (&PREFACE[23..], false),
        (&settings(&[]), false),
        (&frame(HEADERS, 0, 1, b"\x83\x86"), true),
        (
            &frame(CONTINUATION, END_HEADERS, 1, b"\x84\x41\x01a"),
            false,
        ),
        // A part of a header is left over.
        (&whole[..8], false),
        (&whole[..10], true),
        (&whole[10..], false),
        // Padding is a part of its frame.
        (&data(0x8, b"\x02x\0\0")[..12], true),
        (b"\0", false),
    ] {
        server.feed_some(bytes).unwrap();
        assert_eq!(server.connection.is_within_message(), expected, "{bytes:?}");
    }
}

/// §8.1: a complete response, and then a request not to send the rest; at both ends.
#[test]
fn an_early_response_ends_an_upload_without_an_error() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    server.feed(&data(0, &[b'x'; 10_000])).unwrap();
    let key = server.key(1);
    server
        .connection
        .respond(key, &ResponseHead::of(413), false);
    assert_eq!(server.connection.data(key, b"no", true), 2);
    server.connection.close(key, code::NO_ERROR);
    let answer = server.connection.unsent().to_vec();
    let [(HEADERS, ..), (DATA, END_STREAM, ..), reset] = &server.sent()[..] else {
        panic!("an answer");
    };
    assert_eq!(*reset, reset_frame(1, code::NO_ERROR));
    // What was on its way is no offence, and given back to the connection.
    server.take_seen();
    for _ in 0..3 {
        server.feed(&data(0, &[b'x'; 16_384])).unwrap();
    }
    server.feed(&data(END_STREAM, b"")).unwrap();
    let update = |by: u32| (WINDOW_UPDATE, 0, 0, by.to_be_bytes().to_vec());
    assert_eq!(server.sent(), [update(10_000 + 2 * 16_384)]);
    assert_eq!(server.take_seen(), []);

    let mut client = End::client();
    let key = client.ask(false);
    assert_eq!(client.connection.data(key, b"some", false), 4);
    client.sent();
    client.feed(&answer).unwrap();
    let expected = [
        Seen::Response(1, 413, false),
        Seen::Data(1, b"no".to_vec(), true),
        Seen::Reset(1, code::NO_ERROR, None, false),
    ];
    assert_eq!(client.take_seen(), expected);
    assert_eq!(client.connection.data(key, b"more", true), 0);
    client.close(1, code::CANCEL);
    assert_eq!(client.sent(), []);
}

#[test]
fn a_long_field_block_continues_in_further_frames() {
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    let key = server.key(1);
    let mut head = ResponseHead::of(200);
    head.fields.append(b"x", &[b'~'; 40_000]);
    server.connection.respond(key, &head, true);
    let bytes = server.connection.unsent().to_vec();
    let kinds: Vec<_> = frames_of(&bytes)
        .iter()
        .map(|(kind, flags, ..)| (*kind, *flags))
        .collect();
    let expected = [
        (HEADERS, END_STREAM),
        (CONTINUATION, 0),
        (CONTINUATION, END_HEADERS),
    ];
    assert_eq!(kinds, expected);
    let mut client = End::new(
        Role::Client,
        LocalSettings {
            head_list: 50_000,
            ..SETTINGS_OF_TESTS
        },
        FEW,
    );
    client.greet();
    client.ask(true);
    let limits = HeadLimits {
        head: 50_000,
        ..LIMITS
    };
    let used = client.connection.receive(&bytes, &mut client.section);
    assert_eq!(used, Ok(bytes.len()));
    let mut head = ResponseHead::default();
    client.section.response(&limits, &mut head).unwrap();
    assert_eq!(
        head.fields.named(b"x").next().map(<[u8]>::len),
        Some(40_000)
    );
}

/// A block that was sent may be sent again while the table stays the same.
#[test]
fn a_repeated_request_block_stays_valid_without_table_changes() {
    let (mut client, mut server) = (End::client(), End::server());
    let mut cached: Option<(u64, Vec<u8>)> = None;
    for round in 0..4 {
        if round == 3 {
            // The table shrinks, and with it what was cached.
            client.feed(&settings(&[(1, 0)])).unwrap();
            client.sent();
        }
        let next = client.connection.next_id;
        let key = client.connection.open(Method::Get, next, true, |block| {
            let before = block.changes();
            match &cached {
                Some((changes, written)) if *changes == before => block.repeat(written),
                _ => {
                    for (name, value) in
                        [(":method", "GET"), (":scheme", "http"), (":path", "/long")]
                    {
                        block.field(name.as_bytes(), value.as_bytes(), Indexing::Keep);
                    }
                    block.field(b":authority", b"a", Indexing::Keep);
                    cached =
                        (block.changes() == before).then(|| (before, block.written().to_vec()));
                }
            }
        });
        let bytes = client.connection.unsent().to_vec();
        client.sent();
        server.feed(&bytes).unwrap();
        let stream = key.unwrap().stream();
        let request = Seen::Request(stream, text("GET /long"), true);
        assert_eq!(server.take_seen(), [request], "{round}");
        server.answer(stream, true);
        server.close(stream, code::NO_ERROR);
        client.close(stream, code::CANCEL);
        client.sent();
    }
}
