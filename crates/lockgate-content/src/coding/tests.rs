//! Codings there and back, in pieces and whole, and the decoding of damaged bytes.

use super::*;
use crate::StepProgress;

const CODED: [Coded; 4] = [Coded::Zstd, Coded::Brotli, Coded::Gzip, Coded::Deflate];

/// Text that compresses like a page does.
fn page(len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut state = 1_u32;
    while text.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (number, class) = (state >> 16, state >> 28);
        text.extend_from_slice(
            format!("<li class=\"c{class}\"><a href=\"/item/{number}\">Item {number}</a>\n")
                .as_bytes(),
        );
    }
    text.truncate(len);
    text
}

fn decoded(coding: Coding, coded: &[u8]) -> Vec<u8> {
    decode_all(coding.into(), coded, 1 << 30).unwrap()
}

/// `content` in zlib's format, or as deflate alone.
fn deflated(content: &[u8], zlib: bool) -> Vec<u8> {
    let mut state = flate2::Compress::new(flate2::Compression::new(6), zlib);
    let mut out = Vec::with_capacity(content.len() + 1024);
    state
        .compress_vec(content, &mut out, flate2::FlushCompress::Finish)
        .unwrap();
    out
}

#[test]
fn content_encoded_in_any_pieces_decodes_at_every_level() {
    let long = page(24_000);
    for coding in Coding::ALL {
        for level in coding.levels() {
            for content in [&b""[..], b"x", &long[..3_000], &long] {
                let whole = encode_all(coding, level, content);
                assert_eq!(
                    decoded(coding, &whole),
                    content,
                    "{coding:?} {level} whole, {}",
                    content.len()
                );
                let (mut encoder, mut out) = (ContentEncoder::new(coding, level), Vec::new());
                for piece in content.chunks(7_001) {
                    encoder.write(piece, &mut out);
                }
                encoder.finish(&mut out);
                assert_eq!(
                    decoded(coding, &out),
                    content,
                    "{coding:?} {level} in pieces, {}",
                    content.len()
                );
                if content.len() > 10_000 {
                    assert!(
                        whole.len() < content.len() / 3,
                        "{coding:?} {level}: {}",
                        whole.len()
                    );
                }
            }
        }
    }
}

#[test]
fn after_a_flush_the_decoder_has_everything_so_far() {
    for coding in Coding::ALL {
        for level in [
            *coding.levels().start(),
            coding.fast_level(),
            coding.kept_level(),
        ] {
            let mut encoder = ContentEncoder::new(coding, level);
            let mut decoder = ContentDecoder::new(coding.into(), u64::MAX);
            let (mut written, mut read, mut said) = (Vec::new(), Vec::new(), Vec::new());
            for at in 0..40 {
                let event = format!("data: {at} {}\n\n", "z".repeat(at * at * 7));
                said.extend_from_slice(event.as_bytes());
                encoder.write(event.as_bytes(), &mut written);
                encoder.flush(&mut written);
                // A second flush adds nothing harmful.
                encoder.flush(&mut written);
                let mut coded = &written[..];
                while decoder.step(&mut coded, &mut read, 100).unwrap() == StepProgress::Full {}
                written.clear();
                assert_eq!(read, said, "{coding:?} {level}, event {at}");
            }
            encoder.finish(&mut written);
            let mut coded = &written[..];
            assert_eq!(
                decoder.step(&mut coded, &mut read, 1),
                Ok(StepProgress::Done)
            );
            assert_eq!((decoder.end(), read), (Ok(()), said));
        }
    }
}

