//! The endpoint that a request or a relay prefers.

/// The endpoint that a request or a relay prefers, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// No preference: the next one.
    Any,
    /// The endpoint of this hash.
    Hashed(u64),
    /// The member with this index.
    Member(usize),
    /// The member with this index, which has made its TLS session; while that is not available, the
    /// endpoint of the hash.
    Session(usize, Option<u64>),
}
