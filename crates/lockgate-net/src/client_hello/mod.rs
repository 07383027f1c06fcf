//! The first bytes of a connection, looked at before TLS gets them.
//!
//! Says whether they are TLS, plain HTTP or neither, and what a ClientHello asks for: the name, the
//! protocols, the newest version. Nothing is consumed and nothing is negotiated: suites, groups,
//! key shares and tickets are left for the handshake to judge. No socket and no clock.

mod error;
mod first;
pub(crate) mod message;
mod name;
pub(crate) mod peek;
pub(crate) mod reader;

#[cfg(test)]
mod tests;

pub use error::{HelloError, fatal_alert};
pub use first::{First, first};
pub use message::{Hello, Version};
pub use peek::{HELLO_MAX, Peek, peek};
