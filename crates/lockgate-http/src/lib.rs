//! HTTP without IO: the parts of a message, the HTTP/1 codec, and connections of HTTP/2.
//!
//! Takes bytes and gives bytes; knows no socket, no clock, no runtime and no configuration. Strict
//! by RFC 9112: a message that two implementations could read differently is refused, because a
//! proxy that forwards it lets one request pass for two.
//!
//! # Layout
//! - [`fields`], [`head`]: one message's head, owned, in one reusable buffer.
//! - [`target`]: the forms of a request-target, authorities, and the path as routing sees it.
//! - [`path_interpretations`]: interpretations of a path by different servers.
//! - [`request_target`]: target and Host taken together.
//! - [`h1`]: the codec of HTTP/1: heads, the length of a body, bodies.
//! - [`h2`]: a connection of HTTP/2 of either side, its heads, and a scanner of its frames.
//! - [`hpack`]: compression of HTTP/2 heads.
//! - [`forwarding`], [`forwarded_for`]: the changes of an intermediary.
//! - [`priority`]: priorities of responses (RFC 9218).
//! - [`conditional`], [`etag`]: conditional requests and entity tags (RFC 9110 §13).
//! - [`range`]: range requests (RFC 9110 §14).
//! - [`coding`]: negotiation of content codings, and Vary (RFC 9110 §12.5).
//! - [`media_type`]: media types by file name, and their properties.
//! - [`trace`]: the trace of a request (W3C Trace Context).
//! - [`status`], [`date`]: reason phrases; the date as HTTP writes and reads it.

#![forbid(unsafe_code)]

pub mod coding;
pub mod conditional;
pub mod date;
pub mod etag;
pub mod fields;
pub mod forwarded_for;
pub mod forwarding;
pub mod h1;
pub mod h2;
pub mod head;
pub mod hpack;
pub mod media_type;
pub mod path_interpretations;
pub mod priority;
pub mod range;
pub mod request_target;
pub mod status;
pub mod target;
pub mod trace;
