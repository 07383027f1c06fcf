//! The PROXY protocol, versions 1 and 2: the client's address, sent by the proxy in front.
//!
//! Bytes to a value, and back; no socket and no clock. Does not decide which peers may send a
//! header (that is `accept_proxy` and `trusted`) nor how long to wait for one. Section numbers in
//! this module are those of the specification, HAProxy's `doc/proxy-protocol.txt` of 2020-03-05.
//!
//! Own code, because the `proxy-header` crate (0.1.3) takes ports such as `+080`, any byte after
//! `PROXY`, version 1 lines of any length and datagram families, and does not check CRC32c.

mod crc32c;
mod detect;
mod error;
mod header;
mod prefix;
mod tlv;
mod v1;
mod v2;

#[cfg(test)]
mod tests;

pub use detect::{may_begin, parse};
pub use error::ProxyError;
pub use header::{HeaderVersion, ParsedHeader, ProxiedAddresses, ProxyHeader};
pub use prefix::PrefixMatch;
pub use tlv::{Ssl, Tlvs, VALUE_MAX};
pub use v1::{LINE_MAX, encode_v1};
pub use v2::{HEADER_MAX, encode_v2};
