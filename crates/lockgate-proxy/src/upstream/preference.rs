//! To which endpoint a request or a relay belongs.

/// Whether somebody belongs to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// Nobody in particular: whichever is next.
    Any,
    /// The one that this hash leads to.
    Hashed(u64),
    /// The member at this place.
    Member(usize),
    /// The member at this place, which has made its TLS session; while that is not to be had, where
    /// the hash leads.
    Session(usize, Option<u64>),
}
