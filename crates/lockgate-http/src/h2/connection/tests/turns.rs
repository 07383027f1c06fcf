//! Buffers that are lent for a turn, and what a connection holds between turns.

use super::*;
use crate::h2::frames::DATA;
use crate::hpack::Indexing;

/// What a connection holds in bytes, itself included.
fn held(connection: &Connection<u32>) -> usize {
    let section = connection.section.as_ref();
    size_of_val(connection)
        + connection.out.capacity()
        + connection.events.capacity() * size_of::<Event>()
        + connection.streams.held()
        + connection
            .date
            .as_ref()
            .map_or(0, |date| size_of_val(&**date) + date.held())
        + connection.reset_streams.held()
        + connection.skipped_streams.held()
        + connection.encoder.held()
        + connection.decoder.held()
        + section.map_or(0, PartialSection::held)
}

/// The fields of a browser's request for a page, of about 700 bytes.
fn browser(block: &mut Vec<u8>, encoder: &mut HpackEncoder, path: &str) {
    for (name, value) in [
        (":method", "GET"),
        (":authority", "www.example.com"),
        (":scheme", "https"),
        (":path", path),
        (
            "sec-ch-ua",
            "\"Chromium\";v=\"141\", \"Not?A_Brand\";v=\"8\"",
        ),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", "\"Linux\""),
        ("upgrade-insecure-requests", "1"),
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/141.0.0.0 Safari/537.36",
        ),
        (
            "accept",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
        ),
        ("sec-fetch-site", "none"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-user", "?1"),
        ("sec-fetch-dest", "document"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("accept-language", "en-GB,en;q=0.9,de;q=0.8"),
        ("priority", "u=0, i"),
    ] {
        encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Keep, block);
    }
}

fn response() -> ResponseHead {
    let mut head = ResponseHead::of(200);
    for (name, value) in [
        ("Server", "lockgate"),
        ("Date", "Sun, 29 Nov 2026 00:00:00 GMT"),
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", "811"),
        ("ETag", "\"1a2b3c4d5e6f\""),
        ("Last-Modified", "Sat, 28 Nov 2026 00:00:00 GMT"),
        ("Cache-Control", "no-cache"),
    ] {
        head.fields.append(name.as_bytes(), value.as_bytes());
    }
    head
}

/// Twenty requests in a turn, each with an answer.
fn page(end: &mut End, encoder: &mut HpackEncoder, round: u32) {
    let first = 40 * round + 1;
    for stream in (first..first + 40).step_by(2) {
        let mut block = Vec::new();
        browser(&mut block, encoder, &format!("/assets/file-{stream}.css"));
        end.feed(&headers(END_STREAM, stream, &block)).unwrap();
    }
    for stream in (first..first + 40).step_by(2) {
        let key = end.key(stream);
        end.connection.respond(key, &response(), false);
        end.connection.data(key, &[b'x'; 811], true);
        end.close(stream, code::NO_ERROR);
    }
}

/// Note 006: 17 KB of an idle connection were the h2 crate's.
#[test]
fn an_idle_connection_holds_its_tables_and_nothing_else() {
    let local = LocalSettings {
        streams: 128,
        ..SETTINGS_OF_TESTS
    };
    let (mut buffers, mut encoder) = (TurnBuffers::default(), HpackEncoder::new());
    let mut end = End::server_with(local);
    end.connection.give_back(&mut buffers);
    let fresh = held(&end.connection);
    end.connection.lend(&mut buffers);
    page(&mut end, &mut encoder, 0);
    end.sent();
    let busy = held(&end.connection);
    end.connection.give_back(&mut buffers);
    let idle = held(&end.connection);
    let itself = size_of_val(&end.connection);
    println!("itself {itself}, fresh {fresh}, in a turn {busy}, idle {idle}");
    assert!(itself <= 712, "{itself}");
    assert!(fresh <= itself + 64, "{fresh}");
    assert!(idle <= itself + 3_000, "{idle}");
    assert!(busy > idle + 16 * 1024, "{busy}");
    // However long it lasts: the tables are full.
    for round in 1..50 {
        end.connection.lend(&mut buffers);
        page(&mut end, &mut encoder, round);
        end.sent();
        end.connection.give_back(&mut buffers);
    }
    let full = held(&end.connection);
    println!("idle after 1,000 requests {full}");
    assert!(full <= itself + 4_000, "{full}");
}

