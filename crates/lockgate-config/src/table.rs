//! Tables that have been checked: the values of known keys with their places.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::sorted_map::SortedMap;
use crate::source::SourceSpan;

/// A checked table; it holds known keys only.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckedTable {
    pub(crate) entries: SortedMap<&'static str, CheckedEntry>,
    pub(crate) strange: UnknownKeys,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct CheckedEntry {
    pub(crate) key_at: SourceSpan,
    /// The place of the value.
    pub(crate) at: SourceSpan,
    /// The value, in the key's type; `None` if it was a mistake.
    pub(crate) value: Option<Rc<dyn Any>>,
    /// Whether the value, or anything in it, was a mistake.
    pub(crate) broken: bool,
}

/// The unknown keys of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnknownKeys {
    /// Whether there are unknown keys or unreadable lines: a missing key may be one of them,
    /// misspelt.
    pub(crate) any: bool,
    /// Whether one of them holds a table.
    pub(crate) tables: bool,
    /// The keys that they probably stand for, as far as that is known.
    pub(crate) meant: Vec<&'static str>,
    /// Whether unreadable lines may stand for any key.
    pub(crate) lost: bool,
}

/// A value with its place.
#[derive(Debug)]
pub(crate) struct PlacedValue<'a, T> {
    pub(crate) value: &'a T,
    pub(crate) at: &'a SourceSpan,
}

/// A key with a known type of values.
pub(crate) trait Typed {
    type Value: 'static;

    fn name(&self) -> &'static str;
}

impl<T> Clone for PlacedValue<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PlacedValue<'_, T> {}

impl UnknownKeys {
    /// Whether an unknown key probably stands for one of `keys`.
    pub(crate) fn meant_one_of(&self, keys: &[&str]) -> bool {
        self.lost || self.meant.iter().any(|meant| keys.contains(meant))
    }
}

impl CheckedEntry {
    /// The value, if it is no mistake.
    ///
    /// # Panics
    /// When the table does not have the key.
    pub(crate) fn written<T: 'static>(&self) -> Option<PlacedValue<'_, T>> {
        let value = self.value.as_ref()?.downcast_ref();
        Some(PlacedValue {
            value: value.expect("a table is asked for its own keys"),
            at: &self.at,
        })
    }
}

impl CheckedTable {
    pub(crate) fn entry<K: Typed>(&self, key: &K) -> Option<&CheckedEntry> {
        self.entries.get(key.name())
    }

    /// The value of a key with its place; `None` if it was a mistake or the key is absent.
    pub(crate) fn written<K: Typed>(&self, key: &K) -> Option<PlacedValue<'_, K::Value>> {
        self.entry(key)?.written()
    }

    /// The value of a key; `None` if it was a mistake or the key is absent.
    pub(crate) fn value<K: Typed>(&self, key: &K) -> Option<&K::Value> {
        self.written(key).map(|written| written.value)
    }

    /// The place of a key.
    pub(crate) fn key_at<K: Typed>(&self, key: &K) -> Option<&SourceSpan> {
        self.entry(key).map(|entry| &entry.key_at)
    }

    /// The place of each key, by its name.
    pub(crate) fn into_places(self) -> BTreeMap<&'static str, SourceSpan> {
        let places = self.entries.into_iter();
        places.map(|(name, entry)| (name, entry.key_at)).collect()
    }

    /// Whether the value as a whole was a mistake.
    pub(crate) fn is_invalid<K: Typed>(&self, key: &K) -> bool {
        self.entry(key).is_some_and(|entry| entry.value.is_none())
    }
}

/// A value that may be a table.
pub(crate) trait MayBeTable {
    fn table(&self) -> Option<&CheckedTable>;
}

impl MayBeTable for CheckedTable {
    fn table(&self) -> Option<&CheckedTable> {
        Some(self)
    }
}
