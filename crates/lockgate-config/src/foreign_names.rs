//! Names of other servers, keys that will come later and slips of the finger: what to write
//! instead.
//!
//! The names are one table, `ROWS`, in a file for each subject. Does not report: see `check`.

mod absent;
mod certificates;
mod connections;
mod content;
mod foreign_text;
mod listening;
pub(crate) mod placeholders;
mod process;
mod requests;
mod tls;
mod upstream;
mod values;
mod words;

use crate::spelling::LONGEST;

pub(crate) use foreign_text::recognise;
pub(crate) use values::{Given, other_type_cure};
pub(crate) use words::{certificate_word, later_provider, later_word, other_word, table_for};

/// Names of other servers with one meaning.
#[derive(Debug, Clone, Copy)]
struct ForeignName {
    /// Without case, with `_` between words and spaces between names.
    names: &'static str,
    /// Keys of the tables in which the names mean this; without any they mean it in every other
    /// table.
    beside: &'static [&'static str],
    meaning: Meaning,
}

/// The meaning of a name of another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Something that is written otherwise here.
    Write(&'static str),
    /// A key that will come; what helps until then.
    Later(&'static str),
    /// Something that Lockgate does not do; what does it.
    Absent(&'static str),
}

const ROWS: [&[ForeignName]; 9] = [
    listening::ROWS,
    upstream::ROWS,
    requests::ROWS,
    content::ROWS,
    connections::ROWS,
    tls::ROWS,
    certificates::ROWS,
    process::ROWS,
    absent::ROWS,
];

impl ForeignName {
    /// The same meaning, only in tables that have all of `keys`.
    const fn beside(self, keys: &'static [&'static str]) -> ForeignName {
        ForeignName {
            beside: keys,
            ..self
        }
    }

    fn is_for(&self, has_key: impl Fn(&str) -> bool) -> bool {
        !self.beside.is_empty() && self.beside.iter().all(|key| has_key(key))
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split_ascii_whitespace()
    }
}

impl Meaning {
    /// The key that is to be written, if it is one.
    pub(crate) fn key(self) -> Option<&'static str> {
        let (Meaning::Write(cure) | Meaning::Later(cure) | Meaning::Absent(cure)) = self;
        let (_, after) = cure.split_once("write ")?;
        let (key, _) = after.split_once(" = ")?;
        (!key.contains(' ')).then_some(key)
    }
}

const fn write(names: &'static str, cure: &'static str) -> ForeignName {
    ForeignName {
        names,
        beside: &[],
        meaning: Meaning::Write(cure),
    }
}

const fn later(names: &'static str, cure: &'static str) -> ForeignName {
    ForeignName {
        names,
        beside: &[],
        meaning: Meaning::Later(cure),
    }
}

const fn absent(names: &'static str, cure: &'static str) -> ForeignName {
    ForeignName {
        names,
        beside: &[],
        meaning: Meaning::Absent(cure),
    }
}

/// The meaning of `name` in a table; `has_key` tells whether the table has a key.
pub(crate) fn meaning(has_key: impl Fn(&str) -> bool, name: &str) -> Option<Meaning> {
    let name = plain(name)?;
    let rows = || {
        ROWS.iter()
            .copied()
            .flatten()
            .filter(|row| row.names().any(|one| same(one, &name)))
    };
    let near = rows()
        .find(|row| row.is_for(&has_key))
        .or_else(|| rows().find(|row| row.beside.is_empty()));
    near.map(|row| row.meaning)
}

/// A name without case and without what stands between its words: `proxy_pass`, `ProxyPass` and
/// `proxy-pass` are one.
fn plain(name: &str) -> Option<String> {
    let short = (1..=LONGEST).contains(&name.len());
    short.then(|| {
        name.chars()
            .filter(char::is_ascii_alphanumeric)
            .collect::<String>()
            .to_ascii_lowercase()
    })
}

fn same(name: &str, plain: &str) -> bool {
    name.bytes().filter(|byte| *byte != b'_').eq(plain.bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::keys::{self, ROOT};
    use crate::language::{KeyRow, find};

    fn has(keys: &'static [KeyRow]) -> impl Fn(&str) -> bool {
        move |name| find(keys, name).is_some()
    }

    fn rows() -> impl Iterator<Item = &'static ForeignName> {
        ROWS.iter().copied().flatten()
    }

    #[test]
    fn a_name_in_any_spelling_has_its_meaning() {
        for name in [
            "proxy_pass",
            "ProxyPass",
            "proxy-pass",
            "SSL_Certificate",
            "entryPoints",
            "stick-table",
        ] {
            assert!(meaning(has(ROOT), name).is_some(), "{name}");
        }
        for name in ["banana", "", "____", "proxy_päss"] {
            assert_eq!(meaning(has(ROOT), name), None, "{name}");
        }
        assert_eq!(meaning(has(ROOT), &"x".repeat(1_000_000)), None);
    }

    #[test]
    fn no_name_has_two_meanings_in_one_table() {
        let mut seen = BTreeSet::new();
        let names = rows().flat_map(|row| row.names().map(|name| (row.beside, name)));
        let twice: Vec<_> = names
            .filter(|(beside, name)| !seen.insert((*beside, name.replace('_', ""))))
            .collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn names_stand_beside_keys_that_exist_and_are_unknown_there() {
        for row in rows().filter(|row| !row.beside.is_empty()) {
            let beside: Vec<_> = tables()
                .into_iter()
                .filter(|keys| row.is_for(has(keys)))
                .collect();
            assert!(!beside.is_empty(), "{:?}", row.beside);
            let known = |name: &&str| beside.iter().all(|keys| has(keys)(name));
            let keys: Vec<_> = row.names().filter(known).collect();
            assert!(keys.is_empty(), "keys beside {:?}: {keys:?}", row.beside);
        }
    }

    fn tables() -> Vec<&'static [KeyRow]> {
        let ways = keys::key_paths();
        let inner = ways.iter().filter_map(|way| {
            let language = way.last()?.language;
            language.table().or_else(|| language.listed_table())
        });
        inner.chain([ROOT]).collect()
    }

    #[test]
    fn the_key_that_a_cure_says_to_write_is_read_from_it() {
        assert_eq!(
            Meaning::Write("write endpoints = [\"a:1\"]").key(),
            Some("endpoints")
        );
        assert_eq!(
            Meaning::Later("use certbot, and write certs = [\"a\"]").key(),
            Some("certs")
        );
        assert_eq!(Meaning::Write("write the name into the header").key(), None);
        assert_eq!(Meaning::Absent("remove it").key(), None);
    }
}
