//! Frames (RFC 9113 §4.1): the header of nine bytes, and the numbers of the protocol.

use lockgate_http::h2::frames;

/// The client's connection preface (§3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame header.
pub(super) const HEAD: usize = 9;
/// The default limit of a payload (§4.2), which this client never raises.
pub(super) const MAX_PAYLOAD: usize = 16 * 1024;

/// Flags of frame headers (§6).
pub(super) const ACK: u8 = 0x1;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Identifiers of settings (§6.5.2).
pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
pub(super) const ENABLE_PUSH: u16 = 0x2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// Error codes of RST_STREAM and GOAWAY (§7).
pub(super) const PROTOCOL_ERROR: u32 = 0x1;
pub(super) const REFUSED_STREAM: u32 = 0x7;
pub(super) const CANCEL: u32 = 0x8;

/// Type of a frame (§6); unknown types are ignored (§5.5).
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

/// A frame header, or that of the rest of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Http2Frame {
    /// Bytes of the header itself; 0 for the rest of a frame.
    pub(super) head: usize,
    pub(super) length: usize,
    pub(super) kind: FrameType,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Http2Frame {
    /// Parses a header at the front of `bytes`; `None`: it is not whole.
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
            // The highest bit is reserved.
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        })
    }

    /// Splits a DATA frame of which `come` bytes have come into two frames. `None`: the frame must
    /// come whole, as frames of other types must.
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

    /// The payload without padding and priority fields (§6.1, §6.2); `None`: they are longer than
    /// it.
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

/// Writes a frame header, of one of the known types.
pub(super) fn begin(out: &mut Vec<u8>, length: usize, kind: FrameType, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind as u8, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Sets the length in a frame header.
pub(super) fn set_length(frame: &mut [u8], length: usize) {
    frame[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
}

/// Writes a frame with one number: RST_STREAM, WINDOW_UPDATE.
pub(super) fn number(out: &mut Vec<u8>, kind: FrameType, stream: u32, number: u32) {
    begin(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// The name of an error code (§7).
pub(super) fn code(code: u32) -> String {
    frames::error_name(code).map_or_else(|| format!("code {code}"), str::to_owned)
}
