//! A route: the keys of a site or a path that are being collected.

use super::syntax::NginxDirective;
use crate::{DraftTable, DraftValue, StatementId};

/// What answers the requests of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NginxAction {
    Proxy,
    Files,
    Redirect,
    Respond,
}

/// The keys of a route, in the order of the new file.
#[derive(Debug, Clone)]
pub(super) struct NginxRoute {
    /// `"/*"` for the site itself, `"/x"`, `"/x/*"`, `"OPTIONS /x"`.
    pub(super) key: String,
    pub(super) action: NginxAction,
    pub(super) comments: Vec<String>,
    pub(super) keys: Vec<(String, DraftValue, Option<String>)>,
    /// Why no client may use it: a rule of the source that cannot be written.
    pub(super) closed: Vec<String>,
    /// The statement that it comes from.
    pub(super) origin: StatementId,
}

/// The order of keys in a table.
const ORDER: &[&str] = &[
    "alias",
    "listen",
    "accept_proxy",
    "protocols",
    "tls",
    "access_log",
    "auth",
    "allow",
    "deny",
    "limit",
    "body",
    "proxy",
    "root",
    "redirect",
    "respond",
    "strip_prefix",
    "rewrite",
    "index",
    "try",
    "not_found",
    "listing",
    "types",
    "charset",
    "cache",
    "compress",
    "precompressed",
    "headers",
    "request_headers",
    "timeouts",
    "error_pages",
];

pub(super) fn key_rank(key: &str) -> usize {
    ORDER
        .iter()
        .position(|known| *known == key)
        .unwrap_or(ORDER.len())
}

impl NginxRoute {
    pub(super) fn new(key: &str, action: NginxAction, origin: &NginxDirective) -> Self {
        Self {
            key: key.to_owned(),
            action,
            comments: vec![place_of(origin)],
            keys: Vec::new(),
            closed: Vec::new(),
            origin: origin.id,
        }
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<DraftValue>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(name, ..)| name == key) {
            Some((_, old, _)) => *old = value,
            None => self.keys.push((key.to_owned(), value, None)),
        }
    }

    pub(super) fn comment_key(&mut self, key: &str, text: &str) {
        if let Some((.., slot)) = self.keys.iter_mut().find(|(name, ..)| name == key) {
            *slot = Some(text.to_owned());
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&DraftValue> {
        self.keys
            .iter()
            .find(|(name, ..)| name == key)
            .map(|(_, value, _)| value)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<DraftValue> {
        let at = self.keys.iter().position(|(name, ..)| name == key)?;
        Some(self.keys.remove(at).1)
    }

    /// Sets a key of a table on one line.
    pub(super) fn set_in(&mut self, table: &str, key: &str, value: impl Into<DraftValue>) {
        if self.get(table).is_none() {
            self.set(table, DraftValue::Inline(Vec::new()));
        }
        if let Some((_, DraftValue::Inline(keys), _)) =
            self.keys.iter_mut().find(|(name, ..)| name == table)
        {
            let value = value.into();
            match keys.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => keys.push((key.to_owned(), value)),
            }
        }
    }

    /// Whether a key changes anything for the route's action.
    pub(super) fn cares(&self, key: &str) -> bool {
        match key {
            "request_headers" | "timeouts" => self.action == NginxAction::Proxy,
            "error_pages" => true,
            "body" => self.action == NginxAction::Proxy,
            // A single file has no index.
            "index" => {
                self.action == NginxAction::Files
                    && (self.key.ends_with('*') || self.key.ends_with('/'))
            }
            "try" | "not_found" | "listing" | "types" | "charset" | "precompressed" => {
                self.action == NginxAction::Files
            }
            "compress" => self.action == NginxAction::Proxy || self.get("compress").is_some(),
            "cache" => {
                matches!(self.action, NginxAction::Proxy | NginxAction::Files)
            }
            _ => true,
        }
    }

    /// Writes the keys into a table.
    pub(super) fn write(mut self, table: &mut DraftTable) {
        self.keys.sort_by_key(|(key, ..)| key_rank(key));
        for (key, value, comment) in self.keys {
            table.set(&key, value);
            if let Some(comment) = comment {
                table.comment_key(&key, &comment);
            }
        }
    }
}

/// The file, without its folder, and the line of a directive.
pub(super) fn place_of(directive: &NginxDirective) -> String {
    let place = &directive.place;
    let name = place.file.file_name().unwrap_or(place.file.as_os_str());
    format!("{}:{}", name.to_string_lossy(), place.line)
}

/// A table on one line.
pub(super) fn inline(keys: Vec<(&str, DraftValue)>) -> DraftValue {
    DraftValue::Inline(
        keys.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}
