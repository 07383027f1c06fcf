//! What a peer's frames mean for the user of a connection.

use std::ops::Range;

use super::{Key, StreamFault};
use crate::priority::Priority;

/// Something that happened on a connection, in the order of the frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The head of a message: at a server a new stream, at a client the response. Its fields are in
    /// the sink of the call.
    Head {
        /// The stream.
        key: Key,
        /// Whether the message has ended.
        ended: bool,
        /// The bytes of its frames, their headers included.
        wire: usize,
    },
    /// The head of an interim response (RFC 9110 §15.2), with its fields in the sink; clients only.
    Interim {
        /// The stream.
        key: Key,
        /// The bytes of its frames, their headers included.
        wire: usize,
    },
    /// Data of a message's body. It counts against the windows until it is
    /// [`used`](super::Connection::used).
    Data {
        /// The stream.
        key: Key,
        /// Its place in the bytes of the call; empty where only the end has come.
        at: Range<usize>,
        /// Whether the message has ended.
        ended: bool,
        /// The bytes of its frame so far, header and padding included.
        wire: usize,
    },
    /// The trailers, which end a message; their fields are in the sink.
    Trailers {
        /// The stream.
        key: Key,
        /// The bytes of its frames, their headers included.
        wire: usize,
    },
    /// A stream was reset: nothing more comes or goes on it.
    Reset {
        /// The stream.
        key: Key,
        /// By which side and why.
        reset: StreamReset,
    },
    /// A stream may send again that had too small a window for its data, if the connection's
    /// window is open as well.
    WindowOpened {
        /// The stream.
        key: Key,
    },
    /// The peer takes no more streams of ours (RFC 9113 §6.8). Those that it has not processed are
    /// reset by events behind this.
    Goaway {
        /// The error code.
        code: u32,
    },
    /// The acknowledgement of our [`ping`](super::Connection::ping).
    Pong {
        /// Its data.
        data: [u8; 8],
    },
    /// The priority of a request, perhaps of one that has not come (RFC 9218 §7.1); servers only.
    Priority {
        /// The ID of its stream.
        stream: u32,
        /// The priority.
        priority: Priority,
    },
}

/// How a stream was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamReset {
    /// The error code: that of the peer's GOAWAY, where the stream is above its last one.
    pub code: u32,
    /// The peer's violation for which we reset it; `None`: the peer did.
    pub fault: Option<StreamFault>,
    /// Whether the peer has certainly not processed the request, so that it may be sent again (RFC
    /// 9113 §8.7).
    pub unprocessed: bool,
}
