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
        writer.section(&mut text, &[name], entry);
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
    fn section(&self, text: &mut String, path: &[&str], entry: &TomlEntry) {
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
            text.push('[');
            for (at, name) in path.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "." });
                key(text, name);
            }
            text.push_str("]\n");
        }
        for (name, entry) in keys {
            self.line(text, name, entry);
        }
        for (name, entry) in sections {
            let name = self.absolute.get(&entry.key_at.start()).unwrap_or(name);
            self.section(text, &[path, &[name]].concat(), entry);
        }
    }

    fn line(&self, text: &mut String, name: &str, entry: &TomlEntry) {
        self.pair(text, name, entry);
        text.push('\n');
    }

    fn pair(&self, text: &mut String, name: &str, entry: &TomlEntry) {
        key(text, name);
        text.push_str(" = ");
        self.value(text, &entry.item);
    }

    fn value(&self, text: &mut String, item: &TomlItem) {
        match &item.node {
            TomlValue::Text(found) => {
                let raw = self.absolute.get(&item.at.start()).unwrap_or(&found.raw);
                string(text, &references::absolute(raw, &item.at.source.dir));
            }
            TomlValue::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            TomlValue::List(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { ", " });
                    self.value(text, item);
                }
                text.push(']');
            }
            TomlValue::Table(branch) if branch.entries.is_empty() => text.push_str("{}"),
            TomlValue::Table(branch) => {
                text.push_str("{ ");
                for (at, (name, entry)) in branch.entries.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { ", " });
                    self.pair(text, name, entry);
                }
                text.push_str(" }");
            }
            TomlValue::Integer(_) | TomlValue::Float | TomlValue::Datetime | TomlValue::Broken => {
                text.push_str(item.at.text());
            }
        }
    }
}

/// Adds a key, in quotes if it needs them.
fn key(text: &mut String, name: &str) {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        text.push_str(name);
    } else {
        string(text, name);
    }
}

/// Adds a TOML basic string (TOML 1.0, "String").
fn string(text: &mut String, value: &str) {
    text.push('"');
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let plain = value.bytes().take_while(|byte| is_plain(*byte)).count();
    text.push_str(&value[..plain]);
    for c in value[plain..].chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            c if c.is_control() => text.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}
