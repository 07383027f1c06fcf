//! An HTTP client for the work beside the workers: health checks, values of pages, the push
//! gateway.
//!
//! hyper speaks HTTP/1, the layer of `lockgate-http` HTTP/2; dialling and TLS are those of
//! `lockgate-net`. Everything is bounded: time, heads and bodies by [`ExchangeLimits`]. Follows no
//! redirect, keeps no cookies, resolves no names, and spawns no task: dropping a future ends all that
//! it began.

#![forbid(unsafe_code)]

mod connection;
mod error;
mod head_judge;
mod http2;
mod limits;
mod server;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;

pub use connection::{ClientRequest, ClientResponse, HttpConnection};
pub use error::ClientError;
pub use limits::ExchangeLimits;
pub use lockgate_net::dial::DialTarget;
pub use server::RemoteServer;
pub use stream::ServerStream;
