//! The sockets towards endpoints of one worker: the place that each has among the process's, and
//! which idle ones give way.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::{DialError, Patience};
use crate::boxed::boxed;
use crate::clients::ClientAccount;
use crate::clock::{Clock, Cut, Guard};
use crate::limits::Permit;
use crate::limits::sockets::{SocketLimit, SocketShare};
use crate::preemption::end_stalled_exchanges;

/// The sockets of one worker.
pub struct Slots {
    process: Arc<SocketLimit>,
    worker: usize,
    idle: Cell<usize>,
    keepers: RefCell<Vec<Weak<dyn Keeper>>>,
}

/// What keeps idle sockets for later.
pub trait Keeper {
    /// Since when the one is idle that has been longest, in milliseconds of the clock.
    fn oldest(&self) -> Option<u64>;

    /// Closes that one.
    fn close_oldest(&self);
}

/// The place of one socket, until this is dropped: after the socket.
#[derive(Debug)]
pub struct Slot {
    slots: Rc<Slots>,
    idle: Cell<bool>,
    _permit: Permit,
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

impl Slots {
    /// Those of the worker with this number, without any.
    pub fn new(process: Arc<SocketLimit>, worker: usize) -> Rc<Self> {
        Rc::new(Self {
            process,
            worker,
            idle: Cell::new(0),
            keepers: RefCell::default(),
        })
    }

    /// Has what `keeper` keeps give way too.
    pub fn register(&self, keeper: Weak<dyn Keeper>) {
        let mut keepers = self.keepers.borrow_mut();
        // Those of clients that have left are forgotten before the list grows.
        if keepers.len() == keepers.capacity() {
            keepers.retain(|keeper| keeper.strong_count() > 0);
        }
        keepers.push(keeper);
    }

    /// Whether a request or relay waits for a socket, of whichever worker.
    pub fn are_wanted(&self) -> bool {
        self.process.wanted() > 0
    }

    /// Closes idle ones for those that wait; where that are too few, ends exchanges of the worker's
    /// `clock` that stand still.
    pub fn answer(&self, clock: &Clock) {
        if self.process.asked() > 0 {
            self.give_way(|| self.process.choose());
        }
        if self.process.asked() > 0 {
            let ended = end_stalled_exchanges(clock, || self.process.choose());
            self.process.preempt(ended);
        }
    }

    /// Closes idle ones, the longest idle first, while there are some and they are `wanted`; says
    /// how many.
    fn give_way(&self, mut wanted: impl FnMut() -> bool) -> usize {
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

    /// Closes the longest idle ones for those that wait, or where this worker has too few, has the
    /// others look.
    fn relieve(&self, clock: &Clock) {
        self.answer(clock);
        if self.process.asked() > 0 {
            self.process.wake();
        }
    }

    fn slot(self: &Rc<Self>, permit: Permit) -> Slot {
        Slot {
            slots: Rc::clone(self),
            idle: Cell::new(false),
            _permit: permit,
        }
    }

    /// A place for one more socket now; none while others wait for one.
    pub fn try_take(self: &Rc<Self>) -> Option<Slot> {
        self.process.try_take().map(|permit| self.slot(permit))
    }

    /// A place for one more socket. Where there is none, idle ones give way, and it is waited for.
    ///
    /// # Errors
    /// When there is none in time, or the connection was cut.
    pub async fn take(
        self: &Rc<Self>,
        guard: &Guard,
        patience: &Patience,
    ) -> Result<Slot, DialError> {
        match self.try_take() {
            Some(slot) => Ok(slot),
            None => boxed(|| self.wait(guard, patience)).await,
        }
    }

    async fn wait(self: &Rc<Self>, guard: &Guard, patience: &Patience) -> Result<Slot, DialError> {
        let place = self
            .process
            .take(guard.clock(), || self.relieve(guard.clock()));
        patience
            .within(guard, place)
            .await
            .map(|permit| self.slot(permit))
            .map_err(|cut| none_in_time(cut, NO_SOCKET))
    }

    /// Makes room where the system has no descriptor left in spite of a place: closes the longest
    /// idle socket of this worker, or has the others close one by the next tick.
    pub async fn relieve_system(&self, clock: &Clock) {
        let mut wanted = true;
        if self.give_way(|| std::mem::take(&mut wanted)) == 0 {
            let _waiting = self.process.wait();
            self.process.ask();
            self.process.wake();
            clock.next_tick().await;
        }
    }

    /// The same for who waits: whether it is worth another try.
    pub(crate) async fn make_room(&self, guard: &Guard, patience: &Patience) -> Result<bool, Cut> {
        match patience
            .within(guard, self.relieve_system(guard.clock()))
            .await
        {
            Ok(()) => Ok(!patience.left().is_zero()),
            Err(Cut::Deadline) => Ok(false),
            Err(cut) => Err(cut),
        }
    }

    /// What one more socket takes of a client's share, unless that is to be waited for; nothing
    /// where there is no `account`, or the client is exempt.
    ///
    /// # Errors
    /// The client's account, if its share allows no more now.
    pub fn try_share<'a>(
        &self,
        account: Option<&'a Arc<ClientAccount>>,
    ) -> Result<Option<SocketShare>, &'a Arc<ClientAccount>> {
        match account.filter(|account| !account.is_exempt()) {
            None => Ok(None),
            Some(account) => self.process.try_share(account).map(Some).ok_or(account),
        }
    }

    /// Waits until its share allows a client one more.
    ///
    /// # Errors
    /// When it does not in time, or the connection was cut.
    pub async fn share(
        &self,
        account: &Arc<ClientAccount>,
        guard: &Guard,
        patience: &Patience,
    ) -> Result<SocketShare, DialError> {
        let share = self.process.share(account, guard.clock());
        patience
            .within(guard, share)
            .await
            .map_err(|cut| none_in_time(cut, NO_SHARE))
    }

    fn rest(&self, idle: usize) {
        self.idle.set(idle);
        self.process.rest(self.worker, idle);
    }
}

const NO_SOCKET: &str = "no socket towards endpoints became free in time";
const NO_SHARE: &str =
    "the client has its share of sockets towards endpoints, and none became free in time";

fn none_in_time(cut: Cut, said: &'static str) -> DialError {
    match cut {
        Cut::Deadline => DialError::Exhausted(Arc::new(io::Error::other(said))),
        cut => DialError::Cut(cut),
    }
}

impl Slot {
    /// Whose it is.
    pub fn slots(&self) -> &Rc<Slots> {
        &self.slots
    }

    /// No request uses the socket from now on.
    pub(super) fn rests(&self) {
        if !self.idle.replace(true) {
            self.slots.rest(self.slots.idle.get() + 1);
        }
    }

    /// A request uses it again.
    pub(super) fn works(&self) {
        if self.idle.replace(false) {
            self.slots.rest(self.slots.idle.get() - 1);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.works();
    }
}

#[cfg(test)]
mod tests;
