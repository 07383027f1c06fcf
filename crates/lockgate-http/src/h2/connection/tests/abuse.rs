//! What a peer may cost: the floods of RFC 9113 §10.5, by the names under which they are known.

use super::*;
use crate::h2::frames::{CONTINUATION, DATA, PRIORITY};
use crate::hpack::HpackError;

/// How often these bytes can be fed, up to 1,000 times, and what ends it.
fn rounds(
    server: &mut End,
    mut bytes: impl FnMut(u32) -> Vec<u8>,
) -> (u32, Option<ConnectionError>) {
    for round in 0..1_000 {
        if let Err(error) = server.feed(&bytes(round)) {
            return (round, Some(error));
        }
        server.connection.note_sent(usize::MAX);
    }
    (1_000, None)
}

/// The ID of the stream of a round.
fn id(round: u32) -> u32 {
    1 + 2 * round
}

#[test]
fn cve_2023_44487_rapid_reset_ends_the_connection() {
    let mut server = End::server();
    let mut closed = 0;
    for round in 0..1_000 {
        let stream = id(round);
        let bytes = [
            headers(END_STREAM, stream, GET),
            frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]),
        ];
        match server.feed(&bytes.concat()) {
            Ok(()) => {
                closed += 1;
                server.close(stream, code::CANCEL);
            }
            Err(error) => {
                assert_eq!(error, ConnectionError::Resets);
                break;
            }
        }
    }
    assert_eq!(closed, FEW.resets);
    let goaway = server.sent().pop();
    assert_eq!(goaway, Some(goaway_frame(21, code::ENHANCE_YOUR_CALM)));
}

/// MadeYouReset: the client makes us reset its requests.
#[test]
fn cve_2025_8671_made_you_reset_ends_the_connection() {
    let provocations: [fn(u32) -> Vec<u8>; 5] = [
        |stream| frame(WINDOW_UPDATE, 0, stream, &[0; 4]),
        |stream| {
            let update = frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]);
            update.repeat(2)
        },
        |stream| frame(PRIORITY, 0, stream, &[0; 4]),
        |stream| {
            frame(
                PRIORITY,
                0,
                stream,
                &[&stream.to_be_bytes()[..], &[0]].concat(),
            )
        },
        |stream| frame(DATA, 0, stream, b"behind the end"),
    ];
    for provoke in provocations {
        let mut server = End::new(
            Role::Server,
            SETTINGS_OF_TESTS,
            Budget {
                control: 1_000,
                updates: 1_000,
                ..FEW
            },
        );
        server.feed(PREFACE).unwrap();
        server.greet();
        let mut made = 0;
        let error = loop {
            let stream = id(made);
            let bytes = [headers(END_STREAM, stream, GET), provoke(stream)].concat();
            if let Err(error) = server.feed(&bytes) {
                break error;
            }
            server.close(stream, code::CANCEL);
            made += 1;
        };
        assert_eq!((error, made), (ConnectionError::Resets, FEW.resets));
    }
}

/// The user's resets count as well, where they are for a violation.
#[test]
fn malformed_requests_that_the_user_resets_are_counted() {
    for (code, ends) in [(code::PROTOCOL_ERROR, true), (code::INTERNAL_ERROR, false)] {
        let mut server = End::server();
        let mut error = None;
        for round in 0..20 {
            let fed = server.feed(&headers(END_STREAM, id(round), GET));
            error = error.or(fed.err());
            if error.is_none() {
                server.close(id(round), code);
            }
        }
        assert_eq!(error, ends.then_some(ConnectionError::Resets));
    }
}

/// Malformed requests that are answered with 400 or 431 count like those that are reset.
#[test]
fn malformed_requests_that_the_user_answers_are_counted() {
    let mut server = End::server();
    for round in 0..=FEW.resets {
        server
            .feed(&headers(END_STREAM, id(round), b"\x82"))
            .unwrap();
        assert_eq!(server.connection.error(), None);
        server.connection.penalize();
        server.answer(id(round), true);
        if round < FEW.resets {
            server.close(id(round), code::NO_ERROR);
        }
    }
    assert_eq!(server.connection.error(), Some(ConnectionError::Resets));
    assert_eq!(server.feed(b"x"), Err(ConnectionError::Resets));
    // No more than once, and nothing behind the GOAWAY.
    server.connection.penalize();
    server.close(id(FEW.resets), code::PROTOCOL_ERROR);
    assert_eq!(server.sent(), []);
}

