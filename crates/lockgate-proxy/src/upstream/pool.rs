//! A list of endpoints that serve alike, and connections to them: for a relay the one with the fewest connections is
//! next, the others follow when it cannot be reached.
//!
//! Does not choose for requests: see `balance`.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockgate_net::dial::{Target, dial, is_exhaustion};
use lockgate_net::socket::Socket;
use lockgate_net::tls::Connector;
use lockgate_net::tls::handshake::{self, HandshakeError};
use lockgate_net::tls::session::Session;

use super::balance::{Balance, Balancer, Member};
use super::endpoint::{Endpoint, Failure, Hold, Place};
use super::settings::{Queue, Settings};
use crate::answer::Fault;
use crate::clock::{Clock, Cut, Guard};

/// Endpoints that serve alike.
#[derive(Debug)]
pub struct Pool {
    members: Vec<Member>,
    balancer: Balancer,
    /// TLS to the endpoints, if they want it.
    pub tls: Option<Arc<Connector>>,
    /// What holds for all of them.
    pub settings: Settings,
    next: AtomicUsize,
    queued: AtomicUsize,
}

/// A connection to an endpoint, counted until it is dropped.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub socket: Socket,
    /// Its TLS, if the pool has any.
    pub session: Option<Box<Session>>,
    /// Its place among the endpoint's.
    pub hold: Hold,
}

/// No endpoint could be reached.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DialError {
    /// What the one that was tried last said.
    #[error("{endpoint}: {error}")]
    Failed {
        /// Which one.
        endpoint: String,
        /// What it said, to all who have waited for it; [`io::ErrorKind::TimedOut`] is nothing in time.
        error: Arc<io::Error>,
    },
    /// Checks have found every endpoint down.
    #[error("every endpoint is down")]
    Down,
    /// Those that answer are at their `max`, and as many requests wait as may.
    #[error("every endpoint is at its limit, and the queue is full")]
    QueueFull,
    /// Those that answer are at their `max`, and none became free in time.
    #[error("every endpoint that can be reached has as many connections as it may")]
    Full,
    /// We could not even try: nothing is left to connect with.
    #[error("cannot connect anywhere: {0}")]
    Exhausted(Arc<io::Error>),
    /// The connection was cut meanwhile.
    #[error("cut while connecting")]
    Cut(Cut),
    /// The client has left meanwhile.
    #[error("while it waited")]
    Left,
}

impl DialError {
    /// What a client is told of it.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Failed { error, .. } => unreachable(error),
            Self::Down => Fault::NoEndpoint,
            Self::QueueFull => Fault::QueueFull,
            Self::Full => Fault::QueueTimeout,
            Self::Exhausted(_) => Fault::Exhausted,
            Self::Cut(_) | Self::Left => Fault::ConnectionTimeout,
        }
    }
}

fn unreachable(error: &io::Error) -> Fault {
    let handshake = error.get_ref().and_then(|error| error.downcast_ref::<HandshakeError>());
    match (handshake, error.kind()) {
        (Some(handshake), _) if handshake.is_certificate() => Fault::TlsCertificate,
        (Some(_), _) => Fault::TlsProtocol,
        (None, io::ErrorKind::TimedOut) => Fault::ConnectionTimeout,
        // The system says the same of a Unix socket that is not there.
        (None, io::ErrorKind::NotFound) if error.raw_os_error().is_none() => Fault::Dns,
        _ => Fault::ConnectionRefused,
    }
}

impl Pool {
    /// Serves by `members`, of which there is at least one.
    pub fn new(
        members: Vec<Member>,
        balance: Balance,
        tls: Option<Arc<Connector>>,
        settings: Settings,
    ) -> Self {
        let balancer = Balancer::new(balance, &members);
        Self { members, balancer, tls, settings, next: AtomicUsize::new(0), queued: AtomicUsize::new(0) }
    }

    /// All members, in the order of the configuration.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The place among the members of the one that a request goes to: see [`Balancer::choose`].
    pub fn choose(&self, usable: impl Fn(usize) -> bool, random: u64, now: u64) -> Option<usize> {
        self.balancer.choose(&self.members, usable, random, now)
    }

