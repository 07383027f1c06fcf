//! An endpoint and its state in this process: connections, latency, failures. Does not choose, and
//! knows nothing of active checks: those belong to a pool's member.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_limits::sockets::SocketShare;
use lockgate_limits::{MemberIndex, Permit};
use lockgate_net::acknowledge::EndpointStalls;
use lockgate_net::dial::DialTarget;
use lockgate_net::index_type;
use lockgate_net::millis::Millis;
use lockgate_rules::Eject;

use super::endpoint_limit::EndpointLimit;
use super::endpoint_name::EndpointName;
use super::latency::Latency;
use super::notice::Notice;
use super::outlier_detection::{Condition, EndpointFailure, OutlierDetection};
use super::worker_sockets::SocketPermit;

index_type! {
    /// The index of an endpoint among those that a configuration counts: the members of all pools,
    /// one pool after the other.
    EndpointIndex;
}

impl EndpointIndex {
    /// The index of a member of the pool; this is the index of the first one.
    pub(super) fn of_member(self, member: MemberIndex) -> Self {
        Self::new(self.get() + member.get())
    }
}

/// The address of an endpoint.
#[derive(Debug)]
pub enum EndpointAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A host name with its current addresses.
    Name(Arc<EndpointName>),
}

impl EndpointAddress {
    /// The addresses to dial now, best first; empty for a name that does not resolve.
    pub fn targets(&self) -> Vec<DialTarget> {
        match self {
            Self::Ip(address) => vec![DialTarget::Tcp(*address)],
            Self::Unix(path) => vec![DialTarget::Unix(path.clone())],
            Self::Name(name) => name
                .addresses()
                .iter()
                .map(|address| DialTarget::Tcp(*address))
                .collect(),
        }
    }
}

/// An endpoint, the same for every table that names it.
#[derive(Debug)]
pub struct Endpoint {
    /// Its address as configured, for logs and metrics.
    pub label: String,
    /// The name that its certificate must have.
    pub host: String,
    /// Its observed pauses when it sends.
    pub stalls: EndpointStalls,
    address: EndpointAddress,
    limit: EndpointLimit,
    connections: AtomicUsize,
    ejections: AtomicU64,
    /// The end of its last ejection; 0 without any.
    back: AtomicU64,
    /// The report of its failure.
    pub(super) notice: Notice,
    load: Load,
}

/// The state that every request of every worker writes: on a cache line of its own, so that readers
/// of the rest keep theirs.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Load {
    /// The requests and relays in flight: in the lower half all, in the upper half those without a
    /// permit.
    in_flight: AtomicU64,
    latency: Latency,
    avoidance: OutlierDetection,
}

/// A request in [`Load::in_flight`] that has a permit, and one that has none.
const WITH_PERMIT: u64 = 1;
const WITHOUT_PERMIT: u64 = 1 << 32 | 1;

impl Load {
    fn in_flight(&self) -> usize {
        (self.in_flight.load(Ordering::Relaxed) & u64::from(u32::MAX)) as usize
    }

    /// The requests that began while there was no `max`.
    fn without_permit(&self) -> usize {
        (self.in_flight.load(Ordering::SeqCst) >> 32) as usize
    }
}

/// The latency of a reset exchange, or twice the average if that is more: an endpoint that fails
/// quickly must not look quick and get all requests.
const PENALTY: Duration = Duration::from_millis(500);

impl Endpoint {
    /// An endpoint without connections; at most `max` at once.
    pub fn new(label: String, host: String, address: EndpointAddress, max: Option<usize>) -> Self {
        Self {
            label,
            host,
            stalls: EndpointStalls::default(),
            address,
            limit: EndpointLimit::new(max),
            connections: AtomicUsize::new(0),
            ejections: AtomicU64::new(0),
            back: AtomicU64::new(0),
            notice: Notice::default(),
            load: Load::default(),
        }
    }

    /// Its address.
    pub fn address(&self) -> &EndpointAddress {
        &self.address
    }

    /// Whether it stands for an SRV record that does not exist now.
    pub fn is_vacant(&self) -> bool {
        matches!(&self.address, EndpointAddress::Name(name) if name.is_vacant())
    }

    /// Whether it stands for an SRV record.
    pub fn is_of_record(&self) -> bool {
        matches!(&self.address, EndpointAddress::Name(name) if name.port() == 0)
    }

