//! The load generator of `lockgate load`: schedule, clients, and statistics as they are measured.
//!
//! Shares the codec, dialling and TLS with the proxy and nothing else: a generator must not have
//! the same mistakes as the program that it measures. Reports are in `lockgate-report`.

#![forbid(unsafe_code)]

mod client;
pub mod control_group;
pub mod cpu_times;
pub mod expect;
mod first_response;
mod interface;
mod load_scheduler;
mod nanos;
pub mod options;
pub mod page;
pub mod plan;
pub mod process_tree;
pub mod profile;
pub mod result;
mod run;
pub mod schedule;
pub mod shared_link;
mod start_error;
pub mod target;
pub mod websocket;
mod worker;

pub use run::{RunProgress, run};
pub use start_error::StartError;
pub use worker::Stop;
