//! Whole numbers: those of a range, and a few.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use serde_json::{Value as Json, json};

use crate::codes::Code;
use crate::document::{TomlItem, TomlValue};
use crate::language::{Language, Notation, TreeChecker, names};

/// A number of a range that fits the type.
pub(crate) struct WholeNumber<N> {
    min: u64,
    max: u64,
    value: PhantomData<N>,
}

/// One of a few numbers.
pub(crate) struct OneOf(pub(crate) &'static [u16]);

/// A range that ends here has no end that a reader should know.
const ENDLESS: u64 = 1_000_000_000;

impl<N> WholeNumber<N> {
    pub(crate) const fn new(min: u64, max: u64) -> Self {
        Self {
            min,
            max,
            value: PhantomData,
        }
    }

    /// A number from 1 on, without an end.
    pub(crate) const fn count() -> Self {
        Self::new(1, ENDLESS)
    }
}

impl<N> Notation for WholeNumber<N> {
    fn expected(&self) -> String {
        match (self.min, self.max) {
            (min, ENDLESS) => format!("a number from {min}"),
            (min, max) => format!("a number from {min} to {max}"),
        }
    }

    fn schema(&self) -> Json {
        json!({ "type": "integer", "minimum": self.min, "maximum": self.max })
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Integer(_))
    }

    fn range(&self) -> Option<RangeInclusive<u64>> {
        Some(self.min..=self.max)
    }
}

impl<N: TryFrom<u64> + Clone + Debug + 'static> Language for WholeNumber<N> {
    type Value = N;

    fn read(&self, item: &TomlItem, path: &str, checker: &mut TreeChecker<'_>) -> Option<N> {
        let TomlValue::Integer(value) = item.node else {
            return checker.wrong_type(self, item, path);
        };
        let (min, max) = (self.min, self.max);
        let value = value.and_then(|value| u64::try_from(value).ok());
        let within = value.filter(|value| (min..=max).contains(value));
        if let Some(number) = within.and_then(|value| N::try_from(value).ok()) {
            return Some(number);
        }
        let message = "the number is out of range";
        let cure = format!("write a number from {min} to {max}");
        checker.invalid(Code::OutOfRange, &item.at, message, "", cure)
    }
}

impl OneOf {
    fn listed(&self) -> String {
        let numbers: Vec<_> = self.0.iter().map(u16::to_string).collect();
        numbers.join(", ")
    }
}

impl Notation for OneOf {
    fn expected(&self) -> String {
        format!("one of {}", self.listed())
    }

    fn reference(&self) -> String {
        names("", self.0.iter())
    }

    fn schema(&self) -> Json {
        json!({ "enum": self.0 })
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Integer(_))
    }
}

impl Language for OneOf {
    type Value = u16;

    fn read(&self, item: &TomlItem, path: &str, checker: &mut TreeChecker<'_>) -> Option<u16> {
        let TomlValue::Integer(value) = item.node else {
            return checker.wrong_type(self, item, path);
        };
        let value = value.and_then(|value| u16::try_from(value).ok());
        if let Some(value) = value.filter(|value| self.0.contains(value)) {
            return Some(value);
        }
        let message = "the number is not one of these";
        let cure = format!("write {}", self.listed());
        checker.invalid(Code::OutOfRange, &item.at, message, "", cure)
    }
}