    /// Its host and its port, if it has any.
    pub fn authority(&self) -> Option<(&str, u16)> {
        match &self.address {
            EndpointAddress::Ip(address) => Some((&self.host, address.port())),
            EndpointAddress::Name(name) if name.port() == 0 => None,
            EndpointAddress::Name(name) => Some((&self.host, name.port())),
            EndpointAddress::Unix(_) => None,
        }
    }

    /// Connections that the process has or makes to it.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Its requests without a complete response, and open relays.
    pub fn in_flight(&self) -> usize {
        self.load.in_flight()
    }

    /// Counts a request without a permit until the returned value is dropped.
    pub fn begin_request(self: &Arc<Self>) -> InFlight {
        InFlight::new(self, WITHOUT_PERMIT)
    }

    /// Its average latency.
    pub fn latency(&self) -> &Latency {
        &self.load.latency
    }

    /// Records the time from a request to the head of its response. `now` is
    /// [`lockgate_limits::clock::Clock::now`], here and below.
    pub fn record_response(&self, took: Duration, now: Millis) {
        self.load.latency.observe(took, now);
    }

    /// Records the time for which a response is overdue. By one record a tick, an endpoint that
    /// hangs gets no more requests long before the first deadline.
    pub fn record_wait(&self, waited: Duration, now: Millis) {
        self.load.latency.at_least(waited, now);
    }

    /// Notes a success, which ends earlier failures; returns whether there were any.
    pub(super) fn succeeded(&self, now: Millis) -> bool {
        self.load.avoidance.succeeded(now)
    }

