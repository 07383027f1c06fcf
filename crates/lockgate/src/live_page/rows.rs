//! The rows of the page's tables: only what it shows, and of that only what is not nothing.
//!
//! Of a thousand endpoints most have neither a request nor a failure now. A member that is absent is 0,
//! or empty; `null` is not known.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::exposition::{EndpointFigures, PoolFigures, SiteFigures};
use crate::views::{EndpointSpan, ListView, RecentSpan, mode_name, state_name};

#[derive(Serialize)]
struct PoolsOfPage<L> {
    pools: L,
}

#[derive(Serialize)]
struct PoolOfPage<'a, L> {
    pool: &'a str,
    endpoints: L,
}

#[derive(Serialize)]
struct EndpointOfPage<'a> {
    endpoint: &'a str,
    state: &'static str,
    weight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    backup: bool,
    #[serde(skip_serializing_if = "is_zero")]
    connections: usize,
    #[serde(skip_serializing_if = "is_zero")]
    in_flight: usize,
    /// Endpoints of relays have none.
    #[serde(skip_serializing_if = "is_empty")]
    errors: Option<&'a BTreeMap<&'static str, u64>>,
    #[serde(skip_serializing_if = "is_no_rate")]
    requests_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_seconds: Option<f64>,
}

#[derive(Serialize)]
struct SitesOfPage<L> {
    sites: L,
}

#[derive(Serialize)]
struct SiteOfPage<'a> {
    site: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    in_flight: i64,
    #[serde(skip_serializing_if = "is_zero")]
    queued: i64,
    #[serde(skip_serializing_if = "is_zero")]
    requests: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    responses: &'a BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: &'a BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "is_zero")]
    sent_bytes: u64,
    #[serde(skip_serializing_if = "is_no_rate")]
    requests_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_seconds: Option<f64>,
}

/// The pools with their endpoints.
pub(super) fn endpoint_rows<'a>(
    pools: &'a [PoolFigures],
    recent: &'a RecentSpan,
) -> impl Serialize + 'a {
    let pools = recent.by_pool(pools).map(|(pool, spans)| PoolOfPage {
        pool: &pool.name,
        endpoints: {
            let endpoints = pool.endpoints.iter().zip(spans);
            ListView(endpoints.map(|(one, span)| endpoint(one, span.as_ref())))
        },
    });
    PoolsOfPage {
        pools: ListView(pools),
    }
}

fn endpoint<'a>(figures: &'a EndpointFigures, recent: Option<&EndpointSpan>) -> EndpointOfPage<'a> {
    let check = figures.check.as_ref();
    let found = check.and_then(|check| check.error.as_deref());
    EndpointOfPage {
        endpoint: &figures.endpoint,
        state: state_name(figures.condition),
        weight: figures.weight,
        why: figures.why.as_deref().or(found),
        admin: mode_name(figures.mode),
        backup: figures.backup,
        connections: figures.connections,
        in_flight: figures.in_flight,
        errors: figures.counts.as_ref().map(|counts| &counts.failures),
        requests_per_second: recent.map(|span| span.rate),
        p50_seconds: recent.and_then(|span| span.p50).map(micros),
        p99_seconds: recent.and_then(|span| span.p99).map(micros),
    }
}

/// The sites, and at the end what has none.
pub(super) fn site_rows<'a>(
    sites: &'a [SiteFigures],
    recent: &'a RecentSpan,
) -> impl Serialize + 'a {
    let sites = sites.iter().zip(recent.spans());
    SitesOfPage {
        sites: ListView(sites.map(|(site, span)| row(site, span.as_ref()))),
    }
}

fn row<'a>(site: &'a SiteFigures, recent: Option<&EndpointSpan>) -> SiteOfPage<'a> {
    let counts = &site.counts;
    SiteOfPage {
        site: &site.name,
        in_flight: counts.in_flight,
        queued: counts.queued,
        requests: counts.requests(),
        responses: &counts.responses,
        errors: &counts.failures,
        sent_bytes: counts.sent,
        requests_per_second: recent.map(|span| span.rate),
        p50_seconds: recent.and_then(|span| span.p50).map(micros),
        p99_seconds: recent.and_then(|span| span.p99).map(micros),
    }
}

/// Whole microseconds: a quantile is estimated, and shown with three digits at most.
pub(super) fn micros(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_no_rate(rate: &Option<f64>) -> bool {
    *rate == Some(0.0)
}

fn is_empty(errors: &Option<&BTreeMap<&'static str, u64>>) -> bool {
    errors.is_some_and(BTreeMap::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    use lockgate_metrics::{Bounds, Histogram};
    use lockgate_proxy::metrics::http::EndpointCounts;
    use serde_json::{Value, json};

    use crate::views::RecentCounts;

    /// The row of an endpoint with these responses, of which `since` came after the first look.
    fn row(failures: &[(&'static str, u64)], since: u64) -> Value {
        let (counts, responses) = (RecentCounts::default(), Histogram::new(Bounds::EXCHANGE));
        let begin = Instant::now();
        let figures = || {
            vec![PoolFigures::of_one(EndpointCounts {
                idle: 0,
                retries: 0,
                failures: failures.iter().copied().collect(),
                response: Some(responses.snapshot()),
            })]
        };
        responses.record_many(Duration::from_millis(3), 7);
        counts.observe(&figures(), begin, Duration::ZERO);
        responses.record_many(Duration::from_millis(3), since);
        let (pools, later) = (figures(), begin + Duration::from_secs(2));
        let recent = counts.observe(&pools, later, Duration::ZERO);
        let shown = serde_json::to_value(endpoint_rows(&pools, &recent)).unwrap();
        assert_eq!(shown["pools"][0]["pool"], "app");
        shown["pools"][0]["endpoints"][0].clone()
    }

    #[test]
    fn the_row_of_an_idle_endpoint_is_short() {
        let idle = json!({ "endpoint": "10.0.0.1:80", "state": "up", "weight": 1 });
        assert_eq!(row(&[], 0), idle);
        let busy = row(&[("connection_refused", 2)], 10);
        assert_eq!(busy["requests_per_second"], 5.0);
        assert_eq!(busy["errors"], json!({ "connection_refused": 2 }));
        assert!(busy["p50_seconds"].is_number() && busy["p99_seconds"].is_number());
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut pools = vec![PoolFigures::of_one(EndpointCounts {
            idle: 0,
            retries: 0,
            failures: BTreeMap::new(),
            response: None,
        })];
        // As of a relay.
        pools[0].endpoints[0].counts = None;
        let recent = RecentCounts::default().observe(&pools, Instant::now(), Duration::ZERO);
        let shown = serde_json::to_value(endpoint_rows(&pools, &recent)).unwrap();
        let row = &shown["pools"][0]["endpoints"][0];
        for name in ["errors", "requests_per_second"] {
            assert_eq!(row.get(name), Some(&Value::Null), "{name}");
        }
    }
}
