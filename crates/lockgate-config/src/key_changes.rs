//! What differs between two configurations, key by key, as they are written.
//!
//! Defaults and inheritance are not looked at: a key that is written with its default is a change.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// A table that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct TableChange {
    /// Its header: `["site", "app.example.com", "path", "/api/*"]`; empty for the keys at the top.
    pub header: Vec<String>,
    /// Whether it is new, gone, or has other keys.
    pub kind: TableChangeKind,
    /// The keys that differ, by their names.
    pub keys: Vec<KeyChange>,
}

/// What happens to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableChangeKind {
    /// Only the second configuration has it.
    Added,
    /// Only the first configuration has it.
    Removed,
    /// Both have it.
    Changed,
}

/// A key that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// Its name within its table, with dots: `timeouts.response`.
    pub name: String,
    /// The value in the first configuration, as TOML.
    pub before: Option<String>,
    /// The value in the second configuration.
    pub after: Option<String>,
}

/// Sections that have a table for each name.
const NAMED: [&str; 5] = ["site", "pool", "values", "tcp", "tunnel"];

/// Keys of secrets: their values are not shown.
const SECRETS: [&str; 5] = ["token", "secret", "password", "key", "mac_key"];
/// The tables that have secrets.
const SECRET_TABLES: [&str; 2] = ["dns", "eab"];

/// Compares two configurations that are one file each, as [`LoadedConfig::merged_toml`] makes them.
/// The keys at the top come first, then sites, pools,
/// values, relays and tunnels by their names. `test` is left out: it changes nothing that runs.
///
/// # Errors
/// When a text is no TOML.
///
/// [`LoadedConfig::merged_toml`]: crate::LoadedConfig::merged_toml
pub fn table_changes(before: &str, after: &str) -> Result<Vec<TableChange>, String> {
    let parse = |text: &str| text.parse::<Table>().map_err(|error| error.to_string());
    let (before, after) = (parse(before)?, parse(after)?);
    let mut changes = Vec::new();
    let is_named = |name: &str| NAMED.contains(&name);
    let top = |table: &Table| -> Table {
        let keys = table.iter();
        let keys = keys.filter(|(name, _)| !is_named(name) && *name != "test");
        keys.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    compare(
        &[],
        (&top(&before), &top(&after)),
        TableChangeKind::Changed,
        &mut changes,
    );
    for section in NAMED {
        let (before, after) = (inner(&before, section), inner(&after, section));
        each(&[section.to_owned()], (&before, &after), &mut changes);
    }
    Ok(changes)
}

/// The tables below a header, each compared.
fn each(header: &[String], (before, after): (&Table, &Table), changes: &mut Vec<TableChange>) {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let kind = match (before.contains_key(name), after.contains_key(name)) {
            (true, true) => TableChangeKind::Changed,
            (true, false) => TableChangeKind::Removed,
            (false, _) => TableChangeKind::Added,
        };
        let header = [header, std::slice::from_ref(name)].concat();
        let (mut one, mut two) = (inner(before, name), inner(after, name));
        let (one_paths, two_paths) = match header.first().map(String::as_str) {
            Some("site") if header.len() == 2 => (take(&mut one, "path"), take(&mut two, "path")),
            _ => (Table::new(), Table::new()),
        };
        compare(&header, (&one, &two), kind, changes);
        let header = [&*header, &["path".to_owned()]].concat();
        each(&header, (&one_paths, &two_paths), changes);
    }
}

fn compare(
    header: &[String],
    (before, after): (&Table, &Table),
    kind: TableChangeKind,
    changes: &mut Vec<TableChange>,
) {
    let mut keys = Vec::new();
    differing("", (before, after), &mut keys);
    if kind != TableChangeKind::Changed || !keys.is_empty() {
        changes.push(TableChange {
            header: header.to_owned(),
            kind,
            keys,
        });
    }
}

fn differing(prefix: &str, (before, after): (&Table, &Table), keys: &mut Vec<KeyChange>) {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let path = format!("{prefix}{}", key(name));
        match (before.get(name), after.get(name)) {
            (Some(one), Some(two)) if one == two => {}
            (Some(Value::Table(one)), Some(Value::Table(two))) => {
                differing(&format!("{path}."), (one, two), keys);
            }
            (one, two) => {
                let is_within = |names: &[&str]| prefix.split('.').any(|one| names.contains(&one));
                let is_secret = SECRETS.contains(&name.as_str()) && is_within(&SECRET_TABLES)
                    || is_secret_field(name)
                    || name == "send" && is_within(&["health"]);
                let shown = |value: &Value| match (is_secret, value) {
                    (true, _) => "…".to_owned(),
                    (false, Value::Table(table)) => {
                        inline(table, SECRET_TABLES.contains(&name.as_str()))
                    }
                    (false, value) => value.to_string(),
                };
                keys.push(KeyChange {
                    name: path,
                    before: one.map(shown),
                    after: two.map(shown),
                });
            }
        }
    }
}

