//! Walks what was written against the table of keys and turns each value into what it means.
//!
//! Every mistake is reported and the walk goes on; what was wrong becomes `Value::Invalid`, so that no
//! second mistake is made of it. Does not know what keys mean together: see `resolve`.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::ListenAddr;
use crate::codes::Code;
use crate::document::{Branch, Entry, Item, Node, Syntax, Text};
use crate::keys::{self, By, Key, Kind, Names, Unset};
use crate::model::{
    Allowance, Cidr, EndpointAddr, Group, HashKey, Host, HttpUrl, LimitKey, MediaRange, Origin, Suite,
    TlsVersion,
};
use crate::newcomers;
use crate::place::At;
use crate::report::Report;
use crate::tunnel_rule::TunnelRule;

use places::{elsewhere, example, join, reading, short};

pub(crate) use answers::media_range;
use http::statuses_such_as;
pub(crate) use http::{WrittenLimit, statuses};
pub(crate) use tables::{Id, Keyed, Named, is_table_name};

mod answers;
mod files;
mod http;
mod places;
mod tables;
mod text;
mod tunnel;

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
    /// Whether a key was not known: what is missing may have been meant by it.
    pub(crate) strange: bool,
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
        let mut table = Table { entries: BTreeMap::new(), key_places: BTreeMap::new(), strange: false };
        let mut later = false;
        for (name, entry) in &branch.entries {
            match keys::find(keys, name) {
                Some(key) => {
                    let value = self.value(&key.kind, &entry.item, &join(path, name));
                    table.key_places.insert(key.name, entry.key_at.clone());
                    table.entries.insert(key.name, Checked { value, at: entry.item.at.clone() });
                }
                None => {
                    table.strange = true;
                    later |= self.unknown(keys, name, entry, path);
                }
            }
        }
        // What is missing beside a key that will come later is no mistake of its own.
        if let (Some(at), false) = (at, later) {
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

    /// Reports the key; whether it is one that will come later.
    fn unknown(&mut self, keys: &'static [Key], name: &str, entry: &Entry, path: &str) -> bool {
        let full = join(path, name);
        if let Some(cure) = newcomers::later(&full).or_else(|| newcomers::later(&short(path, name))) {
            let message = format!("`{name}` is not in this version");
            self.report.push_at(Code::NotYet, &entry.key_at, message, "it will come later", cure);
            return true;
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
        false
    }

    pub(crate) fn value(&mut self, kind: &Kind, item: &Item, path: &str) -> Value {
        match (kind, &item.node) {
            (_, Node::Broken) => Value::Invalid,
            (Kind::Either(kinds), _) => self.either(kind, kinds, item, path),
            (Kind::False, Node::Bool(false)) => Value::Bool(false),
            (Kind::Bool, Node::Bool(value)) => Value::Bool(*value),
            (Kind::Integer { min, max }, Node::Integer(value)) => self.integer(*value, (*min, *max), item),
            (Kind::OneOf(numbers), Node::Integer(value)) => self.one_of(*value, numbers, item),
            (kind, Node::Integer(value)) if has_unit(kind) => self.bare(kind, *value, item),
            (Kind::List { of, least }, Node::List(items)) => self.list(of, *least, items, item, path),
            (Kind::Table(keys), Node::Table(branch)) => {
                Value::Table(self.table(keys, branch, path, Some(&item.at)))
            }
            (Kind::Tables(by, keys), Node::Table(branch)) => self.tables(*by, keys, branch, path),
            (Kind::Map(names, of, keys), Node::Table(branch)) => self.map(*names, of, keys, branch, path),
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

    fn one_of(&mut self, value: Option<i64>, numbers: &[u64], item: &Item) -> Value {
        match value.and_then(|value| u64::try_from(value).ok()) {
            Some(value) if numbers.contains(&value) => Value::Integer(value),
            _ => {
                let cure = format!("write {}", one_of(numbers));
                self.report.push_at(Code::OutOfRange, &item.at, "the number is not one of these", "", cure);
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
            Kind::Rate => format!("write \"{digits}KB/s\" or \"{digits}B/s\""),
            Kind::Percent => format!("write \"{digits}%\""),
            Kind::Frequency | Kind::Allowance | Kind::Limit => {
                format!("write \"{digits}/s\", \"{digits}/m\" or \"{digits}/h\"")
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

    fn wrong_type(&mut self, kind: &Kind, item: &Item, path: &str) -> Value {
        if self.told_later(item, path) {
            return Value::Invalid;
        }
        let message = format!("{} cannot stand here", item.node.kind());
        let why = format!("expected {}", expected(kind));
        let cure = self.type_cure(kind, item, path);
        self.report.push_at(Code::WrongType, &item.at, message, why, cure);
        Value::Invalid
    }

    /// A table that this version does not have, for a value that will be one later.
    fn told_later(&mut self, item: &Item, path: &str) -> bool {
        let Node::Table(branch) = &item.node else { return false };
        let mut told = false;
        for (name, entry) in &branch.entries {
            let Some(cure) = newcomers::later(&short(path, name)) else { continue };
            let message = format!("`{name}` is not in this version");
            self.report.push_at(Code::NotYet, &entry.key_at, message, "it will come later", cure);
            told = true;
        }
        told
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
            (Node::List(_), Kind::Tables(by, _)) => {
                let header = path.replace('*', "\"example.com\"");
                format!("write [{header}.{}], with single brackets", by.sample())
            }
            (_, Kind::Word(words)) => format!("write {}", quoted(words)),
            _ => example.map_or_else(String::new, |example| format!("for example {example}")),
        }
    }

    fn unknown_word(&mut self, kind: &Kind, item: &Item) -> Value {
        let words = words(kind);
        let Node::Text(text) = &item.node else { return Value::Invalid };
        let near = newcomers::other_word(&words, &text.value)
            .or_else(|| newcomers::nearest(&text.value, words.iter().copied()))
            .filter(|_| !text.is_secret());
        if let Some(cure) = newcomers::later_word(&words, &text.value).filter(|_| !text.is_secret()) {
            let message = format!("{:?} is not in this version", text.raw);
            self.report.push_at(Code::NotYet, &item.at, message, "it will come later", cure);
            return Value::Invalid;
        }
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

fn one_of(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
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
        Kind::FormattedLog => "the path of a file".to_owned(),
        Kind::Listener => "an address to listen on".to_owned(),
        Kind::Endpoint => "an address".to_owned(),
        Kind::Target => "an address or \"pool:NAME\"".to_owned(),
        Kind::Ip => "an IP address".to_owned(),
        Kind::SiteHost => "a host".to_owned(),
        Kind::Rate => "a rate such as \"10KB/s\"".to_owned(),
        Kind::Percent => "a share such as \"20%\"".to_owned(),
        Kind::Frequency => "a rate such as \"20/s\"".to_owned(),
        Kind::Allowance => "a rate such as \"20/s burst 200\"".to_owned(),
        Kind::Limit => "a limit such as \"20/s per client burst 40\"".to_owned(),
        Kind::LimitKey => "\"client\", \"route\" or \"header:NAME\"".to_owned(),
        Kind::HashKey => "\"client\", \"sni\", \"header:NAME\" or \"cookie:NAME\"".to_owned(),
        Kind::StickyKey => "\"cookie:NAME\" or \"tls-session\"".to_owned(),
        Kind::Statuses { from } => format!("statuses such as {}", statuses_such_as(*from)),
        Kind::OneOf(numbers) => format!("one of {}", one_of(numbers)),
        Kind::UrlPath => "the path of a URL".to_owned(),
        Kind::Method => "a method".to_owned(),
        Kind::Line | Kind::Body | Kind::FieldValue => "a text".to_owned(),
        Kind::Template => "a path or URL with placeholders".to_owned(),
        Kind::FileName => "the name of a file".to_owned(),
        Kind::InsidePath => "the path of a file in `root`".to_owned(),
        Kind::TryPath => "a path to look for in `root`".to_owned(),
        Kind::MediaType => "a media type such as \"text/html\"".to_owned(),
        Kind::CachePolicy => "a time such as \"1h\", \"no-cache\" or \"no-store\"".to_owned(),
        Kind::Age => "a time such as \"30d\" or \"1y\"".to_owned(),
        Kind::MediaRange => "a media type such as \"text/html\" or \"text/*\"".to_owned(),
        Kind::HttpUrl => "a URL such as \"http://127.0.0.1:9000/motd\"".to_owned(),
        Kind::Origin => "an origin such as \"https://app.example.com\"".to_owned(),
        Kind::Token => "a word such as \"utf-8\"".to_owned(),
        Kind::RequestField => "the name of a field such as \"remote-user\"".to_owned(),
        Kind::TunnelRule => "a target such as \"*.example.com:443\" or \"10.1.0.0/16:22\"".to_owned(),
        Kind::Network => "a network such as \"10.0.0.0/8\"".to_owned(),
        Kind::Version => "\"1.2\" or \"1.3\"".to_owned(),
        Kind::Suite => "a cipher suite".to_owned(),
        Kind::Group => "a key exchange group".to_owned(),
        Kind::List { of, .. } => format!("a list of which each is {}", expected(of)),
        Kind::Table(keys) => {
            format!("a table of {}", keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", "))
        }
        Kind::Tables(By::Address, _) => "a table for each address".to_owned(),
        Kind::Tables(By::Site, _) => "a table for each host".to_owned(),
        Kind::Tables(By::Path, _) => "a table for each path".to_owned(),
        Kind::Tables(By::Name, _) => "a table for each name".to_owned(),
        Kind::Map(Names::Errors, of, _) => format!("a table of statuses, each with {}", expected(of)),
        Kind::Map(Names::Attributes, of, _) => format!("a table of attributes, each with {}", expected(of)),
        Kind::Map(Names::Cached, of, _) => {
            format!("a table of paths and media types, each with {}", expected(of))
        }
        Kind::Map(Names::FileTypes, of, _) => {
            format!("a table of endings and paths, each with {}", expected(of))
        }
        Kind::Map(Names::Servers, of, _) => {
            format!("a table of names of servers, each with {}", expected(of))
        }
        Kind::Map(Names::Protocols, of, _) => format!("a table of protocols, each with {}", expected(of)),
        Kind::Map(_, of, _) => format!("a table of names of fields, each with {}", expected(of)),
        Kind::Either(kinds) => kinds.iter().map(expected).collect::<Vec<_>>().join(", or "),
    }
}

fn keys_sentence(kind: &Kind) -> String {
    format!("at least one entry: {}", expected(kind))
}

#[cfg(test)]
mod tests;
