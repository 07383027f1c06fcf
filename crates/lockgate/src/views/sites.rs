//! Sites: the requests of each, and its figures of the last seconds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::recent::{EndpointSpan, RecentSpan};
use super::{ListView, rounded};
use crate::exposition::SiteFigures;

#[derive(Serialize)]
struct SitesView<L> {
    recent_seconds: f64,
    sites: L,
}

#[derive(Serialize)]
struct SiteView<'a> {
    site: &'a str,
    in_flight: i64,
    queued: i64,
    requests: u64,
    responses: &'a BTreeMap<&'static str, u64>,
    errors: &'a BTreeMap<&'static str, u64>,
    received_bytes: u64,
    sent_bytes: u64,
    requests_per_second: Option<f64>,
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
}

/// All sites, and at the end what has none.
pub(crate) fn sites<'a>(sites: &'a [SiteFigures], recent: &'a RecentSpan) -> impl Serialize + 'a {
    let sites = sites.iter().zip(recent.spans());
    SitesView {
        recent_seconds: rounded(recent.time),
        sites: ListView(sites.map(|(site, span)| shown(site, span.as_ref()))),
    }
}

fn shown<'a>(site: &'a SiteFigures, recent: Option<&EndpointSpan>) -> SiteView<'a> {
    let counts = &site.counts;
    SiteView {
        site: &site.name,
        in_flight: counts.in_flight,
        queued: counts.queued,
        requests: counts.requests(),
        responses: &counts.responses,
        errors: &counts.failures,
        received_bytes: counts.received,
        sent_bytes: counts.sent,
        requests_per_second: recent.map(|span| span.rate),
        p50_seconds: recent.and_then(|span| span.p50),
        p99_seconds: recent.and_then(|span| span.p99),
    }
}
