//! Codings and changes of content: bytes in, bytes out.
//!
//! Knows no socket, no file, no message and no configuration. What goes out comes from clients or
//! from origins as often as not, so everything here is bounded: memory, output and time, whatever
//! the bytes.
//!
//! # Layout
//! - [`coding`]: zstd, br and gzip towards clients, those and deflate from origins.
//! - [`change`]: texts, patterns and elements of a document replaced, with values that a request
//!   brings.

#![forbid(unsafe_code)]

pub mod change;
pub mod coding;

/// How far one bounded step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All input is taken, and all that can be given for it yet has been given.
    Done,
    /// The room for output is used up: call again, with what is left of the input, which may be
    /// nothing.
    Full,
}
