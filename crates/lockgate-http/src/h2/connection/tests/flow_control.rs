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
    assert_eq!(client.take_seen(), [Seen::WindowOpened(1)]);
    assert_eq!(client.connection.data(key, b"56789", true), 2);
    client.feed(&update(1, 100)).unwrap();
    assert_eq!(client.connection.data(key, b"789", true), 3);
    // It has what it wanted.
    client.feed(&update(1, 100)).unwrap();
    assert_eq!(client.take_seen(), [Seen::WindowOpened(1)]);
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
    assert_eq!(client.take_seen(), [Seen::WindowOpened(1)]);
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

/// §6.9.2: windows are those of streams that are open or half-closed (remote), and §5.1: what comes
/// behind our end is ignored. An upload goes on, whatever the client says of the answer's window.
#[test]
fn behind_our_end_a_stream_has_no_window_for_data() {
    const MOST: u32 = (1 << 31) - 1;
    let most = settings(&[(INITIAL_WINDOW_SIZE, MOST)]);
    for (said, is_answered, fault) in [
        (&[update(1, 1), most.clone()][..], true, None),
        (&[update(1, MOST), update(1, MOST)], true, None),
        (
            &[update(1, 1), most],
            false,
            Some((GOAWAY, code::FLOW_CONTROL_ERROR)),
        ),
        (
            &[update(1, MOST), update(1, MOST)],
            false,
            Some((RST_STREAM, code::FLOW_CONTROL_ERROR)),
        ),
        (
            &[update(1, 0)],
            true,
            Some((RST_STREAM, code::PROTOCOL_ERROR)),
        ),
    ] {
        let mut server = End::server();
        server.feed(&headers(0, 1, POST)).unwrap();
        server
            .connection
            .respond(server.key(1), &ResponseHead::of(200), is_answered);
        server.sent();
        // An error is in what is sent.
        let _ = server.feed(&said.concat());
        let sent = server.sent();
        let last = sent.iter().rfind(|(kind, ..)| *kind != SETTINGS);
        let last = last.map(|(kind, _, _, payload)| (*kind, payload[payload.len() - 4..].to_vec()));
        let fault = fault.map(|(kind, code)| (kind, code.to_be_bytes().to_vec()));
        assert_eq!(last, fault, "{said:?} {is_answered}");
        if fault.is_none() {
            server.take_seen();
            server.feed(&frame(DATA, END_STREAM, 1, b"x")).unwrap();
            assert_eq!(server.take_seen(), [Seen::Data(1, b"x".to_vec(), true)]);
        }
    }
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
    // It is not used: it is given back when the stream is closed.
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

/// A server with a smaller window, which the client has acknowledged behind 1,000 bytes on stream 1: the
/// window of that is negative (§6.9.2).
fn server_with_negative_window() -> End {
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
    server.take_seen();
    server
}

/// §6.5.3: until its acknowledgement, the client may use the window of the protocol.
#[test]
fn a_smaller_window_holds_from_its_acknowledgement_on() {
    let mut server = server_with_negative_window();
    // That of a new stream is not.
    server.feed(&headers(0, 3, POST)).unwrap();
    server.feed(&frame(DATA, 0, 3, &[b'x'; 10])).unwrap();
    assert_eq!(server.sent(), []);
    server.feed(&frame(DATA, 0, 1, b"x")).unwrap();
    assert_eq!(server.sent(), [reset_frame(1, code::FLOW_CONTROL_ERROR)]);
}

/// §6.9.1, §6.9.2: an empty frame needs no window, also where the client's acknowledgement has made it
/// negative. Padding counts.
#[test]
fn the_end_of_a_message_is_taken_whatever_its_window() {
    let closed = vec![reset_frame(1, code::FLOW_CONTROL_ERROR)];
    for (payload, flags, expected) in [
        (&b""[..], END_STREAM, vec![]),
        (b"", 0, vec![]),
        (b"x", END_STREAM, closed.clone()),
        (b"\0", END_STREAM | 0x8, closed),
    ] {
        let mut server = server_with_negative_window();
        server.feed(&frame(DATA, flags, 1, payload)).unwrap();
        assert_eq!(server.sent(), expected, "{payload:?} {flags}");
        let end = Seen::Data(1, vec![], true);
        let is_ended = expected.is_empty() && flags == END_STREAM;
        assert_eq!(server.take_seen().contains(&end), is_ended);
    }
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

/// A client behind its preface whose ACK of our SETTINGS is still to come.
fn unsettled(local: LocalSettings) -> End {
    let mut server = End::new(Role::Server, local, FEW);
    server.feed(PREFACE).unwrap();
    server.feed(&settings(&[])).unwrap();
    server.sent();
    server
}

/// §6.9.2: those of open and of later streams; §6.9.3: the connection's only by WINDOW_UPDATE.
#[test]
fn windows_grow_for_open_and_later_streams_and_the_connection() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    for _ in 0..3 {
        server.feed(&frame(DATA, 0, 1, &[b'x'; 10_000])).unwrap();
    }
    let key = server.key(1);
    server.connection.used(key, 20_000);
    assert_eq!(server.sent(), []);
    assert!(server.connection.grow_windows(100_000, 200_000));
    let grown = settings(&[(INITIAL_WINDOW_SIZE, 100_000)]);
    // With the 20,000 bytes that it has not been told of.
    let more = update_frame(0, 200_000 - 65_535 + 20_000);
    assert_eq!(server.sent(), [frames_of(&grown)[0].clone(), more]);
    let local = server.connection.local_settings();
    assert_eq!((local.window, local.connection_window), (100_000, 200_000));
    // They hold at once: the acknowledgement may be behind data. 70,000 are left, and 20,000 used.
    for length in [16_000, 16_000, 16_000, 16_000, 6_000] {
        server
            .feed(&frame(DATA, 0, 1, &vec![b'x'; length]))
            .unwrap();
    }
    assert_eq!(server.sent(), []);
    server.feed(&headers(0, 3, POST)).unwrap();
    for length in [16_384, 16_384, 16_384, 16_384, 16_384, 16_384, 1_696] {
        server
            .feed(&frame(DATA, 0, 3, &vec![b'x'; length]))
            .unwrap();
    }
    server.feed(&frame(DATA, 0, 1, b"x")).unwrap();
    server.feed(&frame(DATA, 0, 3, b"x")).unwrap();
    let code = code::FLOW_CONTROL_ERROR;
    assert_eq!(server.sent(), [reset_frame(1, code), reset_frame(3, code)]);
}

/// Half of the window that holds now is given back at once.
#[test]
fn grown_windows_are_given_back_by_their_halves() {
    let mut server = End::server();
    server.feed(&headers(0, 1, POST)).unwrap();
    let key = server.key(1);
    assert!(server.connection.grow_windows(80_000, 120_000));
    server.sent();
    for (used, told) in [
        (39_999, vec![]),
        (1, vec![update_frame(1, 40_000)]),
        (19_999, vec![]),
        (1, vec![update_frame(0, 60_000)]),
        (20_000, vec![update_frame(1, 40_000)]),
    ] {
        for length in [used / 3, used / 3, used - 2 * (used / 3)] {
            server
                .feed(&frame(DATA, 0, 1, &vec![b'x'; length]))
                .unwrap();
        }
        server.connection.used(key, used);
        assert_eq!(server.sent(), told, "{used}");
    }
}

/// §6.5.3, §6.9.1: not before an acknowledgement, never smaller, at most 2³¹ − 1.
#[test]
fn windows_do_not_grow_without_need() {
    const MAX: u32 = (1 << 31) - 1;
    let mut server = unsettled(SETTINGS_OF_TESTS);
    assert!(!server.connection.grow_windows(100_000, 100_000));
    assert!(!server.connection.probe_settings());
    server.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    assert!(!server.connection.grow_windows(65_535, 10));
    assert_eq!(server.sent(), []);
    // That of the connection alone needs no SETTINGS.
    assert!(server.connection.grow_windows(10, 65_536));
    assert_eq!(server.sent(), [update_frame(0, 1)]);
    assert!(server.connection.is_settled());
    assert!(server.connection.grow_windows(65_536, 10));
    assert!(!server.connection.is_settled());
    assert!(!server.connection.grow_windows(70_000, 70_000));
    server.sent();
    server.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    assert!(server.connection.grow_windows(u32::MAX, u32::MAX));
    let grown = settings(&[(INITIAL_WINDOW_SIZE, MAX)]);
    let expected = [frames_of(&grown)[0].clone(), update_frame(0, MAX - 65_536)];
    assert_eq!(server.sent(), expected);
    server.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    assert!(!server.connection.grow_windows(u32::MAX, u32::MAX));
    // An acknowledgement of nothing.
    assert_eq!(
        server.feed(&frame(SETTINGS, ACK, 0, b"")),
        Err(ConnectionError::SettingsAck)
    );
}

/// A window below that of the protocol, which was lowered by its acknowledgement, grows again.
#[test]
fn a_small_window_grows_after_its_acknowledgement() {
    let mut server = unsettled(LocalSettings {
        window: 10,
        ..SETTINGS_OF_TESTS
    });
    server.feed(&headers(0, 1, POST)).unwrap();
    server.feed(&frame(DATA, 0, 1, &[b'x'; 30])).unwrap();
    server.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    // It is −20 now.
    assert!(server.connection.grow_windows(40, 0));
    server.feed(&frame(DATA, 0, 1, &[b'x'; 10])).unwrap();
    server.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    server.sent();
    server.feed(&frame(DATA, 0, 1, b"x")).unwrap();
    assert_eq!(server.sent(), [reset_frame(1, code::FLOW_CONTROL_ERROR)]);
}

/// §6.5.3: its acknowledgement shows that the peer has read all before.
#[test]
fn settings_that_change_nothing_are_acknowledged() {
    let mut client = End::client();
    assert!(client.connection.probe_settings());
    assert_eq!(client.sent(), [(SETTINGS, 0, 0, vec![])]);
    assert!(!client.connection.is_settled() && !client.connection.probe_settings());
    client.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    assert!(client.connection.is_settled() && client.connection.probe_settings());
}

/// §6.9.2: what a stream's window leaves; a negative one leaves no less than none.
#[test]
fn a_streams_window_is_seen() {
    let mut server = End::server();
    server
        .feed(&settings(&[(INITIAL_WINDOW_SIZE, 100)]))
        .unwrap();
    server.feed(&headers(END_STREAM, 1, GET)).unwrap();
    server.answer(1, false);
    let key = server.key(1);
    let left = |server: &End| server.connection.stream_window(key);
    assert_eq!(left(&server), 100);
    assert_eq!(server.connection.data(key, &[b'x'; 70], false), 70);
    assert_eq!(left(&server), 30);
    assert_eq!(server.connection.data(key, &[b'x'; 70], false), 30);
    assert_eq!(left(&server), 0);
    server.feed(&update(1, 15)).unwrap();
    assert_eq!(left(&server), 15);
    server.feed(&settings(&[(INITIAL_WINDOW_SIZE, 0)])).unwrap();
    assert_eq!(left(&server), 0);
    server.close(1, code::CANCEL);
    assert_eq!(left(&server), 0);
}

/// §6.9: the same of the connection's window.
#[test]
fn the_connections_window_is_seen() {
    let (mut client, key) = asked(1 << 20);
    let mut left = 65_535;
    while left > 0 {
        assert_eq!(client.connection.connection_window(), left);
        client.sent();
        left -= client.connection.data(key, &vec![b'x'; left], false);
    }
    assert_eq!(client.connection.connection_window(), 0);
    assert_eq!(client.connection.data(key, b"0123456789", false), 0);
    client.feed(&update(0, 4)).unwrap();
    assert_eq!(client.connection.connection_window(), 4);
    assert_eq!(client.connection.data(key, b"0123456789", false), 4);
    client.feed(&update(0, 6)).unwrap();
    assert_eq!(client.connection.data(key, b"456789", true), 6);
}

/// What the connection's window allows when all that is not used is given back.
fn whole_window(end: &End) -> usize {
    let mut window = end.connection.receive_window;
    let mut size = 0;
    // Bytes that were given back and not told are not left, but nor are they lost.
    window.give(1 << 20, 0);
    while window.take(1) {
        size += 1;
    }
    size - (1 << 20)
}

/// §5.2.2: data that is not taken fills its own stream's window, and does not stop the others.
#[test]
fn kept_data_stops_its_stream_and_no_other() {
    let mut server = End::server_with(LocalSettings {
        window: 20_000,
        ..SETTINGS_OF_TESTS
    });
    for stream in [1, 3] {
        server.feed(&headers(0, stream, POST)).unwrap();
        for _ in 0..2 {
            server
                .feed(&frame(DATA, 0, stream, &[b'x'; 10_000]))
                .unwrap();
            let key = server.key(stream);
            server.connection.release_connection_window(key, 10_000);
        }
        // No more than there is.
        let key = server.key(stream);
        server.connection.release_connection_window(key, 10_000);
    }
    assert_eq!(server.connection.kept_bytes(), 40_000);
    assert_eq!(server.sent(), [update_frame(0, 40_000)]);
    assert_eq!(whole_window(&server), 65_535);
    // Used, it opens the stream's window, and not the connection's once more.
    let key = server.key(1);
    server.connection.used(key, 20_000);
    assert_eq!(server.sent(), [update_frame(1, 20_000)]);
    assert_eq!(server.connection.kept_bytes(), 20_000);
    assert_eq!(whole_window(&server), 65_535);
    server.feed(&frame(DATA, 0, 3, b"x")).unwrap();
    assert_eq!(server.sent(), [reset_frame(3, code::FLOW_CONTROL_ERROR)]);
    server.close(3, code::CANCEL);
    assert_eq!(server.connection.kept_bytes(), 0);
    // The byte that was too much is given back as well.
    assert_eq!(whole_window(&server), 65_535);
}

/// Of data that is kept in part, that part is used first.
#[test]
fn the_connections_window_is_given_back_once() {
    for (kept, used) in [
        (0, 0),
        (4_000, 0),
        (4_000, 1_000),
        (4_000, 6_000),
        (10_000, 10_000),
        (0, 10_000),
    ] {
        let mut server = End::server();
        server.feed(&headers(0, 1, POST)).unwrap();
        server.feed(&frame(DATA, 0, 1, &[b'x'; 10_000])).unwrap();
        let key = server.key(1);
        server.connection.release_connection_window(key, kept);
        server.connection.used(key, used);
        let left = kept.saturating_sub(used);
        assert_eq!(server.connection.kept_bytes(), left);
        let given = kept.max(used);
        assert_eq!(whole_window(&server), 55_535 + given, "{kept} {used}");
        server.close(1, code::CANCEL);
        assert_eq!(whole_window(&server), 65_535, "{kept} {used}");
        assert_eq!(server.connection.kept_bytes(), 0);
    }
}

/// §6.9.1, §8.1.1: waiting for more than this would delay the end of a message, or a window's update.
#[test]
fn awaited_data_is_what_ends_the_first_message_or_window() {
    let mut server = End::server();
    assert_eq!(server.connection.awaited_data(), 0);
    // POST, http, /, with content-length; and the same without one.
    let of = |length: &[u8; 5]| [b"\x83\x86\x84\x41\x01a\x0f\x0d\x05", &length[..]].concat();
    let unknown = b"\x83\x86\x84\x41\x01a";
    server.feed(&headers(0, 1, unknown)).unwrap();
    assert_eq!(server.connection.awaited_data(), 0);
    server.feed(&headers(0, 3, &of(b"99999"))).unwrap();
    assert_eq!(server.connection.awaited_data(), 65_535);
    server.feed(&headers(0, 5, &of(b"20000"))).unwrap();
    assert_eq!(server.connection.awaited_data(), 20_000);
    server.feed(&frame(DATA, 0, 5, &[b'x'; 15_000])).unwrap();
    assert_eq!(server.connection.awaited_data(), 5_000);
    server
        .feed(&frame(DATA, END_STREAM, 5, &[b'x'; 5_000]))
        .unwrap();
    // What is left of the connection's window.
    assert_eq!(server.connection.awaited_data(), 45_535);
    server.close(3, code::CANCEL);
    assert_eq!(server.connection.awaited_data(), 0);
}
