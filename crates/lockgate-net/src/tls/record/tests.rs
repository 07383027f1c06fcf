//! One record at a time: records that open, records that are refused, and that nothing else ever
//! comes out.

use super::*;
use crate::tls::handshake::tests::{TERMS, TLS12_TERMS, TLS13_TERMS, Terms, twins};

/// The sealer of a client and the opener of its server.
fn ends(terms: Terms) -> (RecordSealer, RecordOpener) {
    let (server, client) = twins(terms);
    let version = terms.version.version;
    (
        RecordSealer::new(version, client.secrets.tx),
        RecordOpener::new(version, server.secrets.rx),
    )
}

fn seal(sealer: &mut RecordSealer, kind: ContentType, plaintext: &[u8]) -> Vec<u8> {
    let mut record = vec![0; RecordSealer::sealed_len(plaintext.len())];
    let used = sealer.seal(kind, plaintext, &mut record).unwrap();
    record.truncate(used);
    record
}

fn open(opener: &mut RecordOpener, record: &[u8]) -> Result<(ContentType, Vec<u8>), RecordError> {
    let mut plain = vec![0xee; record.len()];
    let opened = opener.open(record, &mut plain)?;
    Ok((opened.kind, plain[..opened.len].to_vec()))
}

/// A record of TLS 1.3 with this inner plaintext (RFC 8446 §5.2), valid or not.
fn seal_inner(sealer: &mut RecordSealer, inner: &[u8]) -> Vec<u8> {
    let key = &mut sealer.0;
    let body = (inner.len() + TAG) as u16;
    let header = [&[23, 3, 3][..], &body.to_be_bytes()].concat();
    let mut sealed = inner.to_vec();
    let nonce = Nonce::assume_unique_for_key(key.nonce());
    key.aead()
        .seal_in_place_append_tag(nonce, Aad::from(&header), &mut sealed)
        .unwrap();
    key.advance();
    [header, sealed].concat()
}

/// A record of TLS 1.2 with this plaintext, of any length.
fn seal_12(sealer: &mut RecordSealer, kind: u8, plaintext: &[u8]) -> Vec<u8> {
    let key = &mut sealer.0;
    let mut sealed = plaintext.to_vec();
    let (nonce, aad) = (key.nonce(), key.additional_12(kind, plaintext.len()));
    key.aead()
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(aad),
            &mut sealed,
        )
        .unwrap();
    key.advance();
    let body = (EXPLICIT_NONCE + sealed.len()) as u16;
    [
        &[kind, 3, 3][..],
        &body.to_be_bytes(),
        &nonce[NONCE - EXPLICIT_NONCE..],
        &sealed,
    ]
    .concat()
}

#[test]
fn sealed_records_open_unchanged() {
    for terms in TERMS {
        let (mut sealer, mut opener) = ends(terms);
        for len in [0, 1, 15, 16, 17, MAX_PLAINTEXT - 1, MAX_PLAINTEXT] {
            let plaintext: Vec<u8> = (0..len).map(|n| n as u8).collect();
            for kind in [
                ContentType::ApplicationData,
                ContentType::Alert,
                ContentType::Handshake,
            ] {
                let record = seal(&mut sealer, kind, &plaintext);
                assert_eq!(opener.frame(&record), Ok(Some(record.len())));
                assert_eq!(
                    open(&mut opener, &record),
                    Ok((kind, plaintext.clone())),
                    "{terms:?} {len}"
                );
            }
        }
    }
}

/// RFC 8446 §5.3: the numbers of records go on.
#[test]
fn keys_that_have_rested_protect_the_next_record() {
    for terms in TERMS {
        let (mut sealer, mut opener) = ends(terms);
        let (sealed, opened) = (sealer.0.sequence, opener.0.sequence);
        for text in [b"first", b"after"] {
            let record = seal(&mut sealer, ContentType::ApplicationData, text);
            sealer.rest();
            assert!(sealer.0.expanded.is_none(), "{terms:?}");
            assert_eq!(
                open(&mut opener, &record),
                Ok((ContentType::ApplicationData, text.to_vec())),
                "{terms:?}"
            );
            opener.rest();
            assert!(opener.0.expanded.is_none(), "{terms:?}");
        }
        assert_eq!(
            (sealer.0.sequence, opener.0.sequence),
            (sealed + 2, opened + 2),
            "{terms:?}"
        );
    }
}

#[test]
fn data_is_cut_into_records_within_the_size_bound() {
    for terms in TERMS {
        let (mut sealer, mut opener) = ends(terms);
        for len in [
            0,
            1,
            MAX_PLAINTEXT,
            MAX_PLAINTEXT + 1,
            3 * MAX_PLAINTEXT,
            100_000,
        ] {
            let plaintext: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
            let mut wire = vec![0; RecordSealer::sealed_len(len)];
            let used = sealer.seal_data(&plaintext, &mut wire).unwrap();
            let (mut at, mut gathered) = (0, Vec::new());
            while at < used {
                let record = opener.frame(&wire[at..used]).unwrap().unwrap();
                gathered.extend(open(&mut opener, &wire[at..at + record]).unwrap().1);
                at += record;
            }
            assert_eq!((at, gathered), (used, plaintext), "{terms:?}");
        }
    }
}

