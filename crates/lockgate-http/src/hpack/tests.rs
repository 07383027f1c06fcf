//! The examples of RFC 7541, Appendix C, and blocks that a decoder must refuse.

use super::*;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|char| char.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

fn decode(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<(String, String)>, HpackError> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode(block, 1 << 16, |name, value| {
        fields.push((text(name), text(value)))
    })?;
    Ok(fields)
}

/// Blocks of one connection in their order, and their fields.
fn example(table: usize, blocks: &[(&str, Fields<'_>)]) {
    let mut decoder = HpackDecoder::new(table);
    for (hex, expected) in blocks {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(
            decode(&mut decoder, &bytes(hex)).as_ref(),
            Ok(&expected),
            "{hex}"
        );
    }
}

const FIRST: Fields<'static> = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
];
const SECOND: Fields<'static> = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
    ("cache-control", "no-cache"),
];
const THIRD: Fields<'static> = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
];

/// §C.2.
#[test]
fn each_hpack_field_representation_is_decoded() {
    example(
        4096,
        &[(
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            &[("custom-key", "custom-header")],
        )],
    );
    example(
        4096,
        &[(
            "040c 2f73 616d 706c 652f 7061 7468",
            &[(":path", "/sample/path")],
        )],
    );
    example(
        4096,
        &[(
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            &[("password", "secret")],
        )],
    );
    example(4096, &[("82", &[(":method", "GET")])]);
}

/// §C.3.
#[test]
fn rfc_request_examples_without_huffman_are_decoded() {
    example(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST),
            ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                THIRD,
            ),
        ],
    );
}

/// §C.4.
#[test]
fn rfc_request_examples_with_huffman_are_decoded() {
    let blocks = [
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST),
        ("8286 84be 5886 a8eb 1064 9cbf", SECOND),
        (
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            THIRD,
        ),
    ];
    example(4096, &blocks);
    // The encoder's bytes are the same.
    let mut encoder = HpackEncoder::new();
    for (hex, fields) in blocks {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in fields {
            encoder.encode(
                name.as_bytes(),
                value.as_bytes(),
                Indexing::Keep,
                &mut block,
            );
        }
        assert_eq!(block, bytes(hex));
    }
}

const MOVED: Fields<'static> = &[
    (":status", "302"),
    ("cache-control", "private"),
    ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ("location", "https://www.example.com"),
];
const AGAIN: Fields<'static> = &[
    (":status", "307"),
    ("cache-control", "private"),
    ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ("location", "https://www.example.com"),
];
const COOKIE: Fields<'static> = &[
    (":status", "200"),
    ("cache-control", "private"),
    ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
    ("location", "https://www.example.com"),
    ("content-encoding", "gzip"),
    (
        "set-cookie",
        "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ),
];

/// §C.5: with a table of 256 bytes, which evicts entries.
#[test]
fn rfc_response_examples_without_huffman_are_decoded() {
    example(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 \
                 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                MOVED,
            ),
            ("4803 3330 37c1 c0bf", AGAIN),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a \
                 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d \
                 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                COOKIE,
            ),
        ],
    );
}

/// §C.6.
#[test]
fn rfc_response_examples_with_huffman_are_decoded() {
    example(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                MOVED,
            ),
            ("4883 640e ffc1 c0bf", AGAIN),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                 d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                 3d50 07",
                COOKIE,
            ),
        ],
    );
}

#[test]
fn invalid_hpack_blocks_are_refused() {
    for (hex, error) in [
        // Index 0, and the first beyond both tables.
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("7e 00", HpackError::Index),
        ("0f 2f 00", HpackError::Index),
        // Cut within a number, a name and a value.
        ("ff", HpackError::Cut),
        ("40 05 61", HpackError::Cut),
        ("40 01 61 05 62", HpackError::Cut),
        ("41", HpackError::Cut),
        // A string with an impossible length.
        ("41 7f ff ff ff ff ff 7f", HpackError::Number),
        // A table that is larger than allowed, and one that changes behind a field.
        ("3f e2 1f", HpackError::TableSize),
        ("82 20", HpackError::TableSize),
        // An invalid Huffman-coded string.
        ("41 81 00", HpackError::Huffman),
    ] {
        assert_eq!(
            decode(&mut HpackDecoder::new(4096), &bytes(hex)),
            Err(error),
            "{hex}"
        );
    }
}

#[test]
fn dynamic_table_size_updates_precede_the_first_field() {
    let mut decoder = HpackDecoder::new(4096);
    let field = ("a".to_owned(), "b".to_owned());
    assert_eq!(
        decode(&mut decoder, &bytes("40 01 61 01 62")),
        Ok(vec![field.clone()])
    );
    assert_eq!(decode(&mut decoder, &bytes("20 3f e1 1f")), Ok(Vec::new()));
    assert_eq!(
        decode(&mut decoder, &bytes("be")),
        Err(HpackError::Index),
        "it was emptied"
    );
}