    /// Waits for a place at one of the members that are up and of which `usable` says yes.
    ///
    /// # Errors
    /// When there is none, as many wait already as may, or none becomes free in time.
    pub async fn queue(
        &self,
        guard: &Guard,
        usable: impl Fn(usize) -> bool,
    ) -> Result<(usize, Hold), DialError> {
        let Queue { max, wait } = self.settings.queue;
        let members = self.members.iter().enumerate().filter(|(at, member)| member.is_up() && usable(*at));
        let (mut places, mut waiting): (Vec<_>, Vec<_>) =
            members.map(|(at, member)| (at, Box::pin(member.endpoint().take()))).unzip();
        if waiting.is_empty() {
            return Err(DialError::Down);
        }
        let _place = Queued::enter(&self.queued, max).ok_or(DialError::QueueFull)?;
        guard.phase(wait);
        while !waiting.is_empty() {
            let (first, hold) = guard.within(first_free(&mut waiting)).await.map_err(no_place)?;
            drop(waiting.swap_remove(first));
            let at = places.swap_remove(first);
            // It may have fallen meanwhile, and be free because its requests have gone elsewhere.
            if self.members.get(at).is_some_and(Member::is_up) {
                return Ok((at, hold));
            }
        }
        Err(DialError::Down)
    }

    /// Connects to the endpoint with the fewest connections, or to the next one that can be reached and proves who it
    /// is; each may take `limit` to connect and again for its TLS, before which `header` goes in plain. Where none can
    /// that is not at its `max`, waits as long for the first of those to become free.
    ///
    /// # Errors
    /// When none can be reached in time: what the last one said.
    pub async fn dial(&self, guard: &Guard, limit: Duration, header: &[u8]) -> Result<Dialled, DialError> {
        let mut last = None;
        let mut full = Vec::new();
        let order = self.order(guard.clock().now());
        if order.is_empty() {
            return Err(DialError::Down);
        }
        for endpoint in order {
            let Some(hold) = endpoint.try_take() else {
                full.push(endpoint);
                continue;
            };
            match self.attempt(hold, guard, limit, header).await {
                Err(error @ DialError::Failed { .. }) => last = Some(error),
                done => return done,
            }
        }
        while !full.is_empty() {
            guard.phase(limit);
            let mut waiting: Vec<_> = full.iter().map(|endpoint| Box::pin(endpoint.take())).collect();
            let (first, hold) = guard.within(first_free(&mut waiting)).await.map_err(no_place)?;
            // What becomes free while this one is tried is others'.
            drop(waiting);
            full.remove(first);
            match self.attempt(hold, guard, limit, header).await {
                Err(error @ DialError::Failed { .. }) => last = Some(error),
                done => return done,
            }
        }
        Err(last.unwrap_or(DialError::Full))
    }

    /// Those that are up: the ones that have failed lately last, else the fewest connections for their weight first; of
    /// equals, another one each time.
    fn order(&self, now: u64) -> Vec<&Arc<Endpoint>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.members.len().max(1);
        let (before, from) = self.members.split_at(first);
        let mut order: Vec<_> = from.iter().chain(before).filter(|member| member.is_up()).collect();
        // Cached: the counts change while we sort. 32 bits of fraction, so that any weight divides a small count.
        order.sort_by_cached_key(|member| {
            let load = ((member.endpoint().connections() as u64) << 32) / u64::from(member.weight());
            (member.endpoint().is_avoided(now), load)
        });
        order.into_iter().map(Member::endpoint).collect()
    }

    /// Connects to the endpoint of `hold`, and makes TLS with it if the pool has any; each may take `limit`. `header`
    /// goes before the TLS in plain. The endpoint remembers that it failed, or did not.
    ///
    /// # Errors
    /// What the endpoint said, or that the connection was cut meanwhile.
    pub async fn attempt(
        &self,
        hold: Hold,
        guard: &Guard,
        limit: Duration,
        header: &[u8],
    ) -> Result<Dialled, DialError> {
        let endpoint = Arc::clone(hold.endpoint());
        match self.connect(&endpoint, guard, limit, header).await {
            Ok(Ok((socket, session))) => {
                endpoint.succeeded();
                Ok(Dialled { socket, session, hold })
            }
            Ok(Err(error)) if is_exhaustion(&error) => Err(DialError::Exhausted(Arc::new(error))),
            Ok(Err(error)) => {
                endpoint.failed(Failure::Unreachable, guard.clock().now());
                Err(DialError::Failed { endpoint: endpoint.label.clone(), error: Arc::new(error) })
            }
            Err(cut) => Err(DialError::Cut(cut)),
        }
    }

    /// The outer error is a cut by something else than `limit`.
    async fn connect(
        &self,
        endpoint: &Endpoint,
        guard: &Guard,
        limit: Duration,
        header: &[u8],
    ) -> Result<io::Result<(Socket, Option<Box<Session>>)>, Cut> {
        let socket = match reach(endpoint, guard, limit).await? {
            Ok(socket) => socket,
            Err(error) => return Ok(Err(error)),
        };
        let Some(connector) = &self.tls else { return Ok(Ok((socket, None))) };
        guard.phase(limit);
        let handshake = handshake::connect(&socket, connector, &endpoint.host, header.to_vec());
        match guard.within(handshake).await {
            // RFC 9113 §3.3: what else it speaks would take our words for its own.
            Ok(Ok(made)) if self.settings.http2 && made.negotiated.alpn.as_deref() != Some(b"h2") => {
                Ok(Err(io::Error::other("no HTTP/2: the endpoint did not choose it by ALPN")))
            }
            Ok(Ok(made)) => Ok(Ok((socket, Some(made.session)))),
            Ok(Err(error)) => Ok(Err(io::Error::other(error))),
            Err(Cut::Deadline) => Ok(Err(io::ErrorKind::TimedOut.into())),
            Err(cut) => Err(cut),
        }
    }
}

