//! Fields of requests and responses that no configuration of Lockgate changes.

/// Whether a field, in lower case, belongs to the framing (RFC 9112 §6) or to one connection
/// (RFC 9110 §7.6.1).
pub(crate) fn is_of_connection(name: &str) -> bool {
    matches!(
        name,
        "content-length"
            | "transfer-encoding"
            | "connection"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "upgrade"
            | "http2-settings"
    )
}