/// RFC 8446 §5.2 for the header; the AEAD authenticates the rest.
#[test]
fn a_record_changed_in_any_byte_is_refused() {
    for terms in TERMS {
        let (mut sealer, mut opener) = ends(terms);
        let record = seal(&mut sealer, ContentType::ApplicationData, b"attack at dawn");
        let number = opener.0.sequence;
        for at in 0..record.len() {
            for change in [1, 2, 4, 0x80, 0xff] {
                let mut tampered = record.clone();
                tampered[at] ^= change;
                let result = match opener.frame(&tampered) {
                    // More is waited for, and these bytes do not authenticate.
                    Ok(Some(len)) if len > tampered.len() => {
                        tampered.resize(len, 0);
                        open(&mut opener, &tampered)
                    }
                    Ok(Some(len)) => open(&mut opener, &tampered[..len]),
                    other => other.map(|_| unreachable!("there is a whole header")),
                };
                match (at, terms.is_13()) {
                    (0 | 1, true) | (1, false) => assert_eq!(result, Err(RecordError::Malformed)),
                    // Under another valid type the record does not authenticate.
                    (0, false) => {
                        assert!(matches!(
                            result,
                            Err(RecordError::Malformed | RecordError::BadMac)
                        ))
                    }
                    // The authenticated minor version of TLS 1.2 is ours.
                    (2, false) => {
                        assert_eq!(
                            result,
                            Ok((ContentType::ApplicationData, b"attack at dawn".to_vec()))
                        );
                        opener.0.sequence = number;
                    }
                    (3, _) => assert!(
                        matches!(result, Err(RecordError::Overflow | RecordError::BadMac)),
                        "{result:?}"
                    ),
                    (4, _) => assert!(matches!(
                        result,
                        Err(RecordError::Malformed | RecordError::BadMac)
                    )),
                    _ => assert_eq!(result, Err(RecordError::BadMac), "{terms:?} byte {at}"),
                }
            }
        }
        assert_eq!(
            open(&mut opener, &record).unwrap().1,
            b"attack at dawn",
            "and nothing was spoiled by it"
        );
    }
}

#[test]
fn a_record_replayed_or_out_of_order_is_refused() {
    for terms in TERMS {
        let (mut sealer, mut opener) = ends(terms);
        let first = seal(&mut sealer, ContentType::ApplicationData, b"first");
        let second = seal(&mut sealer, ContentType::ApplicationData, b"second");
        assert_eq!(open(&mut opener, &second), Err(RecordError::BadMac));
        assert_eq!(open(&mut opener, &first).unwrap().1, b"first");
        assert_eq!(open(&mut opener, &first), Err(RecordError::BadMac));
        assert_eq!(open(&mut opener, &second).unwrap().1, b"second");
    }
}

/// RFC 8446 §5.2, RFC 5246 §6.2.3.
#[test]
fn an_oversized_record_is_refused_by_its_header() {
    for (terms, most) in [
        (TLS13_TERMS, (1 << 14) + 256),
        (TLS12_TERMS, (1 << 14) + 2048),
    ] {
        let (_, opener) = ends(terms);
        let header = |len: u16| [&[23, 3, 3][..], &len.to_be_bytes()].concat();
        assert_eq!(
            opener.frame(&header(most)),
            Ok(Some(HEADER + usize::from(most)))
        );
        assert_eq!(opener.frame(&header(most + 1)), Err(RecordError::Overflow));
        assert_eq!(opener.frame(&header(u16::MAX)), Err(RecordError::Overflow));
    }
}

#[test]
fn a_record_header_is_judged_when_it_is_complete() {
    for (terms, kinds) in [(TLS13_TERMS, &[23][..]), (TLS12_TERMS, &[20, 21, 22, 23])] {
        let (_, opener) = ends(terms);
        for kind in 0..=255 {
            let header = [kind, 3, 3, 0, 40];
            for cut in 0..HEADER {
                assert_eq!(opener.frame(&header[..cut]), Ok(None));
            }
            let judged = if kinds.contains(&kind) {
                Ok(Some(45))
            } else {
                Err(RecordError::Malformed)
            };
            assert_eq!(opener.frame(&header), judged, "{kind}");
        }
        assert_eq!(opener.frame(b"GET / HTTP/1.1"), Err(RecordError::Malformed));
        assert_eq!(
            opener.frame(&[23, 2, 0, 0, 40]),
            Err(RecordError::Malformed)
        );
    }
}

