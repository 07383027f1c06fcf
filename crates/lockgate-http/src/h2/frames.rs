//! A scanner of frames in a stream of bytes (RFC 9113 §4.1): reads headers, not payloads.
//!
//! For counting a peer's frames beside the codec that reads them. The cost is per frame, not per
//! byte: payloads are skipped by their length. Checks nothing: the codec refuses a length that is
//! too large.

/// A frame with a complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// One of the constants below, or any other byte.
    pub kind: u8,
    /// The flags; their meaning depends on the kind.
    pub flags: u8,
    /// 31 bits; 0 is the connection.
    pub stream: u32,
    /// The length of the payload, padding included.
    pub length: u32,
    /// The payload of a [`PRIORITY_UPDATE`], and of a server's [`RST_STREAM`], unless it is too
    /// long to be valid; empty for others.
    pub payload: &'a [u8],
}

/// An element of a peer's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameEvent<'a> {
    /// The header of a frame, or the whole frame if its payload is kept.
    Frame(Frame<'a>),
    /// The next bytes of the last frame's field section (RFC 9113 §4.3), without padding and
    /// priority.
    Block(&'a [u8]),
    /// The end of the field section.
    Whole,
    /// The last frame makes its stream depend on itself. Codecs may refuse it without decoding its
    /// field section (RFC 7540 §5.3.1), and the tables of HPACK then differ.
    DependsOnItself,
}

/// RFC 9113 §6.1.
pub const DATA: u8 = 0x0;
/// RFC 9113 §6.2.
pub const HEADERS: u8 = 0x1;
/// RFC 9113 §6.3.
pub const PRIORITY: u8 = 0x2;
/// RFC 9113 §6.4.
pub const RST_STREAM: u8 = 0x3;
/// RFC 9113 §6.5.
pub const SETTINGS: u8 = 0x4;
/// RFC 9113 §6.6.
pub const PUSH_PROMISE: u8 = 0x5;
/// RFC 9113 §6.7.
pub const PING: u8 = 0x6;
/// RFC 9113 §6.8.
pub const GOAWAY: u8 = 0x7;
/// RFC 9113 §6.9.
pub const WINDOW_UPDATE: u8 = 0x8;
/// RFC 9113 §6.10.
pub const CONTINUATION: u8 = 0x9;
/// RFC 9218 §7.1.
pub const PRIORITY_UPDATE: u8 = 0x10;

/// The flag of DATA and HEADERS that ends a stream.
pub const END_STREAM: u8 = 0x1;
/// The flag of SETTINGS and PING that makes them an acknowledgement.
pub const ACK: u8 = 0x1;
/// The flag of HEADERS and CONTINUATION that ends a field section.
pub const END_HEADERS: u8 = 0x4;
/// The flag of DATA, HEADERS and PUSH_PROMISE that puts padding behind, and its length in front.
pub(super) const PADDED: u8 = 0x8;
/// The flag of HEADERS that puts five bytes of priority in front.
pub(super) const PRIORITISED: u8 = 0x20;

/// The name of the error code of a RST_STREAM or GOAWAY (RFC 9113 §7).
pub fn error_name(code: u32) -> Option<&'static str> {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(usize::try_from(code).ok()?).copied()
}

/// RFC 9113 §3.4: `PRI * HTTP/2.0`, an empty line, `SM`, an empty line.
const PREFACE: u32 = 24;
const HEADER: usize = 9;
/// The longest payload that is kept: a stream and its priority, for which 64 bytes are plenty.
const LONGEST_KEPT: usize = 4 + 64;

/// The scanner's position in the bytes of one peer. Allocates nothing.
#[derive(Debug)]
pub struct FrameScanner {
    at: ScanState,
    held: PartialInput,
    of_server: bool,
}

#[derive(Debug)]
enum ScanState {
    /// This many bytes are skipped, at least one.
    Skip(u32),
    Header,
    /// The payload of a frame with this header, which is kept.
    Payload(ScannedHeader),
    /// This many bytes before the field section of a frame with this header.
    Front(ScannedHeader, usize),
    /// This many bytes of a field section, with padding behind, and whether they are the last.
    Block {
        left: u32,
        padding: u32,
        last: bool,
    },
}

