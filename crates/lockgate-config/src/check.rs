//! Walks what was written against the table of keys and turns each value into what it means.
//!
//! Every mistake is reported and the walk goes on; what was wrong becomes `Value::Invalid`, so that
//! no second mistake is made of it. Does not know what keys mean together: see `resolve`.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::ListenAddr;
use crate::codes::Code;
use crate::document::{Branch, Entry, Item, Node, Syntax};
use crate::keys::{self, Key, Kind, Unset};
use crate::model::{
    Allowance, Cidr, EndpointAddr, Group, HashKey, Host, HttpUrl, LimitKey, MediaRange, Origin,
    Suite, TlsVersion,
};
use crate::newcomers::{self, Meaning};
use crate::place::At;
use crate::report::Report;
use crate::tunnel_rule::TunnelRule;

use places::{join, nearby, reading};
use wrong::{misread, unlimited};

pub(crate) use answers::media_range;
pub(crate) use expected::expected;
use expected::{keys_sentence, one_of};
pub(crate) use http::{WrittenLimit, statuses};
pub(crate) use tables::{Id, Keyed, Named, is_table_name};

mod answers;
mod cures;
mod expected;
mod files;
mod http;
mod networks;
mod places;
mod tables;
mod text;
mod tunnel;
mod unquoted;
mod wrong;

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
    /// The name in `pool:NAME`.
    Pool(String),
    Network(Cidr),
    TunnelRule(TunnelRule),
    Ip(IpAddr),
    Host(Host),
    /// Bytes a second.
    Rate(u64),
    Frequency(u32, Duration),
    Limit(WrittenLimit),
    Allowance(Allowance),
    LimitKey(LimitKey),
    HashKey(HashKey),
    Statuses(RangeInclusive<u16>),
    /// A format and a place.
    Log(&'static str, Box<Value>),
    Version(TlsVersion),
    Suite(Suite),
    Group(Group),
    MediaRange(MediaRange),
    /// `None` is every one.
    Origin(Option<Origin>),
    Url(HttpUrl),
    List(Vec<Checked>),
    Table(Table),
    Tables(Vec<Keyed>),
    Map(Vec<Named>),
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
            Value::Map(map) => map.iter().any(|one| one.value.value.is_broken()),
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
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<&'static str, Checked>,
    pub(crate) key_places: BTreeMap<&'static str, At>,
    pub(crate) strange: Strange,
}

/// The keys of a table that are not known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strange {
    /// Whether there is one, or lines could not be read: what is missing may have been meant by
    /// it.
    pub(crate) any: bool,
    /// Whether one of them holds a table.
    pub(crate) tables: bool,
    /// The keys that they were meant to be, as far as that is known.
    meant: Vec<&'static str>,
    /// Whether any key may have been meant by lines that could not be read.
    lost: bool,
}

