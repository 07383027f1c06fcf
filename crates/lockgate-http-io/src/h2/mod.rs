//! HTTP/2 on a connection, towards clients and endpoints alike.
//!
//! Each connection is a [`Link`]: the layer of `lockgate_http::h2`, its socket, and its streams. A
//! [`DownstreamStream`] is a request of a client, an [`UpstreamStream`] one to an endpoint, on a
//! [`SharedConnection`].

mod cancelled_requests;
mod downstream_stream;
mod keepalive_ping;
mod link;
mod partial_message;
mod received_body;
mod received_heads;
mod request_fields;
mod response_fields;
mod send_order;
mod shared_connection;
mod stream_slot;
mod upstream_stream;
mod worker_buffers;

pub use downstream_stream::DownstreamStream;
pub use link::{
    FrameRate, HeadRefusal, Link, LinkError, LinkEvent, LinkLimits, LinkViolation, SharedLink,
};
pub use request_fields::{EndpointPseudoFields, RequestPseudoFields};
pub use shared_connection::{MOST, SharedConnection};
pub use upstream_stream::UpstreamStream;
pub use worker_buffers::WorkerBuffers;
