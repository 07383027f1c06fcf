//! The names that are kept at this machine's address.

use lockgate_ddns::NameStatus;
use serde::Serialize;

use super::timestamp::timestamp;

/// How a name stands.
#[derive(Serialize)]
pub(super) struct KeptNameView {
    name: String,
    ipv4: Option<String>,
    ipv6: Option<String>,
    updates: u64,
    failures: u64,
    /// When its addresses were last right.
    succeeded: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try: Option<String>,
}

/// How the names stand.
pub(super) fn kept_names(names: Vec<(String, NameStatus)>) -> Vec<KeptNameView> {
    let view = |(name, status): (String, NameStatus)| KeptNameView {
        name,
        ipv4: status.addresses.ipv4.map(|address| address.to_string()),
        ipv6: status.addresses.ipv6.map(|address| address.to_string()),
        updates: status.updates,
        failures: status.failures,
        succeeded: status.succeeded.map(timestamp),
        failure: status.failure,
        next_try: status.next_try.map(timestamp),
    };
    names.into_iter().map(view).collect()
}
