//! Connections of HTTP/2 to one endpoint that one worker's requests share, and those that are being
//! made.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::stream::{Blocks, Stream};
use lockgate_rules::IdleSettings;
use tokio::sync::Notify;

use super::{DialError, Endpoint, Failure, Pool, Slots};
use crate::clock::{Cut, Guard, millis};
use crate::h2::{Call, MOST, Shared};

/// Which connection is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Any that is not known to be dead.
    Any,
    /// One of which the kernel says that it lives: for what must not be sent twice.
    Certain,
    /// A new one; of those that are shared, one that was made after this moment.
    New(Instant),
}

/// The connections to one endpoint.
#[derive(Debug)]
pub(super) struct Sharing {
    /// The first with room is taken, so that those that are too many grow old.
    connections: RefCell<Vec<Rc<Shared>>>,
    dials: RefCell<Vec<Rc<Dialling>>>,
    /// Requests at once that the endpoint took on the last one.
    most: Cell<usize>,
}

/// A connection that is being made, for all who wait for it.
#[derive(Debug, Default)]
struct Dialling {
    waiting: Cell<usize>,
    done: RefCell<Option<Result<(), DialError>>>,
    told: Notify,
}

/// A request that waits for a connection, also when it gives up.
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

/// A place on a connection.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) call: Box<Call>,
    /// Requests that the connection had before; none where a new one was wanted.
    pub(super) requests: u64,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            connections: RefCell::default(),
            dials: RefCell::default(),
            most: Cell::new(MOST),
        }
    }
}

impl Sharing {
    /// A place on a connection, if one has room.
    pub(super) fn place(&self, wanted: Wanted, idle_settings: IdleSettings) -> Option<Place> {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|one| !one.is_over());
        connections.iter().find_map(|one| {
            let usable = match wanted {
                Wanted::Any => true,
                Wanted::Certain => one.is_quiet_now(),
                Wanted::New(since) => one.made_at() > since,
            };
            let requests = one.asked();
            let call = if usable {
                Call::on(one, idle_settings.requests)?
            } else {
                return None;
            };
            let requests = if matches!(wanted, Wanted::New(_)) {
                0
            } else {
                requests
            };
            Some(Place {
                call: Box::new(call),
                requests,
            })
        })
    }

    /// Waits until a connection more is there, which is dialled unless one is being already; says
    /// whether this was the first who waits for it.
    ///
    /// # Errors
    /// When it could not be made, or the wait was cut.
    pub(super) async fn another(
        self: &Rc<Self>,
        pool: &Arc<Pool>,
        endpoint: &Arc<Endpoint>,
        (blocks, slots): (&Rc<Blocks>, &Rc<Slots>),
        guard: &Guard,
        connect: Duration,
    ) -> Result<bool, DialError> {
        let joined = self
            .dials
            .borrow()
            .iter()
            .find(|dial| dial.waiting.get() < self.most.get())
            .cloned();
        let first = joined.is_none();
        let dial = joined.unwrap_or_else(|| {
            let dial = Rc::new(Dialling::default());
            self.dials.borrow_mut().push(Rc::clone(&dial));
            let made = Rc::clone(self).make(
                Arc::clone(pool),
                Arc::clone(endpoint),
                (Rc::clone(blocks), Rc::clone(slots)),
                guard.another(),
                connect,
                Rc::clone(&dial),
            );
            tokio::task::spawn_local(made);
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

    /// Makes a connection, tells who waits, and drives it.
    async fn make(
        self: Rc<Self>,
        pool: Arc<Pool>,
        endpoint: Arc<Endpoint>,
        (blocks, slots): (Rc<Blocks>, Rc<Slots>),
        guard: Guard,
        connect: Duration,
        dial: Rc<Dialling>,
    ) {
        // Its bytes are nobody's: those of the requests are counted with their clients.
        guard.watch().listener.set(None);
        let made = async {
            let patience = pool.patience();
            let hold = endpoint
                .count()
                .in_slot(slots.take(&guard, &patience).await?);
            let dialled = pool
                .attempt(hold, &slots, (&guard, &patience), connect, &[])
                .await?;
            let stream = Stream::new(dialled.socket, dialled.session, Vec::new());
            guard.phase(connect);
            let begun = guard.within(Shared::begin(stream, &blocks)).await;
            let begun = match begun {
                Ok(begun) => begun,
                Err(Cut::Deadline) => Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no HTTP/2: no SETTINGS in time",
                )),
                Err(cut) => return Err(DialError::Cut(cut)),
            };
            begun
                .map(|(shared, driver)| (shared, driver, dialled.hold))
                .map_err(|error| {
                    pool.failed(&endpoint, Failure::Unreachable, &error, guard.clock().now());
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
        let driven = made.ok().map(|(shared, driver, hold)| {
            self.most.set(shared.most().max(1));
            self.connections.borrow_mut().push(shared);
            (driver, hold)
        });
        dial.done.replace(Some(told));
        dial.told.notify_waiters();
        drop((pool, dial));
        if let Some((driver, _hold)) = driven {
            driver.run().await;
            // Its socket before its place.
            self.connections.borrow_mut().retain(|one| !one.is_over());
        }
    }

    /// Since when the connection is idle that has been longest; the end of time where that was not
    /// looked at yet.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.connections
            .borrow()
            .iter()
            .filter_map(|one| one.idle_since())
            .min()
    }

    /// Closes that connection.
    pub(super) fn close_oldest(&self) {
        let connections = self.connections.borrow();
        let idle = connections
            .iter()
            .filter_map(|one| Some((one.idle_since()?, one)));
        if let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) {
            oldest.leave();
        }
    }

    /// Connections on which nothing was asked, and all of them.
    pub(super) fn count(&self) -> (usize, usize) {
        let connections = self.connections.borrow();
        (
            connections.iter().filter(|one| one.is_idle()).count(),
            connections.len(),
        )
    }

    /// Looks after all of them: see [`Shared::look`].
    pub(super) fn tidy(&self, idle_settings: IdleSettings, now: u64) {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|one| !one.is_over());
        let mut idle = 0;
        for one in &*connections {
            one.look(now, millis(idle_settings.age));
            idle += usize::from(one.is_idle());
            if one.is_idle() && idle > idle_settings.max {
                one.leave();
            }
        }
    }
}
