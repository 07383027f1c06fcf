//! HTTP/2 on a connection, the same towards clients and towards endpoints: the h2 crate speaks it,
//! here are what its frames travel on, what its streams are to bodies and heads, and what a peer
//! may ask of it.
//!
//! The only room that names the crate's types, but for those that drive the connections of clients
//! and of the prober.

mod answers;
mod call;
mod carrier;
mod gate;
mod heads;
mod incoming;
mod life;
mod outgoing;
mod sections;
mod shared;
mod stream;
mod turns;
mod unfinished;
mod unwanted;

pub use call::Call;
pub use carrier::{Carrier, Io};
pub use gate::{Gate, Violation};
pub use heads::Target;
pub use incoming::Incoming;
pub use sections::Verdict;
pub use shared::{MOST, Shared};
pub use stream::Stream;
pub use turns::Turns;

use crate::body::Reset;

impl From<&h2::Error> for Reset {
    fn from(error: &h2::Error) -> Self {
        let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        Self {
            code: error.reason().map(u32::from),
            by_peer: error.is_remote(),
            // What a GOAWAY ends is what it says was not looked at (RFC 9113 §6.8).
            unprocessed: error.is_remote() && (refused || error.is_go_away()),
        }
    }
}
