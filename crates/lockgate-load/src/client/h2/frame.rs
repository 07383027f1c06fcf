//! Frames (RFC 9113 §4.1): nine bytes that say what follows, and the numbers that are spoken in.

use lockgate_http::h2::frames;

/// What a client says first (§3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame before its payload.
pub(super) const HEAD: usize = 9;
/// The longest payload, where nobody has allowed longer ones (§4.2).
pub(super) const MAX_PAYLOAD: usize = 16 * 1024;

/// Flags (§6).
pub(super) const ACK: u8 = 0x1;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Settings (§6.5.2).
pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
pub(super) const ENABLE_PUSH: u16 = 0x2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// Codes (§7).
pub(super) const PROTOCOL_ERROR: u32 = 0x1;
pub(super) const REFUSED_STREAM: u32 = 0x7;
pub(super) const CANCEL: u32 = 0x8;

/// What a frame is (§6); others are ignored (§5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameType {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    PushPromise,
    Ping,
    Goaway,
    WindowUpdate,
    Continuation,
    Other,
}

impl FrameType {
    const KNOWN: [Self; 10] = [
        Self::Data,
        Self::Headers,
        Self::Priority,
        Self::Reset,
        Self::Settings,
        Self::PushPromise,
        Self::Ping,
        Self::Goaway,
        Self::WindowUpdate,
        Self::Continuation,
    ];
}

/// The beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Http2Frame {
    /// BodySource before its payload: none of the rest of a frame.
    pub(super) head: usize,
    /// Of its payload.
    pub(super) length: usize,
    pub(super) kind: FrameType,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Http2Frame {
    /// Reads one from the front of `bytes`, where it is there.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<HEAD>()?;
        Some(Self {
            head: HEAD,
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind: FrameType::KNOWN
                .get(usize::from(kind))
                .copied()
                .unwrap_or(FrameType::Other),
            flags,
            // The highest bit says nothing.
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        })
    }

    /// A body of which so many bytes have come, as two frames; `None` where it must come whole, as
    /// others must.
    pub(super) fn split(self, come: usize) -> Option<(Self, Self)> {
        let may = self.kind == FrameType::Data
            && !self.has(PADDED)
            && come < self.length
            && self.stream != 0;
        let first = Self {
            length: come,
            flags: 0,
            ..self
        };
        may.then_some((
            first,
            Self {
                head: 0,
                length: self.length - come,
                ..self
            },
        ))
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What a payload holds beside padding and a priority (§6.1, §6.2); `None` where these are
    /// longer than it.
    pub(super) fn content<'a>(&self, mut payload: &'a [u8]) -> Option<&'a [u8]> {
        let mut padding = 0;
        if self.has(PADDED) {
            let (length, rest) = payload.split_first()?;
            (padding, payload) = (usize::from(*length), rest);
        }
        if self.kind == FrameType::Headers && self.has(PRIORITY) {
            payload = payload.get(5..)?;
        }
        payload.get(..payload.len().checked_sub(padding)?)
    }
}

/// Writes the beginning of a frame; it is of one of the known kinds.
pub(super) fn begin(out: &mut Vec<u8>, length: usize, kind: FrameType, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind as u8, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Says how long the payload of a frame has become.
pub(super) fn set_length(frame: &mut [u8], length: usize) {
    frame[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
}

/// Writes a frame with a number: RST_STREAM, WINDOW_UPDATE.
pub(super) fn number(out: &mut Vec<u8>, kind: FrameType, stream: u32, number: u32) {
    begin(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// What a code is called (§7).
pub(super) fn code(code: u32) -> String {
    frames::error_name(code).map_or_else(|| format!("code {code}"), str::to_owned)
}
