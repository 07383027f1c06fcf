//! Codings and changes of content: bytes in, bytes out.
//!
//! Knows no socket, no file, no message and no configuration. What goes out comes from clients or from origins as often
//! as not, so everything here is bounded: memory, output and time, whatever the bytes.
//!
//! # Layout
//! - [`coding`]: zstd, br and gzip towards clients, those and deflate from origins.

#![forbid(unsafe_code)]

pub mod coding;
