//! Comparison of the first bytes of a connection with a fixed beginning.

/// The comparison of bytes with an expected beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixMatch {
    /// They match.
    Yes,
    /// They do not match.
    No,
    /// Too few bytes to decide.
    Undecided,
}

impl PrefixMatch {
    pub(super) fn of(bytes: &[u8], beginning: &[u8]) -> Self {
        if bytes.starts_with(beginning) {
            Self::Yes
        } else if beginning.starts_with(bytes) {
            Self::Undecided
        } else {
            Self::No
        }
    }
}
