//! HTTP/2 peers: scripted ones that write any frame, and well-behaved ones on the h2 crate.
//!
//! # Layout
//! `frame` has frames and their numbers, `hpack` and `huffman` their fields; [`Peer`] is one end of
//! a connection with frames written by hand. [`Client`] and [`Origin`] follow the rules by the h2
//! crate, over a `runtime` in a thread, so that tests stay without `async`.

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
pub use message::{Answer, Asked, Reply};
pub use origin::Origin;
pub use peer::{GoAway, PREFACE, Peer};
