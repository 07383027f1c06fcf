//! The load generator of `lockgate load`: schedule, clients, and statistics as they are measured.
//!
//! Shares the codec, dialling and TLS with the proxy, and never its heart: what measures must not
//! inherit the mistakes of what it measures.

#![forbid(unsafe_code)]

pub mod shared_link;
mod client;
pub mod expect;
mod first;
mod interface;
pub mod options;
mod load_scheduler;
pub mod page;
pub mod plan;
pub mod profile;
pub mod result;
mod run;
pub mod schedule;
pub mod target;
pub mod ticks;
pub mod watch;
pub mod websocket;
mod worker;

pub use run::{Progress, StartError, run};
pub use worker::Stop;
