//! Lists of values in one language.

use std::fmt::Debug;

use serde_json::{Value as Json, json};

use crate::codes::Code;
use crate::document::{TomlItem, TomlValue};
use crate::language::{KeyRow, Language, Notation, TreeChecker};
use crate::source::SourceSpan;

/// A list with a minimum number of entries.
pub(crate) struct List<L> {
    pub(crate) of: L,
    pub(crate) least: usize,
}

/// The entries of a list.
#[derive(Debug, Clone)]
pub(crate) struct Items<T>(Vec<Listed<T>>);

/// One entry of a list, with its place.
#[derive(Debug, Clone)]
pub(crate) struct Listed<T> {
    /// `None` if it was a mistake.
    pub(crate) value: Option<T>,
    pub(crate) at: SourceSpan,
}

impl<T> Items<T> {
    /// A list of one value.
    pub(super) fn one(value: T, at: &SourceSpan) -> Self {
        Items(vec![Listed {
            value: Some(value),
            at: at.clone(),
        }])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listed<T>> {
        self.0.iter()
    }

    pub(crate) fn as_slice(&self) -> &[Listed<T>] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values without mistakes.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|item| item.value.as_ref())
    }

    /// The values without mistakes, with their places.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&T, &SourceSpan)> {
        self.0
            .iter()
            .filter_map(|item| Some((item.value.as_ref()?, &item.at)))
    }
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Items(Vec::new())
    }
}

impl<L: Language> Notation for List<L> {
    fn expected(&self) -> String {
        format!("a list of which each is {}", self.of.expected())
    }

    fn reference(&self) -> String {
        format!("a list; each: {}", self.of.reference())
    }

    fn schema(&self) -> Json {
        json!({ "type": "array", "items": self.of.schema(), "minItems": self.least })
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::List(_))
    }

    fn entries(&self) -> Option<&dyn Notation> {
        Some(&self.of)
    }

    fn listed_table(&self) -> Option<&'static [KeyRow]> {
        self.of.table()
    }
}

impl<L: Language> Language for List<L> {
    type Value = Items<L::Value>;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        let TomlValue::List(items) = &item.node else {
            return checker.wrong_type(self, item, path);
        };
        if items.len() < self.least {
            let why = "it needs an entry";
            let cure = format!("write at least one entry: {}", self.of.expected());
            return checker.invalid(Code::OutOfRange, &item.at, "the list is empty", why, cure);
        }
        let listed = items.iter().map(|item| Listed {
            value: checker.value(&self.of, item, path),
            at: item.at.clone(),
        });
        Some(Items(listed.collect()))
    }
}
