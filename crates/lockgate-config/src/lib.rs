//! What the user wrote, checked against one table of keys and turned once into what will run.
//!
//! Does not open certificates, sockets or logs: mistakes that only then come to light are added to
//! a `Report` by whoever finds them, at the place that the model carries along.
//!
//! # Layout
//! `include` reads files into a tree (`document`) that knows where each part stands; `check` walks
//! it against `keys`, whose values `values` reads; `resolve` makes the `model` of it. `reference`
//! and `schema` are written from `keys` too.

#![forbid(unsafe_code)]

mod address;
mod cache_control;
mod check;
mod codes;
mod document;
mod environment;
mod host;
mod include;
mod keys;
mod load;
mod merged;
mod model;
mod newcomers;
mod place;
mod policy;
mod redirect_map;
mod reference;
mod references;
mod report;
mod resolve;
mod schema;
mod syntax;
mod tunnel_rule;
mod units;
mod values;

pub use codes::{Code, Severity};
pub use environment::Environment;
pub use load::{Draft, Loaded, load, load_in, parse_str, parse_str_in, read};
pub use model::*;
pub use place::At;
pub use redirect_map::{MapMistake, MapProblem, RedirectLine, parse_redirects};
pub use reference::reference;
pub use report::{Color, Diagnostic, Report};
pub use schema::schema;
