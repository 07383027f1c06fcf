//! A closed set of words, each of which stands for one value.

use std::fmt::Debug;

use serde_json::Value as Json;

use crate::document::{TomlItem, TomlValue};
use crate::language::{Language, Notation, TreeChecker, names, one_of, quoted};

/// A closed set of words with their values.
pub(crate) struct Words<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T> Notation for Words<T> {
    fn expected(&self) -> String {
        quoted(&self.words())
    }

    fn reference(&self) -> String {
        let words = self.words();
        names("", words.iter().map(|word| format!("{word:?}")))
    }

    fn schema(&self) -> Json {
        one_of(&self.words())
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Text(_))
    }

    fn words(&self) -> Vec<&'static str> {
        self.0.iter().map(|(word, _)| *word).collect()
    }
}

impl<T: Copy + Debug> Language for Words<T> {
    type Value = T;

    fn read(&self, item: &TomlItem, path: &str, checker: &mut TreeChecker<'_>) -> Option<T> {
        let TomlValue::Text(text) = &item.node else {
            return checker.wrong_type(self, item, path);
        };
        match self.0.iter().find(|(word, _)| *word == text.value) {
            Some((_, value)) => Some(*value),
            None => checker.unknown_word(self, item),
        }
    }
}
