//! What is written from the table of keys: `docs/config.md` and `docs/lockgate.schema.json`.
//!
//! `LOCKGATE_WRITE_DOCS=1 cargo test -p lockgate-config --test documents` writes them anew.

use std::path::{Path, PathBuf};

use lockgate_config::{Environment, parse_str_in};
use serde_json::Value;

fn same(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("LOCKGATE_WRITE_DOCS").is_some() {
        std::fs::write(&path, text).expect("docs can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/{name} is not what the table of keys says; write it with LOCKGATE_WRITE_DOCS=1"
    );
}

fn schema_text() -> String {
    format!("{:#}\n", lockgate_config::schema())
}

fn examples() -> Vec<String> {
    let reference = lockgate_config::reference();
    let blocks = reference.split("```toml\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_reference_is_what_the_table_of_keys_says() {
    same("config.md", &lockgate_config::reference());
}

#[test]
fn the_schema_is_what_the_table_of_keys_says() {
    same("lockgate.schema.json", &schema_text());
}

#[test]
fn every_example_in_the_reference_is_valid() {
    let examples = examples();
    assert!(examples.len() > 50);
    let env = Environment::none()
        .with_file("/sites/a.toml", "")
        .with_file("/etc/tls/a.pem", "");
    let env = env
        .with_file("/etc/lockgate/redirects", "")
        .with_file("/etc/lockgate/eab.key", "aGVsbG8\n")
        .with_file("/etc/lockgate/dns.token", "s3cret\n")
        .with_file("/etc/lockgate/otlp.token", "s3cret\n")
        .with_file("/etc/lockgate/influx.token", "s3cret\n")
        .with_file("/etc/lockgate/dns.key", "aGVsbG8=\n");
    for example in examples {
        let rest = "[tcp.\":8443\"]\nproxy = \"127.0.0.1:3000\"\n";
        let text = if ["[tcp.", "[tunnel.", "[site."]
            .iter()
            .any(|section| example.contains(section))
        {
            example
        } else {
            format!("{example}\n{rest}")
        };
        if let Err(report) = parse_str_in(&text, Path::new("/lockgate.toml"), &env) {
            panic!("{text}\n{report}");
        }
    }
}

#[test]
fn every_example_in_the_reference_fits_the_schema() {
    let schema = lockgate_config::schema();
    for example in examples() {
        let table: toml::Table = toml::from_str(&example).unwrap();
        let value = serde_json::to_value(&table).unwrap();
        assert!(fits(&schema, &value), "{example}");
    }
    for wrong in [
        "wrokers = 1",
        "workers = 0",
        "workers = \"many\"",
        "[tcp.\":1\"]\nsni = { \"a.b\" = { tls = {} } }",
        "timeouts = { connect = 5 }",
    ] {
        let table: toml::Table = toml::from_str(wrong).unwrap();
        assert!(
            !fits(&schema, &serde_json::to_value(&table).unwrap()),
            "{wrong}"
        );
    }
}

/// The part of JSON Schema that ours uses, but for `pattern`: a text fits every pattern.
fn fits(schema: &Value, value: &Value) -> bool {
    if let Some(alternatives) = schema["anyOf"].as_array() {
        let reference = |one: &Value| one.get("$ref").is_some();
        return alternatives
            .iter()
            .any(|one| !reference(one) && fits(one, value));
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.contains(value);
    }
    if let Some(constant) = schema.get("const") {
        return constant == value;
    }
    match (
        schema["type"].as_str().expect("every schema has a type"),
        value,
    ) {
        ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => true,
        ("integer", Value::Number(number)) => {
            let number = number.as_u64();
            number >= schema["minimum"].as_u64() && number <= schema["maximum"].as_u64()
        }
        ("array", Value::Array(items)) => items.iter().all(|item| fits(&schema["items"], item)),
        ("object", Value::Object(fields)) => {
            let required = schema["required"].as_array();
            let missing = required.is_some_and(|names| {
                names
                    .iter()
                    .any(|name| !fields.contains_key(name.as_str().unwrap_or_default()))
            });
            let field = |(name, value): (&String, &Value)| match schema["properties"].get(name) {
                Some(property) => fits(property, value),
                None => {
                    schema["additionalProperties"].is_object()
                        && fits(&schema["additionalProperties"], value)
                }
            };
            !missing && fields.iter().all(field)
        }
        _ => false,
    }
}
