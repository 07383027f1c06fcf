//! TXT records in zones of DNS, for challenges of authorities (RFC 8555 §8.4): written, waited for
//! and removed.
//!
//! Knows neither ACME nor configuration files, keeps nothing, and decides nothing about certificates.
//!
//! # Layout
//! - [`DnsWriter`]: the steps of a record, with any provider
//! - `zone`: aliases, zones and their servers · `visible`: waits until all of these show a record
//! - `update`: RFC 2136 with TSIG · `exec`: a command · `acme_dns` · `providers`: the others, by the
//!   feature of that name
//! - `exchange`: one message to one server

#![forbid(unsafe_code)]

mod acme_dns;
mod error;
mod exchange;
mod exec;
#[cfg(feature = "providers")]
mod providers;
mod update;
mod visible;
mod writer;
mod zone;

#[cfg(test)]
mod tests;

pub use error::DnsError;
pub use writer::{DnsWriter, PublishedRecord};
