//! What a peer did wrong, on a stream and on the connection.

use super::code;
use crate::hpack::HpackError;

/// A violation that ends the connection (RFC 9113 §5.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The client's first bytes are not the preface (§3.4).
    #[error("the preface of HTTP/2 is missing")]
    Preface,
    /// The first frame is not SETTINGS (§3.4).
    #[error("the first frame is not SETTINGS")]
    FirstFrame,
    /// A frame above SETTINGS_MAX_FRAME_SIZE (§4.2).
    #[error("a frame is longer than allowed")]
    FrameTooLong,
    /// A frame with a length that its type cannot have (§6).
    #[error("a frame has a wrong length")]
    FrameLength,
    /// A frame on a stream that cannot have it: stream 0, an idle one, one of the wrong side
    /// (§5.1, §5.1.1, §6).
    #[error("a frame is on a wrong stream")]
    WrongStream,
    /// A field section on a stream that has ended (§5.1).
    #[error("a field section is on a stream that has ended")]
    ClosedStream,
    /// Padding that is longer than its frame (§6.1, §6.2).
    #[error("padding is longer than its frame")]
    Padding,
    /// A frame between those of a field section (§6.10).
    #[error("a frame is within a field section")]
    Interrupted,
    /// A CONTINUATION that continues nothing (§6.10).
    #[error("a CONTINUATION frame is without a field section")]
    Continuation,
    /// A field block that cannot be decoded (§4.3).
    #[error(transparent)]
    Hpack(#[from] HpackError),
    /// A field block longer than it may be, and cannot be ignored, since it changes the table.
    #[error("a field section is too long")]
    SectionTooLong,
    /// A field that is not decoded for its length: a name, or behind a section that is too large
    /// already a value, beyond the head list (§4.3).
    #[error("a field is too long")]
    FieldTooLong,
    /// HEADERS that make their stream depend on itself (RFC 7540 §5.3.1), which are not decoded (§4.3).
    #[error("a stream depends on itself")]
    SelfDependency,
    /// A PUSH_PROMISE (§8.4): we do not allow it.
    #[error("a push is not allowed")]
    Push,
    /// A setting with a value out of its range (§6.5.2; RFC 8441 §3).
    #[error("a setting has an invalid value")]
    Setting,
    /// An acknowledgement of SETTINGS that were not sent (§6.5.3).
    #[error("an acknowledgement of SETTINGS is without SETTINGS")]
    SettingsAck,
    /// A WINDOW_UPDATE of 0 for the connection (§6.9).
    #[error("a window update is 0")]
    ZeroUpdate,
    /// A window above 2³¹ − 1 (§6.9.1, §6.9.2).
    #[error("a flow-control window is too large")]
    WindowOverflow,
    /// More data than the connection's window allows (§6.9.1).
    #[error("more data than the connection's window allows")]
    FlowControl,
    /// A PRIORITY of a wrong length, or of a stream that depends on itself, where no stream can be
    /// reset for it (§6.3).
    #[error("a PRIORITY frame is malformed")]
    Priority,
    /// A GOAWAY of a server that names a later stream than one before (§6.8).
    #[error("a GOAWAY frame names a later stream than one before")]
    LaterGoaway,
    /// More cancelled requests than [`Budget`](super::Budget) allows.
    #[error("too many cancelled requests")]
    Resets,
    /// More frames without a use than [`Budget`](super::Budget) allows.
    #[error("too many useless frames")]
    Control,
    /// More window updates than [`Budget`](super::Budget) and the data that was sent allow.
    #[error("too many window updates")]
    Updates,
}

impl ConnectionError {
    /// The code of the GOAWAY that tells the peer.
    pub fn code(self) -> u32 {
        match self {
            Self::FrameTooLong | Self::FrameLength => code::FRAME_SIZE_ERROR,
            Self::ClosedStream => code::STREAM_CLOSED,
            Self::Hpack(_) | Self::FieldTooLong | Self::SelfDependency => code::COMPRESSION_ERROR,
            Self::WindowOverflow | Self::FlowControl => code::FLOW_CONTROL_ERROR,
            Self::SectionTooLong | Self::Resets | Self::Control | Self::Updates => {
                code::ENHANCE_YOUR_CALM
            }
            _ => code::PROTOCOL_ERROR,
        }
    }

