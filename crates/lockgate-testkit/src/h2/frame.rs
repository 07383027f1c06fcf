//! Frames and their numbers (RFC 9113 §4 and §6), invalid ones as well.

/// Numbers of frame types (RFC 9113 §6, RFC 9218 §7.1).
pub mod kind {
    /// A piece of a body.
    pub const DATA: u8 = 0;
    /// A field section, or its first part.
    pub const HEADERS: u8 = 1;
    /// The priority of RFC 7540, deprecated by RFC 9113.
    pub const PRIORITY: u8 = 2;
    /// The early end of a stream.
    pub const RST_STREAM: u8 = 3;
    /// The sender's settings.
    pub const SETTINGS: u8 = 4;
    /// A pushed request.
    pub const PUSH_PROMISE: u8 = 5;
    /// Is acknowledged with the same eight bytes.
    pub const PING: u8 = 6;
    /// No new streams; the connection ends.
    pub const GOAWAY: u8 = 7;
    /// A larger window.
    pub const WINDOW_UPDATE: u8 = 8;
    /// The next part of a field section.
    pub const CONTINUATION: u8 = 9;
    /// A priority in the form of the Priority field.
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub mod flag {
    /// Of DATA and HEADERS: the last of its sender on this stream.
    pub const END_STREAM: u8 = 1;
    /// Of SETTINGS and PING: an acknowledgement.
    pub const ACK: u8 = 1;
    /// Of HEADERS and CONTINUATION: the field section is complete.
    pub const END_HEADERS: u8 = 4;
    /// Of DATA and HEADERS: the first byte is the length of the padding at the end.
    pub const PADDED: u8 = 8;
    /// Of HEADERS: five bytes of priority come first.
    pub const PRIORITY: u8 = 0x20;
}

/// Numbers of settings (RFC 9113 §6.5.2, RFC 8441 §3).
pub mod setting {
    /// The largest dynamic table for decoding at the sender.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether its sender accepts PUSH_PROMISE.
    pub const ENABLE_PUSH: u16 = 2;
    /// The most streams that the peer may have open.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// The window of new streams.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// The longest payload that its sender accepts.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// The largest field section that its sender accepts, each line counted with 32 bytes more.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// Whether CONNECT may have a protocol.
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
}

/// Error codes of RST_STREAM and GOAWAY (RFC 9113 §7).
pub mod code {
    /// No error.
    pub const NO_ERROR: u32 = 0;
    /// A violation without a code of its own.
    pub const PROTOCOL_ERROR: u32 = 1;
    /// An error of the sender's own.
    pub const INTERNAL_ERROR: u32 = 2;
    /// More was sent than the window allowed.
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: u32 = 4;
    /// A frame for a stream that its sender had ended.
    pub const STREAM_CLOSED: u32 = 5;
    /// A payload of the wrong length.
    pub const FRAME_SIZE_ERROR: u32 = 6;
    /// The request was not processed.
    pub const REFUSED_STREAM: u32 = 7;
    /// The stream is no longer needed.
    pub const CANCEL: u32 = 8;
    /// The field sections can no longer be decoded.
    pub const COMPRESSION_ERROR: u32 = 9;
    /// The connection of a CONNECT broke.
    pub const CONNECT_ERROR: u32 = 10;
    /// The peer behaves like an attacker.
    pub const ENHANCE_YOUR_CALM: u32 = 11;
    /// TLS is too weak.
    pub const INADEQUATE_SECURITY: u32 = 12;
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: u32 = 13;
}

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// A number of [`kind`], or any other.
    pub kind: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
    /// The payload behind the nine bytes.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether it is of this kind and has this flag.
    pub fn has(&self, kind: u8, flag: u8) -> bool {
        self.kind == kind && self.flags & flag != 0
    }

    /// Whether it ends its sender's half of the stream cleanly.
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS) && self.flags & flag::END_STREAM != 0
    }

    /// The 31 or 32 bits at `at` of the payload: the code of RST_STREAM at 0 and of GOAWAY at 4,
    /// the increment of WINDOW_UPDATE at 0.
    ///
    /// # Panics
    /// When the payload is shorter.
    pub fn number(&self, at: usize) -> u32 {
        let bytes = self
            .payload
            .get(at..at + 4)
            .unwrap_or_else(|| panic!("too short: {self:?}"));
        u32::from_be_bytes(bytes.try_into().expect("four bytes"))
    }

    /// Its settings.
    pub fn settings(&self) -> impl Iterator<Item = (u16, u32)> {
        self.payload.chunks_exact(6).map(|pair| {
            let (id, value) = (&pair[..2], &pair[2..]);
            (
                u16::from_be_bytes([id[0], id[1]]),
                u32::from_be_bytes([value[0], value[1], value[2], value[3]]),
            )
        })
    }
}

/// The bytes of a frame. Nothing is checked.
///
/// # Panics
/// When the payload has 16 MB or more, which the length cannot express.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let length = u32::try_from(payload.len())
        .expect("a short payload")
        .to_be_bytes();
    assert_eq!(length[0], 0, "a length has three bytes");
    let mut bytes = Vec::with_capacity(9 + payload.len());
    bytes.extend_from_slice(&length[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The payload of SETTINGS.
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect()
}
