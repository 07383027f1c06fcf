//! RFC 9113 §6.7: PINGs of ours, and acknowledgements of none.

use super::*;

fn pong(data: &[u8; 8]) -> Vec<u8> {
    frame(PING, ACK, 0, data)
}

#[test]
fn a_ping_is_sent_once_until_it_is_acknowledged() {
    for mut end in [End::client(), End::server()] {
        assert!(end.connection.ping(*b"first..."));
        assert!(!end.connection.ping(*b"second.."));
        let sent = [(PING, 0, 0, b"first...".to_vec())];
        assert_eq!(end.sent(), sent);
        // Of another one: it is counted, and means nothing.
        end.feed(&pong(b"second..")).unwrap();
        assert_eq!((end.take_seen(), end.sent()), (vec![], vec![]));
        assert!(!end.connection.ping(*b"second.."));
        end.feed(&pong(b"first...")).unwrap();
        assert_eq!(end.take_seen(), [Seen::Pong(*b"first...")]);
        assert!(end.connection.ping(*b"second.."));
        // The same acknowledgement twice.
        end.feed(&pong(b"first...")).unwrap();
        assert_eq!(end.take_seen(), []);
    }
}

#[test]
fn acknowledgements_of_our_pings_cost_nothing_and_others_do() {
    let mut server = End::server();
    for round in 0_u64..1_000 {
        assert!(server.connection.ping(round.to_be_bytes()));
        server.feed(&pong(&round.to_be_bytes())).unwrap();
        server.sent();
    }
    for _ in 0..FEW.control {
        server.feed(&pong(b"unasked.")).unwrap();
    }
    assert_eq!(
        server.feed(&pong(b"unasked.")),
        Err(ConnectionError::Control)
    );
    assert!(!server.connection.ping([0; 8]), "it is over");
}

/// The round trip of a drain is its own, also where the data is the same.
#[test]
fn a_ping_of_the_user_ends_no_step_of_a_drain() {
    for data in [*b"another.", control::DRAIN_PING] {
        let mut server = End::server();
        assert!(server.connection.ping(data));
        server.connection.drain();
        let sent = server.sent();
        assert_eq!(sent.len(), 3, "{sent:?}");
        server.feed(&pong(&data)).unwrap();
        assert_eq!(server.take_seen(), [Seen::Pong(data)]);
        assert_eq!(server.sent(), []);
        server.feed(&pong(&control::DRAIN_PING)).unwrap();
        assert_eq!(server.sent(), [goaway_frame(0, code::NO_ERROR)]);
    }
}
