//! WebSocket frames (RFC 6455 §5): encoder of client frames, decoder of server frames.
//!
//! Received payload is never copied: it is a range of the input. Messages are written unfragmented;
//! fragments are read.

use std::ops::Range;

/// Limit of a control frame's payload (§5.5).
const MAX_CONTROL: usize = 125;

/// Bits of a frame's first byte (§5.2).
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
/// Bits of the second byte.
const MASK: u8 = 0x80;
const LENGTH: u8 = 0x7f;

/// Opcode of a message or control frame (§5.5, §5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// Text message (§5.6), not checked for UTF-8.
    Text = 0x1,
    /// Binary message (§5.6), which clients send.
    Binary = 0x2,
    /// Close: no payload, or a status of two bytes and a reason (§5.5.1).
    Close = 0x8,
    /// Ping, answered by a pong with the same payload.
    Ping = 0x9,
    /// Pong, the response to a ping.
    Pong = 0xa,
}

impl Opcode {
    fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// Appends one message or control frame with `mask`, which must be random and new for each frame
/// (§5.3).
///
/// The caller must keep the payload of a control frame to 125 bytes.
pub fn encode(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: [u8; 4]) {
    debug_assert!(
        !opcode.is_control() || payload.len() <= MAX_CONTROL,
        "a control frame is short"
    );
    out.push(FIN | opcode as u8);
    match payload.len() {
        short @ 0..=125 => out.push(MASK | short as u8),
        middle @ 126..=0xffff => {
            out.push(MASK | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(MASK | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    // Eight at a time, of which the compiler makes as many as a register holds.
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = out[start..].as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// Error of bytes that are no server frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A bit that only an extension gives a meaning (§5.2).
    #[error("a reserved bit is set, and no extension was agreed upon")]
    Reserved,
    /// An opcode without a meaning (§5.2).
    #[error("the opcode {0:#x} has no meaning")]
    Opcode(u8),
    /// A server must not mask (§5.1).
    #[error("a server's frame is masked")]
    Masked,
    /// A control frame is fragmented (§5.5).
    #[error("a control frame is fragmented")]
    ControlFragmented,
    /// A control frame has more than 125 bytes of payload (§5.5).
    #[error("a control frame has more than 125 bytes")]
    ControlTooLong,
    /// A fragment that continues nothing (§5.4).
    #[error("a continuation without a message to continue")]
    Continuation,
    /// A message begins among the fragments of another (§5.4).
    #[error("a message begins before the previous one has ended")]
    Interleaved,
    /// A length in more bytes than it needs, or with its top bit set (§5.2).
    #[error("a length has an invalid encoding")]
    Length,
    /// The message is longer than the limit.
    #[error("the message is longer than {0} bytes")]
    TooLong(u64),
}

/// The next part of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FramePart {
    /// Payload of a message, in this range of the input, which is used up to its end.
    Data(Range<usize>),
    /// The end of a text or binary message, and the number of bytes used.
    End(Opcode, usize),
    /// A control frame with its payload in this range of the input, which is used up to its end. It
    /// may come between the fragments of a message.
    Control(Opcode, Range<usize>),
    /// The input is incomplete: so many bytes were used, and the rest must come again.
    More(usize),
}

/// Decoder of a server's frames.
#[derive(Debug, Clone)]
pub struct FrameDecoder {
    /// Limit of a message in bytes.
    limit: u64,
    state: State,
    /// The message under way, and its length in the frames so far.
    message: Option<(Opcode, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the begin of a frame.
    FrameHeader,
    /// Within the payload of a data frame.
    Payload { left: u64, last: bool },
}

/// Header of a frame (§5.2).
#[derive(Debug, Clone, Copy)]
struct FrameHeader {
    opcode: Option<Opcode>,
    last: bool,
    length: u64,
    /// Length of the header itself.
    used: usize,
}

impl FrameDecoder {
    /// A decoder that refuses messages of more than `limit` bytes, all fragments together, at the
    /// first header that exceeds it.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            state: State::FrameHeader,
            message: None,
        }
    }

    /// Decodes the front of `input`.
    ///
    /// # Errors
    /// The input is no frame: the connection is of no more use.
    pub fn decode(&mut self, input: &[u8]) -> Result<FramePart, FrameError> {
        let mut at = 0;
        loop {
            match &mut self.state {
                State::Payload { left: 0, last } => {
                    let last = *last;
                    self.state = State::FrameHeader;
                    if last && let Some((opcode, _)) = self.message.take() {
                        return Ok(FramePart::End(opcode, at));
                    }
                }
                State::Payload { left, .. } => {
                    let here = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len() - at);
                    if here == 0 {
                        return Ok(FramePart::More(at));
                    }
                    *left -= here as u64;
                    return Ok(FramePart::Data(at..at + here));
                }
                State::FrameHeader => {
                    let Some(head) = parse(&input[at..])? else {
                        return Ok(FramePart::More(at));
                    };
                    match head.opcode {
                        Some(opcode) if opcode.is_control() => {
                            let payload = at + head.used..at + head.used + head.length as usize;
                            let whole = payload.end <= input.len();
                            return Ok(if whole {
                                FramePart::Control(opcode, payload)
                            } else {
                                FramePart::More(at)
                            });
                        }
                        opcode => self.begin(opcode, head)?,
                    }
                    at += head.used;
                }
            }
        }
    }

    /// Begins a data frame: the first of a message, or a continuation.
    fn begin(&mut self, opcode: Option<Opcode>, head: FrameHeader) -> Result<(), FrameError> {
        let (opcode, before) = match (opcode, self.message) {
            (None, Some(message)) => message,
            (Some(opcode), None) => (opcode, 0),
            (None, None) => return Err(FrameError::Continuation),
            (Some(_), Some(_)) => return Err(FrameError::Interleaved),
        };
        let length = before.saturating_add(head.length);
        if length > self.limit {
            return Err(FrameError::TooLong(self.limit));
        }
        self.message = Some((opcode, length));
        self.state = State::Payload {
            left: head.length,
            last: head.last,
        };
        Ok(())
    }
}

/// Parses a frame header; `None`: it is not whole.
fn parse(input: &[u8]) -> Result<Option<FrameHeader>, FrameError> {
    let &[first, second, ref rest @ ..] = input else {
        return Ok(None);
    };
    if first & RESERVED != 0 {
        return Err(FrameError::Reserved);
    }
    let opcode = match first & OPCODE {
        0x0 => None,
        0x1 => Some(Opcode::Text),
        0x2 => Some(Opcode::Binary),
        0x8 => Some(Opcode::Close),
        0x9 => Some(Opcode::Ping),
        0xa => Some(Opcode::Pong),
        unknown => return Err(FrameError::Opcode(unknown)),
    };
    if second & MASK != 0 {
        return Err(FrameError::Masked);
    }
    let (last, short) = (first & FIN != 0, second & LENGTH);
    if opcode.is_some_and(Opcode::is_control) {
        if !last {
            return Err(FrameError::ControlFragmented);
        }
        if usize::from(short) > MAX_CONTROL {
            return Err(FrameError::ControlTooLong);
        }
    }
    let (length, used, least) = match short {
        126 => match rest.first_chunk() {
            Some(bytes) => (u16::from_be_bytes(*bytes).into(), 4, 126),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(bytes) => (u64::from_be_bytes(*bytes), 10, 0x1_0000),
            None => return Ok(None),
        },
        short => (short.into(), 2, 0),
    };
    if length < least || length > u64::MAX >> 1 {
        return Err(FrameError::Length);
    }
    Ok(Some(FrameHeader {
        opcode,
        last,
        length,
        used,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100_000;

    /// A message or a control frame.
    type Event = (Opcode, Vec<u8>);

    /// The events of an input in pieces of `step` bytes, the rest of an unfinished message, and the
    /// result.
    fn read(input: &[u8], step: usize) -> (Vec<Event>, Vec<u8>, Result<(), FrameError>) {
        let mut decoder = FrameDecoder::new(LIMIT);
        let (mut events, mut message) = (Vec::new(), Vec::new());
        let (mut used, mut end) = (0, 0);
        loop {
            match decoder.decode(&input[used..end]) {
                Ok(FramePart::Data(range)) => {
                    message.extend_from_slice(&input[used..end][range.clone()]);
                    used += range.end;
                }
                Ok(FramePart::End(opcode, more)) => {
                    events.push((opcode, std::mem::take(&mut message)));
                    used += more;
                }
                Ok(FramePart::Control(opcode, range)) => {
                    events.push((opcode, input[used..end][range.clone()].to_vec()));
                    used += range.end;
                }
                Ok(FramePart::More(more)) => {
                    used += more;
                    if end == input.len() {
                        return (events, message, Ok(()));
                    }
                    end = (end + step).min(input.len());
                }
                Err(error) => return (events, message, Err(error)),
            }
        }
    }

    fn event(opcode: Opcode, payload: &[u8]) -> Event {
        (opcode, payload.to_vec())
    }

    #[test]
    fn the_examples_of_the_rfc_are_read_in_any_pieces() {
        use Opcode::*;
        let binary = |head: &[u8], length| [head, &vec![7; length]].concat();
        // §5.7: the unmasked examples.
        for (input, expected) in [
            (b"\x81\x05Hello".to_vec(), vec![event(Text, b"Hello")]),
            (
                b"\x01\x03Hel\x80\x02lo".to_vec(),
                vec![event(Text, b"Hello")],
            ),
            (b"\x89\x05Hello".to_vec(), vec![event(Ping, b"Hello")]),
            (b"\x8a\x05Hello".to_vec(), vec![event(Pong, b"Hello")]),
            (
                binary(b"\x82\x7e\x01\x00", 256),
                vec![event(Binary, &[7; 256])],
            ),
            (
                binary(b"\x82\x7f\0\0\0\0\0\x01\0\0", 65_536),
                vec![event(Binary, &[7; 65_536])],
            ),
            // §5.4: control frames between fragments, of which some are empty.
            (
                b"\x02\0\0\x01a\x89\x01p\0\0\x88\0\x80\x01b\x8a\0".to_vec(),
                vec![
                    event(Ping, b"p"),
                    event(Close, b""),
                    event(Binary, b"ab"),
                    event(Pong, b""),
                ],
            ),
            (
                b"\x81\0\x82\0\x88\x05\x03\xe8bye".to_vec(),
                vec![
                    event(Text, b""),
                    event(Binary, b""),
                    event(Close, b"\x03\xe8bye"),
                ],
            ),
            (binary(b"\x82\x7d", 125), vec![event(Binary, &[7; 125])]),
            (
                binary(b"\x82\x7e\x00\x7e", 126),
                vec![event(Binary, &[7; 126])],
            ),
            (
                binary(b"\x82\x7e\xff\xff", 65_535),
                vec![event(Binary, &[7; 65_535])],
            ),
            (binary(b"\x89\x7d", 125), vec![event(Ping, &[7; 125])]),
            (
                binary(b"\x82\x7f\0\0\0\0\0\x01\x86\xa0", 100_000),
                vec![event(Binary, &[7; 100_000])],
            ),
        ] {
            for step in (1..16).chain([4096, input.len()]) {
                assert_eq!(
                    read(&input, step),
                    (expected.clone(), Vec::new(), Ok(())),
                    "{step}"
                );
            }
        }
    }

    #[test]
    fn frames_that_no_server_may_send_are_refused() {
        use FrameError::*;
        for (input, error) in [
            // §5.1, with the two masked examples of §5.7.
            (&b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"[..], Masked),
            (b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", Masked),
            (b"\x81\x80", Masked),
            // §5.2.
            (b"\xc1\x00", Reserved),
            (b"\xa1\x00", Reserved),
            (b"\x91\x00", Reserved),
            (b"\x83\x00", Opcode(3)),
            (b"\x87\x00", Opcode(7)),
            (b"\x8b\x00", Opcode(11)),
            (b"\x0f\x00", Opcode(15)),
            (b"\x82\x7e\x00\x00", Length),
            (b"\x82\x7e\x00\x7d", Length),
            (b"\x82\x7f\0\0\0\0\0\0\xff\xff", Length),
            (b"\x82\x7f\x80\0\0\0\0\x01\0\0", Length),
            (b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", Length),
            // §5.4.
            (b"\x80\x00", Continuation),
            (b"\x00\x01", Continuation),
            (b"\x81\x00\x80\x00", Continuation),
            (b"\x01\x00\x81\x00", Interleaved),
            (b"\x01\x01a\x89\x00\x02\x00", Interleaved),
            // §5.5.
            (b"\x08\x00", ControlFragmented),
            (b"\x09\x00", ControlFragmented),
            (b"\x89\x7e\x00\x7e", ControlTooLong),
            (b"\x88\x7f", ControlTooLong),
            // §10.4: a limit of our own.
            (b"\x82\x7f\0\0\0\0\0\x01\x86\xa1", TooLong(LIMIT)),
            (b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", TooLong(LIMIT)),
            (b"\x01\x01a\x80\x7f\0\0\0\0\0\x01\x86\xa0", TooLong(LIMIT)),
            (
                b"\x01\x01a\x80\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
                TooLong(LIMIT),
            ),
        ] {
            for step in [1, input.len()] {
                assert_eq!(read(input, step).2, Err(error), "{}", input.escape_ascii());
            }
            // The error needs the whole input.
            assert_eq!(read(&input[..1], 1).2, Ok(()));
        }
    }

    #[test]
    fn payload_is_handed_on_as_it_comes_and_a_control_frame_when_it_is_whole() {
        let mut decoder = FrameDecoder::new(LIMIT);
        assert_eq!(decoder.decode(b"\x81"), Ok(FramePart::More(0)));
        assert_eq!(decoder.decode(b"\x81\x05"), Ok(FramePart::More(2)));
        assert_eq!(decoder.decode(b"Hel"), Ok(FramePart::Data(0..3)));
        assert_eq!(decoder.decode(b""), Ok(FramePart::More(0)));
        assert_eq!(decoder.decode(b"lo\x89\x02"), Ok(FramePart::Data(0..2)));
        assert_eq!(
            decoder.decode(b"\x89\x02"),
            Ok(FramePart::End(Opcode::Text, 0))
        );
        assert_eq!(decoder.decode(b"\x89\x02p"), Ok(FramePart::More(0)));
        assert_eq!(
            decoder.decode(b"\x89\x02pq\x81"),
            Ok(FramePart::Control(Opcode::Ping, 2..4))
        );
    }

    /// A server's view of a client's frame: its first byte, its payload, and how many bytes its
    /// head has.
    fn unmask(frame: &[u8]) -> (u8, Vec<u8>, usize) {
        assert_eq!(frame[1] & 0x80, 0x80, "it is masked");
        let (length, at) = match frame[1] & 0x7f {
            126 => (
                u64::from(u16::from_be_bytes(frame[2..4].try_into().unwrap())),
                4,
            ),
            127 => (u64::from_be_bytes(frame[2..10].try_into().unwrap()), 10),
            short => (u64::from(short), 2),
        };
        let (mask, masked) = frame[at..].split_at(4);
        assert_eq!(masked.len() as u64, length);
        // §5.3.
        let payload = masked
            .iter()
            .enumerate()
            .map(|(index, byte)| byte ^ mask[index % 4])
            .collect();
        (frame[0], payload, at)
    }

    #[test]
    fn a_message_is_written_masked_and_in_the_shortest_length() {
        let mut out = b"before".to_vec();
        encode(&mut out, Opcode::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d]);
        encode(&mut out, Opcode::Pong, b"Hello", [0x37, 0xfa, 0x21, 0x3d]);
        encode(&mut out, Opcode::Ping, b"", [1; 4]);
        encode(&mut out, Opcode::Close, b"\x03\xe8", [0, 0, 0xff, 0xff]);
        let expected = [
            // §5.7: the two masked examples.
            &b"before\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"[..],
            b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
            b"\x89\x80\x01\x01\x01\x01",
            b"\x88\x82\0\0\xff\xff\x03\xe8",
        ];
        assert_eq!(
            out.escape_ascii().to_string(),
            expected.concat().escape_ascii().to_string()
        );
        let lengths = (0..=20).chain([125, 126, 127, 1000, 65_535, 65_536, 65_537, 100_003]);
        for length in lengths {
            let payload: Vec<u8> = (0..length).map(|index| (index * 7 % 251) as u8).collect();
            let mut frame = Vec::new();
            encode(&mut frame, Opcode::Binary, &payload, [1, 20, 150, 255]);
            let head = if length < 126 {
                2
            } else if length < 65_536 {
                4
            } else {
                10
            };
            assert_eq!(unmask(&frame), (0x82, payload, head), "{length}");
        }
    }
}
