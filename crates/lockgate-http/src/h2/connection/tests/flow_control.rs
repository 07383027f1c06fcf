//! RFC 9113 §5.2, §6.9: windows of streams and connections, in both directions.

use super::*;
use crate::h2::frames::DATA;

const INITIAL_WINDOW_SIZE: u16 = 4;

fn update(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

fn update_frame(stream: u32, by: u32) -> Sent {
    (WINDOW_UPDATE, 0, stream, by.to_be_bytes().to_vec())
}

/// A client with this initial window of the server, and a request on stream 1.
fn asked(window: u32) -> (End, Key) {
    let mut client = End::client();
    client
        .feed(&settings(&[(INITIAL_WINDOW_SIZE, window)]))
        .unwrap();
    let key = client.ask(false);
    (client, key)
}

#[test]
fn data_stops_at_the_streams_window_and_goes_on_with_room() {
    let (mut client, key) = asked(5);
    assert_eq!(client.connection.data(key, b"0123456789", true), 5);
    assert_eq!(client.connection.data(key, b"56789", true), 0);
    client.feed(&update(1, 2)).unwrap();
    assert_eq!(client.take_seen(), [Seen::Room(1)]);
    assert_eq!(client.connection.data(key, b"56789", true), 2);
    client.feed(&update(1, 100)).unwrap();
    assert_eq!(client.connection.data(key, b"789", true), 3);
    // It has what it wanted.
    client.feed(&update(1, 100)).unwrap();
    assert_eq!(client.take_seen(), [Seen::Room(1)]);
    let sent: Vec<_> = client.sent();
    let expected: [(u8, &[u8]); 3] = [(0, b"01234"), (0, b"56"), (END_STREAM, b"789")];
    assert_eq!(
        sent,
        expected.map(|(flags, data)| (DATA, flags, 1, data.to_vec()))
    );
}

#[test]
fn data_stops_at_the_connections_window() {
    let (mut client, key) = asked(1 << 20);
    let all = vec![b'x'; 100_000];
    let mut sent = 0;
    while sent < 65_535 {
        // A write takes 64 KB, with the frame headers.
        let taken = client.connection.data(key, &all[sent..], true);
        assert!((1..=16_384).contains(&taken));
        client.sent();
        sent += taken;
    }
    assert_eq!((sent, client.connection.data_room()), (65_535, 0));
    assert_eq!(client.connection.data(key, &all[sent..], true), 0);
    client.feed(&update(0, 10)).unwrap();
    assert_eq!(client.connection.data_room(), 10);
    assert_eq!(client.connection.data(key, &all[sent..], true), 10);
}

/// §6.9.1: an empty frame needs no window.
#[test]
fn the_end_of_a_message_needs_no_window() {
    let (mut client, key) = asked(0);
    assert_eq!(client.connection.data(key, b"x", true), 0);
    assert_eq!(client.connection.data(key, b"", false), 0);
    assert_eq!(client.sent(), []);
    assert_eq!(client.connection.data(key, b"", true), 0);
    assert_eq!(client.sent(), [(DATA, END_STREAM, 1, vec![])]);
    assert_eq!(client.connection.data(key, b"x", true), 0, "it has ended");
}

#[test]
fn a_write_takes_no_more_than_64_kb_of_data() {
    let (mut client, key) = asked(1 << 20);
    client.feed(&update(0, 1 << 20)).unwrap();
    client.sent();
    let all = vec![b'x'; 200_000];
    let mut taken = 0;
    while client.connection.data_room() > 0 {
        taken += client.connection.data(key, &all[taken..], true);
    }
    let unsent = client.connection.unsent().len();
    assert!((64 * 1024..65 * 1024).contains(&unsent), "{unsent}");
    client.connection.note_sent(1000);
    assert_eq!(client.connection.data_room(), 1000 - (unsent - 64 * 1024));
}

/// §6.9.2.
#[test]
fn a_lower_initial_window_makes_windows_negative() {
    let (mut client, key) = asked(100);
    assert_eq!(client.connection.data(key, &[b'x'; 80], false), 80);
    client
        .feed(&settings(&[(INITIAL_WINDOW_SIZE, 30)]))
        .unwrap();
    assert_eq!(client.connection.data(key, b"x", false), 0);
    client.feed(&update(1, 50)).unwrap();
    assert_eq!(client.connection.data(key, b"x", false), 0, "it is 0");
    client
        .feed(&settings(&[(INITIAL_WINDOW_SIZE, 31)]))
        .unwrap();
    assert_eq!(client.take_seen(), [Seen::Room(1)]);
    assert_eq!(client.connection.data(key, b"xy", false), 1);
}

/// §6.9.1, §6.9.2: 2³¹ − 1 is the most.
#[test]
fn a_window_overflow_is_a_flow_control_error() {
    let (mut client, _) = asked(100);
    client.feed(&update(1, (1 << 31) - 101)).unwrap();
    client.sent();
    client.feed(&update(1, 1)).unwrap();
    let fault = Some(StreamFault::WindowOverflow);
    let code = code::FLOW_CONTROL_ERROR;
    assert_eq!(client.take_seen(), [Seen::Reset(1, code, fault, false)]);
    assert_eq!(client.sent(), [reset_frame(1, code)]);
    client.ask(false);
    client.feed(&update(3, (1 << 31) - 101)).unwrap();
    let error = client.feed(&settings(&[(INITIAL_WINDOW_SIZE, 101)]));
    assert_eq!(error, Err(ConnectionError::WindowOverflow));
    assert_eq!(ConnectionError::WindowOverflow.code(), code);
}

/// §6.9.
#[test]
fn a_window_update_of_zero_resets_its_stream() {
    let (mut client, _) = asked(100);
    client.sent();
    client.feed(&update(1, 0)).unwrap();
    assert_eq!(client.sent(), [reset_frame(1, code::PROTOCOL_ERROR)]);
}

/// §6.9.1: padding counts, and is given back without the user.
#[test]
fn windows_are_given_back_when_data_is_used() {
    let local = LocalSettings {
        window: 100,
        connection_window: 65_535,
        ..SETTINGS_OF_TESTS
    };
    let mut server = End::server_with(local);
    server.feed(&headers(0, 1, POST)).unwrap();
    let padded = [&[39][..], &[b'x'; 20], &[0; 39]].concat();
    server.feed(&frame(DATA, 0x8, 1, &padded)).unwrap();
    server.feed(&frame(DATA, 0, 1, &[b'x'; 39])).unwrap();
    assert_eq!(server.sent(), []);
    // 40 of padding have been given back, and not told: half of the window is 50.
    let key = server.key(1);
    server.connection.used(key, 9);
    assert_eq!(server.sent(), []);
    server.connection.used(key, 1);
    assert_eq!(server.sent(), [update_frame(1, 50)]);
    // No more than there was.
    server.connection.used(key, 1_000);
    assert_eq!(server.connection.streams.get(key).unwrap().unused, 0);
    server.feed(&frame(DATA, 0, 1, &[b'x'; 51])).unwrap();
}

#[test]
fn data_beyond_the_streams_window_resets_the_stream() {
    let local = LocalSettings {
        window: 10,
        ..SETTINGS_OF_TESTS
    };
    let mut server = End::server_with(local);
    server.feed(&headers(0, 1, POST)).unwrap();
    server.feed(&frame(DATA, 0, 1, &[b'x'; 10])).unwrap();
    server.feed(&frame(DATA, 0, 1, b"x")).unwrap();
    assert_eq!(server.sent(), [reset_frame(1, code::FLOW_CONTROL_ERROR)]);
    // Nobody uses it: it is given back when the stream is closed.
    let before = server.connection.receive_window;
    server.close(1, code::CANCEL);
    assert_ne!(server.connection.receive_window, before);
}

#[test]
fn data_beyond_the_connections_window_ends_the_connection() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    server.feed(&headers(0, 3, POST)).unwrap();
    for _ in 0..3 {
        server.feed(&frame(DATA, 0, 1, &[b'x'; 16_384])).unwrap();
    }
    server.feed(&frame(DATA, 0, 3, &[b'x'; 16_383])).unwrap();
    assert_eq!(
        server.feed(&frame(DATA, 0, 3, b"x")),
        Err(ConnectionError::FlowControl)
    );
}

