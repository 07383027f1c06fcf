//! JSON Schemas of values, and of tables of keys.

use serde_json::{Map, Value as Json, json};

use super::{KeyRow, Unset};

/// The schema of a text that matches a pattern, or has a reference in it.
pub(crate) fn pattern(pattern: &str) -> Json {
    json!({ "anyOf": [{ "type": "string", "pattern": pattern }, { "$ref": "#/definitions/reference" }] })
}

/// The schema of one of these words, or a reference.
pub(crate) fn one_of(words: &[&str]) -> Json {
    json!({ "anyOf": [{ "enum": words }, { "$ref": "#/definitions/reference" }] })
}

/// The schema of a table of these keys.
pub(crate) fn table_schema(keys: &[KeyRow]) -> Json {
    let properties: Map<String, Json> = keys
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

fn property(key: &KeyRow) -> Json {
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

fn from_toml(value: &str) -> Json {
    let table: toml::Table = toml::from_str(&format!("value = {value}")).unwrap_or_default();
    table
        .get("value")
        .and_then(|value| serde_json::to_value(value).ok())
        .unwrap_or(Json::Null)
}
