//! Placeholders: words in braces for values that are known only when a run begins: `{port}`,
//! `{dir}`.

use std::collections::BTreeMap;

/// Values of placeholders; see [`MEANINGS`].
#[derive(Debug, Clone, Default)]
pub(crate) struct PlaceholderValues(BTreeMap<String, String>);

/// All placeholders with their meanings. A name with a colon at its end goes on with a name.
pub const MEANINGS: &[(&str, &str)] = &[
    ("dir", "a directory of this run that all share, for sockets"),
    (
        "own",
        "a directory of the program's own, where its files are",
    ),
    ("here", "the directory of the file that is compared by"),
    ("port", "the port of the program that is measured"),
    (
        "port:",
        "a free port by that name, the same everywhere in the file",
    ),
    ("env:", "an environment variable of that name"),
    ("cert", "the certificate, in PEM"),
    ("key", "its private key, in PEM"),
    ("pem", "both in one file"),
    ("root", "`root` of [job]"),
    (
        "upstream",
        "`upstream` of [job]: 127.0.0.1:80 or unix:/path",
    ),
    ("upstream:haproxy", "the same for HAProxy: unix@/path"),
    (
        "upstream:hitch",
        "the same for hitch: [127.0.0.1]:80 or /path",
    ),
    ("upstream:caddy", "the same for Caddy: unix//path"),
    (
        "account",
        "an account for a program that wants to leave root",
    ),
    (
        "lockgate",
        "this program, as a copy that shares no memory with the one that measures",
    ),
];

/// Whether a placeholder of this name exists.
pub(crate) fn exists(name: &str) -> bool {
    MEANINGS
        .iter()
        .any(|(known, _)| match known.strip_suffix(':') {
            Some(_) => name.starts_with(known) && name.len() > known.len(),
            None => name == *known,
        })
}

/// The names of possible placeholders in `text`: letters, digits and `:_.-` in braces.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter_map(|piece| match piece {
        TextSegment::Name(name) => Some(name),
        TextSegment::Text(_) => None,
    })
}

impl PlaceholderValues {
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The value of a placeholder, if it has one.
    fn value(&self, name: &str) -> Option<String> {
        match name.strip_prefix("env:") {
            Some(variable) => std::env::var(variable).ok(),
            None => self.0.get(name).cloned(),
        }
    }

    /// `text` with the values of its placeholders; other braces stay, since the languages of some
    /// programs have them too.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                TextSegment::Text(text) => filled.push_str(text),
                TextSegment::Name(name) => match self.value(name) {
                    Some(value) => filled.push_str(&value),
                    None => filled.extend(["{", name, "}"]),
                },
            }
        }
        filled
    }
}

enum TextSegment<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = TextSegment<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = rest
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'))
            && !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ":_.-".contains(c))
        {
            rest = after;
            return Some(TextSegment::Name(name));
        }
        // No placeholder begins here: the text goes to the next brace.
        let next = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| *c == '{')
            .map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(next);
        rest = after;
        Some(TextSegment::Text(piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_with_values_are_replaced_and_other_braces_stay() {
        let mut values = PlaceholderValues::default();
        values.set("port", "80");
        values.set("port:app", "81");
        let filled = values.fill(
            "events { x 1; } listen {port}; up {port:app} {port:b} {}{{port}} {path} é{port}",
        );
        assert_eq!(
            filled,
            "events { x 1; } listen 80; up 81 {port:b} {}{80} {path} é80"
        );
    }

    #[test]
    fn a_name_exists_or_not() {
        assert!(
            ["port", "port:app", "env:HOME", "upstream:caddy"]
                .into_iter()
                .all(exists)
        );
        assert!(
            !["prot", "port:", "upstream:apache", ""]
                .into_iter()
                .any(exists)
        );
        assert_eq!(names("a {b} { c } {d:e}").collect::<Vec<_>>(), ["b", "d:e"]);
    }
}