impl Strange {
    /// Whether one of `keys` was meant.
    pub(crate) fn meant_one_of(&self, keys: &[&str]) -> bool {
        self.lost || self.meant.iter().any(|meant| keys.contains(meant))
    }
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
        let lost = self.syntax == Syntax::Damaged;
        let strange = Strange {
            any: lost,
            lost,
            ..Strange::default()
        };
        let mut table = Table {
            strange,
            ..Table::default()
        };
        for (name, entry) in &branch.entries {
            match keys::find(keys, name) {
                Some(key) => {
                    let value = self.value(&key.kind, &entry.item, &join(path, name));
                    // A table where none can be was meant as another key.
                    table.strange.any |=
                        matches!((&value, &entry.item.node), (Value::Invalid, Node::Table(_)));
                    table.key_places.insert(key.name, entry.key_at.clone());
                    table.entries.insert(
                        key.name,
                        Checked {
                            value,
                            at: entry.item.at.clone(),
                        },
                    );
                }
                None => {
                    table.strange.any = true;
                    table.strange.tables |= matches!(entry.item.node, Node::Table(_));
                    table
                        .strange
                        .meant
                        .extend(self.unknown(keys, name, entry, path));
                }
            }
        }
        if let Some(at) = at {
            self.required(keys, &table, at);
        }
        table
    }

    fn required(&mut self, keys: &'static [Key], table: &Table, at: &At) {
        // What was meant by a strange key is not missing.
        let missing = |key: &&Key| {
            matches!(key.default, Unset::Required)
                && !table.entries.contains_key(key.name)
                && !table.strange.meant_one_of(&[key.name])
        };
        for key in keys.iter().filter(missing) {
            let message = format!("`{}` is missing", key.name);
            let cure = format!("add {} = {}", key.name, key.example);
            self.report
                .push_at(Code::MissingKey, at, message, "this table needs it", cure);
        }
    }

    /// Reports the key; which one was meant by it, if that is known.
    fn unknown(
        &mut self,
        keys: &'static [Key],
        name: &str,
        entry: &Entry,
        path: &str,
    ) -> Option<&'static str> {
        let place = reading(path);
        let unknown = format!("no key is called `{name}` {place}");
        let later = format!("`{name}` is not in this version");
        let is_path = name.starts_with('/');
        // A key of the site behind the header of a path is no other name for itself.
        let is_ours = |meaning: &Meaning| path == "site.*.path.*" && meaning.key() == Some(name);
        let meaning =
            newcomers::meaning(keys, name).filter(|meaning| !is_path && !is_ours(meaning));
        let (code, message, why, cure) = match meaning {
            Some(Meaning::Write(cure)) => {
                (Code::UnknownKey, unknown, "unknown key", cure.to_owned())
            }
            Some(Meaning::Later(cure)) => {
                (Code::NotYet, later, "it will come later", cure.to_owned())
            }
            Some(Meaning::Absent(cure)) => (
                Code::NotYet,
                later,
                "Lockgate does not do this",
                cure.to_owned(),
            ),
            None => {
                let cure = match path {
                    "" => unquoted::without_section(name, &entry.item),
                    _ => None,
                };
                let cure = cure.unwrap_or_else(|| nearby(keys, name, path));
                (Code::UnknownKey, unknown, "unknown key", cure)
            }
        };
        self.report.push_at(code, &entry.key_at, message, why, cure);
        match meaning {
            Some(meaning) => meaning.key(),
            None if is_path => Some("to"),
            None => newcomers::nearest(name, keys.iter().map(|key| key.name)),
        }
    }

    pub(crate) fn value(&mut self, kind: &Kind, item: &Item, path: &str) -> Value {
        match (kind, &item.node) {
            (_, Node::Broken) => Value::Invalid,
            (Kind::Either(kinds), _) => self.either(kind, kinds, item, path),
            (Kind::False, Node::Bool(false)) => Value::Bool(false),
            (Kind::Bool, Node::Bool(value)) => Value::Bool(*value),
            (Kind::Integer { min, max }, Node::Integer(value)) => {
                self.integer(*value, (*min, *max), item)
            }
            (Kind::OneOf(numbers), Node::Integer(value)) => self.one_of(*value, numbers, item),
            (kind, Node::Integer(value)) if has_unit(kind) => self.bare(kind, *value, item),
            (Kind::List { of, least }, Node::List(items)) => {
                self.list(of, *least, items, item, path)
            }
            (Kind::Table(keys), Node::Table(branch)) => {
                Value::Table(self.table(keys, branch, path, Some(&item.at)))
            }
            (Kind::Tables(by, keys), Node::Table(branch)) => self.tables(*by, keys, branch, path),
            (Kind::Map(names, of, keys), Node::Table(branch)) => {
                self.map(*names, of, keys, branch, path)
            }
            (kind, Node::Text(text)) if is_text(kind) => self.text(kind, text, item),
            _ => self.wrong_type(kind, item, path),
        }
    }

    /// Takes the alternative that fits the form of the value; a word only when it is exactly that
    /// word, or when no other alternative is a text.
    fn either(&mut self, whole: &Kind, kinds: &'static [Kind], item: &Item, path: &str) -> Value {
        let fitting = kinds.iter().filter(|kind| fits(kind, item));
        let chosen = fitting
            .clone()
            .find(|kind| is_word(kind, item))
            .or_else(|| {
                fitting
                    .clone()
                    .find(|kind| !matches!(kind, Kind::Word(_)))
                    .or_else(|| fitting.clone().next())
            });
        match chosen {
            _ if !kinds.iter().any(|kind| is_word(kind, item)) && unlimited(kinds, &item.node) => {
                self.wrong_type(whole, item, path)
            }
            _ if kinds.iter().any(|kind| is_word(kind, item)) => {
                chosen.map_or(Value::Invalid, |kind| self.value(kind, item, path))
            }
            Some(Kind::Word(_)) => self.unknown_word(whole, item),
            Some(chosen) if matches!(&item.node, Node::Text(text) if misread(kinds, chosen, text)) => {
                self.wrong_type(whole, item, path)
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
                self.report.push_at(
                    Code::OutOfRange,
                    &item.at,
                    "the number is out of range",
                    "",
                    cure,
                );
                Value::Invalid
            }
        }
    }

    fn one_of(&mut self, value: Option<i64>, numbers: &[u64], item: &Item) -> Value {
        match value.and_then(|value| u64::try_from(value).ok()) {
            Some(value) if numbers.contains(&value) => Value::Integer(value),
            _ => {
                let cure = format!("write {}", one_of(numbers));
                self.report.push_at(
                    Code::OutOfRange,
                    &item.at,
                    "the number is not one of these",
                    "",
                    cure,
                );
                Value::Invalid
            }
        }
    }

    fn list(&mut self, of: &Kind, least: usize, items: &[Item], whole: &Item, path: &str) -> Value {
        if items.len() < least {
            let cure = format!("write {}", keys_sentence(of));
            self.report.push_at(
                Code::OutOfRange,
                &whole.at,
                "the list is empty",
                "it needs an entry",
                cure,
            );
            return Value::Invalid;
        }
        let checked = items.iter().map(|item| {
            let value = self.value(of, item, path);
            Checked {
                value,
                at: item.at.clone(),
            }
        });
        Value::List(checked.collect())
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
            | Kind::Tables(..)
            | Kind::Map(..)
            | Kind::OneOf(_)
            | Kind::Either(_)
    )
}

fn is_word(kind: &Kind, item: &Item) -> bool {
    matches!((kind, &item.node), (Kind::Word(words), Node::Text(text)) if words.contains(&&*text.value))
}

fn fits(kind: &Kind, item: &Item) -> bool {
    match &item.node {
        Node::Text(_) => is_text(kind),
        Node::Integer(_) => matches!(kind, Kind::Integer { .. } | Kind::OneOf(_)) || has_unit(kind),
        Node::Bool(value) => matches!(kind, Kind::Bool) || matches!(kind, Kind::False) && !value,
        Node::List(_) => matches!(kind, Kind::List { .. }),
        Node::Table(_) => matches!(kind, Kind::Table(_) | Kind::Tables(..) | Kind::Map(..)),
        Node::Float | Node::Datetime | Node::Broken => false,
    }
}

/// Whether it is a string of a number and a unit, for which a number alone is a mistake.
fn has_unit(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Duration { .. }
            | Kind::Size { .. }
            | Kind::Rate
            | Kind::Percent
            | Kind::Frequency
            | Kind::Allowance
            | Kind::Limit
    )
}

#[cfg(test)]
mod tests;