#[test]
fn one_set_of_buffers_serves_all_connections() {
    let (mut buffers, mut encoder) = (TurnBuffers::default(), HpackEncoder::new());
    let mut first = End::server_with(LocalSettings {
        streams: 20,
        ..SETTINGS_OF_TESTS
    });
    first.connection.lend(&mut buffers);
    page(&mut first, &mut encoder, 0);
    first.sent();
    let places = |end: &End| {
        let connection = &end.connection;
        (connection.out.as_ptr(), connection.streams.held())
    };
    let lent = places(&first);
    first.connection.give_back(&mut buffers);
    // Those of one that was lent nothing are given back as well, and the larger ones stay.
    let mut second = End::server();
    second.feed(&headers(END_STREAM, 1, GET)).unwrap();
    second.answer(1, true);
    second.close(1, code::NO_ERROR);
    second.connection.give_back(&mut buffers);
    let idle = held(&second.connection);
    second.connection.lend(&mut buffers);
    assert_eq!(places(&second), lent);
    second.feed(&headers(END_STREAM, 3, GET)).unwrap();
    second.answer(3, true);
    second.close(3, code::NO_ERROR);
    second.connection.give_back(&mut buffers);
    assert_eq!(held(&second.connection), idle);
    // Turns within turns, of which the inner one allocates.
    first.connection.lend(&mut buffers);
    second.connection.lend(&mut buffers);
    for (end, stream) in [(&mut first, 41), (&mut second, 5)] {
        let block = [GET, b"\x00\x81\x1f\x81\x1f"].concat();
        end.feed(&headers(END_STREAM, stream, &block)).unwrap();
        end.answer(stream, true);
        end.close(stream, code::NO_ERROR);
    }
    second.connection.give_back(&mut buffers);
    first.connection.give_back(&mut buffers);
    for end in [&mut first, &mut second] {
        let connection = &mut end.connection;
        assert_eq!(connection.out.capacity() + connection.streams.held(), 0);
        assert_eq!(connection.events.capacity(), 0);
        let mut strings = Default::default();
        connection.decoder.swap_buffers(&mut strings);
        assert_eq!(strings.map(|string: Vec<u8>| string.capacity()), [0, 0]);
    }
}

#[test]
fn unsent_bytes_and_open_streams_stay_when_buffers_are_given_back() {
    let mut buffers = TurnBuffers::default();
    let mut server = End::server();
    server.feed(&settings(&[(4, 1 << 20)])).unwrap();
    server.connection.lend(&mut buffers);
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    let body: Vec<u8> = (0..40_000_u32).map(|at| at as u8).collect();
    let (mut taken, mut got) = (0, Vec::new());
    while taken < body.len() {
        server.connection.lend(&mut buffers);
        taken += server.connection.data(key, &body[taken..], true);
        // The peer takes little.
        let unsent = server.connection.unsent();
        let gone = unsent.len().min(1_000);
        got.extend_from_slice(&unsent[..gone]);
        server.connection.note_sent(gone);
        let left = server.connection.unsent().to_vec();
        server.connection.give_back(&mut buffers);
        assert_eq!(server.connection.unsent(), left);
        assert_eq!(server.connection.get_mut(key), Some(&mut 1));
    }
    got.extend_from_slice(server.connection.unsent());
    let data: Vec<_> = frames_of(&got)
        .into_iter()
        .flat_map(|(kind, _, _, payload)| {
            assert_eq!(kind, DATA);
            payload
        })
        .collect();
    assert_eq!(data, body);
    // A few bytes do not keep a large buffer.
    server
        .connection
        .note_sent(server.connection.unsent().len() - 10);
    server.connection.give_back(&mut buffers);
    assert_eq!(
        (
            server.connection.unsent().len(),
            server.connection.out.capacity()
        ),
        (10, 10)
    );
}

/// A download of any length in bounded memory, while the peer always leaves something to send.
#[test]
fn a_peer_that_never_takes_all_costs_no_more_than_what_is_unsent() {
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    let update = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0x40, 0]);
    let of_stream = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0x40, 0]);
    for _ in 0..1_000 {
        while server.connection.data(key, &[b'x'; 16_384], false) > 0 {}
        let unsent = server.connection.unsent().len();
        server.connection.note_sent(unsent / 3);
        server.feed(&update).unwrap();
        server.feed(&of_stream).unwrap();
    }
    let capacity = server.connection.out.capacity();
    assert!(capacity <= 256 * 1024, "{capacity}");
}
