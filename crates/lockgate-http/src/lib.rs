//! HTTP without IO: the words of a message, the HTTP/1 codec, and HTTP/2 in those words.
//!
//! Takes bytes and gives bytes; knows no socket, no clock, no runtime and no configuration. Strict
//! by RFC 9112: what two implementations could read in two ways is refused, because a proxy that
//! forwards it lets one request pass for two.
//!
//! # Layout
//! - [`fields`], [`head`]: one message's head, owned, in one buffer that is used again for the
//!   next.
//! - [`target`]: the forms of a request-target, authorities, and the path as routing sees it.
//! - [`readings`]: what servers are known to take one path for.
//! - [`h1`]: bytes to heads, how long a body is, bodies, and heads to bytes.
//! - [`h2`]: fields of HTTP/2 to heads, and a look at its frames.
//! - [`hpack`]: the heads of HTTP/2, compressed.
//! - [`forwarding`]: what an intermediary must change on the way.
//! - [`priority`]: which answer is wanted first (RFC 9218).
//! - [`conditional`], [`etag`]: whether the answer that is there is wanted (RFC 9110 §13).
//! - [`range`]: parts of it, and how an answer has several (RFC 9110 §14).
//! - [`coding`]: which content codings a client takes, and Vary (RFC 9110 §12.5).
//! - [`media_type`]: what a file is by its name, and what of that is text or compressible.
//! - [`trace`]: which trace a request is a part of (W3C Trace Context).
//! - [`status`], [`date`]: what codes are called; the date as HTTP writes and reads it.

#![forbid(unsafe_code)]

pub mod asked;
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
pub mod priority;
pub mod range;
pub mod readings;
pub mod status;
pub mod target;
pub mod trace;
