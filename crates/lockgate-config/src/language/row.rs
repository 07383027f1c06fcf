//! The row of a key in the tables of keys: everything about it except the type of its values.

use super::AnyLanguage;

/// One key, without the type of its values.
#[derive(Clone, Copy)]
pub(crate) struct KeyRow {
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

/// The meaning of an absent key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unset {
    /// A default value, as it is written in TOML.
    Is(&'static str),
    /// No value; the text says what that means.
    Absent(&'static str),
    /// A mistake: the key is required.
    Required,
    /// The keys of the table have their own defaults.
    Within,
}

impl KeyRow {
    pub(crate) const fn new(
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

/// Finds a key of a table.
pub(crate) fn find(keys: &'static [KeyRow], name: &str) -> Option<&'static KeyRow> {
    keys.iter().find(|key| key.name == name)
}
