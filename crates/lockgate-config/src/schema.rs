//! A JSON Schema of the configuration, written from the table of keys.
//!
//! Editors complete and check with it. It says less than `lockgate check`: nothing about what keys
//! mean together, and it takes every string with a `${…}`.

use serde_json::{Map, Value, json};

use crate::keys::{ROOT, Row, Unset};

/// The schema of a configuration file (JSON Schema draft 7). An included file may lack any table,
/// so nothing is required at the top.
pub fn schema() -> Value {
    let mut schema = table(ROOT);
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

/// The schema of a table of these keys.
pub(crate) fn table(keys: &[Row]) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let required: Vec<_> = keys
        .iter()
        .filter(|key| matches!(key.default, Unset::Required))
        .map(|key| key.name)
        .collect();
    let mut table =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn property(key: &Row) -> Value {
    let mut property = key.language.schema();
    property["description"] = json!(key.doc);
    if let Unset::Is(default) = key.default {
        property["default"] = from_toml(default);
    }
    if !key.example.is_empty() {
        property["examples"] = json!([from_toml(key.example)]);
    }
    property
}

fn from_toml(value: &str) -> Value {
    let table: toml::Table = toml::from_str(&format!("value = {value}")).unwrap_or_default();
    table
        .get("value")
        .and_then(|value| serde_json::to_value(value).ok())
        .unwrap_or(Value::Null)
}
