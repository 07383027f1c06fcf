//! Sessions against rustls at the other end, and against our own for violations that rustls would
//! not commit.

use std::sync::Arc;

use rustls::HandshakeKind;

use super::*;
use crate::tls::handshake::tests::{
    Pair, Rustls, TERMS, TLS12_TERMS, TLS13_TERMS, Terms, client_config, client_pair, pair,
    server_config, settled_pair, twins,
};

/// The plaintext of bytes that are fed as the relay feeds them.
fn feed(session: &mut TlsSession, wire: &[u8]) -> Result<Vec<u8>, SessionError> {
    let mut whole = session.take_partial();
    whole.extend_from_slice(wire);
    let mut plain = vec![0xee; whole.len()];
    let done = session.open(&whole, &mut plain)?;
    session.keep_partial(&whole[done.consumed..]);
    plain.truncate(done.produced);
    Ok(plain)
}

fn seal(session: &mut TlsSession, data: &[u8]) -> Vec<u8> {
    let mut wire = vec![0; TlsSession::sealed_len(data.len())];
    let used = session.seal(data, &mut wire).unwrap();
    wire.truncate(used);
    wire
}

/// One record of any type with any content.
fn raw(session: &mut TlsSession, kind: ContentType, content: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    session.append(kind, content, &mut wire).unwrap();
    wire
}

fn handshake(session: &mut TlsSession, content: &[u8]) -> Vec<u8> {
    raw(session, ContentType::Handshake, content)
}

/// Our server and our client.
fn sessions(terms: Terms) -> (Box<TlsSession>, Box<TlsSession>) {
    let (server, client) = twins(terms);
    (server.session(), client.session())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

const UPDATE_REQUESTED: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 1];

#[test]
fn data_goes_both_ways_in_every_size_and_suite() {
    for terms in TERMS {
        let Pair {
            mut client,
            mut session,
            ..
        } = settled_pair(terms);
        for len in [0, 1, 16_383, 16_384, 16_385, 100_000] {
            let wire = client.protect(&bytes(len));
            assert_eq!(feed(&mut session, &wire), Ok(bytes(len)), "{terms:?} {len}");
            let wire = seal(&mut session, &bytes(len));
            assert_eq!(client.receive(&wire), Ok(bytes(len)), "{terms:?} {len}");
        }
        assert!(!session.is_closed() && !session.owes() && session.partial_len() == 0);
    }
}

#[test]
fn data_goes_both_ways_as_a_client() {
    for terms in TERMS {
        let (mut session, mut server) = client_pair(&client_config(terms), &server_config(terms));
        let tickets = server.take_sent();
        assert_eq!(feed(&mut session, &tickets), Ok(Vec::new()));
        for len in [0, 1, 16_384, 100_000] {
            assert_eq!(
                server.receive(&seal(&mut session, &bytes(len))),
                Ok(bytes(len)),
                "{terms:?} {len}"
            );
            assert_eq!(
                feed(&mut session, &server.protect(&bytes(len))),
                Ok(bytes(len))
            );
        }
    }
}

#[test]
fn a_record_may_be_cut_anywhere() {
    for terms in TERMS {
        let len = settled_pair(terms).client.protect(b"hello").len();
        let Pair {
            mut client,
            mut session,
            ..
        } = settled_pair(terms);
        for cut in 0..=len {
            let wire = client.protect(b"hello");
            let (one, other) = wire.split_at(cut);
            let early = feed(&mut session, one).unwrap();
            assert_eq!(session.partial_len(), if cut == len { 0 } else { cut });
            assert!(!session.has_waiting(), "what is kept is no whole record");
            let late = feed(&mut session, other).unwrap();
            assert_eq!([early, late].concat(), b"hello", "{terms:?} {cut}");
        }
        let wire = client.protect(b"byte by byte");
        let pieces: Vec<u8> = wire
            .iter()
            .flat_map(|&byte| feed(&mut session, &[byte]).unwrap())
            .collect();
        assert_eq!(pieces, b"byte by byte");
    }
}

