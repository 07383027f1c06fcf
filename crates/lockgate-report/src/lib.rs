//! Reports of a load run for people, programs and Prometheus: `lockgate load` writes them.
//!
//! Every form shows the same figures, which are computed in [`summary`] and nowhere else. Makes no
//! load: see [`lockgate_load`].

#![forbid(unsafe_code)]

pub mod csv;
pub mod escape;
pub mod hdr;
pub mod html;
pub mod json;
pub mod live;
pub mod page;
pub mod push;
mod rows;
#[cfg(test)]
mod sample;
pub mod summary;
pub mod text;
pub mod threshold;
mod units;
mod words;
