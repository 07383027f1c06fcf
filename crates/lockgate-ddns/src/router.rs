//! The home router is asked for the IPv4 address that it has on the internet: by NAT-PMP
//! (RFC 6886), by PCP (RFC 6887), and by UPnP.
//!
//! Keeps nothing, and leaves no mapping behind at the router. Asks no other machine: see
//! [`RouterInquiry`].
//!
//! # Layout
//! - [`RouterInquiry`]: the protocols one after the other, within one deadline
//! - [`gateway`]: the route table
//! - [`nat_pmp`], [`pcp`]: messages · `control_socket`: a request and its answer by UDP
//! - [`ssdp`]: the search for the device · [`device_url`]: where it says its description is ·
//!   [`device_description`] and [`soap`]: what it says there · `upnp`: these steps
//! - [`xml`]: a scanner of elements

mod control_socket;
pub mod device_description;
pub mod device_url;
mod error;
pub mod gateway;
mod inquiry;
pub mod nat_pmp;
pub mod pcp;
pub mod soap;
pub mod ssdp;
mod upnp;
pub mod xml;

#[cfg(test)]
mod tests;

pub use error::{ProtocolFailure, RouterError, RouterProtocol, UpnpFailure};
pub use inquiry::{RouterAnswer, RouterInquiry, external_ipv4};
