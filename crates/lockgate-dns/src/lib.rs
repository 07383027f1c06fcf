//! Records in zones of DNS: TXT for challenges of authorities (RFC 8555 §8.4), written, waited for
//! and removed; A and AAAA for names that are kept at an address, read and set.
//!
//! Knows neither ACME nor configuration files, keeps nothing, and decides neither about certificates
//! nor about addresses.
//!
//! # Layout
//! - [`DnsWriter`]: the steps of a TXT record, with any provider · [`AddressWriter`]: those of address
//!   records
//! - `zone`: aliases, zones and their servers · `visible`: waits until all of these show a record ·
//!   `held`: which addresses they show
//! - `update`: RFC 2136 with TSIG · `exec`: a command · `acme_dns` · `duckdns` · `providers`: the
//!   others, by the feature of that name
//! - `exchange`: one message to one server · `web`: one request to one web server

#![forbid(unsafe_code)]

mod acme_dns;
mod addresses;
mod duckdns;
mod error;
mod exchange;
mod exec;
mod held;
#[cfg(feature = "providers")]
mod providers;
mod update;
mod visible;
mod wanted;
mod web;
mod writer;
mod zone;

#[cfg(test)]
mod tests;

pub use addresses::{AddressReading, AddressWriter};
pub use error::DnsError;
pub use wanted::WantedAddresses;
pub use writer::{DnsWriter, PublishedRecord};
