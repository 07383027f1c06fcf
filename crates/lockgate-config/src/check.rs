//! Walks what was written against the table of keys and turns each value into what it means.
//!
//! Every mistake is reported and the walk goes on; what was wrong becomes `Value::Invalid`, so that no
//! second mistake is made of it. Does not know what keys mean together: see `resolve`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use crate::address::ListenAddr;
use crate::codes::Code;
use crate::document::{Branch, Entry, Item, Node, Syntax, Text};
use crate::keys::{self, Key, Kind, Unset};
use crate::model::{Cidr, EndpointAddr, Group, Suite, TlsVersion};
use crate::newcomers;
use crate::place::At;
use crate::report::Report;

use places::{elsewhere, example, join, reading, short};

mod places;
mod text;

/// A value that fits its key.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Bool(bool),
    Integer(u64),
    Duration(Duration),
    Size(u64),
    Word(&'static str),
    Text(String),
    Path(PathBuf),
    Listener(ListenAddr),
    Endpoint(EndpointAddr),
    Network(Cidr),
    Version(TlsVersion),
    Suite(Suite),
    Group(Group),
    List(Vec<Checked>),
    Table(Table),
    ByAddress(Vec<Listening>),
    /// It has been reported.
    Invalid,
}

impl Value {
    /// Whether it, or anything in it, was a mistake.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Value::Invalid => true,
            Value::List(items) => items.iter().any(|item| item.value.is_broken()),
            Value::Table(table) => table.entries.values().any(|entry| entry.value.is_broken()),
            _ => false,
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub(crate) value: Value,
    pub(crate) at: At,
}

/// A table that holds only keys it knows.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<&'static str, Checked>,
    pub(crate) key_places: BTreeMap<&'static str, At>,
}

/// One table of a listener.
#[derive(Debug, Clone)]
pub(crate) struct Listening {
    pub(crate) name: String,
    pub(crate) addr: ListenAddr,
    pub(crate) at: At,
    pub(crate) table: Table,
}

/// Paths of which the absolute form is known, by the file and offset where they were written.
pub(crate) type Absolute = HashMap<(usize, usize), String>;

/// The walk.
pub(crate) struct Checker<'a> {
    pub(crate) report: &'a mut Report,
    pub(crate) syntax: Syntax,
    pub(crate) absolute: Absolute,
}

