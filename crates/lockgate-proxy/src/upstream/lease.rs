//! The lease of a connection to an endpoint for one request.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::upstream_pool::{IdleConnection, UpstreamPool};
use super::{
    ConnectionPermit, DialError, Endpoint, InFlight, Pool, Preference, ReusePolicy, Settings,
    UpstreamConnection, WaitBudget,
};
use crate::clients::Account;
use crate::clock::Guard;

/// A request for a lease.
pub struct LeaseRequest<'a> {
    /// The deadlines of the client's connection or stream.
    pub guard: &'a Guard,
    /// The account that pays for the socket, if one does.
    pub share_of: Option<&'a Arc<Account>>,
    /// The time that the request may still wait.
    pub wait_budget: &'a WaitBudget,
    /// The time for a connect, and again for a TLS handshake.
    pub connect: Duration,
    /// Which connections it may reuse.
    pub reuse: ReusePolicy,
    /// The first bytes on a new connection: a PROXY header, or none.
    pub header: &'a [u8],
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

    /// Counts an endpoint that could not be reached; `endpoint` is its index among the process's.
    fn unreachable(&self, endpoint: Option<usize>, error: &DialError);
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

/// The right to send one request over a connection; dropping it closes the connection, or its
/// stream where others share it.
#[derive(Debug)]
pub struct Lease {
    /// The connection.
    pub link: UpstreamConnection,
    /// Earlier requests on it.
    pub requests: u64,
    /// The time to make it, if it is new.
    pub dialled: Option<Duration>,
    pub(super) in_flight: InFlight,
    pub(super) permit: ConnectionPermit,
    /// Whether the endpoint was avoided when it was chosen.
    pub(super) avoided: bool,
    pub(super) member: usize,
    pub(super) upstream: Rc<UpstreamPool>,
}

impl Lease {
    /// A lease of an idle connection.
    pub(super) fn reuse(
        link: UpstreamConnection,
        permit: ConnectionPermit,
        requests: u64,
        (member, upstream): (usize, Rc<UpstreamPool>),
        now: u64,
    ) -> Self {
        let endpoint = permit.endpoint();
        Self {
            link,
            requests,
            dialled: None,
            avoided: endpoint.is_avoided(now),
            in_flight: endpoint.begin_request(),
            permit,
            member,
            upstream,
        }
    }

    /// The endpoint of the connection.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        self.in_flight.endpoint()
    }

    /// The pool of the endpoint.
    pub fn pool(&self) -> &Pool {
        self.upstream.pool()
    }

    /// The endpoint's index among the members of the pool.
    pub fn member(&self) -> usize {
        self.member
    }

    /// The settings of its pool.
    pub fn settings(&self) -> &Settings {
        &self.pool().settings
    }

    /// The index of the endpoint among the process's, for counters.
    pub fn endpoint_index(&self) -> Option<usize> {
        self.upstream.endpoint_index(self.member)
    }

    /// Whether the endpoint was healthy when it was chosen and has failed since. When an endpoint
    /// dies, all its requests fail together: that is one failure, and no failing pool.
    pub fn is_overtaken(&self, now: u64) -> bool {
        let member = self.pool().members().get(self.member);
        let down = member.is_some_and(|member| !member.is_up());
        !self.avoided && (down || self.endpoint().is_avoided(now))
    }

    /// Whether no other request shares its connection.
    pub fn has_own_socket(&self) -> bool {
        matches!(self.link, UpstreamConnection::H1(_))
    }

    /// Keeps the connection for the next request of any client. Only after a complete response; not
    /// while its socket is needed elsewhere.
    pub fn keep(self, now: u64) {
        if let Some((idle, member, upstream)) = self.into_idle(now)
            && upstream.pool().settings.idle_settings.max > 0
        {
            upstream.keep_idle(member, idle);
        }
    }

    /// The connection for a next request, with its member and pool; none if it must be closed, or is
    /// shared, and so kept by its pool.
    pub(super) fn into_idle(self, now: u64) -> Option<(IdleConnection, usize, Rc<UpstreamPool>)> {
        let Self {
            link: UpstreamConnection::H1(link),
            mut permit,
            requests,
            member,
            upstream,
            ..
        } = self
        else {
            return None;
        };
        let most = upstream.pool().settings.idle_settings.requests;
        let may_stay = link.is_spent() && requests + 1 < most && !upstream.are_sockets_wanted();
        let idle = IdleConnection {
            link,
            slot: permit.take_slot()?,
            since: now,
            requests: requests + 1,
        };
        may_stay.then_some((idle, member, upstream))
    }

    /// The connection for another protocol, with its place and the request in flight.
    pub fn into_parts(self) -> (UpstreamConnection, ConnectionPermit, InFlight) {
        (self.link, self.permit, self.in_flight)
    }
}
