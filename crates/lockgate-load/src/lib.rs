//! The load generator of `lockgate load`: schedule, clients, and statistics as they are measured.
//!
//! Shares the codec, dialling and TLS with the proxy, and nothing else: what measures must not
//! inherit the mistakes of what it measures. Reports are in `lockgate-report`.

#![forbid(unsafe_code)]

mod client;
pub mod expect;
mod first;
mod interface;
mod load_scheduler;
mod moment;
pub mod options;
pub mod page;
pub mod plan;
pub mod profile;
pub mod result;
mod run;
pub mod schedule;
pub mod shared_link;
mod start_error;
pub mod target;
pub mod ticks;
pub mod watch;
pub mod websocket;
mod worker;

pub use run::{RunProgress, run};
pub use start_error::StartError;
pub use worker::Stop;
