//! Makes load and says what came of it, in numbers that cannot lie: what `lockgate load` does.
//!
//! Shares the codec, dialling and TLS with the proxy, and never its heart: what measures must not
//! inherit the mistakes of what it measures.

#![forbid(unsafe_code)]

pub mod bucket;
mod client;
pub mod compare;
pub mod expect;
mod first;
mod interface;
pub mod options;
mod pace;
pub mod page;
pub mod plan;
pub mod profile;
pub mod push;
pub mod report;
pub mod result;
mod run;
pub mod schedule;
pub mod target;
pub mod threshold;
pub mod ticks;
mod watch;
pub mod websocket;
mod worker;

pub use run::{Progress, StartError, run};
pub use worker::Stop;