#[derive(Debug, Clone, Copy)]
struct ScannedHeader {
    kind: u8,
    flags: u8,
    stream: u32,
    length: u32,
}

impl FrameScanner {
    /// A scanner of a client's bytes, which begin with the preface. The codec checks the preface.
    pub fn of_client() -> Self {
        Self {
            at: ScanState::Skip(PREFACE),
            held: PartialInput::default(),
            of_server: false,
        }
    }

    /// A scanner of a server's bytes.
    pub fn of_server() -> Self {
        Self {
            at: ScanState::Header,
            held: PartialInput::default(),
            of_server: true,
        }
    }

    /// Whether the bytes ended within a frame.
    pub fn is_within_frame(&self) -> bool {
        !matches!(self.at, ScanState::Header) || self.held.len > 0
    }

    /// Scans the next bytes, which may end anywhere. Calls `each` once per frame: when its header
    /// is complete, or, if its payload is kept, when that is.
    pub fn scan(&mut self, bytes: &[u8], mut each: impl FnMut(Frame<'_>)) {
        self.follow(bytes, |seen| {
            if let FrameEvent::Frame(frame) = seen {
                each(frame);
            }
        });
    }

    /// The same, with the field sections.
    pub fn follow(&mut self, bytes: &[u8], mut each: impl FnMut(FrameEvent<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.at {
                ScanState::Skip(left) => {
                    // No length is above 2²⁴, and longer input exceeds it anyway.
                    let passed = rest.len().min(left as usize);
                    rest = &rest[passed..];
                    self.at = behind(left - passed as u32);
                }
                ScanState::Header => {
                    let Some(text) = self.held.take(HEADER, &mut rest) else {
                        return;
                    };
                    let header = ScannedHeader::of(text);
                    let kept = match header.kind {
                        PRIORITY_UPDATE => true,
                        RST_STREAM => self.of_server,
                        _ => false,
                    };
                    let kept = kept && (1..=LONGEST_KEPT).contains(&(header.length as usize));
                    if kept {
                        self.at = ScanState::Payload(header);
                        continue;
                    }
                    each(FrameEvent::Frame(header.with(b"")));
                    self.at = match header.front() {
                        None => behind(header.length),
                        Some(0) => header.block(0, 0, &mut each),
                        // Too short for its flags: the codec refuses it.
                        Some(front) if header.length < front as u32 => behind(header.length),
                        Some(front) => ScanState::Front(header, front),
                    };
                }
                ScanState::Front(header, front) => {
                    let Some(text) = self.held.take(front, &mut rest) else {
                        return;
                    };
                    let padding = if header.flags & PADDED != 0 {
                        u32::from(text[0])
                    } else {
                        0
                    };
                    if header.depends_on_itself(text) {
                        each(FrameEvent::DependsOnItself);
                    }
                    self.at = header.block(front as u32, padding, &mut each);
                }
                ScanState::Block {
                    left,
                    padding,
                    last,
                } => {
                    let (piece, behind_it) = rest.split_at(rest.len().min(left as usize));
                    rest = behind_it;
                    each(FrameEvent::Block(piece));
                    let left = left - piece.len() as u32;
                    self.at = blocks(left, padding, last, &mut each);
                }
                ScanState::Payload(header) => {
                    let Some(payload) = self.held.take(header.length as usize, &mut rest) else {
                        return;
                    };
                    self.at = ScanState::Header;
                    each(FrameEvent::Frame(header.with(payload)));
                }
            }
        }
    }
}

/// The position with this many bytes of a payload to come.
fn behind(left: u32) -> ScanState {
    if left == 0 {
        ScanState::Header
    } else {
        ScanState::Skip(left)
    }
}

/// The position with this many bytes of a field section to come.
fn blocks(left: u32, padding: u32, last: bool, each: &mut impl FnMut(FrameEvent<'_>)) -> ScanState {
    if left > 0 {
        return ScanState::Block {
            left,
            padding,
            last,
        };
    }
    if last {
        each(FrameEvent::Whole);
    }
    behind(padding)
}

impl ScannedHeader {
    /// From nine bytes (RFC 9113 §4.1); the reserved bit is ignored.
    fn of(text: &[u8]) -> Self {
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u32::from(*byte))
        };
        Self {
            length: number(&text[..3]),
            kind: text[3],
            flags: text[4],
            stream: number(&text[5..9]) & 0x7fff_ffff,
        }
    }

