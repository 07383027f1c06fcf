//! The sides of a connection.

/// The side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that sends requests.
    Client,
    /// The side that answers them.
    Server,
}
