//! RFC 9113 §4, §6: frames that no connection may have.

use super::*;
use crate::h2::frames::{CONTINUATION, DATA, PRIORITY, PUSH_PROMISE};
use crate::hpack::HpackError;
use ConnectionError::*;

#[test]
fn malformed_frames_end_the_connection_with_their_error() {
    let priority_update = 0x10;
    for (kind, flags, stream, payload, error) in [
        // §6.1.
        (DATA, 0, 0, &b"x"[..], WrongStream),
        (DATA, 0, 2, b"x", WrongStream),
        (DATA, 0x8, 1, b"\x01", Padding),
        (DATA, 0x8, 1, b"\x02x", Padding),
        (DATA, 0x8, 1, b"", Padding),
        // §6.2.
        (HEADERS, 0x4, 0, GET, WrongStream),
        (HEADERS, 0x4 | 0x8, 3, b"\x02\x82", Padding),
        (HEADERS, 0x4 | 0x20, 3, b"\0\0\0\0", Padding),
        // §6.3.
        (PRIORITY, 0, 0, b"\0\0\0\0\0", WrongStream),
        (PRIORITY, 0, 3, b"\0\0\0\0", FrameLength),
        (PRIORITY, 0, 3, b"\0\0\0\x03\0", Priority),
        // §6.4.
        (RST_STREAM, 0, 0, b"\0\0\0\0", WrongStream),
        (RST_STREAM, 0, 1, b"\0\0\0", FrameLength),
        (RST_STREAM, 0, 99, b"\0\0\0\0", WrongStream),
        // §6.5.
        (SETTINGS, 0, 1, b"", WrongStream),
        (SETTINGS, 0, 0, b"12345", FrameLength),
        (SETTINGS, ACK, 0, b"123456", FrameLength),
        (SETTINGS, ACK, 0, b"", SettingsAck),
        (SETTINGS, 0, 0, b"\0\x02\0\0\0\x02", Setting),
        (SETTINGS, 0, 0, b"\0\x04\x80\0\0\0", WindowOverflow),
        (SETTINGS, 0, 0, b"\0\x05\0\0\x3f\xff", Setting),
        // §6.6, §8.4.
        (PUSH_PROMISE, 0x4, 1, b"\0\0\0\x02\x82", Push),
        // §6.7.
        (PING, 0, 1, b"12345678", WrongStream),
        (PING, 0, 0, b"1234567", FrameLength),
        // §6.8.
        (GOAWAY, 0, 1, b"\0\0\0\0\0\0\0\0", WrongStream),
        (GOAWAY, 0, 0, b"\0\0\0\0\0\0\0", FrameLength),
        // §6.9.
        (WINDOW_UPDATE, 0, 0, b"\0\0\0\0", ZeroUpdate),
        (WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff", WindowOverflow),
        (WINDOW_UPDATE, 0, 0, b"\0\0\0", FrameLength),
        (WINDOW_UPDATE, 0, 99, b"\0\0\0\x01", WrongStream),
        // §6.10.
        (CONTINUATION, 0x4, 1, GET, Continuation),
        // §4.3: an index of no table.
        (HEADERS, 0x4, 3, b"\xff\x00", Hpack(HpackError::Index)),
        (HEADERS, 0x4, 3, b"\x40", Hpack(HpackError::Cut)),
        // RFC 9218 §7.1.
        (priority_update, 0, 1, b"\0\0\0\x01u=1", WrongStream),
        (priority_update, 0, 0, b"\0\0\0", FrameLength),
        (priority_update, 0, 0, b"\0\0\0\0u=1", WrongStream),
    ] {
        let mut server = End::server();
        server.feed(&headers(0, 1, POST)).unwrap();
        let bytes = frame(kind, flags, stream, payload);
        assert_eq!(
            server.feed(&bytes),
            Err(error),
            "{kind} {flags} {stream} {}",
            payload.escape_ascii()
        );
        assert_eq!(server.sent(), [goaway_frame(1, error.code())]);
        // Nothing is said or heard any more.
        let key = server.key(1);
        server
            .connection
            .respond(key, &ResponseHead::of(200), false);
        server.connection.used(key, 1);
        server.close(1, code::CANCEL);
        assert_eq!(server.feed(&frame(PING, 0, 0, b"12345678")), Err(error));
        assert_eq!(server.sent(), []);
    }
}

/// §4.2.
#[test]
fn a_frame_above_max_frame_size_is_refused_by_its_header() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    server.feed(&frame(DATA, 0, 1, &[b'x'; 16_384])).unwrap();
    let header = &frame(DATA, 0, 1, &[b'x'; 16_385])[..9];
    assert_eq!(server.feed_some(header), Err(FrameTooLong));
    assert_eq!(FrameTooLong.code(), code::FRAME_SIZE_ERROR);
}

