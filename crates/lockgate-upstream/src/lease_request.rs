//! The request for a lease, and the counters of leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_limits::clients::ClientAccount;
use lockgate_limits::clock::Guard;

use super::{DialError, EndpointIndex, Preference, ReusePolicy, WaitBudget};

/// A request for a lease.
pub struct LeaseRequest<'a> {
    /// The deadlines of the client's connection or stream.
    pub guard: &'a Guard,
    /// The account that pays for the socket, if one does.
    pub socket_account: Option<&'a Arc<ClientAccount>>,
    /// The time that the request may still wait.
    pub wait_budget: &'a WaitBudget,
    /// The time for a connect, and again for a TLS handshake.
    pub connect: Duration,
    /// Which connections it may reuse.
    pub reuse: ReusePolicy,
    /// The PROXY header, the first bytes on a new connection; empty for none.
    pub proxy_header: &'a [u8],
    /// The endpoint that the client prefers.
    pub preference: Preference,
    /// The counters of its site and of endpoints.
    pub metrics: &'a dyn LeaseMetrics,
}

/// The counters of leases.
pub trait LeaseMetrics {
    /// Counts a request that begins to wait for an endpoint or a socket.
    fn wait_begins(&self);

    /// Counts the end of such a wait, and its time.
    fn wait_ends(&self, waited: Duration);

    /// Counts an endpoint that could not be reached; none is counted for a pool of a single
    /// request.
    fn unreachable(&self, endpoint: Option<EndpointIndex>, error: &DialError);
}

/// A waiting request in the counters, until this is dropped.
pub(super) struct QueuedRequest<'a> {
    metrics: &'a dyn LeaseMetrics,
    since: Instant,
}

impl<'a> QueuedRequest<'a> {
    pub(super) fn begin(metrics: &'a dyn LeaseMetrics) -> Self {
        metrics.wait_begins();
        Self {
            metrics,
            since: Instant::now(),
        }
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.metrics.wait_ends(self.since.elapsed());
    }
}
