//! A JSON Schema of the configuration, written from the table of keys.
//!
//! Editors complete and check with it. It says less than `lockgate check`: nothing about what keys
//! mean together, and it takes every string with a `${…}`.

use serde_json::{Value, json};

use crate::keys::ROOT;
use crate::language::table_schema;

/// The schema of a configuration file (JSON Schema draft 7). An included file may lack any table,
/// so nothing is required at the top.
pub fn schema() -> Value {
    let mut schema = table_schema(ROOT);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("Lockgate configuration");
    schema["definitions"] = json!({
        "reference": { "type": "string", "pattern": "\\$\\{(env|file):[^}]+\\}" },
    });
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("required");
    }
    schema
}
