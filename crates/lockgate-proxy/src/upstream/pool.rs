//! A list of endpoints that serve alike: the one with the fewest connections is next, the others follow when it
//! cannot be reached.
//!
//! Connections are counted for the process.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_net::dial::{Target, dial};
use lockgate_net::relay::Habits;
use lockgate_net::socket::Socket;
use lockgate_net::tls::Connector;

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
pub enum DialError {
    /// What the one that was tried last said.
    #[error("{endpoint}: {error}")]
    Failed {
        /// Which one.
        endpoint: String,
        /// What it said; [`io::ErrorKind::TimedOut`] is nothing in time.
        error: io::Error,
    },
    /// All are at their `max`, and none became free in time.
    #[error("every endpoint has as many connections as it may")]
    Full,
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

    /// Connects to the endpoint with the fewest connections, or to the next one that can be reached; each may take
    /// `limit`. Where all are at their `max`, waits as long for the first one.
    ///
    /// # Errors
    /// When none can be reached in time: what the last one said.
    pub async fn dial(&self, guard: &Guard, limit: Duration) -> Result<Dialled, DialError> {
        let mut last = DialError::Full;
        let order = self.order();
        for endpoint in &order {
            let Some(hold) = try_take(endpoint) else { continue };
            match attempt(hold, guard, limit).await {
                Ok(dialled) => return Ok(dialled),
                Err(cut @ DialError::Cut(_)) => return Err(cut),
                Err(error) => last = error,
            }
        }
        match (last, order.first()) {
            (DialError::Full, Some(first)) => {
                guard.phase(limit);
                let hold = guard.within(take(first)).await.map_err(|cut| match cut {
                    Cut::Deadline => DialError::Full,
                    cut => DialError::Cut(cut),
                })?;
                attempt(hold, guard, limit).await
            }
            (last, _) => Err(last),
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
}

/// Connects to one endpoint.
async fn attempt(hold: Hold, guard: &Guard, limit: Duration) -> Result<Dialled, DialError> {
    guard.phase(limit);
    let failed = |error| DialError::Failed { endpoint: hold.endpoint.label.clone(), error };
    match guard.within(dial_place(&hold.endpoint.place, guard.clock())).await {
        Ok(Ok(socket)) => Ok(Dialled { socket, hold }),
        Ok(Err(error)) => Err(failed(error)),
        Err(Cut::Deadline) => Err(failed(io::ErrorKind::TimedOut.into())),
        Err(cut) => Err(DialError::Cut(cut)),
    }
}

async fn dial_place(place: &Place, clock: &Clock) -> io::Result<Socket> {
    match place {
        Place::Ip(address) => dial(&Target::Tcp(*address)).await,
        Place::Unix(path) => dial_unix(&Target::Unix(path.clone()), clock).await,
        Place::Name(name) => dial_name(name).await,
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
