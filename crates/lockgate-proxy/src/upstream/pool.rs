//! A list of endpoints that serve alike: the one with the fewest connections is next, the others follow when it
//! cannot be reached.
//!
//! Connections are counted for the process.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockgate_net::dial::{Target, dial, is_exhaustion};
use lockgate_net::relay::Habits;
use lockgate_net::socket::Socket;
use lockgate_net::tls::Connector;
use lockgate_net::tls::handshake;
use lockgate_net::tls::session::Session;

use super::name::Name;
use crate::clock::{Clock, Cut, Guard};
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

/// One address that connections go to.
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
}

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
        }
    }

    /// Connects within `limit`; a name's addresses share it. The outer error is none of the endpoint's.
    async fn connect(&self, guard: &Guard, limit: Duration) -> Result<io::Result<Socket>, DialError> {
        let targets = match &self.place {
            Place::Ip(address) => vec![Target::Tcp(*address)],
            Place::Unix(path) => vec![Target::Unix(path.clone())],
            Place::Name(name) => name.addresses().iter().map(|address| Target::Tcp(*address)).collect(),
        };
        let share = limit / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
        let mut last = io::Error::new(io::ErrorKind::NotFound, "name does not resolve");
        for target in &targets {
            guard.phase(share);
            match guard.within(dial_target(target, guard.clock())).await {
                Ok(Ok(socket)) => return Ok(Ok(socket)),
                Ok(Err(error)) if is_exhaustion(&error) => return Err(DialError::Exhausted(error)),
                Ok(Err(error)) => last = error,
                Err(Cut::Deadline) => last = io::ErrorKind::TimedOut.into(),
                Err(cut) => return Err(DialError::Cut(cut)),
            }
        }
        if let Place::Name(name) = &self.place {
            // Perhaps it has moved.
            name.failed();
        }
        Ok(Err(last))
    }

    /// Connections that the process has to it, or is making.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Endpoints that serve alike.
#[derive(Debug)]
pub struct Pool {
    endpoints: Vec<Arc<Endpoint>>,
    /// TLS to the endpoints, if they want it.
    pub tls: Option<Arc<Connector>>,
    next: AtomicUsize,
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

/// One of the connections that count for an endpoint.
#[derive(Debug)]
pub struct Hold {
    endpoint: Arc<Endpoint>,
    _permit: Option<Permit>,
}

impl Hold {
    fn new(endpoint: &Arc<Endpoint>, permit: Option<Permit>) -> Self {
        endpoint.connections.fetch_add(1, Ordering::Relaxed);
        Self { endpoint: Arc::clone(endpoint), _permit: permit }
    }

    /// Whose connection it is.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.endpoint.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// No endpoint could be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// What the one that was tried last said.
    #[error("{endpoint}: {error}")]
    Failed {
        /// Which one.
        endpoint: String,
        /// What it said; [`io::ErrorKind::TimedOut`] is nothing in time.
        error: io::Error,
    },
    /// Those that answer are at their `max`, and none became free in time.
    #[error("every endpoint that can be reached has as many connections as it may")]
    Full,
    /// We could not even try: nothing is left to connect with.
    #[error("cannot connect anywhere: {0}")]
    Exhausted(io::Error),
    /// The connection was cut meanwhile.
    #[error("cut while connecting")]
    Cut(Cut),
}

impl Pool {
    /// Serves by `endpoints`, of which there is at least one.
    pub fn new(endpoints: Vec<Arc<Endpoint>>, tls: Option<Arc<Connector>>) -> Self {
        Self { endpoints, tls, next: AtomicUsize::new(0) }
    }

    /// All endpoints, in the order of the configuration.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
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
        for endpoint in self.order() {
            let Some(hold) = try_take(endpoint) else {
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
            let hold = guard.within(first_free(&full)).await.map_err(|cut| match cut {
                Cut::Deadline => DialError::Full,
                cut => DialError::Cut(cut),
            })?;
            full.retain(|endpoint| !Arc::ptr_eq(endpoint, hold.endpoint()));
            match self.attempt(hold, guard, limit, header).await {
                Err(error @ DialError::Failed { .. }) => last = Some(error),
                done => return done,
            }
        }
        Err(last.unwrap_or(DialError::Full))
    }

    /// Fewest connections first; of equals, another one each time.
    fn order(&self) -> Vec<&Arc<Endpoint>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.endpoints.len().max(1);
        let (before, from) = self.endpoints.split_at(first);
        let mut order: Vec<_> = from.iter().chain(before).collect();
        // Cached: the counts change while we sort.
        order.sort_by_cached_key(|endpoint| endpoint.connections());
        order
    }

    /// Connects to one endpoint, and makes TLS with it if the pool has any.
    async fn attempt(
        &self,
        hold: Hold,
        guard: &Guard,
        limit: Duration,
        header: &[u8],
    ) -> Result<Dialled, DialError> {
        let endpoint = Arc::clone(hold.endpoint());
        let failed = |error| DialError::Failed { endpoint: endpoint.label.clone(), error };
        let socket = endpoint.connect(guard, limit).await?.map_err(failed)?;
        let Some(connector) = &self.tls else { return Ok(Dialled { socket, session: None, hold }) };
        guard.phase(limit);
        let made =
            guard.within(handshake::connect(&socket, connector, &endpoint.host, header.to_vec())).await;
        match made {
            Ok(Ok(made)) => Ok(Dialled { socket, session: Some(made.session), hold }),
            Ok(Err(error)) => Err(failed(io::Error::other(error))),
            Err(Cut::Deadline) => Err(failed(io::ErrorKind::TimedOut.into())),
            Err(cut) => Err(DialError::Cut(cut)),
        }
    }
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

fn try_take(endpoint: &Arc<Endpoint>) -> Option<Hold> {
    match &endpoint.max {
        None => Some(Hold::new(endpoint, None)),
        Some(limit) => limit.try_take().map(|permit| Hold::new(endpoint, Some(permit))),
    }
}

/// The first place that becomes free at one of `endpoints`.
async fn first_free(endpoints: &[&Arc<Endpoint>]) -> Hold {
    let mut waiting: Vec<_> = endpoints.iter().map(|endpoint| Box::pin(take(endpoint))).collect();
    poll_fn(|cx| {
        let mut polled = waiting.iter_mut().map(|place| place.as_mut().poll(cx));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

async fn take(endpoint: &Arc<Endpoint>) -> Hold {
    let permit = match &endpoint.max {
        None => None,
        Some(limit) => Some(limit.take().await),
    };
    Hold::new(endpoint, permit)
}
