//! Every key of the configuration, once: its language, default, example and meaning.
//!
//! The checker, the reference in `docs/config.md` and the JSON Schema are made from these tables,
//! and `resolve` reads what was written by the same keys. Does not check anything itself.

use std::marker::PhantomData;

use lockgate_rules::{AcceptProxy, ProxyVersion};

use crate::model::Protocol;
use crate::values::{AnyLanguage, As, Either, False, Language, List, Time, Typed, Words};

/// Declares the keys of a table, in a module of its own if it is named, and the list of them in
/// the order of the reference.
macro_rules! table {
    ($(#[$doc:meta])* mod $module:ident; $($keys:tt)*) => {
        $(#[$doc])*
        pub(crate) mod $module {
            use super::*;

            table! { $($keys)* }
        }
    };
    ($(const $name:ident: $type:ty = $key:expr;)*) => {
        $(pub(crate) const $name: $type = $key;)*

        /// All keys of the table, in the order of the reference.
        pub(crate) const ALL: &[Row] = &[$($name.row()),*];
    };
}

pub(crate) mod answers;
pub(crate) mod content;
pub(crate) mod files;
pub(crate) mod http2;
mod named;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod rates;
pub(crate) mod route;
pub(crate) mod shape;
pub(crate) mod site;
pub(crate) mod tcp;
pub(crate) mod timeouts;
pub(crate) mod tls;
pub(crate) mod top;
pub(crate) mod tunnel;
mod ways;

pub(crate) use named::{By, Names};
pub(crate) use top::ALL as ROOT;
pub(crate) use ways::{Way, example, full_name, ways};

/// A key whose values have a type. [`Defaulted`] has a value in any case; of another one there is
/// nothing where it was not written.
pub(crate) struct Key<T, U = Optional> {
    row: Row,
    reads: PhantomData<fn() -> (T, U)>,
}

/// A key with a default.
pub(crate) type Defaulted<T> = Key<T, Filled>;

/// There may be nothing.
pub(crate) struct Optional;

/// There is a default.
pub(crate) struct Filled;

/// One key, whatever its values are.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) language: &'static dyn AnyLanguage,
    pub(crate) default: Unset,
    /// A value in TOML that is not the default.
    pub(crate) example: &'static str,
    /// Other entries of the same table without which the example would not be valid or change
    /// nothing.
    pub(crate) with: &'static str,
    /// An entry of the table around its own without which the example would not be valid.
    pub(crate) around: &'static str,
    /// Entries that the examples of its own keys need beside them.
    pub(crate) inside: &'static str,
    /// An entry at the top of the file without which the example would not be valid.
    pub(crate) atop: &'static str,
    /// An entry of the site without which the example would change nothing.
    pub(crate) site: &'static str,
    pub(crate) doc: &'static str,
}

/// What holds when the key is absent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unset {
    /// This value, in TOML.
    Is(&'static str),
    /// Nothing; what that means.
    Absent(&'static str),
    /// That is a mistake.
    Required,
    /// Each of its keys has its own.
    Within,
}

impl<T> Key<T> {
    /// A key without a value of its own where it is absent.
    const fn new<L: Language<Value = T>>(
        name: &'static str,
        language: &'static L,
        default: Unset,
        example: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::of(Row::new(name, language, default, example, doc))
    }

    /// The same key where it need not be written.
    const fn or_absent(self, meaning: &'static str) -> Self {
        Self::of(Row {
            default: Unset::Absent(meaning),
            ..self.row
        })
    }
}

impl<T> Key<T, Filled> {
    /// A key with a default, written in TOML.
    const fn defaulted<L: Language<Value = T>>(
        name: &'static str,
        language: &'static L,
        default: &'static str,
        example: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::of(Row::new(name, language, Unset::Is(default), example, doc))
    }
}

impl<T, U> Key<T, U> {
    const fn of(row: Row) -> Self {
        Self {
            row,
            reads: PhantomData,
        }
    }

    pub(crate) const fn row(&self) -> Row {
        self.row
    }

    const fn with(self, with: &'static str) -> Self {
        Self::of(Row { with, ..self.row })
    }

    const fn around(self, around: &'static str) -> Self {
        Self::of(Row { around, ..self.row })
    }

    const fn atop(self, atop: &'static str) -> Self {
        Self::of(Row { atop, ..self.row })
    }

    const fn site(self, site: &'static str) -> Self {
        Self::of(Row { site, ..self.row })
    }

    const fn inside(self, inside: &'static str) -> Self {
        Self::of(Row { inside, ..self.row })
    }
}

impl<T: 'static, U> Typed for Key<T, U> {
    type Value = T;

    fn name(&self) -> &'static str {
        self.row.name
    }
}

impl Row {
    const fn new(
        name: &'static str,
        language: &'static dyn AnyLanguage,
        default: Unset,
        example: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            language,
            default,
            example,
            with: "",
            around: "",
            inside: "",
            atop: "",
            site: "",
            doc,
        }
    }
}

const OFF: Words<()> = Words(&[("off", ())]);
const AUTO: Words<()> = Words(&[("auto", ())]);
const AT_LEAST_1MS: Time = Time { min: 1 };

const SPOKEN: List<Words<Protocol>> = List {
    of: Words(&[
        ("h2", Protocol::H2),
        ("http1", Protocol::Http1),
        ("h2c", Protocol::H2c),
    ]),
    least: 1,
};

const PROXY_VERSIONS: Words<ProxyVersion> =
    Words(&[("v1", ProxyVersion::V1), ("v2", ProxyVersion::V2)]);

const PROXY_HEADER: Either<AcceptProxy> = Either(&[
    &As(False, never),
    &Words(&[
        ("require", AcceptProxy::Require),
        ("optional", AcceptProxy::Optional),
    ]),
]);

fn never(_: ()) -> AcceptProxy {
    AcceptProxy::Never
}

/// Finds a key of a table.
pub(crate) fn find(keys: &'static [Row], name: &str) -> Option<&'static Row> {
    keys.iter().find(|key| key.name == name)
}
