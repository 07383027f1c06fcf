//! One address that connections go to, and what the process knows of it: how busy, how quick, whether it could be
//! reached lately. Does not choose, and knows nothing of active checks: those belong to a pool's member.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_net::dial::Target;
use lockgate_net::relay::Habits;

use super::latency::Latency;
use super::name::Name;
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
            Self::Name(name) => name.addresses().iter().map(|address| Target::Tcp(*address)).collect(),
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
    load: Load,
}

/// What every request of every worker writes: on a cache line of its own, so that it does not take the rest along.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Load {
    in_flight: AtomicUsize,
    latency: Latency,
    avoidance: Avoidance,
}

/// How a try at an endpoint failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or no TLS.
    Unreachable,
    /// A connection that broke before an answer, or an answer that is none.
    Broken,
}

/// What a broken exchange counts as, or twice the latency if that is more: an endpoint that fails quickly must not look
/// like a quick one and draw all requests.
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
            load: Load::default(),
        }
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its host and its port, if it has any.
    pub fn authority(&self) -> Option<(&str, u16)> {
        match &self.place {
            Place::Ip(address) => Some((&self.host, address.port())),
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
        InFlight { endpoint: Arc::clone(self) }
    }

    /// How long it takes to answer.
    pub fn latency(&self) -> &Latency {
        &self.load.latency
    }

    /// It has answered, the head of its answer so long after the request. `now` is [`crate::clock::Clock::now`], here
    /// and below.
    pub fn answered(&self, took: Duration, now: u64) {
        self.load.latency.observe(took, now);
        self.succeeded();
    }

    /// It has not answered for so long. Said with every tick, an endpoint that hangs gets no more requests long before
    /// the first of them has run into its deadline.
    pub fn waited(&self, waited: Duration, now: u64) {
        self.load.latency.at_least(waited, now);
    }

    /// It could be reached: it is not avoided any longer.
    pub fn succeeded(&self) {
        self.load.avoidance.end();
    }

    /// A try has failed. It is avoided for a second, after further failures for two, four, eight, at last for ten, as
    /// long as there are others; when all are avoided they are tried all the same.
    ///
    /// What was known of an unreachable one's latency is forgotten: when its time is over it gets a single request, as
    /// a new one does, and its answer or failure decides what follows.
    pub fn failed(&self, failure: Failure, now: u64) {
        match failure {
            Failure::Unreachable => self.load.latency.forget(),
            Failure::Broken => {
                let twice = self.load.latency.now(now).unwrap_or_default() * 2e-6;
                let twice = Duration::try_from_secs_f32(twice).unwrap_or_default();
                self.load.latency.at_least(PENALTY.max(twice.min(10 * PENALTY)), now);
            }
        }
        self.load.avoidance.begin(now);
    }

    /// It is as good as new: what was held against it counts no longer.
    pub fn forgive(&self) {
        self.load.latency.forget();
        self.succeeded();
    }

    /// Whether others are to be preferred, because it has failed lately.
    pub fn is_avoided(&self, now: u64) -> bool {
        self.load.avoidance.lasts(now)
    }

    /// Whether it has as many connections as it may.
    pub fn is_full(&self) -> bool {
        self.max.as_ref().is_some_and(|max| max.used() >= max.size())
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
    _permit: Option<Permit>,
}

impl Hold {
    fn new(endpoint: &Arc<Endpoint>, permit: Option<Permit>) -> Self {
        endpoint.connections.fetch_add(1, Ordering::Relaxed);
        Self { endpoint: Arc::clone(endpoint), counts: true, work: None, _permit: permit }
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

/// How often it failed in a row, and until when it is avoided for that, in one word; 0 is not at all.
#[derive(Debug, Default)]
struct Avoidance(AtomicU64);

const FIRST: u64 = 1_000;
const LONGEST: u64 = 10_000;
/// Bits of the word that count failures.
const COUNT: u32 = 4;

impl Avoidance {
    fn lasts(&self, now: u64) -> bool {
        // The count is at least 1 where the time is over at this very moment.
        self.0.load(Ordering::Relaxed) >> COUNT > now
    }

    fn begin(&self, now: u64) {
        let before = self.0.load(Ordering::Relaxed);
        // What fails meanwhile was begun before, or had no choice: it is the same failure.
        if before >> COUNT > now {
            return;
        }
        let failures = before & ((1 << COUNT) - 1);
        let until = now + (FIRST << failures).min(LONGEST);
        let next = (until << COUNT) | (failures + 1).min((1 << COUNT) - 1);
        // Whoever was quicker says the same.
        let _ = self.0.compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn end(&self) {
        // Read first: writing would take the line from every other worker with each answer.
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(max: Option<usize>) -> Arc<Endpoint> {
        let place = Place::Ip("127.0.0.1:1".parse().unwrap());
        Arc::new(Endpoint::new("127.0.0.1:1".into(), "127.0.0.1".into(), place, max))
    }

    #[test]
    fn what_is_counted_is_given_back() {
        let endpoint = endpoint(Some(1));
        let (hold, exchange) = (endpoint.try_take(), endpoint.begin());
        assert!(hold.is_some() && endpoint.try_take().is_none());
        assert_eq!((endpoint.connections(), endpoint.in_flight()), (1, 1));
        drop((hold, exchange));
        assert_eq!((endpoint.connections(), endpoint.in_flight()), (0, 0));
        assert!(endpoint.try_take().is_some());
    }

    #[test]
    fn one_that_keeps_failing_is_avoided_ever_longer_and_a_success_ends_it() {
        let (endpoint, mut now) = (endpoint(None), 5_000);
        for span in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            endpoint.failed(Failure::Unreachable, now);
            // Those that were under way fail as well, and that is no further failure.
            endpoint.failed(Failure::Unreachable, now + 1);
            assert!(endpoint.is_avoided(now) && endpoint.is_avoided(now + span - 1));
            now += span;
            assert!(!endpoint.is_avoided(now));
        }
        (0..100).for_each(|_| endpoint.failed(Failure::Broken, now));
        endpoint.succeeded();
        assert!(!endpoint.is_avoided(now));
        endpoint.failed(Failure::Broken, now);
        assert!(!endpoint.is_avoided(now + 1_000), "it begins anew");
    }

    #[test]
    fn one_that_breaks_looks_slow_and_one_that_was_unreachable_looks_new() {
        let (endpoint, tenth) = (endpoint(None), Duration::from_millis(100));
        endpoint.answered(tenth, 0);
        endpoint.failed(Failure::Broken, 0);
        assert_eq!(endpoint.latency().now(0), Some(5e5));
        endpoint.failed(Failure::Broken, 0);
        assert_eq!(endpoint.latency().now(0), Some(1e6));
        (0..100).for_each(|_| endpoint.failed(Failure::Broken, 0));
        assert_eq!(endpoint.latency().now(0), Some(5e6), "it is no worse for failing more often");
        endpoint.failed(Failure::Unreachable, 0);
        assert_eq!(endpoint.latency().now(0), None);
        endpoint.waited(tenth, 0);
        assert_eq!(endpoint.latency().now(0), Some(1e5));
        endpoint.forgive();
        assert!(endpoint.latency().now(0).is_none() && !endpoint.is_avoided(0));
    }
}
