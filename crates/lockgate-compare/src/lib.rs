//! The `lockgate compare` command: several programs under the same load, round after round.
//!
//! Makes no load itself: it runs `lockgate load` as a process and reads its JSON report. From file
//! to result: [`mod@file`] and [`template`] make the [`plan`], [`comparison_run`] starts programs
//! and measures, [`sample`] holds one measurement, [`comparison`] and [`statistics`] the verdicts,
//! [`document`] the output. [`mod@order`] has the order of the programs.

#![forbid(unsafe_code)]

mod certificate;
mod command;
pub mod comparison;
pub mod comparison_run;
pub mod cpus;
pub mod document;
pub mod file;
pub mod guard;
mod machine;
pub mod order;
pub mod placeholders;
pub mod plan;
mod reader;
mod running;
pub mod sample;
pub mod statistics;
pub mod template;

pub use command::{CompareOptions, OutputFormat, run};