#[test]
fn a_record_without_room_for_a_tag_is_malformed() {
    for terms in TERMS {
        let (_, mut opener) = ends(terms);
        for body in 0..TAG {
            let mut record = vec![0; HEADER + body];
            record[..HEADER].copy_from_slice(&[23, 3, 3, 0, body as u8]);
            assert_eq!(
                open(&mut opener, &record),
                Err(RecordError::Malformed),
                "{terms:?} {body}"
            );
        }
    }
}

#[test]
fn a_buffer_that_is_too_short_is_no_panic() {
    let (mut sealer, mut opener) = ends(TLS13_TERMS);
    let record = seal(&mut sealer, ContentType::ApplicationData, b"data");
    assert_eq!(
        opener.open(&record, &mut [0; 4]),
        Err(RecordError::Overflow),
        "the type needs a byte too"
    );
}

/// RFC 8446 §5.4.
#[test]
fn record_padding_is_removed_and_padding_alone_is_malformed() {
    for terms in &TERMS[..3] {
        let (mut sealer, mut opener) = ends(*terms);
        for padding in [0, 1, 255, MAX_PLAINTEXT - 4] {
            let inner = [&b"data\x17"[..], &vec![0; padding]].concat();
            let record = seal_inner(&mut sealer, &inner);
            assert_eq!(
                open(&mut opener, &record),
                Ok((ContentType::ApplicationData, b"data".to_vec()))
            );
        }
        let zeros_before_the_type = seal_inner(&mut sealer, &[0, 0, 0, 23, 0]);
        assert_eq!(
            open(&mut opener, &zeros_before_the_type).unwrap().1,
            [0, 0, 0]
        );
        for len in [0, 1, 100, MAX_PLAINTEXT + 1] {
            let record = seal_inner(&mut sealer, &vec![0; len]);
            assert_eq!(
                open(&mut opener, &record),
                Err(RecordError::Malformed),
                "{len} zeros"
            );
        }
    }
}

#[test]
fn more_plaintext_than_a_record_may_have_is_refused() {
    let (mut sealer, mut opener) = ends(TLS13_TERMS);
    let inner = |len: usize| [&vec![b'x'; len][..], &[23]].concat();
    assert_eq!(
        open(&mut opener, &seal_inner(&mut sealer, &inner(MAX_PLAINTEXT)))
            .unwrap()
            .1
            .len(),
        MAX_PLAINTEXT
    );
    let longer = seal_inner(&mut sealer, &inner(MAX_PLAINTEXT + 1));
    assert_eq!(
        opener.frame(&longer),
        Ok(Some(longer.len())),
        "the header may say so"
    );
    assert_eq!(open(&mut opener, &longer), Err(RecordError::Overflow));

    let (mut sealer, mut opener) = ends(TLS12_TERMS);
    let whole = seal_12(&mut sealer, 23, &vec![b'x'; MAX_PLAINTEXT]);
    assert_eq!(open(&mut opener, &whole).unwrap().1.len(), MAX_PLAINTEXT);
    let longer = seal_12(&mut sealer, 23, &vec![b'x'; MAX_PLAINTEXT + 1]);
    assert_eq!(open(&mut opener, &longer), Err(RecordError::Overflow));
}

/// RFC 8446 §5: a protected change_cipher_spec is an unexpected message; so is an unknown type.
#[test]
fn a_forbidden_inner_content_type_is_refused() {
    let (mut sealer, mut opener) = ends(TLS13_TERMS);
    for kind in [20, 24, 19, 255] {
        let record = seal_inner(&mut sealer, &[1, kind]);
        assert_eq!(
            open(&mut opener, &record),
            Err(RecordError::Malformed),
            "{kind}"
        );
    }
    assert_eq!(RecordError::Malformed.alert(), 10);
}

/// RFC 8446 §5.5.
#[test]
fn a_key_reports_its_usage_limit_and_stops_there() {
    for terms in TERMS {
        let (mut sealer, _) = ends(terms);
        let chacha = sealer.0.limit() == u64::MAX;
        sealer.0.sequence = (1 << 24) - 65;
        assert!(!sealer.is_worn());
        seal(&mut sealer, ContentType::ApplicationData, b"x");
        assert_eq!(sealer.is_worn(), !chacha, "{terms:?}");
        sealer.0.sequence = (1 << 24) - 1;
        seal(&mut sealer, ContentType::ApplicationData, b"the last");
        let mut out = [0; 100];
        let more = sealer.seal_data(b"one too many", &mut out);
        assert_eq!(more.is_err(), !chacha);
        assert!(chacha || (more == Err(RecordError::Exhausted) && out == [0; 100]));
    }
}

#[test]
fn debug_output_of_sealer_and_opener_hides_keys() {
    let (sealer, opener) = ends(TLS13_TERMS);
    assert_eq!(
        format!("{sealer:?} {opener:?}"),
        "RecordSealer { sequence: 0, .. } RecordOpener { sequence: 0, .. }"
    );
}
