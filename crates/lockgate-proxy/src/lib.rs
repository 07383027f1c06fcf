//! The heart: what is done with a connection, from its acceptance to its line in the log.
//!
//! One worker is one thread: everything of a worker is `Rc` and `Cell`. Between workers there are
//! settings that do not change, counters with one writer each, and the [`limits`] that are promised
//! for the process, and the accounts of its [`clients`].
//! Knows no configuration file, no signal and no environment: the shell assembles what runs here.

#![forbid(unsafe_code)]

pub mod access_log;
pub mod action;
pub mod admit;
pub mod body;
mod box_future;
pub mod clients;
pub mod clock;
pub mod downstream;
pub mod error_response;
mod escape;
pub mod exchange;
pub mod files;
pub mod h1;
pub mod h2;
pub mod limits;
pub mod member_set;
pub mod memory;
pub mod message;
pub mod metrics;
mod preemption;
mod pump;
pub mod request_id;
pub mod route;
pub mod rules;
pub mod shaping;
pub mod site;
pub mod top_requests;
pub mod transform;
pub mod upstream;
pub mod worker;