#[test]
fn several_records_in_one_read_are_joined() {
    for terms in TERMS {
        let Pair {
            mut client,
            mut session,
            ..
        } = settled_pair(terms);
        let mut wire: Vec<u8> = ["one ", "two ", "three "]
            .iter()
            .flat_map(|word| client.protect(word.as_bytes()))
            .collect();
        let last = client.protect(b"four");
        wire.extend(&last[..last.len() - 1]);
        assert_eq!(feed(&mut session, &wire).unwrap(), b"one two three ");
        assert_eq!(session.partial_len(), last.len() - 1);
        assert_eq!(
            feed(&mut session, &last[last.len() - 1..]).unwrap(),
            b"four"
        );
    }
}

#[test]
fn records_read_with_the_handshake_wait_until_taken() {
    let (server, client) = twins(TLS13_TERMS);
    let mut client = client.session();
    let mut session = server.session();
    let record = seal(&mut client, b"early bird");
    session.keep_partial(&record[..record.len() - 1]);
    assert!(!session.has_waiting());
    session.take_partial();
    session.keep_partial(&record);
    assert!(session.has_waiting());
    assert_eq!(feed(&mut session, b"").unwrap(), b"early bird");
    session.keep_partial(b"\x50\x50\x50\x50\x50");
    assert!(
        session.has_waiting(),
        "open is to say what is wrong with it"
    );
    assert_eq!(feed(&mut session, b""), Err(RecordError::Malformed.into()));
}

#[test]
fn a_changed_byte_ends_the_session_and_gives_no_data() {
    for terms in TERMS {
        let (mut server, mut client) = sessions(terms);
        let good = seal(&mut client, b"good ");
        let mut bad = seal(&mut client, b"bad");
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(feed(&mut server, &good).unwrap(), b"good ");
        let refused = feed(&mut server, &bad).unwrap_err();
        assert_eq!(
            (refused, refused.alert()),
            (RecordError::BadMac.into(), Some(20))
        );
    }
}

#[test]
fn the_33rd_record_without_data_is_refused() {
    for terms in TERMS {
        let (mut server, mut client) = sessions(terms);
        for _ in 0..2 {
            for _ in 0..MAX_IDLE_RECORDS {
                let empty = raw(&mut client, ContentType::ApplicationData, b"");
                assert_eq!(feed(&mut server, &empty), Ok(Vec::new()));
            }
            assert_eq!(
                feed(&mut server, &seal(&mut client, b"x")).unwrap(),
                b"x",
                "data makes good for them"
            );
        }
        let flood: Vec<u8> = (0..33)
            .flat_map(|_| raw(&mut client, ContentType::ApplicationData, b""))
            .collect();
        assert_eq!(
            feed(&mut server, &flood),
            Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE))
        );
    }
}

/// RFC 8446 §4.6.3.
#[test]
fn a_requested_key_update_is_answered_before_the_next_data() {
    for terms in &TERMS[..3] {
        let Pair {
            mut client,
            mut session,
            ..
        } = settled_pair(*terms);
        for round in 0..3 {
            client.refresh_traffic_keys().unwrap();
            let wire = client.protect(b"under new keys");
            assert_eq!(
                feed(&mut session, &wire).unwrap(),
                b"under new keys",
                "round {round}"
            );
            assert!(session.owes());
            let mut answer = Vec::new();
            session.seal_owed(&mut answer).unwrap();
            assert!(!session.owes());
            answer.extend(seal(&mut session, b"and so are we"));
            assert_eq!(client.receive(&answer).unwrap(), b"and so are we");
            assert_eq!(client.take_sent(), [], "ours asks for none in turn");
        }
        let mut nothing = Vec::new();
        session.seal_owed(&mut nothing).unwrap();
        assert_eq!(nothing, []);
    }
}

