//! Starts a real Lockgate among scripted peers; for tests only.
//!
//! Peers are bytes in and bytes out over real sockets, certificates are made at run time, ports are
//! free ones. Every wait is for an event, and ends after [`DEADLINE`] with a panic that names the
//! event. No test relies on how long anything takes: only [`eventually`] pauses, between two polls.
//!
//! # Layout
//! `process` runs the program and reads its metrics address, `lines` are its output; `wire` is one
//! plain connection, `tls` the same under TLS, `http` HTTP/1 over either, `origin` an endpoint,
//! `port` its port; `authority` makes certificates; `exposition` parses Prometheus text,
//! `protobuf` messages of Protocol Buffers. `h2` has the HTTP/2 peers, `acme` an authority that
//! speaks ACME.

#![forbid(unsafe_code)]

pub mod acme;
mod authority;
pub mod exposition;
pub mod h2;
mod http;
mod lines;
mod origin;
mod port;
mod process;
pub mod protobuf;
mod tls;
mod wire;

use std::time::{Duration, Instant};

pub use acme::AcmeServer;
pub use authority::{Authority, ED25519, Folder, Issued, P256, P384, RSA, pem};
pub use http::{Http, Message};
pub use lines::Lines;
pub use origin::{Origin, Serving};
pub use process::{Launch, Lockgate, RunResult, Signal};
pub use tls::{ClientSettings, Tls, client_hello, server_config};
pub use wire::{Wire, bytes};

/// The longest that any single wait of a test lasts. It stands for "never": a machine that is
/// merely slow and busy keeps it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The pause between two polls of [`eventually`]: without it, waiting tests would take the
/// processor from the program.
const PAUSE: Duration = Duration::from_millis(1);

/// Calls `ask` until it returns something, for changes without an event.
///
/// # Panics
/// When there is none within [`DEADLINE`].
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::park_timeout(PAUSE);
    }
    panic!("{what}: not within {DEADLINE:?}");
}
