//! What the workers have counted of one endpoint, as a value.

use std::collections::BTreeMap;

use lockgate_metrics::{HistogramSnapshot, Shards};
use lockgate_upstream::EndpointIndex;

use super::{EndpointCells, WorkerCells};
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
        let cells: Vec<&EndpointCells> = shards
            .iter()
            .filter_map(|cells| cells.http.endpoint(Some(index)))
            .collect();
        let mut failures = BTreeMap::new();
        for fault in HttpFault::ALL {
            let sum: u64 = cells
                .iter()
                .map(|one| one.failures[fault.index()].value())
                .sum();
            if sum > 0 {
                // Several faults have one type.
                *failures.entry(fault.proxy_error()).or_default() += sum;
            }
        }
        Self {
            idle: cells.iter().map(|one| one.idle.value()).sum(),
            retries: cells.iter().map(|one| one.retries.value()).sum(),
            failures,
            response: cells
                .iter()
                .map(|one| one.response.snapshot())
                .reduce(HistogramSnapshot::merge),
        }
    }

    /// The responses that have come.
    pub fn requests(&self) -> u64 {
        self.response.as_ref().map_or(0, HistogramSnapshot::count)
    }
}
