//! The client's side of WebSocket (RFC 6455) without IO: as much of it as an echo needs.
//!
//! Offers no extension and no subprotocol. Text is not looked at, whether it is UTF-8 or not: it is
//! held against what was sent.
//!
//! - [`handshake`]: the fields that ask for it, and whether a response grants it.
//! - [`frame`]: messages to frames, and frames taken apart.

pub mod frame;
pub mod handshake;