#[test]
fn many_requests_for_a_key_update_get_one_answer() {
    let (mut server, mut client) = sessions(TLS13_TERMS);
    for _ in 0..5 {
        let update = handshake(&mut client, &UPDATE_REQUESTED);
        rekey_sender(&mut client);
        assert_eq!(feed(&mut server, &update), Ok(Vec::new()));
    }
    let mut answer = Vec::new();
    server.seal_owed(&mut answer).unwrap();
    answer.extend(seal(&mut server, b"one"));
    assert_eq!(feed(&mut client, &answer).unwrap(), b"one");
    assert!(!client.owes() && !server.owes());
}

/// The effect of `seal_owed` after its message.
fn rekey_sender(session: &mut TlsSession) {
    let next = match &mut session.keys {
        SessionRole::Server(kernel) => kernel.update_tx_secret(),
        SessionRole::Client(kernel) => kernel.update_tx_secret(),
    };
    session.sealer = RecordSealer::new(session.version, next.unwrap());
}

#[test]
fn a_key_update_without_request_is_not_answered() {
    let (mut server, mut client) = sessions(TLS13_TERMS);
    let update = handshake(&mut client, &KEY_UPDATE_NOT_REQUESTED);
    rekey_sender(&mut client);
    assert_eq!(
        feed(&mut server, &[update, seal(&mut client, b"x")].concat()).unwrap(),
        b"x"
    );
    assert!(!server.owes());
}

#[test]
fn a_flood_of_key_updates_is_refused() {
    let (mut server, mut client) = sessions(TLS13_TERMS);
    for n in 0.. {
        let update = handshake(&mut client, &UPDATE_REQUESTED);
        rekey_sender(&mut client);
        match feed(&mut server, &update) {
            Ok(_) => assert!(n < MAX_IDLE_RECORDS),
            refused => {
                assert_eq!(refused, Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE)));
                break;
            }
        }
    }
}

/// RFC 8446 §5.1: the key changes between two records, not within one.
#[test]
fn nothing_may_follow_a_key_update_in_its_record() {
    for follows in [&[KEY_UPDATE][..], &KEY_UPDATE_NOT_REQUESTED, &[0]] {
        let (mut server, mut client) = sessions(TLS13_TERMS);
        let record = handshake(&mut client, &[&KEY_UPDATE_NOT_REQUESTED, follows].concat());
        assert_eq!(
            feed(&mut server, &record),
            Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE))
        );
    }
}

#[test]
fn a_traffic_key_is_updated_before_its_usage_limit() {
    for terms in TERMS {
        let (mut server, mut client) = twins(terms);
        let near_the_end = (1 << 24) - 70;
        server.secrets.tx.0 = near_the_end;
        client.secrets.rx.0 = near_the_end;
        let (mut server, mut client) = (server.session(), client.session());
        let mut changes = 0;
        for n in 0..200u32 {
            if server.owes() {
                changes += 1;
                let mut owed = Vec::new();
                server.seal_owed(&mut owed).unwrap();
                assert_eq!(feed(&mut client, &owed), Ok(Vec::new()));
                assert!(!server.owes());
            }
            let data = n.to_be_bytes();
            let mut wire = [0; 100];
            match server.seal(&data, &mut wire) {
                Ok(used) => assert_eq!(feed(&mut client, &wire[..used]).unwrap(), data),
                // There is no key update in TLS 1.2.
                Err(error) => {
                    assert_eq!((error, n), (RecordError::Exhausted.into(), 70));
                    assert!(!terms.is_13());
                    let mut close = Vec::new();
                    server.seal_close(&mut close);
                    assert_eq!(close, [], "not even a close fits");
                    break;
                }
            }
        }
        let limited = !format!("{terms:?}").contains("CHACHA");
        assert_eq!(changes, u8::from(limited && terms.is_13()), "{terms:?}");
    }
}

