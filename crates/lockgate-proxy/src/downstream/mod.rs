//! The client's side: accepting connections, their opening, HTTP/1 and HTTP/2 on them, and what becomes
//! of each request (`serve`).

mod accept;
mod active_listener;
mod client_context;
mod connection;
mod exchange_record;
mod exchange_spans;
mod first_bytes;
mod http1;
mod http2;
mod line_sinks;
mod linger;
mod listener;
mod relay_settings;
mod run;
mod serve;
mod sni_router;
mod termination;
mod tunnel;

pub use accept::{AcceptSocket, accept};
pub use active_listener::{ActiveListener, ListenerSnapshot};
pub use listener::{ListenerService, ListenerSettings};
pub use relay_settings::RelaySettings;
pub use serve::explain;
pub use sni_router::{HelloMatch, HelloRoute, RelayRoute, SecureSites, SniRouter};