impl Checker<'_> {
    /// Checks a table. `path` is that of the table in the reference: empty, `tls`, `tcp.*.proxy`.
    pub(crate) fn table(
        &mut self,
        keys: &'static [Key],
        branch: &Branch,
        path: &str,
        at: Option<&At>,
    ) -> Table {
        let mut table = Table { entries: BTreeMap::new(), key_places: BTreeMap::new() };
        for (name, entry) in &branch.entries {
            match keys::find(keys, name) {
                Some(key) => {
                    let value = self.value(&key.kind, &entry.item, &join(path, name));
                    table.key_places.insert(key.name, entry.key_at.clone());
                    table.entries.insert(key.name, Checked { value, at: entry.item.at.clone() });
                }
                None => self.unknown(keys, name, entry, path),
            }
        }
        if let Some(at) = at {
            self.required(keys, &table, at);
        }
        table
    }

    fn required(&mut self, keys: &'static [Key], table: &Table, at: &At) {
        let missing =
            |key: &&Key| matches!(key.default, Unset::Required) && !table.entries.contains_key(key.name);
        if self.syntax == Syntax::Damaged {
            return;
        }
        for key in keys.iter().filter(missing) {
            let message = format!("`{}` is missing", key.name);
            let cure = format!("add {} = {}", key.name, key.example);
            self.report.push_at(Code::MissingKey, at, message, "this table needs it", cure);
        }
    }

    fn unknown(&mut self, keys: &'static [Key], name: &str, entry: &Entry, path: &str) {
        let full = join(path, name);
        if let Some(cure) = newcomers::later(&full).or_else(|| newcomers::later(&short(path, name))) {
            let message = format!("`{name}` is not in this version");
            self.report.push_at(Code::NotYet, &entry.key_at, message, "it will come later", cure);
            return;
        }
        let names = || keys.iter().map(|key| key.name);
        let place = reading(path);
        let cure = if let Some(cure) = newcomers::synonym(name) {
            cure.to_owned()
        } else if let Some(near) = newcomers::nearest(name, names()) {
            format!("did you mean `{near}`?")
        } else if let Some(other) = elsewhere(name, path) {
            format!("it belongs in {other}")
        } else {
            format!("the keys {place} are {}", names().collect::<Vec<_>>().join(", "))
        };
        let message = format!("no key is called `{name}` {place}");
        self.report.push_at(Code::UnknownKey, &entry.key_at, message, "unknown key", cure);
    }

    pub(crate) fn value(&mut self, kind: &Kind, item: &Item, path: &str) -> Value {
        match (kind, &item.node) {
            (_, Node::Broken) => Value::Invalid,
            (Kind::Either(kinds), _) => self.either(kind, kinds, item, path),
            (Kind::False, Node::Bool(false)) => Value::Bool(false),
            (Kind::Bool, Node::Bool(value)) => Value::Bool(*value),
            (Kind::Integer { min, max }, Node::Integer(value)) => self.integer(*value, (*min, *max), item),
            (Kind::Duration { .. } | Kind::Size { .. }, Node::Integer(value)) => {
                self.bare(kind, *value, item)
            }
            (Kind::List { of, least }, Node::List(items)) => self.list(of, *least, items, item, path),
            (Kind::Table(keys), Node::Table(branch)) => {
                Value::Table(self.table(keys, branch, path, Some(&item.at)))
            }
            (Kind::ByAddress(keys), Node::Table(branch)) => self.by_address(keys, branch, path),
            (kind, Node::Text(text)) if is_text(kind) => self.text(kind, text, item),
            _ => self.wrong_type(kind, item, path),
        }
    }

    /// Takes the alternative that fits the form of the value; a word only when it is exactly that word, or
    /// when no other alternative is a text.
    fn either(&mut self, whole: &Kind, kinds: &'static [Kind], item: &Item, path: &str) -> Value {
        let fitting = kinds.iter().filter(|kind| fits(kind, item));
        let chosen = fitting.clone().find(|kind| is_word(kind, item)).or_else(|| {
            fitting.clone().find(|kind| !matches!(kind, Kind::Word(_))).or_else(|| fitting.clone().next())
        });
        match chosen {
            Some(Kind::Word(_)) if !kinds.iter().any(|kind| is_word(kind, item)) => {
                self.unknown_word(whole, item)
            }
            Some(kind) => self.value(kind, item, path),
            None => self.wrong_type(whole, item, path),
        }
    }

    fn integer(&mut self, value: Option<i64>, (min, max): (u64, u64), item: &Item) -> Value {
        match value.and_then(|value| u64::try_from(value).ok()) {
            Some(value) if (min..=max).contains(&value) => Value::Integer(value),
            _ => {
                let cure = format!("write a number from {min} to {max}");
                self.report.push_at(Code::OutOfRange, &item.at, "the number is out of range", "", cure);
                Value::Invalid
            }
        }
    }

    /// A number where a unit belongs: the readings are offered, none is guessed.
    fn bare(&mut self, kind: &Kind, value: Option<i64>, item: &Item) -> Value {
        let digits = value.map_or_else(|| "10".to_owned(), |value| value.unsigned_abs().to_string());
        let cure = match kind {
            Kind::Size { .. } => {
                format!("write \"{digits}KB\" (times 1,000 bytes), \"{digits}MB\" or \"{digits}B\"")
            }
            _ => format!(
                "write \"{digits}s\" for seconds, \"{digits}ms\" for milliseconds or \"{digits}m\" for minutes"
            ),
        };
        self.report.push_at(Code::Unit, &item.at, "a number without a unit", "which unit is meant?", cure);
        Value::Invalid
    }

    fn list(&mut self, of: &Kind, least: usize, items: &[Item], whole: &Item, path: &str) -> Value {
        if items.len() < least {
            let cure = format!("write {}", keys_sentence(of));
            self.report.push_at(Code::OutOfRange, &whole.at, "the list is empty", "it needs an entry", cure);
            return Value::Invalid;
        }
        let checked = items.iter().map(|item| {
            let value = self.value(of, item, path);
            Checked { value, at: item.at.clone() }
        });
        Value::List(checked.collect())
    }

    fn by_address(&mut self, keys: &'static [Key], branch: &Branch, path: &str) -> Value {
        let mut listening = Vec::new();
        for (name, entry) in &branch.entries {
            let Node::Table(inner) = &entry.item.node else {
                self.no_address(keys, name, entry);
                continue;
            };
            // The keys inside are checked even when the address cannot be read.
            let table = self.table(keys, inner, &join(path, "*"), Some(&entry.key_at));
            if let Some(addr) = self.listener_key(name, &entry.key_at) {
                listening.push(Listening { name: name.clone(), addr, at: entry.key_at.clone(), table });
            }
        }
        Value::ByAddress(listening)
    }

    fn no_address(&mut self, keys: &'static [Key], name: &str, entry: &Entry) {
        if matches!(entry.item.node, Node::Broken) {
            return;
        }
        let message = match keys::find(keys, name) {
            Some(_) => format!("`{name}` stands in no listener"),
            None => format!("`{name}` is not a table"),
        };
        let cure = "write the address into the header: [tcp.\":8443\"]";
        self.report.push_at(
            Code::WrongType,
            &entry.key_at,
            message,
            "[tcp] holds one table for each address",
            cure,
        );
    }

    fn wrong_type(&mut self, kind: &Kind, item: &Item, path: &str) -> Value {
        let message = format!("{} cannot stand here", item.node.kind());
        let why = format!("expected {}", expected(kind));
        let cure = self.type_cure(kind, item, path);
        self.report.push_at(Code::WrongType, &item.at, message, why, cure);
        Value::Invalid
    }

    fn type_cure(&self, kind: &Kind, item: &Item, path: &str) -> String {
        let example = example(path).filter(|example| !example.is_empty());
        match (&item.node, kind) {
            (Node::Text(Text { raw, .. }), Kind::List { .. }) => format!("write [{raw:?}]"),
            (Node::Text(text), _) if !text.is_secret() && text.value.parse::<u64>().is_ok() => {
                format!("write {} without quotes", text.value)
            }
            (Node::Text(text), Kind::Bool | Kind::False) if matches!(&*text.value, "true" | "false") => {
                format!("write {} without quotes", text.value)
            }
            (Node::List(_), Kind::ByAddress(_)) => "write [tcp.\":8443\"], with single brackets".to_owned(),
            (_, Kind::Word(words)) => format!("write {}", quoted(words)),
            _ => example.map_or_else(String::new, |example| format!("for example {example}")),
        }
    }

    fn unknown_word(&mut self, kind: &Kind, item: &Item) -> Value {
        let words = words(kind);
        let Node::Text(text) = &item.node else { return Value::Invalid };
        let near =
            if text.is_secret() { None } else { newcomers::nearest(&text.value, words.iter().copied()) };
        let number = !text.is_secret() && fits_integer(kind) && text.value.parse::<u64>().is_ok();
        let cure = match near {
            Some(near) => format!("did you mean \"{near}\"?"),
            None if number => format!("write {} without quotes", text.value),
            None => format!("write {}", expected(kind)),
        };
        let message = format!("{:?} is not known here", text.raw);
        self.report.push_at(
            Code::UnknownWord,
            &item.at,
            message,
            format!("expected {}", expected(kind)),
            cure,
        );
        Value::Invalid
    }
}

