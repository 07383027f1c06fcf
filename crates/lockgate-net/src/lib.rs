//! Sockets, TLS, the PROXY protocol, and the relay of bytes.
//!
//! Everything here serves one worker thread and is driven by polling; only certificates, ticket
//! keys and resolved settings are shared. Knows neither the configuration nor HTTP.
//!
//! # Layout
//!
//! | module | contents |
//! |---|---|
//! | [`reactor`] | the event loop of a worker: tasks and readiness |
//! | [`kernel`] | trials of what the kernel offers |
//! | [`listen`] | listening sockets |
//! | [`dial`] | connecting sockets |
//! | [`name_cache`] | addresses of host names |
//! | [`socket`] | a connected socket and its readiness |
//! | [`stream`] | a socket with or without TLS, for readers of messages |
//! | [`acknowledge`] | acknowledgement of a peer's data |
//! | [`cert_demand`] | certificates that handshakes wait for |
//! | [`challenges`] | answers to challenges of ACME |
//! | [`client_hello`], [`server_hello`], [`proxy_protocol`] | first bytes, without IO |
//! | [`dns`] | SRV records, without IO |
//! | [`interface_addresses`] | addresses of this machine, and their changes |
//! | [`tls`] | certificates, handshakes, the record layer |
//! | [`relay`] | bytes from one side to the other, both ways, with half-close |
//! | [`splice`] | pipes through which the kernel moves bytes |
//! | [`traffic_shaping`] | rate limits of the process |
//! | [`token_bucket`] | the arithmetic of rate limits |
//! | [`files`] | files below a root, by descriptors |
//! | [`memory`] | the memory of the process |
//! | [`threads`], [`thread_pool`] | threads of the server, and a few of them for long work |
//! | [`millis`], [`nanos`] | time |
//! | [`index`] | indexes as types |
//! | [`timer`] | an alarm of a worker |

#![deny(unsafe_code)]

pub mod acknowledge;
pub mod cert_demand;
pub mod challenges;
pub mod client_hello;
pub mod dial;
pub mod dns;
pub mod files;
mod full_reads;
pub mod index;
pub mod interface_addresses;
pub mod kernel;
pub mod listen;
pub mod memory;
pub mod millis;
pub mod name_cache;
pub mod nanos;
pub mod proxy_protocol;
pub mod reactor;
pub mod relay;
pub mod server_hello;
pub mod socket;
pub mod spare_pool;
pub mod splice;
pub mod stream;
mod syscall;
pub mod thread_pool;
pub mod threads;
pub mod timer;
pub mod tls;
pub mod token_bucket;
pub mod traffic_shaping;
