//! The client's side: accepting connections, and what comes first on them.

mod accept;
mod by_hello;
mod connection;
mod http;
mod http2;
mod listener;
mod opening;
mod own;
mod relaying;
mod seen;
mod serve;
mod tunnel;

pub use accept::accept;
pub use by_hello::{Asked, ByHello, SecureSites, Way};
pub use listener::{Listener, Service};
pub use opening::AcceptProxy;
pub use relaying::{Relaying, SentHeader};