#[test]
fn a_handshake_message_may_span_records() {
    let (mut server, mut client) = sessions(TLS13_TERMS);
    let records: Vec<u8> = UPDATE_REQUESTED
        .iter()
        .flat_map(|&byte| handshake(&mut client, &[byte]))
        .collect();
    rekey_sender(&mut client);
    assert_eq!(feed(&mut server, &records), Ok(Vec::new()));
    assert!(server.owes());
    assert_eq!(feed(&mut server, &seal(&mut client, b"x")).unwrap(), b"x");
}

#[test]
fn a_too_long_handshake_message_is_refused_by_its_header() {
    let (mut server, mut client) = sessions(TLS13_TERMS);
    let record = handshake(&mut client, &[NEW_SESSION_TICKET, 1, 0, 0]);
    assert_eq!(
        feed(&mut server, &record),
        Err(SessionError::Misbehaved(DECODE_ERROR))
    );
}

#[test]
fn an_unexpected_handshake_message_is_refused() {
    // A client must not send tickets, and neither side a hello, a certificate request or a
    // Finished.
    for message in [
        &[NEW_SESSION_TICKET, 0, 0, 0][..],
        &[1, 0, 0, 0],
        &[13, 0, 0, 0],
        &[20, 0, 0, 0],
    ] {
        let (mut server, mut client) = sessions(TLS13_TERMS);
        let record = handshake(&mut client, message);
        assert_eq!(
            feed(&mut server, &record),
            Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE))
        );
    }
}

#[test]
fn a_session_ticket_of_the_server_resumes_the_next_connection() {
    let (client, server) = (client_config(TLS13_TERMS), server_config(TLS13_TERMS));
    let (mut session, mut full) = client_pair(&client, &server);
    assert_eq!(full.handshake_kind(), Some(HandshakeKind::Full));
    let tickets = full.take_sent();
    assert!(!tickets.is_empty());
    // Cut in the middle, and with data behind it.
    let (one, other) = tickets.split_at(tickets.len() / 2);
    assert_eq!(feed(&mut session, one), Ok(Vec::new()));
    assert_eq!(
        feed(&mut session, &[other, &full.protect(b"data")].concat()).unwrap(),
        b"data"
    );
    let (_, resumed) = client_pair(&client, &server);
    assert_eq!(resumed.handshake_kind(), Some(HandshakeKind::Resumed));
}

#[test]
fn an_unreadable_session_ticket_only_prevents_resumption() {
    let (mut server, mut client) = sessions(TLS13_TERMS);
    let record = handshake(&mut server, &[NEW_SESSION_TICKET, 0, 0, 3, 1, 2, 3]);
    assert_eq!(
        feed(&mut client, &[record, seal(&mut server, b"x")].concat()).unwrap(),
        b"x"
    );
}

/// RFC 5246 §7.2.2: a peer that does not renegotiate sends a warning.
#[test]
fn renegotiation_is_refused() {
    let (mut server, mut client) = sessions(TLS12_TERMS);
    let refused = feed(&mut server, &handshake(&mut client, &[1, 0, 0, 0])).unwrap_err();
    assert_eq!(
        (refused, refused.alert()),
        (SessionError::Renegotiation, Some(NO_RENEGOTIATION))
    );
    let mut alert = Vec::new();
    server.seal_alert(NO_RENEGOTIATION, &mut alert);
    assert_eq!(feed(&mut client, &alert), Ok(Vec::new()), "a warning");
}

