//! A [`Report`](crate::result::Report) for its readers: people at a terminal or in a browser, and
//! programs.
//!
//! Everybody gets the same figures, which are computed in [`summary`] and nowhere else.

pub(crate) mod escape;
pub(crate) mod units;
pub(crate) mod words;

pub mod csv;
pub mod hdr;
pub mod html;
pub mod json;
pub mod live;
pub mod summary;
pub mod text;

#[cfg(test)]
pub(crate) mod sample;
