//! RFC 9113 §6.8, §8.7: GOAWAY in both directions.

use super::*;
use crate::h2::frames::DATA;

const MAX_ID: u32 = (1 << 31) - 1;

fn goaway(last: u32, code: u32) -> Vec<u8> {
    let (kind, flags, stream, payload) = goaway_frame(last, code);
    frame(kind, flags, stream, &payload)
}

#[test]
fn requests_above_goaway_are_unprocessed_and_others_go_on() {
    let mut client = End::client();
    for _ in 0..3 {
        client.ask(true);
    }
    client.feed(&goaway(1, code::NO_ERROR)).unwrap();
    let seen = client.take_seen();
    assert_eq!(seen[0], Seen::Goaway(code::NO_ERROR));
    for stream in [3, 5] {
        assert!(seen.contains(&Seen::Reset(stream, 0, None, true)));
        client.close(stream, code::CANCEL);
    }
    assert!(!client.connection.takes_streams());
    assert_eq!(client.connection.open(Method::Get, 7, true, |_| {}), None);
    client.feed(&headers(0, 1, OK)).unwrap();
    client.feed(&frame(DATA, END_STREAM, 1, b"x")).unwrap();
    let body = Seen::Data(1, b"x".to_vec(), true);
    assert_eq!(client.take_seen(), [Seen::Response(1, 200, false), body]);
    client.close(1, code::CANCEL);
    assert_eq!((client.sent(), client.connection.active()), (vec![], 0));
}

/// The last one may be lowered: first "no more", then what was processed.
#[test]
fn a_second_goaway_may_name_an_earlier_stream() {
    let mut client = End::client();
    client.ask(true);
    client.feed(&goaway(MAX_ID, code::NO_ERROR)).unwrap();
    assert_eq!(client.take_seen(), [Seen::Goaway(0)]);
    client.feed(&goaway(0, code::NO_ERROR)).unwrap();
    let reset = Seen::Reset(1, 0, None, true);
    assert_eq!(client.take_seen(), [Seen::Goaway(0), reset]);
}

/// §8.7.
#[test]
fn a_refused_stream_is_unprocessed_before_its_response() {
    let refused = code::REFUSED_STREAM;
    for (frames, unprocessed) in [(vec![], true), (headers(0, 1, OK), false)] {
        let mut client = End::client();
        client.ask(true);
        client.feed(&frames).unwrap();
        client
            .feed(&frame(RST_STREAM, 0, 1, &refused.to_be_bytes()))
            .unwrap();
        let reset = Seen::Reset(1, refused, None, unprocessed);
        assert_eq!(client.take_seen().last(), Some(&reset));
        client.close(1, code::CANCEL);
        assert_eq!(client.sent(), []);
    }
}

/// §6.8: streams that were on their way are served, and later ones ignored and decoded.
#[test]
fn a_drain_takes_two_steps_with_a_round_trip_between() {
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.connection.drain();
    server.connection.drain();
    let sent = server.sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[0], goaway_frame(MAX_ID, code::NO_ERROR));
    let (PING, 0, 0, data) = &sent[1] else {
        panic!("{sent:?}");
    };
    // Sent before the client knew.
    server.feed(&headers(END_STREAM, 3, GET)).unwrap();
    // Another PING is none of it.
    server.feed(&frame(PING, ACK, 0, b"another.")).unwrap();
    assert_eq!(server.sent(), []);
    server.feed(&frame(PING, ACK, 0, data)).unwrap();
    assert_eq!(server.sent(), [goaway_frame(3, code::NO_ERROR)]);
    server.take_seen();
    let with_field = [GET, b"\x40\x01x\x01y"].concat();
    server.feed(&headers(0, 5, &with_field)).unwrap();
    server.feed(&frame(DATA, END_STREAM, 5, b"x")).unwrap();
    assert_eq!((server.take_seen(), server.sent()), (vec![], vec![]));
    // The others go on, with the table of all blocks.
    for stream in [1, 3] {
        server.answer(stream, true);
        server.close(stream, code::NO_ERROR);
    }
    assert_eq!(server.connection.active(), 0);
    let decoder = &mut server.connection.decoder;
    let mut fields = Vec::new();
    decoder
        .decode(b"\xbe", 1_000, |name, value| {
            fields.push([name, b"=", value].concat())
        })
        .unwrap();
    assert_eq!(fields, [b"x=y"]);
}

#[test]
fn an_error_names_the_last_stream_that_was_accepted() {
    let mut server = End::server();
    for stream in [1, 3, 5, 7, 9] {
        server.feed(&headers(END_STREAM, stream, GET)).unwrap();
    }
    server.sent();
    // The fifth was refused.
    server.feed(&frame(PING, 0, 1, b"12345678")).unwrap_err();
    assert_eq!(server.sent(), [goaway_frame(7, code::PROTOCOL_ERROR)]);
}