/// §5.1.2: a client knows that a stream is over before the user has closed it.
#[test]
fn streams_that_are_over_leave_room_for_others() {
    let mut server = End::server();
    let refused = |stream| reset_frame(stream, code::REFUSED_STREAM);
    for round in 0..4 {
        server.feed(&headers(END_STREAM, id(round), GET)).unwrap();
    }
    server.sent();
    server.feed(&headers(END_STREAM, 9, GET)).unwrap();
    assert_eq!(server.sent(), [refused(9)]);
    // One is answered, one cancelled; the user has closed neither.
    server.answer(1, true);
    let cancel = frame(RST_STREAM, 0, 3, &[0, 0, 0, 8]);
    let more = [11, 13, 15].map(|stream| headers(END_STREAM, stream, GET));
    server
        .feed(&[&cancel[..], &more.concat()].concat())
        .unwrap();
    assert_eq!(server.sent(), [refused(15)]);
    assert_eq!(server.connection.active(), 6);
    // A user that closes none holds no more than twice the limit.
    for stream in [5, 7, 11, 13] {
        server.answer(stream, true);
    }
    let more = [17, 19, 21].map(|stream| headers(END_STREAM, stream, GET));
    server.feed(&more.concat()).unwrap();
    assert_eq!(server.sent(), [refused(21)]);
    assert_eq!(server.connection.active(), 8);
    // The same of a server's limit.
    let mut client = End::client();
    client.feed(&settings(&[(3, 1)])).unwrap();
    client.ask(true);
    let ask = |client: &mut End| client.connection.open(Method::Get, 3, true, |_| {});
    assert_eq!(ask(&mut client), None);
    client.feed(&headers(END_STREAM, 1, OK)).unwrap();
    assert!(ask(&mut client).is_some());
}

/// A client that has not seen our limit may open a thousand streams at once (§5.1.2).
#[test]
fn refused_streams_are_free_until_settings_are_acknowledged() {
    let mut server = End::new(Role::Server, SETTINGS_OF_TESTS, FEW);
    server.feed(PREFACE).unwrap();
    server.feed(&settings(&[])).unwrap();
    let open = |round| headers(END_STREAM, id(round), GET);
    assert_eq!(rounds(&mut server, open), (1_000, None));
    server.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    let more = rounds(&mut server, |round| open(1_000 + round));
    assert_eq!(more, (FEW.resets, Some(ConnectionError::Resets)));
}

/// CVE-2024-27316 and others: frames without an end, large or empty.
#[test]
fn continuation_flood_ends_the_connection() {
    for (piece, most) in [(&[b'x'; 1_000][..], 21), (b"x", 2_100), (b"", 20)] {
        let mut server = End::server();
        // A field whose value never ends.
        server
            .feed(&frame(HEADERS, 0, 1, b"\x00\x01a\x7f\xff\xff\x7f"))
            .unwrap();
        let mut frames = 0;
        let error = loop {
            if let Err(error) = server.feed(&frame(CONTINUATION, 0, 1, piece)) {
                break error;
            }
            frames += 1;
        };
        assert!(frames <= most, "{frames} of {} bytes", piece.len());
        assert_eq!(error.code(), code::ENHANCE_YOUR_CALM);
        assert_eq!(server.take_seen(), []);
    }
}

/// CVE-2016-6581: a few bytes that stand for megabytes. The head is refused at its limit, what is
/// beyond costs a look at each field, and the connection goes on with the right table.
#[test]
fn hpack_bomb_makes_no_head_and_keeps_the_table() {
    let mut server = End::server();
    let large = [&b"\x40\x01a\x7f\xa1\x1d"[..], &[b'x'; 3_872]].concat();
    let bomb = [GET, &large, &[0xbe; 12_000]].concat();
    server.feed(&headers(END_STREAM, 1, &bomb)).unwrap();
    assert_eq!(server.take_seen(), [Seen::Malformed(1)]);
    // The sink has one of them.
    server
        .feed(&headers(END_STREAM, 3, &[GET, b"\x00\x01b\x01c"].concat()))
        .unwrap();
    assert_eq!(server.take_seen(), [Seen::Request(3, "GET /".into(), true)]);
    // An integer that overflows, and a table that is larger than allowed.
    for (block, error) in [
        (&b"\xff\xff\xff\xff\xff\xff\xff"[..], HpackError::Number),
        (b"\x3f\xe2\x1f", HpackError::TableSize),
    ] {
        let mut server = End::server();
        let fed = server.feed(&headers(END_STREAM, 1, block));
        assert_eq!(fed, Err(ConnectionError::Hpack(error)));
    }
}

