//! The access log of a site.

/// The access log that a site's requests go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteLog {
    /// The access log of the process, if it has one.
    Shared,
    /// No access log.
    Off,
    /// An access log of sites, by its index.
    Own(usize),
}