    /// The number of bytes before the field section, if the frame has one.
    fn front(self) -> Option<usize> {
        let (padded, prioritised) = (self.flags & PADDED != 0, self.flags & PRIORITISED != 0);
        match self.kind {
            HEADERS => Some(usize::from(padded) + if prioritised { 5 } else { 0 }),
            PUSH_PROMISE => Some(usize::from(padded) + 4),
            CONTINUATION => Some(0),
            _ => None,
        }
    }

    /// Whether the bytes before the field section name the frame's own stream as its dependency.
    fn depends_on_itself(self, front: &[u8]) -> bool {
        let prioritised = self.kind == HEADERS && self.flags & PRIORITISED != 0;
        let dependency = front
            .get(front.len().saturating_sub(5)..)
            .and_then(<[u8]>::first_chunk::<4>);
        // The first bit is the exclusive flag.
        prioritised
            && dependency.is_some_and(|four| u32::from_be_bytes(*four) & 0x7fff_ffff == self.stream)
    }

    /// The field section behind `front` bytes and before `padding` bytes.
    fn block(self, front: u32, padding: u32, each: &mut impl FnMut(FrameEvent<'_>)) -> ScanState {
        let rest = self.length.saturating_sub(front);
        match rest.checked_sub(padding) {
            Some(left) => blocks(left, padding, self.flags & END_HEADERS != 0, each),
            // More padding than payload: the codec refuses it.
            None => behind(rest),
        }
    }

    fn with(self, payload: &[u8]) -> Frame<'_> {
        let Self {
            kind,
            flags,
            stream,
            length,
        } = self;
        Frame {
            kind,
            flags,
            stream,
            length,
            payload,
        }
    }
}

/// The front of an incomplete element.
#[derive(Debug)]
struct PartialInput {
    bytes: [u8; LONGEST_KEPT],
    len: usize,
}

impl Default for PartialInput {
    fn default() -> Self {
        Self {
            bytes: [0; LONGEST_KEPT],
            len: 0,
        }
    }
}

