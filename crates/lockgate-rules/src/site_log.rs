//! The log of a site's requests.

/// The log that a site's requests are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteLog {
    /// That of the process, if there is one.
    Shared,
    /// None.
    Off,
    /// One of those that sites have, by its number.
    Own(usize),
}