    /// Notes a failed attempt; the module of [`Eject`] has the consequences. Returns whether the
    /// endpoint is ejected, which `may` can forbid.
    ///
    /// The latency of an endpoint that could not be reached, or is ejected, is forgotten:
    /// afterwards it gets a single request, as a new endpoint does, and the result decides.
    pub fn failed(
        &self,
        failure: EndpointFailure,
        now: Millis,
        eject: Option<Eject>,
        may: impl FnOnce() -> bool,
    ) -> bool {
        match failure {
            EndpointFailure::Unreachable => self.load.latency.forget(),
            EndpointFailure::Reset => {
                let twice = self.load.latency.now(now).unwrap_or_default() * 2e-6;
                let twice = Duration::try_from_secs_f32(twice).unwrap_or_default();
                self.load
                    .latency
                    .at_least(PENALTY.max(twice.min(10 * PENALTY)), now);
            }
            EndpointFailure::Unserved => {}
        }
        let Some(until) = self.load.avoidance.failed(failure, now, eject, may) else {
            return false;
        };
        self.load.latency.forget();
        self.back.store(until.as_u64(), Ordering::Relaxed);
        self.ejections.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Forgets failures, ejection and latency, as for a new endpoint.
    pub fn reset_history(&self) {
        self.load.latency.forget();
        self.load.avoidance.end();
        self.back.store(0, Ordering::Relaxed);
        // The caller writes the line in the log.
        self.notice.ends();
    }

    /// Its condition, by its latest results.
    pub fn condition(&self, now: Millis) -> Condition {
        self.load.avoidance.condition(now)
    }

    /// Whether others are preferred, because it has failed lately.
    pub fn is_avoided(&self, now: Millis) -> bool {
        self.condition(now) != Condition::Healthy
    }

    /// The time for which others are still preferred, because it has failed lately.
    pub(super) fn passed_over(&self, now: Millis) -> Option<Millis> {
        self.load.avoidance.passed_over(now)
    }

    /// Whether it could not be reached or was ejected in the last attempt, or others are preferred
    /// now.
    pub fn is_out(&self, now: Millis) -> bool {
        self.is_avoided(now) || self.load.avoidance.was_gone()
    }

    /// Whether its latest results show no sign that it answers.
    pub(super) fn is_lost(&self) -> bool {
        self.load.avoidance.is_lost()
    }

    /// Whether it is ejected.
    pub fn is_ejected(&self, now: Millis) -> bool {
        self.load.avoidance.is_ejected(now)
    }

    /// Number of its ejections.
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// The end of its last ejection; 0 without any.
    pub(super) fn ejection_end(&self) -> Millis {
        Millis::new(self.back.load(Ordering::Relaxed))
    }

    /// Allows at most `max` requests and relays at once from now on; what is in flight goes on, and
    /// counts.
    pub fn set_max(&self, max: Option<usize>) {
        self.limit.set(max, || self.load.without_permit());
    }

    /// Whether it is at its `max`.
    pub fn is_full(&self) -> bool {
        let permits = self.limit.permits();
        permits.is_some_and(|permits| permits.free() == 0)
    }

    /// A permit for a connection, unless it is at its `max`.
    pub fn try_take(self: &Arc<Self>) -> Option<EndpointPermit> {
        match self.limit.permits() {
            None => Some(EndpointPermit::new(self, None)),
            Some(permits) => permits
                .try_take()
                .map(|permit| EndpointPermit::new(self, Some(permit))),
        }
    }

    /// Counts a connection without taking a permit: the requests on it take permits.
    pub fn count_connection(self: &Arc<Self>) -> EndpointPermit {
        EndpointPermit::new(self, None)
    }

    /// Waits for a permit for a connection, in order of arrival.
    pub async fn take(self: &Arc<Self>) -> EndpointPermit {
        let permit = match self.limit.permits() {
            None => None,
            Some(permits) => Some(permits.take().await),
        };
        EndpointPermit::new(self, permit)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

/// A request in flight to an endpoint, counted until this is dropped.
#[derive(Debug)]
pub struct InFlight {
    endpoint: Arc<Endpoint>,
    /// What it has added to [`Load::in_flight`].
    count: u64,
}

impl InFlight {
    fn new(endpoint: &Arc<Endpoint>, count: u64) -> Self {
        endpoint.load.in_flight.fetch_add(count, Ordering::SeqCst);
        Self {
            endpoint: Arc::clone(endpoint),
            count,
        }
    }

    /// The endpoint of the request.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Endpoint { load, limit, .. } = &*self.endpoint;
        load.in_flight.fetch_sub(self.count, Ordering::SeqCst);
        // A `max` that was set meanwhile has counted it, or is seen here.
        if self.count == WITHOUT_PERMIT && limit.is_set() {
            limit.settle(|| load.without_permit());
        }
    }
}

/// A connection's permit at its endpoint, with the socket that it uses.
#[derive(Debug)]
pub struct EndpointPermit {
    endpoint: Arc<Endpoint>,
    /// Whether it counts as a connection of its own.
    counts: bool,
    /// The relay as a request in flight, for as long as it is connected.
    work: Option<InFlight>,
    /// The permit of its socket, where it has one of its own.
    socket_permit: Option<SocketPermit>,
    /// Its part of the client's share of sockets.
    share: Option<SocketShare>,
    permit: Option<Permit>,
}

impl EndpointPermit {
    fn new(endpoint: &Arc<Endpoint>, permit: Option<Permit>) -> Self {
        endpoint.connections.fetch_add(1, Ordering::Relaxed);
        let endpoint = Arc::clone(endpoint);
        Self {
            endpoint,
            counts: true,
            work: None,
            socket_permit: None,
            share: None,
            permit,
        }
    }

    /// Adds the permit of the connection's socket.
    #[inline]
    pub fn set_socket(&mut self, socket_permit: SocketPermit) {
        socket_permit.set_busy();
        self.socket_permit = Some(socket_permit);
    }

    /// Adds its part of the client's share.
    #[inline]
    pub fn set_share(&mut self, share: Option<SocketShare>) {
        self.share = share;
    }

    /// Takes the permit of its socket, which outlives it.
    #[inline]
    pub(super) fn take_socket(&mut self) -> Option<SocketPermit> {
        self.socket_permit.take()
    }

    /// Keeps only the permit, for a request that shares a connection with others.
    pub(crate) fn without_connection(mut self) -> Self {
        self.uncount();
        self
    }

    /// Counts a request in flight until the returned value is dropped.
    #[inline]
    pub(super) fn begin_request(&self) -> InFlight {
        let count = match self.permit {
            Some(_) => WITH_PERMIT,
            None => WITHOUT_PERMIT,
        };
        InFlight::new(&self.endpoint, count)
    }

    /// Counts a request in flight too, for a relay, which is one as long as it is connected.
    pub(crate) fn with_request(mut self) -> Self {
        self.work = Some(self.begin_request());
        self
    }

    fn uncount(&mut self) {
        if std::mem::take(&mut self.counts) {
            self.endpoint.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The endpoint of the connection.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

impl Drop for EndpointPermit {
    fn drop(&mut self) {
        self.uncount();
    }
}

#[cfg(test)]
mod tests;
