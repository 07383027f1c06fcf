//! Certificates of the listeners, the first to expire first.

use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_net::tls::CertSummary;
use serde_json::{Value, json};

use super::timestamp::timestamp;
use crate::exposition::Exposition;

const DAY: i64 = 86_400;

/// All certificates.
pub(crate) fn certs(exposition: &Exposition) -> Value {
    let now = seconds(SystemTime::now());
    let mut certificates = exposition.summaries();
    certificates.sort_by_key(|(_, summary)| summary.facts.not_after);
    let certificates = certificates.iter();
    let shown = certificates.map(|(listener, summary)| certificate(listener, summary, now));
    json!({ "certs": shown.collect::<Vec<_>>() })
}

fn certificate(listener: &str, summary: &CertSummary, now: i64) -> Value {
    let facts = &summary.facts;
    json!({
        "listener": listener,
        "file": summary.path,
        "names": facts.names,
        "addresses": facts.addresses,
        "subject": facts.subject,
        "issuer": facts.issuer,
        "key": facts.key.to_string(),
        "not_before": timestamp(facts.not_before),
        "not_after": timestamp(facts.not_after),
        "days_left": (seconds(facts.not_after) - now).div_euclid(DAY),
        "stapled": summary.stapled,
        "default": summary.default,
    })
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
