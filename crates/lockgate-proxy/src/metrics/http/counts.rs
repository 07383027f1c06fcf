//! What the workers have counted of one site or endpoint, as values.

use std::collections::BTreeMap;

use lockgate_metrics::{HistogramSnapshot, Shards};
use lockgate_upstream::EndpointIndex;

use super::{CODES, SiteCells, SiteIndex, WorkerCells};
use crate::access_log::Cause;
use crate::error_response::HttpFault;

/// The sums of an endpoint's counters over all workers.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointCounts {
    /// Idle connections to it.
    pub idle: i64,
    /// Requests that were retried after a failure of it.
    pub retries: u64,
    /// Failures, by the error types of RFC 9209; only those that have occurred.
    pub failures: BTreeMap<&'static str, u64>,
    /// From a request's last head byte to the first byte of the response; `None` without a worker.
    pub response: Option<HistogramSnapshot>,
}

impl EndpointCounts {
    /// The sums of the endpoint with this index.
    pub fn of(shards: &Shards<WorkerCells>, index: EndpointIndex) -> Self {
        let (mut idle, mut retries, mut response) = (0, 0, None::<HistogramSnapshot>);
        let mut sums = [0_u64; HttpFault::ALL.len()];
        for cells in shards.iter() {
            let Some(one) = cells.http.endpoint(Some(index)) else {
                continue;
            };
            idle += one.idle.value();
            retries += one.retries.value();
            for (sum, failures) in sums.iter_mut().zip(&one.failures) {
                *sum += failures.value();
            }
            let more = one.response.snapshot();
            response = Some(match response {
                Some(all) => all.merge(more),
                None => more,
            });
        }
        let mut failures = BTreeMap::new();
        for fault in HttpFault::ALL {
            let sum = sums[fault.index()];
            if sum > 0 {
                // Several faults have one type.
                *failures.entry(fault.proxy_error()).or_default() += sum;
            }
        }
        Self {
            idle,
            retries,
            failures,
            response,
        }
    }

    /// The responses that have come.
    pub fn requests(&self) -> u64 {
        self.response.as_ref().map_or(0, HistogramSnapshot::count)
    }
}

/// The sums of a site's counters over all workers.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteCounts {
    /// Exchanges in progress.
    pub in_flight: i64,
    /// Requests that wait for an endpoint to become free.
    pub queued: i64,
    /// Responses by the class of their status; only those that have occurred.
    pub responses: BTreeMap<&'static str, u64>,
    /// Failures by their cause; only those that have occurred.
    pub failures: BTreeMap<&'static str, u64>,
    /// Bytes of bodies from clients.
    pub received: u64,
    /// Bytes of bodies to clients.
    pub sent: u64,
    /// From a request's first byte to its response's last; `None` without a worker.
    pub duration: Option<HistogramSnapshot>,
}

impl SiteCounts {
    /// The sums of the site with this index; those of requests without a site for none.
    pub fn of(shards: &Shards<WorkerCells>, site: Option<SiteIndex>) -> Self {
        let cells: Vec<&SiteCells> = shards
            .iter()
            .map(|cells| &**cells.http.site(site))
            .collect();
        let responses = CODES.iter().enumerate().map(|(code, name)| {
            let methods = cells.iter().flat_map(|one| &one.requests);
            (*name, methods.map(|codes| codes[code].value()).sum())
        });
        let failures = Cause::ALL.into_iter().map(|cause| {
            let counts = cells.iter().map(|one| one.errors[cause.index()].value());
            (cause.as_str(), counts.sum())
        });
        Self {
            in_flight: cells.iter().map(|one| one.in_flight.value()).sum(),
            queued: cells.iter().map(|one| one.queued.value()).sum(),
            responses: responses.filter(|(_, count)| *count > 0).collect(),
            failures: failures.filter(|(_, count)| *count > 0).collect(),
            received: cells.iter().map(|one| one.received.value()).sum(),
            sent: cells.iter().map(|one| one.sent.value()).sum(),
            duration: cells
                .iter()
                .map(|one| one.duration.snapshot())
                .reduce(HistogramSnapshot::merge),
        }
    }

    /// The requests that have been responded to.
    pub fn requests(&self) -> u64 {
        self.responses.values().sum()
    }
}