/// Whether a field of requests is likely to have a password or a token.
fn is_secret_field(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let ends = [
        "authorization",
        "cookie",
        "-key",
        "-token",
        "-secret",
        "-password",
    ];
    ends.iter().any(|end| name.ends_with(end))
}

/// A table on one line.
fn inline(table: &Table, has_secrets: bool) -> String {
    let keys = table.iter().map(|(name, value)| {
        let value = match value {
            _ if has_secrets && SECRETS.contains(&name.as_str()) => "…".to_owned(),
            _ if is_secret_field(name) || name == "send" => "…".to_owned(),
            Value::Table(inner) => inline(inner, SECRET_TABLES.contains(&name.as_str())),
            value => value.to_string(),
        };
        format!("{} = {value}", key(name))
    });
    format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

fn inner(table: &Table, name: &str) -> Table {
    let inner = table.get(name).and_then(Value::as_table);
    inner.cloned().unwrap_or_default()
}

fn take(table: &mut Table, name: &str) -> Table {
    match table.remove(name) {
        Some(Value::Table(inner)) => inner,
        _ => Table::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes, a line each: `~ site.a proxy: "b" -> "c"`.
    fn changes(before: &str, after: &str) -> Vec<String> {
        let changes = table_changes(before, after).unwrap();
        let lines = changes.iter().flat_map(|table| {
            let sign = match table.kind {
                TableChangeKind::Added => '+',
                TableChangeKind::Removed => '-',
                TableChangeKind::Changed => '~',
            };
            let header = format!("{sign} {}", table.header.join("."));
            let shown = |value: &Option<String>| value.clone().unwrap_or_default();
            let keys = table.keys.iter().map(|key| {
                format!(
                    "  {}: {} -> {}",
                    key.name,
                    shown(&key.before),
                    shown(&key.after)
                )
            });
            std::iter::once(header).chain(keys.collect::<Vec<_>>())
        });
        lines.collect()
    }

    #[test]
    fn changes_are_found_by_table_and_key() {
        let before = "workers = 2\ntimeouts = { idle = \"1m\", head = \"5s\" }\n\
                      [site.\"a.test\"]\nproxy = \"b:1\"\nheaders = { x = \"1\" }\n\
                      [site.\"a.test\".path.\"/old/*\"]\nrespond = 1\n[site.gone]\nproxy = \"c\"\n";
        let after = "timeouts = { idle = \"2m\", head = \"5s\" }\n\
                     [site.\"a.test\"]\nproxy = [\"b:1\", \"b:2\"]\nheaders = { x = \"1\" }\n\
                     [site.\"a.test\".path.\"/new/*\"]\nrespond = 2\n[pool.p]\nendpoints = []\n\
                     [[test]]\nrequest = \"GET http://a\"\n";
        assert_eq!(
            changes(before, after),
            [
                "~ ",
                "  timeouts.idle: \"1m\" -> \"2m\"",
                "  workers: 2 -> ",
                "~ site.a.test",
                "  proxy: \"b:1\" -> [\"b:1\", \"b:2\"]",
                "+ site.a.test.path./new/*",
                "  respond:  -> 2",
                "- site.a.test.path./old/*",
                "  respond: 1 -> ",
                "- site.gone",
                "  proxy: \"c\" -> ",
                "+ pool.p",
                "  endpoints:  -> []",
            ]
        );
        assert_eq!(changes(before, before), [""; 0]);
    }

    #[test]
    fn a_new_table_without_keys_is_a_change() {
        assert_eq!(
            changes(
                "",
                "[site.\"a.test\".path.\"/x\"]\nrespond = 1\n[tcp.\":1\"]\n"
            ),
            [
                "+ site.a.test",
                "+ site.a.test.path./x",
                "  respond:  -> 1",
                "+ tcp.:1",
            ]
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let with = |secret: &str| {
            format!("[acme]\ndns = {{ provider = \"desec\", token = \"{secret}\" }}\n")
        };
        for lines in [
            changes(&with("one"), &with("two")),
            changes("", &with("two")),
        ] {
            let text = lines.join("\n");
            assert!(text.contains('…') && !text.contains("two"), "{text}");
        }
    }
}