impl PartialInput {
    /// Takes `wanted` bytes from `rest`, once they are complete: bytes that arrive together are not
    /// copied.
    fn take<'a, 'b: 'a>(&'a mut self, wanted: usize, rest: &mut &'b [u8]) -> Option<&'a [u8]> {
        if self.len == 0
            && let Some((whole, behind)) = rest.split_at_checked(wanted)
        {
            *rest = behind;
            return Some(whole);
        }
        let (more, behind) = rest.split_at(rest.len().min(wanted - self.len));
        self.bytes[self.len..self.len + more.len()].copy_from_slice(more);
        *rest = behind;
        self.len += more.len();
        if self.len < wanted {
            return None;
        }
        self.len = 0;
        Some(&self.bytes[..wanted])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFACE_TEXT: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    type Told = (u8, u8, u32, u32, Vec<u8>);

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    fn seen(mut scanner: FrameScanner, pieces: &[&[u8]]) -> Vec<Told> {
        let mut seen = Vec::new();
        for piece in pieces {
            scanner.scan(piece, |frame| {
                seen.push((
                    frame.kind,
                    frame.flags,
                    frame.stream,
                    frame.length,
                    frame.payload.to_vec(),
                ));
            });
        }
        seen
    }

    /// RFC 7540 §5.3.1: with and without padding, exclusive or not, in any pieces.
    #[test]
    fn headers_frames_depending_on_their_own_stream_are_reported() {
        let told = |flags: u8, front: &[u8]| {
            let bytes = frame(HEADERS, END_HEADERS | flags, 5, &[front, &[0x82]].concat());
            [bytes.len(), 1].map(|step| {
                let (mut scanner, mut told) = (FrameScanner::of_server(), false);
                for piece in bytes.chunks(step) {
                    scanner.follow(piece, |seen| told |= seen == FrameEvent::DependsOnItself);
                }
                told
            })
        };
        let (both, none) = ([true; 2], [false; 2]);
        assert_eq!(told(PRIORITISED, &[0, 0, 0, 5, 16]), both);
        assert_eq!(told(PRIORITISED, &[0x80, 0, 0, 5, 16]), both);
        assert_eq!(told(PRIORITISED | PADDED, &[0, 0, 0, 0, 5, 16]), both);
        assert_eq!(told(PRIORITISED, &[0, 0, 0, 3, 16]), none);
        assert_eq!(told(PADDED, &[0]), none);
    }

    fn conversation() -> (Vec<u8>, Vec<Told>) {
        let update = [&[0, 0, 0, 3][..], b"u=1, i"].concat();
        let bytes = [
            frame(SETTINGS, 0, 0, &[0; 12]),
            frame(SETTINGS, ACK, 0, b""),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[1; 300]),
            frame(PRIORITY_UPDATE, 0, 0, &update),
            // RFC 9113 §4.1: the reserved bit is ignored; the largest stream.
            frame(DATA, 0, u32::MAX, &[0; 0x0001_0203]),
            frame(PRIORITY_UPDATE, 0, 0, &[0x41; LONGEST_KEPT]),
            frame(PRIORITY_UPDATE, 0, 0, &[0x41; LONGEST_KEPT + 1]),
            frame(PRIORITY_UPDATE, 0, 0, b""),
            frame(0xfe, 0xff, 5, b"a kind that is not known"),
            frame(PING, 0, 0, &[0; 8]),
        ];
        let seen = vec![
            (SETTINGS, 0, 0, 12, vec![]),
            (SETTINGS, ACK, 0, 0, vec![]),
            (HEADERS, END_HEADERS | END_STREAM, 1, 300, vec![]),
            (PRIORITY_UPDATE, 0, 0, 10, update.clone()),
            (DATA, 0, 0x7fff_ffff, 0x0001_0203, vec![]),
            (PRIORITY_UPDATE, 0, 0, 68, vec![0x41; LONGEST_KEPT]),
            (PRIORITY_UPDATE, 0, 0, 69, vec![]),
            (PRIORITY_UPDATE, 0, 0, 0, vec![]),
            (0xfe, 0xff, 5, 24, vec![]),
            (PING, 0, 0, 8, vec![]),
        ];
        (bytes.concat(), seen)
    }

    fn sections(mut scanner: FrameScanner, pieces: &[&[u8]]) -> Vec<(u32, Vec<u8>)> {
        let (mut sections, mut section, mut of) = (Vec::new(), Vec::new(), 0);
        for piece in pieces {
            scanner.follow(piece, |seen| match seen {
                FrameEvent::Frame(frame) => of = frame.stream,
                FrameEvent::Block(piece) => section.extend_from_slice(piece),
                FrameEvent::Whole => sections.push((of, std::mem::take(&mut section))),
                FrameEvent::DependsOnItself => {}
            });
        }
        assert_eq!(section, b"", "of a section that is not whole");
        sections
    }

