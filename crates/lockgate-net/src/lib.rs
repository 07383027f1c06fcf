//! The wire: sockets, TLS, the PROXY protocol, and the loop that relays bytes.
//!
//! Everything here serves one worker thread and is driven by polling; only certificates, ticket
//! keys and resolved settings are shared. Nothing here knows the configuration or HTTP.
//!
//! # Layout
//!
//! | room | what |
//! |---|---|
//! | [`listen`] | sockets that accept |
//! | [`dial`] | sockets that connect |
//! | [`names`] | addresses of host names |
//! | [`socket`] | one connected socket and its readiness |
//! | [`acknowledge`] | when a peer's data is acknowledged |
//! | [`client_hello`], [`server_hello`], [`proxy_protocol`] | what the first bytes say, without IO |
//! | [`dns`] | where a service is, by its records, without IO |
//! | [`tls`] | certificates, handshakes, the record layer |
//! | [`relay`] | bytes from one side to the other, both ways, with half-close |
//! | [`splice`] | pipes through which the kernel moves bytes itself |
//! | [`shape`] | rates that hold for the process, and who waits for them |
//! | [`files`] | files below a root, by descriptors |
//! | [`memory`] | what of the process's memory is in use |
//! | [`threads`] | a few threads for what takes long |

#![deny(unsafe_code)]

pub mod acknowledge;
pub mod client_hello;
pub mod dial;
pub mod dns;
pub mod files;
pub mod listen;
pub mod memory;
pub mod names;
pub mod proxy_protocol;
pub mod relay;
pub mod server_hello;
pub mod shape;
pub mod socket;
pub mod splice;
pub mod stream;
mod syscall;
pub mod threads;
pub mod timer;
pub mod tls;
