//! The first bytes of a connection, before TLS gets them.
//!
//! Tells TLS from plain HTTP and the rest, and reads the contents of a ClientHello: the name, the
//! protocols, the newest version. Nothing is consumed and nothing is negotiated: suites, groups,
//! key shares and tickets are left to the handshake. No socket and no clock.

mod error;
mod first;
pub(crate) mod message;
mod name;
pub(crate) mod peek;
pub(crate) mod reader;

#[cfg(test)]
mod tests;

pub use error::{HelloError, fatal_alert};
pub use first::{FirstProtocol, first};
pub use message::{ClientHello, HelloVersion};
pub use peek::{HELLO_MAX, Peek, peek};
