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

/// §8.7: a response that has begun shows the contrary.
#[test]
fn a_goaway_below_a_response_does_not_call_its_request_unprocessed() {
    let mut client = End::client();
    client.ask(true);
    client.feed(&headers(0, 1, OK)).unwrap();
    client.feed(&goaway(0, code::NO_ERROR)).unwrap();
    let reset = Seen::Reset(1, 0, None, false);
    assert_eq!(client.take_seen().last(), Some(&reset));
}

/// §6.8: what it had said not to have processed may run elsewhere already.
#[test]
fn a_goaway_of_a_later_stream_ends_the_connection() {
    let mut client = End::client();
    for _ in 0..3 {
        client.ask(true);
    }
    client.feed(&goaway(3, code::NO_ERROR)).unwrap();
    client.feed(&goaway(3, code::NO_ERROR)).unwrap();
    let later = client.feed(&goaway(5, code::NO_ERROR));
    assert_eq!(later, Err(ConnectionError::LaterGoaway));
    assert_eq!(client.sent(), [goaway_frame(0, code::PROTOCOL_ERROR)]);
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

#[test]
fn a_drain_is_done_when_both_steps_are_and_no_stream_is_left() {
    let mut server = End::server();
    let states = |end: &End| (end.connection.is_draining(), end.connection.is_drained());
    assert_eq!(states(&server), (false, false));
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.connection.drain();
    let sent = server.sent();
    assert_eq!(states(&server), (true, false));
    server.feed(&frame(PING, ACK, 0, &sent[1].3)).unwrap();
    assert_eq!(states(&server), (true, false), "a stream is left");
    server.answer(1, true);
    server.close(1, code::NO_ERROR);
    assert_eq!(states(&server), (true, true));
    // A request that comes all the same is ignored (§6.8).
    server.feed(&headers(END_STREAM, 3, GET)).unwrap();
    assert_eq!(states(&server), (true, true));
}

/// §6.8: requests above the last stream may be sent again. Nothing follows the GOAWAY.
#[test]
fn an_aborted_connection_tells_its_last_stream_and_nothing_else() {
    for (code, drains) in [
        (code::NO_ERROR, false),
        (code::ENHANCE_YOUR_CALM, false),
        (code::INTERNAL_ERROR, true),
    ] {
        let mut server = End::server();
        server.feed(&headers(0, 1, POST)).unwrap();
        server.feed(&frame(DATA, 0, 1, &[b'x'; 16_384])).unwrap();
        if drains {
            server.connection.drain();
        }
        server.take_seen();
        server.sent();
        server.connection.abort(code);
        server.connection.abort(code::PROTOCOL_ERROR);
        assert_eq!(server.sent(), [goaway_frame(1, code)]);
        assert!(server.connection.is_over());
        assert_eq!(server.connection.error(), None);
        // What comes is dropped, whatever it is, and in any part.
        for bytes in [
            &headers(END_STREAM, 3, GET)[..],
            &frame(DATA, 0, 1, b"x"),
            &frame(PING, 0, 0, b"12345678"),
            &frame(PING, 0, 1, b"wrong"),
            &[0xff; 5],
        ] {
            assert_eq!(server.feed_some(bytes), Ok(bytes.len()));
        }
        let key = server.key(1);
        let connection = &mut server.connection;
        connection.used(key, 16_384);
        connection.respond(key, &ResponseHead::of(200), false);
        assert_eq!(connection.data(key, b"x", true), 0);
        connection.drain();
        assert!(!connection.ping([0; 8]) && !connection.grow_windows(1 << 20, 1 << 20));
        assert!(!connection.probe_settings());
        server.close(1, code::PROTOCOL_ERROR);
        assert_eq!((server.take_seen(), server.sent()), (vec![], vec![]));
        assert_eq!(server.connection.active(), 0);
    }
}

#[test]
fn a_client_that_leaves_names_no_stream() {
    let mut client = End::client();
    client.ask(true);
    client.connection.abort(code::NO_ERROR);
    assert_eq!(client.sent(), [goaway_frame(0, code::NO_ERROR)]);
    assert!(!client.connection.takes_streams());
    assert_eq!(client.connection.open(Method::Get, 3, true, |_| {}), None);
    client.close(1, code::CANCEL);
    assert_eq!(client.sent(), []);
}

#[test]
fn a_violation_is_known_after_the_end() {
    let mut server = End::server();
    let error = server.feed(&frame(PING, 0, 1, b"12345678"));
    assert_eq!(error, Err(ConnectionError::WrongStream));
    let known = server.connection.error();
    assert_eq!(known, Some(ConnectionError::WrongStream));
    assert!(server.connection.is_over());
    server.sent();
    server.connection.abort(code::NO_ERROR);
    assert_eq!(server.sent(), []);
    assert_eq!(server.feed(b"x"), Err(ConnectionError::WrongStream));
}
