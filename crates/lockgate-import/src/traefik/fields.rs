//! Names of fields of requests and responses.

/// Whether a text is the name of a field.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$&'*+-.^_|~".contains(&b))
        && !name.starts_with(['+', '-', '!', '*'])
}

/// Whether Lockgate lets a field be changed.
pub(super) fn may_change(name: &str) -> bool {
    !matches!(
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
