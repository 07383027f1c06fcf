//! A file of Lockgate that is being written: tables, keys and comments in the order in which they
//! were added.

use std::fmt::{self, Write};

/// The networks of all clients.
pub(crate) const EVERY_CLIENT: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// A file of Lockgate. `Display` is its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// Comment lines before the first key.
    pub preface: Vec<String>,
    /// The keys at the top and all tables.
    pub top: DraftTable,
}

/// A table: its keys are written before the tables in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DraftTable {
    /// Comment lines before its header.
    pub comments: Vec<String>,
    keys: Vec<(String, DraftValue, Option<String>)>,
    tables: Vec<(String, DraftTable)>,
    /// Tables of `[[name]]`.
    lists: Vec<(String, Vec<DraftTable>)>,
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum DraftValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<DraftValue>),
    /// A table on one line.
    Inline(Vec<(String, DraftValue)>),
}

impl From<&str> for DraftValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for DraftValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for DraftValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i64> for DraftValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl<T: Into<DraftValue>> From<Vec<T>> for DraftValue {
    fn from(list: Vec<T>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

impl DraftTable {
    /// Sets a key; a value that it had is replaced.
    pub fn set(&mut self, key: &str, value: impl Into<DraftValue>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(name, ..)| name == key) {
            Some((_, old, _)) => *old = value,
            None => self.keys.push((key.to_owned(), value, None)),
        }
    }

    /// Sets the comment at the end of a key's line, if there is such a key.
    pub fn comment_key(&mut self, key: &str, comment: &str) {
        if let Some((.., slot)) = self.keys.iter_mut().find(|(name, ..)| name == key) {
            *slot = Some(one_line(comment));
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&DraftValue> {
        self.keys
            .iter()
            .find(|(name, ..)| name == key)
            .map(|(_, value, _)| value)
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut DraftValue> {
        self.keys
            .iter_mut()
            .find(|(name, ..)| name == key)
            .map(|(_, value, _)| value)
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> Option<DraftValue> {
        let at = self.keys.iter().position(|(name, ..)| name == key)?;
        Some(self.keys.remove(at).1)
    }

    /// The table of that name, made if there is none.
    pub fn table(&mut self, name: &str) -> &mut Self {
        let at = match self.tables.iter().position(|(known, _)| known == name) {
            Some(at) => at,
            None => {
                self.tables.push((name.to_owned(), Self::default()));
                self.tables.len() - 1
            }
        };
        &mut self.tables[at].1
    }

    /// Adds a table under a name that no other table has: nothing is searched.
    pub fn append_table(&mut self, name: &str, table: Self) {
        self.tables.push((name.to_owned(), table));
    }

    /// The table of that name, if there is one.
    pub fn find_table(&self, name: &str) -> Option<&Self> {
        self.tables()
            .find_map(|(known, table)| (known == name).then_some(table))
    }

    /// The tables in it.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.tables
            .iter()
            .map(|(name, table)| (name.as_str(), table))
    }

    /// Takes a table out.
    pub fn remove_table(&mut self, name: &str) -> Option<Self> {
        let at = self.tables.iter().position(|(known, _)| known == name)?;
        Some(self.tables.remove(at).1)
    }

    /// Puts the keys and tables of another table into it; a value or a table that it had is replaced.
    pub fn merge(&mut self, other: Self) {
        for (key, value, comment) in other.keys {
            self.set(&key, value);
            if let Some(comment) = comment {
                self.comment_key(&key, &comment);
            }
        }
        for (name, table) in other.tables {
            *self.table(&name) = table;
        }
        for (name, list) in other.lists {
            for table in list {
                self.push(&name, table);
            }
        }
    }

    /// Adds the keys and tables of another table that has none of the same names: nothing is
    /// searched.
    pub fn append(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.tables.extend(other.tables);
        self.lists.extend(other.lists);
    }

    /// The keys in it.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &DraftValue)> {
        self.keys
            .iter()
            .map(|(name, value, _)| (name.as_str(), value))
    }

    /// Adds a table to the list `[[name]]`.
    pub fn push(&mut self, name: &str, table: Self) {
        match self.lists.iter_mut().find(|(known, _)| known == name) {
            Some((_, list)) => list.push(table),
            None => self.lists.push((name.to_owned(), vec![table])),
        }
    }

    /// Takes the tables of `[[name]]` out.
    pub fn take_list(&mut self, name: &str) -> Vec<Self> {
        match self.lists.iter().position(|(known, _)| known == name) {
            Some(at) => self.lists.remove(at).1,
            None => Vec::new(),
        }
    }

    /// Whether it has neither keys nor tables.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tables.is_empty() && self.lists.is_empty()
    }

    fn write(&self, out: &mut String, header: &str) {
        for (key, value, comment) in &self.keys {
            let _ = write!(out, "{} = ", quoted_key(key));
            value.write(out);
            if let Some(comment) = comment {
                let _ = write!(out, " # {comment}");
            }
            out.push('\n');
        }
        for (name, table) in &self.tables {
            let path = joined_path(header, name);
            // A table that only holds tables needs no header of its own.
            if !table.keys.is_empty() || table.is_empty() || !table.comments.is_empty() {
                table.write_header(out, &format!("[{path}]"));
            }
            table.write(out, &path);
        }
        for (name, list) in &self.lists {
            let path = joined_path(header, name);
            for table in list {
                table.write_header(out, &format!("[[{path}]]"));
                table.write(out, &path);
            }
        }
    }

    fn write_header(&self, out: &mut String, header: &str) {
        if !out.is_empty() {
            out.push('\n');
        }
        write_comments(out, &self.comments);
        out.push_str(header);
        out.push('\n');
    }
}

fn joined_path(header: &str, name: &str) -> String {
    match header {
        "" => quoted_key(name),
        header => format!("{header}.{}", quoted_key(name)),
    }
}

fn write_comments(out: &mut String, comments: &[String]) {
    for comment in comments {
        let _ = writeln!(out, "# {}", one_line(comment));
    }
}

/// A comment ends with its line, and may hold no other control character.
fn one_line(comment: &str) -> String {
    comment
        .split(|c: char| c.is_control())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

impl DraftValue {
    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Flag(flag) => {
                let _ = write!(out, "{flag}");
            }
            Self::List(list) => {
                out.push('[');
                for (index, value) in list.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    value.write(out);
                }
                out.push(']');
            }
            Self::Inline(keys) if keys.is_empty() => out.push_str("{}"),
            Self::Inline(keys) => {
                out.push_str("{ ");
                for (index, (key, value)) in keys.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    let _ = write!(out, "{} = ", quoted_key(key));
                    value.write(out);
                }
                out.push_str(" }");
            }
        }
    }
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        write_comments(&mut out, &self.preface);
        if !self.preface.is_empty() && !self.top.keys.is_empty() {
            out.push('\n');
        }
        self.top.write(&mut out, "");
        f.write_str(&out)
    }
}

