//! Programs side by side under the same load: what `lockgate compare` does.
//!
//! Makes no load itself: `lockgate load` does, as a process of its own, and says what came of it.
//! From file to table: [`mod@file`] and [`template`] say what is compared, [`session`] starts and
//! measures, [`sample`] reads what a load said, [`comparison`] and [`statistics`] say what that
//! shows, [`document`] writes it down.

mod certificate;
mod command;
pub mod comparison;
pub mod cpus;
pub mod document;
pub mod file;
pub mod guard;
mod machine;
pub mod placeholders;
mod running;
pub mod sample;
pub mod session;
pub mod statistics;
pub mod template;

pub use command::{Format, Options, run};
