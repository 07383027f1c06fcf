//! The sockets of one worker towards endpoints: their permits of the process, and the idle ones
//! that are closed for others.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lockgate_limits::box_future::boxed;
use lockgate_limits::clients::ClientAccount;
use lockgate_limits::clock::{Clock, Cut, Guard};
use lockgate_limits::preemption::end_stalled_exchanges;
use lockgate_limits::sockets::{SocketLimit, SocketShare};
use lockgate_limits::{Permit, WorkerIndex};
use lockgate_net::millis::Millis;

use super::{DialError, WaitBudget};

/// The sockets of one worker towards endpoints.
pub struct WorkerSockets {
    process: Arc<SocketLimit>,
    worker: WorkerIndex,
    idle: Cell<usize>,
    keepers: RefCell<Vec<Weak<dyn IdleSockets>>>,
}

/// A holder of idle sockets.
pub(crate) trait IdleSockets {
    /// Since when the longest idle socket is idle.
    fn oldest(&self) -> Option<Millis>;

    /// Closes the longest idle socket.
    fn close_oldest(&self);

    /// Closes the idle sockets of members that an operator has taken out of their pools.
    fn close_administered(&self);
}

/// The permit for one socket of the process. It is dropped after the socket.
#[derive(Debug)]
pub struct SocketPermit {
    sockets: Rc<WorkerSockets>,
    idle: Cell<bool>,
    _permit: Permit,
}

impl fmt::Debug for WorkerSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSockets")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

impl WorkerSockets {
    /// The sockets of the worker with this index, none yet.
    pub fn new(process: Arc<SocketLimit>, worker: WorkerIndex) -> Rc<Self> {
        Rc::new(Self {
            process,
            worker,
            idle: Cell::new(0),
            keepers: RefCell::default(),
        })
    }

    /// Registers another holder of idle sockets.
    pub(crate) fn register(&self, keeper: Weak<dyn IdleSockets>) {
        let mut keepers = self.keepers.borrow_mut();
        // Holders of clients that have left are removed before the list grows.
        if keepers.len() == keepers.capacity() {
            keepers.retain(|keeper| keeper.strong_count() > 0);
        }
        keepers.push(keeper);
    }

    /// Whether a request or relay of any worker waits for a socket, or fewer are allowed than there
    /// are.
    pub(crate) fn are_wanted(&self) -> bool {
        self.process.wanted() > 0
    }

    /// Closes idle sockets for waiting requests; where these are too few, ends stalled exchanges of
    /// the worker's `clock`.
    pub fn yield_sockets(&self, clock: &Clock) {
        if self.process.asks_idle() {
            self.give_way(|| self.process.choose_idle());
        }
        if self.process.asked() > 0 {
            let ended = end_stalled_exchanges(clock, || self.process.choose());
            self.process.preempt(ended);
        }
    }

    /// Closes idle sockets, the longest idle first, while they are `wanted`; returns how many.
    fn give_way(&self, mut wanted: impl FnMut() -> bool) -> usize {
        let keepers = self.keepers();
        let oldest = || {
            keepers
                .iter()
                .filter_map(|keeper| Some((keeper.oldest()?, keeper)))
        };
        let mut closed = 0;
        while let Some((_, keeper)) = oldest().min_by_key(|(since, _)| *since)
            && wanted()
        {
            keeper.close_oldest();
            closed += 1;
        }
        self.process.give_way(closed);
        closed
    }

    /// The holders of idle sockets that are left.
    fn keepers(&self) -> Vec<Rc<dyn IdleSockets>> {
        let mut keepers = Vec::new();
        self.keepers
            .borrow_mut()
            .retain(|keeper| match keeper.upgrade() {
                Some(keeper) => {
                    keepers.push(keeper);
                    true
                }
                None => false,
            });
        keepers
    }

    /// Closes the idle connections to endpoints that an operator has taken out of their pools.
    pub fn close_administered(&self) {
        let keepers = self.keepers();
        keepers
            .iter()
            .for_each(|keeper| keeper.close_administered());
    }

    /// Closes the longest idle sockets for waiting requests, and where this worker has too few,
    /// wakes the others.
    fn relieve(&self, clock: &Clock) {
        self.yield_sockets(clock);
        if self.process.asked() > 0 {
            self.process.wake();
        }
    }

    fn socket_permit(self: &Rc<Self>, permit: Permit) -> SocketPermit {
        SocketPermit {
            sockets: Rc::clone(self),
            idle: Cell::new(false),
            _permit: permit,
        }
    }

