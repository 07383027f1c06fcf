//! Certificates of the listeners, the first to expire first.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_net::tls::CertSummary;
use serde::Serialize;

use super::managed_certs::{ManagedCertView, managed_cert};
use super::timestamp::timestamp;
use crate::exposition::Exposition;

const DAY: i64 = 86_400;

#[derive(Serialize)]
struct CertsView {
    certs: Vec<CertView>,
    /// Those that the program obtains, by name.
    managed: Vec<ManagedCertView>,
}

#[derive(Serialize)]
struct CertView {
    listener: String,
    file: String,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    subject: String,
    issuer: String,
    key: String,
    not_before: String,
    not_after: String,
    days_left: i64,
    stapled: bool,
    default: bool,
}

/// All certificates.
pub(crate) fn certs(exposition: &Exposition) -> impl Serialize {
    let time = SystemTime::now();
    let now = seconds(time);
    let mut certificates = exposition.summaries();
    certificates.sort_by_key(|(_, summary)| summary.facts.not_after);
    let certificates = certificates.into_iter();
    let shown = certificates.map(|(listener, summary)| certificate(listener, summary, now));
    CertsView {
        certs: shown.collect(),
        managed: {
            let managed = exposition.managed_certs().into_iter();
            managed
                .map(|(id, status)| managed_cert(id, status, time))
                .collect()
        },
    }
}

fn certificate(listener: String, summary: CertSummary, now: i64) -> CertView {
    let facts = summary.facts;
    CertView {
        listener,
        file: summary.path.display().to_string(),
        names: facts.names,
        addresses: facts.addresses,
        subject: facts.subject,
        issuer: facts.issuer,
        key: facts.key.to_string(),
        not_before: timestamp(facts.not_before),
        not_after: timestamp(facts.not_after),
        days_left: (seconds(facts.not_after) - now).div_euclid(DAY),
        stapled: summary.stapled,
        default: summary.default,
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
