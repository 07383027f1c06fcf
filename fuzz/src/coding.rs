//! Content codings: what comes in coded is bounded and means the same however it arrives, and what
//! goes out comes back.

use lockgate_content::StepProgress;
use lockgate_content::coding::{
    Coded, Coding, ContentDecoder, ContentEncoder, DecodeError, decode_all,
};

const CODED: [Coded; 4] = [Coded::Zstd, Coded::Brotli, Coded::Gzip, Coded::Deflate];

/// A byte that says which coding, one that says how much may come out, and any bytes.
pub fn decode(data: &[u8]) {
    let Some(([which, exponent], coded)) = data.split_first_chunk() else {
        return;
    };
    let (kind, max) = (CODED[usize::from(which % 4)], 1 << (exponent % 20));
    let whole = decode_all(kind, coded, max);
    assert!(whole.as_ref().is_ok_and(|out| out.len() as u64 <= max) || whole.is_err());
    for (size, room) in [(1, 1000), (7, 1), (1 << 20, 13)] {
        let pieces = in_pieces(kind, coded.chunks(size), room, max);
        assert_eq!(pieces.is_ok(), whole.is_ok(), "{size} {room}: {whole:?}");
        if pieces.is_ok() {
            assert_eq!(pieces, whole, "{size} {room}");
        }
    }
    let coding = Coding::ALL[usize::from(which / 4 % 3)];
    let (mut encoder, mut out) = (
        ContentEncoder::new(coding, *coding.levels().start()),
        Vec::new(),
    );
    for piece in coded.chunks(1 + usize::from(*exponent)) {
        encoder.write(piece, &mut out);
        if exponent % 2 == 0 {
            encoder.flush(&mut out);
        }
    }
    encoder.finish(&mut out);
    assert_eq!(
        decode_all(coding.into(), &out, coded.len() as u64).as_deref(),
        Ok(coded)
    );
}

fn in_pieces<'a>(
    kind: Coded,
    pieces: impl Iterator<Item = &'a [u8]>,
    room: usize,
    max: u64,
) -> Result<Vec<u8>, DecodeError> {
    let (mut decoder, mut out) = (ContentDecoder::new(kind, max), Vec::new());
    for mut piece in pieces {
        loop {
            let before = out.len();
            let progress = decoder.step(&mut piece, &mut out, room)?;
            assert!(out.len() - before <= room && out.len() as u64 <= max);
            if progress == StepProgress::Done {
                break;
            }
        }
        assert!(piece.is_empty());
    }
    decoder.end().map(|()| out)
}