/// CVE-2019-9512, -9513, -9515, -9518, and unknown frames.
#[test]
fn empty_data_settings_ping_and_priority_floods_end_the_connection() {
    let control = Some(ConnectionError::Control);
    let floods: [fn(u32) -> Vec<u8>; 8] = [
        |_| frame(PING, 0, 0, b"12345678"),
        |_| frame(PING, ACK, 0, b"12345678"),
        |_| settings(&[]),
        |_| frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 0]),
        |_| frame(0x10, 0, 0, b"\0\0\0\x01u=1"),
        |_| frame(0x77, 0, 0, b""),
        |_| frame(DATA, 0, 1, b""),
        // Padding alone is no data.
        |_| frame(DATA, 0x8, 1, b"\x01\0"),
    ];
    for (place, flood) in floods.into_iter().enumerate() {
        let mut server = End::server();
        server.feed(&headers(0, 1, POST)).unwrap();
        let ended = rounds(&mut server, flood);
        assert_eq!(ended, (FEW.control, control), "{place}");
    }
}

/// Heads of many streams that the user holds: the sum is known before they are kept, and refusing
/// them is not the client's violation (RFC 9113 §6.5.2, §8.7).
#[test]
fn heads_of_open_streams_are_counted_together() {
    const MOST: usize = 2_500;
    let mut server = End::server_with(LocalSettings {
        streams: 1_000,
        ..SETTINGS_OF_TESTS
    });
    // As `GET` and `POST`, without a new entry of the table.
    let [get_block, post_block] = [b"\x82\x86\x84\x01\x01a", b"\x83\x86\x84\x01\x01a"];
    let large = [&b"\x40\x01a\x7f\x81\x07"[..], &[b'x'; 1_024]].concat();
    // `:method`, `:scheme`, `:path`, `:authority`, with 32 bytes for each.
    let get = 7 + 3 + 7 + 4 + 5 + 1 + 10 + 1 + 4 * 32;
    let each = get + 1_025 + 32;
    for round in 0..100 {
        // A reference of one byte from the second on.
        let field = if round == 0 { &large[..] } else { b"\xbe" };
        let block = [&get_block[..], field].concat();
        server
            .feed(&headers(END_STREAM, id(round), &block))
            .unwrap();
        let (key, held) = (server.key(id(round)), server.connection.held_heads());
        assert_eq!(server.connection.head_size(key), each);
        if round < 2 {
            assert_eq!(held, each * (1 + round as usize));
            continue;
        }
        assert!(held > MOST);
        server.close(id(round), code::REFUSED_STREAM);
    }
    assert_eq!(server.connection.held_heads(), 2 * each);
    server.close(1, code::CANCEL);
    // Trailers count as well, and of a head that is too long what the sink has got.
    server.feed(&headers(0, 501, post_block)).unwrap();
    server.feed(&headers(END_STREAM, 501, b"\xbe")).unwrap();
    let key = server.key(501);
    assert_eq!(server.connection.head_size(key), get + 1 + each - get);
    server
        .feed(&headers(
            END_STREAM,
            503,
            &[&get_block[..], &[0xbe; 9]].concat(),
        ))
        .unwrap();
    let long = server.connection.head_size(server.key(503));
    assert_eq!(long, get + 3 * (each - get));
    for stream in [3, 501, 503] {
        server.close(stream, code::CANCEL);
    }
    assert_eq!(server.connection.held_heads(), 0);
    assert_eq!(server.connection.head_size(key), 0);
}

