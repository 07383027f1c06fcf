//! Codings and changes of content: bytes in, bytes out.
//!
//! Knows no socket, no file, no message and no configuration. The bytes may come from clients or
//! origins, so memory, output and time are bounded for any input.
//!
//! # Layout
//! - [`coding`]: zstd, br and gzip towards clients, those and deflate from origins.
//! - [`change`]: replacement of a document's texts, patterns and elements, with values of a
//!   request.

#![forbid(unsafe_code)]

pub mod change;
pub mod coding;

/// The result of one bounded step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepProgress {
    /// All input is taken, and all output that is ready has been written.
    Done,
    /// The room for output is used up: call again with the rest of the input, which may be empty.
    Full,
}
