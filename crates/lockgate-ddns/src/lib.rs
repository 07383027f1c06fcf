//! Dynamic DNS: the A and AAAA records of names are kept at this machine's address.
//!
//! Reads no configuration, and speaks no protocol of a provider: see `lockgate_dns`.
//!
//! # Layout
//! - [`DdnsKeeper`]: the names that are kept, and how they stand
//! - `follower`: what is to be done next, a state machine without clock and IO · `settling`: the
//!   address that is published, of all that are seen · `back_off`: waits after failures
//! - `publishable`: which addresses the Internet can reach
//! - `sources`: where the address is learnt · `interface`, `url` and [`answer`], `router_source` and
//!   [`router`]: each of them · `network_watch`: when they may tell another one

#![forbid(unsafe_code)]

pub mod answer;
mod back_off;
mod family;
mod follower;
mod interface;
mod keeper;
mod network_watch;
mod publishable;
pub mod router;
mod router_source;
mod settling;
mod sources;
mod status;
mod url;

#[cfg(test)]
mod tests;

pub use family::AddressFamily;
pub use keeper::{DdnsKeeper, DdnsTask};
pub use router::{RouterAnswer, RouterError, RouterInquiry, RouterProtocol, external_ipv4};
pub use status::NameStatus;