/// §5.2.2, §6.9.1: otherwise the window of the others would shrink for ever.
#[test]
fn data_of_closed_streams_is_given_back_to_the_connection() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    server.feed(&frame(DATA, 0, 1, &[b'x'; 16_000])).unwrap();
    server.close(1, code::CANCEL);
    server.sent();
    for round in 0..20 {
        server.feed(&frame(DATA, 0, 1, &[b'x'; 16_384])).unwrap();
        assert_eq!(server.sent().len(), usize::from(round % 2 == 1), "{round}");
    }
    // A stream that is closed within a frame gives back the rest of it.
    server.feed(&headers(0, 3, POST)).unwrap();
    let data = frame(DATA, 0, 3, &[b'x'; 16_384]);
    server.feed(&data[..5_000]).unwrap();
    server.close(3, code::CANCEL);
    let left = server.connection.receive_window;
    server.feed(&data[5_000..]).unwrap();
    assert_eq!(server.connection.receive_window, left);
    let all = LocalSettings::within_limits(SETTINGS_OF_TESTS).connection_window;
    let mut window = left;
    window.give(all, all);
    assert!(window.take(65_535), "nothing is lost");
}

/// §6.5.3: until its acknowledgement, the client may use the window of the protocol.
#[test]
fn a_smaller_window_holds_from_its_acknowledgement_on() {
    let local = LocalSettings {
        window: 10,
        ..SETTINGS_OF_TESTS
    };
    let mut server = End::new(Role::Server, local, FEW);
    server.feed(PREFACE).unwrap();
    server.feed(&settings(&[])).unwrap();
    server.feed(&headers(0, 1, POST)).unwrap();
    server.feed(&frame(DATA, 0, 1, &[b'x'; 1_000])).unwrap();
    server.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    server.sent();
    // Its window is negative now, and that of a new stream is not.
    server.feed(&headers(0, 3, POST)).unwrap();
    server.feed(&frame(DATA, 0, 3, &[b'x'; 10])).unwrap();
    assert_eq!(server.sent(), []);
    server.feed(&frame(DATA, 0, 1, b"x")).unwrap();
    assert_eq!(server.sent(), [reset_frame(1, code::FLOW_CONTROL_ERROR)]);
}

/// A client that reads no data has what its windows allow, and no more (slow reading).
#[test]
fn a_zero_window_client_holds_no_data_here() {
    let mut server = End::server();
    server.feed(&settings(&[(INITIAL_WINDOW_SIZE, 0)])).unwrap();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    assert_eq!(server.connection.data(key, &[b'x'; 1 << 20], true), 0);
    assert_eq!(server.sent(), []);
}
