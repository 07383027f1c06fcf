//! The endpoint that a request or a relay prefers.

use lockgate_limits::MemberIndex;

/// The endpoint that a request or a relay prefers, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// No preference: the next one.
    Any,
    /// The endpoint of this hash.
    Hashed(u64),
    /// This member.
    Member(MemberIndex),
    /// This member, which has made its TLS session; while that is not available, the
    /// endpoint of the hash.
    Session(MemberIndex, Option<u64>),
}
