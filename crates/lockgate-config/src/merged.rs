//! The configuration as one TOML file: includes merged, relative paths absolute, `${…}` unchanged.
//!
//! It is stored as the last good configuration, so that it must hold no value from outside.

use crate::document::{Branch, TomlEntry, TomlItem, TomlValue};
use crate::language::AbsolutePaths;
use crate::references;

/// One file that means the same, wherever it lies.
pub(crate) fn toml(root: &Branch, absolute: &AbsolutePaths) -> String {
    let writer = TomlWriter { absolute };
    let mut text = String::new();
    let (sections, keys): (Vec<_>, Vec<_>) = root
        .entries
        .iter()
        .partition(|(_, entry)| has_header(entry));
    for (name, entry) in keys {
        writer.line(&mut text, name, entry);
    }
    for (name, entry) in sections {
        writer.section(&mut text, std::slice::from_ref(name), entry);
    }
    text
}

struct TomlWriter<'a> {
    absolute: &'a AbsolutePaths,
}

fn has_header(entry: &TomlEntry) -> bool {
    matches!(&entry.item.node, TomlValue::Table(branch) if !branch.inline)
}

impl TomlWriter<'_> {
    fn section(&self, text: &mut String, path: &[String], entry: &TomlEntry) {
        let TomlValue::Table(branch) = &entry.item.node else {
            return;
        };
        let (sections, keys): (Vec<_>, Vec<_>) = branch
            .entries
            .iter()
            .partition(|(_, entry)| path.len() < 4 && has_header(entry));
        if !keys.is_empty() || sections.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&format!(
                "[{}]\n",
                path.iter()
                    .map(|name| key(name))
                    .collect::<Vec<_>>()
                    .join(".")
            ));
        }
        for (name, entry) in keys {
            self.line(text, name, entry);
        }
        for (name, entry) in sections {
            let name = self.absolute.get(&entry.key_at.start()).unwrap_or(name);
            self.section(text, &[path, std::slice::from_ref(name)].concat(), entry);
        }
    }

    fn line(&self, text: &mut String, name: &str, entry: &TomlEntry) {
        text.push_str(&format!("{} = {}\n", key(name), self.value(&entry.item)));
    }

    fn value(&self, item: &TomlItem) -> String {
        match &item.node {
            TomlValue::Text(found) => {
                let raw = self.absolute.get(&item.at.start()).unwrap_or(&found.raw);
                string(&references::absolute(raw, &item.at.source.dir))
            }
            TomlValue::Bool(value) => value.to_string(),
            TomlValue::List(items) => {
                let items: Vec<_> = items.iter().map(|item| self.value(item)).collect();
                format!("[{}]", items.join(", "))
            }
            TomlValue::Table(branch) if branch.entries.is_empty() => "{}".to_owned(),
            TomlValue::Table(branch) => {
                let entry = |(name, entry): (&String, &TomlEntry)| {
                    format!("{} = {}", key(name), self.value(&entry.item))
                };
                format!(
                    "{{ {} }}",
                    branch
                        .entries
                        .iter()
                        .map(entry)
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
            TomlValue::Integer(_) | TomlValue::Float | TomlValue::Datetime | TomlValue::Broken => {
                item.at.text().to_owned()
            }
        }
    }
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        string(name)
    }
}

/// A TOML basic string (TOML 1.0, "String").
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
