//! One address that connections go to, and what the process knows of it: how busy, how quick,
//! whether it could be reached lately. Does not choose, and knows nothing of active checks: those
//! belong to a pool's member.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_net::acknowledge::Habits;
use lockgate_net::dial::Target;
use lockgate_rules::Eject;

use super::avoidance::{Avoidance, Condition, Failure};
use super::latency::Latency;
use super::name::Name;
use super::notice::Notice;
use super::slots::Slot;
use crate::limits::sockets::Share;
use crate::limits::{Limit, Permit};

/// Where an endpoint is.
#[derive(Debug)]
pub enum Place {
    /// At an address.
    Ip(SocketAddr),
    /// At a Unix socket.
    Unix(PathBuf),
    /// At whatever its name stands for now.
    Name(Arc<Name>),
}

impl Place {
    /// Where to connect now, best first; empty for a name that does not resolve.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Self::Ip(address) => vec![Target::Tcp(*address)],
            Self::Unix(path) => vec![Target::Unix(path.clone())],
            Self::Name(name) => name
                .addresses()
                .iter()
                .map(|address| Target::Tcp(*address))
                .collect(),
        }
    }
}

/// One address that connections go to, the same for every table that names it.
#[derive(Debug)]
pub struct Endpoint {
    /// As it was written, for logs and metrics.
    pub label: String,
    /// What its certificate is checked against.
    pub host: String,
    /// What it has shown of how it sends.
    pub habits: Habits,
    place: Place,
    max: Option<Limit>,
    connections: AtomicUsize,
    ejections: AtomicU64,
    /// When its last ejection ends or has ended; 0 without any.
    back: AtomicU64,
    /// That it has failed.
    pub(super) notice: Notice,
    load: Load,
}

/// What every request of every worker writes: on a cache line of its own, so that it does not take
/// the rest along.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Load {
    in_flight: AtomicUsize,
    latency: Latency,
    avoidance: Avoidance,
}

/// What a broken exchange counts as, or twice the latency if that is more: an endpoint that fails
/// quickly must not look like a quick one and draw all requests.
const PENALTY: Duration = Duration::from_millis(500);

