//! HTTP/2 on a connection, towards clients and endpoints alike: the h2 crate speaks it. Here are
//! the bytes below its frames, the bodies and heads of its streams, and limits on peers.
//!
//! Only this module names types of the h2 crate, but for the driver of the connections of clients.

mod abuse_limits;
mod cancelled_requests;
mod downstream_stream;
mod endpoint_frames;
mod field_sections;
mod frame_io;
mod heads;
mod incoming;
mod keepalive_ping;
mod outgoing;
mod partial_message;
mod send_scheduler;
mod shared_connection;
mod upstream_stream;

pub use abuse_limits::{AbuseLimits, Violation};
pub use downstream_stream::DownstreamStream;
pub use field_sections::HeadVerdict;
pub use frame_io::{FrameIo, Io};
pub use heads::RequestPseudoFields;
pub use incoming::Incoming;
pub use send_scheduler::SendScheduler;
pub use shared_connection::{MOST, SharedConnection};
pub use upstream_stream::UpstreamStream;

use crate::body::Reset;

impl From<&h2::Error> for Reset {
    fn from(error: &h2::Error) -> Self {
        let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        Self {
            code: error.reason().map(u32::from),
            by_peer: error.is_remote(),
            // A GOAWAY ends only the streams that it names as not processed (RFC 9113 §6.8).
            unprocessed: error.is_remote() && (refused || error.is_go_away()),
        }
    }
}