/// One of those that wait; leaving the queue on every way out.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn enter(queued: &'a AtomicUsize, max: usize) -> Option<Self> {
        let place = Self(queued);
        (queued.fetch_add(1, Ordering::Relaxed) < max).then_some(place)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects within `limit`; a name's addresses share it. The outer error is a cut by something else.
async fn reach(endpoint: &Endpoint, guard: &Guard, limit: Duration) -> Result<io::Result<Socket>, Cut> {
    let targets = endpoint.place().targets();
    let share = limit / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "name does not resolve");
    for target in &targets {
        guard.phase(share);
        match guard.within(dial_target(target, guard.clock())).await {
            Ok(Ok(socket)) => return Ok(Ok(socket)),
            Ok(Err(error)) if is_exhaustion(&error) => return Ok(Err(error)),
            Ok(Err(error)) => last = error,
            Err(Cut::Deadline) => last = io::ErrorKind::TimedOut.into(),
            Err(cut) => return Err(cut),
        }
    }
    if let Place::Name(name) = endpoint.place() {
        // Perhaps it has moved.
        name.failed();
    }
    Ok(Err(last))
}

/// A Unix socket whose backlog is full says so at once and cannot be waited for: it is asked again with every tick.
async fn dial_target(target: &Target, clock: &Clock) -> io::Result<Socket> {
    loop {
        match dial(target).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => clock.next_tick().await,
            dialled => return dialled,
        }
    }
}

/// The first place of those that are waited for, and which of them it is.
async fn first_free<F: Future<Output = Hold>>(waiting: &mut [Pin<Box<F>>]) -> (usize, Hold) {
    poll_fn(|cx| {
        let places = waiting.iter_mut().enumerate();
        let mut polled = places.map(|(at, place)| place.as_mut().poll(cx).map(|hold| (at, hold)));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// What ends the wait for a place.
fn no_place(cut: Cut) -> DialError {
    match cut {
        Cut::Deadline => DialError::Full,
        cut => DialError::Cut(cut),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_goes_to_the_least_busy_for_its_weight_then_to_who_failed_lately_and_never_to_who_is_down() {
        let endpoint = |label: &str| {
            let place = Place::Ip("127.0.0.1:1".parse().unwrap());
            Arc::new(Endpoint::new(label.into(), "127.0.0.1".into(), place, None))
        };
        let members = [("a", 1), ("b", 1), ("c", 3), ("d", 1)];
        let members = members.map(|(label, weight)| Member::new(endpoint(label), weight));
        let pool = Pool::new(members.into(), Balance::Least, None, Settings::default());
        let order =
            |now| -> String { pool.order(now).iter().map(|endpoint| endpoint.label.as_str()).collect() };
        assert_eq!([order(0), order(0), order(0)], ["abcd", "bcda", "cdab"]);
        let holds = [(0, 1), (2, 2), (1, 3)].map(|(at, count)| {
            let endpoint = pool.members()[at].endpoint();
            (0..count).map(|_| endpoint.try_take()).collect::<Vec<_>>()
        });
        pool.members()[3].set_up(false);
        assert_eq!(order(0), "cab");
        pool.members()[2].endpoint().failed(Failure::Unreachable, 0);
        assert_eq!((order(0), order(1_000)), ("abc".into(), "cab".into()));
        drop(holds);
        pool.members().iter().for_each(|member| member.set_up(false));
        assert!(order(0).is_empty());
    }
}