    /// The label for metrics, which stays the same: one of [`LABELS`](Self::LABELS).
    pub fn label(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::Control => "control",
            Self::Updates => "updates",
            Self::Hpack(_) | Self::FieldTooLong | Self::SelfDependency => "sections",
            Self::SectionTooLong => "calm",
            _ => "protocol",
        }
    }

    /// All labels.
    pub const LABELS: [&'static str; 6] = [
        "resets", "control", "updates", "sections", "calm", "protocol",
    ];

    /// Whether the peer costs too much, or its field sections cannot be followed: limits, where other
    /// violations are only mistakes.
    pub fn is_abuse(self) -> bool {
        self.label() != "protocol"
    }
}

/// A violation that ends one stream (RFC 9113 §5.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// A pseudo-header field that is repeated, unknown, behind another field, or in trailers
    /// (§8.1, §8.3).
    #[error("a pseudo-header field in a wrong place")]
    PseudoFields,
    /// A response without a status of three digits, or with 101 (§8.3.2, §8.6).
    #[error("a response without a valid status")]
    Status,
    /// An interim response that ends the stream (§8.1).
    #[error("the end of the stream without a response")]
    Interim,
    /// More interim responses than a user holds. The layer itself does not count them.
    #[error("too many interim responses")]
    TooManyInterim,
    /// A second field section that does not end the stream (§8.1).
    #[error("a second field section that is no trailer")]
    Trailers,
    /// Data before the head of a response (§8.1).
    #[error("data before the response")]
    DataBeforeHead,
    /// More data than Content-Length says (§8.1.1).
    #[error("more data than Content-Length says")]
    TooMuchData,
    /// Less data than Content-Length says (§8.1.1).
    #[error("less data than Content-Length says")]
    TooLittleData,
    /// A frame behind the end of the stream (§5.1).
    #[error("a frame behind the end of the stream")]
    Closed,
    /// More data than the stream's window allows (§6.9.1).
    #[error("more data than the stream's window allows")]
    FlowControl,
    /// A window above 2³¹ − 1 (§6.9.1).
    #[error("a flow-control window is too large")]
    WindowOverflow,
    /// A WINDOW_UPDATE of 0 (§6.9).
    #[error("a window update is 0")]
    ZeroUpdate,
    /// A stream that depends on itself (RFC 7540 §5.3.1).
    #[error("a stream depends on itself")]
    SelfDependency,
    /// A PRIORITY of a wrong length (§6.3).
    #[error("a PRIORITY frame has a wrong length")]
    PriorityLength,
}

impl StreamFault {
    /// The code of the RST_STREAM that tells the peer.
    pub fn code(self) -> u32 {
        match self {
            Self::Closed => code::STREAM_CLOSED,
            Self::FlowControl | Self::WindowOverflow => code::FLOW_CONTROL_ERROR,
            Self::TooManyInterim => code::ENHANCE_YOUR_CALM,
            Self::PriorityLength => code::FRAME_SIZE_ERROR,
            _ => code::PROTOCOL_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dashboards have these labels: those of `lockgate_http2_violations_total`.
    #[test]
    fn violations_have_labels_that_stay() {
        use ConnectionError::*;
        for (error, label, code) in [
            (Resets, "resets", code::ENHANCE_YOUR_CALM),
            (Control, "control", code::ENHANCE_YOUR_CALM),
            (Updates, "updates", code::ENHANCE_YOUR_CALM),
            (SectionTooLong, "calm", code::ENHANCE_YOUR_CALM),
            (
                Hpack(HpackError::Index),
                "sections",
                code::COMPRESSION_ERROR,
            ),
            (FieldTooLong, "sections", code::COMPRESSION_ERROR),
            (SelfDependency, "sections", code::COMPRESSION_ERROR),
            (Preface, "protocol", code::PROTOCOL_ERROR),
            (FrameTooLong, "protocol", code::FRAME_SIZE_ERROR),
            (ClosedStream, "protocol", code::STREAM_CLOSED),
            (FlowControl, "protocol", code::FLOW_CONTROL_ERROR),
            (Push, "protocol", code::PROTOCOL_ERROR),
        ] {
            assert_eq!((error.label(), error.code()), (label, code), "{error}");
            assert!(ConnectionError::LABELS.contains(&error.label()));
            assert_eq!(error.is_abuse(), label != "protocol", "{error}");
        }
    }
}
