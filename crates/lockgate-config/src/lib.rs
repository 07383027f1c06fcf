//! What the user wrote, checked against one table of keys and turned once into what will run.
//!
//! Does not open certificates, sockets or logs: the code that opens them adds its mistakes to a
//! `Report`, at the places that the model carries along.
//!
//! # Layout
//! `include` reads files into a tree (`document`) that knows where each part stands; `check` walks
//! it against the tables of `keys` and has `values` read the value of each; `resolve` makes the
//! `model` of it. `reference` and `schema` are written from `keys` too. Imports go one way:
//! `source`, `report` → `document` → `language` → `check` → `values` → `keys` → `resolve` → `load`.

#![forbid(unsafe_code)]

mod address;
mod cache_control;
mod check;
mod codes;
mod document;
mod environment;
mod foreign_names;
mod host;
mod include;
mod key_paths;
mod keys;
mod language;
mod load;
mod merged;
mod model;
mod policy;
mod redirect_map;
mod reference;
mod references;
mod report;
mod resolve;
mod schema;
mod source;
mod spelling;
mod syntax;
mod table;
mod tunnel_rule;
mod units;
mod values;

pub use codes::{Code, Severity};
pub use environment::Environment;
pub use load::{ConfigDraft, LoadedConfig, load, load_in, parse_str, parse_str_in, read};
pub use model::*;
pub use redirect_map::{MapMistake, MapProblem, RedirectLine, parse_redirects};
pub use reference::reference;
pub use report::{Color, Diagnostic, Report};
pub use schema::schema;
pub use source::SourceSpan;
