//! The address of this machine, for names that follow it: dynamic DNS.
//!
//! # Layout
//! - [`router`]: the home router is asked for its address on the internet

#![forbid(unsafe_code)]

pub mod router;

pub use router::{RouterAnswer, RouterError, RouterInquiry, RouterProtocol, external_ipv4};
