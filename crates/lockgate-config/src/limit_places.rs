//! Where limits and deadlines are written: the one that holds for a request may stand in any of
//! three tables.

use std::collections::BTreeMap;

use crate::document::{Branch, TomlEntry, TomlValue};
use crate::source::SourceSpan;

/// The keys that are noted, with all keys below them.
const NOTED: [&str; 13] = [
    "body",
    "dns",
    "http2",
    "limit",
    "limits",
    "max_bytes",
    "max_lifetime",
    "max_per_client",
    "max_per_user",
    "queue",
    "rates",
    "retry",
    "shape",
];
/// Deadlines, which have a table of their own everywhere.
const TIMEOUTS: &str = "timeouts";
/// Sections with a table for each name.
const SECTIONS: [&str; 4] = ["pool", "site", "tcp", "tunnel"];

/// The places of limits and deadlines, by the path of their key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LimitPlaces(BTreeMap<String, NotedKey>);

#[derive(Debug, Clone, PartialEq)]
struct NotedKey {
    at: SourceSpan,
    is_table: bool,
}

impl LimitPlaces {
    /// Those of a configuration.
    pub(crate) fn of(root: &Branch) -> Self {
        let mut places = Self::default();
        places.note_table(&[], root);
        for section in SECTIONS {
            for (name, table) in tables(root, section) {
                places.note_table(&[section, name], table);
                for (path, route) in tables(table, "path") {
                    places.note_table(&[section, name, "path", path], route);
                }
            }
        }
        places
    }

    /// The place of a key, as `timeouts.response`, in the table of this header; where a short form
    /// stands for its table, that of the short form.
    pub(crate) fn get(&self, header: &[&str], key: &str) -> Option<&SourceSpan> {
        let find = |name: &str| self.0.get(&joined(header, name));
        let short = || {
            let (table, _) = key.split_once('.')?;
            find(table).filter(|noted| !noted.is_table)
        };
        find(key).or_else(short).map(|noted| &noted.at)
    }

    fn note_table(&mut self, header: &[&str], table: &Branch) {
        for (name, entry) in table.entries.iter() {
            if NOTED.contains(&name.as_str()) || name == TIMEOUTS {
                self.note(header, name, entry);
            }
        }
    }

    fn note(&mut self, header: &[&str], name: &str, entry: &TomlEntry) {
        let inner = match &entry.item.node {
            TomlValue::Table(inner) => Some(inner),
            _ => None,
        };
        for (key, entry) in inner.into_iter().flat_map(|inner| inner.entries.iter()) {
            self.note(header, &format!("{name}.{key}"), entry);
        }
        let noted = NotedKey {
            at: entry.key_at.clone(),
            is_table: inner.is_some(),
        };
        self.0.insert(joined(header, name), noted);
    }
}

/// The tables below a key.
fn tables<'b>(table: &'b Branch, name: &str) -> impl Iterator<Item = (&'b str, &'b Branch)> {
    let inner = table
        .entries
        .get(name)
        .and_then(|entry| match &entry.item.node {
            TomlValue::Table(inner) => Some(inner.entries.iter()),
            _ => None,
        });
    let inner = inner.into_iter().flatten();
    inner.filter_map(|(name, entry)| match &entry.item.node {
        TomlValue::Table(table) => Some((name.as_str(), table)),
        _ => None,
    })
}

/// A path that no other has: no key of TOML without quotes has a line end, and none with quotes
/// is a host, a path, an address or the name of a pool.
fn joined(header: &[&str], name: &str) -> String {
    let mut path = header.join("\n");
    path.push('\n');
    path.push_str(name);
    path
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::environment::Environment;
    use crate::load::parse_str_in;

    #[test]
    fn limits_are_found_where_they_are_written() {
        let text = "timeouts = { idle = \"9s\" }\nlimits.head = \"8KB\"\n\
             [site.\"a.test:80\"]\nproxy = \"pool:app\"\nlimit = \"9/s\"\n\
             [site.\"a.test:80\".timeouts]\nresponse = \"2s\"\n\
             [site.\"a.test:80\".path.\"/up/*\"]\nbody.max = \"1MB\"\n\
             [pool.app]\nendpoints = [\"10.0.0.1:80\"]\nretry = false\n";
        let env = Environment::none();
        let loaded = parse_str_in(text, Path::new("gate.toml"), &env).unwrap();
        let site = ["site", "a.test:80"];
        let path = ["site", "a.test:80", "path", "/up/*"];
        for (header, key, line) in [
            (&[][..], "timeouts.idle", Some(1)),
            (&[], "timeouts.head", None),
            (&[], "limits.head", Some(2)),
            (&site, "limit", Some(5)),
            (&site, "timeouts.response", Some(7)),
            (&site, "timeouts.connect", None),
            (&path, "body.max", Some(9)),
            (&path, "limit", None),
            (&["pool", "app"], "retry.times", Some(12)),
            (&["pool", "app"], "endpoints", None),
        ] {
            let at = loaded.limit_at(header, key).map(|at| at.line());
            assert_eq!(at, line, "{header:?} {key}");
        }
    }
}