/// A key of TOML, bare if it may be.
fn quoted_key(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !key.is_empty() && key.bytes().all(bare) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_written_as_toml() {
        let mut draft = Draft::default();
        draft.preface.push("From\nnginx".to_owned());
        draft.top.set("workers", 2_i64);
        draft.top.comment_key("workers", "as\nbefore");
        let site = draft.top.table("site").table("a.test");
        site.comments.push("nginx.conf:3".to_owned());
        site.set("proxy", "127.0.0.1:\"3000\"\n");
        site.set("listen", vec!["0.0.0.0", "::"]);
        let path = site.table("path").table("/api/*");
        path.set(
            "timeouts",
            DraftValue::Inline(vec![("response".to_owned(), "60s".into())]),
        );
        let mut test = DraftTable::default();
        test.set("request", "GET http://a.test/");
        draft.top.push("test", test);
        let expected = r#"# From nginx

workers = 2 # as before

# nginx.conf:3
[site."a.test"]
proxy = "127.0.0.1:\"3000\"\n"
listen = ["0.0.0.0", "::"]

[site."a.test".path."/api/*"]
timeouts = { response = "60s" }

[[test]]
request = "GET http://a.test/"
"#;
        assert_eq!(draft.to_string(), expected);
    }

    #[test]
    fn a_key_is_set_once() {
        let mut table = DraftTable::default();
        table.set("a", 1_i64);
        table.set("a", 2_i64);
        assert_eq!(table.get("a"), Some(&DraftValue::Number(2)));
        assert_eq!(table.remove("a"), Some(DraftValue::Number(2)));
        assert!(table.is_empty());
    }
}
