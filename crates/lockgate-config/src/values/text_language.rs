//! Languages of texts: each a function from a text to a value. Their mistakes are reported in one
//! place.

use std::fmt::Debug;

use serde_json::{Value as Json, json};

use crate::codes::Code;
use crate::document::{TomlItem, TomlString, TomlValue};
use crate::language::{Language, Notation, TreeChecker, pattern};
use crate::source::SourceSpan;

/// A language with texts as its values.
pub(crate) trait TextLanguage {
    /// The type of a value.
    type Value: Clone + Debug + 'static;

    /// The allowed texts, as a phrase for messages.
    const EXPECTED: &str;

    /// A pattern of all allowed texts, for the schema; empty if any text but the empty one may be
    /// allowed.
    const PATTERN: &str = "";

    /// The units of a quantity, for the reference.
    const UNIT: Option<&'static str> = None;

    /// Whether nearly any text is a value.
    const FREE: bool = false;

    /// The value of a text.
    fn parse(&self, text: &TomlString) -> Result<Self::Value, InvalidText>;

    /// The value at its place: paths start from the folder of the file.
    fn rooted(
        &self,
        value: Self::Value,
        _: &TomlString,
        _: &SourceSpan,
        _: &mut TreeChecker<'_>,
    ) -> Self::Value {
        value
    }

    /// As [`Notation::expected`].
    fn expected(&self) -> String {
        Self::EXPECTED.to_owned()
    }

    /// As [`Notation::reference`].
    fn reference(&self) -> String {
        self.expected()
    }

    /// As [`Notation::schema`].
    fn schema(&self) -> Json {
        match Self::PATTERN {
            "" => json!({ "type": "string", "minLength": 1 }),
            matched => pattern(matched),
        }
    }

    /// The cure for a number without its unit; `None` if there is no unit.
    fn unit_cure(&self, _number: u64) -> Option<String> {
        None
    }

    /// As [`Notation::instead`].
    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        let is_plain = matches!(item.node, TomlValue::Integer(_) | TomlValue::Bool(_));
        (Self::FREE && is_plain).then(|| format!("write \"{}\"", item.at.text()))
    }

    /// As [`Notation::meant`].
    fn list_cure(&self, _text: &str) -> Option<String> {
        None
    }
}

/// An invalid text: the mistake and its cure.
#[derive(Debug)]
pub(crate) struct InvalidText {
    code: Code,
    message: String,
    why: String,
    cure: String,
    is_secret: bool,
}

impl TomlString {
    /// An invalid text. `message` follows the quoted text; neither `why` nor `cure` holds any of
    /// it.
    pub(crate) fn invalid(
        &self,
        code: Code,
        message: &str,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) -> InvalidText {
        InvalidText {
            is_secret: self.is_secret(),
            ..InvalidText::new(code, format!("{:?} {message}", self.raw), why, cure)
        }
    }
}

impl InvalidText {
    /// Its message, the reason and the cure.
    pub(crate) fn into_texts(self) -> (String, String, String) {
        (self.message, self.why, self.cure)
    }

    /// A mistake with a message of its own.
    pub(super) fn new(
        code: Code,
        message: String,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) -> InvalidText {
        InvalidText {
            code,
            message,
            why: why.into(),
            cure: cure.into(),
            is_secret: false,
        }
    }

    /// The same mistake with a better cure, if there is one. The cure may quote the text; it is not
    /// shown if the text came from `${…}`.
    pub(crate) fn or_meant(mut self, cure: impl Into<Option<String>>) -> Self {
        if let (Some(cure), false) = (cure.into(), self.is_secret) {
            self.cure = cure;
        }
        self
    }

    /// Reports the mistake and returns no value.
    pub(crate) fn report<T>(self, at: &SourceSpan, checker: &mut TreeChecker<'_>) -> Option<T> {
        checker.invalid(self.code, at, self.message, self.why, self.cure)
    }
}

impl<L: TextLanguage> Notation for L {
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

    fn accepts(&self, node: &TomlValue) -> bool {
        match node {
            TomlValue::Text(_) => true,
            TomlValue::Integer(_) => self.unit_cure(0).is_some(),
            _ => false,
        }
    }

    fn is_free(&self) -> bool {
        L::FREE
    }

    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        TextLanguage::other_type_cure(self, item)
    }

    fn list_cure(&self, text: &str) -> Option<String> {
        TextLanguage::list_cure(self, text)
    }
}

impl<L: TextLanguage> Language for L {
    type Value = L::Value;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        let number = match &item.node {
            TomlValue::Text(text) => {
                return match self.parse(text) {
                    Ok(value) => Some(self.rooted(value, text, &item.at, checker)),
                    Err(invalid) => invalid.report(&item.at, checker),
                };
            }
            TomlValue::Integer(number) => number.map_or(10, i64::unsigned_abs),
            _ => return checker.wrong_type(self, item, path),
        };
        // The readings are offered, the likeliest first, none is taken.
        let Some(cure) = self.unit_cure(number) else {
            return checker.wrong_type(self, item, path);
        };
        let message = "a number without a unit";
        checker.invalid(Code::Unit, &item.at, message, "which unit is meant?", cure)
    }
}
