//! Types, flags and error codes of frames (RFC 9113 §6, §7).

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

/// The name of the error code of a RST_STREAM or GOAWAY (RFC 9113 §7), or words for a code without one.
pub fn error_words(code: u32) -> &'static str {
    error_name(code).unwrap_or("an unknown error")
}

/// The name of an error code (RFC 9113 §7); `None` for a code without one.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §7: codes without a name are no reason to do anything special.
    #[test]
    fn error_codes_have_names_or_words() {
        for (code, words) in [
            (0, "NO_ERROR"),
            (8, "CANCEL"),
            (13, "HTTP_1_1_REQUIRED"),
            (14, "an unknown error"),
            (u32::MAX, "an unknown error"),
        ] {
            assert_eq!(error_words(code), words);
            assert_eq!(error_name(code).is_some(), code <= 13, "{code}");
        }
    }
}
