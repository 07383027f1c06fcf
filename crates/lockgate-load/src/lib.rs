//! Makes load and says what came of it, in numbers that cannot lie: what `lockgate load` does.
//!
//! Shares the codec, dialling and TLS with the proxy, and never its heart: what measures must not inherit the mistakes
//! of what it measures.

#![forbid(unsafe_code)]

pub mod compare;
pub mod profile;
pub mod result;
pub mod schedule;
pub mod watch;
pub mod websocket;
