//! The heart: what is done with a connection, from its acceptance to its line in the log.
//!
//! One worker is one thread: everything of a worker is `Rc` and `Cell`. Between workers there are
//! settings that do not change, counters with one writer each, the limits that are promised for the
//! process, and the accounts of its clients.
//! Knows no configuration file, no signal and no environment: the shell assembles what runs here.

#![forbid(unsafe_code)]

pub mod access_log;
pub mod action;
pub mod admit;
pub mod downstream;
pub mod error_response;
mod escape;
pub mod exchange;
pub mod files;
pub mod generation;
pub mod metrics;
mod pump;
pub mod request_id;
pub mod request_traces;
pub mod route;
pub mod rules;
pub mod shaping;
pub mod site;
pub mod spans;
pub mod top_requests;
pub mod transform;
pub mod worker;
