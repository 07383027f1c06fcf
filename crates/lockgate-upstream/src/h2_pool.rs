//! The HTTP/2 connections to one endpoint that one worker's requests share, and the dials of new
//! ones.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_http_io::h2::{MOST, SharedConnection, UpstreamStream};
use lockgate_limits::clock::{Cut, Guard};
use lockgate_net::millis::Millis;
use lockgate_net::reactor;
use lockgate_net::stream::Stream;
use lockgate_rules::IdleSettings;
use tokio::sync::Notify;

use super::connection_usage::ConnectionUsage;
use super::{DialError, Endpoint, EndpointFailure, Pool, UpstreamBuffers, WorkerSockets};

/// Which connections a request may reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReusePolicy {
    /// Any that is not known to be closed.
    Any,
    /// One that the kernel says is alive: for requests that must not be sent twice.
    Alive,
    /// None; of shared ones, one that was made after this moment.
    New(Instant),
}

/// The HTTP/2 connections of one worker to one endpoint.
#[derive(Debug)]
pub(super) struct H2Pool {
    /// In the order of use: the first with room is taken, so that superfluous ones become idle.
    connections: RefCell<Vec<Rc<SharedConnection>>>,
    dials: RefCell<Vec<Rc<Dialling>>>,
    /// The most open requests on the last connection.
    max_streams: Cell<usize>,
    /// Whether no configuration that runs has the endpoint.
    retired: Cell<bool>,
}

/// A connection that is being made, for all requests that wait for it.
#[derive(Debug, Default)]
struct Dialling {
    waiting: Cell<usize>,
    done: RefCell<Option<Result<(), DialError>>>,
    told: Notify,
}

/// A request that waits for a connection, counted until this is dropped.
struct Waiter<'a>(&'a Cell<usize>);