/// The same of responses, of which interim ones are not held.
#[test]
fn heads_of_responses_are_counted() {
    let mut client = End::client();
    let key = client.ask(true);
    client
        .feed(&headers(0, 1, b"\x08\x03103\x00\x01a\x01b"))
        .unwrap();
    assert_eq!(client.connection.held_heads(), 0);
    client.feed(&headers(0, 1, OK)).unwrap();
    client
        .feed(&headers(END_STREAM, 1, b"\x00\x01a\x01b"))
        .unwrap();
    assert_eq!(client.connection.head_size(key), 7 + 3 + 32 + 2 + 32);
    client.close(1, code::CANCEL);
    assert_eq!(client.connection.held_heads(), 0);
}

/// §4.3, §10.5.1: what is several times too long is not decoded, nor is a field that is too long to be
/// passed over.
#[test]
fn excessive_fields_end_the_connection() {
    use ConnectionError::{FieldTooLong, SectionTooLong};
    let field = |name: usize, value: usize| {
        let mut field = vec![0];
        for length in [name, value] {
            field.push(0x7f);
            let mut rest = length - 127;
            while rest >= 0x80 {
                field.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            field.push(rest as u8);
            field.extend_from_slice(&vec![b'x'; length]);
        }
        field
    };
    for (list, fields, error) in [
        (32_768, field(200, 100_000), None),
        (32_768, field(200, 140_000), Some(SectionTooLong)),
        // A small head list has room for one frame more.
        (1_024, field(200, 16_000), None),
        (1_024, field(200, 18_000), Some(SectionTooLong)),
        (32_768, field(32_768, 200), None),
        (32_768, field(32_769, 200), Some(FieldTooLong)),
        // Behind fields that are too large already.
        (32_768, field(200, 32_768).repeat(2), None),
        (
            32_768,
            [field(200, 32_768), field(200, 32_769)].concat(),
            Some(FieldTooLong),
        ),
    ] {
        let mut server = End::server_with(LocalSettings {
            head_list: list,
            ..SETTINGS_OF_TESTS
        });
        let block = [GET, &fields].concat();
        let pieces: Vec<_> = block.chunks(16_384).collect();
        let mut fed = Ok(());
        for (place, piece) in pieces.iter().enumerate() {
            let kind = if place == 0 { HEADERS } else { CONTINUATION };
            let last = place + 1 == pieces.len();
            let flags = if last { END_HEADERS | END_STREAM } else { 0 };
            fed = fed.and_then(|()| server.feed(&frame(kind, flags, 1, piece)));
        }
        assert_eq!(fed.err(), error, "{list} {}", fields.len());
        let seen = server.take_seen();
        let told = error.is_none().then_some(Seen::Malformed(1));
        assert_eq!(seen, Vec::from_iter(told));
    }
}

/// CONTINUATION frames are for what one frame cannot hold (§6.10).
#[test]
fn short_continuation_frames_are_counted() {
    for (length, counts) in [(1_023, true), (1_024, false)] {
        let mut server = End::server_with(LocalSettings {
            head_list: 1 << 20,
            ..SETTINGS_OF_TESTS
        });
        // A value of 200,000 bytes.
        server
            .feed(&frame(HEADERS, 0, 1, b"\x00\x01a\x7f\xc1\x99\x0c"))
            .unwrap();
        let mut fed = 0;
        while fed < 100
            && server
                .feed(&frame(CONTINUATION, 0, 1, &vec![b'x'; length]))
                .is_ok()
        {
            fed += 1;
        }
        let error = server.connection.error();
        assert_eq!(error, counts.then_some(ConnectionError::Control));
        assert_eq!(fed, if counts { FEW.control } else { 100 });
    }
}

/// CVE-2024-27316, by a peer whose other frames are not counted.
#[test]
fn short_continuation_frames_of_one_section_are_bounded() {
    let settings = LocalSettings {
        head_list: 1 << 20,
        ..SETTINGS_OF_TESTS
    };
    let mut client = End::new(Role::Client, settings, Budget::UNLIMITED);
    client.greet();
    client.ask(true);
    client.feed(&frame(HEADERS, 0, 1, OK)).unwrap();
    let mut fed = 0;
    let error = loop {
        match client.feed(&frame(CONTINUATION, 0, 1, b"")) {
            Ok(()) => fed += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((fed, error), (1024, ConnectionError::SectionTooLong));
}

#[test]
fn empty_data_frames_are_known_to_the_user() {
    let mut client = End::new(Role::Client, SETTINGS_OF_TESTS, Budget::UNLIMITED);
    client.greet();
    client.ask(true);
    client.feed(&headers(0, 1, OK)).unwrap();
    for data in [&b""[..], b"x", b""] {
        client.feed(&frame(DATA, 0, 1, data)).unwrap();
    }
    assert_eq!(client.connection.empty_frames(), 2);
    client.feed(&frame(DATA, END_STREAM, 1, b"")).unwrap();
    assert_eq!(client.connection.empty_frames(), 2, "the end has a use");
}

/// A peer that gets small answers measures the round trip with each (grpc-go).
#[test]
fn heads_that_we_send_explain_pings() {
    let mut server = End::server();
    for round in 0..100 {
        server.feed(&headers(END_STREAM, id(round), GET)).unwrap();
        server.answer(id(round), true);
        server.close(id(round), code::NO_ERROR);
        server.feed(&frame(PING, 0, 0, b"12345678")).unwrap();
    }
    // What we acknowledge explains none (CVE-2019-9512).
    let ended = rounds(&mut server, |_| frame(PING, 0, 0, b"12345678"));
    assert!(ended.0 <= FEW.control + 26, "{ended:?}");
    assert_eq!(ended.1, Some(ConnectionError::Control));
}

/// §8.1: gRPC clients reset each call that the server ends first.
#[test]
fn resets_behind_a_whole_response_are_no_rapid_reset() {
    let mut server = End::server();
    for round in 0..FEW.control {
        server.feed(&headers(0, id(round), POST)).unwrap();
        server.answer(id(round), true);
        server
            .feed(&frame(RST_STREAM, 0, id(round), &[0; 4]))
            .unwrap();
        server.close(id(round), code::NO_ERROR);
    }
    // Each has cost a control frame, and so do those of closed streams.
    let closed = server.feed(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    assert_eq!(closed, Err(ConnectionError::Control));
}

/// §5.1: as much as the window of a stream had left may be on its way when we reset it.
#[test]
fn data_on_its_way_to_a_reset_stream_is_no_flood() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    let left = server.connection.streams.get(server.key(1)).unwrap();
    let left = left.receive_window.left();
    server.close(1, code::INTERNAL_ERROR);
    let message = frame(DATA, 0, 1, &[b'x'; 100]);
    let allowed = (left / message.len()) as u32;
    let ended = rounds(&mut server, |_| message.clone());
    assert!(allowed > FEW.control, "{allowed}");
    assert_eq!(
        ended,
        (allowed + FEW.control, Some(ConnectionError::Control))
    );
}

/// Data for streams that were reset for a violation, and frames without data for any that were reset.
#[test]
fn frames_of_reset_streams_are_counted() {
    for (code, data) in [(code::PROTOCOL_ERROR, &b"x"[..]), (code::CANCEL, b"")] {
        let mut server = End::server();
        server.feed(&headers(0, 1, POST)).unwrap();
        server.close(1, code);
        let ended = rounds(&mut server, |_| frame(DATA, 0, 1, data));
        assert_eq!(ended, (FEW.control, Some(ConnectionError::Control)));
    }
}

/// Memory goes by bytes and not by frames, so that small ones need no limit (§10.5).
#[test]
fn data_of_one_byte_a_frame_is_no_flood() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    let ended = rounds(&mut server, |_| frame(DATA, 0, 1, b"x"));
    assert_eq!(ended, (1_000, None));
    assert_eq!(
        server.connection.streams.get(server.key(1)).unwrap().unused,
        1_000
    );
}

/// CVE-2019-9511, §10.7: a few bytes in much padding are one, and padded messages are none.
#[test]
fn small_data_in_larger_padding_is_a_flood() {
    for (data, padding, counts) in [
        (1, 0, false),
        (1, 1, true),
        (1, 255, true),
        (20, 19, false),
        (20, 20, true),
        (63, 63, true),
        (64, 255, false),
        (10_000, 255, false),
    ] {
        for flags in [0, END_STREAM] {
            let mut server = End::server();
            server.feed(&headers(0, 1, POST)).unwrap();
            let payload = [&[padding][..], &vec![b'x'; data], &vec![0; padding.into()]];
            let padded = frame(DATA, flags | 0x8, 1, &payload.concat());
            let plain = frame(DATA, flags, 1, &vec![b'x'; data]);
            let bytes = if padding == 0 { plain } else { padded };
            let ends = flags == END_STREAM;
            let most = if ends { 1 } else { FEW.control + 1 };
            let fed: Result<Vec<()>, _> = (0..most)
                .map(|_| {
                    let fed = server.feed(&bytes);
                    let key = server.key(1);
                    server.connection.used(key, data);
                    fed
                })
                .collect();
            let error = (counts && !ends).then_some(ConnectionError::Control);
            assert_eq!(fed.err(), error, "{data} {padding}");
        }
    }
}

#[test]
fn window_update_flood_ends_the_connection_unless_data_explains_it() {
    let update = |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]);
    let mut server = End::server();
    let ended = rounds(&mut server, update);
    assert_eq!(ended, (FEW.updates, Some(ConnectionError::Updates)));
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    assert_eq!(server.connection.data(key, &[b'x'; 800], false), 800);
    let ended = rounds(&mut server, update);
    // 8 bytes for each; 10 of the head and 9 of the frame header are for two more.
    assert_eq!(ended, (102 + FEW.updates, Some(ConnectionError::Updates)));
}

