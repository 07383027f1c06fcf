//! HTTP/2 peers: scripted ones that write any frame, and well-behaved ones on the h2 crate.
//!
//! # Layout
//! `frame` are frames and their numbers, `hpack` and `huffman` are the fields in them; [`Peer`] is
//! one end of a connection, with every frame written by hand. [`Client`] and [`Origin`] keep the
//! rules; the h2 crate keeps them for both, over a `runtime` of their own thread, so that tests
//! stay without `async`.

mod client;
pub mod frame;
pub mod hpack;
mod huffman;
mod message;
mod origin;
mod peer;
mod runtime;

pub use client::{Client, Exchange};
pub use frame::Frame;
pub use message::{ReceivedRequest, ReceivedResponse, ScriptedResponse};
pub use origin::Origin;
pub use peer::{GoAway, PREFACE, Peer};
