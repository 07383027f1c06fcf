//! Value languages: how the value of a key is written in TOML, one file for each language.
//!
//! A language reads a value, and says in words, in the reference and in the schema what may be
//! written. It does not know which keys are written in it: see `keys`.

use std::any::Any;
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::check::Checker;
use crate::codes::Code;
use crate::document::{Item, Node, Text};
use crate::keys::{By, Names, Row};
use crate::place::At;

mod address;
mod cache_policy;
mod choice;
mod duration;
mod field;
mod host;
mod http_url;
mod list;
mod map;
mod media;
mod network;
mod number;
mod origin;
mod path;
mod percent;
mod rate;
mod rate_limit;
mod served_path;
mod session_key;
mod size;
mod statuses;
mod table;
mod tables;
mod template;
mod text;
mod tls;
mod tunnel_rule;
mod words;

pub(crate) use address::{Endpoint, Ip, Listener, Target, Upstream};
pub(crate) use cache_policy::CachePolicy;
pub(crate) use choice::{As, Either, False, Flag, Form, OneOrMore, OrFlag, Short, Switch, Unless};
pub(crate) use duration::{Age, Time};
pub(crate) use field::RequestField;
pub(crate) use host::{HostName, SiteHost};
pub(crate) use http_url::PlainUrl;
pub(crate) use list::{Items, List, Listed};
pub(crate) use map::{Map, MapOf, Named};
pub(crate) use media::{Media, MediaType, media_range};
pub(crate) use network::Network;
pub(crate) use number::{Number, OneOf};
pub(crate) use origin::WebOrigin;
pub(crate) use path::{FilePath, FilePattern, FormattedLog, LogFile};
pub(crate) use percent::Percent;
pub(crate) use rate::Rate;
pub(crate) use rate_limit::{Burst, Frequency, Limit, LimitBy, WrittenLimit};
pub(crate) use served_path::{FileName, InsidePath, TryPath};
pub(crate) use session_key::{HashBy, StickyKey, StickyBy};
pub(crate) use size::Size;
pub(crate) use statuses::{StatusRanges, statuses};
pub(crate) use table::{Entry, MayBeTable, Strange, Table, TableOf, Typed, Written};
pub(crate) use tables::{Keyed, TableName, Tables, is_table_name};
pub(crate) use template::{Template, UrlPath};
pub(crate) use text::{Body, FieldValue, Line, Method, Name, Token};
pub(crate) use tls::{GroupName, SuiteName, Version};
pub(crate) use tunnel_rule::TunnelTarget;
pub(crate) use words::{Words, quoted};

/// What is known of a language whatever its values are.
///
/// The provided methods are those of a language with alternatives, which [`Syntax::of`] names.
pub(crate) trait Syntax {
    /// The alternatives, none of which has alternatives itself; empty where there is one way only.
    fn of(&self) -> Vec<&dyn Syntax> {
        Vec::new()
    }

    /// What may be written, as one phrase for messages.
    fn expected(&self) -> String {
        join(&self.of(), ", or ", |one| one.expected())
    }

    /// The same for the reference.
    fn reference(&self) -> String {
        match &*self.of() {
            [] => self.expected(),
            of => join(of, "; or ", |one| one.reference()),
        }
    }

    /// The JSON Schema of a value.
    fn schema(&self) -> Json {
        match &*self.of() {
            [one] => one.schema(),
            of => json!({ "anyOf": of.iter().map(|one| one.schema()).collect::<Vec<_>>() }),
        }
    }

    /// The units that a quantity may have, for the reference.
    fn unit(&self) -> Option<&'static str> {
        self.of().iter().find_map(|one| one.unit())
    }

    /// Whether values have this form in TOML, be it a quantity without its unit.
    fn takes(&self, node: &Node) -> bool {
        self.of().iter().any(|one| one.takes(node))
    }

    /// The words, where nothing else is a value.
    fn words(&self) -> Vec<&'static str> {
        self.of().iter().flat_map(|one| one.words()).collect()
    }

    /// The numbers that may be written.
    fn range(&self) -> Option<RangeInclusive<u64>> {
        self.of().iter().find_map(|one| one.range())
    }

    /// Whether any text is a value, but perhaps for a few signs.
    fn is_free(&self) -> bool {
        self.of().iter().any(|one| one.is_free())
    }

    /// What to write instead of a value of another type.
    fn instead(&self, item: &Item) -> Option<String> {
        self.of().iter().find_map(|one| one.instead(item))
    }

    /// What to write instead of a text, in a list of values.
    fn meant(&self, _text: &str) -> Option<String> {
        None
    }

    /// The language of the entries of a list.
    fn entries(&self) -> Option<&dyn Syntax> {
        None
    }

    /// The keys of the table that a value may be.
    fn table(&self) -> Option<&'static [Row]> {
        self.of().iter().find_map(|one| one.table())
    }

    /// The keys of the tables in the list that a value may be.
    fn listed_table(&self) -> Option<&'static [Row]> {
        self.of().iter().find_map(|one| one.listed_table())
    }

    /// By what tables with a header of their own are told apart.
    fn by(&self) -> Option<By> {
        None
    }

    /// By what the tables of a map are told apart.
    fn leads(&self) -> Option<Names> {
        None
    }
}