/// §3.4.
#[test]
fn a_connection_begins_with_the_preface_and_settings() {
    let server = || End::new(Role::Server, SETTINGS_OF_TESTS, FEW);
    assert_eq!(server().feed(b"GET / HTTP/1.1\r\n"), Err(Preface));
    assert_eq!(server().feed(b"PRI * HTTP/2.0\r\n\r\nXX"), Err(Preface));
    for first in [
        frame(PING, 0, 0, b"12345678"),
        frame(SETTINGS, ACK, 0, b""),
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
    ] {
        let mut one = server();
        one.feed(PREFACE).unwrap();
        assert_eq!(one.feed(&first), Err(FirstFrame));
        let mut client = End::new(Role::Client, SETTINGS_OF_TESTS, FEW);
        assert_eq!(client.feed(&first), Err(FirstFrame));
    }
}

/// §6.2, §6.10: nothing comes between the frames of a field section.
#[test]
fn frames_within_a_field_section_are_refused() {
    for within in [
        frame(DATA, 0, 1, b"x"),
        headers(0, 3, GET),
        frame(CONTINUATION, END_HEADERS, 3, b""),
        frame(PING, 0, 0, b"12345678"),
        frame(0x77, 0, 0, b""),
    ] {
        let mut server = End::server();
        server.feed(&frame(HEADERS, 0, 1, GET)).unwrap();
        assert_eq!(server.feed(&within), Err(Interrupted));
    }
}

/// §5.5.
#[test]
fn unknown_frames_and_flags_are_ignored() {
    let mut server = End::server();
    server.feed(&frame(0x77, 0xff, 9, b"whatever")).unwrap();
    server.feed(&frame(HEADERS, 0xd5, 1, GET)).unwrap();
    assert_eq!(server.take_seen(), [Seen::Request(1, "GET /".into(), true)]);
}

/// RFC 7540 §5.3.1, and RFC 9113 §4.3: the block is not decoded, so the connection ends as well.
#[test]
fn headers_that_depend_on_their_own_stream_end_the_connection() {
    let block = [b"\0\0\0\x01\x10", GET].concat();
    for mut end in [End::server(), End::client()] {
        if end.connection.role == Role::Client {
            end.ask(true);
        }
        let fed = end.feed(&frame(HEADERS, 0x4 | 0x20, 1, &block));
        assert_eq!(fed, Err(SelfDependency));
        let sent = [
            reset_frame(1, code::PROTOCOL_ERROR),
            goaway_frame(0, code::COMPRESSION_ERROR),
        ];
        assert_eq!((end.sent(), end.take_seen()), (sent.into(), vec![]));
    }
}

/// RFC 7540 §5.3.1, RFC 9113 §6.3.
#[test]
fn a_wrong_priority_resets_its_stream() {
    let mut server = End::server();
    server.feed(&headers(0, 3, POST)).unwrap();
    server
        .feed(&frame(PRIORITY, 0, 3, b"\0\0\0\x03\0"))
        .unwrap();
    assert_eq!(server.sent(), [reset_frame(3, code::PROTOCOL_ERROR)]);
    server.feed(&headers(0, 5, b"\x83\x86\x84\xbe")).unwrap();
    server.feed(&frame(PRIORITY, 0, 5, b"\0\0\0")).unwrap();
    assert_eq!(server.sent(), [reset_frame(5, code::FRAME_SIZE_ERROR)]);
}