    /// Takes a permit for one more socket; none while others wait for one.
    pub fn try_take(self: &Rc<Self>) -> Option<SocketPermit> {
        self.process
            .try_take()
            .map(|permit| self.socket_permit(permit))
    }

    /// Takes a permit for one more socket. Where there is none, closes idle sockets and waits.
    ///
    /// # Errors
    /// When there is none in time, or the connection was cut.
    pub async fn take(
        self: &Rc<Self>,
        guard: &Guard,
        wait_budget: &WaitBudget,
    ) -> Result<SocketPermit, DialError> {
        match self.try_take() {
            Some(socket_permit) => Ok(socket_permit),
            None => boxed(|| self.wait(guard, wait_budget)).await,
        }
    }

    async fn wait(
        self: &Rc<Self>,
        guard: &Guard,
        wait_budget: &WaitBudget,
    ) -> Result<SocketPermit, DialError> {
        let permit = self
            .process
            .take(guard.clock(), || self.relieve(guard.clock()));
        wait_budget
            .within(guard, permit)
            .await
            .map(|permit| self.socket_permit(permit))
            .map_err(|cut| none_in_time(cut, NO_SOCKET))
    }

    /// Frees a descriptor where the system has none in spite of a permit: closes the longest idle
    /// socket of this worker, or has the others close one by the next tick.
    pub async fn free_descriptor(&self, clock: &Clock) {
        let mut wanted = true;
        if self.give_way(|| std::mem::take(&mut wanted)) == 0 {
            let _waiting = self.process.wait();
            self.process.ask();
            self.process.wake();
            clock.next_tick().await;
        }
    }

    /// The same within a request's budget: returns whether time is left for another attempt.
    pub async fn make_room(&self, guard: &Guard, wait_budget: &WaitBudget) -> Result<bool, Cut> {
        match wait_budget
            .within(guard, self.free_descriptor(guard.clock()))
            .await
        {
            Ok(()) => Ok(!wait_budget.left().is_zero()),
            Err(Cut::Deadline) => Ok(false),
            Err(cut) => Err(cut),
        }
    }

    /// Takes a part of the client's share for one more socket; none without `account`, or where the
    /// client is exempt.
    ///
    /// # Errors
    /// The client's account, if its share is used up: then it is to be waited for.
    pub fn try_share<'a>(
        &self,
        account: Option<&'a Arc<ClientAccount>>,
    ) -> Result<Option<SocketShare>, &'a Arc<ClientAccount>> {
        match account.filter(|account| !account.is_exempt()) {
            None => Ok(None),
            Some(account) => self.process.try_share(account).map(Some).ok_or(account),
        }
    }

    /// Waits until the client's share has room for one more socket.
    ///
    /// # Errors
    /// When it has none in time, or the connection was cut.
    pub async fn wait_for_share(
        &self,
        account: &Arc<ClientAccount>,
        guard: &Guard,
        wait_budget: &WaitBudget,
    ) -> Result<SocketShare, DialError> {
        let share = self.process.share(account, guard.clock());
        wait_budget
            .within(guard, share)
            .await
            .map_err(|cut| none_in_time(cut, NO_SHARE))
    }

    fn set_idle_count(&self, idle: usize) {
        self.idle.set(idle);
        self.process.rest(self.worker, idle);
    }
}

const NO_SOCKET: &str = "no socket towards endpoints became free in time";
const NO_SHARE: &str =
    "the client uses its whole share of sockets towards endpoints, and none became free in time";

fn none_in_time(cut: Cut, said: &'static str) -> DialError {
    match cut {
        Cut::Deadline => DialError::Exhausted(Arc::new(io::Error::other(said))),
        cut => DialError::Cut(cut),
    }
}

impl SocketPermit {
    /// The worker's sockets.
    pub fn sockets(&self) -> &Rc<WorkerSockets> {
        &self.sockets
    }

    /// Notes that no request uses the socket from now on.
    pub(super) fn set_idle(&self) {
        if !self.idle.replace(true) {
            self.sockets.set_idle_count(self.sockets.idle.get() + 1);
        }
    }

    /// Notes that a request uses the socket again.
    pub(super) fn set_busy(&self) {
        if self.idle.replace(false) {
            self.sockets.set_idle_count(self.sockets.idle.get() - 1);
        }
    }
}

impl Drop for SocketPermit {
    fn drop(&mut self) {
        self.set_busy();
    }
}

#[cfg(test)]
mod tests;
