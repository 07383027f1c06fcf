//! Value languages: the notation of a key's values in TOML, and the code that reads them.
//!
//! It holds the traits and the types of their signatures. The languages are in `values`, the keys
//! in `keys`.

use std::any::Any;
use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::document::{TomlItem, TomlValue};

mod checker;
mod json_schema;
mod row;
mod user_keys;

pub(crate) use checker::{AbsolutePaths, TreeChecker};
pub(crate) use json_schema::{one_of, pattern, table_schema};
pub(crate) use row::{KeyRow, Unset, find};
pub(crate) use user_keys::{MapKeys, TableNaming};

/// A language without the type of its values: its description for messages, reference and schema.
///
/// The provided methods are those of a language with alternatives, which [`Notation::of`] returns.
pub(crate) trait Notation {
    /// Adds its alternatives, which have no alternatives themselves; none if there is only one
    /// notation.
    fn add_of<'a>(&'a self, _of: &mut Vec<&'a dyn Notation>) {}

    /// The alternatives.
    fn of(&self) -> Vec<&dyn Notation> {
        let mut of = Vec::new();
        self.add_of(&mut of);
        of
    }

    /// The allowed values, as a phrase for messages.
    fn expected(&self) -> String {
        join(&self.of(), ", or ", |one| one.expected())
    }

    /// The allowed values, as a phrase for the reference.
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

    /// Whether values have this form in TOML; a quantity without its unit counts.
    fn accepts(&self, node: &TomlValue) -> bool {
        self.of().iter().any(|one| one.accepts(node))
    }

    /// The words, if no other value is allowed.
    fn words(&self) -> Vec<&'static str> {
        self.of().iter().flat_map(|one| one.words()).collect()
    }

    /// The range of numbers.
    fn range(&self) -> Option<RangeInclusive<u64>> {
        self.of().iter().find_map(|one| one.range())
    }

    /// Whether nearly any text is a value.
    fn is_free(&self) -> bool {
        self.of().iter().any(|one| one.is_free())
    }

    /// The cure for a value of another type.
    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        self.of().iter().find_map(|one| one.other_type_cure(item))
    }

    /// The cure for a text in place of a list.
    fn list_cure(&self, _text: &str) -> Option<String> {
        None
    }

    /// The language of the entries of a list.
    fn entries(&self) -> Option<&dyn Notation> {
        None
    }

    /// The keys of the table, if a value may be a table.
    fn table(&self) -> Option<&'static [KeyRow]> {
        self.of().iter().find_map(|one| one.table())
    }

    /// The keys of the tables in the list, if a value may be a list of tables.
    fn listed_table(&self) -> Option<&'static [KeyRow]> {
        self.of().iter().find_map(|one| one.listed_table())
    }

    /// The kind of names of tables with a header of their own.
    fn by(&self) -> Option<TableNaming> {
        None
    }

    /// The kind of names of the tables in a map.
    fn tables_by(&self) -> Option<MapKeys> {
        None
    }
}

/// A language of values, which reads them.
pub(crate) trait Language: Notation {
    /// The type of a value.
    type Value: Clone + Debug + 'static;

    /// Reads a value; `None` for a mistake, which has been reported. `path` is that of the key in
    /// the reference.
    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value>;
}

/// A language without the type of its values.
pub(crate) trait AnyLanguage: Notation {
    /// As [`Language::read`].
    fn read_any(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Rc<dyn Any>>;
}

impl<L: Language> AnyLanguage for L {
    fn read_any(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Rc<dyn Any>> {
        let value = checker.value(self, item, path)?;
        Some(Rc::new(value))
    }
}

/// The alternatives of languages; a language without alternatives is one itself.
pub(crate) fn alternatives<'a>(
    languages: impl IntoIterator<Item = &'a dyn Notation>,
    of: &mut Vec<&'a dyn Notation>,
) {
    for language in languages {
        let known = of.len();
        language.add_of(of);
        if of.len() == known {
            of.push(language);
        }
    }
}

fn join(of: &[&dyn Notation], between: &str, each: impl Fn(&&dyn Notation) -> String) -> String {
    of.iter().map(each).collect::<Vec<_>>().join(between)
}

/// Words in quotes, for a message.
pub(crate) fn quoted(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    quoted.join(" or ")
}

/// Names as code for the reference, after a phrase.
pub(crate) fn names<T: Display>(before: &str, names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    format!("{before}{}", names.join(", "))
}