/// RFC 5246 §7.4.1.1: a client may ignore the request; but not for ever.
#[test]
fn a_hello_request_is_ignored() {
    let (mut server, mut client) = sessions(TLS12_TERMS);
    let request = handshake(&mut server, &HELLO_REQUEST);
    assert_eq!(
        feed(&mut client, &[request, seal(&mut server, b"x")].concat()).unwrap(),
        b"x"
    );
    let end = (0..=MAX_IDLE_RECORDS)
        .find_map(|_| feed(&mut client, &handshake(&mut server, &HELLO_REQUEST)).err());
    assert_eq!(end, Some(SessionError::Misbehaved(UNEXPECTED_MESSAGE)));
    assert_eq!(
        feed(&mut server, &handshake(&mut client, &HELLO_REQUEST)),
        Err(SessionError::Renegotiation),
        "only a server asks"
    );
}

#[test]
fn a_protected_change_cipher_spec_is_refused() {
    let (mut server, mut client) = sessions(TLS12_TERMS);
    let record = raw(&mut client, ContentType::ChangeCipherSpec, &[1]);
    assert_eq!(
        feed(&mut server, &record),
        Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE))
    );
}

#[test]
fn close_notify_is_exchanged_with_rustls() {
    for terms in TERMS {
        let Pair {
            mut client,
            mut session,
            ..
        } = settled_pair(terms);
        let wire = [client.protect(b"the last"), client.close()].concat();
        assert_eq!(feed(&mut session, &wire).unwrap(), b"the last");
        assert!(session.is_closed() && !session.has_waiting());
        let mut answer = seal(&mut session, b"ours");
        session.seal_close(&mut answer);
        assert_eq!(client.receive(&answer).unwrap(), b"ours");
        assert!(client.process_new_packets().unwrap().peer_has_closed());
    }
}

/// RFC 8446 §6.1: data after a closure alert is ignored.
#[test]
fn data_after_close_notify_is_ignored() {
    for terms in TERMS {
        let (mut server, mut client) = sessions(terms);
        let mut wire = seal(&mut client, b"before");
        client.seal_close(&mut wire);
        wire.extend(seal(&mut client, b"after"));
        assert_eq!(feed(&mut server, &wire).unwrap(), b"before");
        assert!(server.is_closed());
        assert_eq!(feed(&mut server, b"even garbage").unwrap(), b"");
    }
}

/// Otherwise the reader of the bytes before the end would read forever.
#[test]
fn nothing_waits_after_close_notify() {
    for follows in [&b"\x17\x03\x03\x00\x01\x00"[..], b"garbage"] {
        let (mut server, mut client) = sessions(TLS13_TERMS);
        let mut wire = Vec::new();
        client.seal_close(&mut wire);
        wire.extend(follows);
        assert_eq!(feed(&mut server, &wire).unwrap(), b"");
        assert!(server.is_closed() && !server.has_waiting());
    }
}

#[test]
fn a_fatal_alert_ends_the_session_and_is_not_answered() {
    for terms in TERMS {
        let (mut server, mut client) = sessions(terms);
        let mut wire = Vec::new();
        client.seal_alert(40, &mut wire);
        let ended = feed(&mut server, &wire).unwrap_err();
        assert_eq!((ended, ended.alert()), (SessionError::Alerted(40), None));
    }
}

#[test]
fn our_alert_is_understood_by_rustls() {
    for terms in TERMS {
        let Pair {
            mut client,
            mut session,
            ..
        } = settled_pair(terms);
        let mut wire = Vec::new();
        session.seal_alert(RecordError::BadMac.alert(), &mut wire);
        let heard = client.receive(&wire).unwrap_err();
        assert_eq!(
            heard,
            rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)
        );
    }
}

#[test]
fn warning_alerts_are_ignored_until_they_flood() {
    for (terms, warning) in [
        (TLS13_TERMS, [1, USER_CANCELED]),
        (TLS12_TERMS, [1, USER_CANCELED]),
        (TLS12_TERMS, [1, 112]),
    ] {
        let (mut server, mut client) = sessions(terms);
        let wire = [
            raw(&mut client, ContentType::Alert, &warning),
            seal(&mut client, b"x"),
        ]
        .concat();
        assert_eq!(feed(&mut server, &wire).unwrap(), b"x");
        let flood: Vec<u8> = (0..33)
            .flat_map(|_| raw(&mut client, ContentType::Alert, &warning))
            .collect();
        assert_eq!(
            feed(&mut server, &flood),
            Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE))
        );
    }
    // RFC 8446 §6: in TLS 1.3 every other alert is an error at any level.
    let (mut server, mut client) = sessions(TLS13_TERMS);
    let warning = raw(&mut client, ContentType::Alert, &[1, 112]);
    assert_eq!(feed(&mut server, &warning), Err(SessionError::Alerted(112)));
}

