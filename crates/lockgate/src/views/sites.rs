//! Sites: the requests of each, and its figures of the last seconds.

use serde_json::{Value, json};

use super::recent::RecentSpan;
use super::rounded;
use crate::exposition::SiteFigures;

/// All sites, and at the end what has none.
pub(crate) fn sites(sites: &[SiteFigures], recent: &RecentSpan) -> Value {
    let shown = sites.iter().map(|site| shown(site, recent));
    json!({
        "recent_seconds": rounded(recent.time),
        "sites": shown.collect::<Vec<_>>(),
    })
}

fn shown(site: &SiteFigures, recent: &RecentSpan) -> Value {
    let (counts, span) = (&site.counts, recent.of("", &site.name));
    json!({
        "site": site.name,
        "in_flight": counts.in_flight,
        "queued": counts.queued,
        "requests": counts.responses.values().sum::<u64>(),
        "responses": counts.responses,
        "errors": counts.failures,
        "received_bytes": counts.received,
        "sent_bytes": counts.sent,
        "requests_per_second": span.map(|span| span.rate),
        "p50_seconds": span.and_then(|span| span.p50),
        "p99_seconds": span.and_then(|span| span.p99),
    })
}