/// A language in which values are written.
pub(crate) trait Language: Syntax {
    /// What a text in it means.
    type Value: Clone + Debug + 'static;

    /// Reads a value; nothing where it is a mistake, which has been reported then. `path` is that
    /// of the key in the reference.
    fn read(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Self::Value>;
}

/// A language of texts.
pub(crate) trait TextLanguage {
    /// What a text means.
    type Value: Clone + Debug + 'static;

    /// What may be written, as one phrase for messages.
    const EXPECTED: &str;

    /// What every text matches, for the schema; empty where it is only not empty.
    const PATTERN: &str = "";

    /// The units of a quantity, for the reference.
    const UNIT: Option<&'static str> = None;

    /// Whether any text is a value, but perhaps for a few signs.
    const FREE: bool = false;

    /// As [`Language::read`].
    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<Self::Value>;

    /// As [`Syntax::expected`].
    fn expected(&self) -> String {
        Self::EXPECTED.to_owned()
    }

    /// As [`Syntax::reference`].
    fn reference(&self) -> String {
        self.expected()
    }

    /// As [`Syntax::schema`].
    fn schema(&self) -> Json {
        match Self::PATTERN {
            "" => json!({ "type": "string", "minLength": 1 }),
            matched => pattern(matched),
        }
    }

    /// What to write instead of a number without its unit; nothing where there is no unit.
    fn bare(&self, _number: u64) -> Option<String> {
        None
    }

    /// As [`Syntax::instead`].
    fn instead(&self, item: &Item) -> Option<String> {
        let is_plain = matches!(item.node, Node::Integer(_) | Node::Bool(_));
        (Self::FREE && is_plain).then(|| format!("write \"{}\"", item.at.text()))
    }

    /// As [`Syntax::meant`].
    fn meant(&self, _text: &str) -> Option<String> {
        None
    }
}

impl<L: TextLanguage> Syntax for L {
    fn expected(&self) -> String {
        TextLanguage::expected(self)
    }

    fn reference(&self) -> String {
        TextLanguage::reference(self)
    }

    fn schema(&self) -> Json {
        TextLanguage::schema(self)
    }

    fn unit(&self) -> Option<&'static str> {
        L::UNIT
    }

    fn takes(&self, node: &Node) -> bool {
        match node {
            Node::Text(_) => true,
            Node::Integer(_) => TextLanguage::bare(self, 0).is_some(),
            _ => false,
        }
    }

    fn is_free(&self) -> bool {
        L::FREE
    }

    fn instead(&self, item: &Item) -> Option<String> {
        TextLanguage::instead(self, item)
    }

    fn meant(&self, text: &str) -> Option<String> {
        TextLanguage::meant(self, text)
    }
}

impl<L: TextLanguage> Language for L {
    type Value = L::Value;

    fn read(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Self::Value> {
        let number = match &item.node {
            Node::Text(text) => return self.parse(text, &item.at, checker),
            Node::Integer(number) => number.map_or(10, i64::unsigned_abs),
            _ => return checker.wrong_type(self, item, path),
        };
        // The readings are offered, the likeliest first, none is taken.
        let Some(cure) = self.bare(number) else {
            return checker.wrong_type(self, item, path);
        };
        let message = "a number without a unit";
        checker.invalid(Code::Unit, &item.at, message, "which unit is meant?", cure)
    }
}

/// A language whose type of values is not known.
pub(crate) trait AnyLanguage: Syntax {
    /// As [`Language::read`].
    fn read_any(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Rc<dyn Any>>;
}

impl<L: Language> AnyLanguage for L {
    fn read_any(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Rc<dyn Any>> {
        let value = checker.value(self, item, path)?;
        Some(Rc::new(value))
    }
}

/// The alternatives of a language, or the language itself.
pub(crate) fn alternatives(language: &dyn Syntax) -> Vec<&dyn Syntax> {
    let of = language.of();
    if of.is_empty() { vec![language] } else { of }
}

fn join(of: &[&dyn Syntax], between: &str, each: impl Fn(&&dyn Syntax) -> String) -> String {
    of.iter().map(each).collect::<Vec<_>>().join(between)
}

/// The schema of a text that matches a pattern, or has a reference in it.
fn pattern(pattern: &str) -> Json {
    json!({ "anyOf": [{ "type": "string", "pattern": pattern }, { "$ref": "#/definitions/reference" }] })
}

/// The schema of one of these words, or a reference.
fn one_of(words: &[&str]) -> Json {
    json!({ "anyOf": [{ "enum": words }, { "$ref": "#/definitions/reference" }] })
}
