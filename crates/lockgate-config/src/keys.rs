//! Every key of the configuration, once: its language, default, example and meaning.
//!
//! The checker, the reference in `docs/config.md` and the JSON Schema are made from these tables,
//! and `resolve` reads what was written by the same keys. Does not check anything itself.

use std::marker::PhantomData;

use lockgate_rules::{AcceptProxy, ProxyVersion};

use crate::language::{KeyRow, Language, MapKeys, Unset};
use crate::model::Protocol;
use crate::table::Typed;
use crate::values::{As, Either, False, List, Time, Words};

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
        pub(crate) const ALL: &[KeyRow] = &[$($name.row()),*];
    };
}

pub(crate) mod access_log;
pub(crate) mod acme;
pub(crate) mod answers;
pub(crate) mod content;
pub(crate) mod dns_provider;
mod examples;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod http2;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod rates;
pub(crate) mod request_test;
pub(crate) mod route;
pub(crate) mod shape;
pub(crate) mod site;
pub(crate) mod tcp;
pub(crate) mod timeouts;
pub(crate) mod tls;
pub(crate) mod top;
pub(crate) mod tunnel;

pub(crate) use examples::{KeyPath, example, full_name, key_paths};
pub(crate) use top::ALL as ROOT;

/// A key with the type of its values. [`Defaulted`] has a value in any case; another one has none
/// where it was not written.
pub(crate) struct ConfigKey<T, U = Optional> {
    row: KeyRow,
    reads: PhantomData<fn() -> (T, U)>,
}

/// A key with a default.
pub(crate) type Defaulted<T> = ConfigKey<T, HasDefault>;

/// A key that has no value where it was not written.
pub(crate) struct Optional;

/// A key that has a default.
pub(crate) struct HasDefault;

impl<T> ConfigKey<T> {
    /// A key without a value of its own where it is absent.
    const fn new<L: Language<Value = T>>(
        name: &'static str,
        language: &'static L,
        default: Unset,
        example: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::of(KeyRow::new(name, language, default, example, doc))
    }

    /// The same key as optional, with the meaning of its absence.
    const fn or_absent(self, meaning: &'static str) -> Self {
        Self::of(KeyRow {
            default: Unset::Absent(meaning),
            ..self.row
        })
    }
}

impl<T> ConfigKey<T, HasDefault> {
    /// A key with a default, written in TOML.
    const fn defaulted<L: Language<Value = T>>(
        name: &'static str,
        language: &'static L,
        default: &'static str,
        example: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::of(KeyRow::new(
            name,
            language,
            Unset::Is(default),
            example,
            doc,
        ))
    }
}

impl<T, U> ConfigKey<T, U> {
    const fn of(row: KeyRow) -> Self {
        Self {
            row,
            reads: PhantomData,
        }
    }

    pub(crate) const fn row(&self) -> KeyRow {
        self.row
    }

    const fn with(self, with: &'static str) -> Self {
        Self::of(KeyRow { with, ..self.row })
    }

    const fn around(self, around: &'static str) -> Self {
        Self::of(KeyRow { around, ..self.row })
    }

    const fn atop(self, atop: &'static str) -> Self {
        Self::of(KeyRow { atop, ..self.row })
    }

    const fn site(self, site: &'static str) -> Self {
        Self::of(KeyRow { site, ..self.row })
    }

    const fn inside(self, inside: &'static str) -> Self {
        Self::of(KeyRow { inside, ..self.row })
    }
}

impl<T: 'static, U> Typed for ConfigKey<T, U> {
    type Value = T;

    fn name(&self) -> &'static str {
        self.row.name
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

#[cfg(test)]
mod tests;
