//! Error codes of RST_STREAM and GOAWAY (RFC 9113 §7).

/// No error: the peer need not send the rest (§8.1), or the connection is drained (§6.8).
pub const NO_ERROR: u32 = 0x0;
/// A violation of the protocol without a code of its own.
pub const PROTOCOL_ERROR: u32 = 0x1;
/// A failure of our own.
pub const INTERNAL_ERROR: u32 = 0x2;
/// More data than the windows allow, or a window that is too large.
pub const FLOW_CONTROL_ERROR: u32 = 0x3;
/// A frame on a stream that has ended.
pub const STREAM_CLOSED: u32 = 0x5;
/// A frame of a wrong length.
pub const FRAME_SIZE_ERROR: u32 = 0x6;
/// The request was not processed: it may be sent again (§8.7).
pub const REFUSED_STREAM: u32 = 0x7;
/// The stream is of no more use.
pub const CANCEL: u32 = 0x8;
/// The tables of HPACK can no longer be followed.
pub const COMPRESSION_ERROR: u32 = 0x9;
/// The connection of a CONNECT request has ended with an error (§8.5).
pub const CONNECT_ERROR: u32 = 0xa;
/// The peer costs too much.
pub const ENHANCE_YOUR_CALM: u32 = 0xb;
