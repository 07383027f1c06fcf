//! The client's side: accepting connections, and what comes first on them.

mod accept;
mod by_hello;
mod client_context;
mod connection;
mod ending;
mod exchange_record;
mod http;
mod http2;
mod listener;
mod opening;
mod relaying;
mod run;
mod serve;
mod tunnel;

pub use accept::accept;
pub use by_hello::{Asked, ByHello, SecureSites, Way};
pub use listener::{Listener, Service};
pub use relaying::Relaying;