impl Endpoint {
    /// An endpoint without connections; at most `max` at once.
    pub fn new(label: String, host: String, place: Place, max: Option<usize>) -> Self {
        Self {
            label,
            host,
            habits: Habits::default(),
            place,
            max: max.map(Limit::new),
            connections: AtomicUsize::new(0),
            ejections: AtomicU64::new(0),
            back: AtomicU64::new(0),
            notice: Notice::default(),
            load: Load::default(),
        }
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether there is nobody, since it stands for a record of a service that is not there.
    pub fn is_vacant(&self) -> bool {
        matches!(&self.place, Place::Name(name) if name.is_vacant())
    }

    /// Its host and its port, if it has any.
    pub fn authority(&self) -> Option<(&str, u16)> {
        match &self.place {
            Place::Ip(address) => Some((&self.host, address.port())),
            Place::Name(name) if name.port() == 0 => None,
            Place::Name(name) => Some((&self.host, name.port())),
            Place::Unix(_) => None,
        }
    }

    /// Connections that the process has to it, or is making.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests that it has not finished answering, and relays that have not ended.
    pub fn in_flight(&self) -> usize {
        self.load.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a request until what is returned is dropped.
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.load.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight {
            endpoint: Arc::clone(self),
        }
    }

    /// How long it takes to answer.
    pub fn latency(&self) -> &Latency {
        &self.load.latency
    }

    /// The head of its answer came so long after the request. `now` is
    /// [`crate::clock::Clock::now`], here and below.
    pub fn answered(&self, took: Duration, now: u64) {
        self.load.latency.observe(took, now);
    }

    /// It has not answered for so long. Said with every tick, an endpoint that hangs gets no more
    /// requests long before the first of them has run into its deadline.
    pub fn waited(&self, waited: Duration, now: u64) {
        self.load.latency.at_least(waited, now);
    }

    /// It has served: what failed before counts no longer. Whether there was anything.
    pub(super) fn succeeded(&self, now: u64) -> bool {
        self.load.avoidance.succeeded(now)
    }

    /// A try has failed; what follows is said where [`Eject`] is. Whether it is ejected by that,
    /// which `may` is asked about.
    ///
    /// What was known of the latency of one that could not be reached, or is ejected, is forgotten:
    /// when its time is over it gets a single request, as a new one does, and its answer or
    /// failure decides what follows.
    pub fn failed(
        &self,
        failure: Failure,
        now: u64,
        eject: Option<Eject>,
        may: impl FnOnce() -> bool,
    ) -> bool {
        match failure {
            Failure::Unreachable => self.load.latency.forget(),
            Failure::Broken => {
                let twice = self.load.latency.now(now).unwrap_or_default() * 2e-6;
                let twice = Duration::try_from_secs_f32(twice).unwrap_or_default();
                self.load
                    .latency
                    .at_least(PENALTY.max(twice.min(10 * PENALTY)), now);
            }
            Failure::Unserved => {}
        }
        let Some(until) = self.load.avoidance.failed(failure, now, eject, may) else {
            return false;
        };
        self.load.latency.forget();
        self.back.store(until, Ordering::Relaxed);
        self.ejections.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// It is as good as new: what was held against it counts no longer.
    pub fn forgive(&self) {
        self.load.latency.forget();
        self.load.avoidance.end();
        self.back.store(0, Ordering::Relaxed);
        // Those who say so are told of by themselves.
        self.notice.ends();
    }

    /// How it does, by what was met there lately.
    pub fn condition(&self, now: u64) -> Condition {
        self.load.avoidance.condition(now)
    }

    /// Whether others are to be preferred, because it has failed lately.
    pub fn is_avoided(&self, now: u64) -> bool {
        self.condition(now) != Condition::Well
    }

    /// For how many milliseconds others are still preferred, because it has failed lately.
    pub(super) fn passed_over(&self, now: u64) -> Option<u64> {
        self.load.avoidance.passed_over(now)
    }

    /// Whether it could not be reached, or was ejected, when it was last tried; or others are
    /// preferred for now.
    pub fn is_out(&self, now: u64) -> bool {
        self.is_avoided(now) || self.load.avoidance.was_gone()
    }

    /// Whether nothing that was tried lately says that it answers.
    pub(super) fn is_lost(&self) -> bool {
        self.load.avoidance.is_lost()
    }

    /// Whether it is left alone because it kept failing.
    pub fn is_ejected(&self, now: u64) -> bool {
        self.load.avoidance.is_ejected(now)
    }

    /// How often it was ejected.
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// When its last ejection ends or has ended; 0 without any.
    pub(super) fn back(&self) -> u64 {
        self.back.load(Ordering::Relaxed)
    }

    /// Whether it has as many connections as it may.
    pub fn is_full(&self) -> bool {
        self.max
            .as_ref()
            .is_some_and(|max| max.used() >= max.size())
    }

    /// A place among its connections now, or none while it has as many as it may.
    pub fn try_take(self: &Arc<Self>) -> Option<Hold> {
        match &self.max {
            None => Some(Hold::new(self, None)),
            Some(limit) => limit.try_take().map(|permit| Hold::new(self, Some(permit))),
        }
    }

    /// Counts a connection that takes no place: those that use it do.
    pub fn count(self: &Arc<Self>) -> Hold {
        Hold::new(self, None)
    }

    /// Waits for a place among its connections, first come first served.
    pub async fn take(self: &Arc<Self>) -> Hold {
        let permit = match &self.max {
            None => None,
            Some(limit) => Some(limit.take().await),
        };
        Hold::new(self, permit)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

/// A request that counts for an endpoint until this is dropped.
#[derive(Debug)]
pub struct InFlight {
    endpoint: Arc<Endpoint>,
}

impl InFlight {
    /// Whose request it is.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.endpoint.load.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One of the connections that count for an endpoint.
#[derive(Debug)]
pub struct Hold {
    endpoint: Arc<Endpoint>,
    /// Whether it counts as a connection of its own.
    counts: bool,
    /// Where the connection is the work itself, and not one that requests come and go on.
    work: Option<InFlight>,
    /// The place of its socket, where it has one of its own.
    slot: Option<Slot>,
    /// What it takes of its client's share of sockets.
    share: Option<Share>,
    _permit: Option<Permit>,
}

impl Hold {
    fn new(endpoint: &Arc<Endpoint>, permit: Option<Permit>) -> Self {
        endpoint.connections.fetch_add(1, Ordering::Relaxed);
        let endpoint = Arc::clone(endpoint);
        Self {
            endpoint,
            counts: true,
            work: None,
            slot: None,
            share: None,
            _permit: permit,
        }
    }

    /// The same, with the place of the connection's socket.
    #[inline]
    pub fn in_slot(mut self, slot: Slot) -> Self {
        slot.works();
        self.slot = Some(slot);
        self
    }

    /// The same, with what it takes of the client's share.
    #[inline]
    pub fn of_share(mut self, share: Option<Share>) -> Self {
        self.share = share;
        self
    }

    /// The place of its socket, which outlives it.
    #[inline]
    pub(super) fn take_slot(&mut self) -> Option<Slot> {
        self.slot.take()
    }

    /// The place alone, of a request that shares a connection with others.
    pub fn shares(mut self) -> Self {
        self.uncount();
        self
    }

    /// The same of a relay, which is in flight as long as it is connected.
    pub fn works(mut self) -> Self {
        self.work = Some(self.endpoint.begin());
        self
    }

    fn uncount(&mut self) {
        if std::mem::take(&mut self.counts) {
            self.endpoint.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whose connection it is.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.uncount();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(max: Option<usize>) -> Arc<Endpoint> {
        let place = Place::Ip("127.0.0.1:1".parse().unwrap());
        Arc::new(Endpoint::new(
            "127.0.0.1:1".into(),
            "127.0.0.1".into(),
            place,
            max,
        ))
    }

    #[test]
    fn endpoint_connection_and_exchange_counts_are_given_back() {
        let endpoint = endpoint(Some(1));
        let (hold, exchange) = (endpoint.try_take(), endpoint.begin());
        assert!(hold.is_some() && endpoint.try_take().is_none());
        assert_eq!((endpoint.connections(), endpoint.in_flight()), (1, 1));
        drop((hold, exchange));
        assert_eq!((endpoint.connections(), endpoint.in_flight()), (0, 0));
        assert!(endpoint.try_take().is_some());
    }

    #[test]
    fn a_reset_raises_endpoint_latency_and_unreachability_forgets_it() {
        let (endpoint, tenth) = (endpoint(None), Duration::from_millis(100));
        endpoint.answered(tenth, 0);
        endpoint.failed(Failure::Broken, 0, None, || false);
        assert_eq!(endpoint.latency().now(0), Some(5e5));
        endpoint.failed(Failure::Broken, 0, None, || false);
        assert_eq!(endpoint.latency().now(0), Some(1e6));
        for _ in 0..100 {
            endpoint.failed(Failure::Broken, 0, None, || false);
        }
        assert_eq!(
            endpoint.latency().now(0),
            Some(5e6),
            "it is no worse for failing more often"
        );
        endpoint.failed(Failure::Unreachable, 0, None, || false);
        assert_eq!(endpoint.latency().now(0), None);
        endpoint.waited(tenth, 0);
        assert_eq!(endpoint.latency().now(0), Some(1e5));
        endpoint.forgive();
        assert!(endpoint.latency().now(0).is_none() && !endpoint.is_avoided(0));
    }

    #[test]
    fn an_ejected_endpoint_returns_without_history() {
        let (endpoint, eject) = (
            endpoint(None),
            Some(Eject {
                errors: 2,
                time: Duration::from_millis(500),
                ..Eject::default()
            }),
        );
        endpoint.answered(Duration::from_millis(1), 0);
        assert!(!endpoint.failed(Failure::Unserved, 0, eject, || true));
        assert!(endpoint.ejections() == 0 && endpoint.latency().now(0).is_some());
        assert!(endpoint.failed(Failure::Unserved, 7, eject, || true) && endpoint.is_ejected(7));
        assert_eq!(
            (
                endpoint.ejections(),
                endpoint.back(),
                endpoint.latency().now(7)
            ),
            (1, 507, None)
        );
        // After an early end of an ejection the caller decides how slowly the endpoint returns.
        endpoint.forgive();
        assert_eq!(
            (
                endpoint.ejections(),
                endpoint.back(),
                endpoint.is_ejected(7)
            ),
            (1, 0, false)
        );
    }
}
