//! The first bytes of a connection, before TLS gets them.
//!
//! Tells TLS from plain HTTP and the rest, and reads the contents of a ClientHello: the name, the
//! protocols, the newest version. Nothing is consumed and nothing is negotiated: suites, groups,
//! key shares and tickets are left to the handshake. No socket and no clock.

mod error;
mod first_protocol;
pub(crate) mod message;
pub(crate) mod peek;
mod server_name;
pub(crate) mod vector_reader;

#[cfg(test)]
mod tests;

pub use error::{HelloError, fatal_alert};
pub use first_protocol::{FirstProtocol, first_protocol};
pub use message::{ClientHello, HelloVersion};
pub use peek::{HELLO_MAX, Peek, peek};
