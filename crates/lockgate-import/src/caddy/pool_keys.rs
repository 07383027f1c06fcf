//! The keys of a pool, which `reverse_proxy` and its `transport` fill.

use super::texts;
use crate::{DraftValue, Verdict};

/// The keys of a pool while the lines of a `reverse_proxy` are read.
#[derive(Debug, Default)]
pub(super) struct CaddyPoolKeys {
    pub(super) health: Vec<(String, DraftValue)>,
    pub(super) has_path: bool,
    pub(super) eject: Vec<(String, DraftValue)>,
    pub(super) tls: Option<Vec<(String, DraftValue)>>,
    pub(super) protocol: Option<&'static str>,
    pub(super) idle: Vec<(String, DraftValue)>,
    pub(super) timeouts: Vec<(String, DraftValue)>,
    pub(super) options: Vec<(String, DraftValue)>,
    pub(super) weights: Vec<i64>,
    pub(super) first: bool,
    pub(super) max: Option<i64>,
}

/// Adds a duration under a key.
pub(super) fn push_time(
    keys: &mut Vec<(String, DraftValue)>,
    key: &str,
    value: Option<&str>,
) -> Verdict {
    match value.and_then(texts::duration) {
        Some(time) => {
            keys.push((key.to_owned(), time.into()));
            Verdict::Converted
        }
        None => Verdict::not_supported("this is no duration", None),
    }
}
