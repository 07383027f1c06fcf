//! The configuration: checked against one table of keys, and turned once into the model that runs.
//!
//! It does not open certificates, sockets or logs. The code that opens them adds its mistakes to a
//! `Report`, with the places that the model carries.
//!
//! # Layout
//! `include` reads files into a tree (`document`) in which each node knows its place; `check`
//! compares it with the tables of `keys`, and `values` parses the value of each; `resolve` builds
//! the `model` from the result. `reference` and `schema` are generated from `keys` too. Imports go
//! one way: `source`, `report` → `document` → `language` → `check` → `values` → `keys` → `resolve`
//! → `load`.

#![forbid(unsafe_code)]

mod added_endpoint;
mod address;
mod cache_control;
mod check;
mod codes;
mod document;
mod environment;
mod foreign_names;
mod format;
mod host;
mod include;
mod key_changes;
mod key_paths;
mod keys;
mod language;
mod limit_places;
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
mod sorted_map;
mod source;
mod spelling;
mod syntax;
mod table;
mod toml_comments;
mod tunnel_rule;
mod units;
mod values;

pub use added_endpoint::EndpointMistake;
pub use codes::{Code, Severity};
pub use environment::Environment;
pub use format::format;
pub use key_changes::{KeyChange, TableChange, TableChangeKind, table_changes};
pub use load::{
    ConfigDraft, LoadedConfig, load, load_in, parse_str, parse_str_in, read, read_keys, read_text,
};
pub use model::*;
pub use redirect_map::{MapMistake, MapProblem, RedirectLine, parse_redirects, redirect_lines};
pub use reference::reference;
pub use report::{Color, Diagnostic, Report};
pub use schema::schema;
pub use source::SourceSpan;