fn is_text(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::False
            | Kind::Bool
            | Kind::Integer { .. }
            | Kind::List { .. }
            | Kind::Table(_)
            | Kind::ByAddress(_)
            | Kind::Either(_)
    )
}

fn is_word(kind: &Kind, item: &Item) -> bool {
    matches!((kind, &item.node), (Kind::Word(words), Node::Text(text)) if words.contains(&&*text.value))
}

fn fits(kind: &Kind, item: &Item) -> bool {
    match &item.node {
        Node::Text(_) => is_text(kind),
        Node::Integer(_) => matches!(kind, Kind::Integer { .. } | Kind::Duration { .. } | Kind::Size { .. }),
        Node::Bool(value) => matches!(kind, Kind::Bool) || matches!(kind, Kind::False) && !value,
        Node::List(_) => matches!(kind, Kind::List { .. }),
        Node::Table(_) => matches!(kind, Kind::Table(_) | Kind::ByAddress(_)),
        Node::Float | Node::Datetime | Node::Broken => false,
    }
}

fn fits_integer(kind: &Kind) -> bool {
    matches!(kind, Kind::Either(kinds) if kinds.iter().any(|kind| matches!(kind, Kind::Integer { .. })))
}

fn words(kind: &Kind) -> Vec<&'static str> {
    match kind {
        Kind::Word(words) => words.to_vec(),
        Kind::Either(kinds) => kinds.iter().flat_map(words).collect(),
        _ => Vec::new(),
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
}

/// What a value may be, as one phrase.
pub(crate) fn expected(kind: &Kind) -> String {
    match kind {
        Kind::False => "false".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Integer { min, max: 1_000_000_000 } => format!("a number from {min}"),
        Kind::Integer { min, max } => format!("a number from {min} to {max}"),
        Kind::Duration { .. } => "a duration such as \"10s\"".to_owned(),
        Kind::Size { .. } => "a size such as \"100MB\"".to_owned(),
        Kind::Word(words) => quoted(words),
        Kind::Name => "a name".to_owned(),
        Kind::Host => "a host name".to_owned(),
        Kind::Path => "a path".to_owned(),
        Kind::Pattern => "a path or pattern".to_owned(),
        Kind::LogFile => "the path of a file".to_owned(),
        Kind::Listener => "an address to listen on".to_owned(),
        Kind::Endpoint => "an address".to_owned(),
        Kind::Network => "a network such as \"10.0.0.0/8\"".to_owned(),
        Kind::Version => "\"1.2\" or \"1.3\"".to_owned(),
        Kind::Suite => "a cipher suite".to_owned(),
        Kind::Group => "a key exchange group".to_owned(),
        Kind::List { of, .. } => format!("a list of which each is {}", expected(of)),
        Kind::Table(keys) => {
            format!("a table of {}", keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", "))
        }
        Kind::ByAddress(_) => "a table for each address".to_owned(),
        Kind::Either(kinds) => kinds.iter().map(expected).collect::<Vec<_>>().join(", or "),
    }
}

fn keys_sentence(kind: &Kind) -> String {
    format!("at least one entry: {}", expected(kind))
}

#[cfg(test)]
mod tests;
