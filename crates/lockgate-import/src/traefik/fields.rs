//! Names of fields of requests and responses.

/// Whether a text is the name of a field.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$&'*+-.^_|~".contains(&b))
        && !name.starts_with(['+', '-', '!', '*'])
}
