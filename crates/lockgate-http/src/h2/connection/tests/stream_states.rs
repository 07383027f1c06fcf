//! RFC 9113 §5.1: each state of a stream, and each frame that comes in it.

use super::*;
use crate::h2::frames::{CONTINUATION, DATA, PRIORITY, PUSH_PROMISE};
use Outcome::{Connection as Gone, Fine, Stream};

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It has its meaning, or is ignored.
    Fine,
    /// RST_STREAM with this code.
    Stream(u32),
    /// GOAWAY with this code.
    Connection(u32),
}

/// A server with stream 1 in a state.
#[derive(Debug, Clone, Copy)]
enum State {
    Idle,
    Open,
    HalfClosedRemote,
    /// The response has ended, and the request has not.
    HalfClosedLocal,
    /// Both have ended.
    Closed,
    ResetByUs,
    ResetByPeer,
}

impl State {
    fn server(self) -> End {
        let mut server = End::server();
        match self {
            Self::Idle => return server,
            Self::HalfClosedRemote | Self::Closed => {
                server.feed(&headers(END_STREAM, 1, GET)).unwrap();
            }
            _ => server.feed(&headers(0, 1, POST)).unwrap(),
        }
        match self {
            Self::HalfClosedLocal => server.answer(1, true),
            Self::Closed => {
                server.answer(1, true);
                server.close(1, code::NO_ERROR);
            }
            Self::ResetByUs => server.close(1, code::CANCEL),
            Self::ResetByPeer => {
                server.feed(&frame(RST_STREAM, 0, 1, &[0; 4])).unwrap();
                server.close(1, code::CANCEL);
            }
            _ => {}
        }
        server.sent();
        server
    }
}

fn outcome(state: State, frame: &[u8]) -> Outcome {
    let mut server = state.server();
    let fed = server.feed(frame);
    let sent = server.sent();
    match (fed, &sent[..]) {
        (Ok(()), []) => Fine,
        (Ok(()), [(RST_STREAM, 0, 1, code)]) => {
            Stream(u32::from_be_bytes(code[..].try_into().unwrap()))
        }
        (Err(error), [.., (GOAWAY, 0, 0, payload)]) => {
            assert_eq!(payload[4..], error.code().to_be_bytes());
            Gone(error.code())
        }
        other => panic!("{state:?}: {other:?}"),
    }
}

#[test]
fn each_frame_in_each_stream_state_has_its_outcome() {
    use State::*;
    let (protocol, closed) = (code::PROTOCOL_ERROR, code::STREAM_CLOSED);
    let data = frame(DATA, END_STREAM, 1, b"x");
    let request = headers(END_STREAM, 1, GET);
    let trailers = headers(END_STREAM, 1, b"\x00\x01a\x01b");
    let update = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
    let reset = frame(RST_STREAM, 0, 1, &[0; 4]);
    let priority = frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]);
    let continuation = frame(CONTINUATION, END_HEADERS, 1, b"");
    let push = frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02");
    for (name, frame, outcomes) in [
        // Idle, open, half-closed (remote), half-closed (local), closed, reset by us, by the peer.
        (
            "DATA",
            data,
            [
                Gone(protocol),
                Fine,
                Stream(closed),
                Fine,
                Stream(closed),
                Fine,
                Stream(closed),
            ],
        ),
        (
            "HEADERS",
            request,
            [
                Fine,
                Stream(protocol),
                Stream(closed),
                // It ends both directions: there is nothing to reset.
                Fine,
                Gone(closed),
                Fine,
                Gone(closed),
            ],
        ),
        (
            "trailers",
            trailers,
            [
                Fine,
                Fine,
                Stream(closed),
                Fine,
                Gone(closed),
                Fine,
                Gone(closed),
            ],
        ),
        (
            "WINDOW_UPDATE",
            update,
            [Gone(protocol), Fine, Fine, Fine, Fine, Fine, Fine],
        ),
        (
            "RST_STREAM",
            reset,
            [Gone(protocol), Fine, Fine, Fine, Fine, Fine, Fine],
        ),
        ("PRIORITY", priority, [Fine; 7]),
        ("CONTINUATION", continuation, [Gone(protocol); 7]),
        ("PUSH_PROMISE", push, [Gone(protocol); 7]),
    ] {
        let states = [
            Idle,
            Open,
            HalfClosedRemote,
            HalfClosedLocal,
            Closed,
            ResetByUs,
            ResetByPeer,
        ];
        for (state, expected) in states.into_iter().zip(outcomes) {
            assert_eq!(outcome(state, &frame), expected, "{name} {state:?}");
        }
    }
}

/// §5.1.1.
#[test]
fn stream_ids_of_a_client_are_odd_and_go_up() {
    let mut server = End::server();
    server.feed(&headers(END_STREAM, 5, GET)).unwrap();
    assert_eq!(
        server.feed(&headers(END_STREAM, 3, GET)),
        Err(ConnectionError::WrongStream)
    );
    let mut server = End::server();
    assert_eq!(
        server.feed(&headers(END_STREAM, 2, GET)),
        Err(ConnectionError::WrongStream)
    );
}

/// A server answers only what it was asked for (§5.1.1), and may do so late.
#[test]
fn a_client_ignores_late_frames_and_refuses_strange_streams() {
    let mut client = End::client();
    client.ask(true);
    client.close(1, code::CANCEL);
    assert_eq!(client.sent(), [reset_frame(1, code::CANCEL)]);
    client.feed(&headers(0, 1, OK)).unwrap();
    client.feed(&frame(DATA, END_STREAM, 1, b"late")).unwrap();
    assert_eq!(client.sent(), []);
    for stream in [2, 3] {
        let mut client = End::client();
        client.ask(true);
        assert_eq!(
            client.feed(&headers(END_STREAM, stream, OK)),
            Err(ConnectionError::WrongStream)
        );
    }
}

/// §5.1.2, §8.7: the block of a refused stream is decoded, or the tables would differ.
#[test]
fn streams_beyond_the_limit_are_refused_and_decoded() {
    let mut server = End::server();
    for stream in [1, 3, 5, 7] {
        server.feed(&headers(0, stream, POST)).unwrap();
    }
    // A field that goes into the table.
    let with_field = [GET, b"\x40\x01x\x01y"].concat();
    server.feed(&headers(0, 9, &with_field)).unwrap();
    assert_eq!(server.sent(), [reset_frame(9, code::REFUSED_STREAM)]);
    server.feed(&frame(DATA, END_STREAM, 9, b"late")).unwrap();
    assert_eq!((server.sent(), server.connection.active()), (vec![], 4));
    server.close(1, code::CANCEL);
    // The table has `x: y`, and before it `:authority a`, which came five times.
    server
        .feed(&headers(END_STREAM, 11, b"\x82\x86\x84\xbf\xbe"))
        .unwrap();
    assert_eq!(
        server.take_seen().last(),
        Some(&Seen::Request(11, "GET /".into(), true))
    );
}

/// A slot that is used again is not that of the earlier stream.
#[test]
fn a_key_of_a_closed_stream_does_nothing() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    let old = server.key(1);
    server.close(1, code::CANCEL);
    server.feed(&headers(0, 3, POST)).unwrap();
    server.sent();
    let connection = &mut server.connection;
    connection.respond(old, &ResponseHead::of(200), true);
    connection.used(old, 100);
    assert_eq!(connection.data(old, b"x", true), 0);
    assert_eq!(connection.close(old, code::CANCEL), None);
    assert_eq!((server.sent(), server.connection.active()), (vec![], 1));
}