#[test]
fn a_truncated_or_coalesced_alert_is_refused() {
    for alert in [&[1][..], &[1, 0, 1, 0]] {
        let (mut server, mut client) = sessions(TLS13_TERMS);
        let record = raw(&mut client, ContentType::Alert, alert);
        assert_eq!(
            feed(&mut server, &record),
            Err(SessionError::Misbehaved(DECODE_ERROR))
        );
    }
}

/// RFC 8446 §5.4: handshake and alert records without content are an unexpected message.
#[test]
fn an_empty_handshake_or_alert_record_is_refused() {
    for kind in [ContentType::Handshake, ContentType::Alert] {
        let (mut server, mut client) = sessions(TLS13_TERMS);
        let record = raw(&mut client, kind, b"");
        assert_eq!(
            feed(&mut server, &record),
            Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE)),
            "{kind:?}"
        );
    }
}

/// RFC 8446 §5.1: between the records of one handshake message there is no other record.
#[test]
fn data_within_a_handshake_message_is_refused() {
    let (mut server, mut client) = sessions(TLS13_TERMS);
    let wire = [
        handshake(&mut client, &UPDATE_REQUESTED[..3]),
        seal(&mut client, b"data"),
    ]
    .concat();
    assert_eq!(
        feed(&mut server, &wire),
        Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE))
    );
}

/// RFC 8446 §4.6.3: any other value is an illegal parameter; a length other than one cannot be
/// decoded.
#[test]
fn a_malformed_key_update_is_refused_with_its_alert() {
    for (update, alert) in [
        (&[KEY_UPDATE, 0, 0, 1, 2][..], 47),
        (&[KEY_UPDATE, 0, 0, 2, 0, 0], DECODE_ERROR),
    ] {
        let (mut server, mut client) = sessions(TLS13_TERMS);
        let record = handshake(&mut client, update);
        assert_eq!(
            feed(&mut server, &record),
            Err(SessionError::Misbehaved(alert))
        );
    }
}

#[test]
fn an_idle_session_holds_no_buffer() {
    let Pair {
        mut client,
        mut session,
        unsent,
    } = pair(TLS13_TERMS);
    client.receive(&unsent).unwrap();
    assert_eq!(
        feed(&mut session, &client.protect(&bytes(50_000)))
            .unwrap()
            .len(),
        50_000
    );
    let buffers = [&session.partial, &session.early, &session.message];
    assert_eq!(buffers.map(Vec::capacity), [0; 3]);
}

#[test]
fn debug_output_of_a_session_hides_keys() {
    let (server, _) = sessions(TLS13_TERMS);
    assert_eq!(format!("{server:?}"), "TlsSession { version: TLSv1_3, .. }");
}

#[test]
fn resumed_sessions_carry_data_like_others() {
    for terms in [TLS13_TERMS, TLS12_TERMS] {
        let (client, server) = (client_config(terms), server_config(terms));
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let (mut session, mut peer) = client_pair(&Arc::clone(&client), &server);
            assert_eq!(peer.handshake_kind(), Some(kind));
            let tickets = peer.take_sent();
            feed(&mut session, &tickets).unwrap();
            assert_eq!(peer.receive(&seal(&mut session, b"up")).unwrap(), b"up");
            assert_eq!(feed(&mut session, &peer.protect(b"down")).unwrap(), b"down");
        }
    }
}