/// Some clients measure the round trip with every small response.
#[test]
fn pings_that_data_explains_are_no_flood() {
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    for _ in 0..100 {
        assert_eq!(server.connection.data(key, &[b'x'; 8], false), 8);
        server.feed(&frame(PING, 0, 0, b"12345678")).unwrap();
    }
}

/// grpc-go does so, where messages that are streamed have a few bytes.
#[test]
fn a_window_update_and_a_ping_for_each_tiny_data_frame_are_no_flood() {
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    let answer = [
        frame(WINDOW_UPDATE, 0, 0, &7_u32.to_be_bytes()),
        frame(PING, 0, 0, b"12345678"),
    ];
    for _ in 0..100 {
        assert_eq!(server.connection.data(key, &[b'x'; 7], false), 7);
        server.feed(&answer.concat()).unwrap();
    }
}

/// CVE-2019-9517 and others: a peer that opens its window by one byte at a time gets frames of a byte.
#[test]
fn data_that_the_window_cuts_explains_no_more_frames_than_it_has_bytes_for() {
    let mut server = End::server();
    server.feed(&settings(&[(4, 0)])).unwrap();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    let update = frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
    let ended = (0..1_000).find_map(|_| {
        server.connection.data(key, &[b'x'; 100], false);
        server.connection.note_sent(usize::MAX);
        server.feed(&update).err()
    });
    assert_eq!(ended, Some(ConnectionError::Updates));
}