impl<'a> Waiter<'a> {
    fn begin(waiting: &'a Cell<usize>) -> Self {
        waiting.set(waiting.get() + 1);
        Self(waiting)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A stream on a shared connection.
#[derive(Debug)]
pub(super) struct LeasedStream {
    pub(super) stream: Box<UpstreamStream>,
    /// The use of the connection before; that of a new one where a new one was wanted.
    pub(super) usage: ConnectionUsage,
}

impl Default for H2Pool {
    fn default() -> Self {
        Self {
            connections: RefCell::default(),
            dials: RefCell::default(),
            max_streams: Cell::new(MOST),
            retired: Cell::new(false),
        }
    }
}

impl H2Pool {
    /// Reserves a stream on a connection, if one has room and may have a further request. A new one
    /// has its first request however strict the settings are: otherwise the waiting requests would
    /// make connections without end.
    pub(super) fn reserve(
        &self,
        reuse: ReusePolicy,
        idle_settings: IdleSettings,
        now: Millis,
    ) -> Option<LeasedStream> {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|one| !one.is_closed());
        connections.iter().find_map(|one| {
            let usage = usage_of(one);
            if usage.requests > 0 {
                close_worn(one, idle_settings, now);
            }
            let usable = match reuse {
                ReusePolicy::Any => true,
                ReusePolicy::Alive => one.is_quiet_now(),
                ReusePolicy::New(since) => one.ready_at() > since,
            };
            let stream = if usable {
                UpstreamStream::open(one)?
            } else {
                return None;
            };
            // It may be the last.
            close_worn(one, idle_settings, now);
            if self.retired.get() {
                one.close_when_idle();
            }
            let usage = if matches!(reuse, ReusePolicy::New(_)) {
                ConnectionUsage::new(now)
            } else {
                usage
            };
            Some(LeasedStream {
                stream: Box::new(stream),
                usage,
            })
        })
    }

    /// Waits for one more connection, which is dialled unless a dial is under way; returns whether
    /// this has started the dial.
    ///
    /// # Errors
    /// When the dial fails, or the wait was cut.
    pub(super) async fn wait_for_connection(
        self: &Rc<Self>,
        pool: &Arc<Pool>,
        endpoint: &Arc<Endpoint>,
        (buffers, sockets): (&UpstreamBuffers, &Rc<WorkerSockets>),
        guard: &Guard,
        connect: Duration,
    ) -> Result<bool, DialError> {
        let joined = self
            .dials
            .borrow()
            .iter()
            .find(|dial| dial.waiting.get() < self.max_streams.get())
            .cloned();
        let first = joined.is_none();
        let dial = joined.unwrap_or_else(|| {
            let dial = Rc::new(Dialling::default());
            self.dials.borrow_mut().push(Rc::clone(&dial));
            let made = Rc::clone(self).connect(
                Arc::clone(pool),
                Arc::clone(endpoint),
                (buffers.clone(), Rc::clone(sockets)),
                guard.watch_another(),
                connect,
                Rc::clone(&dial),
            );
            reactor::spawn(made);
            dial
        });
        let _waiting = Waiter::begin(&dial.waiting);
        let made = async {
            loop {
                if let Some(made) = &*dial.done.borrow() {
                    return made.as_ref().copied().map_err(DialError::clone);
                }
                dial.told.notified().await;
            }
        };
        let waited = guard.within(made).await;
        waited.map_err(DialError::Cut)?.map(|()| first)
    }

    /// Makes a connection, wakes the waiting requests, and drives it.
    async fn connect(
        self: Rc<Self>,
        pool: Arc<Pool>,
        endpoint: Arc<Endpoint>,
        (buffers, sockets): (UpstreamBuffers, Rc<WorkerSockets>),
        guard: Guard,
        connect: Duration,
        dial: Rc<Dialling>,
    ) {
        let made = async {
            let wait_budget = pool.wait_budget();
            let mut permit = endpoint.count_connection();
            permit.set_socket(sockets.take(&guard, &wait_budget).await?);
            let dialled = pool
                .attempt(permit, &sockets, (&guard, &wait_budget), connect, &[])
                .await?;
            let stream = Stream::new(dialled.socket, dialled.session, Vec::new());
            guard.begin_phase(connect);
            let now = guard.clock().now();
            let buffers = (&buffers.blocks, &buffers.http2);
            let begun = guard
                .within(SharedConnection::handshake(stream, buffers, now))
                .await;
            let begun = match begun {
                Ok(begun) => begun,
                Err(Cut::Deadline) => Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the endpoint sent no HTTP/2 SETTINGS that allow a request in time",
                )),
                Err(cut) => return Err(DialError::Cut(cut)),
            };
            begun
                .map(|(shared, driver)| (shared, driver, dialled.permit))
                .map_err(|error| {
                    pool.failed(
                        &endpoint,
                        EndpointFailure::Unreachable,
                        &error,
                        guard.clock().now(),
                    );
                    DialError::Failed {
                        endpoint: endpoint.label.clone(),
                        error: Arc::new(error),
                    }
                })
        };
        let made = made.await;
        drop(guard);
        self.dials
            .borrow_mut()
            .retain(|one| !Rc::ptr_eq(one, &dial));
        let told = made.as_ref().map(|_| ()).map_err(DialError::clone);
        let driven = made.ok().map(|(shared, driver, permit)| {
            self.max_streams.set(shared.max_streams().max(1));
            if self.retired.get() && dial.waiting.get() == 0 {
                shared.close_when_idle();
            }
            self.connections.borrow_mut().push(shared);
            (driver, permit)
        });
        dial.done.replace(Some(told));
        dial.told.notify_waiters();
        drop((pool, dial));
        if let Some((driver, _permit)) = driven {
            driver.run().await;
            // The socket is dropped before its permit.
            self.connections.borrow_mut().retain(|one| !one.is_closed());
        }
    }

    /// Since when the longest idle connection is idle; the maximum before the first check.
    pub(super) fn oldest(&self) -> Option<Millis> {
        self.connections
            .borrow()
            .iter()
            .filter_map(|one| one.idle_since())
            .min()
    }

    /// Closes the longest idle connection.
    pub(super) fn close_oldest(&self) {
        let connections = self.connections.borrow();
        let idle = connections
            .iter()
            .filter_map(|one| Some((one.idle_since()?, one)));
        if let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) {
            oldest.close_when_idle();
        }
    }

    /// Lets every connection close after its open requests, and those that are made from now on
    /// after their first ones.
    pub(super) fn retire(&self) {
        self.retired.set(true);
        self.close_all_when_idle();
    }

    /// Lets every connection close after its open requests.
    pub(super) fn close_all_when_idle(&self) {
        let connections = self.connections.borrow();
        connections.iter().for_each(|one| one.close_when_idle());
    }

    /// The number of idle connections, and of all.
    pub(super) fn count(&self) -> (usize, usize) {
        let connections = self.connections.borrow();
        (
            connections.iter().filter(|one| one.is_idle()).count(),
            connections.len(),
        )
    }

    /// Checks all connections, and closes superfluous ones: see
    /// [`SharedConnection::check_liveness`].
    pub(super) fn close_stale(&self, idle_settings: IdleSettings, now: Millis) {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|one| !one.is_closed());
        let mut idle = 0;
        for one in &*connections {
            one.check_liveness(now);
            // A new one stays for the request that it was made for, however short its lifetime.
            let lifetime = idle_settings.lifetime.filter(|_| one.requests_made() > 0);
            close_worn(
                one,
                IdleSettings {
                    lifetime,
                    ..idle_settings
                },
                now,
            );
            idle += usize::from(one.is_idle());
            if one.is_idle() && idle > idle_settings.max {
                one.close_when_idle();
            }
        }
    }
}

/// Lets a connection that may have no further request close after the open ones.
fn close_worn(one: &SharedConnection, idle_settings: IdleSettings, now: Millis) {
    if !usage_of(one).allows_request(idle_settings, now) {
        one.close_when_idle();
    }
}

fn usage_of(one: &SharedConnection) -> ConnectionUsage {
    ConnectionUsage {
        connected_at: one.connected_at(),
        idle_since: one.idle_since().unwrap_or(Millis::MAX),
        requests: one.requests_made(),
    }
}
