//! A list of endpoints that serve alike: the one with the fewest connections is next, the others follow when it
//! cannot be reached.
//!
//! Connections are counted for the process. Has no deadline of its own: that is the connection's.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_net::dial::{Target, dial};
use lockgate_net::relay::Habits;
use lockgate_net::socket::Socket;
use lockgate_net::tls::Connector;

use super::name::Name;
use crate::clock::Clock;
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
        Self { label, host, habits: Habits::default(), place, max: max.map(Limit::new), connections: AtomicUsize::new(0) }
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
#[error("{endpoint}: {error}")]
pub struct DialError {
    /// The one that was tried last.
    pub endpoint: String,
    /// What it said.
    pub error: io::Error,
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

    /// Connects to the endpoint with the fewest connections, or to the next one that can be reached.
    /// Where all are at their `max`, waits for the first one.
    ///
    /// # Errors
    /// When none can be reached: what the last one said.
    pub async fn dial(&self, clock: &Clock) -> Result<Dialled, DialError> {
        let mut last = None;
        if let [only] = self.endpoints.as_slice() {
            let hold = take(only).await;
            return self.dial_endpoint(hold, clock).await;
        }
        let order = self.order();
        for endpoint in &order {
            let Some(hold) = try_take(endpoint) else { continue };
            match self.dial_endpoint(hold, clock).await {
                Ok(dialled) => return Ok(dialled),
                Err(error) => last = Some(error),
            }
        }
        match (last, order.first()) {
            (None, Some(first)) => self.dial_endpoint(take(first).await, clock).await,
            (Some(error), _) => Err(error),
            (None, None) => Err(DialError { endpoint: String::new(), error: io::ErrorKind::NotFound.into() }),
        }
    }

    /// Fewest connections first; of equals, another one each time.
    fn order(&self) -> Vec<&Arc<Endpoint>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.endpoints.len().max(1);
        let (before, from) = self.endpoints.split_at(first);
        let mut order: Vec<_> = from.iter().chain(before).collect();
        order.sort_by_key(|endpoint| endpoint.connections());
        order
    }

    async fn dial_endpoint(&self, hold: Hold, clock: &Clock) -> Result<Dialled, DialError> {
        let endpoint = Arc::clone(hold.endpoint());
        let dialled = match &endpoint.place {
            Place::Ip(address) => dial(&Target::Tcp(*address)).await,
            Place::Unix(path) => dial_unix(&Target::Unix(path.clone()), clock).await,
            Place::Name(name) => dial_name(name).await,
        };
        match dialled {
            Ok(socket) => Ok(Dialled { socket, hold }),
            Err(error) => Err(DialError { endpoint: endpoint.label.clone(), error }),
        }
    }
}

async fn dial_name(name: &Name) -> io::Result<Socket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "name does not resolve");
    // Not the guard: it pins the list, and connecting takes its time.
    let addresses = Arc::clone(&name.addresses());
    for address in addresses.iter() {
        match dial(&Target::Tcp(*address)).await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    // Perhaps it has moved.
    name.failed();
    Err(last)
}

/// A Unix socket whose backlog is full says so at once and cannot be waited for: it is asked again with every tick.
async fn dial_unix(target: &Target, clock: &Clock) -> io::Result<Socket> {
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

async fn take(endpoint: &Arc<Endpoint>) -> Hold {
    let permit = match &endpoint.max {
        None => None,
        Some(limit) => Some(limit.take().await),
    };
    Hold::new(endpoint, permit)
}
