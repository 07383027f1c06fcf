//! What must hold for any input: one function per fuzz target, which panics where it does not.
//!
//! Knows no fuzzer: the targets feed it, and so does the test that replays the kept corpus.

mod change;
mod client_hello;
mod coding;
mod config;
mod cookie;
mod dns;
mod files;
mod forwarding;
mod h2;
mod h2_layer;
mod hpack;
mod http;
mod import;
mod otlp;
mod own_address;
mod page;
mod passwords;
mod priority;
mod proxy_protocol;
mod redirects;
mod router;
mod server_hello;
mod tls_session;
mod trace;
mod websocket;

pub use change::change_body;
pub use client_hello::client_hello;
pub use coding::decode;
pub use config::config;
pub use cookie::cookie;
pub use dns::dns_answer;
pub use files::{coding, conditional, range};
pub use forwarding::{fields, forwarded_for, h1_exchange};
pub use h2::h2_head;
pub use h2_layer::{h2_client, h2_ends, h2_server};
pub use hpack::hpack;
pub use http::{h1_chunked, h1_request, h1_response, h1_target};
pub use import::import_config;
pub use otlp::otlp_response;
pub use own_address::{address_answer, interface_addresses};
pub use page::page_html;
pub use passwords::{authorization, htpasswd};
pub use priority::priority;
pub use proxy_protocol::proxy_protocol;
pub use redirects::redirect_map;
pub use router::{router_datagram, router_xml, ssdp_answer};
pub use server_hello::server_hello;
pub use tls_session::tls_session;
pub use trace::traceparent;
pub use websocket::ws_frame;

/// Where to cut an input: everywhere if it is short, at 256 places if it is long.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by(1 + len / 256)
}