#[test]
fn a_small_hpack_block_cannot_expand_into_a_large_head() {
    // A field of 4,000 bytes, and a thousand times its index (CVE-2016-6581).
    let mut block = bytes("40 01 61 7f a1 1e");
    block.extend_from_slice(&[b'x'; 4000]);
    block.extend_from_slice(&[0xbe; 1000]);
    assert_eq!(
        decode(&mut HpackDecoder::new(4096), &block),
        Err(HpackError::TooLarge)
    );
}

#[test]
fn a_repeated_field_is_one_byte_and_the_table_stable() {
    let (mut encoder, mut decoder) = (HpackEncoder::new(), HpackDecoder::new(TABLE_SIZE));
    let many: Vec<_> = (0..100)
        .map(|at| (format!("x-name-{at}"), "v".repeat(60)))
        .collect();
    let mut last = (Vec::new(), 0);
    for round in 0..3 {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in &many {
            encoder.encode(
                name.as_bytes(),
                value.as_bytes(),
                Indexing::Keep,
                &mut block,
            );
        }
        assert_eq!(decode(&mut decoder, &block).as_ref(), Ok(&many));
        let this = (block, encoder.changes());
        if round == 2 {
            assert_eq!(
                this, last,
                "what has no room stays a literal, and sends nothing away"
            );
        }
        last = this;
    }
    let mut one = Vec::new();
    encoder.encode(
        many[0].0.as_bytes(),
        many[0].1.as_bytes(),
        Indexing::Keep,
        &mut one,
    );
    assert_eq!(one.len(), 1);
}

#[test]
fn a_peer_that_lowers_header_table_size_empties_it() {
    for allowed in [0, 100, 4096, 100_000] {
        let (mut encoder, mut decoder) = (HpackEncoder::new(), HpackDecoder::new(TABLE_SIZE));
        for round in 0..3 {
            if round == 1 {
                encoder.resize(allowed);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            encoder.encode(b"a", b"b", Indexing::Keep, &mut block);
            encoder.encode(b"c", b"d", Indexing::Keep, &mut block);
            let expected =
                [("a", "b"), ("c", "d")].map(|(name, value)| (name.into(), value.into()));
            assert_eq!(
                decode(&mut decoder, &block),
                Ok(expected.to_vec()),
                "{allowed} {round}"
            );
        }
    }
}

/// RFC 7541 §6.2.2, §6.2.3: neither is added, and a secret is no index even where one would do.
#[test]
fn plain_and_never_indexed_fields_stay_out_of_the_table() {
    let (mut encoder, mut decoder) = (HpackEncoder::new(), HpackDecoder::new(TABLE_SIZE));
    for (indexing, name, value, first) in [
        (Indexing::Plain, "date", "now", 0x0f),
        (Indexing::Plain, "x-own", "1", 0x00),
        (Indexing::Plain, ":status", "200", 0x88),
        (Indexing::Never, "set-cookie", "a", 0x1f),
        (Indexing::Never, "x-own", "1", 0x10),
        (Indexing::Never, ":status", "200", 0x18),
    ] {
        let mut block = Vec::new();
        encoder.encode(name.as_bytes(), value.as_bytes(), indexing, &mut block);
        assert_eq!(block.first(), Some(&first), "{name}");
        let expected = vec![(name.to_owned(), value.to_owned())];
        assert_eq!(decode(&mut decoder, &block), Ok(expected), "{name}");
    }
    assert_eq!(encoder.changes(), 0);
}

/// The newest entry has the lowest index (RFC 7541 §2.3.2), whichever field it is.
#[test]
fn hpack_fields_of_one_name_are_found_by_value() {
    let (mut encoder, mut decoder) = (HpackEncoder::new(), HpackDecoder::new(TABLE_SIZE));
    let fields: Vec<_> = (0..40)
        .map(|at| (format!("x-{}", at % 3), format!("{at}")))
        .collect();
    let mut blocks = [Vec::new(), Vec::new()];
    for block in &mut blocks {
        for (name, value) in &fields {
            encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Keep, block);
        }
        assert_eq!(decode(&mut decoder, block).as_ref(), Ok(&fields));
    }
    assert_eq!(blocks[1].len(), fields.len(), "one byte each");
    let mut last = Vec::new();
    encoder.encode(b"x-0", b"39", Indexing::Keep, &mut last);
    assert_eq!(last, [0x80 | 62]);
}
