//! Findings of an account in blocks, in each of the forms that HPACK has for a field, and beside
//! the result of a decoder.

use super::super::{HpackDecoder, HpackEncoder, Indexing, TABLE_SIZE, huffman};
use super::*;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn account() -> BlockAccount {
    BlockAccount::new(4096, 1024)
}

fn seen(account: &mut BlockAccount, block: &[u8]) -> Result<SectionSummary, HpackError> {
    account.see(block)?;
    account.end()
}

/// A literal that is not added to the table, with or without Huffman coding.
fn literal(marks: u8, name: &[u8], value: &[u8], coded: bool) -> Vec<u8> {
    let mut block = vec![marks];
    for text in [name, value] {
        if coded {
            integer::encode(&mut block, 0x80, 7, huffman::encoded_len(text));
            huffman::encode(text, &mut block);
        } else {
            integer::encode(&mut block, 0, 7, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

fn size(fields: Fields<'_>) -> usize {
    fields
        .iter()
        .map(|(name, value)| name.len() + value.len() + 32)
        .sum()
}

/// RFC 9113 §6.5.2, RFC 7541 §6.1, §6.2.1: the same fields again are references to the table.
#[test]
fn section_size_counts_32_bytes_for_each_field() {
    let (mut encoder, mut account) = (HpackEncoder::new(), account());
    let fields: Fields<'_> = &[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "www.example.com"),
        (":path", "/a/long/path?and=query"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ("cookie", "a=1; b=2"),
    ];
    let mut lengths = Vec::new();
    for _ in 0..2 {
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
        lengths.push(block.len());
        let section = seen(&mut account, &block).unwrap();
        assert_eq!((section.size, section.fields), (size(fields), fields.len()));
        assert!(section.has_pseudo_fields() && !section.is_response() && !section.has_fragment());
    }
    assert_eq!(lengths[1], fields.len());
}

/// RFC 9113 §8.3: the pseudo-fields in each of the forms that HPACK has for a field.
#[test]
fn pseudo_header_fields_are_found_in_every_hpack_form() {
    // The form, whether it is a response, whether it is interim.
    for coded in [false, true] {
        for marks in [0x00, 0x10, 0x40] {
            for (name, value, pseudo, answer, interim) in [
                (":status", "200", true, true, false),
                (":status", "103", true, true, true),
                (":path", "/", true, false, false),
                (":method", "1", true, false, false),
                (":protocol", "websocket", true, false, false),
                (":scheme", "http", true, false, false),
                (":authority", "a", true, false, false),
                (":unknown", "", true, false, false),
                (":", "", true, false, false),
                ("status", "103", false, false, false),
                ("x:", ":", false, false, false),
                ("", "", false, false, false),
            ] {
                let mut account = account();
                let block = literal(marks, name.as_bytes(), value.as_bytes(), coded);
                let section = seen(&mut account, &block).unwrap();
                let found = (
                    section.has_pseudo_fields(),
                    section.is_response(),
                    section.is_interim(),
                );
                assert_eq!(found, (pseudo, answer, interim), "{name} {marks:x} {coded}");
                if marks == 0x40 {
                    // §2.3.3: 62 is the newest entry; its name alone is in 0x0f 0x2f.
                    assert_eq!(seen(&mut account, &[0x80 | 62]), Ok(section), "{name}");
                    let named = seen(&mut account, &[0x0f, 47, 0]).unwrap();
                    assert_eq!(
                        (named.has_pseudo_fields(), named.is_interim()),
                        (pseudo, false),
                        "{name}"
                    );
                }
            }
        }
    }
    // The static table (RFC 7541, Appendix A).
    for (index, is_response) in [
        (1, false),
        (2, false),
        (4, false),
        (7, false),
        (8, true),
        (14, true),
    ] {
        let section = seen(&mut account(), &[0x80 | index]).unwrap();
        assert!(section.has_pseudo_fields(), "{index}");
        assert_eq!(
            (section.is_response(), section.is_interim()),
            (is_response, false),
            "{index}"
        );
    }
    assert!(
        !seen(&mut account(), &[0x80 | 15])
            .unwrap()
            .has_pseudo_fields()
    );
    let both = seen(&mut account(), &[0x88, 0x84]).unwrap();
    assert!(both.has_pseudo_fields() && !both.is_response());
}

/// RFC 9113 §8.3: each pseudo-field once, and all of them before the other fields.
#[test]
fn repeated_or_misplaced_pseudo_header_fields_are_found() {
    let [method, scheme, path, regular] = [2, 6, 4, 16].map(|index| vec![0x80 | index]);
    let custom = || literal(0x00, b"x", b"", false);
    for (fields, misplaced) in [
        (&[&method, &scheme, &path, &regular][..], false),
        (&[&method, &scheme, &path, &regular, &regular], false),
        (&[&path, &method], false),
        (&[&method, &method], true),
        // The same name with another value: GET and POST.
        (&[&method, &vec![0x83]], true),
        (&[&method, &scheme, &path, &scheme], true),
        (&[&regular, &method], true),
        (&[&method, &regular, &path], true),
        (&[&method, &custom(), &path], true),
        (
            &[
                &literal(0x10, b":authority", b"a", false),
                &literal(0x10, b":authority", b"b", true),
            ],
            true,
        ),
        (
            &[
                &literal(0x10, b":protocol", b"a", true),
                &literal(0x10, b":protocol", b"a", false),
            ],
            true,
        ),
        (&[&literal(0x10, b":path", b"/", true), &path], true),
        (&[&custom(), &literal(0x10, b":path", b"/", true)], true),
    ] {
        let block = fields
            .iter()
            .copied()
            .flatten()
            .copied()
            .collect::<Vec<_>>();
        let section = seen(&mut account(), &block).unwrap();
        assert_eq!(
            section.has_misplaced_pseudo_fields(),
            misplaced,
            "{block:x?}"
        );
        // And in pieces of a byte.
        let mut account = account();
        block.chunks(1).for_each(|byte| account.see(byte).unwrap());
        assert_eq!(account.end(), Ok(section), "{block:x?}");
    }
    // The next section starts anew.
    let mut account = account();
    seen(&mut account, &[0x82, 0x90]).unwrap();
    assert!(
        !seen(&mut account, &[0x82, 0x90])
            .unwrap()
            .has_misplaced_pseudo_fields()
    );
}

/// RFC 9113 §8.2.2, in each of the forms that HPACK has for a field.
#[test]
fn connection_specific_fields_are_found_in_every_hpack_form() {
    for (name, value, of_connections) in [
        ("connection", "close", true),
        ("connection", "", true),
        ("keep-alive", "timeout=5", true),
        ("proxy-connection", "close", true),
        ("transfer-encoding", "chunked", true),
        ("upgrade", "h2c", true),
        ("te", "trailers", false),
        ("te", "Trailers", false),
        ("te", "gzip", true),
        ("te", "trailers, gzip", true),
        ("te", "", true),
        // Others of the same lengths.
        ("connectio_", "close", false),
        ("user-agent", "connection", false),
        ("referer", "upgrade", false),
        ("x-forwarded-host", "a", false),
        ("if-modified-sinc", "a", false),
        ("xt", "gzip", false),
        ("", "connection", false),
    ] {
        for coded in [false, true] {
            for marks in [0x00, 0x10, 0x40] {
                let mut account = account();
                let block = literal(marks, name.as_bytes(), value.as_bytes(), coded);
                let found = seen(&mut account, &block).unwrap().has_connection_fields();
                assert_eq!(found, of_connections, "{name}: {value} {marks:x} {coded}");
                if marks == 0x40 {
                    let indexed = seen(&mut account, &[0x80 | 62]).unwrap();
                    assert_eq!(
                        indexed.has_connection_fields(),
                        of_connections,
                        "{name}: {value}"
                    );
                    // The name alone: the value does not count.
                    let named =
                        seen(&mut account, &[&[0x0f, 47, 8][..], b"trailers"].concat()).unwrap();
                    let expected = of_connections && name != "te";
                    assert_eq!(named.has_connection_fields(), expected, "{name}");
                }
            }
        }
    }
    // `transfer-encoding` is in the static table (RFC 7541, Appendix A).
    assert!(
        seen(&mut account(), &[0x80 | 57])
            .unwrap()
            .has_connection_fields()
    );
}

/// RFC 9113 §8.3.1: `:path` has no fragment; other fields may have any number sign.
#[test]
fn a_fragment_in_path_is_found_with_and_without_huffman() {
    for (name, value, has) in [
        (":path", "/p#x", true),
        (":path", "#", true),
        (":path", "/p?x%23", false),
        (":authority", "a#b", false),
        ("referer", "/p#x", false),
    ] {
        for coded in [false, true] {
            let mut account = account();
            let block = literal(0x40, name.as_bytes(), value.as_bytes(), coded);
            assert_eq!(
                seen(&mut account, &block).unwrap().has_fragment(),
                has,
                "{value} {coded}"
            );
            assert_eq!(
                seen(&mut account, &[0x80 | 62]).unwrap().has_fragment(),
                has,
                "{value}, indexed"
            );
        }
    }
}

#[test]
fn a_dynamic_table_reference_counts_the_whole_field() {
    let mut account = account();
    let mut block = literal(0x40, b"a", &[b'x'; 4_000], true);
    block.extend([0x80 | 62; 14]);
    account.longest = 4_000;
    let section = seen(&mut account, &block).unwrap();
    assert_eq!((section.size, section.fields), (15 * 4_033, 15));
}

/// RFC 7541 §4.4: an entry larger than the table empties it. §4.3: so does a table of size 0.
#[test]
fn dynamic_table_entries_are_evicted_as_it_shrinks() {
    let mut account = BlockAccount::new(100, 1024);
    let block = [
        literal(0x40, b"a", b"b", false),
        literal(0x40, b"c", b"d", false),
    ]
    .concat();
    assert_eq!(seen(&mut account, &block).unwrap().size, 68);
    assert_eq!(seen(&mut account, &[0x80 | 63]).unwrap().fields, 1);
    seen(&mut account, &literal(0x40, b"e", b"f", false)).unwrap();
    assert_eq!(seen(&mut account, &[0x80 | 64]), Err(HpackError::Index));
    let mut account = BlockAccount::new(100, 1024);
    seen(&mut account, &block).unwrap();
    seen(&mut account, &literal(0x40, b"large", &[b'x'; 64], false)).unwrap();
    assert_eq!(seen(&mut account, &[0x80 | 62]), Err(HpackError::Index));
    let mut account = BlockAccount::new(100, 1024);
    seen(&mut account, &block).unwrap();
    seen(&mut account, &[0x20, 0x3f, 69]).unwrap();
    assert_eq!(seen(&mut account, &[0x80 | 62]), Err(HpackError::Index));
}

/// RFC 7541 §2.3.3, §4.2, §5.1, §5.2.
#[test]
fn undecodable_hpack_blocks_are_errors() {
    for (block, error) in [
        (&[0x80][..], HpackError::Index),
        (&[0x80 | 62], HpackError::Index),
        (&[0x82, 0x20], HpackError::TableSize),
        (&[0x3f, 0xe2, 0x1f], HpackError::TableSize),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], HpackError::Number),
        (&[0x40, 0x81, 0x00, 0x00], HpackError::Huffman),
        (&[0x44, 0x81, 0x00], HpackError::Huffman),
        (&[0x44, 0x02, b'/'], HpackError::Cut),
        (&[0x40], HpackError::Cut),
    ] {
        assert_eq!(seen(&mut account(), block), Err(error), "{block:x?}");
    }
}

#[test]
fn an_hpack_block_may_arrive_in_any_pieces() {
    let mut encoder = HpackEncoder::new();
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value) in [
        (":method", "GET"),
        (":path", "/p#"),
        ("x-long", &"y".repeat(300)),
    ] {
        encoder.encode(
            name.as_bytes(),
            value.as_bytes(),
            Indexing::Keep,
            &mut block,
        );
    }
    let whole = seen(&mut account(), &block).unwrap();
    for length in 1..block.len() {
        let mut account = account();
        for piece in block.chunks(length) {
            account.see(piece).unwrap();
        }
        assert_eq!(account.end(), Ok(whole), "{length}");
        assert_eq!(account.held.capacity(), 0);
    }
}

/// RFC 9113 §4.3: the fields behind it are read as before. RFC 7541 §4.4: a field that is larger
/// than the table empties it.
#[test]
fn a_long_hpack_value_is_skipped_without_buffering() {
    let short = literal(0x40, b"a", b"b", false);
    for (marks, empties) in [(0x00, false), (0x10, false), (0x40, true)] {
        for name in [&b"x"[..], b":path"] {
            for piece in [1, 100, 16_384] {
                let mut account = account();
                seen(&mut account, &short).unwrap();
                let long = [literal(marks, name, &[b'#'; 100_000], false), vec![0x82]].concat();
                for piece in long.chunks(piece) {
                    account.see(piece).unwrap();
                    assert!(account.held.len() <= 16_384);
                }
                assert_eq!((account.held.capacity(), account.passing), (0, 0));
                let section = account.end().unwrap();
                assert!(section.has_long_fields() && section.fields == 2 && section.size > 100_000);
                assert_eq!(section.has_misplaced_pseudo_fields(), name == b"x");
                let known =
                    seen(&mut account, &[0x80 | 62]).map(|section| section.has_long_fields());
                assert_eq!(
                    known,
                    if empties {
                        Err(HpackError::Index)
                    } else {
                        Ok(false)
                    },
                    "{marks:x}"
                );
            }
        }
    }
}

#[test]
fn an_unterminated_long_field_is_no_section() {
    let mut account = account();
    account
        .see(&[0x40, 1, b'a', 0x7f, 0xff, 0xff, 0x7f])
        .unwrap();
    account.see(&[b'x'; 20_000]).unwrap();
    assert!(account.passing > 0 && account.held.is_empty());
    assert_eq!(account.end(), Err(HpackError::Cut));
}

#[test]
fn a_long_field_name_is_refused() {
    let mut account = account();
    account.see(&[0x40, 0x7f, 0xff, 0xff, 0x7f]).unwrap();
    assert_eq!(account.see(&[b'x'; 16_379]), Ok(()));
    assert_eq!(account.see(b"x"), Err(HpackError::TooLarge));
}

/// The largest section of a block is counted without decoding.
#[test]
fn hpack_accounting_agrees_with_the_decoder() {
    let (mut account, mut decoder) = (account(), HpackDecoder::new(TABLE_SIZE));
    for round in 0..200_usize {
        let mut block = Vec::new();
        for field in 0..round % 7 {
            let value = vec![b'a' + (round % 26) as u8; (round * 37 + field * 411) % 1_500];
            let marks = [0x40, 0x00, 0x10][(round + field) % 3];
            block.extend(literal(
                marks,
                format!("n{}", round % 40).as_bytes(),
                &value,
                field % 2 == 0,
            ));
            block.push(0x82);
        }
        account.longest = 4_096;
        let (mut real, mut fields) = (0, 0);
        let take = |name: &[u8], value: &[u8]| {
            real += name.len() + value.len() + 32;
            fields += 1;
        };
        decoder.decode(&block, 1 << 20, take).unwrap();
        let section = seen(&mut account, &block).unwrap();
        assert!(
            section.size >= real && section.size <= real * 8 / 5 + 64,
            "{section:?} {real}"
        );
        assert_eq!(section.fields, fields);
    }
}
