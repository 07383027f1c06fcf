//! Hosts and addresses without quotes: in a bare key each dot begins another table, so
//! `[site.app.example.com]` is valid TOML, but a table `example` in a site `app`.

use crate::codes::Code;
use crate::document::{Branch, TomlEntry, TomlItem, TomlValue};
use crate::host::SiteKey;
use crate::key_paths::join;
use crate::language::{KeyRow, TableNaming, TreeChecker, find};
use crate::source::SourceSpan;
use crate::spelling::nearest;
use crate::table::CheckedTable;

/// A name with dots that lacks its quotes, and so was read as several keys.
pub(crate) struct Dotted<'a> {
    /// All words with their dots.
    at: SourceSpan,
    item: &'a TomlItem,
}

impl Dotted<'_> {
    pub(crate) fn name(&self) -> &str {
        self.at.text()
    }

    pub(crate) fn at(&self) -> &SourceSpan {
        &self.at
    }
}

/// The keys that form one name with that of `branch`, which has `keys`.
pub(crate) fn dotted_keys<'a>(keys: &'static [KeyRow], branch: &'a Branch) -> Vec<Dotted<'a>> {
    let mut found = Vec::new();
    for (_, entry) in branch
        .entries
        .iter()
        .filter(|(name, entry)| belongs(keys, name, entry))
    {
        let deeper = match &entry.item.node {
            TomlValue::Table(inner) => dotted_keys(keys, inner),
            _ => Vec::new(),
        };
        if deeper.is_empty() {
            found.push(Dotted {
                at: whole(&entry.key_at),
                item: &entry.item,
            });
        }
        found.extend(deeper);
    }
    found
}

/// The other keys of `branch`.
pub(crate) fn others(keys: &'static [KeyRow], branch: &Branch) -> Branch {
    let mut others = branch.clone();
    others
        .entries
        .retain(|name, entry| !belongs(keys, name, entry));
    others
}

/// Whether the word before the key belongs to it: both are bare, and the key is none of `keys` nor
/// a slip of one.
fn belongs(keys: &'static [KeyRow], name: &str, entry: &TomlEntry) -> bool {
    let at = &entry.key_at;
    let before = at.source.text.get(..at.span.start).unwrap_or_default();
    let bare = before.ends_with('.') && !at.text().starts_with(['"', '\'']);
    bare && find(keys, name).is_none() && nearest(name, keys.iter().map(|key| key.name)).is_none()
}

/// From the first word to this one, without the names of sections.
fn whole(at: &SourceSpan) -> SourceSpan {
    let before = at.source.text.get(..at.span.start).unwrap_or_default();
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut start = before.trim_end_matches(bare).len();
    for section in ["site.", "tcp.", "tunnel.", "pool.", "values.", "sni."] {
        let rest = at.source.text.get(start..).unwrap_or_default();
        start += if rest.starts_with(section) {
            section.len()
        } else {
            0
        };
    }
    SourceSpan::new(&at.source, start..at.span.end)
}

impl TreeChecker<'_> {
    /// Reports a table with a key that lacks its quotes, and checks the keys in it.
    pub(crate) fn unquoted_table(
        &mut self,
        by: TableNaming,
        keys: &'static [KeyRow],
        dotted: &Dotted<'_>,
        path: &str,
    ) -> Option<CheckedTable> {
        let section = path.rsplit('.').next().unwrap_or(path);
        let header = path.replace('*', "\"example.com\"");
        let code = match by {
            TableNaming::Address => Code::BadAddress,
            TableNaming::Site => Code::BadHost,
            TableNaming::Path => Code::BadPath,
            TableNaming::Name => Code::BadText,
        };
        self.unquoted(
            code,
            dotted,
            &format!("[{section}]"),
            &format!("[{header}.{:?}]", dotted.name()),
        );
        let TomlValue::Table(inner) = &dotted.item.node else {
            return None;
        };
        Some(self.table(keys, inner, &join(path, "*"), None))
    }

    /// Reports a key of a map that lacks its quotes.
    pub(crate) fn unquoted_name(&mut self, dotted: &Dotted<'_>, map: &str) {
        self.unquoted(
            Code::BadHost,
            dotted,
            &format!("`{map}`"),
            &format!("{map}.{:?} = …", dotted.name()),
        );
    }

    fn unquoted(&mut self, code: Code, dotted: &Dotted<'_>, inside: &str, cure: &str) {
        let message = format!("`{}` stands without quotes", dotted.name());
        let why = format!("each dot begins another table in {inside}");
        self.report.push_at(
            code,
            &dotted.at,
            message,
            why,
            format!("put it in quotes: {cure}"),
        );
    }
}

/// The header for an unknown table at the top that is a host or an address without its section.
pub(crate) fn without_section(name: &str, item: &TomlItem) -> Option<String> {
    let TomlValue::Table(branch) = &item.node else {
        return None;
    };
    let dotted = dotted_keys(&[], branch);
    let whole = dotted.first().map_or(name, Dotted::name);
    let host = whole.contains(['.', ':']) && SiteKey::parse(whole).is_ok();
    host.then(|| format!("write the section before it: [site.{whole:?}]"))
}