    /// RFC 9113 §6.2, §6.6, §6.10.
    #[test]
    fn field_sections_are_stripped_of_padding_and_priority() {
        let priority = [0, 0, 0, 0, 15];
        let padded = [&[3][..], &priority, b"section", &[0; 3]].concat();
        let bytes = [
            frame(HEADERS, END_HEADERS, 1, b"plain"),
            frame(
                HEADERS,
                PRIORITISED | END_HEADERS,
                3,
                &[&priority[..], b"prioritised"].concat(),
            ),
            frame(
                HEADERS,
                PADDED | PRIORITISED | END_HEADERS | END_STREAM,
                5,
                &padded,
            ),
            frame(HEADERS, 0, 7, b"in "),
            frame(CONTINUATION, 0, 7, b""),
            frame(CONTINUATION, END_HEADERS, 7, b"parts"),
            frame(DATA, PADDED, 7, b"\x03data"),
            frame(PUSH_PROMISE, END_HEADERS, 7, b"\0\0\0\x02pushed"),
            frame(HEADERS, END_HEADERS, 9, b""),
            // Frames that the codec refuses: shorter than their flags require, more padding than
            // payload.
            frame(HEADERS, PRIORITISED | END_HEADERS, 11, b"123"),
            frame(HEADERS, PADDED | END_HEADERS, 11, b"\x09short"),
            frame(HEADERS, END_HEADERS, 13, b"last"),
        ]
        .concat();
        let expected: Vec<(u32, Vec<u8>)> = [
            (1, "plain"),
            (3, "prioritised"),
            (5, "section"),
            (7, "in parts"),
            (7, "pushed"),
            (9, ""),
            (13, "last"),
        ]
        .map(|(stream, section)| (stream, section.as_bytes().to_vec()))
        .into();
        for size in [1, 2, 3, 5, 8, 9, 10, 14, 1_000] {
            let pieces: Vec<_> = bytes.chunks(size).collect();
            assert_eq!(
                sections(FrameScanner::of_server(), &pieces),
                expected,
                "{size}"
            );
        }
    }

    /// RFC 9113 §4.1, §6; RFC 9218 §7.1.
    #[test]
    fn every_h2_frame_is_seen_once() {
        let (bytes, expected) = conversation();
        assert_eq!(seen(FrameScanner::of_server(), &[&bytes]), expected);
    }

    /// RFC 9113 §3.4.
    #[test]
    fn an_h2_client_begins_with_the_connection_preface() {
        let (bytes, expected) = conversation();
        assert_eq!(
            seen(FrameScanner::of_client(), &[PREFACE_TEXT, &bytes]),
            expected
        );
        assert_eq!(seen(FrameScanner::of_client(), &[PREFACE_TEXT]), []);
    }

    #[test]
    fn h2_frames_may_arrive_in_any_pieces() {
        let (bytes, expected) = conversation();
        let bytes = [PREFACE_TEXT, &bytes].concat();
        for size in [1, 2, 3, 5, 7, 8, 9, 10, 68, 4_096] {
            let pieces: Vec<_> = bytes.chunks(size).collect();
            assert_eq!(seen(FrameScanner::of_client(), &pieces), expected, "{size}");
        }
    }

    /// A flood of frames without their payload is counted all the same.
    #[test]
    fn an_h2_frame_is_reported_as_soon_as_its_header() {
        let ping = frame(PING, 0, 0, &[0; 8]);
        assert_eq!(seen(FrameScanner::of_server(), &[&ping[..HEADER - 1]]), []);
        assert_eq!(
            seen(FrameScanner::of_server(), &[&ping[..HEADER]]),
            [(PING, 0, 0, 8, vec![])]
        );
        let empty = frame(PRIORITY_UPDATE, 0, 0, b"");
        assert_eq!(
            seen(FrameScanner::of_server(), &[&empty]),
            [(PRIORITY_UPDATE, 0, 0, 0, vec![])]
        );
        // A frame with a payload to read is reported with its last byte: RST_STREAM of a server.
        let reset = frame(RST_STREAM, 0, 5, &[0, 0, 0, 7]);
        assert_eq!(seen(FrameScanner::of_server(), &[&reset[..12]]), []);
        assert_eq!(
            seen(FrameScanner::of_server(), &[&reset]),
            [(RST_STREAM, 0, 5, 4, vec![0, 0, 0, 7])]
        );
        assert_eq!(
            seen(FrameScanner::of_client(), &[PREFACE_TEXT, &reset])[0].4,
            []
        );
        let update = frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=0");
        assert_eq!(
            seen(FrameScanner::of_server(), &[&update[..update.len() - 1]]),
            []
        );
        assert_eq!(seen(FrameScanner::of_server(), &[&update]).len(), 1);
    }
}