#[test]
fn a_reused_encoder_gives_the_same_bytes_as_a_new() {
    let (first, second) = (page(60_000), page(20_000).split_off(13));
    for coding in Coding::ALL {
        for level in [coding.fast_level(), coding.kept_level()] {
            let (mut used, mut fresh) = (Vec::new(), Vec::new());
            let mut encoder = ContentEncoder::new(coding, level);
            encoder.whole(&first, &mut used);
            // And one that was abandoned in the middle.
            encoder.write(&first[..30_000], &mut Vec::new());
            for length in [None, Some(second.len() as u64)] {
                used.clear();
                fresh.clear();
                encoder.begin(length);
                let mut other = ContentEncoder::new(coding, level);
                other.begin(length);
                for piece in second.chunks(9_000) {
                    encoder.write(piece, &mut used);
                    other.write(piece, &mut fresh);
                }
                encoder.finish(&mut used);
                other.finish(&mut fresh);
                assert!(used == fresh, "{coding:?} {level} {length:?}");
            }
            used.clear();
            encoder.whole(&second, &mut used);
            assert!(
                used == encode_all(coding, level, &second),
                "{coding:?} {level}"
            );
        }
    }
}

#[test]
fn a_wrong_length_hint_does_no_harm() {
    let content = page(50_000);
    for coding in Coding::ALL {
        for length in [0, 1, 49_999, u64::MAX] {
            let (mut encoder, mut out) = (ContentEncoder::new(coding, 3), Vec::new());
            encoder.begin(Some(length));
            encoder.write(&content, &mut out);
            encoder.finish(&mut out);
            assert_eq!(decoded(coding, &out), content, "{coding:?} {length}");
        }
    }
}

#[test]
fn zstd_windows_are_small_enough_for_clients() {
    // RFC 8878 §3.1.1.1: behind magic and descriptor, the window's exponent in five bits, unless it
    // is a single segment.
    let content = page(3 << 20);
    let (mut encoder, mut out) = (ContentEncoder::new(Coding::Zstd, 19), Vec::new());
    encoder.write(&content[..1000], &mut out);
    encoder.flush(&mut out);
    assert_eq!(out[4] & 0x20, 0, "not a single segment");
    assert_eq!(10 + (out[5] >> 3), 20);
    let whole = encode_all(Coding::Zstd, 3, &content);
    assert_eq!((whole[4] & 0x20, 10 + (whole[5] >> 3)), (0, 20));
}

