//! WebSocket client (RFC 6455) without IO, as far as echoes need it.
//!
//! Offers no extension and no subprotocol, and does not check text for UTF-8: messages are compared
//! with the sent bytes.
//!
//! - [`handshake`]: the fields of the upgrade, and the check of the response.
//! - [`frame`]: encoder and decoder of frames.

pub mod frame;
pub mod handshake;