#[test]
fn a_budget_is_refilled_up_to_its_beginning() {
    let mut server = End::server();
    let ping = || frame(PING, 0, 0, b"12345678");
    for _ in 0..10 {
        server.feed(&ping().repeat(15)).unwrap();
        server.connection.refill(Budget {
            control: 100,
            ..FEW
        });
    }
    let ended = rounds(&mut server, |_| ping());
    assert_eq!(ended, (FEW.control, Some(ConnectionError::Control)));
}

/// CVE-2019-9512 and -9515 where the acknowledgements are not read: the user stops receiving.
#[test]
fn unread_acknowledgements_fill_the_connection() {
    let mut server = End::new(Role::Server, SETTINGS_OF_TESTS, Budget::UNLIMITED);
    server.feed(PREFACE).unwrap();
    server.feed(&settings(&[])).unwrap();
    let pings = frame(PING, 0, 0, b"12345678").repeat(1_000);
    let mut fed = 0;
    while !server.connection.is_full() {
        server.feed(&pings).unwrap();
        fed += pings.len();
    }
    let unsent = server.connection.unsent().len();
    assert!(unsent <= MAX_UNSENT + 3 * pings.len(), "{unsent} of {fed}");
    server.connection.note_sent(unsent);
    assert!(!server.connection.is_full());
}