#[test]
fn gzip_headers_contain_neither_file_name_nor_time() {
    // RFC 1952 §2.3.1: flags, then the time.
    let out = encode_all(Coding::Gzip, 6, b"content");
    assert_eq!(out[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
}

#[test]
fn compression_levels_are_clamped_to_the_valid_range() {
    for coding in Coding::ALL {
        assert_eq!(
            ContentEncoder::new(coding, 200).level(),
            *coding.levels().end()
        );
        assert!(
            coding.levels().contains(&coding.fast_level())
                && coding.levels().contains(&coding.kept_level())
        );
    }
    assert_eq!(ContentEncoder::new(Coding::Gzip, 0).level(), 1);
}

#[test]
fn idle_encoders_are_reused_and_bounded() {
    let mut encoders = Encoders::new();
    let taken: Vec<_> = (0..10)
        .map(|_| encoders.take(Coding::Zstd, 3, None))
        .collect();
    for encoder in taken {
        encoders.give_back(encoder);
    }
    encoders.give_back(ContentEncoder::new(Coding::Brotli, 4));
    assert_eq!(encoders.idle(), KEPT);
    let (mut encoder, mut out) = (encoders.take(Coding::Zstd, 3, Some(4)), Vec::new());
    assert_eq!(encoders.idle(), KEPT - 1);
    encoder.write(b"text", &mut out);
    encoder.finish(&mut out);
    assert_eq!(decoded(Coding::Zstd, &out), b"text");
    encoders.take(Coding::Zstd, 4, None);
    assert_eq!(
        encoders.idle(),
        KEPT - 1,
        "another level is another encoder"
    );
}

#[test]
fn content_coding_names_are_case_insensitive() {
    // RFC 9110 §8.4.1: content codings are case-insensitive; §8.4.1.3: x-gzip.
    let table = [
        (&b"gzip"[..], Some(Coded::Gzip)),
        (b"X-GZip", Some(Coded::Gzip)),
        (b"Deflate", Some(Coded::Deflate)),
        (b"br", Some(Coded::Brotli)),
        (b"ZSTD", Some(Coded::Zstd)),
        (b"identity", None),
        (b"compress", None),
        (b"", None),
    ];
    for (token, coded) in table {
        assert_eq!(Coded::of(token), coded, "{token:?}");
    }
    for coding in Coding::ALL {
        assert_eq!(Coded::of(coding.token().as_bytes()), Some(coding.into()));
    }
}

#[test]
fn raw_and_zlib_deflate_are_decoded() {
    let content = page(100_000);
    for zlib in [true, false] {
        for content in [&content[..], b"", b"a"] {
            let coded = deflated(content, zlib);
            assert_eq!(
                decode_all(Coded::Deflate, &coded, 1 << 20).unwrap(),
                content
            );
        }
    }
}

/// `coded` in pieces of `size`, with `room` for each step.
fn in_pieces(
    kind: Coded,
    coded: &[u8],
    size: usize,
    room: usize,
    max: u64,
) -> Result<Vec<u8>, DecodeError> {
    let (mut decoder, mut out) = (ContentDecoder::new(kind, max), Vec::new());
    for mut piece in coded.chunks(size) {
        loop {
            let before = out.len();
            let step = decoder.step(&mut piece, &mut out, room)?;
            assert!(out.len() - before <= room);
            if step == StepProgress::Done {
                break;
            }
        }
        assert!(piece.is_empty());
    }
    decoder.end()?;
    Ok(out)
}

fn coded(kind: Coded, content: &[u8]) -> Vec<u8> {
    match kind {
        Coded::Zstd => encode_all(Coding::Zstd, 3, content),
        Coded::Brotli => encode_all(Coding::Brotli, 5, content),
        Coded::Gzip => encode_all(Coding::Gzip, 6, content),
        Coded::Deflate => deflated(content, true),
    }
}

#[test]
fn coded_content_decodes_in_any_pieces() {
    let content = page(10_000);
    for kind in CODED {
        let coded = coded(kind, &content);
        for (size, room) in [(1, 1), (1, 100_000), (100_000, 7), (7, 13), (4096, 4096)] {
            assert!(
                in_pieces(kind, &coded, size, room, 10_000).unwrap() == content,
                "{kind:?} {size} {room}"
            );
        }
    }
}

#[test]
fn truncated_coded_content_is_an_error() {
    let content = page(20_000);
    for kind in CODED {
        let coded = coded(kind, &content);
        for len in (1..coded.len())
            .step_by(1 + coded.len() / 100)
            .chain([coded.len() - 1])
        {
            assert_eq!(
                decode_all(kind, &coded[..len], 1 << 20),
                Err(DecodeError::Truncated),
                "{kind:?} {len}"
            );
        }
        assert_eq!(decode_all(kind, b"", 0), Ok(vec![]), "{kind:?}: no content");
    }
}

#[test]
fn a_decompression_bomb_ends_at_the_limit() {
    let zeros = vec![0; 4 << 20];
    for kind in CODED {
        let bomb = coded(kind, &zeros);
        assert!(bomb.len() < 10_000, "{kind:?}: {}", bomb.len());
        assert_eq!(
            decode_all(kind, &bomb, 1_000_000),
            Err(DecodeError::TooLong),
            "{kind:?}"
        );
        assert_eq!(
            decode_all(kind, &bomb, (4 << 20) - 1),
            Err(DecodeError::TooLong),
            "{kind:?}"
        );
        assert!(
            decode_all(kind, &bomb, 4 << 20).is_ok_and(|out| out == zeros),
            "{kind:?}"
        );
        let (mut decoder, mut out, mut input) =
            (ContentDecoder::new(kind, 100_000), Vec::new(), &bomb[..]);
        assert_eq!(
            decoder.step(&mut input, &mut out, 10_000),
            Ok(StepProgress::Full),
            "{kind:?}"
        );
        assert_eq!(out.len(), 10_000, "{kind:?}");
        assert_eq!(
            decoder.step(&mut input, &mut out, 1 << 30),
            Err(DecodeError::TooLong),
            "{kind:?}"
        );
        assert!(
            out.len() <= 100_000 && out.iter().all(|byte| *byte == 0),
            "{kind:?}: {}",
            out.len()
        );
        assert!(
            out.capacity() < 1 << 20,
            "{kind:?}: room for {}",
            out.capacity()
        );
    }
}

#[test]
fn oversized_decoder_windows_are_refused() {
    // RFC 8878 §3.1.1.1.2: a window of 2^41; RFC 9659 §3: more than 8 MB need not be supported.
    for exponent in [14_u8, 20, 31] {
        let frame = [
            0x28,
            0xb5,
            0x2f,
            0xfd,
            0x00,
            exponent << 3,
            0x01,
            0x00,
            0x00,
        ];
        assert_eq!(
            decode_all(Coded::Zstd, &frame, 100),
            Err(DecodeError::Invalid),
            "{exponent}"
        );
    }
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0x01, 0x00, 0x00];
    assert_eq!(decode_all(Coded::Zstd, &frame, 100), Ok(vec![]));
    // Brotli's large window: the byte 0x11, which has no meaning in RFC 7932 §9.1, then the
    // window's bits.
    assert_eq!(
        decode_all(Coded::Brotli, &[0x11, 0x1e, 0x03, 0x00], 100),
        Err(DecodeError::Invalid)
    );
}

#[test]
fn concatenated_gzip_members_and_zstd_frames_are_one_content() {
    // RFC 1952 §2.2, RFC 8878 §3.
    for kind in [Coded::Gzip, Coded::Zstd] {
        let both = [coded(kind, b"one "), coded(kind, b""), coded(kind, b"two")].concat();
        for size in [1, 5, 1000] {
            assert_eq!(
                in_pieces(kind, &both, size, 3, 7).unwrap(),
                b"one two",
                "{kind:?} {size}"
            );
        }
        let cut = [coded(kind, b"one"), coded(kind, b"two")[..6].to_vec()].concat();
        assert_eq!(
            decode_all(kind, &cut, 100),
            Err(DecodeError::Truncated),
            "{kind:?}"
        );
    }
    // A skippable frame: RFC 8878 §3.1.2.
    let skipped = [
        &[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..],
        &coded(Coded::Zstd, b"text"),
    ]
    .concat();
    assert_eq!(in_pieces(Coded::Zstd, &skipped, 1, 1, 4).unwrap(), b"text");
}

#[test]
fn bytes_after_the_end_of_coded_content_are_ignored() {
    for kind in [Coded::Gzip, Coded::Brotli, Coded::Deflate] {
        let padded = [&coded(kind, b"text")[..], &[0; 700], b"rest"].concat();
        for size in [1, 1000] {
            assert_eq!(
                in_pieces(kind, &padded, size, 50, 100).unwrap(),
                b"text",
                "{kind:?}"
            );
        }
    }
}

#[test]
fn corrupt_coded_content_is_refused() {
    let content = page(5_000);
    for kind in CODED {
        assert!(
            decode_all(kind, b"<!doctype html><title>not coded</title>", 1000).is_err(),
            "{kind:?}"
        );
    }
    // Codings with a checksum notice a changed byte of content.
    for kind in [Coded::Gzip, Coded::Deflate] {
        let mut coded = coded(kind, &content);
        let last = coded.len() - 1;
        coded[last - 5] ^= 0x40;
        assert!(decode_all(kind, &coded, 1 << 20).is_err(), "{kind:?}");
    }
}
