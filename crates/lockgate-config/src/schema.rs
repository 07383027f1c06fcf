//! A JSON Schema of the configuration, written from the table of keys.
//!
//! Editors complete and check with it. It says less than `lockgate check`: nothing about what keys
//! mean together, and it takes every string with a `${…}`.

use serde_json::{Map, Value, json};

use crate::keys::{Key, Kind, ROOT, Unset};
use crate::model::{Group, Suite, TlsVersion};

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

fn table(keys: &[Key]) -> Value {
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

fn property(key: &Key) -> Value {
    let mut property = kind(&key.kind);
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

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::False => json!({ "const": false }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Duration { .. } => pattern("^[0-9]+(ms|s|m|h|d)$"),
        Kind::Size { .. } => pattern("^[0-9]+([KMGT]i?)?B$"),
        Kind::Word(words) => words_of(words),
        Kind::Version => words_of(&TlsVersion::ALL.map(TlsVersion::name)),
        Kind::Group => words_of(&Group::ALL.map(Group::name)),
        Kind::Suite => {
            let iana = Suite::ALL.map(|suite| suite.name().replacen("TLS13_", "TLS_", 1));
            let mut names: Vec<&str> = Suite::ALL.map(Suite::name).to_vec();
            names.extend(
                iana.iter()
                    .map(String::as_str)
                    .filter(|name| !Suite::ALL.map(Suite::name).contains(name)),
            );
            words_of(&names)
        }
        Kind::Listener => pattern("^(.*:[0-9]+|unix:.+)$"),
        Kind::Endpoint => pattern("^(.+:[0-9]+|unix:.+|srv:.+)$"),
        Kind::LogFile | Kind::FormattedLog => pattern("[/:]"),
        Kind::Target => pattern("^(.+:[0-9]+|unix:.+|srv:.+|pool:.+)$"),
        Kind::Rate => pattern("^[0-9]+([KMGT]i?)?B/s$"),
        Kind::Percent => pattern("^[0-9]+%$"),
        Kind::Frequency => pattern("^[0-9]+/[smh]$"),
        Kind::Allowance => pattern("^[0-9]+/[smh]( +burst +[0-9]+)?$"),
        Kind::Limit => pattern("^[0-9]+/[smh]"),
        Kind::LimitKey => pattern("^(client|route|header:.+)$"),
        Kind::HashKey => pattern("^(client|sni|header:.+|cookie:.+)$"),
        Kind::StickyKey => pattern("^(cookie:.+|tls-session)$"),
        Kind::Statuses { from } => {
            let status = format!("[{}-5][0-9][0-9]", from / 100);
            pattern(&format!("^{status}(-{status})?$"))
        }
        Kind::UrlPath | Kind::InsidePath => pattern("^/"),
        Kind::TryPath => pattern("^[/{]"),
        Kind::FileName => pattern("^[^/]+$"),
        Kind::MediaType | Kind::MediaRange => pattern("^.+/.+$"),
        Kind::CachePolicy => pattern("^(no-store|no-cache|[0-9]+[smhdy])( .+)?$"),
        Kind::Age => pattern("^[0-9]+[smhdy]$"),
        Kind::HttpUrl => pattern("^http://.+"),
        Kind::Origin => pattern("^(.+://.+|[*])$"),
        Kind::OneOf(numbers) => json!({ "enum": numbers }),
        Kind::Body => json!({ "type": "string" }),
        Kind::Name
        | Kind::Host
        | Kind::Path
        | Kind::Pattern
        | Kind::Network
        | Kind::TunnelRule
        | Kind::Ip
        | Kind::SiteHost
        | Kind::Method
        | Kind::Line
        | Kind::FieldValue
        | Kind::Token
        | Kind::RequestField
        | Kind::Template => json!({ "type": "string", "minLength": 1 }),
        Kind::List { of, least } => {
            json!({ "type": "array", "items": self::kind(of), "minItems": least })
        }
        Kind::Table(keys) => table(keys),
        Kind::Tables(_, keys) => json!({ "type": "object", "additionalProperties": table(keys) }),
        Kind::Map(_, of, keys) => {
            let mut map = json!({ "type": "object", "additionalProperties": self::kind(of) });
            if !keys.is_empty() {
                map["properties"] = table(keys)["properties"].take();
            }
            map
        }
        Kind::Either(kinds) => json!({ "anyOf": kinds.iter().map(self::kind).collect::<Vec<_>>() }),
    }
}

fn pattern(pattern: &str) -> Value {
    json!({ "anyOf": [{ "type": "string", "pattern": pattern }, { "$ref": "#/definitions/reference" }] })
}

fn words_of(words: &[&str]) -> Value {
    json!({ "anyOf": [{ "enum": words }, { "$ref": "#/definitions/reference" }] })
}
