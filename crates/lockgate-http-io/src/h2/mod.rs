//! HTTP/2 on a connection, towards clients and endpoints alike.
//!
//! Clients' connections are a [`Link`] each: the layer of `lockgate_http::h2`, its socket, and its
//! streams. Towards endpoints the h2 crate speaks it: here are the bytes below its frames, the bodies
//! and heads of its streams, and limits on endpoints. Only this module names types of the h2 crate.

mod cancelled_requests;
mod downstream_stream;
mod endpoint_frames;
mod frame_io;
mod heads;
mod incoming;
mod keepalive_ping;
mod link;
mod outgoing;
mod partial_message;
mod response_fields;
mod send_order;
mod shared_connection;
mod stream_slot;
mod upstream_stream;
mod worker_buffers;

pub use downstream_stream::DownstreamStream;
pub use heads::RequestPseudoFields;
pub use link::{
    FrameRate, HeadRefusal, Link, LinkError, LinkEvent, LinkLimits, LinkViolation, SharedLink,
};
pub use shared_connection::{MOST, SharedConnection};
pub use upstream_stream::UpstreamStream;
pub use worker_buffers::WorkerBuffers;

use frame_io::{FrameIo, Io};
use incoming::Incoming;

use crate::body::Reset;

impl From<&h2::Error> for Reset {
    fn from(error: &h2::Error) -> Self {
        let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        Self {
            code: error.reason().map(u32::from),
            fault: None,
            by_peer: error.is_remote(),
            // A GOAWAY ends only the streams that it names as not processed (RFC 9113 §6.8).
            unprocessed: error.is_remote() && (refused || error.is_go_away()),
        }
    }
}
