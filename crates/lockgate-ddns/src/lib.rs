//! Dynamic DNS: the A and AAAA records of names are kept at this machine's address.
//!
//! Reads no configuration, and speaks no protocol of a provider: see `lockgate_dns`.
//!
//! # Layout
//! - [`DdnsKeeper`]: the names that are kept, and how they stand
//! - `follower`: what is to be done next, a state machine without clock and IO · `settling`: the
//!   address that is published, of all that are seen · `back_off`: waits after failures
//! - `publishable`: which addresses the Internet can reach
//! - `sources`: where the address is learnt · `interface`, `url`, [`answer`], [`router`]: each of them

#![forbid(unsafe_code)]

pub mod answer;
mod back_off;
mod family;
mod follower;
mod interface;
mod keeper;
mod publishable;
pub mod router;
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
