//! What becomes of a part of all requests, and the table that says so.

use super::changes::HaproxyChanges;
use super::limits::limit;
use crate::draft::EVERY_CLIENT;
use crate::{DraftTable, DraftValue, StatementId};

/// What answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum HaproxyAction {
    /// No backend: HAProxy answers with 503.
    Nothing,
    Proxy(DraftValue, Option<String>),
    Redirect {
        to: String,
        status: u16,
    },
    Respond(DraftValue, u16),
}

/// The rules of a part of all requests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HaproxyPlan {
    pub(super) action: HaproxyAction,
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Vec<String>,
    pub(super) auth: Option<(String, String)>,
    /// The most requests in so many milliseconds, and the status of refused ones.
    pub(super) limit: Option<(u64, u64, u16)>,
    pub(super) rewrite: Option<String>,
    pub(super) strip: bool,
    pub(super) headers: Vec<(String, DraftValue)>,
    pub(super) request_headers: Vec<(String, DraftValue)>,
    pub(super) compress: Option<DraftValue>,
    pub(super) timeouts: Vec<(String, DraftValue)>,
    /// Whether no client is let in, because a restriction cannot be expressed.
    pub(super) refused: bool,
    /// Whether a rule has set another address of the client.
    pub(super) source_changed: bool,
    /// What rules have changed so far.
    pub(super) changes: HaproxyChanges,
    /// Where its action comes from.
    pub(super) place: Option<String>,
    /// The statement of its redirect.
    pub(super) statement: Option<StatementId>,
}

impl HaproxyPlan {
    pub(super) fn new() -> Self {
        Self {
            action: HaproxyAction::Nothing,
            allow: None,
            deny: Vec::new(),
            auth: None,
            limit: None,
            rewrite: None,
            strip: false,
            headers: Vec::new(),
            request_headers: Vec::new(),
            compress: None,
            timeouts: Vec::new(),
            refused: false,
            source_changed: false,
            changes: HaproxyChanges::default(),
            place: None,
            statement: None,
        }
    }

    /// As the keys of a table.
    pub(super) fn table(&self) -> DraftTable {
        let mut table = DraftTable::default();
        match &self.action {
            HaproxyAction::Nothing => table.set("respond", 503_i64),
            HaproxyAction::Proxy(value, _) => table.set("proxy", value.clone()),
            HaproxyAction::Redirect { to, status: 308 } => table.set("redirect", to.as_str()),
            HaproxyAction::Redirect { to, status } => table.set(
                "redirect",
                DraftValue::Inline(vec![
                    ("to".to_owned(), to.as_str().into()),
                    ("status".to_owned(), i64::from(*status).into()),
                ]),
            ),
            HaproxyAction::Respond(value, _) => table.set("respond", value.clone()),
        }
        if self.refused {
            table.set("deny", EVERY_CLIENT.to_vec());
        } else {
            if let Some(allow) = &self.allow {
                table.set("allow", allow.clone());
            }
            if !self.deny.is_empty() {
                table.set("deny", self.deny.clone());
            }
        }
        if let Some((list, realm)) = &self.auth {
            let mut keys = vec![(
                "basic".to_owned(),
                format!("/etc/lockgate/{list}.htpasswd").into(),
            )];
            if !realm.is_empty() {
                keys.push(("realm".to_owned(), realm.as_str().into()));
            }
            table.set("auth", DraftValue::Inline(keys));
        }
        if let Some(limit) = self
            .limit
            .and_then(|(most, period, status)| limit(most, period, status))
        {
            table.set("limit", limit);
        }
        if !matches!(self.action, HaproxyAction::Proxy(..)) {
            return table;
        }
        if self.strip {
            table.set("strip_prefix", true);
        }
        if let Some(rewrite) = &self.rewrite {
            table.set("rewrite", rewrite.as_str());
        }
        for (key, fields) in [
            ("headers", &self.headers),
            ("request_headers", &self.request_headers),
            ("timeouts", &self.timeouts),
        ] {
            if !fields.is_empty() {
                table.set(key, DraftValue::Inline(fields.clone()));
            }
        }
        if let Some(compress) = &self.compress {
            table.set("compress", compress.clone());
        }
        table
    }

    /// Whether it answers as the other does.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.table() == other.table()
    }
}

/// The keys of a path's table under those of its site, which it takes over; `None` if what the site
/// has cannot be taken back there.
pub(super) fn below(site: &DraftTable, path: &DraftTable) -> Option<DraftTable> {
    let mut table = DraftTable::default();
    for (key, value) in path.keys() {
        let action = matches!(key, "proxy" | "redirect" | "respond");
        if action || site.get(key) != Some(value) {
            table.set(key, value.clone());
        }
    }
    let answers = path.get("proxy").is_none();
    for (key, value) in site.keys() {
        match key {
            // What only concerns endpoints.
            "request_headers" | "timeouts" | "compress" | "rewrite" | "strip_prefix" if answers => {
            }
            "proxy" | "redirect" | "respond" => {}
            "headers" | "request_headers" | "timeouts" => {
                let DraftValue::Inline(fields) = value else {
                    return None;
                };
                let own = match path.get(key) {
                    Some(DraftValue::Inline(own)) => own.as_slice(),
                    _ => &[],
                };
                if !fields
                    .iter()
                    .all(|(name, _)| own.iter().any(|(n, _)| n == name))
                {
                    return None;
                }
            }
            _ if path.get(key).is_none() => table.set(key, false),
            _ => {}
        }
    }
    // A path with the action of its site needs none of its own.
    let action = ["proxy", "redirect", "respond"]
        .into_iter()
        .find(|key| table.get(key).is_some());
    if let Some(action) = action
        && site.get(action) == path.get(action)
        && table.keys().count() > 1
    {
        table.remove(action);
    }
    Some(table)
}
