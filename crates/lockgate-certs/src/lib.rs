//! Certificates that come by themselves: orders from authorities by ACME (RFC 8555), an authority
//! of our own, and the files in which all of this is kept.
//!
//! Serves no client and answers no challenge: the listeners do, with what is in [`private_file`]'s
//! folder and in memory. Reads no configuration.

#![forbid(unsafe_code)]

pub mod authority;
pub mod private_file;
