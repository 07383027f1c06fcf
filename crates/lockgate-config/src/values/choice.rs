//! Languages with alternatives, and the two words that switch a key: `true`, `false`, `"off"`.
//!
//! The alternative is chosen by the form of the value: see `TreeChecker::choose`.

use std::fmt::Debug;

use serde_json::{Value as Json, json};

use crate::document::{TomlItem, TomlValue};
use crate::language::{Language, Notation, TreeChecker, alternatives};
use crate::table::{CheckedTable, MayBeTable};

use super::{Items, List, TableOf};

/// The value `false`, which removes.
pub(crate) struct False;

/// The values `true` and `false`.
pub(crate) struct Flag;

/// `false` or a word, or a value: nothing or something.
pub(crate) struct Unless<N, L>(pub(crate) N, pub(crate) L);

/// `true` or `false`, or a value.
pub(crate) struct OrFlag<L>(pub(crate) L);

/// A value that was read by [`OrFlag`].
#[derive(Debug, Clone)]
pub(crate) enum Switch<T> {
    Flag(bool),
    Value(T),
}

/// A value, or a list of at least one.
pub(crate) struct OneOrMore<L>(pub(crate) List<L>);

/// A language with a function that makes other values of its own: one of [`Either`].
pub(crate) struct As<L: Language, T>(pub(crate) L, pub(crate) fn(L::Value) -> T);

/// One of several languages for the same values. None of them has alternatives.
pub(crate) struct Either<T: 'static>(pub(crate) &'static [&'static dyn Language<Value = T>]);

/// A short form, and the table that is the long form.
pub(crate) struct Short<L> {
    pub(crate) short: L,
    pub(crate) long: TableOf,
}

/// The form in which a value was written.
#[derive(Debug, Clone)]
pub(crate) enum ShortOrLong<T> {
    Short(T),
    Long(CheckedTable),
}

impl<T> ShortOrLong<T> {
    pub(crate) fn short(&self) -> Option<&T> {
        match self {
            ShortOrLong::Short(short) => Some(short),
            ShortOrLong::Long(_) => None,
        }
    }

    pub(crate) fn is_long(&self) -> bool {
        matches!(self, ShortOrLong::Long(_))
    }
}

impl<T> MayBeTable for ShortOrLong<T> {
    fn table(&self) -> Option<&CheckedTable> {
        match self {
            ShortOrLong::Short(_) => None,
            ShortOrLong::Long(table) => Some(table),
        }
    }
}

impl Notation for False {
    fn expected(&self) -> String {
        "false".to_owned()
    }

    fn reference(&self) -> String {
        "`false`".to_owned()
    }

    fn schema(&self) -> Json {
        json!({ "const": false })
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Bool(false))
    }
}

impl Language for False {
    type Value = ();

    fn read(&self, item: &TomlItem, path: &str, checker: &mut TreeChecker<'_>) -> Option<()> {
        match item.node {
            TomlValue::Bool(false) => Some(()),
            _ => checker.wrong_type(self, item, path),
        }
    }
}

impl Notation for Flag {
    fn expected(&self) -> String {
        "true or false".to_owned()
    }

    fn reference(&self) -> String {
        "`true`, `false`".to_owned()
    }

    fn schema(&self) -> Json {
        json!({ "type": "boolean" })
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Bool(_))
    }
}

impl Language for Flag {
    type Value = bool;

    fn read(&self, item: &TomlItem, path: &str, checker: &mut TreeChecker<'_>) -> Option<bool> {
        match item.node {
            TomlValue::Bool(value) => Some(value),
            _ => checker.wrong_type(self, item, path),
        }
    }
}

impl<N: Language<Value = ()>, L: Language> Notation for Unless<N, L> {
    fn add_of<'a>(&'a self, of: &mut Vec<&'a dyn Notation>) {
        alternatives([&self.0 as &dyn Notation, &self.1], of);
    }
}

impl<N: Language<Value = ()>, L: Language> Language for Unless<N, L> {
    type Value = Option<L::Value>;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        match checker.choose(self, item, path)? {
            0 => Some(None),
            _ => self.1.read(item, path, checker).map(Some),
        }
    }
}

impl<L: Language> Notation for OrFlag<L> {
    fn add_of<'a>(&'a self, of: &mut Vec<&'a dyn Notation>) {
        alternatives([&Flag as &dyn Notation, &self.0], of);
    }
}

impl<L: Language> Language for OrFlag<L> {
    type Value = Switch<L::Value>;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        match checker.choose(self, item, path)? {
            0 => Flag.read(item, path, checker).map(Switch::Flag),
            _ => self.0.read(item, path, checker).map(Switch::Value),
        }
    }
}

impl<L: Language> Notation for OneOrMore<L> {
    fn add_of<'a>(&'a self, of: &mut Vec<&'a dyn Notation>) {
        alternatives([&self.0.of as &dyn Notation, &self.0], of);
    }
}

impl<L: Language> Language for OneOrMore<L> {
    type Value = Items<L::Value>;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        // A value may have alternatives itself; the list is the last one.
        let chosen = checker.choose(self, item, path)?;
        if chosen + 1 == self.of().len() {
            return self.0.read(item, path, checker);
        }
        Some(Items::one(self.0.of.read(item, path, checker)?, &item.at))
    }
}

impl<L: Language, T> Notation for As<L, T> {
    fn add_of<'a>(&'a self, of: &mut Vec<&'a dyn Notation>) {
        alternatives([&self.0 as &dyn Notation], of);
    }
}

impl<L: Language, T: Clone + Debug + 'static> Language for As<L, T> {
    type Value = T;

    fn read(&self, item: &TomlItem, path: &str, checker: &mut TreeChecker<'_>) -> Option<T> {
        self.0.read(item, path, checker).map(self.1)
    }
}

impl<T> Notation for Either<T> {
    fn add_of<'a>(&'a self, of: &mut Vec<&'a dyn Notation>) {
        alternatives(self.0.iter().map(|one| *one as &dyn Notation), of);
    }
}

impl<T: Clone + Debug> Language for Either<T> {
    type Value = T;

    fn read(&self, item: &TomlItem, path: &str, checker: &mut TreeChecker<'_>) -> Option<T> {
        let chosen = checker.choose(self, item, path)?;
        self.0.get(chosen)?.read(item, path, checker)
    }
}

impl<L: Language> Notation for Short<L> {
    fn add_of<'a>(&'a self, of: &mut Vec<&'a dyn Notation>) {
        alternatives([&self.short as &dyn Notation, &self.long], of);
    }
}

impl<L: Language> Language for Short<L> {
    type Value = ShortOrLong<L::Value>;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        let chosen = checker.choose(self, item, path)?;
        if chosen + 1 == self.of().len() {
            return self.long.read(item, path, checker).map(ShortOrLong::Long);
        }
        self.short.read(item, path, checker).map(ShortOrLong::Short)
    }
}
