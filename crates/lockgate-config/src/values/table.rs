//! Tables of known keys, and what stands in them.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use crate::check::Checker;
use crate::document::{Item, Node};
use crate::keys::Row;
use crate::place::At;
use crate::{reference, schema};

use super::{Form, Language, Syntax};

/// A table of these keys.
pub(crate) struct TableOf(pub(crate) &'static [Row]);

/// A table that holds only keys it knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<&'static str, Entry>,
    pub(crate) strange: Strange,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key_at: At,
    /// Where the value stands.
    pub(crate) at: At,
    /// Of the type that the key has; nothing where it was a mistake.
    pub(crate) value: Option<Rc<dyn Any>>,
    /// Whether it, or anything in it, was a mistake.
    pub(crate) broken: bool,
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
    pub(crate) meant: Vec<&'static str>,
    /// Whether any key may have been meant by lines that could not be read.
    pub(crate) lost: bool,
}

/// A value as it was written.
#[derive(Debug)]
pub(crate) struct Written<'a, T> {
    pub(crate) value: &'a T,
    pub(crate) at: &'a At,
}

/// A key whose type of values is known.
pub(crate) trait Typed {
    type Value: 'static;

    fn name(&self) -> &'static str;
}

impl<T> Clone for Written<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Written<'_, T> {}

impl Strange {
    /// Whether one of `keys` was meant.
    pub(crate) fn meant_one_of(&self, keys: &[&str]) -> bool {
        self.lost || self.meant.iter().any(|meant| keys.contains(meant))
    }
}

impl Entry {
    /// The value, where it is no mistake.
    ///
    /// # Panics
    /// When a table is asked for a key that it does not have.
    pub(crate) fn written<T: 'static>(&self) -> Option<Written<'_, T>> {
        let value = self.value.as_ref()?.downcast_ref();
        Some(Written {
            value: value.expect("a table is asked for its own keys"),
            at: &self.at,
        })
    }
}

impl Table {
    pub(crate) fn entry<K: Typed>(&self, key: &K) -> Option<&Entry> {
        self.entries.get(key.name())
    }

    /// What was written; nothing when it was a mistake.
    pub(crate) fn written<K: Typed>(&self, key: &K) -> Option<Written<'_, K::Value>> {
        self.entry(key)?.written()
    }

    /// The value that was written, as it is.
    pub(crate) fn value<K: Typed>(&self, key: &K) -> Option<&K::Value> {
        self.written(key).map(|written| written.value)
    }

    /// Where the key stands.
    pub(crate) fn key_at<K: Typed>(&self, key: &K) -> Option<&At> {
        self.entry(key).map(|entry| &entry.key_at)
    }

    /// Where each key stands.
    pub(crate) fn into_places(self) -> BTreeMap<&'static str, At> {
        let places = self.entries.into_iter();
        places.map(|(name, entry)| (name, entry.key_at)).collect()
    }

    /// Whether the value was a mistake as a whole.
    pub(crate) fn is_invalid<K: Typed>(&self, key: &K) -> bool {
        self.entry(key).is_some_and(|entry| entry.value.is_none())
    }
}

/// What may be a table.
pub(crate) trait MayBeTable {
    fn table(&self) -> Option<&Table>;
}

impl MayBeTable for Table {
    fn table(&self) -> Option<&Table> {
        Some(self)
    }
}

impl<T> MayBeTable for Form<T> {
    fn table(&self) -> Option<&Table> {
        match self {
            Form::Short(_) => None,
            Form::Long(table) => Some(table),
        }
    }
}

/// So many keys are named, more are not read.
const FEW: usize = crate::check::FEW;

impl Syntax for TableOf {
    fn expected(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|key| key.name).take(FEW).collect();
        let more = if self.0.len() > FEW { " and more" } else { "" };
        format!("a table of {}{more}", names.join(", "))
    }

    fn reference(&self) -> String {
        reference::names("a table of ", self.0.iter().map(|key| key.name))
    }

    fn schema(&self) -> Json {
        schema::table(self.0)
    }

    fn takes(&self, node: &Node) -> bool {
        matches!(node, Node::Table(_))
    }

    fn table(&self) -> Option<&'static [Row]> {
        Some(self.0)
    }
}

impl Language for TableOf {
    type Value = Table;

    fn read(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Table> {
        match &item.node {
            Node::Table(branch) => Some(checker.table(self.0, branch, path, Some(&item.at))),
            _ => checker.wrong_type(self, item, path),
        }
    }
}
