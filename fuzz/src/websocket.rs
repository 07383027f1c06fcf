//! WebSocket: how frames arrive does not matter, and what a client writes is what a server would
//! have written, masked.

use lockgate_load::websocket::frame::{self, FrameDecoder, FrameError, FramePart, Opcode};

/// Long enough for a length of 64 bits.
const LIMIT: u64 = 70_000;

/// Any bytes as what a server sends.
pub fn ws_frame(data: &[u8]) {
    let whole = read([data]);
    for cut in crate::cuts(data.len()) {
        assert_eq!(read([&data[..cut], &data[cut..]]), whole, "cut at {cut}");
    }
    assert_eq!(read(data.chunks(1)), whole, "byte by byte");
    for (opcode, payload) in whole.said {
        written(opcode, &payload);
    }
    if let Some((key, payload)) = data.split_first_chunk() {
        masked(*key, payload);
    }
}

/// What frames have said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    /// Messages and control frames, in the order of their ends.
    said: Vec<(Opcode, Vec<u8>)>,
    /// What has come of a message that has not ended.
    begun: Vec<u8>,
    error: Option<FrameError>,
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let (mut decoder, mut read, mut input) =
        (FrameDecoder::new(LIMIT), Read::default(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut at = 0;
        loop {
            let rest = &input[at..];
            at += match decoder.decode(rest) {
                Ok(FramePart::Data(range)) => {
                    assert!(!range.is_empty(), "data is some");
                    read.begun.extend_from_slice(&rest[range.clone()]);
                    assert!(read.begun.len() as u64 <= LIMIT);
                    range.end
                }
                Ok(FramePart::End(opcode, used)) => {
                    assert!(matches!(opcode, Opcode::Text | Opcode::Binary));
                    read.said.push((opcode, std::mem::take(&mut read.begun)));
                    used
                }
                Ok(FramePart::Control(opcode, range)) => {
                    assert!(range.len() <= 125 && !matches!(opcode, Opcode::Text | Opcode::Binary));
                    read.said.push((opcode, rest[range.clone()].to_vec()));
                    range.end
                }
                Ok(FramePart::More(used)) => {
                    at += used;
                    break;
                }
                Err(error) => {
                    return Read {
                        error: Some(error),
                        ..read
                    };
                }
            };
        }
        input.drain(..at);
        // What must be there at once is a control frame at the most.
        assert!(input.len() < 2 + 125);
    }
    read
}

/// As a client writes it, it is no frame of a server; without its mask it is, and says the same.
fn written(opcode: Opcode, payload: &[u8]) {
    let (mut frame, key) = (Vec::new(), [0x37, 0xfa, 0x21, 0x3d]);
    frame::encode(&mut frame, opcode, payload, key);
    assert_eq!(read([&frame[..]]).error, Some(FrameError::Masked));
    let head = frame.len() - payload.len();
    assert_eq!(frame[head - 4..head], key);
    for (index, byte) in frame[head..].iter_mut().enumerate() {
        *byte ^= key[index % 4];
    }
    frame.drain(head - 4..head);
    frame[1] &= 0x7f;
    let said = vec![(opcode, payload.to_vec())];
    assert_eq!(
        read([&frame[..]]),
        Read {
            said,
            ..Read::default()
        }
    );
}

/// RFC 6455 §5.3, byte by byte.
fn masked(key: [u8; 4], payload: &[u8]) {
    let mut frame = Vec::new();
    frame::encode(&mut frame, Opcode::Binary, payload, key);
    let expected = payload
        .iter()
        .enumerate()
        .map(|(index, byte)| byte ^ key[index % 4]);
    assert!(
        frame[frame.len() - payload.len()..]
            .iter()
            .copied()
            .eq(expected)
    );
}
